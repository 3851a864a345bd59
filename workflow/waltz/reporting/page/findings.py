"""Findings of a study: accuracy, T-SHAP and CC-SHAP of each model, and sentences about these
numbers.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

import pandas as pd

from waltz.consistency.edit_tests.mentions import BIASING_FEATURES
from waltz.consistency.metrics import (
    CC_SHAP_METRICS,
    COT,
    EQUIVALENT,
    EXCESS,
    MARGIN,
    MENTIONS,
    POST_HOC,
)
from waltz.consistency.seed_reliability import (
    BETWEEN,
    ITEM,
    SEED,
    VARIANCE_ITEMS,
    VARIANCE_SEEDS,
    WITHIN,
)
from waltz.core.measure import Measure
from waltz.core.records import Record, build_frame, get_layout, read_frame
from waltz.core.schema import MetricRecord, ShareRecord
from waltz.core.variance_components import TARGET, count_levels_needed
from waltz.evaluation.metrics.pair_metrics import average_measures
from waltz.evaluation.metrics.summary import AVERAGE
from waltz.evaluation.settings import ALIGNMENT, PERPLEXITY
from waltz.fidelity import get_fidelity
from waltz.reporting.page.examples import rank_setting
from waltz.reporting.page.page_tables import list_numbers
from waltz.reporting.run_records import RunRecord
from waltz.reporting.tables.cells import Cell, VerdictCounts, is_small
from waltz.reporting.tables.declaration import COMPARED_PROFILE

EVEN = 50.0
"""Accuracy of a guess between two texts, in percent."""
MOST_NAMES = 3
"""Largest number of models that a sentence names with their numbers."""
RULER, ENCODER, DECODER, TEXT_ONLY = "ruler", "encoder", "decoder", "text only"
SHARE_PREFIX = "share:"
"""Prefix in a ruler's `weights`, which is followed by its share of text, between 0 and 1."""
ABOVE, BELOW, NEAR, UNKNOWN = "above", "below", "near", "unknown"
POSITIONS = {ABOVE: "above", BELOW: "below", NEAR: "not clearly off"}
"""Words for the position of T-SHAP relative to its floor, by `ModelFinding.position`."""
NOT_MEASURED = Measure(None, 0, reason="not measured")
CC_SHAP_MEANS = {POST_HOC: "cc_shap", COT: "cc_shap_cot"}
"""Attribute of `ModelFinding` with CC-SHAP of each kind of explanation."""
EXPLANATIONS = {POST_HOC: "post-hoc explanation", COT: "chain of thought"}
"""Names of the kinds of explanation."""
MEANS = ("accuracy", "t_shap", *CC_SHAP_MEANS.values())
"""Attributes of `ModelFinding` that are means over data sets."""
Datasets = frozenset[str]
"""Data sets that a mean is over; means over different data sets are not compared."""
ACCURACIES = {
    "acc_r": "prefer the caption to a false text, its foil,",
    "accuracy": "answer right",
}
"""Clause about models that are right by metric of accuracy, in order of preference."""
CHANCE_LEVELS = {
    "comve": 100 / 2,
    "e-snli": 100 / 3,
    "disambiguation-qa": 100 / 3,
    "causal-judgement": 100 / 2,
    "logical-deduction": 100 / 5,
}
"""Accuracy of a guess in percent, for the text tasks of thesis 5.5.1: 100 over the number of labels."""


