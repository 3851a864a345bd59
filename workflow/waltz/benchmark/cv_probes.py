"""CV-Probes: which captions stand, contextual ones by grammaticality, plain ones by review and people's checks."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from waltz.benchmark.people.writing import YES_NO
from waltz.core.errors import UserError
from waltz.filters.ranking import READS_WORSE
from waltz.foils.candidates import Refused
from waltz.foils.cv_probes.conditions import conditions
from waltz.foils.cv_probes.contextual_captions import best
from waltz.foils.cv_probes.plain_captions import reviewed, simplified
from waltz.foils.english.parsing import parse
from waltz.foils.english.wordnet import Verb
from waltz.sources.raw_files import read_csv_records

SAME_CAPTION = "another annotation gives the same caption"
IMAGE_NOT_IN_STUDY = "its image is not among those of the study"
NO_CONTEXTUAL_CAPTION = "its image has no contextual caption"
NO_PLAIN_IMAGE = "no plain image is named"
UNDECIDED = "nobody can say whether its plain image fits"
CAPTION_NOT_SHOWN = "its plain image does not show what it says"
ACTION_SHOWN = "its plain image shows the action"

WRITTEN_COLUMNS = ("image", "annotator", "caption", "plain_image")
CHECK_COLUMNS = ("image", "caption", "annotator", "answer")
YES, NO = YES_NO

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]
Answers = Mapping[tuple[str, str], Sequence[str]]


def read_written_captions(path: str | Path, images: Mapping[str, str]) -> Rows:
    """Plain captions of a CSV file with the columns `WRITTEN`; plain_image may be empty.

    Args:
        path: The file.
        images: The verb of each image of the study.
    Returns:
        Rows of image, verb, writer, caption and plain_image; the verb is empty for an image that is not the study's.
    Raises:
        UserError: A column is missing.
    """
    return [
        {
            "image": record["image"],
            "verb": images.get(record["image"], ""),
            "writer": record["annotator"],
            "caption": record["caption"],
            "plain_image": record["plain_image"].strip() or None,
        }
        for _, record in read_csv_records(path, required=WRITTEN_COLUMNS)
    ]


def read_checks(path: str | Path) -> dict[tuple[str, str], list[str]]:
    """Answers by image and caption, of a CSV file with the columns `CHECKED`.

    Raises:
        UserError: A column is missing, an answer is neither yes nor no, or an annotator answered twice.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    for line, record in read_csv_records(path, required=CHECK_COLUMNS):
        if record["answer"] not in YES_NO:
            raise UserError(f"{path}: line {line}: answer {record['answer']!r} is none of {', '.join(YES_NO)}")
        answers = found.setdefault((record["image"], record["caption"]), {})
        if record["annotator"] in answers:
            raise UserError(
                f"{path}: line {line}: annotator {record['annotator']!r} answered this image and caption twice"
            )
        answers[record["annotator"]] = record["answer"]
    return {key: list(answers.values()) for key, answers in found.items()}


def select_contextual_captions(rows: Sequence[Row], grammaticality: Mapping[str, float]) -> Rows:
    """The contextual captions, scored; all but the most grammatical of each image are rejected.

    Args:
        rows: Contextual rows of the layout `PROBE_CAPTIONS`.
        grammaticality: Score of each caption.
    """
    scored = [{**row, "grammaticality": grammaticality[row["caption"]] if row["caption"] else None} for row in rows]
    by_image: dict[str, Rows] = {}
    for row in scored:
        if row["rejected"] is None:
            by_image.setdefault(row["image"], []).append(row)
    for made in by_image.values():
        texts = list(dict.fromkeys(row["caption"] for row in made))
        kept = texts[best(texts, lambda given: [grammaticality[text] for text in given])]
        for row in made:
            row["rejected"] = READS_WORSE
        same = [row for row in made if row["caption"] == kept]
        for place, row in enumerate(same):
            row["rejected"] = SAME_CAPTION if place else None
    return scored


