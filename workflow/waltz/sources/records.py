"""Records of the rows of sources: one class for each layout of rows that a raw format gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from waltz.core.records import Int32, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord(Record):
    """Columns that the rows of all sources share.

    Attributes:
        source: Name of the source.
        source_id: Name of the row within its source.
        split: Split; null where neither the format nor the caller names one.
        image: Path of the image within its source; null for a row without image.
        rejected: Reason why the row cannot be used, null for a usable row. A rejected row may lack
            its content.
    """

    KEY: ClassVar = ("source_id",)

    source: str
    source_id: str
    split: str | None = None
    image: str | None = None
    rejected: str | None = None


AnySourceRecord = TypeVar("AnySourceRecord", bound=SourceRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionRecord(SourceRecord):
    """One row per caption.

    Attributes:
        caption: The caption, on one line.
    """

    LAYOUT_NAME: ClassVar = "captions"

    image: str
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRecord(SourceRecord):
    """One row per question about an image.

    Attributes:
        question: The question.
        answer: The right answer.
        answers: Answers of all annotators (VQA).
        choices: Wrong answers that Visual7W offers.
        type: Kind of question, as the source names it.
        answer_type: Kind of answer (VQA).
        full_answer: The answer as a sentence (GQA).
        balanced: Whether the question is in the balanced set (GQA).
    """

    LAYOUT_NAME: ClassVar = "questions"

    image: str
    question: str
    answer: str | None = None
    answers: Sequence[str] = ()
    choices: Sequence[str] = ()
    type: str | None = None
    answer_type: str | None = None
    full_answer: str | None = None
    balanced: bool | None = None


@dataclass(frozen=True, slots=True)
class RoleFiller:
    """Filler of a role of a verb.

    Attributes:
        role: Name of the role.
        noun: WordNet synset; null for an empty role.
        gloss: First gloss of the synset.
        box: Left, top, right and bottom in pixels; null where the filler has no box.
    """

    role: str
    noun: str | None
    gloss: str | None
    box: Sequence[float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRecord(SourceRecord):
    """One row per image and annotator: a verb with the fillers of its roles.

    Attributes:
        verb: Name of the verb.
        annotator: Number of the annotator of the image, from 0.
        abstract: Sentence of the verb, with its roles in capitals.
        roles: Fillers in the order of the verb's roles.
        width: Width of the image in pixels.
        height: Height of the image in pixels.
    """

    LAYOUT_NAME: ClassVar = "frames"

    image: str
    verb: str
    annotator: Int32
    abstract: str | None
    roles: Sequence[RoleFiller]
    width: Int32 | None = None
    height: Int32 | None = None


@dataclass(frozen=True, slots=True)
class DialogueTurn:
    """A question of a dialogue and its answer.

    Attributes:
        question: The question.
        answer: The answer.
    """

    question: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord(SourceRecord):
    """One row per round of a dialogue about an image.

    Attributes:
        caption: Caption of the image, which begins the dialogue.
        round: Number of the round, from 1.
        question: Question of the round.
        answer: Answer of the round.
        history: The earlier rounds.
    """

    LAYOUT_NAME: ClassVar = "dialogue turns"

    image: str
    caption: str
    round: Int32
    question: str | None
    answer: str | None
    history: Sequence[DialogueTurn]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoilPairRecord(SourceRecord):
    """One row per annotation of FOIL-it.

    Attributes:
        caption_id: Id of the COCO caption from which the foil was derived.
        caption: That caption; null where the captions files lack it.
        foil: The foil.
        target_word: The replaced noun.
        foil_word: The noun that replaces it.
    """

    LAYOUT_NAME: ClassVar = "foil pairs"

    image: str
    caption_id: str
    caption: str | None
    foil: str
    target_word: str
    foil_word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRecord(SourceRecord):
    """One row per item of a text task, which has no image.

    Attributes:
        task: Name of the task.
        text: Wording of the item in its file, choices included; null for items of two sentences.
        premise: First sentence (e-SNLI).
        hypothesis: Second sentence (e-SNLI).
        choices: Possible answers.
        gold: Index of the answer in `choices`, so its letter is A + gold; for ComVE the index of
            the sentence against common sense.
        explanations: Explanations by people.
        reconstructed: Whether the file is not the original release.
    """

    LAYOUT_NAME: ClassVar = "text tasks"

    task: str
    text: str | None = None
    premise: str | None = None
    hypothesis: str | None = None
    choices: Sequence[str]
    gold: Int32 | None
    explanations: Sequence[str] = ()
    reconstructed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRecord(SourceRecord):
    """One row per answer, verdict of a test or attribution of a model that was run elsewhere; its
    fields are explained in docs/reference/recorded-runs.md.

    Attributes:
        record: Kind of row: `answer`, `test` or `attribution`.
        dataset: Name of the data set.
        item_id: Id of the item.
        profile: The fidelity of the run.
        setting: Form of the question.
        seed: Seed of the run.
        model: The model; null where the format names none.
        commit: Commit of the model's weights.
        input: The item in words, as it stands in the prompt.
        prompt: The whole prompt.
        generation: Text that the model generated after the prompt.
        kind: Kind of explanation, `post-hoc` or `cot`.
        label: Label that the model chose.
        role: Role of a single text.
        reasoning: Chain of thought before the answer.
        gold: The right label, or all right answers to an open question.
        labels: Labels in the order of `label_log_probabilities`.
        label_log_probabilities: Natural logarithm of the probability of each label.
        test: Name of the self-consistency test.
        reason: Reason of the verdict, or of its absence.
        answer: Answer to the unedited item.
        edited_answer: Answer after the edit.
        explanation: Explanation, or chain of thought, of the unedited item.
        edited_input: The item in words after the edit.
        edited_explanation: Explanation after the edit, or the edited chain of thought.
        inserted: Inserted word, or suggested answer.
        verdict: 1 if the model is consistent, 0 if not, null without a verdict.
        flipped: Whether the counterfactual edit of the row changed the answer.
        output: The explained text, `answer` or `explanation`.
        unit: `ratio` for contribution ratios in percent, `shapley` for Shapley values.
        tokens: Text players in the order of the prompt.
        values: Values of the text players, players x outputs.
        patches: Values of the patches row by row, patches x outputs.
        suffix: Number of text players at the end that are the query suffix.
        grid: Number of rows, and of columns, of the patches.
        t_shap: T-SHAP of the run, a share.
        cc_shap: CC-SHAP of the run.
    """

    LAYOUT_NAME: ClassVar = "recorded runs"

    record: str
    dataset: str
    item_id: str
    profile: str
    setting: str
    seed: int
    model: str | None = None
    commit: str | None = None
    input: str | None = None
    prompt: str | None = None
    generation: str | None = None
    kind: str | None = None
    label: str | None = None
    role: str | None = None
    reasoning: str | None = None
    gold: Sequence[str] | None = None
    labels: Sequence[str] | None = None
    label_log_probabilities: Sequence[float] | None = None
    test: str | None = None
    reason: str | None = None
    answer: str | None = None
    edited_answer: str | None = None
    explanation: str | None = None
    edited_input: str | None = None
    edited_explanation: str | None = None
    inserted: str | None = None
    verdict: Int32 | None = None
    flipped: bool | None = None
    output: str | None = None
    unit: str | None = None
    tokens: Sequence[str] | None = None
    values: Sequence[Sequence[float]] | None = None
    patches: Sequence[Sequence[float]] | None = None
    suffix: Int32 | None = None
    grid: Int32 | None = None
    t_shap: float | None = None
    cc_shap: float | None = None
