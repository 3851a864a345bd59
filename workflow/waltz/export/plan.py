"""Plan of the export of a study: its data sets with their sources, images that may be passed on,
and models.
"""

from dataclasses import dataclass
from functools import cached_property

from waltz.export.facts import Entry, read_terms
from waltz.plan.plan import Plan
from waltz.plan.study import CV_PROBES
from waltz.valse_release import RELEASE


@dataclass(frozen=True)
class ExportPlan:
    """Plan the export of a study.

    Attributes:
        plan: Plan of the study.
    """

    plan: Plan

    @cached_property
    def parts(self) -> dict[str, tuple[str, str]]:
        """Return the source and the format of each exported data set, by its name."""
        study, finished = self.plan.study, self.plan.item_sets
        parts = {
            name: (source, str(study.sources[source].format))
            for name, source in finished.items()
        }
        # An instrument may also come as finished items.
        for name, entry in study.instruments.items():
            if name not in finished:
                parts[name] = (entry.source, "instrument")
        if study.cv_probes:
            parts[CV_PROBES] = (study.cv_probes.source, CV_PROBES)
        return parts

    @property
    def instruments(self) -> dict[str, Entry]:
        """Return the entries of all instruments as plain values."""
        return {
            name: entry.to_dict() for name, entry in self.plan.study.instruments.items()
        }

    @cached_property
    def sources(self) -> dict[str, Entry]:
        """Return the entries of the sources of exported data sets."""
        return {
            source: self.plan.study.sources[source].to_dict()
            for source, _ in self.parts.values()
        }

    @property
    def raw_files(self) -> list[str]:
        """Return the raw files of the sources."""
        files: list[str] = []
        for source in self.sources:
            files += self.plan.raw.list_source_files(source)
        return files

    @cached_property
    def embedded(self) -> list[str]:
        """Return the sources whose images may be passed on."""
        return [
            source
            for source, entry in self.sources.items()
            if read_terms(entry).no_images_reason is None
        ]

    @property
    def images(self) -> list[str]:
        """Return the images that may be passed on."""
        return [self.plan.raw.get_path(source, "images") for source in self.embedded]

    @cached_property
    def originals(self) -> list[str]:
        """Return the sources whose rows hold a field that an exported item lacks."""
        study = self.plan.study
        # Released items have all fields.
        built = set(study.instruments) - set(self.plan.item_sets)
        return sorted(
            {
                study.instruments[name].source
                for name in built & set(RELEASE)
                if RELEASE[name].needs_source_row
            }
        )

    @property
    def summaries(self) -> dict[str, str | list[str]]:
        """Return funnel and audit of the instruments; empty lists if there are none."""
        study, folder = self.plan.study, f"{self.plan.results}/benchmark"
        summaries: dict[str, str | list[str]] = {"funnel": [], "audit": []}
        if study.instruments:
            summaries["funnel"] = f"{folder}/funnel.parquet"
        if study.instruments and study.benchmark.audit:
            summaries["audit"] = f"{folder}/audit.parquet"
        return summaries

    @property
    def models(self) -> dict[str, str]:
        """Return the models that proposed and filtered foils, by stage and key."""
        study = self.plan.study
        if not study.instruments:
            return {}
        models = {}
        if study.proposals:
            models["proposals: spans"] = study.proposals.spans
            models["proposals: verbs"] = study.proposals.verbs
        if study.filters:
            for key, name in study.filters.models.items():
                models[f"filters: {key}"] = name
        return models

    @property
    def span_method(self) -> str:
        """Return the method that proposed the spans of relations, for VALSE's layout."""
        proposals = self.plan.study.proposals
        if proposals is None or "relations" not in self.plan.study.instruments:
            return ""
        return f"span prediction by {proposals.spans} (max span={proposals.longest}, topk={proposals.best})"
