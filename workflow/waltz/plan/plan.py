"""Plan of a study: data sets and groups, model runs of each stage, their files, and skipped models with reasons."""

import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from waltz.core.errors import UserError
from waltz.fidelity import get_fidelity
from waltz.instruments import FILTER_MODELS, INSTRUMENTS
from waltz.model_registry import DECODER_KINDS
from waltz.plan.models import Models
from waltz.plan.raw_files import RawFiles
from waltz.plan.read_study import list_datasets, list_recorded_datasets
from waltz.plan.study import CV_PROBES, ITEM_FORMATS, Settings, Study

SCORING_MINUTES, EXPLAINING_MINUTES = 240, 1440
"""Minutes that jobs with a model request from a scheduler: for scores and answers; for attributions and tests."""
GQA_ROWS_MB = 4000
"""Memory for the two million questions of GQA's validation set, estimated from 400,000 of the same form."""

CONSISTENCY_LAYOUTS = {
    "tests": "CONSISTENCY",
    "cc-shap": "CC_SHAP",
    "contributions": "ATTRIBUTION",
    "edited": "EDITED",
    "edited-contributions": "ATTRIBUTION",
}
"""Results of stage consistency, with their layouts."""
MEASURED_WITHOUT_MODELS = ("calibration", "plausibility", "power")
"""Measurements that need none of `measures.models`."""
RECORDED_WITH = {"contributions": "cc-shap", "edited-contributions": "edited"}
"""Results of stage consistency that the job of another one writes, and whose run records are that one's."""


@dataclass(frozen=True)
class Dataset:
    """A data set that models can be run on.

    Attributes:
        name: Its name in the study and in the results.
        form: `pairs` of caption and foil, `probes` (CV-Probes), `open` questions, a `choice` among labels, or
            `recorded` where the study knows it by recorded runs alone.
        source: The source that it is built from.
        entry: The study's entry of a set of questions or of a text task; of texts with other images its profiles.
    """

    name: str
    form: str
    source: str
    entry: Mapping[str, Any]

    @property
    def settings(self) -> Settings:
        """Form and entry, as jobs read them."""
        return {"form": self.form, **self.entry}


class Run(NamedTuple):
    """A model on a data set."""

    model: str
    dataset: str


