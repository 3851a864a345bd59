"""Plan of the export of a study: its data sets with their sources, images that may be passed on, and models."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from waltz.export.facts import read_terms
from waltz.instruments import INSTRUMENTS
from waltz.plan.plan import Plan
from waltz.plan.study import CV_PROBES


@dataclass(frozen=True)
class ExportPlan:
    """The export of a study.

    Attributes:
        plan: Plan of the study.
    """

    plan: Plan

    @cached_property
    def parts(self) -> dict[str, tuple[str, str]]:
        """Source and format of each data set that is exported."""
        study, finished = self.plan.study, self.plan.item_sets
        parts = {name: (source, str(study.sources[source].format)) for name, source in finished.items()}
        built = {name: entry for name, entry in study.instruments.items() if name not in finished}
        parts.update({name: (entry.source, "instrument") for name, entry in built.items()})
        if study.cv_probes:
            parts[CV_PROBES] = (study.cv_probes.source, CV_PROBES)
        return parts

    @cached_property
    def sources(self) -> dict[str, dict[str, Any]]:
        """Entries of the sources of exported data sets."""
        return {source: self.plan.study.sources[source].to_dict() for source, _ in self.parts.values()}

    @property
    def raw_files(self) -> list[str]:
        """Raw files of the sources."""
        return [file for source in self.sources for file in self.plan.raw.list_source_files(source)]

    @cached_property
    def embedded(self) -> list[str]:
        """Sources whose images may be passed on."""
        return [source for source, entry in self.sources.items() if read_terms(entry).no_images_reason is None]

    @property
    def images(self) -> list[str]:
        """Images that may be passed on."""
        return [self.plan.raw.get_path(source, "images") for source in self.embedded]

    @cached_property
    def originals(self) -> list[str]:
        """Sources whose rows hold a field that an exported item lacks."""
        built = {name: entry for name, entry in self.plan.study.instruments.items() if name not in self.plan.item_sets}
        return sorted({entry.source for name, entry in built.items() if INSTRUMENTS[name].needs_source_row})

    @property
    def summaries(self) -> dict[str, str | list[str]]:
        """Funnel and audit of the instruments; empty lists where there is none."""
        built, folder = bool(self.plan.study.instruments), f"{self.plan.results}/benchmark"
        return {
            "funnel": f"{folder}/funnel.parquet" if built else [],
            "audit": f"{folder}/audit.parquet" if built and self.plan.study.benchmark.audit else [],
        }

    @property
    def models(self) -> dict[str, str]:
        """Models that proposed and filtered foils, by stage and key."""
        study = self.plan.study
        if not study.instruments:
            return {}
        proposal_models = {
            f"proposals: {key}": getattr(study.proposals, key) for key in ("spans", "verbs") if study.proposals
        }
        return {
            **proposal_models,
            **{f"filters: {key}": name for key, name in (study.filters.models if study.filters else {}).items()},
        }

    @property
    def span_method(self) -> str:
        """Method that proposed the spans of relations, for VALSE's layout."""
        proposals = self.plan.study.proposals
        if proposals is None or "relations" not in self.plan.study.instruments:
            return ""
        return f"span prediction by {proposals.spans} (max span={proposals.longest}, topk={proposals.best})"
