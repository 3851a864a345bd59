"""Inputs for building a benchmark: models that propose and judge foils, and files of instruments
and CV-Probes.
"""

from collections.abc import Collection
from dataclasses import dataclass

from waltz.instruments import FILTER_MODELS, INSTRUMENTS
from waltz.plan.raw_files import RawFiles
from waltz.plan.run_table import unique
from waltz.plan.study import Settings, Study, to_settings

PROBE_JUDGES = ("acceptability", "likelihood")
"""Keys under `filters` of the models that judge the grammaticality of CV-Probes."""


@dataclass(frozen=True)
class Construction:
    """Files, models and settings with which the instruments and CV-Probes of a study are built.

    Attributes:
        study: The study.
        raw: Raw files of the study.
        results: Folder of the study's results.
        released: Data sets of finished items; an instrument of the same name is rebuilt next to
            them.
    """

    study: Study
    raw: RawFiles
    results: str
    released: Collection[str]

    # Instruments

    def get_rows(self, instrument: str) -> str:
        """Return the file with the rows of an instrument's source."""
        return f"{self.results}/sources/{self.study.instruments[instrument].source}.parquet"

    def get_maker(self, instrument: str) -> str:
        """Return the full name of the function that makes the candidates of an instrument."""
        return INSTRUMENTS[instrument].maker

    def list_tables(self, instrument: str) -> list[str]:
        """Return the files that the maker of an instrument reads, by their paths in the package."""
        return list(INSTRUMENTS[instrument].tables)

    def list_filters(self, instrument: str) -> list[str]:
        """Return the names of the filters of an instrument."""
        return list(self.study.instruments[instrument].filters)

    def get_annotations(self, instrument: str) -> str | list[str]:
        """Return the file with people's annotations of an instrument; an empty list if the study
        names no file.
        """
        return self.study.benchmark.annotations.get(instrument, [])

    def list_proposing_models(self, instrument: str) -> list[str]:
        """Return a list with the model that proposes an instrument's foils or counts its tokens;
        empty if none does.
        """
        proposals = self.study.proposals
        if proposals is None:
            return []
        # A model that proposes foils counts the tokens of captions as well.
        key = INSTRUMENTS[instrument].proposal_key
        if key:
            return [getattr(proposals, key)]
        # Otherwise the model of spans measures captions, if the study limits their length.
        if self.study.instruments[instrument].most_tokens:
            return [proposals.spans]
        return []

    def get_proposal_settings(self, instrument: str) -> Settings:
        """Return the settings with which a model proposes an instrument's foils; empty if no model
        does.
        """
        proposals = self.study.proposals
        if proposals is None or not self.list_proposing_models(instrument):
            return {}
        # Only proposals of spans (relations) can come from CheckList instead of waltz.
        keys = ["longest", "best"]
        if INSTRUMENTS[instrument].proposal_key == "spans":
            keys.append("proposer")
        return proposals.to_dict(*keys)

    def get_filter_models(self, instrument: str) -> dict[str, str]:
        """Return the models that the filters of an instrument use: name of the model by its key
        under `filters`.
        """
        if self.study.filters is None:
            return {}
        # Several filters may share a model.
        keys: set[str] = set()
        for name in self.study.instruments[instrument].filters:
            keys.update(FILTER_MODELS[name])
        return {key: self.study.filters.models[key] for key in sorted(keys)}

    def list_filter_models(self, instrument: str) -> list[str]:
        """Return the names of the models that the filters of an instrument use."""
        return list(self.get_filter_models(instrument).values())

    def get_min_grammaticality(self, instrument: str) -> float | None:
        """Return the smallest grammaticality that a foil of an instrument may have; None without
        such a filter.
        """
        is_filtered = "grammaticality" in self.study.instruments[instrument].filters
        if self.study.filters is None or not is_filtered:
            return None
        return self.study.filters.grammaticality

    def get_built_file(self, instrument: str) -> str:
        """Return the file with the items that are built for an instrument, separate from released
        items.
        """
        # Released items keep their path; rebuilt items are compared with them.
        folder = "benchmark/rebuilt" if instrument in self.released else "benchmark"
        return f"{self.results}/{folder}/{instrument}.parquet"

    @property
    def built_files(self) -> list[str]:
        """Return the files with the items of all instruments that are built."""
        return [
            self.get_built_file(instrument) for instrument in self.study.instruments
        ]

    @property
    def audit_models(self) -> dict[str, str]:
        """Return the judges of the blind audit by their keys under `filters`; empty if the study
        has no audit, or builds no instruments.
        """
        is_audited = self.study.benchmark.audit and self.study.instruments
        if self.study.filters is None or not is_audited:
            return {}
        return self.study.filters.models

    # CV-Probes

    @property
    def probe_sources(self) -> list[str]:
        """Return a list with the source of CV-Probes; empty if the study does not build CV-Probes."""
        probes = self.study.cv_probes
        return [probes.source] if probes else []

    @property
    def probe_settings(self) -> Settings:
        """Return the settings `verbs` and `images` of CV-Probes, if the study sets them."""
        return to_settings(self.study.cv_probes, "verbs", "images")

    @property
    def repairing_models(self) -> list[str]:
        """Return a list with the model that repairs captions of CV-Probes; empty if no model does."""
        probes = self.study.cv_probes
        return [probes.repair] if probes and probes.repair else []

    @property
    def plain_captions(self) -> dict[str, str]:
        """Return the files with plain captions and with people's checks of them, by the keys of the
        study.

        Plain captions are written by people (`written`) or drawn with the scenes (`descriptions`).
        """
        probes = self.study.cv_probes
        if probes is None:
            return {}
        # Captions by people and drawn captions exclude each other (`read_study`).
        files = probes.to_dict("written", "checks")
        if probes.descriptions:
            files["descriptions"] = self.raw.build_drawn_path(probes.descriptions.drawn)
        return files

    @property
    def probe_judges(self) -> dict[str, str]:
        """Return the models that judge the grammaticality of CV-Probes, by their keys under
        `filters`.
        """
        if self.study.cv_probes is None or self.study.filters is None:
            return {}
        models = self.study.filters.models
        return {key: models[key] for key in PROBE_JUDGES}

    # All

    @property
    def models(self) -> list[str]:
        """Return the models that jobs of the stages foils, filters and benchmark load, each once."""
        proposing: list[str] = []
        filtering: list[str] = []
        for instrument in self.study.instruments:
            proposing += self.list_proposing_models(instrument)
            filtering += self.get_filter_models(instrument).values()
        # The blind audit and CV-Probes use models of the filters as judges.
        judging = [*self.audit_models.values(), *self.probe_judges.values()]
        return unique([*proposing, *filtering, *judging, *self.repairing_models])
