"""CV-Probes: selection of captions, contextual ones by grammaticality, plain ones by review and people's checks."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from waltz.benchmark.oracle import answer_checks
from waltz.benchmark.people.writing import YES_NO
from waltz.core.errors import UserError
from waltz.filters.pipeline import READS_WORSE
from waltz.foils.candidates import Refusal
from waltz.foils.cv_probes import build_condition_rows, read_scene_captions, review_captions, simplify_caption
from waltz.foils.english.parsing import parse
from waltz.scenes.oracle import VOTER
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers.files import find_scene
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


def read_plain_captions(inputs: Mapping[str, str], contextual: Sequence[Row]) -> Rows:
    """Return the plain captions that people wrote, or the scenes' own.

    Args:
        inputs: Files by name: `written` or `descriptions`; `contextual` for the error message.
        contextual: Contextual rows of the layout `PROBE_CAPTIONS`.
    """
    if inputs.get("written"):
        return read_written_captions(inputs["written"], {row["image"]: row["verb"] for row in contextual})
    if inputs.get("descriptions"):
        return read_scene_captions(inputs["descriptions"])
    raise UserError(
        "study file: cv_probes.written is missing: people write the plain captions; make their tasks with"
        f" `waltz people export-captions --captions {inputs['contextual']}`, see docs/explanation/foils-actions.md"
    )


def build_probe_captions(
    contextual_rows: Sequence[Row],
    written_rows: Sequence[Row],
    grammaticality: Mapping[str, float],
    checks: str | None,
    scenes: Mapping[str, int] | None,
) -> tuple[Rows, str | None]:
    """Select the contextual captions and review the plain ones.

    Args:
        contextual_rows: Contextual rows of the layout `PROBE_CAPTIONS`.
        written_rows: Rows of image, verb, writer, caption and plain_image.
        grammaticality: Score of each contextual caption.
        checks: CSV file of people's checks; None where there is none.
        scenes: Count and seed of the scenes, whose oracle then answers the checks; None for real images.
    Returns:
        Rows of the layout `PROBE_CAPTIONS`; and who checked the plain images: `people`, `oracle` or None.
    """
    contextual = select_contextual_captions(contextual_rows, grammaticality)
    answers: Answers | None = None
    checker = None
    if checks:
        answers, checker = read_checks(checks), "people"
    elif scenes:
        get_graph = partial(find_scene, graphs=draw_scenes(scenes["count"], scenes["seed"]))
        answers, checker = answer_checks(list_checks(written_rows, contextual), get_graph), VOTER
    return [*contextual, *review_plain_captions(written_rows, contextual, answers)], checker


def read_written_captions(path: str | Path, images: Mapping[str, str]) -> Rows:
    """Read plain captions from a CSV file with the columns `WRITTEN_COLUMNS`; plain_image may be empty.

    Args:
        images: The verb of each image of the study.
    Returns:
        Rows of image, verb, writer, caption and plain_image; the verb is empty for an image that is not the study's.
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
    """Read answers by image and caption from a CSV file with the columns `CHECK_COLUMNS`."""
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
        best_caption = max(captions, key=lambda caption: grammaticality[caption])
        for row in image_rows:
            row["rejected"] = READS_WORSE
        best_rows = [row for row in image_rows if row["caption"] == best_caption]
        for index, row in enumerate(best_rows):
            row["rejected"] = SAME_CAPTION if index else None
    return scored


def list_checks(written_rows: Iterable[Row], contextual: Iterable[Row]) -> list[tuple[str, str]]:
    """List pairs of plain image and caption to check: the plain caption, and the contextual one, which must not fit."""
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
    answers: Answers | None,
) -> Rows:
    """Review and simplify written captions, and reject those whose plain image does not fit.

    Args:
        written_rows: Rows of image, verb, writer, caption and plain_image.
        contextual: Contextual rows after selection.
        answers: Answers `yes` or `no` of people or of the oracle, by plain image and caption, plain or contextual;
            None where there are no checks.
    """
    study_images = {row["image"] for row in contextual}
    names = sorted({row["verb"] for row in contextual})
    contextual_captions = {row["image"]: row["caption"] for row in contextual if row["rejected"] is None}
    reviewed_rows = review_captions([row for row in written_rows if row["image"] in study_images], names)
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


def build_conditions(captions: Iterable[Row]) -> Rows:
    """Return rows of the layout `CONDITIONS` in both forms, from the captions that are not rejected."""
    usable_rows = [row for row in captions if row["rejected"] is None]
    rows = []
    for form, column in (("original", "caption"), ("simplified", "simplified")):
        texts = [{**row, "caption": row[column]} for row in usable_rows if row[column] is not None]
        contextual, plain = ([row for row in texts if row["kind"] == kind] for kind in ("contextual", "plain"))
        rows += build_condition_rows(contextual, plain, form)
    return rows


def count_rejections(captions: Iterable[Row]) -> dict[str, dict[str, int]]:
    """Count captions of each kind by reason of rejection, the most frequent first, with those that are kept."""
    counts: dict[str, Counter[str]] = {}
    for row in captions:
        counts.setdefault(row["kind"], Counter())[row["rejected"] or "kept"] += 1
    return {
        kind: dict(sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0]))) for kind, reasons in counts.items()
    }
