"""Declarations of tables: which of our numbers stand next to which paper values, and how they are laid out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from waltz.reporting.tables.metric_styles import get_heading

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
    """One table, compared with the paper values in `resources/published` by their names.

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
        ragged: Whether each model of the paper has only the cells that the paper gives it.
        known_reasons: Known reasons, by model or metric, why a paper value has no counterpart.
        marks_best: Whether the highest value of several models is marked.
        profile_independent: Whether the numbers do not depend on the profile, so that one profile is shown.
        field_titles: Titles of fields that hold something else here than their name says.
        notes: Remarks that a reader needs.
    """

    id: str
    title: str
    sources: Mapping[str, tuple[NumberSource, ...]]
    rows: tuple[str, ...]
    columns: str
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
    marks_best: bool = True
    profile_independent: bool = False
    field_titles: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> dict[str, str]:
        """Headings by metric, in the order of the table."""
        return {metric: get_heading(metric) for metric in self.sources}

    @property
    def source_kinds(self) -> tuple[str, ...]:
        """Kinds of files that the numbers are read from."""
        kinds = [place.source for places in self.sources.values() for place in places if place.source != DERIVED]
        return tuple(dict.fromkeys([*kinds, *self.extra_sources]))

    @property
    def paper_tables(self) -> tuple[str, ...]:
        """Ids of the paper tables that it is compared with."""
        return (self.id,) if self.paper_table_ids is None else self.paper_table_ids

    @property
    def rule_name(self) -> str:
        """Name of the workflow rule that makes it: `table_3_4`, `table_decoders_paper_1`."""
        return "table_" + self.id.removeprefix("thesis-").replace("-", "_").replace(".", "_")


def locate_number(source: str, metric: str, *settings: str) -> tuple[NumberSource, ...]:
    """Return the only source of a number."""
    return (NumberSource(source, metric, settings or ("",)),)