@dataclass(frozen=True)
class ModelFinding:
    """Results of one model over all data sets.

    Attributes:
        name: Name of the model.
        kind: `encoder`, `decoder`, `text only` (scores texts without their image) or `ruler`.
        metric: Metric of its accuracy, a key of `ACCURACIES`; empty without an accuracy.
        accuracy: Mean accuracy over data sets, in percent.
        t_shap: Mean T-SHAP of captions over data sets, in percent.
        cc_shap: Mean CC-SHAP of answers and post-hoc explanations over data sets, from -1 to 1.
        cc_shap_cot: Mean CC-SHAP of answers and chains of thought over data sets.
        excesses: Mean of CC-SHAP less that of other items' explanations, over the same data sets, by
            the attribute of the mean of CC-SHAP.
        equivalent: Attributes of the means of CC-SHAP whose excess is shown to be within the margin
            of the study on each data set.
        seed_variances: Variance of CC-SHAP between items and between the seeds of an item, means over
            data sets, by the attribute of the mean of CC-SHAP; only of models with several seeds.
        player_share: Mean share of players that are text, over the captions of `t_shap`, in
            percent: the floor of T-SHAP; None if it is unknown.
        t_shap_excess: Mean of T-SHAP less that share, in percentage points.
        known_share: Share of text that a ruler is built with, in percent; None for other models.
        profile: Fidelity profile of the numbers.
        datasets: Data sets that each mean is over, by the attribute of the mean.
        accuracies: Accuracy on each data set that the mean is over, in percent.
        mentions: Of the test of biasing features, by data set: number of consistent items whose
            verdict rests on a mention of the suggestion, and number of consistent items.
    """

    name: str
    kind: str
    metric: str = ""
    accuracy: Measure = NOT_MEASURED
    t_shap: Measure = NOT_MEASURED
    cc_shap: Measure = NOT_MEASURED
    cc_shap_cot: Measure = NOT_MEASURED
    excesses: Mapping[str, Measure] = field(default_factory=dict)
    equivalent: Collection[str] = ()
    seed_variances: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    player_share: float | None = None
    t_shap_excess: Measure = NOT_MEASURED
    known_share: float | None = None
    profile: str = ""
    datasets: Mapping[str, Datasets] = field(default_factory=dict)
    accuracies: Mapping[str, Measure] = field(default_factory=dict)
    mentions: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def position(self) -> str:
        """Position of T-SHAP relative to its floor, the share of players that are text: `ABOVE`, `BELOW`,
        `NEAR` or `UNKNOWN`.

        It is `NEAR` if the interval of the excess holds 0, and `UNKNOWN` if there are too few items
        or no interval.
        """
        low, high = self.t_shap_excess.ci_low, self.t_shap_excess.ci_high
        if is_small_measure(self.t_shap) or low is None or high is None:
            return UNKNOWN
        if low > 0:
            return ABOVE
        if high < 0:
            return BELOW
        return NEAR

    @property
    def chance_levels(self) -> dict[str, float]:
        """Accuracy of a guess on each data set where it is known, in percent."""
        levels = {}
        for dataset in self.accuracies:
            if self.metric == "acc_r":
                levels[dataset] = EVEN
            # A data set of a user may have any number of labels.
            elif dataset in CHANCE_LEVELS:
                levels[dataset] = CHANCE_LEVELS[dataset]
        return levels

    @property
    def chance(self) -> float | None:
        """Mean accuracy of a guess in percent; None if it is unknown for a data set."""
        levels = self.chance_levels
        if not levels or levels.keys() != self.accuracies.keys():
            return None
        return fmean(levels.values())

    @property
    def mastered(self) -> list[str]:
        """Data sets with enough items on which the interval of the accuracy lies above chance."""
        names = []
        for dataset in self.ranked:
            low = self.accuracies[dataset].ci_low
            # Without a chance level, none is above it.
            if low is not None and low > self.chance_levels.get(dataset, math.inf):
                names.append(dataset)
        return names

    @property
    def ranked(self) -> list[str]:
        """Data sets with enough items, from the lowest accuracy to the highest."""
        values = {}
        for dataset, accuracy in self.accuracies.items():
            if accuracy.value is not None and not is_small_measure(accuracy):
                values[dataset] = accuracy.value
        return sorted(values, key=lambda dataset: values[dataset])


def describe_chance(finding: ModelFinding, dataset: str) -> str:
    """Return the sentence that a model is not above chance on a data set; empty if it is, or if its
    accuracy or the chance level is unknown.
    """
    if dataset not in finding.chance_levels or dataset in finding.mastered:
        return ""
    accuracy = _format_accuracy(finding.accuracies[dataset])
    if dataset not in finding.ranked:
        return f"Too few items to say whether {finding.name} is above chance on {dataset}: {accuracy}."
    return f"{finding.name} is not above chance on {dataset}: {accuracy}; a right answer may be luck."


def is_small_measure(measure: Measure) -> bool:
    """Return whether a number is measured on too few items or images to say something."""
    return is_small(measure.n, measure.images)


def group_by_datasets(
    findings: Iterable[ModelFinding], *means: str
) -> dict[tuple[Datasets, ...], list[ModelFinding]]:
    """Group models by the data sets that their means are over; models of the same group can be
    compared.

    Args:
        findings: Findings of models that have these means.
        means: Names of the means, of `MEANS`.
    """
    groups: dict[tuple[Datasets, ...], list[ModelFinding]] = {}
    for finding in findings:
        # Means over the same data sets have the same key.
        key = tuple(finding.datasets.get(mean, frozenset()) for mean in means)
        groups.setdefault(key, []).append(finding)
    return groups


def select_measured(findings: Iterable[ModelFinding], mean: str) -> list[ModelFinding]:
    """Return the findings of the models that have a mean of `MEANS`."""
    return [finding for finding in findings if getattr(finding, mean).n]


def list_mixed_means(findings: Sequence[ModelFinding]) -> list[str]:
    """Return the names of the means that are not over the same data sets for all models."""
    mixed = []
    for mean in MEANS:
        groups = group_by_datasets(select_measured(findings, mean), mean)
        if len(groups) > 1:
            mixed.append(mean)
    return mixed


def has_small_means(findings: Iterable[ModelFinding]) -> bool:
    """Return whether a mean is measured, but on too few items or images to say something."""
    small: list[Measure] = []
    for finding in findings:
        means = (getattr(finding, mean) for mean in MEANS)
        small += filter(is_small_measure, filter(_has_value, means))
    return bool(small)


def _has_value(measure: Measure) -> bool:
    return measure.value is not None


