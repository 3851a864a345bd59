"""Findings of a study: accuracy, T-SHAP and CC-SHAP of each model, and the sentences that say what was found."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from waltz.consistency.metrics import CC_SHAP_METRICS
from waltz.core.files import parquet
from waltz.core.intervals import Measure
from waltz.core.schema import METRICS, SHARES
from waltz.evaluation.metrics.pair_metrics import average_measures
from waltz.evaluation.metrics.summary import AVERAGE
from waltz.evaluation.settings import ALIGNMENT, PERPLEXITY
from waltz.reporting.page.examples import rank_setting
from waltz.reporting.page.plain_tables import Row, is_small
from waltz.reporting.run_records import Record
from waltz.reporting.tables.cells import COMPARED_PROFILE

EVEN = 50.0
"""T-SHAP of a score that rests on text and image alike, and accuracy of a guess between caption and foil; percent."""
CC_SHAP_RANGE = 2.0
"""Distance of the smallest and largest value of CC-SHAP."""
MOST_NAMES = 3
"""Largest number of models that a sentence names with their numbers."""
RULER, ENCODER, DECODER, TEXT_ONLY = "ruler", "encoder", "decoder", "text only"
SHARE_PREFIX = "share:"
"""Prefix of the share of text in the weights of a ruler."""
SIDES = {
    "text": "mainly on the text",
    "image": "mainly on the image",
    "both": "on neither text nor image clearly more",
}
"""What the scores of a model rest on, by its side."""
NOT_MEASURED = Measure(None, 0, reason="not measured")
ACCURACIES = {
    "acc_r": ("prefer the caption to a false text, its foil,", "; guessing gives 50 %"),
    "accuracy": ("answer right", ""),
}
"""Metrics of accuracy, the first that a model has; what the models do in the cases that it counts, and the chance."""


@dataclass(frozen=True)
class ModelFinding:
    """Results of one model over all data sets.

    Attributes:
        name: Name of the model.
        kind: `encoder`, `decoder`, `text only` (scores texts without their image) or `ruler`.
        metric: Metric of its accuracy, a key of `ACCURACIES`; empty without one.
        accuracy: Its accuracy in percent, mean over data sets.
        t_shap: T-SHAP of captions in percent, mean over data sets.
        cc_shap: CC-SHAP of answers and their explanations, -1 to 1, mean over data sets.
        known_share: Share of text that a ruler is built with, in percent.
        profile: Fidelity profile of its numbers.
    """

    name: str
    kind: str
    metric: str = ""
    accuracy: Measure = NOT_MEASURED
    t_shap: Measure = NOT_MEASURED
    cc_shap: Measure = NOT_MEASURED
    known_share: float | None = None
    profile: str = ""

    @property
    def side(self) -> str:
        """`text` or `image`, whichever the model mainly rests on, `both`, or `unknown` from too few items."""
        share = self.t_shap
        if is_small_measure(share) or share.ci_low is None or share.ci_high is None:
            return "unknown"
        return "text" if share.ci_low > EVEN else "image" if share.ci_high < EVEN else "both"


def is_small_measure(measure: Measure, scale: float = 100.0) -> bool:
    """Return whether a number is measured on too few items to mean anything."""
    return is_small(measure.n, measure.ci_low, measure.ci_high, scale)


def read_findings(files: Mapping[str, str], records: Iterable[Record]) -> list[ModelFinding]:
    """Read the findings of a study, rulers last.

    Args:
        files: Parquet files `metrics` (of evaluation), `shares` and `tested` (metrics of stage consistency), those that
            the study has.
        records: Run records, which contain the kinds of the models.
    """
    metrics = parquet.read_rows(files["metrics"], METRICS) if "metrics" in files else []
    shares = parquet.read_rows(files["shares"], SHARES) if "shares" in files else []
    tested = parquet.read_rows(files["tested"], METRICS) if "tested" in files else []
    models = {str(model["name"]): model for record in records for model in record.models}
    shares_of_rulers = {
        name: 100 * float(model["weights"].removeprefix(SHARE_PREFIX))
        for name, model in models.items()
        if model.get("kind") == RULER
    }
    return summarize_models(metrics, shares, tested, shares_of_rulers)


def summarize_models(
    metrics: Sequence[Row], shares: Sequence[Row], tested: Sequence[Row], rulers: Mapping[str, float]
) -> list[ModelFinding]:
    """Return the findings of each model, rulers last, in the profile that is compared with the papers or the only one.

    Args:
        metrics: Rows of the layout `METRICS` of stage evaluation.
        shares: Rows of the layout `SHARES`.
        tested: Rows of the layout `METRICS` of stage consistency.
        rulers: Known share of text of each ruler, in percent.
    """
    profiles = {row["profile"] for rows in (metrics, shares, tested) for row in rows}
    profile = COMPARED_PROFILE if COMPARED_PROFILE in profiles else min(profiles, default="")
    metrics, shares, tested = ([row for row in rows if row["profile"] == profile] for rows in (metrics, shares, tested))
    pair_datasets = {row["dataset"] for row in shares if row["role"] == "foil"}
    findings = []
    for name in dict.fromkeys(row["model"] for rows in (metrics, shares, tested) for row in rows):
        scored = [row for row in metrics if row["model"] == name and ":" not in row["dataset"]]
        metric, setting, accuracy = _find_accuracy(scored)
        captions = [row for row in shares if row["model"] == name and row["role"] == "caption"]
        captions = [row for row in captions if row["dataset"] in pair_datasets] or captions
        explained = [row for row in tested if row["model"] == name]
        findings.append(
            ModelFinding(
                name,
                _classify_model(name, {row["setting"] for row in scored}, rulers),
                metric,
                accuracy,
                _average_setting(captions, [setting]),
                _average_cc_shap(explained),
                rulers.get(name),
                profile,
            )
        )
    return sorted(findings, key=lambda finding: finding.kind == RULER)


def _classify_model(name: str, settings: set[str], rulers: Mapping[str, float]) -> str:
    """Return the kind of a model by the settings that it was scored in."""
    if name in rulers:
        return RULER
    return ENCODER if ALIGNMENT in settings else TEXT_ONLY if settings == {PERPLEXITY} else DECODER


def _find_accuracy(rows: Sequence[Row]) -> tuple[str, str, Measure]:
    """Return metric, setting and mean of a model's accuracy."""
    for metric in ACCURACIES:
        measured = [row for row in rows if row["metric"] == metric and row["value"] is not None]
        for setting in sorted({row["setting"] for row in measured}, key=rank_setting):
            of_setting = [row for row in measured if row["setting"] == setting]
            averages = [row for row in of_setting if row["dataset"] == AVERAGE]
            return metric, setting, average_measures(list(map(_build_measure, averages or of_setting)))
    return "", "", NOT_MEASURED


