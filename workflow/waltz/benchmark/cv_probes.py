"""Selection of the captions of CV-Probes: contextual captions by grammaticality, plain ones by
review and checks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from waltz.benchmark.oracle import answer_checks
from waltz.benchmark.people.writing import YES_NO
from waltz.core.errors import CONTROL_TOKEN, UserError
from waltz.filters.pipeline import READS_WORSE
from waltz.foils.candidates import Refusal
from waltz.foils.cv_probes import (
    build_condition_rows,
    read_scene_captions,
    review_captions,
    simplify_caption,
)
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
"""Answers `yes` or `no` by image and caption, one of each checker."""


def read_plain_captions(inputs: Mapping[str, str], contextual: Sequence[Row]) -> Rows:
    """Read the plain captions that people wrote, or for scenes the plain descriptions of the
    scenes.

    Args:
        inputs: Files by name: `written` or `descriptions`; `contextual` for the error message.
        contextual: Contextual rows of the layout `PROBE_CAPTIONS`.
    """
    if inputs.get("written"):
        return read_written_captions(
            inputs["written"], {row["image"]: row["verb"] for row in contextual}
        )
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
        scenes: Count and seed of the scenes, whose oracle then answers the checks; None for real
            images.
    Returns:
        Rows of the layout `PROBE_CAPTIONS`; and who checked the plain images: `people`, `oracle` or
        None.
    """
    # Plain captions are checked against the contextual caption that was selected, so it comes
    # first.
    contextual = select_contextual_captions(contextual_rows, grammaticality)
    answers: Answers | None = None
    checker = None
    if checks:
        answers = read_checks(checks)
        checker = "people"
    # Scenes need no people: their oracle knows whether a caption is true.
    elif scenes:
        get_graph = partial(
            find_scene, graphs=draw_scenes(scenes["count"], scenes["seed"])
        )
        answers = answer_checks(list_checks(written_rows, contextual), get_graph)
        checker = VOTER
    plain = review_plain_captions(written_rows, contextual, answers)
    return [*contextual, *plain], checker


