"""CV-Probes: selection of captions, contextual ones by grammaticality, plain ones by review and people's checks."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from waltz.benchmark.people.writing import YES_NO
from waltz.core.errors import UserError
from waltz.filters.pipeline import READS_WORSE
from waltz.foils.candidates import Refusal
from waltz.foils.cv_probes import build_condition_rows, review_captions, select_best, simplify_caption
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
    """Read plain captions from a CSV file with the columns `WRITTEN`; plain_image may be empty.

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
    """Read answers by image and caption from a CSV file with the columns `CHECKED`.

    Raises:
        UserError: A column is missing, an answer is neither yes nor no, or an annotator answered twice.
    """
    answers_by_pair: dict[tuple[str, str], dict[str, str]] = {}
    for line, record in read_csv_records(path, required=CHECK_COLUMNS):
        if record["answer"] not in YES_NO:
            raise UserError(f"{path}: line {line}: answer {record['answer']!r} is none of {', '.join(YES_NO)}")
        answers = answers_by_pair.setdefault((record["image"], record["caption"]), {})
        if record["annotator"] in answers:
            raise UserError(
                f"{path}: line {line}: annotator {record['annotator']!r} answered this image and caption twice"
            )
        answers[record["annotator"]] = record["answer"]
    return {pair: list(answers.values()) for pair, answers in answers_by_pair.items()}


def select_contextual_captions(rows: Sequence[Row], grammaticality: Mapping[str, float]) -> Rows:
    """Return the contextual captions with scores; all but the most grammatical of each image are rejected.

    Args:
        rows: Contextual rows of the layout `PROBE_CAPTIONS`.
        grammaticality: Score of each caption.
    """
    scored = [{**row, "grammaticality": grammaticality[row["caption"]] if row["caption"] else None} for row in rows]
    by_image: dict[str, Rows] = {}
    for row in scored:
        if row["rejected"] is None:
            by_image.setdefault(row["image"], []).append(row)
    for image_rows in by_image.values():
        captions = list(dict.fromkeys(row["caption"] for row in image_rows))
        best_caption = captions[select_best(captions, lambda texts: [grammaticality[text] for text in texts])]
        for row in image_rows:
            row["rejected"] = READS_WORSE
        best_rows = [row for row in image_rows if row["caption"] == best_caption]
        for index, row in enumerate(best_rows):
            row["rejected"] = SAME_CAPTION if index else None
    return scored


def list_checks(written_rows: Iterable[Row], contextual: Iterable[Row]) -> list[tuple[str, str]]:
    """List the pairs of plain image and caption to check: the plain caption, and the contextual one that must not fit.

    Args:
        written_rows: Rows of image, caption and plain_image.
        contextual: Contextual rows after selection.
    """
    contextual_captions = {row["image"]: row["caption"] for row in contextual if row["rejected"] is None}
    pairs = [
        (row["plain_image"], caption)
        for row in written_rows
        if row["plain_image"] and row["image"] in contextual_captions
        for caption in (row["caption"], contextual_captions[row["image"]])
    ]
    return list(dict.fromkeys(pairs))


def review_plain_captions(
    written_rows: Sequence[Row],
    contextual: Sequence[Row],
    verbs: Mapping[str, Verb],
    names: Sequence[str],
    answers: Answers | None,
) -> Rows:
    """Review and simplify written captions, and reject those whose plain image does not fit.

    Args:
        written_rows: Rows of image, verb, writer, caption and plain_image.
        contextual: Contextual rows after selection.
        verbs: SWiG's verbs by name.
        names: The contextual verbs of the study.
        answers: Answers `yes` or `no` of people or of the oracle, by plain image and caption, plain or contextual;
            None where there are no checks.
    Returns:
        Rows of the layout `PROBE_CAPTIONS`.
    """
    study_images = {row["image"] for row in contextual}
    contextual_captions = {row["image"]: row["caption"] for row in contextual if row["rejected"] is None}
    reviewed_rows = review_captions([row for row in written_rows if row["image"] in study_images], verbs, names)
    for row in reviewed_rows:
        row["rejected"] = row["rejected"] or _find_rejection(row, contextual_captions.get(row["image"]), answers)
    unused_rows = [{**row, "rejected": IMAGE_NOT_IN_STUDY} for row in written_rows if row["image"] not in study_images]
    all_rows = [*reviewed_rows, *unused_rows]
    numbers: Counter[str] = Counter()
    rows = []
    for row, doc in zip(all_rows, parse(row["caption"] for row in all_rows), strict=True):
        short_caption = simplify_caption(doc)
        rows.append(
            {
                **row,
                "caption_id": f"plain:{row['image']}#{numbers[row['image']]}",
                "kind": "plain",
                "simplified": None if isinstance(short_caption, Refusal) else short_caption,
                "not_simplified": short_caption.reason if isinstance(short_caption, Refusal) else None,
            }
        )
        numbers[row["image"]] += 1
    return rows


def _find_rejection(row: Row, contextual: str | None, answers: Answers | None) -> str | None:
    """Return why a plain caption cannot be used, or None."""
    image = row["plain_image"]
    if contextual is None:
        return NO_CONTEXTUAL_CAPTION
    if image is None:
        return NO_PLAIN_IMAGE
    if answers is None:
        return None
    plain_answers, contextual_answers = answers.get((image, row["caption"])), answers.get((image, contextual))
    if not plain_answers or not contextual_answers:
        return UNDECIDED
    if 2 * plain_answers.count(YES) <= len(plain_answers):
        return CAPTION_NOT_SHOWN
    return ACTION_SHOWN if 2 * contextual_answers.count(NO) <= len(contextual_answers) else None


def build_conditions(captions: Iterable[Row], verbs: Mapping[str, Verb]) -> Rows:
    """Build the conditions of both forms from the captions that are not rejected.

    Args:
        captions: Rows of the layout `PROBE_CAPTIONS`.
        verbs: SWiG's verbs by name.
    Returns:
        Rows of the layout `CONDITIONS`.
    """
    usable_rows = [row for row in captions if row["rejected"] is None]
    rows = []
    for form, column in (("original", "caption"), ("simplified", "simplified")):
        texts = [{**row, "caption": row[column]} for row in usable_rows if row[column] is not None]
        contextual, plain = ([row for row in texts if row["kind"] == kind] for kind in ("contextual", "plain"))
        rows += build_condition_rows(contextual, plain, verbs, form)
    return rows


def count_rejections(captions: Iterable[Row]) -> dict[str, dict[str, int]]:
    """Count captions of each kind by reason of rejection, the most frequent first, with those that are kept."""
    counts: dict[str, Counter[str]] = {}
    for row in captions:
        counts.setdefault(row["kind"], Counter())[row["rejected"] or "kept"] += 1
    return {
        kind: dict(sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0]))) for kind, reasons in counts.items()
    }
