"""Findings of a study: accuracy, T-SHAP and CC-SHAP of each model, and sentences about these
numbers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from waltz.consistency.metrics import CC_SHAP_METRICS
from waltz.core.files import parquet
from waltz.core.measure import Measure
from waltz.core.schema import METRICS, SHARES
from waltz.evaluation.metrics.pair_metrics import average_measures
from waltz.evaluation.metrics.summary import AVERAGE
from waltz.evaluation.settings import ALIGNMENT, PERPLEXITY
from waltz.reporting.page.examples import rank_setting
from waltz.reporting.page.page_tables import Row
from waltz.reporting.run_records import Record
from waltz.reporting.tables.cells import is_small
from waltz.reporting.tables.declaration import COMPARED_PROFILE

EVEN = 50.0
"""T-SHAP of a score to which text and image contribute equally, and accuracy of a guess between two
texts; percent.
"""
MOST_NAMES = 3
"""Largest number of models that a sentence names with their numbers."""
RULER, ENCODER, DECODER, TEXT_ONLY = "ruler", "encoder", "decoder", "text only"
SHARE_PREFIX = "share:"
"""Prefix in a ruler's `weights`, which is followed by its share of text, between 0 and 1."""
RELIANCES = {
    "text": "mainly on the text",
    "image": "mainly on the image",
    "both": "on neither text nor image clearly more",
}
"""Words for the modality that a model relies on, by `ModelFinding.reliance`."""
NOT_MEASURED = Measure(None, 0, reason="not measured")
MEANS = ("accuracy", "t_shap", "cc_shap")
"""Attributes of `ModelFinding` that are means over data sets."""
Datasets = frozenset[str]
"""Data sets that a mean is over; means over different data sets are not compared."""
ACCURACIES = {
    "acc_r": ("prefer the caption to a false text, its foil,", "; guessing gives 50 %"),
    "accuracy": ("answer right", ""),
}
"""Metrics of accuracy, in order of preference.

Each has a clause about models that are right, and a remark about chance.
"""


