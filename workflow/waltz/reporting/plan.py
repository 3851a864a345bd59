"""Plan of the report of a study: its tables, its figures, and the files that each of them is made
from.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Any

from waltz.core.files.resources import locate_in_package
from waltz.model_registry import find_base_models, load_registry
from waltz.plan.plan import Plan
from waltz.plan.run_table import Run, RunTable, Step, list_datasets_of, unique
from waltz.reporting.figures.chart_declarations import CHARTS, Chart
from waltz.reporting.tables.declaration import (
    ENCODER,
    LANGUAGE,
    PUBLISHED,
    VISION,
    Declaration,
)
from waltz.reporting.tables.declarations import MEASUREMENTS, STYLES, TABLES
from waltz.reporting.tables.paper_values import PaperKey, read_paper_values

FREQUENCY_FIGURES = {
    ("pronoun", "coreference-standard"): "thesis A.1, VALSE paper 1",
    ("pronoun", "coreference-clean"): "thesis A.1, VALSE paper 1",
    ("lexical", "counting-small"): "thesis 3.1, A.3, VALSE paper 3",
    **{
        ("lexical", name): "thesis A.3, VALSE paper 3"
        for name in (
            "existence",
            "counting-balanced",
            "counting-adversarial",
            "relations",
        )
    },
    **{
        ("lexical", name): "thesis A.4, VALSE paper 4"
        for name in ("plurality", "action-replacement", "foil-it")
    },
}
"""Published figures of word frequencies, by kind of words and data set; the papers show no other
data sets.
"""
NOT_PUBLISHED = "not in the papers"
CHECKED_STEPS: dict[str, tuple[Step, ...]] = {
    "evaluation": ("evaluation",),
    "shares": ("attribution",),
    "consistency": ("tests", "cc-shap"),
}
"""Steps whose runs are checked together, by the kind of numbers that names the check."""
BROWSED_STEPS: dict[str, Step] = {
    "evaluation": "evaluation",
    "attribution": "attribution",
    "consistency": "tests",
    "cc_shap": "cc-shap",
}
"""Step that makes each kind of results of the example browser."""
ALL_DATASETS = ""
"""Data set in paper values that are over all data sets."""
SAMPLE_TITLES = {
    "samples": "contributions to scores of captions and foils",
    "explanations": "contributions to answers and explanations",
    "edits": "contributions before and after an edit",
    "traces": "traces of self-consistency tests",
}
"""Title of the figures in each folder of example figures, by content."""
SAMPLE_FIGURES = {
    ("samples", "encoder"): "thesis figures 4.1, B.1 to B.10; MM-SHAP paper 1 to 11",
    ("explanations", "language"): "thesis tables C.5, C.6, C.9, C.10",
    (
        "explanations",
        "vision",
    ): "thesis tables 5.6, C.26, C.28, C.30, C.32; decoders paper 4, 6, 8, 10",
    ("edits", "language"): "thesis tables 5.3, 5.4, C.13 to C.22",
    ("edits", "vision"): "like thesis tables 5.3 and 5.4",
    ("traces", "language"): "thesis tables C.7, C.8, C.11, C.12, C.23, C.24",
    (
        "traces",
        "vision",
    ): "thesis tables C.27, C.29, C.31, C.33; decoders paper 5, 7, 9, 11",
}
"""Published figures and tables that show single items, by content of a folder and kind of model."""


@dataclass(frozen=True)
class PartedNumbers:
    """Kind of numbers whose files come in parts.

    Attributes:
        folder: Folder of its files, relative to the study's results.
        stage: Stage whose runs make the numbers.
        check: Kind of numbers under which these runs are checked, a key of `CHECKED_STEPS`.
    """

    folder: str
    stage: str
    check: str


PARTED_NUMBERS = {
    "evaluation": PartedNumbers("evaluation/metrics", "evaluation", "evaluation"),
    "attribution": PartedNumbers("attribution/metrics", "attribution", "shares"),
    "shares": PartedNumbers("attribution/shares", "attribution", "shares"),
    "consistency": PartedNumbers("consistency/metrics", "consistency", "consistency"),
    "correlations": PartedNumbers(
        "consistency/correlations", "consistency", "consistency"
    ),
}
"""Kinds of numbers whose files come in parts."""
COMPARED_STEPS: dict[str, tuple[Step, ...]] = {
    "explanations": ("cc-shap",),
    "chat": ("tests", "cc-shap"),
    "foils": ("attribution",),
}
"""Steps whose rows are compared over the same items, by the name of the comparison."""
DIFFERENCES = "differences_of_"
"""Prefix of the kind of file with the paired differences of a comparison."""


@dataclass(frozen=True)
class ReportingPlan:
    """Tables and figures of a study.

    Attributes:
        plan: Plan of the study.
    """

    plan: Plan

    # Tables

    @property
    def tables(self) -> list[str]:
        """Ids of the tables that the study asks for; `all` means the papers' tables and the
        tables of its measurements.
        """
        ids = self.plan.study.reporting.tables
        if ids != "all":
            return list(ids)
        # Of the tables of measurements, only those are built whose measurement the study makes.
        tables = list(TABLES)
        measured = self.plan.study.measures.list_measurements()
        for measurement in MEASUREMENTS.keys() - measured:
            tables.remove(MEASUREMENTS[measurement].id)
        return tables

    @property
    def declarations(self) -> Mapping[str, Declaration]:
        """Declarations of all tables."""
        return TABLES

    def get_part_runs(self, kind: str) -> Mapping[str, list[Run]]:
        """Return the runs behind each part of a kind of numbers, a key of `PARTED_NUMBERS`."""
        parts = {
            "evaluation": self.plan.scored_parts,
            "attribution": self.plan.attributed_parts,
            "consistency": self.plan.checked_parts,
        }
        return parts[PARTED_NUMBERS[kind].stage]

    @cached_property
    def other_numbers(self) -> dict[str, list[str]]:
        """Files of all other kinds of numbers, by kind; an empty list where the study does not make
        the file.
        """
        results, study = self.plan.results, self.plan.study
        files: dict[str, list[str]] = {name: [] for name in MEASUREMENTS}
        for name in study.measures.list_measurements():
            files[name] = [f"{results}/measures/{name}.parquet"]
        files |= {"validation": [], "probes": [], "captions": []}
        for comparison in COMPARED_STEPS:
            files[DIFFERENCES + comparison] = self.list_difference_files(comparison)
        if self.plan.built_or_finished:
            files["validation"] = [f"{results}/benchmark/validation/statistics.parquet"]
        if study.cv_probes:
            files["probes"] = [f"{results}/benchmark/cv-probes.parquet"]
            files["captions"] = [f"{results}/benchmark/cv-probes/captions.parquet"]
        return files

    # Paired differences

    @cached_property
    def base_models(self) -> dict[str, str]:
        """Base model of each chat model of the study that is tested."""
        models = self.plan.models
        tested = unique(run.model for run in self.plan.tested)
        return find_base_models({name: models[name] for name in tested})

    def select_compared_runs(self, comparison: str, step: Step) -> list[Run]:
        """Return the runs of a step whose rows a comparison, a key of `COMPARED_STEPS`, compares."""
        if step not in COMPARED_STEPS[comparison]:
            return []
        runs = self.plan.runs.select(step).runs
        # Explanations and foils are compared within each model, chat models with their base.
        if comparison != "chat":
            return runs
        compared = {*self.base_models, *self.base_models.values()}
        return [run for run in runs if run.model in compared]

    def list_difference_files(self, comparison: str) -> list[str]:
        """Return the file with the paired differences of a comparison; empty if the study has
        nothing to compare.
        """
        steps = COMPARED_STEPS[comparison]
        runs = [self.select_compared_runs(comparison, step) for step in steps]
        if not any(runs):
            return []
        return [f"{self.plan.results}/reporting/differences/{comparison}.parquet"]

    # Files of numbers

    def list_shown_parts(self, table: str, kind: str) -> list[str]:
        """Return the parts whose numbers a table shows.

        A part is shown if its models are of a kind that the table shows, and one of its data sets
        stands in the table's paper values. A table without paper values shows all data sets.

        Args:
            table: Id of the table.
            kind: Kind of numbers, a key of `PARTED_NUMBERS`.
        """
        declaration = TABLES[table]
        shown_datasets = _list_shown_datasets(declaration)
        shown_kinds = declaration.model_kinds or (ENCODER, LANGUAGE, VISION)
        parts = []
        for part, runs in self.get_part_runs(kind).items():
            # A part is named KIND.GROUP, such as `encoder.benchmark`.
            model_kind, _, group = part.partition(".")
            datasets = {ALL_DATASETS, *list_datasets_of(runs)}
            has_dataset = not shown_datasets.isdisjoint(datasets)
            if group == "benchmark" and declaration.adds_own_datasets:
                has_dataset = True
            if has_dataset and model_kind in shown_kinds:
                parts.append(part)
        return parts

    def get_number_files(self, table: str) -> dict[str, list[str]]:
        """Return the files of numbers that a table is made from, by kind; kinds that the study
        lacks are omitted.
        """
        declaration = TABLES[table]
        files = {}
        for kind in declaration.source_kinds:
            # Examples are read from the items themselves, all other kinds from files of numbers.
            if kind == "samples":
                built = self.plan.built_or_finished
                names = [name for name in declaration.example_datasets if name in built]
                paths = _list_files(f"{self.plan.results}/benchmark", names)
            elif kind in PARTED_NUMBERS:
                folder = f"{self.plan.results}/{PARTED_NUMBERS[kind].folder}"
                paths = _list_files(folder, self.list_shown_parts(table, kind))
            else:
                paths = self.other_numbers[kind]
            if paths:
                files[kind] = paths
        return files

    def list_run_checks(self, table: str) -> list[str]:
        """Return the files that hold the facts of the runs behind a table, by which the runs are
        checked.
        """
        checks: set[str] = set()
        for kind in TABLES[table].source_kinds:
            if kind in PARTED_NUMBERS:
                check = PARTED_NUMBERS[kind].check
                folder = f"{self.plan.results}/reporting/runs/{check}"
                parts = self.list_shown_parts(table, kind)
                checks.update(_list_files(folder, parts, "json"))
        return sorted(checks)

    def get_table_inputs(self, table: str) -> dict[str, list[str]]:
        """Return all files that a table is made from, by the name of the rule's input."""
        paper_values = [
            locate_in_package(f"resources/published/{number}.csv")
            for number in TABLES[table].paper_tables
        ]
        return {
            **self.get_number_files(table),
            "comparisons": self.list_comparisons(table),
            "runs": self.list_run_checks(table),
            "printed": paper_values,
        }

    def describe_declaration(self, table: str) -> dict[str, str]:
        """Return all that a table's form depends on: its filled entry, and the styles of metrics."""
        return {"table": repr(TABLES[table]), "styles": repr(STYLES)}

    def list_comparisons(self, table: str) -> list[str]:
        """Return the files of the paired comparisons of the models that a table shows."""
        if "evaluation" not in TABLES[table].source_kinds:
            return []
        # Several parts of the evaluation may share one file of comparisons.
        shown_parts = self.list_shown_parts(table, "evaluation")
        parts = dict.fromkeys(map(self.plan.find_compared_part, shown_parts))
        compared = [part for part in parts if part in self.plan.compared_parts]
        return _list_files(f"{self.plan.results}/evaluation/comparisons", compared)

    def get_table_labels(self, table: str) -> dict[str, str]:
        """Return the labels of a table in Snakemake's report."""
        return {"table": table.replace("-", " "), "what": TABLES[table].title}

    @cached_property
    def study_facts(self) -> dict[str, Any]:
        """Facts about the study that all tables read."""
        plan = self.plan
        # Encoders and decoders that are scored first, then decoders that are only tested.
        models = dict.fromkeys(
            [*plan.study.evaluation.models, *plan.study.consistency.models]
        )
        return {
            "models": {name: plan.get_table_kind(name) for name in models},
            "compared": not plan.raw.drawn_originals,
            "confidence": plan.study.reporting.confidence,
            "built": {
                name: {
                    "format": plan.study.sources[entry.source].format,
                    "filters": list(entry.filters),
                }
                for name, entry in plan.study.instruments.items()
            },
            "datasets": plan.built_or_finished,
            "skipped": dict(plan.skipped),
            "margins": dict(plan.study.reporting.margins),
        }

    # Run records

    def list_records(self, check: str, runs: Iterable[Run]) -> list[str]:
        """Return the records of the runs that are checked together.

        Args:
            check: A key of `CHECKED_STEPS`.
            runs: Runs of the stage; all their steps of the check have a record.
        """
        selected = set(runs)
        rows = self.plan.runs.select(*CHECKED_STEPS[check])
        # Runs of one model on the data sets of a group share a file.
        files = unique(row.file for row in rows if row.run in selected)
        return [file.removesuffix(".parquet") + ".run.json" for file in files]

    def list_part_records(self, check: str, part: str) -> list[str]:
        """Return the run records behind a part of the numbers that are checked together."""
        return self.list_records(check, self.get_part_runs(check)[part])

    @cached_property
    def all_records(self) -> list[str]:
        """Run records of all sources, data sets and models."""
        plan = self.plan
        return [
            *_list_files(f"{plan.results}/sources", plan.raw_sources, "run.json"),
            *_list_files(f"{plan.results}/benchmark", plan.item_sets, "run.json"),
            *self.list_records("evaluation", plan.scored),
            *self.list_records("shares", plan.attributed),
            *self.list_records("consistency", plan.checked),
        ]

    # Figures

    @cached_property
    def frequency_figures(self) -> list[tuple[str, str, str]]:
        """Data set, kind and title of each figure of word frequencies."""
        figures = []
        for dataset in self.plan.built_or_finished:
            figures.append((dataset, "lexical", "words exchanged"))
        for dataset in self.plan.study.reporting.pronouns:
            figures.append((dataset, "pronoun", "pronouns"))
        return figures

    @cached_property
    def charts(self) -> list[tuple[Chart, str]]:
        """Charts whose first table the study has, in each profile."""
        # A chart needs the first of its tables; its further tables may be missing.
        charts = [chart for chart in CHARTS.values() if chart.tables[0] in self.tables]
        return list(product(charts, self.plan.study.profiles))

    @cached_property
    def language_model_sizes(self) -> dict[str, int]:
        """Number of parameters of each language model of the study and the registry, 0 if unknown."""
        # The study's entries come last: they replace entries of the registry with the same name.
        specs = {**load_registry(), **self.plan.models.resolved}
        return {
            name: spec.parameters for name, spec in specs.items() if spec.kind == "text"
        }

    def list_frequency_files(self, form: str) -> list[str]:
        """Return the files of the figures of word frequencies.

        Args:
            form: Format, `svg` or `png`.
        """
        names = [f"{kind}-{dataset}" for dataset, kind, _ in self.frequency_figures]
        return _list_files(self._figures, names, form)

    def list_chart_files(self, form: str) -> list[str]:
        """Return the files of the charts; `form` is their format, `svg` or `png`."""
        names = [f"{chart.id}-{profile}" for chart, profile in self.charts]
        return _list_files(self._figures, names, form)

    @property
    def figure_files(self) -> list[str]:
        """Files of the figures that the page shows: word frequencies, charts, and the scenes."""
        files = [*self.list_frequency_files("svg"), *self.list_chart_files("svg")]
        if self.plan.study.scenes:
            files.append(f"{self._figures}/scenes.png")
        return files

    def list_frequency_labels(self) -> list[dict[str, str]]:
        """Return the labels of the figures of word frequencies in Snakemake's report."""
        return [
            {
                "figure": FREQUENCY_FIGURES.get((kind, dataset), NOT_PUBLISHED),
                "data set": dataset,
                "what": title,
            }
            for dataset, kind, title in self.frequency_figures
        ]

    def list_chart_labels(self) -> list[dict[str, str]]:
        """Return the labels of the charts in Snakemake's report."""
        return [
            {"figure": chart.figures, "profile": profile, "what": chart.title}
            for chart, profile in self.charts
        ]

    @cached_property
    def figure_titles(self) -> dict[str, tuple[str, ...]]:
        """Title, section and published figures of each figure of the report, by its name."""
        titles: dict[str, tuple[str, ...]] = {
            f"{kind}-{dataset}": (
                f"{dataset}: {title} in captions and in foils, before and after validation",
                "Words exchanged in captions and foils",
                FREQUENCY_FIGURES.get((kind, dataset), ""),
            )
            for dataset, kind, title in self.frequency_figures
        }
        for chart, profile in self.charts:
            title = f"{chart.title}, profile {profile}"
            titles[f"{chart.id}-{profile}"] = (title, "Charts of tables", chart.figures)
        titles["scenes"] = (
            "24 drawn scenes, each with a caption, true statements in green and false ones in red",
            "Scenes",
        )
        return titles

    @cached_property
    def drawn_decoders(self) -> list[str]:
        """Decoders whose explanations and traces are drawn, language models before vision-language
        decoders.
        """
        plan = self.plan
        # A study may ask for no examples at all.
        if not plan.study.reporting.explained_examples:
            return []
        checked = {run.model for run in plan.checked}
        decoders = select_names(plan.study.consistency.models, checked)
        return sorted(
            decoders, key=lambda name: plan.models.get_kind(name) != "language"
        )

    @cached_property
    def sampled_encoders(self) -> list[str]:
        """Encoders whose attributions are drawn; rulers have no real weights to look into."""
        plan = self.plan
        if not plan.study.reporting.samples:
            return []
        attributed = plan.runs.select("attribution").models
        encoders = select_names(plan.select_attributed_models("encoder"), attributed)
        return [name for name in encoders if plan.models[name].kind != "ruler"]

    def select_drawn_runs(self, decoder: str) -> list[Run]:
        """Return the runs of stage consistency that are drawn for a decoder."""
        return [run for run in self.plan.checked if run.model == decoder]

    def select_attributed_runs(self, encoder: str) -> list[Run]:
        """Return the runs of stage attribution that are drawn for an encoder."""
        return [run for run in self.plan.attributed if run.model == encoder]

    @cached_property
    def sample_folders(self) -> dict[str, tuple[str, str]]:
        """Content (a key of `SAMPLE_TITLES`) and kind of model of each folder of example figures,
        by its path.
        """
        plan = self.plan
        decoders = self.drawn_decoders
        explained = plan.runs.select("cc-shap").models
        models = {
            "samples": self.sampled_encoders,
            "traces": select_names(decoders, plan.runs.select("tests").models),
            "explanations": select_names(decoders, explained),
            "edits": select_names(decoders, plan.edited_models),
        }
        folders = {}
        for content, names in models.items():
            for name in names:
                path = f"{self._figures}/{content}/{name}"
                folders[path] = (content, plan.models.get_kind(name))
        return folders

    def get_sample_labels(self, shows: str, model: str) -> dict[str, str]:
        """Return the labels of a folder of example figures in Snakemake's report; `shows` is its
        content.
        """
        figure = SAMPLE_FIGURES[shows, self.plan.models.get_kind(model)]
        return {"figure": figure, "what": SAMPLE_TITLES[shows], "sample": "{name}"}

    @property
    def sample_sections(self) -> list[tuple[str, str]]:
        """Heading and published figures of each folder of example figures."""
        return [
            (f"Samples: {SAMPLE_TITLES[shows]}", SAMPLE_FIGURES[shows, kind])
            for shows, kind in self.sample_folders.values()
        ]

    # The page

    @property
    def filters(self) -> Mapping[str, Sequence[str]]:
        """Filters that judge the candidates of each instrument."""
        filters: dict[str, Sequence[str]] = {}
        for name, entry in self.plan.study.instruments.items():
            filters[name] = list(entry.filters)
        return filters

    @property
    def benchmark_files(self) -> list[str]:
        """Files of `summaries` that the stage benchmark makes."""
        folder = f"{self.plan.results}/benchmark/"
        return [file for file in self.summaries.values() if file.startswith(folder)]

    @cached_property
    def summaries(self) -> dict[str, str]:
        """Files of the tables that only the page shows, by name; without the files that the study
        does not make.
        """
        plan, results = self.plan, self.plan.results
        benchmark, probes = plan.study.benchmark, plan.study.cv_probes
        built = bool(plan.study.instruments)
        # Each file with what decides whether the study makes it.
        files = {
            "funnel": (built, f"{results}/benchmark/funnel.parquet"),
            "statistics": (built, f"{results}/benchmark/validation/statistics.parquet"),
            "printed": (built, locate_in_package("resources/published/thesis-A.2.csv")),
            "oracle": (
                built and benchmark.oracle,
                f"{results}/benchmark/oracle.parquet",
            ),
            "audit": (built and benchmark.audit, f"{results}/benchmark/audit.parquet"),
            "probes": (probes, f"{results}/benchmark/cv-probes.parquet"),
            "probe_captions": (
                probes,
                f"{results}/benchmark/cv-probes/captions.parquet",
            ),
            "probe_oracle": (
                probes and benchmark.oracle,
                f"{results}/benchmark/cv-probes/oracle.parquet",
            ),
            "metrics": (plan.scored, f"{results}/evaluation/metrics.parquet"),
            "comparisons": (plan.scored, f"{results}/evaluation/comparisons.parquet"),
            "shares": (plan.attributed, f"{results}/attribution/shares.parquet"),
            "attributed": (plan.attributed, f"{results}/attribution/metrics.parquet"),
            "tested": (plan.checked, f"{results}/consistency/metrics.parquet"),
            "changes": (
                plan.explained,
                f"{results}/reporting/differences/explanations.parquet",
            ),
        }
        return {name: file for name, (exists, file) in files.items() if exists}

    @cached_property
    def browsed(self) -> RunTable:
        """Runs that the example browser shows: all except on text tasks and of recorded models."""
        rows = []
        for row in self.plan.runs.select(*BROWSED_STEPS.values()):
            is_text_task = row.dataset in self.plan.study.texts
            is_recorded = row.model in self.plan.recorded_models
            if not is_text_task and not is_recorded:
                rows.append(row)
        return RunTable(tuple(rows))

    @cached_property
    def browsed_runs(self) -> dict[str, list[Run]]:
        """Runs that the example browser shows, by kind of results."""
        return {
            kind: self.browsed.select(step).runs for kind, step in BROWSED_STEPS.items()
        }

    @property
    def browsed_files(self) -> dict[str, list[tuple[str, str, str]]]:
        """Model, data set and file of each run that the example browser shows, by kind of results."""
        files: dict[str, list[tuple[str, str, str]]] = {}
        for kind, step in BROWSED_STEPS.items():
            rows = self.browsed.select(step)
            files[kind] = [(row.model, row.dataset, row.file) for row in rows]
        return files

    @cached_property
    def browsed_datasets(self) -> list[str]:
        """Data sets that the example browser shows; without runs of models, all that are built."""
        if self.plan.runs.rows:
            return list_datasets_of(self.browsed.runs)
        # A study of `waltz build` has pairs alone, which are looked at before a model scores them.
        return list(self.plan.study.instruments)

    @cached_property
    def browsed_items(self) -> list[str]:
        """Data sets of the example browser that have no open questions."""
        return [
            name
            for name in self.browsed_datasets
            if name not in self.plan.study.answering
        ]

    @cached_property
    def browsed_questions(self) -> dict[str, dict[str, Any]]:
        """Entry in the study of each data set of open questions that the example browser shows."""
        answering = self.plan.study.answering
        return {
            name: answering[name].to_dict()
            for name in self.browsed_datasets
            if name in answering
        }

    @cached_property
    def browsed_images(self) -> list[str]:
        """Data sets of the example browser that have images."""
        return [name for name in self.browsed_datasets if self.plan.has_images(name)]

    @property
    def _figures(self) -> str:
        return f"{self.plan.results}/reporting/figures"


def _list_files(
    folder: str, names: Iterable[str], suffix: str = "parquet"
) -> list[str]:
    return [f"{folder}/{name}.{suffix}" for name in names]


def select_names(names: Iterable[str], selected: Collection[str]) -> list[str]:
    """Return the names that are selected, in their order."""
    return [name for name in names if name in selected]


def _list_shown_datasets(declaration: Declaration) -> set[str]:
    """Return the data sets in a table's paper values, and our data sets that stand for them."""
    if not declaration.paper_tables:
        return {ALL_DATASETS}
    datasets: set[str] = set()
    for paper_table in declaration.paper_tables:
        # CV-Probes have a condition behind a colon; files of numbers hold all conditions of a data
        # set.
        for key in _list_paper_keys(paper_table):
            datasets.add(key.dataset.partition(":")[0])
            datasets.update(declaration.find_dataset_aliases(key.dataset, key.setting))
    return datasets


@cache
def _list_paper_keys(paper_table: str) -> list[PaperKey]:
    """Return the keys of a paper table, which many tables and parts are compared with."""
    return list(read_paper_values(PUBLISHED / f"{paper_table}.csv"))