@dataclass(frozen=True)
class Plan:
    """Plan of a study, from which the rules take runs, files and settings.

    Attributes:
        study: The study without skipped models and data sets.
        models: Its models.
        skipped: Reason of each model, or of CV-Probes, that is skipped.
    """

    study: Study
    models: Models
    skipped: Mapping[str, str]

    @classmethod
    def from_study(cls, study: Study) -> "Plan":
        """Return the plan of a checked study.

        Raises:
            UserError: A model cannot be resolved, or is of a kind that its stage cannot run.
        """
        models = Models.from_study(study)
        skipped = find_skipped(study)
        plan = cls(remove_skipped(study, skipped), models, skipped)
        for name in plan.study.consistency.models:
            if models[name].kind not in DECODER_KINDS:
                raise UserError(
                    f"study file: consistency.models: {name!r} is no decoder; its kind is {models[name].kind}"
                )
        for name in plan.study.measures.models:
            if name not in plan.select_measured_models("encoder", "vision"):
                raise UserError(
                    f"study file: measures.models: {name!r} sees no images; its kind is {models[name].kind}"
                )
        measured = plan.study.measures.list_measurements()
        if not study.measures.models and (
            looking := [name for name in measured if name not in MEASURED_WITHOUT_MODELS]
        ):
            raise UserError(f"study file: measures.models: empty, but measures.{looking[0]} needs models; name some")
        tables = plan.study.reporting.tables
        for table in [] if tables == "all" else tables:
            measurement = table.removeprefix("measures-").replace("-", "_")
            if table.startswith("measures-") and measurement not in measured:
                raise UserError(
                    f"study file: reporting.tables: {table} shows what is not measured; set measures.{measurement}, or"
                    " leave it out"
                )
        for name in set(plan.study.attribution.models) & set(plan.recorded_models):
            raise UserError(
                f"study file: attribution.models: {name!r} is recorded (models.{name}.recorded), so its scores cannot"
                " be attributed; leave it out"
            )
        plan._check_served()
        return plan

    def _check_served(self) -> None:
        """Refuse what no server gives.

        Raises:
            UserError: A model behind a server has perplexities or logits to compute.
        """
        study, served = self.study, [name for name, entry in self.study.models.items() if entry.server]
        filters = study.filters.models if study.filters else {}
        for key, name in filters.items():
            if name in served:
                raise UserError(f"study file: filters.{key}: {name!r} is behind a server; name a model with weights")
        decoded = set(self.decoded)
        for run in self.scored:
            if run.model in served and run not in decoded:
                raise UserError(
                    f"study file: evaluation.models: perplexities of {run.dataset} cannot be had from the server of"
                    f" {run.model}; name its other groups under evaluation.only.{run.model}, or its weights"
                )
        cc_shap = study.consistency.cc_shap
        explained: list[tuple[str, list[str], str | None]]
        explained = [("attribution", study.attribution.models, study.attribution.value)]
        explained += [("consistency.cc_shap", study.consistency.models, cc_shap.value)] if cc_shap else []
        for key, names, value in explained:
            for name in names:
                if name not in served:
                    continue
                if value == "logit":
                    raise UserError(
                        f"study file: {key}.value: a server returns no logits (models.{name}.server); take probability"
                    )
                if "published" in study.profiles and self.models.get_kind(name) == "vision":
                    raise UserError(
                        f"study file: profiles: published explains logits, which the server of {name} does not return;"
                        f" leave {name} out of {key.split('.')[0]}.models, or take profile equations"
                    )

    # Data

    @property
    def results(self) -> str:
        """Folder of the results."""
        return f"results/{self.study.study}"

    @cached_property
    def raw(self) -> RawFiles:
        """Raw files."""
        return RawFiles(self.study, self.results)

    @cached_property
    def item_sets(self) -> dict[str, str]:
        """Source of each data set of finished items."""
        return list_datasets(self.study)

    @cached_property
    def built_or_finished(self) -> list[str]:
        """Data sets of finished items and instruments that are built."""
        return list(dict.fromkeys([*self.item_sets, *self.study.instruments]))

    @cached_property
    def datasets(self) -> dict[str, Dataset]:
        """Data sets that models can be run on, by name."""
        study = self.study
        pairs = {**self.item_sets, **_sources(study.instruments)}
        datasets = {
            name: Dataset(name, "recorded", source, {}) for name, source in list_recorded_datasets(study).items()
        }
        datasets |= {name: Dataset(name, "pairs", source, {}) for name, source in pairs.items()}
        for name, alignment in study.alignment.items():
            datasets[name] = Dataset(name, "pairs", alignment.source, alignment.to_dict("profiles"))
        for form, entries in (("open", study.answering), ("choice", study.texts)):
            datasets.update(
                {name: Dataset(name, form, entry.source, entry.to_dict()) for name, entry in entries.items()}
            )
        if study.cv_probes:
            datasets[CV_PROBES] = Dataset(CV_PROBES, "probes", study.cv_probes.source, {})
        return datasets

    @cached_property
    def scenes(self) -> Settings:
        """Settings of the embedded world."""
        return self.study.scenes.to_dict() if self.study.scenes else {}

    def list_item_files(self, dataset: str) -> dict[str, str]:
        """Return the raw file of a data set of finished items, and its single annotations where there are any."""
        source = self.item_sets[dataset]
        files = {"raw": self.raw.get_path(source, dataset)}
        annotations = self.raw.files[source, dataset].annotations
        return {**files, "annotations": annotations} if annotations else files

    def list_source_rows(self, source: str) -> list[str]:
        """Return the files with the rows of a source, or with the items that it holds."""
        if source in self.raw_sources:
            return [f"{self.results}/sources/{source}.parquet"]
        return [f"{self.results}/benchmark/{name}.parquet" for name, owner in self.item_sets.items() if owner == source]

    @cached_property
    def released(self) -> list[str]:
        """Data sets of the released benchmark."""
        sources = self.study.sources
        return [name for name, source in self.item_sets.items() if sources[source].format == "valse-release"]

    @property
    def released_files(self) -> dict[str, str]:
        """Raw files of the released benchmark by data set."""
        return {name: self.raw.get_path(self.item_sets[name], name) for name in self.released}

    @property
    def caption_rows(self) -> list[str]:
        """Rows of the captions that plurality and relations were made from."""
        sources = self.study.sources
        caption_sources = [name for name in self.raw_sources if sources[name].format == "coco-captions"]
        return [f"{self.results}/sources/{name}.parquet" for name in caption_sources]

    @cached_property
    def questions(self) -> list[str]:
        """Data sets of open questions."""
        return list(self.study.answering)

    @cached_property
    def raw_sources(self) -> list[str]:
        """Sources that are no finished items."""
        return [name for name, entry in self.study.sources.items() if entry.format not in ITEM_FORMATS]

    def get_rows_file(self, dataset: str) -> str:
        """Return the rows that the items of a data set are read from."""
        if self.datasets[dataset].form in ("open", "choice"):
            return f"{self.results}/sources/{self.datasets[dataset].source}.parquet"
        return f"{self.results}/benchmark/{dataset}.parquet"

    def list_rows_files(self, names: Iterable[str]) -> list[str]:
        """Return the rows that the items of some data sets are read from."""
        return [self.get_rows_file(name) for name in names]

    def estimate_rows_memory_mb(self, names: Iterable[str]) -> int:
        """Return the main memory that a job requests for the rows of the sources of some data sets."""
        formats = {self.study.sources[self.datasets[name].source].format for name in names}
        return GQA_ROWS_MB if "gqa" in formats else 0

    def has_images(self, dataset: str) -> bool:
        """Return whether the study has the images of a data set."""
        return bool(self.raw.list_image_parts(self.datasets[dataset].source))

    def list_image_files(self, names: Iterable[str]) -> list[str]:
        """Return the folder, archive or list of the images of each data set.

        Raises:
            UserError: The study does not name them.
        """
        files = []
        for name in names:
            source = self.datasets[name].source
            if not self.has_images(name):
                raise UserError(f"study file: sources.{source}.images is missing: models look at the images of {name}")
            files.append(self.raw.get_images(source))
        return files

    def list_images_for(self, model: str, names: Iterable[str]) -> list[str]:
        """Return the images of some data sets, none for a language model and a recorded one."""
        reads_images = self.models.get_kind(model) == "vision" and model not in self.recorded_models
        return self.list_image_files(names) if reads_images else []

    def get_settings(self, names: Iterable[str]) -> dict[str, Settings]:
        """Return the form of each data set, with the entry of questions and tasks."""
        return {name: self.datasets[name].settings for name in names}

    # Instruments

    @cached_property
    def instruments(self) -> dict[str, Settings]:
        """Entries of all instruments as plain values."""
        return {name: entry.to_dict() for name, entry in self.study.instruments.items()}

    def list_proposing_models(self, instrument: str) -> list[str]:
        """Return the model that proposes an instrument's foils or counts its tokens, as a list of one or none."""
        proposals = self.study.proposals
        key = INSTRUMENTS[instrument].proposal_key
        if proposals and key:
            return [getattr(proposals, key)]
        return [proposals.spans] if proposals and self.study.instruments[instrument].most_tokens else []

    def get_proposal_settings(self, instrument: str) -> Settings:
        """Return how a model proposes an instrument's foils; empty where none does."""
        proposals = self.study.proposals
        if proposals is None or not self.list_proposing_models(instrument):
            return {}
        keys = ["longest", "best"]
        if INSTRUMENTS[instrument].proposal_key == "spans":
            keys.append("proposer")
        return proposals.to_dict(*keys)

    def get_min_grammaticality(self, instrument: str) -> float | None:
        """Return the least grammaticality of an instrument's foils, None where it is not filtered by it."""
        filters = self.study.filters
        filtered = "grammaticality" in self.study.instruments[instrument].filters
        return filters.grammaticality if filters and filtered else None

    def get_filter_models(self, instrument: str) -> dict[str, str]:
        """Return the models that the filters of an instrument use, by their keys under `filters`."""
        keys = {key for name in self.study.instruments[instrument].filters for key in FILTER_MODELS[name]}
        return {key: self.study.filters.models[key] for key in sorted(keys)} if self.study.filters else {}

    def get_built_file(self, instrument: str) -> str:
        """Return the items of an instrument that is built, apart from released ones of the same name."""
        folder = "benchmark/rebuilt" if instrument in self.item_sets else "benchmark"
        return f"{self.results}/{folder}/{instrument}.parquet"

    @cached_property
    def audit_models(self) -> dict[str, str]:
        """Models of the audit, by their keys under `filters`."""
        return self.study.filters.models if self.study.filters and self.study.benchmark.audit else {}

    # CV-Probes

    @property
    def probe_rows(self) -> list[str]:
        """Rows of the source of CV-Probes, as a list of one or none."""
        probes = self.study.cv_probes
        return [f"{self.results}/sources/{probes.source}.parquet"] if probes else []

    @property
    def probe_settings(self) -> Settings:
        """Verbs and images of CV-Probes, where the study names them."""
        return self.study.cv_probes.to_dict("verbs", "images") if self.study.cv_probes else {}

    @property
    def repairing_models(self) -> list[str]:
        """Name of the model that repairs captions of CV-Probes, as a list of one or none."""
        probes = self.study.cv_probes
        return [probes.repair] if probes and probes.repair else []

    @property
    def plain_captions(self) -> dict[str, str]:
        """Files of plain captions, written or drawn, and of checks by people."""
        probes = self.study.cv_probes
        files = probes.to_dict("written", "checks") if probes else {}
        if probes and probes.descriptions:
            files["descriptions"] = self.raw.build_drawn_path(probes.descriptions.drawn)
        return files

    @property
    def probe_judges(self) -> dict[str, str]:
        """Models that judge the grammaticality of CV-Probes, by their keys under `filters`."""
        models = self.study.filters.models if self.study.cv_probes and self.study.filters else {}
        return {key: models[key] for key in ("acceptability", "likelihood") if key in models}

    # Groups

    @cached_property
    def group_of(self) -> dict[str, str]:
        """Group of each data set; questions that are in none make up one of their own name."""
        grouped = {name: group for group, names in self.study.groups.items() for name in names}
        return {**{name: name for name in self.questions}, **grouped}

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """Data sets of each group."""
        alone = [name for name in self.questions if self.group_of[name] == name]
        return {**{name: [name] for name in alone}, **self.study.groups}

    def is_run_on(self, model: str, group: str) -> bool:
        """Return whether a model is run on a group, in any stage: on all, unless the study names its own."""
        return group in self.study.evaluation.only.get(model, [group])

    def _select(self, group: str, *forms: str) -> list[str]:
        """Return the data sets of some forms in a group, without those of other profiles than the study's."""
        datasets = [self.datasets[name] for name in self.groups[group]]
        profiles = set(self.study.profiles)
        return [
            dataset.name
            for dataset in datasets
            if dataset.form in forms and profiles.intersection(dataset.entry.get("profiles", profiles))
        ]

    def select_pairs(self, group: str) -> list[str]:
        """Return the data sets of captions and foils in a group."""
        return self._select(group, "pairs")

    def select_scorable(self, group: str) -> list[str]:
        """Return the data sets that encoders score: captions and foils, and CV-Probes."""
        return self._select(group, "pairs", "probes")

    def select_open_questions(self, group: str) -> list[str]:
        """Return the data sets of open questions in a group."""
        return self._select(group, "open")

    def select_prompted(self, decoder: str, group: str) -> list[str]:
        """Return the data sets that a decoder is prompted with: those with images for a VL decoder, else text tasks.

        Those of a recorded model are the files of its source.
        """
        if decoder in self.recorded_models:
            files = self.study.sources[self.models[decoder].recorded].files
            return [name for name in self.groups[group] if name in files]
        forms = ("pairs", "open") if self.models.get_kind(decoder) == "vision" else ("choice",)
        return self._select(group, *forms)

    # Models of each stage

    def _of_kinds(self, names: Iterable[str], *kinds: str) -> list[str]:
        return [name for name in names if self.models.get_kind(name) in kinds]

    @cached_property
    def recorded_models(self) -> list[str]:
        """Decoders whose results come from a source of recorded runs, not from jobs."""
        return [name for name, entry in self.study.models.items() if entry.recorded]

    def get_recorded_rows(self, model: str) -> str:
        """Return the rows of the source of a recorded model."""
        return f"{self.results}/sources/{self.models[model].recorded}.parquet"

    @cached_property
    def language_models(self) -> list[str]:
        """Language models that jobs score."""
        return self._without_recorded(self._of_kinds(self.study.evaluation.models, "language"))

    def _without_recorded(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name not in self.recorded_models]

    @cached_property
    def encoders(self) -> list[str]:
        """Encoders that are scored."""
        return self._of_kinds(self.study.evaluation.models, "encoder")

    @cached_property
    def answerers(self) -> list[str]:
        """Encoders with an answering head that are scored."""
        return self._of_kinds(self.study.evaluation.models, "answering")

    @cached_property
    def vl_decoders(self) -> list[str]:
        """VL decoders of the study that jobs run."""
        return self._without_recorded(self._of_kinds(self.models, "vision"))

    @cached_property
    def decoders(self) -> list[str]:
        """Decoders of the study, recorded ones included."""
        return self._of_kinds(self.models, "language", "vision")

    @cached_property
    def run_decoders(self) -> list[str]:
        """Decoders of the study that jobs run."""
        return self._without_recorded(self.decoders)

    def select_attributed_models(self, kind: str) -> list[str]:
        """Return the models of a kind (`encoder`, `answering`, `vision`) whose scores or answers are attributed."""
        scored = self._of_kinds(self.study.evaluation.models, kind)
        return [name for name in self.study.attribution.models if name in scored]

    @cached_property
    def edited_models(self) -> list[str]:
        """Decoders whose attributions are computed before and after edits as well."""
        cc_shap = self.study.consistency.cc_shap
        if cc_shap is None or not cc_shap.edits:
            return []
        models = self._without_recorded(self.study.consistency.models)
        return [name for name in models if cc_shap.edits is True or name in cc_shap.edits]

    def get_helper_settings(self, decoder: str) -> Settings | None:
        """Return the model that helps a decoder's tests, None where it is the decoder itself."""
        helper = self.study.consistency.helper
        return self.models.get_settings(helper) if helper and helper != decoder else None

    @cached_property
    def helpers(self) -> list[str]:
        """Names of the helper of the tests, where there is one."""
        return [self.study.consistency.helper] if self.study.consistency.helper else []

    @cached_property
    def judges(self) -> list[str]:
        """Names of the model that compares meanings, where there is one."""
        return [self.study.filters.nli] if self.study.filters and self.study.consistency.meaning == "nli" else []

    def list_testing_models(self, decoder: str) -> list[str]:
        """Return the models that the tests of a decoder load: it, the helper and the judge."""
        return list(dict.fromkeys([decoder, *self.helpers, *self.judges]))

    def describe_missing_quantizer(self) -> str:
        """Return what to install for models in 4 bits, empty if the study runs none or the package is installed."""
        names = dict.fromkeys(run.model for run in [*self.scored, *self.attributed, *self.tested])
        quantized = [name for name in names if self.models[name].four_bit]
        if not quantized or importlib.util.find_spec("bitsandbytes"):
            return ""
        return (
            f"{', '.join(quantized)}: four_bit needs the package bitsandbytes, which is not installed; run:"
            " pip install -c constraints.txt -e '.[gpu]'"
        )

    @cached_property
    def loaded_models(self) -> list[str]:
        """Models that jobs of the study load, in any stage."""
        built = [name for key in self.study.instruments for name in self.list_proposing_models(key)]
        filters = [name for key in self.study.instruments for name in self.get_filter_models(key).values()]
        judges = [*filters, *self.audit_models.values(), *self.probe_judges.values()]
        runs = [run.model for run in (*self.scored, *self.attributed, *self.tested)]
        helpers = [*self.helpers, *self.judges] if self.tested else []
        return list(dict.fromkeys([*built, *judges, *self.repairing_models, *runs, *helpers]))

    # Runs of each stage

    def _runs(self, models: Iterable[str], groups: Iterable[str], select: Callable[[str, str], list[str]]) -> list[Run]:
        """Return the runs of models on groups, group by group, where the study runs them."""
        models = list(models)
        return [
            Run(model, dataset)
            for group in groups
            for model in models
            if self.is_run_on(model, group)
            for dataset in select(model, group)
        ]

    @cached_property
    def scored(self) -> list[Run]:
        """Runs of stage evaluation."""
        groups = self.study.evaluation.groups
        language = set(self.language_models)
        scores = self._runs(
            [*self.language_models, *self.encoders],
            groups,
            lambda model, group: self.select_pairs(group) if model in language else self.select_scorable(group),
        )
        answers = [
            Run(model, dataset)
            for model in self.answerers
            for dataset in self.questions
            if self.is_run_on(model, self.group_of[dataset])
        ]
        return [*scores, *answers, *self.decoded]

    @cached_property
    def decoded(self) -> list[Run]:
        """Runs of decoders in stage evaluation."""
        decoders = [
            name for kind in ("vision", "language") for name in self._of_kinds(self.study.evaluation.models, kind)
        ]
        return self._runs(decoders, self.study.evaluation.groups, self.select_prompted)

    @cached_property
    def attributed(self) -> list[Run]:
        """Runs of stage attribution."""
        groups = self.study.attribution.groups
        return [
            *self._runs(self.select_attributed_models("encoder"), groups, lambda _, group: self.select_scorable(group)),
            *self._runs(self.select_attributed_models("vision"), groups, lambda _, group: self.select_pairs(group)),
            *(
                run
                for model in self.select_attributed_models("answering")
                for run in self._runs([model], groups, lambda _, group: self.select_open_questions(group))
            ),
        ]

    @cached_property
    def tested(self) -> list[Run]:
        """Runs of stage consistency."""
        return self._runs(self.study.consistency.models, self.study.consistency.groups, self.select_prompted)

    @cached_property
    def explained(self) -> list[Run]:
        """Runs of stage consistency whose answers and explanations are attributed (CC-SHAP)."""
        return self.select_explained(self.tested)

    def select_explained(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs whose answers and explanations are attributed."""
        return [run for run in runs if self.study.consistency.cc_shap or run.model in self.recorded_models]

    def select_edited(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs that are explained before and after edits as well."""
        return [run for run in runs if run.model in self.edited_models]

    # Stage measures

    @property
    def measure_files(self) -> list[str]:
        """Files of all measurements of the measures that the study names."""
        return [f"{self.results}/measures/{name}.parquet" for name in self.study.measures.list_measurements()]

    def select_measured_models(self, *kinds: str) -> list[str]:
        """Return the models of stage measures of some kinds: `ruler`, `encoder` (rulers included), `vision`."""
        return [
            name
            for name in self.study.measures.models
            if self.models.get_kind(name) in kinds or self.models[name].kind in kinds
        ]

    def get_measure_settings(self, measurement: str) -> Settings:
        """Return the settings of one measurement; empty where the study does not name it."""
        section = getattr(self.study.measures, measurement)
        return section.to_dict() if section else {}

    # Files of runs

    def get_run_file(self, kind: str, run: Run) -> str:
        """Return the file with results of a run and of others on its group.

        Args:
            kind: `evaluation`, `attribution`, or one of `CONSISTENCY_LAYOUTS`.
            run: The run.
        """
        folder = f"consistency/{run.model}/{kind}" if kind in CONSISTENCY_LAYOUTS else f"{kind}/{run.model}"
        is_task = run.dataset in self.study.texts and run.model not in self.recorded_models
        ending = ".tasks" if kind == "evaluation" and is_task else ""
        return f"{self.results}/{folder}/{self.group_of[run.dataset]}{ending}.parquet"

    def list_run_files(self, kind: str, runs: Iterable[Run]) -> list[str]:
        """Return the files of some runs, each once; `kind` as in `get_run_file`."""
        return list(dict.fromkeys(self.get_run_file(kind, run) for run in runs))

    def list_companion_files(self, runs: Iterable[Run]) -> list[str]:
        """Return the companion measures of the encoders among some runs of stage attribution."""
        if self.study.attribution.companions is None:
            return []
        encoders = [*self.select_attributed_models("encoder"), *self.select_attributed_models("answering")]
        groups = dict.fromkeys((run.model, self.group_of[run.dataset]) for run in runs if run.model in encoders)
        return [f"{self.results}/attribution/{model}/companions/{group}.parquet" for model, group in groups]

    @property
    def cc_shap_files(self) -> list[str]:
        """Files with CC-SHAP and its contributions, and with those under edits."""
        edited = self.select_edited(self.explained)
        runs = {
            "cc-shap": self.explained,
            "contributions": self.explained,
            "edited": edited,
            "edited-contributions": edited,
        }
        return [file for part, part_runs in runs.items() for file in self.list_run_files(part, part_runs)]

    # Parts of a stage's numbers

    def get_part(self, run: Run) -> str:
        """Return the part of a stage's numbers that those of a run are in, so that a table waits for few.

        All groups with data sets of captions and foils are one part, and so are all text tasks: averages are over them.
        """
        kind = self.get_table_kind(run.model)
        recorded = self.datasets[run.dataset].form == "recorded"
        if run.dataset in self.study.texts or (recorded and kind == "language"):
            return f"{kind}.tasks"
        group = self.group_of[run.dataset]
        averaged = set(self.averaged_datasets).intersection(self.groups[group])
        return f"{kind}.{'benchmark' if averaged else group}"

    def group_by_part(self, runs: Iterable[Run]) -> dict[str, list[Run]]:
        """Return runs by their parts, in order."""
        parts: dict[str, list[Run]] = {}
        for run in runs:
            parts.setdefault(self.get_part(run), []).append(run)
        return parts

    @cached_property
    def scored_parts(self) -> dict[str, list[Run]]:
        """Runs of stage evaluation by part."""
        return self.group_by_part(self.scored)

    @cached_property
    def attributed_parts(self) -> dict[str, list[Run]]:
        """Runs of stage attribution by part."""
        return self.group_by_part(self.attributed)

    @cached_property
    def tested_parts(self) -> dict[str, list[Run]]:
        """Runs of stage consistency by part."""
        return self.group_by_part(self.tested)

    def get_table_kind(self, model: str) -> str:
        """Return the kind of a model in the tables: `language`, `vision` or `encoder`."""
        kind = self.models.get_kind(model)
        return kind if kind in ("language", "vision") else "encoder"

    def get_questions_among(self, runs: Iterable[Run]) -> dict[str, Settings]:
        """Return the entries of the open questions among the data sets of some runs."""
        answering = self.study.answering
        return {run.dataset: answering[run.dataset].to_dict() for run in runs if run.dataset in answering}

    def list_probes_among(self, runs: Iterable[Run]) -> list[str]:
        """Return CV-Probes, where it is among the data sets of some runs, as a list of one or none."""
        return [CV_PROBES] if any(run.dataset == CV_PROBES for run in runs) else []

    def list_averaged(self, part: str) -> list[str]:
        """Return the data sets whose metrics are averaged in a part."""
        if not part.endswith(".benchmark"):
            return []
        names = [name for group in self.study.evaluation.groups for name in self.groups[group]]
        return [name for name in names if name in self.averaged_datasets]

    @cached_property
    def averaged_datasets(self) -> list[str]:
        """Data sets whose metrics are averaged: items, instruments, and recorded runs on instruments."""
        recorded = [name for name, entry in self.datasets.items() if entry.form == "recorded" and name in INSTRUMENTS]
        return [*self.built_or_finished, *recorded]

    # Settings of jobs

    @cached_property
    def estimation(self) -> dict[str, Settings]:
        """Settings of the estimator of attributions, by profile."""
        attribution = self.study.attribution
        settings = {
            "estimator": attribution.estimator,
            "evaluations": attribution.evaluations,
            "standard_error": attribution.standard_error,
            "grid": attribution.grid,
        }
        return {profile: {} if get_fidelity(profile).estimators else settings for profile in self.study.profiles}

    @property
    def companion_settings(self) -> Settings:
        """Settings of the companion measures."""
        companions = self.study.attribution.companions
        return companions.to_dict() if companions else {}

    @cached_property
    def resampling(self) -> Settings:
        """Settings of the bootstrap intervals."""
        reporting = self.study.reporting
        return {"resamples": reporting.resamples, "confidence": reporting.confidence, "seed": self.study.seed}

    @cached_property
    def consistency_seeds(self) -> list[int]:
        """Seeds of stage consistency."""
        return self.study.consistency.seeds or [self.study.seed]

    @cached_property
    def cc_shap_settings(self) -> Settings:
        """Settings of CC-SHAP."""
        cc_shap = self.study.consistency.cc_shap
        return {key: value for key, value in cc_shap.to_dict().items() if key != "edits"} if cc_shap else {}

    # Wildcards

    @cached_property
    def wildcards(self) -> dict[str, Sequence[str]]:
        """Values of each wildcard, so that every path has one producer."""
        return {
            **self.raw.list_names(),
            "dataset": list(self.item_sets),
            "instrument": list(self.study.instruments),
            "model": list(self.models),
            "group": list(self.groups),
            "language_model": self.language_models,
            "encoder": self.encoders,
            "answerer": self.answerers,
            "vl_decoder": self.vl_decoders,
            "decoder": self.decoders,
            "recorded_model": self.recorded_models,
            "aligned": list(self.study.alignment),
        }

    @staticmethod
    def build_pattern(names: Iterable[str]) -> str:
        """Return a regular expression that matches some names, or nothing that is a name."""
        return "|".join(map(re.escape, sorted(names))) or "none"


def _sources(entries: Mapping[Any, Any]) -> dict[str, str]:
    return {name: entry.source for name, entry in entries.items()}


def share_threads(most: int, cores: int | None, gpus: int | None) -> int:
    """Return the threads of a job that runs a model, so that every GPU has a job and other jobs have cores left.

    Args:
        most: Most threads of a job, as the study says.
        cores: Cores of this run; None where Snakemake only lists or unlocks.
        gpus: GPUs of this run (`--resources gpu=2`); None where no number is given.
    Returns:
        An equal share for each GPU of three quarters of the cores; at least 1.
    """
    if cores is None:
        return most
    return max(1, min(most, cores * 3 // 4 // gpus if gpus else cores))


def find_skipped(study: Study) -> dict[str, str]:
    """Return the reason of each model, and of CV-Probes, that is skipped here.

    A model is skipped where the study says so (`skipped`), CV-Probes where the captions that people write for it are
    missing.
    """
    reasons = dict(study.skipped)
    captions_file = study.cv_probes.written if study.cv_probes else None
    if captions_file and not Path(captions_file).exists():
        reasons[CV_PROBES] = f"not run: nobody has written the plain captions (cv_probes.written: {captions_file})"
    return reasons


def remove_skipped(study: Study, reasons: Mapping[str, str]) -> Study:
    """Return a study without skipped models and data sets, and without groups that become empty."""
    changes: dict[str, object] = {}
    groups = study.groups
    if CV_PROBES in reasons:
        remaining = {group: [name for name in names if name != CV_PROBES] for group, names in groups.items()}
        groups = {group: names for group, names in remaining.items() if names}
        changes = {"cv_probes": None, "groups": groups}
    for stage in ("evaluation", "attribution", "consistency"):
        entry = getattr(study, stage)
        change: dict[str, object] = {
            "models": [name for name in entry.models if name not in reasons],
            "groups": [group for group in entry.groups if group in groups],
        }
        if stage == "evaluation" and entry.only:
            change["only"] = {
                name: [group for group in model_groups if group in groups]
                for name, model_groups in entry.only.items()
                if name not in reasons
            }
        if stage in study.model_fields_set:
            changes[stage] = entry.model_copy(update=change)
    return study.model_copy(update=changes)