def _average_setting(rows: Sequence[Row], preferred: Sequence[str]) -> Measure:
    """Return the mean over data sets in the preferred setting, or the first of the others."""
    measured = [row for row in rows if row["value"] is not None]
    settings = sorted(
        {row["setting"] for row in measured}, key=lambda setting: (setting not in preferred, rank_setting(setting))
    )
    parts = [_build_measure(row) for row in measured if row["setting"] == settings[0]]
    return average_measures(parts) if parts else NOT_MEASURED


def _average_cc_shap(rows: Sequence[Row]) -> Measure:
    """Return the mean CC-SHAP over data sets, of explanations after the answer if there are some."""
    for metric in CC_SHAP_METRICS.values():
        parts = [_build_measure(row) for row in rows if row["metric"] == metric and row["value"] is not None]
        if parts:
            return average_measures(parts)
    return NOT_MEASURED


def _build_measure(row: Row) -> Measure:
    return Measure(row["value"], row["n"], row["ci_low"], row["ci_high"])


def describe_findings(findings: Sequence[ModelFinding]) -> list[str]:
    """Describe the findings in sentences; the first says what was found."""
    models = [finding for finding in findings if finding.kind != RULER]
    sides = _describe_sides([model for model in models if model.t_shap.n])
    blind = all(model.kind == TEXT_ONLY for model in models)
    is_decided = any(model.side in SIDES for model in models)
    subject = "They" if is_decided else "Models that do not see the image" if blind else "The models"
    accuracy = _describe_accuracy([model for model in models if model.accuracy.n], subject)
    sentences = [
        *(sides + accuracy if is_decided else accuracy + sides),
        *_describe_rulers([finding for finding in findings if finding.kind == RULER and finding.t_shap.n]),
        *_describe_cc_shap([model for model in models if model.cc_shap.n]),
    ]
    return sentences or ["This study has no results of models."]


