"""Data sets of a study on which models can be run, with the form and source of each."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from waltz.core.errors import UserError
from waltz.plan.study import CV_PROBES, ITEM_FORMATS, RECORDED_FORMATS, Settings, Study

PAIRS, PROBES, OPEN, CHOICE, RECORDED = "pairs", "probes", "open", "choice", "recorded"
"""Forms of data sets, which `Dataset` explains."""


@dataclass(frozen=True)
class Dataset:
    """Data set that models can be run on.

    Attributes:
        name: Name in the study and in the results.
        form: `pairs` of caption and foil, `probes` (CV-Probes), `open` questions, a `choice` among
            labels, or `recorded` if the study has only recorded runs on it.
        source: Source that the data set is built from.
        entry: The study's entry of a question set or text task; for texts with other images only
            the profiles.
    """

    name: str
    form: str
    source: str
    entry: Settings = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """Return form and entry in one mapping, as jobs read them."""
        return {"form": self.form, **self.entry}

    def select_profiles(self, profiles: Sequence[str]) -> list[str]:
        """Return the profiles in which the data set exists: all of them, unless its entry names
        profiles.
        """
        # Draws of the published runs exist in profile `published` only.
        allowed = self.entry.get("profiles", profiles)
        return [name for name in profiles if name in allowed]


def build_datasets(study: Study) -> dict[str, Dataset]:
    """Return the data sets that models can be run on, by name.

    If several data sets have one name, the last of these forms counts: recorded, pairs, open
    questions, choices, CV-Probes.
    """
    # Later entries replace earlier ones: a data set that the study builds replaces a recorded one
    # of the same name.
    datasets: list[Dataset] = []
    for name, source in list_recorded_datasets(study).items():
        datasets.append(Dataset(name, RECORDED, source))
    for name, source in list_datasets(study).items():
        datasets.append(Dataset(name, PAIRS, source))
    for instrument, built in study.instruments.items():
        datasets.append(Dataset(instrument, PAIRS, built.source))
    for name, alignment in study.alignment.items():
        datasets.append(
            Dataset(name, PAIRS, alignment.source, alignment.to_dict("profiles"))
        )
    for name, questions in study.answering.items():
        datasets.append(Dataset(name, OPEN, questions.source, questions.to_dict()))
    for name, task in study.texts.items():
        datasets.append(Dataset(name, CHOICE, task.source, task.to_dict()))
    if study.cv_probes:
        datasets.append(Dataset(CV_PROBES, PROBES, study.cv_probes.source))
    return {dataset.name: dataset for dataset in datasets}


def list_datasets(study: Study) -> dict[str, str]:
    """Return the source of each data set of finished items: name of the source by name of the data
    set.

    Raises:
        UserError: Two sources contain data sets with the same name.
    """
    sources: dict[str, str] = {}
    for source, entry in study.sources.items():
        # The files of raw sources are not data sets; items are built from them. Each file of finished
        # items is a data set of its name.
        if entry.format not in ITEM_FORMATS:
            continue
        for name in entry.files:
            if name in sources:
                raise UserError(
                    f"study file: sources.{source}.files: {name!r} is built by {sources[name]} as well;"
                    " rename one of them"
                )
            sources[name] = source
    return sources


def list_recorded_datasets(study: Study) -> dict[str, str]:
    """Return the source of each data set with recorded runs; the last one if several sources have
    runs on it.
    """
    sources: dict[str, str] = {}
    for source, entry in study.sources.items():
        if entry.format in RECORDED_FORMATS:
            sources.update(dict.fromkeys(entry.files, source))
    return sources