def read_written_captions(path: str | Path, images: Mapping[str, str]) -> Rows:
    """Read plain captions from a CSV file with the columns `WRITTEN_COLUMNS`; plain_image may be
    empty.

    Args:
        images: The verb of each image of the study.
    Returns:
        Rows of image, verb, writer, caption and plain_image; the verb is empty where the study
        lacks the image.
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
        location = f"{path}: line {line}"
        answer = record["answer"]
        if answer not in YES_NO:
            raise UserError(
                f"{location}: answer {answer!r} is none of {', '.join(YES_NO)}; correct it"
            )
        # Each annotator has one vote for a pair.
        annotator = record["annotator"]
        answers = answers_by_pair.setdefault((record["image"], record["caption"]), {})
        if annotator in answers:
            raise UserError(
                f"{location}: annotator {annotator!r} answered this image and caption twice; remove one of the answers"
            )
        answers[annotator] = answer
    return {pair: list(answers.values()) for pair, answers in answers_by_pair.items()}


def select_contextual_captions(
    rows: Sequence[Row], grammaticality: Mapping[str, float]
) -> Rows:
    """Return all contextual captions with scores; for each image all but the most grammatical
    caption are rejected.

    Args:
        rows: Contextual rows of the layout `PROBE_CAPTIONS`.
        grammaticality: Score of each caption; a caption that GRUEN's models cannot read has no
            score.
    """
    scored_rows: Rows = []
    usable_by_image: dict[str, Rows] = {}
    for row in rows:
        caption = row["caption"]
        scored_row = {**row, "grammaticality": grammaticality.get(caption or "")}
        # A row without caption was rejected before, with a reason that says more.
        is_unreadable = bool(caption) and caption not in grammaticality
        if is_unreadable and scored_row["rejected"] is None:
            scored_row["rejected"] = CONTROL_TOKEN
        if scored_row["rejected"] is None:
            usable_by_image.setdefault(row["image"], []).append(scored_row)
        scored_rows.append(scored_row)

    for image_rows in usable_by_image.values():
        _reject_all_but_best(image_rows, grammaticality)
    return scored_rows


def _reject_all_but_best(rows: Rows, grammaticality: Mapping[str, float]) -> None:
    """Reject all captions of one image except the most grammatical caption; of equal texts the
    first row is kept.
    """
    # `max` keeps the first of equally grammatical captions.
    best_caption = max(
        (row["caption"] for row in rows), key=lambda caption: grammaticality[caption]
    )
    is_selected = False
    for row in rows:
        if row["caption"] != best_caption:
            row["rejected"] = READS_WORSE
        elif is_selected:
            row["rejected"] = SAME_CAPTION
        else:
            is_selected = True


def list_checks(
    written_rows: Iterable[Row], contextual: Iterable[Row]
) -> list[tuple[str, str]]:
    """Return the pairs of plain image and caption to check.

    The plain caption must describe the plain image, and the contextual caption must not.
    """
    contextual_captions = _index_captions(contextual)
    pairs: list[tuple[str, str]] = []
    for row in written_rows:
        plain_image = row["plain_image"]
        if plain_image and row["image"] in contextual_captions:
            pairs.append((plain_image, row["caption"]))
            pairs.append((plain_image, contextual_captions[row["image"]]))
    return list(dict.fromkeys(pairs))


def _index_captions(contextual: Iterable[Row]) -> dict[str, str]:
    """Return the selected contextual caption of each image."""
    return {
        row["image"]: row["caption"] for row in contextual if row["rejected"] is None
    }


def review_plain_captions(
    written_rows: Sequence[Row],
    contextual: Sequence[Row],
    answers: Answers | None,
) -> Rows:
    """Review and simplify the written captions, and reject captions whose plain image does not fit.

    Args:
        written_rows: Rows of image, verb, writer, caption and plain_image.
        contextual: Contextual rows after selection.
        answers: Answers `yes` or `no` of people or of the oracle, by plain image and caption (plain
            or contextual); None where there are no checks.
    """
    study_images = {row["image"] for row in contextual}
    verbs = sorted({row["verb"] for row in contextual})
    contextual_captions = _index_captions(contextual)

    study_rows = [row for row in written_rows if row["image"] in study_images]
    # First the wording of the caption, then its plain image: the first fault is the reason.
    reviewed_rows = review_captions(study_rows, verbs)
    for row in reviewed_rows:
        if not row["rejected"]:
            row["rejected"] = _find_rejection(
                row, contextual_captions.get(row["image"]), answers
            )
    # Captions for other images stay in the output, with their reason.
    unused_rows = [
        {**row, "rejected": IMAGE_NOT_IN_STUDY}
        for row in written_rows
        if row["image"] not in study_images
    ]
    return _simplify_captions([*reviewed_rows, *unused_rows])


def _simplify_captions(rows: Sequence[Row]) -> Rows:
    """Return the plain captions with their ids and simplified forms."""
    numbers: Counter[str] = Counter()  # captions of each image so far
    simplified_rows = []
    docs = parse(row["caption"] for row in rows)
    for row, doc in zip(rows, docs, strict=True):
        image = row["image"]
        short_caption = simplify_caption(doc)
        is_refused = isinstance(short_caption, Refusal)
        simplified_rows.append(
            {
                **row,
                "caption_id": f"plain:{image}#{numbers[image]}",
                "kind": "plain",
                "simplified": None if is_refused else short_caption,
                "not_simplified": short_caption.reason
                if isinstance(short_caption, Refusal)
                else None,
            }
        )
        numbers[image] += 1
    return simplified_rows


def _find_rejection(
    row: Row, contextual: str | None, answers: Answers | None
) -> str | None:
    """Return why a plain caption cannot be used; None where it can.

    Args:
        contextual: The contextual caption of the image for which the plain caption was written.
        answers: Checks by image and caption, as of `review_plain_captions`.
    """
    image = row["plain_image"]
    if contextual is None:
        return NO_CONTEXTUAL_CAPTION
    if image is None:
        return NO_PLAIN_IMAGE
    if answers is None:
        return None
    plain_answers = answers.get((image, row["caption"]))
    contextual_answers = answers.get((image, contextual))
    # Both captions need an answer; the oracle gives none where the scene does not decide.
    if not plain_answers or not contextual_answers:
        return UNDECIDED
    # More than half of the checkers must agree, on both captions.
    if 2 * plain_answers.count(YES) <= len(plain_answers):
        return CAPTION_NOT_SHOWN
    if 2 * contextual_answers.count(NO) <= len(contextual_answers):
        return ACTION_SHOWN
    return None


def build_conditions(captions: Iterable[Row]) -> Rows:
    """Return rows of the layout `CONDITIONS` in original and simplified form; rejected captions
    give none.
    """
    usable_rows = [row for row in captions if row["rejected"] is None]
    condition_rows = []
    # A caption that could not be simplified has only the original form.
    for form, column in (("original", "caption"), ("simplified", "simplified")):
        texts: dict[str, Rows] = {"contextual": [], "plain": []}
        for row in usable_rows:
            if row[column] is not None:
                texts[row["kind"]].append({**row, "caption": row[column]})
        condition_rows += build_condition_rows(
            texts["contextual"], texts["plain"], form
        )
    return condition_rows


def count_rejections(captions: Iterable[Row]) -> dict[str, dict[str, int]]:
    """Return for each kind of caption the number of captions by reason of rejection, and of `kept`
    ones.

    The most frequent reason comes first.
    """
    counts: dict[str, Counter[str]] = {}
    for row in captions:
        reason = row["rejected"] or "kept"
        counts.setdefault(row["kind"], Counter())[reason] += 1
    return {kind: _sort_counts(reasons) for kind, reasons in counts.items()}


def _sort_counts(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))
