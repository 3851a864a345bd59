"""Selection of the captions of CV-Probes: contextual captions by grammaticality, plain ones by
review and checks.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path

from waltz.benchmark.oracle import answer_checks
from waltz.benchmark.people.writing import YES_NO
from waltz.core.errors import CONTROL_TOKEN, UserError
from waltz.core.schema import ProbeCaptionRecord, ProbeRecord
from waltz.filters.pipeline import READS_WORSE
from waltz.foils.candidates import Refusal
from waltz.foils.cv_probes import (
    ImageCaption,
    WrittenCaption,
    build_condition_items,
    find_contextual_verbs,
    read_scene_captions,
    review_captions,
)
from waltz.foils.english.parsing import parse_captions
from waltz.foils.english.simplification import simplify_caption
from waltz.scenes.oracle import VOTER
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers.files import find_scene
from waltz.sources.raw_files import join_lines, read_csv_records

SAME_CAPTION = "another annotation gives the same caption"
IMAGE_NOT_IN_STUDY = "its image is not among those of the study"
NO_CONTEXTUAL_CAPTION = "its image has no contextual caption"
NO_PLAIN_IMAGE = "no plain image is named"
UNDECIDED = "nobody can say whether its plain image fits"
CAPTION_NOT_SHOWN = "its plain image does not show what it says"
ACTION_SHOWN = "its plain image shows the action"

SIMPLIFIED_IS_LONGER = "its simplified caption has more words than the caption"
WRITTEN_COLUMNS = ("image", "annotator", "caption", "plain_image")
"""Columns that a file of written captions must have."""
SIMPLIFIED_COLUMN = "simplified"
"""Column of simplified captions, which a file of written captions may have."""
CHECK_COLUMNS = ("image", "caption", "annotator", "answer")
YES, NO = YES_NO

Answers = Mapping[tuple[str, str], Sequence[str]]
"""Answers `yes` or `no` by image and caption, one of each checker."""


def read_plain_captions(
    inputs: Mapping[str, str], contextual: Sequence[ProbeCaptionRecord]
) -> list[WrittenCaption]:
    """Read the plain captions that people wrote, or for scenes the plain descriptions of the
    scenes.

    Args:
        inputs: Files by name: `written` or `descriptions`; `contextual` for the error message.
        contextual: The contextual captions.
    """
    if inputs.get("written"):
        verbs = {caption.image: caption.verb for caption in contextual}
        return read_written_captions(inputs["written"], verbs)
    if inputs.get("descriptions"):
        return read_scene_captions(inputs["descriptions"])
    raise UserError(
        "study file: cv_probes.written is missing: people write the plain captions; make their tasks with"
        f" `waltz people export-captions --captions {inputs['contextual']}`, see docs/explanation/foils-actions.md"
    )


def build_probe_captions(
    contextual_captions: Sequence[ProbeCaptionRecord],
    written: Sequence[WrittenCaption],
    grammaticality: Mapping[str, float],
    checks: str | None,
    scenes: Mapping[str, int] | None,
) -> tuple[list[ProbeCaptionRecord], str | None]:
    """Select the contextual captions and review the plain ones.

    Args:
        contextual_captions: All contextual captions.
        written: All plain captions.
        grammaticality: Score of each contextual caption.
        checks: CSV file of people's checks; None where there is none.
        scenes: Count and seed of the scenes, whose oracle then answers the checks; None for real
            images.
    Returns:
        All captions, each with the reason why it is not used; and who checked the plain images:
        `people`, `oracle` or None.
    """
    # Plain captions are checked against the contextual caption that was selected, so it comes
    # first.
    contextual = select_contextual_captions(contextual_captions, grammaticality)
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
        answers = answer_checks(list_checks(written, contextual), get_graph)
        checker = VOTER
    plain = review_plain_captions(written, contextual, answers)
    return [*contextual, *plain], checker


def read_written_captions(
    path: str | Path, images: Mapping[str, str]
) -> list[WrittenCaption]:
    """Read plain captions from a CSV file with the columns `WRITTEN_COLUMNS`, and with
    `SIMPLIFIED_COLUMN` where people wrote it; cells of plain_image and simplified may be empty.

    Args:
        images: The verb of each image of the study.
    """
    return [
        WrittenCaption(
            image=record["image"],
            verb=images.get(record["image"], ""),
            writer=record["annotator"],
            caption=record["caption"],
            plain_image=record["plain_image"].strip() or None,
            simplified=join_lines(record.get(SIMPLIFIED_COLUMN, "")) or None,
        )
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
    captions: Sequence[ProbeCaptionRecord], grammaticality: Mapping[str, float]
) -> list[ProbeCaptionRecord]:
    """Return all contextual captions with scores; for each image all but the most grammatical
    caption are rejected.

    Args:
        grammaticality: Score of each caption; a caption that GRUEN's models cannot read has no
            score.
    """
    scored = [_add_score(caption, grammaticality) for caption in captions]
    usable = [caption for caption in scored if caption.rejected is None]
    # The best caption of each image; of equally grammatical captions the first one.
    best_captions: dict[str, ProbeCaptionRecord] = {}
    for caption in sorted(usable, key=attrgetter("grammaticality"), reverse=True):
        best_captions.setdefault(caption.image, caption)

    selected = []
    for caption in scored:
        if caption.rejected is None:
            caption = _reject_worse(caption, best_captions[caption.image])
        selected.append(caption)
    return selected


def _add_score(
    caption: ProbeCaptionRecord, grammaticality: Mapping[str, float]
) -> ProbeCaptionRecord:
    """Return a caption with its score; a caption without score is rejected."""
    score = grammaticality.get(caption.caption or "")
    caption = replace(caption, grammaticality=score)
    # An annotation without caption was rejected before, with a reason that says more.
    if caption.rejected is None and score is None:
        return replace(caption, rejected=CONTROL_TOKEN)
    return caption


def _reject_worse(
    caption: ProbeCaptionRecord, best: ProbeCaptionRecord
) -> ProbeCaptionRecord:
    """Reject a caption unless it is the best one of its image."""
    if caption is best:
        return caption
    if caption.caption == best.caption:
        return replace(caption, rejected=SAME_CAPTION)
    return replace(caption, rejected=READS_WORSE)


def list_checks(
    written: Iterable[WrittenCaption], contextual: Iterable[ProbeCaptionRecord]
) -> list[tuple[str, str]]:
    """Return the pairs of plain image and caption to check.

    The plain caption must describe the plain image, and the contextual caption must not.
    """
    contextual_captions = _index_captions(contextual)
    pairs: list[tuple[str, str]] = []
    for plain in written:
        if plain.plain_image and plain.image in contextual_captions:
            pairs.append((plain.plain_image, plain.caption))
            pairs.append((plain.plain_image, contextual_captions[plain.image]))
    return list(dict.fromkeys(pairs))


def _index_captions(contextual: Iterable[ProbeCaptionRecord]) -> dict[str, str]:
    """Return the selected contextual caption of each image."""
    captions: dict[str, str] = {}
    for record in contextual:
        if record.rejected is None and record.caption is not None:
            captions[record.image] = record.caption
    return captions


def review_plain_captions(
    written: Sequence[WrittenCaption],
    contextual: Sequence[ProbeCaptionRecord],
    answers: Answers | None,
) -> list[ProbeCaptionRecord]:
    """Review and simplify the written captions, and reject captions whose plain image does not fit.

    Args:
        contextual: Contextual captions after selection.
        answers: Answers `yes` or `no` of people or of the oracle, by plain image and caption (plain
            or contextual); None where there are no checks.
    """
    study_images = {caption.image for caption in contextual}
    verbs = sorted({caption.verb for caption in contextual})
    contextual_captions = _index_captions(contextual)

    study_captions = [plain for plain in written if plain.image in study_images]
    reviewed: list[WrittenCaption] = []
    for plain in review_captions(study_captions, verbs):
        # First the wording of the caption, then its plain image: the first fault is the reason.
        reason = plain.rejected or _find_rejection(
            plain, contextual_captions.get(plain.image), answers
        )
        reviewed.append(replace(plain, rejected=reason))
    # Captions for other images stay in the output, with their reason.
    for plain in written:
        if plain.image not in study_images:
            reviewed.append(replace(plain, rejected=IMAGE_NOT_IN_STUDY))
    return _simplify_captions(reviewed, verbs)


def _simplify_captions(
    captions: Sequence[WrittenCaption], contextual: Sequence[str]
) -> list[ProbeCaptionRecord]:
    """Return the plain captions with their ids and simplified forms: those that people wrote, or
    else those by rule.

    Args:
        contextual: All contextual verbs of the study.
    """
    reasons = _review_simplified(captions, contextual)
    numbers: Counter[str] = Counter()  # captions of each image so far
    records: list[ProbeCaptionRecord] = []
    docs = parse_captions(caption.caption for caption in captions)
    for caption, doc, reason in zip(captions, docs, reasons, strict=True):
        record = ProbeCaptionRecord(
            caption_id=f"plain:{caption.image}#{numbers[caption.image]}",
            kind="plain",
            verb=caption.verb,
            image=caption.image,
            writer=caption.writer,
            caption=caption.caption,
            plain_image=caption.plain_image,
            rejected=caption.rejected,
        )
        # What a person wrote comes first; where it cannot be used, no rule replaces it.
        simplified: str | Refusal
        if reason is not None:
            simplified = Refusal(reason)
        else:
            simplified = caption.simplified or simplify_caption(doc)
        if isinstance(simplified, Refusal):
            record = replace(record, not_simplified=simplified.reason)
        else:
            record = replace(record, simplified=simplified)
        records.append(record)
        numbers[caption.image] += 1
    return records


def _review_simplified(
    captions: Sequence[WrittenCaption], contextual: Sequence[str]
) -> list[str | None]:
    """Return for each caption the reason why the simplified caption that a person wrote cannot be
    used; None where it can, or where nobody wrote one.
    """
    # Captions of images outside the study have no verb, and are rejected anyway.
    simplified = {
        index: caption.simplified
        for index, caption in enumerate(captions)
        if caption.simplified is not None and caption.verb
    }
    texts = [(text, captions[index].verb) for index, text in simplified.items()]
    verb_reasons = find_contextual_verbs(texts, contextual)
    # Simplified captions keep the rules for captions, and leave words out.
    reasons: list[str | None] = [None] * len(captions)
    for (index, text), verb_reason in zip(
        simplified.items(), verb_reasons, strict=True
    ):
        if verb_reason is not None:
            reasons[index] = f"its simplified caption: {verb_reason}"
        elif len(text.split()) > len(captions[index].caption.split()):
            reasons[index] = SIMPLIFIED_IS_LONGER
    return reasons


def _find_rejection(
    plain: WrittenCaption, contextual: str | None, answers: Answers | None
) -> str | None:
    """Return why a plain caption cannot be used; None where it can.

    Args:
        contextual: The contextual caption of the image for which the plain caption was written.
        answers: Checks by image and caption, as of `review_plain_captions`.
    """
    image = plain.plain_image
    if contextual is None:
        return NO_CONTEXTUAL_CAPTION
    if image is None:
        return NO_PLAIN_IMAGE
    if answers is None:
        return None
    plain_answers = answers.get((image, plain.caption))
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


def build_conditions(captions: Iterable[ProbeCaptionRecord]) -> list[ProbeRecord]:
    """Return the items in original and simplified form; rejected captions give none."""
    texts: dict[tuple[str, str], list[ImageCaption]] = defaultdict(list)
    for record in captions:
        if record.rejected is not None:
            continue
        forms = {"original": record.caption, "simplified": record.simplified}
        for form, text in forms.items():
            # A caption that could not be simplified has only the original form.
            if text is not None:
                plain_image = record.plain_image or ""
                caption = ImageCaption(record.image, record.verb, text, plain_image)
                texts[form, record.kind].append(caption)

    items: list[ProbeRecord] = []
    for form in ("original", "simplified"):
        contextual = texts[form, "contextual"]
        plain = texts[form, "plain"]
        items += build_condition_items(contextual, plain, form)
    return items


def count_rejections(
    captions: Iterable[ProbeCaptionRecord],
) -> dict[str, dict[str, int]]:
    """Return for each kind of caption the number of captions by reason of rejection, and of `kept`
    ones.

    The most frequent reason comes first.
    """
    counts: dict[str, Counter[str]] = {}
    for caption in captions:
        reason = caption.rejected or "kept"
        counts.setdefault(caption.kind, Counter())[reason] += 1
    return {kind: _sort_counts(reasons) for kind, reasons in counts.items()}


def _sort_counts(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))