def list_checks(written: Iterable[Row], contextual: Iterable[Row]) -> list[tuple[str, str]]:
    """Plain images with what is to be checked of each: the plain caption, and the contextual one that must not fit.

    Args:
        written: Rows of image, caption and plain_image.
        contextual: Contextual rows, chosen.
    """
    beside = {row["image"]: row["caption"] for row in contextual if row["rejected"] is None}
    pairs = [
        (row["plain_image"], caption)
        for row in written
        if row["plain_image"] and row["image"] in beside
        for caption in (row["caption"], beside[row["image"]])
    ]
    return list(dict.fromkeys(pairs))


def review_plain_captions(
    written: Sequence[Row],
    contextual: Sequence[Row],
    verbs: Mapping[str, Verb],
    names: Sequence[str],
    answers: Answers | None,
) -> Rows:
    """The written captions, reviewed, cut down, and rejected where what is needed beside them does not hold.

    Args:
        written: Rows of image, verb, writer, caption and plain_image.
        contextual: Contextual rows, chosen.
        verbs: SWiG's verbs by name.
        names: The contextual verbs of the study.
        answers: By plain image and caption, plain or contextual: what people or the oracle say, `yes` or `no`; None
            where nobody was asked.
    Returns:
        Rows of the layout `PROBE_CAPTIONS`.
    """
    known = {row["image"] for row in contextual}
    beside = {row["image"]: row["caption"] for row in contextual if row["rejected"] is None}
    ours = reviewed([row for row in written if row["image"] in known], verbs, names)
    for row in ours:
        row["rejected"] = row["rejected"] or _unusable(row, beside.get(row["image"]), answers)
    others = [{**row, "rejected": IMAGE_NOT_IN_STUDY} for row in written if row["image"] not in known]
    numbers: Counter[str] = Counter()
    rows = []
    for row, doc in zip([*ours, *others], parse(row["caption"] for row in [*ours, *others]), strict=True):
        short = simplified(doc)
        rows.append(
            {
                **row,
                "caption_id": f"plain:{row['image']}#{numbers[row['image']]}",
                "kind": "plain",
                "simplified": None if isinstance(short, Refused) else short,
                "not_simplified": short.reason if isinstance(short, Refused) else None,
            }
        )
        numbers[row["image"]] += 1
    return rows


def _unusable(row: Row, contextual: str | None, answers: Answers | None) -> str | None:
    image = row["plain_image"]
    if contextual is None:
        return NO_CONTEXTUAL_CAPTION
    if image is None:
        return NO_PLAIN_IMAGE
    if answers is None:
        return None
    shown, action = answers.get((image, row["caption"])), answers.get((image, contextual))
    if not shown or not action:
        return UNDECIDED
    if 2 * shown.count(YES) <= len(shown):
        return CAPTION_NOT_SHOWN
    return ACTION_SHOWN if 2 * action.count(NO) <= len(action) else None


def build_conditions(captions: Iterable[Row], verbs: Mapping[str, Verb]) -> Rows:
    """The conditions of both forms, from the captions that are not rejected.

    Args:
        captions: Rows of the layout `PROBE_CAPTIONS`.
        verbs: SWiG's verbs by name.
    Returns:
        Rows of the layout `CONDITIONS`.
    """
    used = [row for row in captions if row["rejected"] is None]
    rows = []
    for form, column in (("original", "caption"), ("simplified", "simplified")):
        texts = [{**row, "caption": row[column]} for row in used if row[column] is not None]
        contextual, plain = ([row for row in texts if row["kind"] == kind] for kind in ("contextual", "plain"))
        rows += conditions(contextual, plain, verbs, form)
    return rows


def count_rejections(captions: Iterable[Row]) -> dict[str, dict[str, int]]:
    """How many captions of each kind were rejected for which reason, the most frequent first, and how many are kept."""
    counts: dict[str, Counter[str]] = {}
    for row in captions:
        counts.setdefault(row["kind"], Counter())[row["rejected"] or "kept"] += 1
    return {
        kind: dict(sorted(found.items(), key=lambda entry: (-entry[1], entry[0]))) for kind, found in counts.items()
    }
