"""How a table is declared: where its numbers are from, its paper values and layout, the headings of its metrics."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class MetricStyle:
    """Heading, decimal places and marks of a metric.

    Attributes:
        heading: Name of the metric in tables.
        places: Decimal places.
        best: Whether the highest value of several models is bold.
        chance: Whether values at or below the chance level are marked.
    """

    heading: str
    places: int = 1
    best: bool = False
    chance: bool = False


def _make_score_style(heading: str) -> MetricStyle:
    return MetricStyle(heading, best=True, chance=True)


STYLES: Mapping[str, MetricStyle] = {
    "all": MetricStyle("all metrics"),
    "acc_r": _make_score_style("acc_r"),
    "acc": _make_score_style("acc"),
    "p_c": _make_score_style("p_c"),
    "p_f": _make_score_style("p_f"),
    "min_pc_pf": _make_score_style("min(p_c, p_f)"),
    "auroc": _make_score_style("AUROC × 100"),
    "accuracy": _make_score_style("accuracy"),
    "accuracy_cot": _make_score_style("accuracy, CoT"),
    "acc_r_cot": _make_score_style("acc_r, CoT"),
    "t_shap": MetricStyle("T-SHAP"),
    "t_shap_c": MetricStyle("T-SHAP_c"),
    "t_shap_f": MetricStyle("T-SHAP_f"),
    "t_shap_r": MetricStyle("T-SHAP_r"),
    "mm_skew": MetricStyle("MM skew"),
    "t_shap_prediction": MetricStyle("T-SHAP of the answer"),
    "t_shap_explanation": MetricStyle("T-SHAP of the explanation"),
    "cc_shap_posthoc": MetricStyle("CC-SHAP post-hoc", places=2, best=True),
    "cc_shap_cot": MetricStyle("CC-SHAP CoT", places=2, best=True),
    "counterfactual_edits": MetricStyle("counterfactual edits", best=True),
    "input_from_explanation": MetricStyle("input from explanation", best=True),
    "biasing_features": MetricStyle("biasing features", best=True),
    "early_answering": MetricStyle("early answering", best=True),
    "filler_tokens": MetricStyle("filler tokens", best=True),
    "adding_mistakes": MetricStyle("adding mistakes", best=True),
    "paraphrasing": MetricStyle("paraphrasing", best=True),
    "rescaled_average": MetricStyle("tests and CC-SHAP", best=True),
    "rescaled_tests": MetricStyle("tests without CC-SHAP", best=True),
    "rescaled_cc_shap": MetricStyle("CC-SHAP alone", best=True),
    "t_shap_overall": MetricStyle("T-SHAP", places=2),
    "verb_shap": MetricStyle("verb, signed", places=4),
    "verb_share": MetricStyle("verb, % of text", places=2),
    "verb": MetricStyle("verb"),
    "image_caption_pairs": MetricStyle("images with captions", places=0),
    "instances": MetricStyle("items", places=0),
    "valid": MetricStyle("valid", places=0),
    "valid_percent": MetricStyle("valid, %"),
    "unanimous": MetricStyle("unanimous", places=0),
    "unanimous_percent": MetricStyle("unanimous, %"),
    "lexical_items": MetricStyle("lexical items", places=0),
    "js": MetricStyle("JS", places=3),
    "js_valid": MetricStyle("JS, valid", places=3),
    "alpha": MetricStyle("α", places=3),
    "alpha_valid": MetricStyle("α, valid", places=3),
    "instruments": MetricStyle("instruments"),
    "examples": MetricStyle("examples", places=0),
    "foil_generation_method": MetricStyle("foils made by"),
    "mlm": MetricStyle("MLM"),
    "gruen": MetricStyle("GRUEN"),
    "nli": MetricStyle("NLI"),
    "source_dataset": MetricStyle("images and captions from"),
    "image_source": MetricStyle("images from"),
    "caption": MetricStyle("caption"),
    "foil": MetricStyle("foil"),
    "image": MetricStyle("image"),
    "changed": MetricStyle("what is changed"),
    "consistent_where": MetricStyle("consistent where the model"),
    "applies_to": MetricStyle("asked of"),
    "perceptual_image": MetricStyle("perceptual score, image"),
    "perceptual_text": MetricStyle("perceptual score, text"),
    "rho_c": MetricStyle("ρ of p_c and T-SHAP_c", places=2),
    "gruen_mean": MetricStyle("GRUEN, mean", places=3),
    "t_shap_sd": MetricStyle("T-SHAP, deviation over items"),
    "t_shap_corrected": MetricStyle("T-SHAP, corrected"),
    "t_shap_difference": MetricStyle("T-SHAP, difference"),
    "bias": MetricStyle("bias"),
    "bias_corrected": MetricStyle("bias, corrected"),
    "bias_towards_players": MetricStyle("bias towards the share of players"),
    "bias_towards_players_corrected": MetricStyle("bias towards the share of players, corrected"),
    "error": MetricStyle("error of an item"),
    "error_corrected": MetricStyle("error, corrected"),
    "covered": MetricStyle("intervals that hold the exact value, %"),
    "evaluations_for_1_point": MetricStyle("evaluations for ± 1 point", places=0),
    "t_shap_sd_networks": MetricStyle("T-SHAP, deviation over networks"),
    "correlation": MetricStyle("correlation with no control", places=2),
    "cc_shap": MetricStyle("CC-SHAP", places=2),
    "cc_shap_excess": MetricStyle("CC-SHAP of own explanations less that of the control", places=2),
    "cc_shap_difference": MetricStyle("CC-SHAP, difference", places=2),
    "cc_shap_absolute_difference": MetricStyle("CC-SHAP, absolute difference", places=2),
    "t_shap_c_difference": MetricStyle("T-SHAP_c, difference"),
    "t_shap_c_absolute_difference": MetricStyle("T-SHAP_c, absolute difference"),
    "t_shap_f_difference": MetricStyle("T-SHAP_f, difference"),
    "t_shap_f_absolute_difference": MetricStyle("T-SHAP_f, absolute difference"),
    "t_shap_answer": MetricStyle("T-SHAP of the answer"),
    "t_shap_answer_difference": MetricStyle("T-SHAP of the answer, difference"),
    "t_shap_answer_absolute_difference": MetricStyle("T-SHAP of the answer, absolute difference"),
    "t_shap_explanation_difference": MetricStyle("T-SHAP of the explanation, difference"),
    "t_shap_explanation_absolute_difference": MetricStyle("T-SHAP of the explanation, absolute difference"),
    "kendall_tau": MetricStyle("Kendall's τ with the reference", places=2),
    "ranking_survives": MetricStyle("choices under which the ranking survives, %", places=0),
    "known_share": MetricStyle("known share"),
    "ordered": MetricStyle("items on which rulers are in order, %", places=0),
    "sensitivity": MetricStyle("sensitivity, %", places=0),
    "specificity": MetricStyle("specificity, %", places=0),
    "cc_shap_crossed": MetricStyle("CC-SHAP of other draws", places=2),
    "retest_answer": MetricStyle("same answer twice", places=2),
    "retest_explanation": MetricStyle("same explanation twice", places=2),
    "split_halves": MetricStyle("split halves", places=2),
    "ceiling": MetricStyle("ceiling", places=2),
    "share_of_ceiling": MetricStyle("share of the ceiling, %", places=0),
    "skipped": MetricStyle("items skipped", places=0),
    "acc_r_equal": MetricStyle("acc_r at equal likelihood"),
    "acc_r_matched": MetricStyle("acc_r of matched items"),
    "likelihood_difference": MetricStyle("log-likelihood of caption less foil, nats a token", places=2),
    "discordant": MetricStyle("discordant items, %"),
    "design_effect": MetricStyle("design effect of images", places=2),
    "acc_r_difference": MetricStyle("acc_r, difference"),
    "acc_difference": MetricStyle("acc, difference"),
    "acc_r_detectable": MetricStyle("acc_r, smallest difference detected"),
    "acc_detectable": MetricStyle("acc, smallest difference detected"),
}
"""By metric, in the names of `waltz/resources/published`."""


def get_style(metric: str) -> MetricStyle:
    """Return a metric's style; a metric without one is called by its name."""
    return STYLES.get(metric) or MetricStyle(metric)