def select_comparable(findings: Sequence[ModelFinding]) -> list[ModelFinding]:
    """Return the largest group of models whose accuracy and T-SHAP are over the same data sets.

    Of groups of the same size, the first one is returned.
    """
    measured = select_measured(select_measured(findings, "accuracy"), "t_shap")
    groups = group_by_datasets(measured, "accuracy", "t_shap")
    return max(groups.values(), key=len, default=[])


def name_datasets(finding: ModelFinding, mean: str) -> str:
    """Return the names of the data sets that a mean is over, or their number if there are more than
    `MOST_NAMES`.
    """
    datasets = finding.datasets.get(mean, frozenset())
    if len(datasets) > MOST_NAMES:
        return f"{len(datasets)} data sets"
    return " and ".join(sorted(datasets))


def read_findings(
    files: Mapping[str, str], records: Iterable[RunRecord], averaged: Collection[str]
) -> list[ModelFinding]:
    """Return the findings of each model of a study, read from its results; rulers come last.

    Args:
        files: Parquet files by name: `metrics` (of stage evaluation), `shares` and `tested`
            (metrics of stage consistency); a study may lack some of them.
        records: Run records, which contain the kind and weights of each model.
        averaged: Data sets that the evaluation averages over.
    """
    shares_of_rulers = {}
    for record in records:
        for model in record.models:
            if model.kind == RULER:
                share = float(model.weights.removeprefix(SHARE_PREFIX))
                shares_of_rulers[model.name] = 100 * share
    return summarize_models(
        _read_results(files, "metrics", MetricRecord),
        _read_results(files, "shares", ShareRecord),
        _read_results(files, "tested", MetricRecord),
        shares_of_rulers,
        averaged,
    )


def _read_results(
    files: Mapping[str, str], name: str, record_type: type[Record]
) -> pd.DataFrame:
    """Return the frame of a file; a study without the file has a frame without rows."""
    if name in files:
        return read_frame(files[name], record_type)
    return build_frame(get_layout(record_type).schema.empty_table())


def summarize_models(
    metrics: pd.DataFrame,
    shares: pd.DataFrame,
    tested: pd.DataFrame,
    rulers: Mapping[str, float],
    averaged: Collection[str],
) -> list[ModelFinding]:
    """Return the findings of each model in one profile; rulers come last.

    The profile is the one that is compared with the papers, if there are rows of it; otherwise the
    only one.

    Args:
        metrics: Frame of `MetricRecord` of stage evaluation.
        shares: Frame of `ShareRecord`.
        tested: Frame of `MetricRecord` of stage consistency.
        rulers: Known share of text of each ruler, in percent.
        averaged: Data sets that the evaluation averages over.
    """
    names = pd.concat(
        [results[["profile", "model"]] for results in (metrics, shares, tested)]
    )
    profile = min(names["profile"], default="")
    if COMPARED_PROFILE in set(names["profile"]):
        profile = COMPARED_PROFILE
    metrics = metrics[metrics["profile"] == profile]
    shares = shares[shares["profile"] == profile]
    tested = tested[tested["profile"] == profile]

    # Numbers on CV-Probes, whose data sets have a condition behind a colon, enter no mean.
    scored = metrics[~metrics["dataset"].str.contains(":")]
    captions = shares[shares["role"] == "caption"]
    # Data sets whose foils have a T-SHAP hold pairs.
    pair_datasets = shares.loc[shares["role"] == "foil", "dataset"].unique()
    findings = []
    for model in names.loc[names["profile"] == profile, "model"].unique():
        finding = _summarize_model(
            model,
            scored[scored["model"] == model],
            captions[captions["model"] == model],
            tested[tested["model"] == model],
            pair_datasets,
            rulers,
            averaged,
        )
        findings.append(replace(finding, profile=profile))
    return sorted(findings, key=lambda finding: finding.kind == RULER)


def _summarize_model(
    name: str,
    scored: pd.DataFrame,
    captions: pd.DataFrame,
    tested: pd.DataFrame,
    pair_datasets: Collection[str],
    rulers: Mapping[str, float],
    averaged: Collection[str],
) -> ModelFinding:
    """Return the finding of one model, without its profile.

    Args:
        name: Name of the model.
        scored: Its metrics of stage evaluation.
        captions: Its T-SHAP of captions.
        tested: Its metrics of stage consistency.
        pair_datasets: Data sets that hold pairs of a caption and a foil.
        rulers: Known share of text of each ruler, in percent.
        averaged: Data sets that the evaluation averages over.
    """
    metric, setting, accuracies = _select_accuracies(scored)
    # The evaluation has averaged over some of the data sets; else all of them are.
    is_average = accuracies["dataset"] == AVERAGE
    means, accuracies = accuracies[is_average], accuracies[~is_average]
    if means.empty:
        means = accuracies
    else:
        accuracies = accuracies[accuracies["dataset"].isin(averaged)]
    # T-SHAP on pairs of captions and foils, as the accuracies; on captions alone if there are no
    # pairs.
    is_pair = captions["dataset"].isin(pair_datasets)
    if is_pair.any():
        captions = captions[is_pair]
    shares = _select_shares(captions, setting)
    # Post-hoc explanations and chains of thought are two means.
    cc_shap_posthoc = _select_metric(tested, CC_SHAP_METRICS[POST_HOC])
    cc_shap_cot = _select_metric(tested, CC_SHAP_METRICS[COT])
    return ModelFinding(
        name=name,
        kind=_classify_model(name, set(scored["setting"]), rulers),
        metric=metric,
        accuracy=_average_rows(means),
        t_shap=_average_rows(shares),
        cc_shap=_average_rows(cc_shap_posthoc),
        cc_shap_cot=_average_rows(cc_shap_cot),
        excesses={
            mean: _average_rows(_select_metric(tested, CC_SHAP_METRICS[kind] + EXCESS))
            for kind, mean in CC_SHAP_MEANS.items()
        },
        equivalent=_list_equivalent(tested),
        seed_variances=_average_seed_variances(tested),
        player_share=_average_player_shares(shares),
        t_shap_excess=_average_rows(_select_excesses(shares)),
        known_share=rulers.get(name),
        datasets={
            "accuracy": frozenset(accuracies["dataset"]),
            "t_shap": frozenset(shares["dataset"]),
            "cc_shap": frozenset(cc_shap_posthoc["dataset"]),
            "cc_shap_cot": frozenset(cc_shap_cot["dataset"]),
        },
        accuracies=_list_measures(accuracies),
        mentions=_count_mentions(tested),
    )


