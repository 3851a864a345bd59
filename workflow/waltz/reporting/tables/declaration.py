"""What a table is: which numbers of ours stand where print has its own, and how it is laid out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from waltz.reporting.tables.metric_styles import get_heading

PAPER_SETTING = "="
"""In `Where.settings`: the setting that print names."""
DERIVED = "derived"
"""In `Where.source`: numbers made from others, see `derived`."""
SETTING_SEPARATOR = ", "
"""Parts a printed setting from what is said behind it: `deviation` over seeds, or one `seed`."""
AVERAGE = "average"
"""Data set of the mean over the other data sets of a row."""
ENCODER, LANGUAGE, VISION = "encoder", "language", "vision"
"""What models a table is about: encoders of image and text, language models, decoders that see."""


@dataclass(frozen=True)
class NumberSource:
    """Where our number of a metric stands.

    Attributes:
        source: Kind of file, a key of `numbers.READERS`, or `DERIVED`.
        metric: Its name there.
        settings: Names of its setting there, the first that is found; `SAME` stands for that of print.
    """

    source: str
    metric: str
    settings: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class Declaration:
    """One table, joined to print by the names of `resources/published`.

    Attributes:
        id: Id of the table, that of the published one where there is one.
        title: What it shows, in one line.
        sources: By metric, in the order of the table, where our number stands; the first that is found.
        rows: Fields that name a row: of metric, model, dataset, setting.
        columns: Field that names a column.
        over: Fields whose names stand above those of the columns.
        beside: Metrics that stand in a column of their own in the row of the metric that their setting names.
        kinds: Of ENCODER, LANGUAGE, VISION: the models that it takes; empty where it has none.
        printed: Published tables that it is compared with; its own id where None, none where empty.
        derived: Numbers made from others before joining, keys of `derived.DERIVED`.
        needs: Kinds of files that these are made from, beside those that `sources` names.
        aliases: Models of ours that a printed model id means in this table, the first that was run.
        also: Models of ours that give those cells of a printed one which it does not, such as its answering heads.
        datasets: Data sets of ours by printed data set, or data set and setting; the same name is tried as well.
        samples: Data sets whose items it shows.
        own: Whether data sets of the study that print has not are shown too; no average holds them.
        others: Whether models that print has not get rows.
        ragged: Whether each printed model has cells of its own, and no others.
        reasons: Why a printed cell has no number of ours, by printed model or metric, where that is known beforehand.
        bold: Whether the highest value of several models is marked.
        once: Whether nothing in it depends on the profile, so that it is shown in one alone.
        names: What fields are called in this table, where they hold something else than their name says.
        notes: What a reader must know.
    """

    id: str
    title: str
    sources: Mapping[str, tuple[NumberSource, ...]]
    rows: tuple[str, ...]
    columns: str
    over: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    printed: tuple[str, ...] | None = None
    derived: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    also: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    datasets: Mapping[str | tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    samples: tuple[str, ...] = ()
    own: bool = False
    others: bool = True
    ragged: bool = False
    reasons: Mapping[str, str] = field(default_factory=dict)
    bold: bool = True
    once: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> dict[str, str]:
        """Headings by metric, in order."""
        return {metric: get_heading(metric) for metric in self.sources}

    @property
    def files(self) -> tuple[str, ...]:
        """Kinds of files that its numbers come from."""
        named = [where.source for places in self.sources.values() for where in places if where.source != DERIVED]
        return tuple(dict.fromkeys([*named, *self.needs]))

    @property
    def published(self) -> tuple[str, ...]:
        """Ids of the published tables that it is compared with."""
        return (self.id,) if self.printed is None else self.printed

    @property
    def target(self) -> str:
        """Name under which the workflow makes it: `table_3_4`, `table_decoders_paper_1`."""
        return "table_" + self.id.removeprefix("thesis-").replace("-", "_").replace(".", "_")


def locate_number(source: str, metric: str, *settings: str) -> tuple[NumberSource, ...]:
    """A number that stands in one kind of file."""
    return (NumberSource(source, metric, settings or ("",)),)
