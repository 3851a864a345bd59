"""Layouts of all Parquet files between stages: a record class for each file, with columns, types
and key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from waltz.core.measure import Measure
from waltz.core.records import (
    INLINE,
    STORED_AS_NULLABLE,
    Int32,
    Record,
    build_struct,
    get_layout,
)


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """Range of characters, without the end.

    Attributes:
        start: Index of the first character.
        end: Index after the last character.
    """

    start: Annotated[Int32, STORED_AS_NULLABLE]
    end: Annotated[Int32, STORED_AS_NULLABLE]


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """Number of items with the same reason.

    Attributes:
        reason: The reason.
        count: Number of items.
    """

    reason: Annotated[str, STORED_AS_NULLABLE]
    count: Annotated[int, STORED_AS_NULLABLE]


@dataclass(frozen=True, slots=True)
class StoredExchange:
    """A prompt and the text that a model generated for it.

    Attributes:
        kind: Kind of generation that the prompt asks for.
        seed: Seed of the generation.
        given: Content of the prompt in addition to the question, as JSON; for a recorded run the
            whole prompt.
        reply: The generated text.
    """

    kind: Annotated[str, STORED_AS_NULLABLE]
    seed: Annotated[int, STORED_AS_NULLABLE]
    given: Annotated[str, STORED_AS_NULLABLE]
    reply: Annotated[str, STORED_AS_NULLABLE]


SPAN = build_struct(StoredSpan)
"""Arrow type of a `StoredSpan`."""


# Stages foils, filters and benchmark: caption-foil pairs.


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRecord(Record):
    """Columns that candidates and items share: an image, a caption of it, and a foil.

    Attributes:
        item_id: Name of the item, unique within its data set.
        instrument: Instrument of the item.
        piece: The linguistic phenomenon that the instrument tests.
        source: Origin of image and caption.
        source_id: Name of the annotation within its source.
        split: Split of the source.
        image: Path of the image within its source.
        caption: A text that is meant to be true of the image.
        foil: The same text with an exchanged phrase, meant to be false of the image.
        caption_span: Characters of the caption that differ from the foil.
        foil_span: Characters of the foil that differ from the caption.
        caption_phrases: Exchanged words of the caption; balancing counts them.
        foil_phrases: Exchanged words of the foil.
        direction: Kind of exchange within the instrument.
        proposal_rank: Rank of the foil among a model's proposals with the same number of tokens,
            from 0; null if rules made the foil.
        proposal_score: Score of the proposal by that model, higher is better.
    """

    item_id: str
    instrument: str
    piece: str
    source: str
    source_id: str | None = None
    split: str | None = None
    image: str
    caption: str
    foil: str
    caption_span: StoredSpan | None = None
    foil_span: StoredSpan | None = None
    caption_phrases: Sequence[str]
    foil_phrases: Sequence[str]
    direction: str | None = None
    proposal_rank: Int32 | None = None
    proposal_score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRecord(PairRecord):
    """One row per candidate.

    Attributes:
        rejected: Reason why the rules of the instrument reject the candidate.
    """

    LAYOUT_NAME: ClassVar = "candidates"
    KEY: ClassVar = ("item_id",)

    rejected: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredRecord(PairRecord):
    """One row per candidate with the scores of the filters that ran.

    Attributes:
        grammaticality: GRUEN grammaticality of the foil.
        caption_grammaticality: GRUEN grammaticality of the caption; null unless alternatives of one
            image are ranked.
        caption_perplexity: Perplexity of the caption; null unless alternatives of one image are
            ranked.
        nli_entailment: Probability that the caption entails the foil, by a natural language
            inference model.
        nli_neutral: Probability that the caption neither entails nor contradicts the foil.
        nli_contradiction: Probability that the caption contradicts the foil.
        kept: Whether the filters keep the candidate.
        rejected: Reason why `kept` is false.
    """

    LAYOUT_NAME: ClassVar = "filtered candidates"
    KEY: ClassVar = ("item_id",)

    grammaticality: float | None = None
    caption_grammaticality: float | None = None
    caption_perplexity: float | None = None
    nli_entailment: float | None = None
    nli_neutral: float | None = None
    nli_contradiction: float | None = None
    kept: bool
    rejected: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRecord(FilteredRecord):
    """One row per item of a benchmark.

    Attributes:
        voter: `people` or `oracle`; null if nobody voted or the file of the votes does not say who
            voted.
        votes_caption: Votes that the caption describes the image and the foil does not.
        votes_foil: Votes that the foil describes the image and the caption does not.
        votes_other: Votes for `both`, `neither` or `cannot tell`.
        valid: Whether enough votes are for the caption; null without votes.
        release: Released record of the item as JSON; null for items that the study built.
        group: Name of the two items whose images and captions are each other's foils; null for
            items without such a group.
    """

    LAYOUT_NAME: ClassVar = "benchmark"

    voter: str | None = None
    votes_caption: Int32 | None = None
    votes_foil: Int32 | None = None
    votes_other: Int32 | None = None
    valid: bool | None = None
    release: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationRecord(Record):
    """One row per answer of an annotator.

    Attributes:
        item_id: Name of the item.
        annotator: Name of the annotator.
        answer: Position of the text that the annotator chose, or another answer; see
            `benchmark.votes`.
        caption_position: Position of the caption among the two texts that the annotator saw,
            `first` or `second`.
    """

    LAYOUT_NAME: ClassVar = "annotations"
    KEY: ClassVar = ("item_id", "annotator")

    item_id: str
    annotator: str
    answer: str
    caption_position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticRecord(Record):
    """One row per data set and metric of the validation.

    Attributes:
        dataset: Name of the data set.
        metric: Name of the metric.
        measure: Value of the metric.
    """

    LAYOUT_NAME: ClassVar = "validation statistics"
    KEY: ClassVar = ("dataset", "metric")

    dataset: str
    metric: str
    measure: Annotated[Measure, INLINE]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequencyRecord(Record):
    """One row per phrase or pronoun: the number of times that it occurs.

    Attributes:
        dataset: Name of the data set.
        kind: `lexical` counts exchanged phrases; `pronoun` counts pronouns, in the piece
            coreference only those of the question.
        items: The counted items: all, or the valid ones.
        side: The counted texts: captions or foils.
        word: The phrase or pronoun.
        count: Number of times.
    """

    LAYOUT_NAME: ClassVar = "frequencies"
    KEY: ClassVar = ("dataset", "kind", "items", "side", "word")

    dataset: str
    kind: str
    items: str
    side: str
    word: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FunnelRecord(Record):
    """One row per instrument and step of its construction: the number of remaining candidates.

    Attributes:
        instrument: The instrument.
        step: The step.
        count: Number of candidates after the step.
        lost: Reasons why candidates were rejected at the step, with their numbers.
    """

    LAYOUT_NAME: ClassVar = "funnel"
    KEY: ClassVar = ("instrument", "step")

    instrument: str
    step: str
    count: int
    lost: Sequence[ReasonCount]


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRecord(Record):
    """One row per instrument, group and metric: the judgment of the scenes' oracle on candidates.

    Attributes:
        instrument: Name of the instrument.
        candidates: Group of candidates; for CV-Probes a form and a condition.
        metric: `captions_decided` and `foils_decided`: texts that the oracle decides; further
            metrics: true captions and false foils among these, and foils inside the grammar. For
            CV-Probes `decided` and `as_expected`.
        measure: Percent of texts.
    """

    LAYOUT_NAME: ClassVar = "oracle's verdicts"
    KEY: ClassVar = ("instrument", "candidates", "metric")

    instrument: str
    candidates: str
    metric: str
    measure: Annotated[Measure, INLINE]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord(Record):
    """One row per instrument and judge of the blind audit, who reads caption and foil without the
    image.

    Attributes:
        instrument: Name of the instrument.
        judge: Name of the judge.
        measure: Percent of pairs in which the judge prefers the caption; a tie counts half.
        warning: Warning that the number is further from chance than the study allows; null without
            a warning.
    """

    LAYOUT_NAME: ClassVar = "blind audit"
    KEY: ClassVar = ("instrument", "judge")

    instrument: str
    judge: str
    measure: Annotated[Measure, INLINE]
    warning: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionRecord(Record):
    """One row per instrument and metric: how well the foiling functions reproduce the released
    items.

    Attributes:
        instrument: Name of the instrument.
        metric: Name of the metric.
        measure: Percent of released items.
    """

    LAYOUT_NAME: ClassVar = "construction fidelity"
    KEY: ClassVar = ("instrument", "metric")

    instrument: str
    metric: str
    measure: Annotated[Measure, INLINE]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissRecord(Record):
    """One row per released item that the foiling functions do not reproduce.

    Attributes:
        instrument: The instrument.
        item_id: Name of the item.
        caption: Released caption.
        foil: Released foil.
        cause: Reason why the item is not reproduced.
    """

    LAYOUT_NAME: ClassVar = "released items not reproduced"
    KEY: ClassVar = ("instrument", "item_id")

    instrument: str
    item_id: str
    caption: str
    foil: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFaultRecord(Record):
    """One row per image that is missing or cannot be opened.

    Attributes:
        image: Path of the image within its source.
        fault: Description of the fault.
    """

    LAYOUT_NAME: ClassVar = "image faults"
    KEY: ClassVar = ("image",)

    image: str
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneScoreRecord(Record):
    """One row per scene model and metric.

    Attributes:
        model: The model.
        metric: The metric.
        measure: Value of the metric; a share is from 0 to 1.
        enough: Whether the value reaches its threshold; null for a metric without a threshold or a
            value.
    """

    LAYOUT_NAME: ClassVar = "scene model scores"
    KEY: ClassVar = ("model", "metric")

    model: str
    metric: str
    measure: Annotated[Measure, INLINE]
    enough: bool | None = None


# CV-Probes.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeCaptionRecord(Record):
    """One row per caption of an image with an action.

    Attributes:
        caption_id: Name of the caption.
        kind: `contextual` or `plain`.
        verb: The contextual verb, which names the action.
        image: Path of the image that shows the action.
        writer: Writer of the caption: `rule` or a model for contextual captions, an annotator or
            `scenes` for plain captions.
        caption: The caption.
        simplified: The simplified caption.
        not_simplified: Reason why a plain caption has no simplified form.
        plain_image: Path of the image that fits a plain caption and does not show the action.
        grammaticality: Grammaticality of a contextual caption.
        rejected: Reason why the caption is not used.
    """

    LAYOUT_NAME: ClassVar = "CV-Probes' captions"
    KEY: ClassVar = ("caption_id",)

    caption_id: str
    kind: str
    verb: str
    image: str
    writer: str
    caption: str | None = None
    simplified: str | None = None
    not_simplified: str | None = None
    plain_image: str | None = None
    grammaticality: float | None = None
    rejected: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRecord(Record):
    """One row per image and caption of CV-Probes.

    Attributes:
        item_id: Name of the item.
        form: `original` or `simplified` wording.
        condition: Kind of image and of caption, one of `PROBE_CONDITIONS`.
        verb: The contextual verb of `group`.
        image: Path of the image.
        image_kind: `contextual` if the image shows the action of the verb, `plain` if it does not.
        caption: The text that goes with the image.
        caption_kind: `contextual` if the caption names the action, `plain` if it does not.
        verb_span: Characters of the verb in the caption; null if no verb is found.
        match: Whether the caption fits the image; False if it names an action that the image does
            not show.
        group: Path of the image with the action from which the item is derived; items of a group
            are not independent.
    """

    LAYOUT_NAME: ClassVar = "CV-Probes"
    KEY: ClassVar = ("item_id",)

    item_id: str
    form: str
    condition: str
    verb: str
    image: str
    image_kind: str
    caption: str
    caption_kind: str
    verb_span: StoredSpan | None = None
    match: bool
    group: str


PROBE_CONDITIONS = ("+img+cap", "+img-cap", "-img+cap", "-img-cap")
"""Conditions of CV-Probes: contextual (+) or plain (-) image and caption, in the order of the
paper's tables.
"""


# Stage evaluation.


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRecord(Record):
    """One row per item, role, fidelity and setting.

    Attributes:
        item_id: Name of the item.
        role: `caption`, `foil`, `mismatched` or `answer`.
        profile: The fidelity, `published` or `equations`.
        setting: Form of the question to the model: `alignment`, `pairwise`, `single`, `choice` and
            the like; `valse-script` for scores by the rules of VALSE's script for LXMERT, whose
            score is the logit of a match alone.
        image: Path of the image.
        score: Score of a text; it is higher if the model prefers the text. In setting `pairwise`
            the logit of the caption's label minus the logit of the foil's label, in `choice` the
            logit of the likeliest label, for an answer of an encoder the logit of the answer. Null
            for generated answers, and for recorded answers without log-probabilities.
        rounding: Scores that differ by no more than this number are tied (`core.rounding`); null if
            the precision of the scores is not known.
        tokens: Number of tokens of the text; for a decoder, number of tokens of the prompt, or of
            the text if its likelihood is the score; 0 if the text cannot be read (see `error`).
        probability: Probability that corresponds to the score; null if there is none.
        prediction: `match` or `mismatch`, `caption` or `foil`, each also `tie`, or an answer.
        correct: Whether the prediction is right.
        order: Order of the two texts in setting `pairwise`: `caption-first` or `foil-first`.
        reasoning: The chain of thought before the answer.
        error: Reason why nothing could be computed.
    """

    LAYOUT_NAME: ClassVar = "evaluation"
    KEY: ClassVar = ("item_id", "role", "profile", "setting")

    item_id: str
    role: str
    profile: str
    setting: str
    image: str | None = None
    score: float | None = None
    rounding: float | None = None
    tokens: Int32 | None = None
    probability: float | None = None
    prediction: str | None = None
    correct: bool | None = None
    order: str | None = None
    reasoning: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRecord(Record):
    """One row per model, data set, fidelity, setting and metric.

    Attributes:
        model: The model.
        dataset: The data set.
        profile: The fidelity.
        setting: The setting.
        metric: The metric.
        measure: Value of the metric. Accuracies, rates and shares of text are percent, their
            differences percentage points. Other units: CC-SHAP and its companions
            (`consistency.metrics`), `emap_interaction` (a share of 1), `verb_shap` (the score's)
            and `pieces` (a number).
    """

    LAYOUT_NAME: ClassVar = "metrics"
    KEY: ClassVar = ("model", "dataset", "profile", "setting", "metric")

    model: str
    dataset: str
    profile: str
    setting: str
    metric: str
    measure: Annotated[Measure, INLINE]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRecord(Record):
    """One row per pair of models, on the items that both scored.

    Attributes:
        profile: The fidelity.
        dataset: The data set.
        setting: `single` compares scores of single texts (`alignment` of encoders, `perplexity` of
            language models, `single` of decoders), `pairwise` compares choices of decoders between
            caption and foil; both also end with `-after-cot` for answers after a chain of thought.
            `valse-script` compares scores by VALSE's script with `alignment` and `perplexity`.
        metric: The metric.
        model_a: First model.
        model_b: Second model.
        difference: Metric of `model_a` minus metric of `model_b`, in percentage points.
        ci_low: Lower end of the interval of the difference.
        ci_high: Upper end of this interval.
        p: p value of the test.
        p_holm: p value after Holm's correction.
        n: Number of items.
        reason: Reason why numbers are null.
    """

    LAYOUT_NAME: ClassVar = "paired comparisons"
    KEY: ClassVar = ("profile", "dataset", "setting", "metric", "model_a", "model_b")

    profile: str
    dataset: str
    setting: str
    metric: str
    model_a: str
    model_b: str
    difference: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    n: int
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceRecord(Record):
    """One row per model, data set, fidelity, setting and metric: a difference of two sides, over the
    items that have a number on both.

    Attributes:
        model: The model.
        base_model: Model of the second side; empty if both sides are of `model`.
        dataset: The data set; `pooled` for all data sets of the model, each with the same weight.
        profile: The fidelity.
        setting: The setting.
        metric: What is compared, such as `t_shap_explanation_less_answer`; with the ending `:first`
            or `:second` the mean of that side.
        measure: Mean difference, first less second, or the mean of a side: T-SHAP, tests and
            accuracies in percent or percentage points, CC-SHAP from -1 to 1.
        p: p value of the test that exchanges the sides on each image; null for the mean of a side.
        p_holm: p value after Holm's correction.
        unpaired: Number of items that are left out because a side has no number.
    """

    LAYOUT_NAME: ClassVar = "paired differences"
    KEY: ClassVar = ("model", "dataset", "profile", "setting", "metric")

    model: str
    base_model: str = ""
    dataset: str
    profile: str
    setting: str
    metric: str
    measure: Annotated[Measure, INLINE]
    p: float | None = None
    p_holm: float | None = None
    unpaired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementRecord(Record):
    """One row per number about the reliability of a measure (stage measures).

    Attributes:
        measurement: Name of the measurement, which is also the name of the file.
        model: Model or game to which the number belongs; empty for all models together.
        dataset: Data set to which the number belongs; empty for all data sets together.
        factor: Factor that was varied, such as `evaluations`; empty if none was varied.
        level: Value of the factor, such as `300`.
        quantity: Name of the quantity, such as `t_shap` or `bias`.
        measure: Value of the quantity: shares in percent, differences of shares in percentage
            points.
    """

    LAYOUT_NAME: ClassVar = "measurements of measures"
    KEY: ClassVar = ("measurement", "model", "dataset", "factor", "level", "quantity")

    measurement: str
    model: str = ""
    dataset: str = ""
    factor: str = ""
    level: str = ""
    quantity: str
    measure: Annotated[Measure, INLINE]


# Stage attribution.


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionRecord(Record):
    """One row per item, role, fidelity and setting.

    Attributes:
        item_id: Name of the item.
        role: `caption`, `foil`, `mismatched` or `answer`.
        profile: The fidelity.
        setting: For encoders `alignment`, or `answering` for questions, followed by `:regions` if
            precomputed regions are the players. For decoders `pairwise` and `single` for answers;
            in stage consistency `post-hoc:answer`, `post-hoc:explanation`, `cot:answer` and
            `cot:explanation`, for edited items `post-hoc-edited:answer` and
            `post-hoc-edited:explanation`.
        image: Path of the image.
        text: The text whose tokens are players.
        explained: Kind of value of the game, such as `probability` or `logit`. It is `contribution
            ratio` if `phi` of a recorded run contains contribution ratios in percent.
        outputs: The explained tokens of a decoder, or the single answer of an encoder with an
            answering head.
        score: Value of the only output; null if there are several outputs.
        tokens: The text players, which come first in `phi`.
        spans: Characters of each text player in `text`.
        grid: Number of rows, and of columns, of the patches, which follow the text players row by
            row; 0 if regions follow, or nothing.
        phi: Shapley values, players x outputs.
        base_value: Value of the empty coalition, for each output.
        value: Value of the coalition of all players, for each output.
        t_shap: T-SHAP, a share.
        t_shap_se: Standard error of T-SHAP, a share.
        t_shap_corrected: T-SHAP without most of the bias of few permutations, a share that may lie
            outside [0, 1]; T-SHAP itself if it is exact, and null for other estimators.
        reason: Reason why T-SHAP or its standard error is null.
        estimator: Name of the estimator.
        requested: Number of coalitions that the estimator requested, counting repeated ones each
            time; the budget may be larger. Estimators of late fusion count passes of the encoder.
        evaluated: Number of distinct inputs among the requested ones; for late fusion only inputs
            that this text added, since caption and foil share the passes of their image.
        residual: Largest absolute difference, over outputs, between the sum of `phi` and `value`
            minus `base_value`.
        without_text: Value of the coalition of all image players, for each output; null if it was
            not computed.
        without_image: Value of the coalition of all text players, for each output; null if it was
            not computed.
        seed: Seed of the estimator: in `equations` one of the item, else that of the run.
        error: Reason why all numbers are null.
    """

    LAYOUT_NAME: ClassVar = "attribution"
    KEY: ClassVar = ("item_id", "role", "profile", "setting")

    item_id: str
    role: str
    profile: str
    setting: str
    image: str | None = None
    text: str
    explained: str | None = None
    outputs: Sequence[str] | None = None
    score: float | None = None
    tokens: Sequence[str] | None = None
    spans: Sequence[StoredSpan] | None = None
    grid: Int32 | None = None
    phi: Sequence[Sequence[float]] | None = None
    base_value: Sequence[float] | None = None
    value: Sequence[float] | None = None
    t_shap: float | None = None
    t_shap_se: float | None = None
    t_shap_corrected: float | None = None
    reason: str | None = None
    estimator: str | None = None
    requested: int | None = None
    evaluated: int | None = None
    residual: float | None = None
    without_text: Sequence[float] | None = None
    without_image: Sequence[float] | None = None
    seed: int | None = None
    error: str | None = None


OF_REGIONS = ":regions"
"""End of the setting of an attribution whose image players are regions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRecord(Record):
    """One row per model, data set, role, fidelity and setting: the mean T-SHAP.

    Attributes:
        model: The model.
        dataset: The data set.
        role: Role of the texts.
        profile: The fidelity.
        setting: The setting.
        items: Number of items, with and without T-SHAP.
        measure: Mean T-SHAP in percent, of `n` of the items.
        sd: Standard deviation over items, in percentage points.
        standard_error: Mean standard error of an item, in percentage points.
        standard_error_n: Number of items that have a standard error.
        noise: Share of the variance over items that is due to estimation.
        corrected: Mean T-SHAP without most of the bias of few permutations, in percent; null if no
            item was sampled by permutations, or an item by another estimator.
        corrected_low: Lower end of the interval of `corrected`.
        corrected_high: Upper end of the interval of `corrected`.
        mm_skew: Modality that contributes more on average (`classify_skew`).
        player_share: Mean share of players that are text, in percent, of the items with T-SHAP; it
            is the T-SHAP of equal contributions.
        excess: Mean of T-SHAP less the share of players, in percentage points.
        excess_low: Lower end of the interval of `excess`.
        excess_high: Upper end of the interval of `excess`.
        missing: Reasons why items have no T-SHAP, with their numbers.
        rho: Spearman's correlation of T-SHAP with correctness.
        rho_low: Lower end of the interval of `rho`.
        rho_high: Upper end of the interval of `rho`.
        rho_p: p value of `rho`.
        rho_reason: Reason why `rho` is null.
    """

    LAYOUT_NAME: ClassVar = "shares of text"
    KEY: ClassVar = ("model", "dataset", "role", "profile", "setting")

    model: str
    dataset: str
    role: str
    profile: str
    setting: str
    items: int
    measure: Annotated[Measure, INLINE]
    sd: float | None = None
    standard_error: float | None = None
    standard_error_n: int
    noise: float | None = None
    corrected: float | None = None
    corrected_low: float | None = None
    corrected_high: float | None = None
    mm_skew: str | None = None
    player_share: float | None = None
    excess: float | None = None
    excess_low: float | None = None
    excess_high: float | None = None
    missing: Sequence[ReasonCount]
    rho: float | None = None
    rho_low: float | None = None
    rho_high: float | None = None
    rho_p: float | None = None
    rho_reason: str | None = None


# Stage consistency.


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistencyRecord(Record):
    """One row per item, self-consistency test and seed.

    Attributes:
        item_id: Name of the item.
        profile: The fidelity.
        setting: Form of the question: `pairwise`, `open` or `choice`.
        test: Name of the test.
        seed: Seed of the test.
        sampled: Whether the model samples its explanations and chains of thought, so that runs with
            other seeds have other texts; null in recorded runs, which do not say it.
        image: Path of the image.
        text: Text of the item before any edit.
        verdict: 1 if the model is consistent, and 0 if not.
        score: The verdict as a number, which need not be 0 or 1.
        answer: Answer to the unedited item.
        edited_answer: Answer to the edited item.
        reason: Reason for the verdict, or for its absence.
        explanation: The explanation.
        edited_input: The edited item; the first edit if no counterfactual edit changed the answer.
        edited_explanation: Explanation of the edited item.
        inserted: Text that the edit inserted.
        flipped: Whether the counterfactual edit of the row changed the answer.
        mention: Words of the chain of thought that are taken for a mention of the suggestion and
            decide the verdict of `biasing_features`; in `published` they need not be about it.
        correct: Whether the answer to the unedited item is right.
        exchanges: All prompts with their generations.
        error: Reason why the test could not be run.
    """

    LAYOUT_NAME: ClassVar = "self-consistency tests"
    KEY: ClassVar = ("item_id", "profile", "setting", "test", "seed")

    item_id: str
    profile: str
    setting: str
    test: str
    seed: int
    sampled: bool | None = None
    image: str | None = None
    text: str
    verdict: Int32 | None = None
    score: float | None = None
    answer: str | None = None
    edited_answer: str | None = None
    reason: str | None = None
    explanation: str | None = None
    edited_input: str | None = None
    edited_explanation: str | None = None
    inserted: str | None = None
    flipped: bool | None = None
    mention: str | None = None
    correct: bool | None = None
    exchanges: Sequence[StoredExchange] | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CcShapRecord(Record):
    """One row per item, kind of explanation and seed.

    Attributes:
        item_id: Name of the item.
        profile: The fidelity.
        setting: Form of the question.
        kind: Kind of explanation, `post-hoc` or `cot`.
        seed: Seed of the run.
        estimator_seed: Seed of the estimator, the same for answer and explanation: in `equations`
            one of the item, else that of the run.
        sampled: Whether the model samples its explanations and chains of thought, so that runs with
            other seeds have other texts; null in recorded runs, which do not say it.
        image: Path of the image.
        value: CC-SHAP.
        standard_error: Standard error of CC-SHAP.
        correlation: 1 minus the correlation distance of the ratios (`measure.CCShapCompanions`).
        mse: 1 minus the mean squared difference.
        variance: 1 minus the variance of the squared differences.
        kl: 1 minus the Kullback-Leibler divergence after a softmax of the ratios.
        js: 1 minus the Jensen-Shannon distance after a softmax of the ratios.
        with_weak: CC-SHAP including generated tokens to which next to nothing contributes (weak
            tokens).
        weak_answer: Number of weak tokens in the answer.
        weak_explanation: Number of weak tokens in the explanation.
        ratios_answer: Mean contribution ratios of the shared players for the answer, text players
            first: percent in `published`, else shares.
        ratios_explanation: Mean contribution ratios of the shared players for the explanation.
        shared_tokens: Texts of the shared players that are text, in the order of the ratios.
        t_shap_answer: T-SHAP of the answer; null if the model reads no image.
        t_shap_answer_se: Standard error of `t_shap_answer`.
        t_shap_explanation: T-SHAP of the explanation; null if the model reads no image.
        t_shap_explanation_se: Standard error of `t_shap_explanation`.
        answer: The answer.
        explanation: The explanation.
        evaluated: Number of distinct evaluated inputs of both prompts.
        reason: Reason why numbers are null.
        error: Reason why nothing could be computed.
    """

    LAYOUT_NAME: ClassVar = "CC-SHAP"
    KEY: ClassVar = ("item_id", "profile", "setting", "kind", "seed")

    item_id: str
    profile: str
    setting: str
    kind: str
    seed: int
    estimator_seed: int | None = None
    sampled: bool | None = None
    image: str | None = None
    value: float | None = None
    standard_error: float | None = None
    correlation: float | None = None
    mse: float | None = None
    variance: float | None = None
    kl: float | None = None
    js: float | None = None
    with_weak: float | None = None
    weak_answer: Int32 | None = None
    weak_explanation: Int32 | None = None
    ratios_answer: Sequence[float | None] | None = None
    ratios_explanation: Sequence[float | None] | None = None
    shared_tokens: Sequence[str] | None = None
    t_shap_answer: float | None = None
    t_shap_answer_se: float | None = None
    t_shap_explanation: float | None = None
    t_shap_explanation_se: float | None = None
    answer: str | None = None
    explanation: str | None = None
    evaluated: int | None = None
    reason: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedRecord(Record):
    """One row per item and seed: contributions before and after the counterfactual edit of the
    item.

    Attributes:
        item_id: Name of the item.
        profile: The fidelity.
        setting: Form of the question.
        seed: Seed of the run; the estimator has that of the unedited item.
        image: Path of the image.
        answer: Cosine distance between the contributions to the answer before and after the edit.
        explanation: Cosine distance between the contributions to the explanation before and after
            the edit.
        inserted_answer: Share of the inserted players in the contributions to the answer.
        inserted_explanation: Share of the inserted players in the contributions to the explanation.
        edited_input: The edited item.
        inserted: Text that the edit inserted.
        flipped: Whether the edit changed the answer.
        edited_answer: Answer to the edited item.
        edited_explanation: Explanation of the edited item.
        cc_shap: CC-SHAP of the edited item.
        reason: Reason why there is no edit, or why attributions cannot be compared.
        error: Reason why nothing could be computed.
    """

    LAYOUT_NAME: ClassVar = "contributions under edits"
    KEY: ClassVar = ("item_id", "profile", "setting", "seed")

    item_id: str
    profile: str
    setting: str
    seed: int
    image: str | None = None
    answer: float | None = None
    explanation: float | None = None
    inserted_answer: float | None = None
    inserted_explanation: float | None = None
    edited_input: str | None = None
    inserted: str | None = None
    flipped: bool | None = None
    edited_answer: str | None = None
    edited_explanation: str | None = None
    cc_shap: float | None = None
    reason: str | None = None
    error: str | None = None


# Layouts of files whose rows are written or merged without their records; rules pass some by name.

CANDIDATES = get_layout(CandidateRecord)
FILTERED = get_layout(FilteredRecord)
BENCHMARK = get_layout(ItemRecord)
IMAGE_FAULTS = get_layout(ImageFaultRecord)
CONDITIONS = get_layout(ProbeRecord)
EVALUATION = get_layout(EvaluationRecord)
METRICS = get_layout(MetricRecord)
COMPARISONS = get_layout(ComparisonRecord)
ATTRIBUTION = get_layout(AttributionRecord)
SHARES = get_layout(ShareRecord)
CONSISTENCY = get_layout(ConsistencyRecord)
CC_SHAP = get_layout(CcShapRecord)
EDITED = get_layout(EditedRecord)