def _describe_sides(models: Sequence[ModelFinding]) -> list[str]:
    """Return the sentence about what models rely on: text or image."""
    clauses = []
    for side, place in SIDES.items():
        members = [model for model in models if model.side == side]
        if members:
            verb = "relies" if len(members) == 1 else "rely"
            clauses.append(f"{_name_models(members, _format_t_shap)} {verb} {place}")
    unknown = _name_models([model for model in models if model.side == "unknown"], _format_t_shap)
    if unknown and not clauses:
        sentence = f"Too few items to say whether {unknown} relies on text or on images."
    else:
        clauses += [f"there are too few items to say for {unknown}"] if unknown else []
        sentence = f"Among models that match images with texts, {'; '.join(clauses)}."
    return [sentence.replace("(", "(share of the text: ", 1)] if models else []


def _describe_accuracy(models: Sequence[ModelFinding], subject: str) -> list[str]:
    """Return a sentence for each metric of accuracy that is measured on enough items: the lowest and the highest."""
    sentences = []
    for metric, (action, chance) in ACCURACIES.items():
        members = [model for model in models if model.metric == metric and not is_small_measure(model.accuracy)]
        ranked = sorted(members, key=lambda model: model.accuracy.value or 0.0)
        if len(ranked) == 1:
            verb, _, rest = action.partition(" ")
            seeing = ", which does not see the image," if ranked[0].kind == TEXT_ONLY else ""
            share = f"{ranked[0].accuracy.value:.0f} %"
            sentences.append(f"{ranked[0].name}{seeing} {verb}s {rest} in {share} of all cases{chance}.")
        elif ranked:
            spans = [f"{model.accuracy.value:.0f} % ({model.name})" for model in (ranked[0], ranked[-1])]
            sentences.append(f"{subject} {action} in {' to '.join(dict.fromkeys(spans))} of all cases{chance}.")
    return sentences or ["Too few items to say how accurate the models are."][: len(models)]


def _describe_rulers(rulers: Sequence[ModelFinding]) -> list[str]:
    """Return the sentence about how far the measured T-SHAP of rulers lies from the share that they are built with."""
    if not rulers:
        return []
    largest = max(abs((ruler.t_shap.value or 0.0) - (ruler.known_share or 0.0)) for ruler in rulers)
    return [f"Rulers, encoders whose share of text is known, test T-SHAP: it is off by at most {largest:.1f} points."]


def _describe_cc_shap(models: Sequence[ModelFinding]) -> list[str]:
    """Return the sentence about the agreement of answers and explanations."""
    sentences = []
    members = [model for model in models if not is_small_measure(model.cc_shap, CC_SHAP_RANGE)]
    few = [model for model in models if model not in members]
    if members:
        names = _name_models(members, lambda model: f"{model.cc_shap.value:.2f}")
        sentences.append(f"CC-SHAP, the agreement of an answer with its explanation: {names}.")
    if few:
        names = _name_models(few, lambda model: f"{model.cc_shap.n}")
        sentences.append(f"CC-SHAP has too few items to say anything: {names}.")
    return sentences


def _name_models(models: Sequence[ModelFinding], describe: Callable[[ModelFinding], str]) -> str:
    """Return the names of models, each with a description; the number of models if there are many."""
    if len(models) > MOST_NAMES:
        first, last = describe(models[0]), describe(models[-1])
        return f"{len(models)} models ({models[0].name} {first} … {models[-1].name} {last})"
    parts = [f"{model.name} ({describe(model)})" for model in models]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _format_t_shap(model: ModelFinding) -> str:
    return f"{model.t_shap.value:.0f} %"