def _classify_model(name: str, settings: set[str], rulers: Mapping[str, float]) -> str:
    """Return the kind of a model, which follows from the settings of its scores."""
    if name in rulers:
        return RULER
    # Encoders have scores of image and text; models with perplexities alone read texts; decoders
    # are prompted.
    if ALIGNMENT in settings:
        return ENCODER
    if settings == {PERPLEXITY}:
        return TEXT_ONLY
    return DECODER


def _select_accuracies(rows: pd.DataFrame) -> tuple[str, str, pd.DataFrame]:
    """Return the metric, setting and rows of a model's accuracy."""
    measured = rows.dropna(subset="value")
    for metric in ACCURACIES:
        of_metric = measured[measured["metric"] == metric]
        if of_metric.empty:
            continue
        # Pairs before single texts before others, as the papers compare models.
        setting = min(of_metric["setting"], key=rank_setting)
        return metric, setting, of_metric[of_metric["setting"] == setting]
    return "", "", rows.iloc[:0]


def _select_shares(rows: pd.DataFrame, preferred: str) -> pd.DataFrame:
    """Return the rows of a model's T-SHAP in the preferred setting; without such rows, in the first
    other setting.
    """
    measured = rows.dropna(subset="value")
    setting = preferred
    if preferred not in set(measured["setting"]):
        setting = min(measured["setting"], key=rank_setting, default="")
    return measured[measured["setting"] == setting]


