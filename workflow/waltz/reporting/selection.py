"""Selection of a part of a study: its key `only` cuts the plan to some models, data sets,
instruments and tables.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from waltz.core.errors import UserError, suggest_name
from waltz.plan.plan import Plan
from waltz.plan.run_table import STAGES, Run, RunTable, list_datasets_of, unique
from waltz.plan.study import (
    CV_PROBES,
    ITEM_FORMATS,
    AttributionSection,
    Consistency,
    Evaluation,
    Source,
    Study,
)
from waltz.reporting.plan import (
    COMPARED_STEPS,
    DIFFERENCES,
    PARTED_NUMBERS,
    ReportingPlan,
    select_names,
)
from waltz.reporting.tables.declarations import TABLES

Entry = TypeVar("Entry")
AnyStage = TypeVar("AnyStage", Evaluation, AttributionSection, Consistency)


@dataclass(frozen=True)
class Selection:
    """Names in `only`, sorted into models, data sets and tables; an empty set selects all."""

    models: Collection[str]
    datasets: Collection[str]
    tables: Collection[str]

    def includes(self, run: Run) -> bool:
        """Return whether a run is of a selected model on a selected data set."""
        is_selected_model = not self.models or run.model in self.models
        is_selected_dataset = not self.datasets or run.dataset in self.datasets
        return is_selected_model and is_selected_dataset

    @property
    def shows_building(self) -> bool:
        """Whether the selection is about how data sets are built, and not about runs on them: it
        has a table of other numbers than those of runs, or data sets alone.
        """
        kinds: set[str] = set()
        for table in self.tables:
            kinds.update(TABLES[table].source_kinds)
        # Kinds of numbers that come from no runs are about how data sets are built.
        numbers_of_runs = {DIFFERENCES + comparison for comparison in COMPARED_STEPS}
        numbers_of_runs.update(PARTED_NUMBERS)
        if not kinds <= numbers_of_runs:
            return True
        return not self.models and not self.tables


def select_only(plan: Plan) -> Plan:
    """Return the plan cut to the names in the study's `only`; all other models and data sets are
    skipped.

    Raises:
        UserError: No model, data set, instrument or table has one of the names.
    """
    if not plan.study.only:
        return plan
    selection = _sort_names(plan)
    runs = _select_runs(plan, selection)
    datasets = _select_datasets(plan, selection, runs)
    study = _cut_study(plan, selection, runs, datasets)

    # Models that are run, those that help them, and the detectors of both.
    needed = {*runs.models, *_list_helper_models(study)}
    for spec in _select_entries(plan.models.resolved, needed).values():
        needed.add(spec.detector)
    models = replace(
        plan.models, resolved=_select_entries(plan.models.resolved, needed)
    )
    study = study.model_copy(update={"models": _select_entries(study.models, needed)})

    reason = f"left out by only: {', '.join(plan.study.only)}"
    selected_names = datasets.union(runs.models)
    skipped = dict(plan.skipped)
    for name in unique([*plan.runs.models, *plan.datasets]):
        if name not in selected_names:
            skipped[name] = reason
    return replace(plan, study=study, models=models, skipped=skipped)


def _sort_names(plan: Plan) -> Selection:
    """Return the names in `only`, sorted into models, data sets and tables.

    Raises:
        UserError: The study has nothing of such a name.
    """
    models: Collection[str] = plan.study.models
    # An instrument can be named even if its data set is not in the plan.
    datasets = {*plan.datasets, *plan.study.instruments}
    tables = ReportingPlan(plan).tables
    known = [*models, *datasets, *tables]
    for name in plan.study.only:
        if name not in known:
            raise UserError(
                f"study file: only: nothing is called {name!r}{suggest_name(name, known)}; name models, data sets,"
                " instruments or tables of the study"
            )
    names = set(plan.study.only)
    return Selection(
        names.intersection(models),
        names.intersection(datasets),
        names.intersection(tables),
    )


def _select_runs(plan: Plan, selection: Selection) -> RunTable:
    """Return the selected runs of all stages; the further steps of a stage depend on its first."""
    shown = _list_shown_runs(plan, selection)
    rows = []
    for row in plan.runs.select("evaluation", "attribution", "tests", "cc-shap"):
        # Without a table in `only`, models and data sets alone decide.
        is_shown = not selection.tables or row.run in shown[row.stage]
        if is_shown and selection.includes(row.run):
            rows.append(row)
    return RunTable(tuple(rows))


def _list_shown_runs(plan: Plan, selection: Selection) -> dict[str, set[Run]]:
    """Return the runs of each stage whose numbers the selected tables show; attributed runs are
    scored as well.
    """
    report = ReportingPlan(plan)
    shown: dict[str, set[Run]] = {stage: set() for stage in STAGES}
    for table in selection.tables:
        # Other kinds of numbers, such as the statistics of validation, come from no runs.
        for kind in PARTED_NUMBERS.keys() & TABLES[table].source_kinds:
            stage = PARTED_NUMBERS[kind].stage
            for part in report.list_shown_parts(table, kind):
                shown[stage].update(report.get_part_runs(kind)[part])
    # Attributed items are taken from those that are scored.
    shown["evaluation"] |= shown["attribution"]
    return shown


def _select_datasets(plan: Plan, selection: Selection, runs: RunTable) -> set[str]:
    """Return the data sets that a cut study has.

    They are the data sets of the runs and the selected data sets. If no data set is selected, and a
    selected table is about how data sets are built, they also include all built data sets.
    """
    datasets = {*list_datasets_of(runs.runs), *selection.datasets}
    if selection.datasets or not selection.shows_building:
        return datasets
    datasets.update(plan.built_or_finished)
    if plan.study.cv_probes:
        datasets.add(CV_PROBES)
    return datasets


def _select_instruments(
    plan: Plan, selection: Selection, datasets: Collection[str]
) -> list[str]:
    """Return the instruments that a cut study builds.

    Runs take the released items of a data set that is released. Such an instrument is rebuilt only
    if the selection is about building.
    """
    instruments = select_names(plan.study.instruments, datasets)
    if selection.shows_building:
        return instruments
    return [name for name in instruments if name not in plan.item_sets]


def _cut_study(
    plan: Plan,
    selection: Selection,
    runs: RunTable,
    datasets: Collection[str],
) -> Study:
    """Return a study with only some runs and data sets, and with the sources that these need."""
    study = plan.study
    instruments = _select_instruments(plan, selection, datasets)
    groups = {}
    for group, names in study.groups.items():
        # A group that has lost all its data sets is removed.
        if selected := select_names(names, datasets):
            groups[group] = selected
    pronouns = select_names(study.reporting.pronouns, datasets)
    tables = sorted(selection.tables) or study.reporting.tables
    changes: dict[str, Any] = {
        "groups": groups,
        "instruments": _select_entries(study.instruments, instruments),
        "alignment": _select_entries(study.alignment, datasets),
        "answering": _select_entries(study.answering, datasets),
        "texts": _select_entries(study.texts, datasets),
        "reporting": study.reporting.model_copy(
            update={"tables": tables, "pronouns": pronouns}
        ),
    }
    if CV_PROBES not in datasets:
        changes["cv_probes"] = None
    # A stage that the study does not set keeps its defaults.
    for stage in study.model_fields_set.intersection(STAGES):
        stage_runs = runs.select(*STAGES[stage])
        changes[stage] = _cut_stage(getattr(study, stage), stage_runs, groups)
    cut = _drop_unused_builders(study.model_copy(update=changes))
    # Sources are chosen last, since they depend on the instruments and models that are left.
    return cut.model_copy(update={"sources": _select_sources(cut, datasets)})


def _drop_unused_builders(study: Study) -> Study:
    """Return a study without the models that propose and filter foils, if it builds nothing with
    them.
    """
    changes: dict[str, None] = {}
    if not study.instruments:
        changes["proposals"] = None
    # One model of the filters may also judge the meaning of open answers.
    judges_meaning = study.consistency.models and study.consistency.meaning == "nli"
    if not (study.instruments or study.cv_probes or judges_meaning):
        changes["filters"] = None
    return study.model_copy(update=changes)


def _cut_stage(
    entry: AnyStage, runs: RunTable, groups: Mapping[str, Collection[str]]
) -> AnyStage:
    """Return the entry of a stage with only the models and groups of data sets of some runs."""
    models = select_names(entry.models, runs.models)
    datasets = set(list_datasets_of(runs.runs))
    used_groups = []
    for group in entry.groups:
        if not datasets.isdisjoint(groups.get(group, ())):
            used_groups.append(group)
    return entry.model_copy(update={"models": models, "groups": used_groups})


def _select_sources(study: Study, datasets: Collection[str]) -> dict[str, Source]:
    """Return the sources that a cut study needs; a source of finished items keeps only the files
    that are needed.
    """
    entries: list[Any] = [
        *study.instruments.values(),
        *study.alignment.values(),
        *study.answering.values(),
        *study.texts.values(),
    ]
    if study.cv_probes:
        entries.append(study.cv_probes)
    used = {entry.source for entry in entries}
    # Recorded models take their results from a source; for other models `recorded` is None.
    for name in (*study.evaluation.models, *study.consistency.models):
        used.add(study.models[name].recorded)
    sources = {}
    for name, entry in study.sources.items():
        # A used source stays as it is; finished items are a source of many data sets, each with a
        # file.
        files = _select_entries(entry.files, datasets)
        if name in used:
            sources[name] = entry
        elif entry.format in ITEM_FORMATS and files:
            sources[name] = entry.model_copy(update={"files": files})
    return sources


def _list_helper_models(study: Study) -> list[str]:
    """Return the names of the models that build data sets or help with tests."""
    helpers: list[str | None] = []
    if study.consistency.models:
        helpers.append(study.consistency.helper)
    if study.cv_probes:
        helpers.append(study.cv_probes.repair)
    if study.proposals:
        helpers += [study.proposals.spans, study.proposals.verbs]
    if study.filters:
        helpers += study.filters.models.values()
    return list(filter(None, helpers))


def _select_entries(
    entries: Mapping[str, Entry], names: Collection[str]
) -> dict[str, Entry]:
    return {name: entry for name, entry in entries.items() if name in names}