@dataclass(frozen=True)
class ModelFinding:
    """Results of one model over all data sets.

    Attributes:
        name: Name of the model.
        kind: `encoder`, `decoder`, `text only` (scores texts without their image) or `ruler`.
        metric: Metric of its accuracy, a key of `ACCURACIES`; empty without an accuracy.
        accuracy: Mean accuracy over data sets, in percent.
        t_shap: Mean T-SHAP of captions over data sets, in percent.
        cc_shap: Mean CC-SHAP of answers and their explanations over data sets, from -1 to 1.
        known_share: Share of text that a ruler is built with, in percent; None for other models.
        profile: Fidelity profile of the numbers.
        datasets: Data sets that each mean is over, by the attribute of the mean.
    """

    name: str
    kind: str
    metric: str = ""
    accuracy: Measure = NOT_MEASURED
    t_shap: Measure = NOT_MEASURED
    cc_shap: Measure = NOT_MEASURED
    known_share: float | None = None
    profile: str = ""
    datasets: Mapping[str, Datasets] = field(default_factory=dict)

    @property
    def reliance(self) -> str:
        """Modality that the model mainly relies on: `text`, `image`, `both`, or `unknown`.

        It is `text` or `image` if the interval of T-SHAP lies wholly above or below `EVEN`, and
        `unknown` if there are too few items or no interval.
        """
        share = self.t_shap
        if is_small_measure(share) or share.ci_low is None or share.ci_high is None:
            return "unknown"
        if share.ci_low > EVEN:
            return "text"
        if share.ci_high < EVEN:
            return "image"
        return "both"


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
        means: Names of the means: `accuracy`, `t_shap` or `cc_shap`.
    """
    groups: dict[tuple[Datasets, ...], list[ModelFinding]] = {}
    for finding in findings:
        # Means over the same data sets have the same key.
        key = tuple(finding.datasets.get(mean, frozenset()) for mean in means)
        groups.setdefault(key, []).append(finding)
    return groups


def list_mixed_means(findings: Sequence[ModelFinding]) -> list[str]:
    """Return the names of the means that are not over the same data sets for all models."""
    mixed = []
    for mean in MEANS:
        measured = [finding for finding in findings if getattr(finding, mean).n]
        if len(group_by_datasets(measured, mean)) > 1:
            mixed.append(mean)
    return mixed


def select_comparable(findings: Sequence[ModelFinding]) -> list[ModelFinding]:
    """Return the largest group of models whose accuracy and T-SHAP are over the same data sets.

    Of groups of the same size, the first one is returned.
    """
    measured = [
        finding for finding in findings if finding.accuracy.n and finding.t_shap.n
    ]
    groups = group_by_datasets(measured, "accuracy", "t_shap")
    return max(groups.values(), key=len, default=[])


def name_datasets(finding: ModelFinding, mean: str) -> str:
    """Return the names of the data sets that a mean is over, or their number if there are more than
    `MOST_NAMES`.
    """
    datasets = finding.datasets.get(mean, frozenset())
    # The evaluation averages over data sets that it knows; here only the name of the average is
    # known.
    if datasets == {AVERAGE}:
        return "the data sets of the average"
    if len(datasets) > MOST_NAMES:
        return f"{len(datasets)} data sets"
    return " and ".join(sorted(datasets))


def read_findings(
    files: Mapping[str, str], records: Iterable[Record]
) -> list[ModelFinding]:
    """Return the findings of each model of a study, read from its results; rulers come last.

    Args:
        files: Parquet files by name: `metrics` (of stage evaluation), `shares` and `tested`
            (metrics of stage consistency); a study may lack some of them.
        records: Run records, which contain the kind and weights of each model.
    """
    metrics = parquet.read_rows(files["metrics"], METRICS) if "metrics" in files else []
    shares = parquet.read_rows(files["shares"], SHARES) if "shares" in files else []
    tested = parquet.read_rows(files["tested"], METRICS) if "tested" in files else []
    shares_of_rulers = {}
    for record in records:
        for model in record.models:
            if model.get("kind") == RULER:
                share = float(model["weights"].removeprefix(SHARE_PREFIX))
                shares_of_rulers[str(model["name"])] = 100 * share
    return summarize_models(metrics, shares, tested, shares_of_rulers)


def summarize_models(
    metrics: Sequence[Row],
    shares: Sequence[Row],
    tested: Sequence[Row],
    rulers: Mapping[str, float],
) -> list[ModelFinding]:
    """Return the findings of each model in one profile; rulers come last.

    The profile is the one that is compared with the papers, if there are rows of it; otherwise the
    only one.

    Args:
        metrics: Rows of the layout `METRICS` of stage evaluation.
        shares: Rows of the layout `SHARES`.
        tested: Rows of the layout `METRICS` of stage consistency.
        rulers: Known share of text of each ruler, in percent.
    """
    all_rows = [*metrics, *shares, *tested]
    profiles = {row["profile"] for row in all_rows}
    profile = (
        COMPARED_PROFILE if COMPARED_PROFILE in profiles else min(profiles, default="")
    )
    models = dict.fromkeys(
        row["model"] for row in all_rows if row["profile"] == profile
    )
    # Data sets whose foils have a T-SHAP hold pairs.
    pair_datasets = {
        row["dataset"]
        for row in shares
        if row["profile"] == profile and row["role"] == "foil"
    }

    findings = []
    for model in models:
        scored = [
            row
            for row in _select_rows(metrics, profile, model)
            if ":" not in row["dataset"]
        ]
        metric, setting, accuracies = _select_accuracies(scored)
        captions = [
            row
            for row in _select_rows(shares, profile, model)
            if row["role"] == "caption"
        ]
        # T-SHAP on pairs of captions and foils, as the accuracies; on captions alone if there are
        # no pairs.
        of_pairs = [row for row in captions if row["dataset"] in pair_datasets]
        rows_of_mean = {
            "accuracy": accuracies,
            "t_shap": _select_shares(of_pairs or captions, setting),
            "cc_shap": _select_cc_shap(_select_rows(tested, profile, model)),
        }
        finding = ModelFinding(
            name=model,
            kind=_classify_model(model, {row["setting"] for row in scored}, rulers),
            metric=metric,
            accuracy=_average_rows(rows_of_mean["accuracy"]),
            t_shap=_average_rows(rows_of_mean["t_shap"]),
            cc_shap=_average_rows(rows_of_mean["cc_shap"]),
            known_share=rulers.get(model),
            profile=profile,
            datasets={
                mean: frozenset(row["dataset"] for row in rows)
                for mean, rows in rows_of_mean.items()
            },
        )
        findings.append(finding)
    return sorted(findings, key=lambda finding: finding.kind == RULER)


def _select_rows(rows: Sequence[Row], profile: str, model: str) -> list[Row]:
    """Return the rows of one model in one profile."""
    return [row for row in rows if row["profile"] == profile and row["model"] == model]


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


def _select_accuracies(rows: Sequence[Row]) -> tuple[str, str, list[Row]]:
    """Return the metric, setting and rows of a model's accuracy.

    If the evaluation has computed an average over data sets, its row is the only one.
    """
    for metric in ACCURACIES:
        measured = _select_measured(rows, metric)
        if not measured:
            continue
        # Pairs before single texts before others, as the papers compare models.
        setting = min({row["setting"] for row in measured}, key=rank_setting)
        of_setting = [row for row in measured if row["setting"] == setting]
        averages = [row for row in of_setting if row["dataset"] == AVERAGE]
        return metric, setting, averages or of_setting
    return "", "", []


def _select_measured(rows: Sequence[Row], metric: str) -> list[Row]:
    """Return the rows of a metric that have a value."""
    return [row for row in rows if row["metric"] == metric and row["value"] is not None]


def _select_shares(rows: Sequence[Row], preferred: str) -> list[Row]:
    """Return the rows of a model's T-SHAP in the preferred setting; without such rows, in the first
    other setting.
    """
    measured = [row for row in rows if row["value"] is not None]
    settings = {row["setting"] for row in measured}
    setting = (
        preferred
        if preferred in settings
        else min(settings, key=rank_setting, default="")
    )
    return [row for row in measured if row["setting"] == setting]


def _select_cc_shap(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a model's CC-SHAP: of explanations after the answer if there are any, else
    of another kind.
    """
    for metric in CC_SHAP_METRICS.values():
        measured = _select_measured(rows, metric)
        if measured:
            return measured
    return []