PAPER_SETTING = "="
"""In `NumberSource.settings`: the setting of the paper value."""
DERIVED = "derived"
"""In `NumberSource.source`: numbers computed from other numbers, see `derived`."""
SETTING_SEPARATOR = ", "
"""Separates a setting from a statistic of it: `deviation` over seeds, or one `seed`."""
AVERAGE = "average"
"""Data set that stands for the mean over the other data sets of a row."""
ENCODER, LANGUAGE, VISION = "encoder", "language", "vision"
"""Kinds of models: encoders of image and text, language models, vision-language decoders."""


@dataclass(frozen=True)
class NumberSource:
    """Source of our number of a metric.

    Attributes:
        source: Kind of file, a key of `numbers.READERS`, or `DERIVED`.
        metric: Name of the metric there.
        settings: Names of the setting there, of which the first one present is taken; `PAPER_SETTING` stands for the
            setting of the paper value.
    """

    source: str
    metric: str
    settings: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class Declaration:
    """One table, compared with the paper values in `waltz/resources/published` by their names.

    Attributes:
        id: Id of the table, equal to that of the paper's table if there is one.
        title: One line that says what the table shows.
        sources: By metric, in the order of the table: where our number is read from; the first one present is taken.
        rows: Fields that name a row, of metric, model, dataset and setting.
        columns: Field that names a column.
        column_groups: Fields whose names head groups of columns.
        side_metrics: Metrics with a column of their own, in the row of the metric that their setting names.
        model_kinds: Kinds of models in the table (ENCODER, LANGUAGE, VISION); empty for tables without models.
        paper_table_ids: Paper tables that it is compared with; None for its own id, empty for none.
        derived: Numbers to compute from other numbers first, keys of `derived.DERIVED_NUMBERS`.
        extra_sources: Kinds of files that derived numbers need in addition to those in `sources`.
        model_aliases: Our models that may stand for a model of the paper, in order of preference.
        extra_models: Our models that fill the cells which the paper's model leaves open, such as its answering heads.
        dataset_aliases: Our data sets by data set of the paper, or by its data set and setting; the same name is
            tried as well.
        example_datasets: Data sets of which the table shows items.
        adds_own_datasets: Whether data sets of the study that the paper lacks are shown; averages exclude them.
        adds_other_models: Whether models that the paper lacks get rows.
        ragged: Whether each model has only the cells that the paper gives it, or its numbers where there is no paper.
        known_reasons: Known reasons, by model or metric, why a paper value has no counterpart.
        model_notes: What is known to differ, by model of the paper, between our runs and the paper's; in the reasons of
            compared cells.
        marks_best: Whether the highest value of several models is marked.
        only_profile: Profile that is shown alone, where the study has it: numbers do not depend on it, or are its own.
        field_titles: Titles of fields that hold something else here than their name says.
        notes: Remarks that a reader needs.
    """

    id: str
    title: str
    sources: Mapping[str, tuple[NumberSource, ...]]
    rows: tuple[str, ...] = ("metric", "model")
    columns: str = "dataset"
    column_groups: tuple[str, ...] = ()
    side_metrics: tuple[str, ...] = ()
    model_kinds: tuple[str, ...] = ()
    paper_table_ids: tuple[str, ...] | None = None
    derived: tuple[str, ...] = ()
    extra_sources: tuple[str, ...] = ()
    model_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extra_models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dataset_aliases: Mapping[str | tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    example_datasets: tuple[str, ...] = ()
    adds_own_datasets: bool = False
    adds_other_models: bool = True
    ragged: bool = False
    known_reasons: Mapping[str, str] = field(default_factory=dict)
    model_notes: Mapping[str, str] = field(default_factory=dict)
    marks_best: bool = True
    only_profile: str | None = None
    field_titles: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> dict[str, str]:
        """Headings by metric, in the order of the table."""
        return {metric: get_style(metric).heading for metric in self.sources}

    @property
    def source_kinds(self) -> tuple[str, ...]:
        """Kinds of files that the numbers are read from."""
        kinds = [place.source for places in self.sources.values() for place in places if place.source != DERIVED]
        return tuple(dict.fromkeys([*kinds, *self.extra_sources]))

    @property
    def paper_tables(self) -> tuple[str, ...]:
        """Ids of the paper tables that it is compared with."""
        return (self.id,) if self.paper_table_ids is None else self.paper_table_ids

    def find_dataset_aliases(self, dataset: str, setting: str) -> tuple[str, ...]:
        """Return our data sets that stand for one of the paper."""
        return self.dataset_aliases.get((dataset, setting), self.dataset_aliases.get(dataset, ()))

    @property
    def rule_name(self) -> str:
        """Name of the workflow rule that makes it: `table_3_4`, `table_decoders_paper_1`."""
        return "table_" + self.id.removeprefix("thesis-").replace("-", "_").replace(".", "_")


def locate_number(source: str, metric: str, *settings: str) -> tuple[NumberSource, ...]:
    """Return the only source of a number."""
    return (NumberSource(source, metric, settings or ("",)),)


def locate_numbers(source: str, metrics: Iterable[str], *settings: str) -> dict[str, tuple[NumberSource, ...]]:
    """Return the source of each metric that has the same name there."""
    return {metric: locate_number(source, metric, *settings) for metric in metrics}