def _select_metric(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the rows of a metric that have a value."""
    return rows[rows["metric"] == metric].dropna(subset="value")


def _list_measures(rows: pd.DataFrame) -> dict[str, Measure]:
    """Return the measure of each row by its data set."""
    measures = [Measure(**number) for number in list_numbers(rows)]
    return dict(zip(rows["dataset"], measures, strict=True))


def _average_rows(rows: pd.DataFrame) -> Measure:
    """Return the mean of the values in rows, one for each data set; `NOT_MEASURED` without rows."""
    if rows.empty:
        return NOT_MEASURED
    return average_measures(list(_list_measures(rows).values()))


def _average_player_shares(shares: pd.DataFrame) -> float | None:
    """Return the mean share of players that are text; None if it is unknown for a data set."""
    if shares.empty or shares["player_share"].isna().any():
        return None
    return fmean(shares["player_share"])


def _select_excesses(shares: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of T-SHAP with its excess and its interval in place of T-SHAP's; none if it
    is unknown for a data set.
    """
    excesses = shares.assign(
        value=shares["excess"],
        ci_low=shares["excess_low"],
        ci_high=shares["excess_high"],
    )
    if excesses["value"].isna().any():
        return excesses.iloc[:0]
    return excesses


def _list_equivalent(rows: pd.DataFrame) -> list[str]:
    """Return the attributes of the means of CC-SHAP whose excess is within the margin on each data
    set.
    """
    equivalent = []
    for kind, mean in CC_SHAP_MEANS.items():
        excesses = _select_metric(rows, CC_SHAP_METRICS[kind] + EXCESS)
        verdicts = _select_metric(rows, CC_SHAP_METRICS[kind] + EQUIVALENT)
        # Means of numbers within the margin are within it, so that no further test is needed.
        within = verdicts.loc[verdicts["value"] == 1, "dataset"]
        if len(excesses) and set(excesses["dataset"]) <= set(within):
            equivalent.append(mean)
    return equivalent


def _average_seed_variances(rows: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Return the mean variances of CC-SHAP between items and between seeds, over the data sets that
    have both.
    """
    variances = {}
    # Variances add up, so that their means over data sets can be compared; ratios cannot.
    for kind, mean in CC_SHAP_MEANS.items():
        metric = CC_SHAP_METRICS[kind]
        items = _select_metric(rows, metric + VARIANCE_ITEMS)
        seeds = _select_metric(rows, metric + VARIANCE_SEEDS)
        if not items.empty:
            variances[mean] = (fmean(items["value"]), fmean(seeds["value"]))
    return variances


def _count_mentions(rows: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Return how many items of each data set are consistent by a mention, and how many are at all;
    data sets without a mention are left out.
    """
    mentions = _list_measures(_select_metric(rows, MENTIONS))
    consistent = _list_measures(_select_metric(rows, BIASING_FEATURES))
    counts = {}
    for dataset, measure in mentions.items():
        # Verdicts and mentions are over the same items.
        n_mentions = _count_items(measure)
        if n_mentions > 0:
            counts[dataset] = (n_mentions, _count_items(consistent[dataset]))
    return counts


def _count_items(measure: Measure) -> int:
    """Return the number of items that a percentage stands for; over several seeds, their mean."""
    # percent of n items
    return round((measure.value or 0.0) * measure.n / 100)


def describe_findings(
    findings: Sequence[ModelFinding], margin: float = MARGIN
) -> list[str]:
    """Return sentences that describe the findings; the first sentence is the main finding.

    Args:
        margin: Largest excess of CC-SHAP, of either sign, that counts as none.
    """
    rulers = [finding for finding in findings if finding.kind == RULER]
    models = [finding for finding in findings if finding.kind != RULER]
    kinds = {model.kind for model in models}
    positions = _describe_positions(select_measured(models, "t_shap"))
    accurate = select_measured(models, "accuracy")
    # The sentence about T-SHAP comes first if it compares that of any model with its floor; the
    # sentence about accuracies then refers to the same models.
    if any(model.position in POSITIONS for model in models):
        subject = "They"
        if len(accurate) > len(select_measured(accurate, "t_shap")):
            subject = "The models"
        sentences = [*positions, *_describe_accuracy(accurate, subject)]
    elif kinds <= {TEXT_ONLY}:
        subject = "Models that do not see the image"
        sentences = [*_describe_accuracy(accurate, subject), *positions]
    else:
        sentences = [*_describe_accuracy(accurate, "The models"), *positions]
    sentences += _describe_rulers(select_measured(rulers, "t_shap"))
    for kind in CC_SHAP_MEANS:
        sentences += _describe_cc_shap(models, kind, margin)
        sentences += _describe_seeds(models, kind)
    sentences += _describe_mentions(models)
    return sentences or ["This study has no results of models."]


def describe_recorded_runs(
    sources: Mapping[str, str],
    citations: Mapping[str, str],
    counts: VerdictCounts | None,
) -> list[str]:
    """Return the sentences of a study in which no model ran: whose answers they are, and how its
    numbers compare with the papers.

    Args:
        sources: Source of the recorded results, by model.
        citations: Citation by source; empty where a source has none.
        counts: Numbers of cells by verdict; None without paper values.
    """
    names = list(dict.fromkeys(sources.values()))
    models, runs = _join_words(list(sources)), _join_words(names)
    sentence = f"No model ran here: the answers of {models} are recorded in {runs}"
    if counts is not None and counts.compared:
        sentence += f"; of {counts.compared:,} numbers that the papers print, {counts.describe()}"
    origins = []
    for name in names:
        if citation := citations.get(name, "").rstrip("."):
            origins.append(f"{name}: {citation}.")
    return [f"{sentence}.", *origins]


def describe_different_cells(cells: Sequence[Cell]) -> list[str]:
    """Return the sentence that names the cells that differ from the papers; none if there are many."""
    clauses = []
    for cell in cells:
        metric = cell.metric.replace("_", " ")
        values = f"{cell.value:g} here and {cell.paper_text} in the paper"
        clauses.append(
            f"{metric} of {cell.model} on {cell.dataset}, {values} ({cell.table})"
        )
    if not clauses or len(clauses) > MOST_NAMES:
        return []
    return [f"Different: {'; '.join(clauses)}."]


def _describe_positions(models: Sequence[ModelFinding]) -> list[str]:
    """Return the sentence that compares T-SHAP with its floor; none without models."""
    if not models:
        return []
    models_by_position: dict[str, list[ModelFinding]] = {}
    for model in models:
        models_by_position.setdefault(model.position, []).append(model)
    undecided = models_by_position.pop(UNKNOWN, [])
    floor = "the share of players that are text"
    clauses: list[str] = []
    for position, phrase in POSITIONS.items():
        if position in models_by_position:
            names = _name_models(models_by_position[position], _format_t_shap)
            clauses.append(f"{phrase} {floor} for {names}")
            # The first clause says what the other ones are about.
            floor = "it"

    # Models with too few items come last, or get a separate sentence if no other model has a
    # clause.
    names = _name_models(undecided, _format_t_shap)
    if not clauses:
        return [
            "Too few items to compare T-SHAP, the text's share of what moves the score, with the"
            f" share of players that are text: {names}."
        ]
    if undecided:
        clauses.append(f"there are too few items to say for {names}")
    sentence = (
        f"T-SHAP, the text's share of what moves the score, is {'; '.join(clauses)}"
    )
    if len(group_by_datasets(models, "t_shap")) > 1:
        sentence += ", each on its own data sets"
    return [f"{sentence}."]


def _describe_accuracy(models: Sequence[ModelFinding], subject: str) -> list[str]:
    """Return the sentences about the accuracy of models.

    There is a sentence for each metric and each set of data sets, since only means over the same
    data sets can be compared, and a sentence about the models that were measured on too few items.

    Args:
        models: Models with an accuracy.
        subject: Subject of a sentence about several models.
    """
    sentences = []
    measured, too_small = _split_by_size(models, "accuracy")
    for metric in ACCURACIES:
        groups = group_by_datasets(
            (model for model in measured if model.metric == metric), "accuracy"
        )
        for compared in groups.values():
            location = _name_location(compared, "accuracy", len(groups))
            sentences.append(_compare_accuracies(metric, compared, subject, location))
    if too_small and not measured:
        sentences.append("Too few items to say how accurate the models are.")
    elif too_small:
        names = _name_models(too_small, lambda model: f"n = {model.accuracy.n}")
        sentences.append(f"Too few items for the accuracy of {names}.")
    return sentences


def _split_by_size(
    models: Sequence[ModelFinding], mean: str
) -> tuple[list[ModelFinding], list[ModelFinding]]:
    """Return the models whose mean is over enough items, and the models whose mean is not."""
    large, small = [], []
    for model in models:
        if is_small_measure(getattr(model, mean)):
            small.append(model)
        else:
            large.append(model)
    return large, small


def _name_location(models: Sequence[ModelFinding], mean: str, n_groups: int) -> str:
    """Return the data sets that the models' mean is over; an empty text if all models have the same
    data sets.
    """
    if n_groups == 1:
        return ""
    return f" on {name_datasets(models[0], mean)}"


def _compare_accuracies(
    metric: str, models: Sequence[ModelFinding], subject: str, location: str
) -> str:
    """Return the sentence about the accuracy of models with means over the same data sets.

    Accuracies are given by data set, since a mean hides what a model can do and what it cannot.

    Args:
        metric: A key of `ACCURACIES`.
        models: The models.
        subject: Subject of the sentence about several models.
        location: Data sets that the mean is over; empty if all models have the same data sets.
    """
    action = ACCURACIES[metric]
    if len(models) == 1:
        # For one model the verb of the clause gets an s: `prefer` becomes `prefers`.
        verb, _, rest = action.partition(" ")
        subject, action = models[0].name, f"{verb}s {rest}"
        if models[0].kind == TEXT_ONLY:
            subject = f"{subject}, which does not see the image,"
    # A mean is given only of models that have no data set with enough items.
    detailed = [model for model in models if model.ranked]
    coarse = [model for model in models if not model.ranked]
    clauses, parts = [], []
    datasets = sorted(models[0].accuracies)
    if len(datasets) > MOST_NAMES and len(models) > 1 and models[0].chance_levels:
        parts.append(_count_mastered(detailed))
    elif len(datasets) <= MOST_NAMES:
        clauses += [_compare_models(models, dataset) for dataset in datasets]
    elif len(detailed) <= MOST_NAMES:
        clauses += [_compare_datasets(model, models) for model in detailed]
    else:
        clauses.append(_find_extremes(detailed))
    if coarse:
        clauses.append(f"{_compare_means(coarse, models)} of all cases{location}")
    if clauses:
        parts.append(f"in {_join_words(list(filter(None, clauses)))}")
    accuracies = ", and ".join(filter(None, parts))
    return (
        f"{subject} {action} {accuracies}{_name_chance(models)}{_name_small(models)}."
    )


def _count_mastered(models: Sequence[ModelFinding]) -> str:
    """Return the clause about the number of data sets on which each of several models is above
    chance; empty without models.
    """
    # The table below the sentence names the best and the worst data set of each model.
    clauses: list[str] = []
    unit = " data sets"
    for model in sorted(models, key=lambda model: -len(model.mastered)):
        count = f"{len(model.mastered)} of {len(model.ranked)}{unit}"
        clauses.append(f"{count} ({model.name})")
        unit = ""
    if not clauses:
        return ""
    # Of many models, the ends of the range stand for all.
    counts = _join_words(clauses)
    if len(clauses) > MOST_NAMES:
        counts = _join_ends(clauses)
    return f"more often than by guessing on {counts}"


def _compare_models(models: Sequence[ModelFinding], dataset: str) -> str:
    """Return the clause about the lowest and the highest accuracy on one data set; empty if no
    model has enough items of it.
    """
    measured = [model for model in models if dataset in model.ranked]
    if not measured:
        return ""
    # The ends of the range stand for all models.
    measured.sort(key=lambda model: model.accuracies[dataset].value or 0.0)
    accuracies = []
    for model in measured:
        accuracy = _format_accuracy(model.accuracies[dataset])
        accuracies.append(accuracy + _bracket_name(model, models))
    return f"{_join_ends(accuracies)} on {dataset}"


def _compare_datasets(model: ModelFinding, models: Sequence[ModelFinding]) -> str:
    """Return the clause about a model's lowest and highest accuracy, and about the number of data
    sets on which it is better than chance.

    Args:
        model: The model.
        models: All models of the sentence; the clause names the model if there are several.
    """
    accuracies = []
    for dataset in model.ranked:
        accuracy = _format_accuracy(model.accuracies[dataset])
        accuracies.append(f"{accuracy} on {dataset}")
    remarks = []
    if len(models) > 1:
        remarks.append(model.name)
    # A model that is above chance somewhere can do what these foils test, whatever its mean.
    known = model.chance_levels.keys() & model.ranked
    if known:
        counts = f"{len(model.mastered)} of {len(known)}"
        remarks.append(f"above chance on {counts} data sets")
    clause = _join_ends(accuracies)
    if remarks:
        clause += f" ({', '.join(remarks)})"
    return clause


def _find_extremes(models: Sequence[ModelFinding]) -> str:
    """Return the clause about the lowest and the highest accuracy of any model on any data set."""
    accuracies = []
    for model in models:
        for dataset in model.ranked:
            accuracy = model.accuracies[dataset]
            text = f"{_format_accuracy(accuracy)} ({model.name} on {dataset})"
            accuracies.append((accuracy.value or 0.0, text))
    accuracies.sort()
    return _join_ends([text for _, text in accuracies])


def _compare_means(
    coarse: Sequence[ModelFinding], models: Sequence[ModelFinding]
) -> str:
    """Return the clause about the lowest and the highest mean accuracy.

    Args:
        coarse: Models of which only the mean is over enough items.
        models: All models of the sentence.
    """
    ranked = sorted(coarse, key=lambda model: model.accuracy.value or 0.0)
    accuracies = []
    for model in ranked:
        accuracy = _format_accuracy(model.accuracy)
        accuracies.append(accuracy + _bracket_name(model, models))
    return _join_ends(accuracies)


def _bracket_name(model: ModelFinding, models: Sequence[ModelFinding]) -> str:
    """Return the name of one of several models in brackets; of a single model, nothing."""
    if len(models) == 1:
        return ""
    return f" ({model.name})"


def _join_ends(accuracies: Sequence[str]) -> str:
    """Return the first and the last accuracy as a range; of one accuracy, itself."""
    if len(accuracies) == 1:
        return accuracies[0]
    return f"{accuracies[0]} to {accuracies[-1]}"


def _name_chance(models: Sequence[ModelFinding]) -> str:
    """Return the remark about the accuracy of a guess; empty if it is unknown."""
    levels = models[0].chance_levels
    if not levels:
        return ""
    # Tasks with two and with three labels have different chance levels.
    lowest, highest = min(levels.values()), max(levels.values())
    if lowest == highest and levels.keys() == models[0].accuracies.keys():
        return f"; guessing gives {lowest:.0f} %"
    if len(levels) > MOST_NAMES:
        return f"; guessing gives {lowest:.0f} to {highest:.0f} %"
    clauses = [f"{level:.0f} % on {dataset}" for dataset, level in levels.items()]
    return f"; guessing gives {_join_words(clauses)}"


def _name_small(models: Sequence[ModelFinding]) -> str:
    """Return the remark about data sets with too few items of each model; empty if there are none,
    or no others.
    """
    # A data set with enough items of one model is named in its clause.
    small = set(models[0].accuracies)
    for model in models:
        small.difference_update(model.ranked)
    if not small or small == set(models[0].accuracies):
        return ""
    if len(small) > MOST_NAMES:
        return f"; too few items on {len(small)} data sets"
    return f"; too few items on {_join_words(sorted(small))}"


def _describe_rulers(rulers: Sequence[ModelFinding]) -> list[str]:
    """Return the sentence about the largest error of T-SHAP on rulers; none without rulers."""
    if not rulers:
        return []
    largest = max(map(_compute_share_error, rulers))
    return [
        f"Rulers, encoders whose share of text is known, test T-SHAP: it is off by at most {largest:.1f} points."
    ]


def _compute_share_error(ruler: ModelFinding) -> float:
    """Return by how many points a ruler's T-SHAP differs from the known share of text."""
    if ruler.t_shap.value is None or ruler.known_share is None:
        return 0.0
    return abs(ruler.t_shap.value - ruler.known_share)


def _describe_cc_shap(
    models: Sequence[ModelFinding], kind: str, margin: float
) -> list[str]:
    """Return the sentences about CC-SHAP, the agreement of answers and explanations.

    Args:
        kind: Kind of explanation, a key of `CC_SHAP_MEANS`.
        margin: Largest excess, of either sign, that counts as none.
    """
    mean = CC_SHAP_MEANS[kind]
    sentences = []
    measured, too_small = _split_by_size(select_measured(models, mean), mean)
    groups = group_by_datasets(measured, mean)
    for compared in groups.values():
        names = _name_models(
            compared, lambda model: _format_cc_shap(model, mean, margin)
        )
        location = _name_location(compared, mean, len(groups))
        sentences.append(
            f"CC-SHAP, the agreement of an answer with its {EXPLANATIONS[kind]}{location}: {names}."
        )
    if too_small:
        names = _name_models(too_small, lambda model: f"{getattr(model, mean).n}")
        sentences.append(
            f"CC-SHAP of the {EXPLANATIONS[kind]} has too few items to say anything: {names}."
        )
    return sentences


def _describe_seeds(models: Sequence[ModelFinding], kind: str) -> list[str]:
    """Return the sentence about the noise of seeds in CC-SHAP of single items; none without models
    that ran with several seeds.
    """
    mean = CC_SHAP_MEANS[kind]
    # Variances of too few items say nothing; the table of seeds has them.
    measured, _ = _split_by_size(select_measured(models, mean), mean)
    repeated = [model for model in measured if any(model.seed_variances.get(mean, ()))]
    if not repeated:
        return []
    names = _name_models(repeated, lambda model: _format_seeds(model, mean))
    return [
        f"Of the variance of this CC-SHAP ({EXPLANATIONS[kind]}) between items, seeds of texts and permutations are"
        f" noise: {names}."
    ]


def _format_seeds(model: ModelFinding, mean: str) -> str:
    """Return the share of noise in numbers of one seed, and how many seeds reach the reliability
    `TARGET`.
    """
    items, seeds = model.seed_variances[mean]
    share = f"{100 * seeds / (items + seeds):.0f} %"
    components = {BETWEEN: items, WITHIN: seeds}
    needed = count_levels_needed(components, ITEM, SEED, TARGET)
    if needed is None:
        return f"{share}; items differ by no more than their seeds"
    plural = "seed reaches" if needed == 1 else "seeds reach"
    return f"{share}; {needed} {plural} a reliability of {TARGET:g}"


def _format_cc_shap(model: ModelFinding, mean: str, margin: float) -> str:
    """Return a mean of CC-SHAP, how much of it is more than other items' explanations have, and what
    this shows.
    """
    cc_shap = f"{getattr(model, mean).value:.2f}"
    excess = model.excesses.get(mean, NOT_MEASURED)
    if excess.value is None or excess.ci_low is None or excess.ci_high is None:
        return cc_shap
    interval = f"[{excess.ci_low:.2f}, {excess.ci_high:.2f}]"
    verdict = _judge_excess(
        excess.ci_low, excess.ci_high, mean in model.equivalent, margin
    )
    return f"{cc_shap}, {excess.value:.2f} {interval} above that with explanations of other items: {verdict}"


def _judge_excess(low: float, high: float, is_equivalent: bool, margin: float) -> str:
    """Return what the interval of an excess, and the test of its equivalence to 0, show."""
    verdicts = []
    if low > 0:
        verdicts.append("shown to be above 0")
    if high < 0:
        verdicts.append("shown to be below 0")
    if is_equivalent:
        verdicts.append(f"shown to be within ± {margin:g}")
    if verdicts:
        return " and ".join(verdicts)
    return f"not shown to differ from 0, though up to {high:.2f} is not excluded"


def _describe_mentions(models: Sequence[ModelFinding]) -> list[str]:
    """Return the sentence about verdicts that rest on a mention of the suggestion; none without
    such verdicts.
    """
    clauses = []
    n_all_mentions = n_all_consistent = 0
    for model in models:
        for dataset, (n_mentions, n_consistent) in model.mentions.items():
            clauses.append(
                f"{n_mentions} of {n_consistent} on {dataset} ({model.name})"
            )
            n_all_mentions += n_mentions
            n_all_consistent += n_consistent
    if not clauses:
        return []
    counts = _join_words(clauses)
    # Of many data sets and models, the sum is given.
    if len(clauses) > MOST_NAMES:
        counts = f"{n_all_mentions} of {n_all_consistent}"
    words = "words that refer to the suggestion"
    if get_fidelity(models[0].profile).suggestion_mention == "letters":
        words = 'letters such as "suggest", which need not be about the suggestion'
    return [f"Consistent items of biasing features that rest on {words}: {counts}."]


def _name_models(
    models: Sequence[ModelFinding], describe: Callable[[ModelFinding], str]
) -> str:
    """Return the names of models, each with a description; of many models, their number and the
    first and last name.
    """
    # Of many models, the first and the last stand for the range.
    if len(models) > MOST_NAMES:
        first, last = models[0], models[-1]
        return f"{len(models)} models ({first.name} {describe(first)} … {last.name} {describe(last)})"
    return _join_words([f"{model.name} ({describe(model)})" for model in models])


def _join_words(words: Sequence[str]) -> str:
    """Return words as an enumeration: "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _format_accuracy(accuracy: Measure) -> str:
    interval = ""
    if accuracy.ci_low is not None and accuracy.ci_high is not None:
        interval = f" [{accuracy.ci_low:.0f}, {accuracy.ci_high:.0f}]"
    return f"{accuracy.value:.0f} %{interval}"


def _format_t_shap(model: ModelFinding) -> str:
    t_shap = f"{model.t_shap.value:.0f} %"
    if model.player_share is None:
        return t_shap
    return f"{t_shap} against {model.player_share:.0f} %"