def _average_rows(rows: Sequence[Row]) -> Measure:
    """Return the mean of the values in rows, one for each data set; `NOT_MEASURED` without rows."""
    measures = []
    for row in rows:
        measures.append(
            Measure(
                row["value"],
                row["n"],
                row["ci_low"],
                row["ci_high"],
                images=row.get("images"),
            )
        )
    return average_measures(measures) if measures else NOT_MEASURED


def describe_findings(findings: Sequence[ModelFinding]) -> list[str]:
    """Return sentences that describe the findings; the first sentence is the main finding."""
    rulers = [
        finding for finding in findings if finding.kind == RULER and finding.t_shap.n
    ]
    models = [finding for finding in findings if finding.kind != RULER]
    reliances = _describe_reliances([model for model in models if model.t_shap.n])
    accurate = [model for model in models if model.accuracy.n]
    # What models rely on is said first where there is something to say; accuracies then need no
    # subject of their own.
    is_decided = any(model.reliance in RELIANCES for model in models)
    if is_decided:
        sentences = [*reliances, *_describe_accuracy(accurate, "They")]
    elif all(model.kind == TEXT_ONLY for model in models):
        sentences = [
            *_describe_accuracy(accurate, "Models that do not see the image"),
            *reliances,
        ]
    else:
        sentences = [*_describe_accuracy(accurate, "The models"), *reliances]
    sentences += _describe_rulers(rulers)
    sentences += _describe_cc_shap([model for model in models if model.cc_shap.n])
    return sentences or ["This study has no results of models."]


def _describe_reliances(models: Sequence[ModelFinding]) -> list[str]:
    """Return the sentence about the modality that models rely on; none without models."""
    if not models:
        return []
    clauses = []
    for reliance, phrase in RELIANCES.items():
        members = [model for model in models if model.reliance == reliance]
        if members:
            clauses.append(
                f"{_name_models(members, _format_t_shap)} {_inflect('relies', members)} {phrase}"
            )
    # Models with too few items come last, or get a separate sentence if no other model has a
    # clause.
    undecided = [model for model in models if model.reliance == "unknown"]
    names = _name_models(undecided, _format_t_shap)
    if undecided and not clauses:
        sentence = f"Too few items to say whether {names} {_inflect('relies', undecided)} on text or on images."
    else:
        if undecided:
            clauses.append(f"there are too few items to say for {names}")
        are_apart = len(group_by_datasets(models, "t_shap")) > 1
        remark = ", each on its own data sets" if are_apart else ""
        sentence = (
            f"Among models that match images with texts, {'; '.join(clauses)}{remark}."
        )
    # The first bracket says what its number is.
    return [sentence.replace("(", "(share of the text: ", 1)]


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
        sentences.append(
            f"Too few items to say how accurate {names} {_inflect('is', too_small)}."
        )
    return sentences


