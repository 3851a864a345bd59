"""Declarations of tables: the sources of their numbers, their paper values and layout, the headings
of metrics.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ConfigDict, with_config

from waltz.core.files.resources import RESOURCES

PUBLISHED = RESOURCES / "published"
"""Folder of the paper values."""
COMPARED_PROFILE = "published"
"""Fidelity profile whose numbers are compared with the paper values."""
PAPER_SETTING = "same"
"""Value in `NumberSource.settings` that means the setting of the paper value."""
DERIVED = "derived"
"""Value of `NumberSource.kind` for numbers that are computed from other numbers, see
`Declaration.derived`.
"""
SETTING_SEPARATOR = ", "
"""Text between a setting and a statistic over seeds: `deviation`, or `seed N` for the number of one
seed.
"""
AVERAGE = "average"
"""Name of the data set whose cell is the mean over the other data sets of a row."""
ENCODER, LANGUAGE, VISION = "encoder", "language", "vision"
"""Kinds of models: encoders of image and text, language models, vision-language decoders."""


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True)
class MetricStyle:
    """Heading, number of decimal places, and marks of a metric.

    Attributes:
        heading: Name of the metric in tables.
        decimals: Number of decimal places.
        best: Whether the highest value of several models is bold.
        chance: Whether values at or below the chance level are marked.
    """

    heading: str
    decimals: int = 1
    best: bool = False
    chance: bool = False


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True)
class NumberSource:
    """Source of our number of a metric.

    Attributes:
        kind: Kind of file, a key of `numbers.READERS`, or `DERIVED`.
        metric: Name of the metric in that file.
        settings: Names of settings in that file, in order of preference; the first one that has a
            number is taken. `PAPER_SETTING` means the setting of the paper value.
    """

    kind: str
    metric: str
    settings: tuple[str, ...] = ("",)


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True)
class Declaration:
    """Declaration of one table, whose cells are compared with the paper values in
    `waltz/resources/published`.

    The file `waltz/resources/tables.yaml` declares all tables, with these fields.

    Attributes:
        id: Id of the table, equal to the id of the paper's table if there is one.
        title: One line that says what the table shows.
        sources: Sources of our numbers by metric, in the order of the table; the first source that
            has a number is taken.
        rows: Fields whose values name a row: some of metric, model, dataset, setting and profile.
        columns: Field that names a column.
        column_groups: Fields whose values are headings of groups of columns.
        side_metrics: Metrics that get a separate column; their cell stands in the row of the metric
            that their setting names.
        own_metrics: Metrics that the paper lacks, each with the metric of the paper in whose cells
            it is shown, as rows of their own, for models that were run; one that no model has a
            number of is not shown.
        model_kinds: Kinds of models in the table (ENCODER, LANGUAGE, VISION); empty for tables
            without models.
        paper_table_ids: Ids of the paper tables that it is compared with; None means the paper
            table of the same id, if there is one.
        paper_differences: Comparison, a key of `paper_differences.PAPER_DIFFERENCES`, whose
            differences of paper values the table is compared with instead of the values themselves.
        derived: Numbers to compute from other numbers first, keys of
            `derived_numbers.DERIVED_NUMBERS`.
        extra_sources: Kinds of files that derived numbers need in addition to those in `sources`.
        model_aliases: Our models that may fill the cells of a model of the paper, in order of
            preference, by the paper's name.
        extra_models: Our models that fill cells which the aliases leave open, such as answering
            heads, by the paper's name.
        dataset_aliases: Our data sets by data set of the paper, or by `DATASET@SETTING`; a data set
            of the same name is tried as well.
        datasets: Data sets that a table without paper values shows; empty for all data sets that
            have numbers.
        example_datasets: Data sets whose items the table shows.
        adds_own_datasets: Whether data sets of the study that the paper lacks are shown; averages
            exclude them.
        adds_other_models: Whether models that the paper lacks get rows.
        ragged: Whether each model has only the cells that the paper gives it; without paper values,
            only cells with its numbers.
        known_reasons: Reasons why a paper value cannot have a number of ours, by model or metric.
        model_notes: Known differences between our runs and the paper's, by model of the paper; they
            are added to the reasons of compared cells.
        marks_best: Whether the highest value of several models is marked.
        only_profile: The only profile that is shown if the study has it, for numbers that do not
            depend on the profile.
        field_titles: Titles of fields whose content in this table differs from their name.
        released_code: Keys of `fidelity.RELEASED_CODE` that the numbers follow in `published`; the
            notes end with their commits.
        notes: Remarks that a reader needs.
    """

    id: str
    title: str
    sources: Mapping[str, tuple[NumberSource, ...]]
    rows: tuple[str, ...] = ("metric", "model")
    columns: str = "dataset"
    column_groups: tuple[str, ...] = ()
    side_metrics: tuple[str, ...] = ()
    own_metrics: Mapping[str, str] = field(default_factory=dict)
    model_kinds: tuple[str, ...] = ()
    paper_table_ids: tuple[str, ...] | None = None
    paper_differences: str | None = None
    derived: tuple[str, ...] = ()
    extra_sources: tuple[str, ...] = ()
    model_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extra_models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dataset_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    datasets: tuple[str, ...] = ()
    example_datasets: tuple[str, ...] = ()
    adds_own_datasets: bool = False
    adds_other_models: bool = True
    ragged: bool = False
    known_reasons: Mapping[str, str] = field(default_factory=dict)
    model_notes: Mapping[str, str] = field(default_factory=dict)
    marks_best: bool = True
    only_profile: str | None = None
    field_titles: Mapping[str, str] = field(default_factory=dict)
    released_code: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def number_kinds(self) -> tuple[str, ...]:
        """Kinds of the numbers that the table shows; `DERIVED` is one of them."""
        sources = itertools.chain.from_iterable(self.sources.values())
        return tuple(dict.fromkeys(source.kind for source in sources))

    @property
    def source_kinds(self) -> tuple[str, ...]:
        """Kinds of files that the table's numbers are read from."""
        kinds = dict.fromkeys((*self.number_kinds, *self.extra_sources))
        kinds.pop(DERIVED, None)
        return tuple(kinds)

    @property
    def paper_tables(self) -> tuple[str, ...]:
        """Ids of the paper tables that it is compared with."""
        if self.paper_table_ids is not None:
            return self.paper_table_ids
        # A user's own table has no paper table, so it has no file of paper values.
        if not (PUBLISHED / f"{self.id}.csv").is_file():
            return ()
        return (self.id,)

    @property
    def rule_name(self) -> str:
        """Name of the workflow rule that makes the table, such as `table_3_4` or
        `table_decoders_paper_1`.
        """
        name = self.id.removeprefix("thesis-")
        return f"table_{name.replace('-', '_').replace('.', '_')}"

    def find_dataset_aliases(self, dataset: str, setting: str) -> tuple[str, ...]:
        """Return our data sets whose numbers fill the cells of a data set of the paper in one
        setting.
        """
        # An alias of data set and setting takes precedence over the alias of the data set alone.
        general = self.dataset_aliases.get(dataset, ())
        return self.dataset_aliases.get(f"{dataset}@{setting}", general)

    def list_our_models(self, model: str) -> tuple[str, ...]:
        """Return our models that may fill the cells of a model of the paper, in order of
        preference.
        """
        aliases = self.model_aliases.get(model, (model,))
        return (*aliases, *self.extra_models.get(model, ()))