def _split_by_size(
    models: Sequence[ModelFinding], mean: str
) -> tuple[list[ModelFinding], list[ModelFinding]]:
    """Return the models whose mean is over enough items, and the models whose mean is not."""
    large: list[ModelFinding] = []
    small: list[ModelFinding] = []
    for model in models:
        (small if is_small_measure(getattr(model, mean)) else large).append(model)
    return large, small


def _name_location(models: Sequence[ModelFinding], mean: str, n_groups: int) -> str:
    """Return the data sets that the models' mean is over; an empty text if all models have the same
    data sets.
    """
    return f" on {name_datasets(models[0], mean)}" if n_groups > 1 else ""


def _compare_accuracies(
    metric: str, models: Sequence[ModelFinding], subject: str, location: str
) -> str:
    """Return the sentence about the accuracy of one model, or about the lowest and the highest of
    several.

    Args:
        metric: A key of `ACCURACIES`.
        models: Models with means over the same data sets.
        subject: Subject of the sentence about several models.
        location: Data sets that the mean is over; empty if all models have the same data sets.
    """
    action, chance = ACCURACIES[metric]
    ranked = sorted(models, key=lambda model: model.accuracy.value or 0.0)
    lowest, highest = ranked[0], ranked[-1]
    if len(ranked) == 1:
        # The clause is in the plural; for one model its verb gets an s: `prefer` becomes `prefers`.
        verb, _, rest = action.partition(" ")
        remark = ", which does not see the image," if lowest.kind == TEXT_ONLY else ""
        share = _format_accuracy(lowest)
        return f"{lowest.name}{remark} {verb}s {rest} in {share} of all cases{location}{chance}."
    ends = dict.fromkeys(
        f"{_format_accuracy(model)} ({model.name})" for model in (lowest, highest)
    )
    return f"{subject} {action} in {' to '.join(ends)} of all cases{location}{chance}."


def _describe_rulers(rulers: Sequence[ModelFinding]) -> list[str]:
    """Return the sentence about the largest error of T-SHAP on rulers; none without rulers."""
    if not rulers:
        return []
    errors = []
    for ruler in rulers:
        errors.append(abs((ruler.t_shap.value or 0.0) - (ruler.known_share or 0.0)))
    largest = max(errors)
    return [
        f"Rulers, encoders whose share of text is known, test T-SHAP: it is off by at most {largest:.1f} points."
    ]


def _describe_cc_shap(models: Sequence[ModelFinding]) -> list[str]:
    """Return the sentences about CC-SHAP, the agreement of answers and explanations."""
    sentences = []
    measured, too_small = _split_by_size(models, "cc_shap")
    groups = group_by_datasets(measured, "cc_shap")
    for compared in groups.values():
        names = _name_models(compared, lambda model: f"{model.cc_shap.value:.2f}")
        location = _name_location(compared, "cc_shap", len(groups))
        sentences.append(
            f"CC-SHAP, the agreement of an answer with its explanation{location}: {names}."
        )
    if too_small:
        names = _name_models(too_small, lambda model: f"{model.cc_shap.n}")
        sentences.append(f"CC-SHAP has too few items to say anything: {names}.")
    return sentences


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
    parts = [f"{model.name} ({describe(model)})" for model in models]
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _inflect(verb: str, models: Sequence[ModelFinding]) -> str:
    """Return a verb in the third person: in the singular for one model, else in the plural."""
    if len(models) == 1:
        return verb
    return {"relies": "rely", "is": "are"}[verb]


def _format_accuracy(model: ModelFinding) -> str:
    accuracy = model.accuracy
    interval = ""
    if accuracy.ci_low is not None and accuracy.ci_high is not None:
        interval = f" [{accuracy.ci_low:.0f}, {accuracy.ci_high:.0f}]"
    return f"{accuracy.value:.0f} %{interval}"


def _format_t_shap(model: ModelFinding) -> str:
    return f"{model.t_shap.value:.0f} %"
