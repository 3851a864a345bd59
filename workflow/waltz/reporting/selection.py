"""Selection of a part of a study: `only` cuts the plan to models, data sets, instruments and tables."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from waltz.core.errors import UserError, suggest_name
from waltz.plan.plan import Plan, Run
from waltz.plan.study import CV_PROBES, ITEM_FORMATS, Study
from waltz.reporting.plan import ReportingPlan
from waltz.reporting.tables.declarations import TABLES

STAGES = ("evaluation", "attribution", "consistency")


@dataclass(frozen=True)
class Selection:
    """Names of `only` by what they are; an empty set selects all."""

    models: Collection[str]
    datasets: Collection[str]
    tables: Collection[str]

    def includes(self, run: Run) -> bool:
        """Return whether a run is of a selected model on a selected data set."""
        return run.model in (self.models or [run.model]) and run.dataset in (self.datasets or [run.dataset])


def select_only(plan: Plan) -> Plan:
    """Return the plan cut to what the study's `only` names; what is left out is skipped, with that reason.

    Raises:
        UserError: A name is that of no model, data set, instrument or table.
    """
    if not plan.study.only:
        return plan
    selection = _sort_names(plan)
    runs = _select_runs(plan, selection)
    kept_datasets = _select_datasets(plan, selection, [run for stage_runs in runs.values() for run in stage_runs])
    kept_models = {run.model for stage_runs in runs.values() for run in stage_runs}
    study = _cut_study(plan.study, selection, runs, kept_datasets)
    specs = plan.models.resolved
    needed = {*kept_models, *_list_helper_models(study)}
    needed |= {specs[name].detector for name in needed if name in specs}
    models = replace(plan.models, resolved={name: spec for name, spec in specs.items() if name in needed})
    study = study.model_copy(update={"models": _keep(study.models, needed)})
    reason = f"left out by only: {', '.join(plan.study.only)}"
    names = [*dict.fromkeys(run.model for run in [*plan.scored, *plan.attributed, *plan.tested]), *plan.datasets]
    left_out = {name: reason for name in names if name not in kept_models | kept_datasets}
    return replace(plan, study=study, models=models, skipped={**plan.skipped, **left_out})


def _sort_names(plan: Plan) -> Selection:
    """Return what the names of `only` are."""
    datasets = {*plan.datasets, *plan.study.instruments}
    kinds: tuple[Collection[str], ...] = (plan.study.models, datasets, ReportingPlan(plan).tables)
    known = [name for names in kinds for name in names]
    for name in plan.study.only:
        if name not in known:
            raise UserError(
                f"study file: only: nothing is called {name!r}{suggest_name(name, known)}; name models, data sets,"
                " instruments or tables of the study"
            )
    return Selection(*({name for name in plan.study.only if name in names} for names in kinds))


def _select_runs(plan: Plan, selection: Selection) -> dict[str, list[Run]]:
    """Return the selected runs of each stage; attributed runs are scored as well."""
    runs = {"evaluation": plan.scored, "attribution": plan.attributed, "consistency": plan.tested}
    if selection.tables:
        report = ReportingPlan(plan)
        stages = {"shares": "attribution", "correlations": "consistency"}
        shown: dict[str, set[Run]] = {stage: set() for stage in STAGES}
        for table in selection.tables:
            for kind in set(TABLES[table].source_kinds) & set(report.number_parts):
                for part in report.list_shown_parts(table, kind):
                    shown[stages.get(kind, kind)].update(report.number_parts[kind][1][part])
        shown["evaluation"] |= shown["attribution"]
        runs = {stage: [run for run in stage_runs if run in shown[stage]] for stage, stage_runs in runs.items()}
    return {stage: list(filter(selection.includes, stage_runs)) for stage, stage_runs in runs.items()}


def _select_datasets(plan: Plan, selection: Selection, runs: Iterable[Run]) -> set[str]:
    """Return the data sets of runs, those that are selected, and all that are built where a table is about building."""
    datasets = {run.dataset for run in runs} | set(selection.datasets)
    report = ReportingPlan(plan)
    if not selection.datasets and any(
        set(TABLES[table].source_kinds) - set(report.number_parts) for table in selection.tables
    ):
        datasets |= {*plan.built_or_finished, *([CV_PROBES] if plan.study.cv_probes else [])}
    return datasets


def _cut_study(
    study: Study, selection: Selection, runs: Mapping[str, Collection[Run]], datasets: Collection[str]
) -> Study:
    """Return a study with the given runs and data sets alone, and the sources that they need."""
    groups = {group: [name for name in names if name in datasets] for group, names in study.groups.items()}
    groups = {group: names for group, names in groups.items() if names}
    changes: dict[str, Any] = {
        "groups": groups,
        "instruments": _keep(study.instruments, datasets),
        "cv_probes": study.cv_probes if CV_PROBES in datasets else None,
        "alignment": _keep(study.alignment, datasets),
        "answering": _keep(study.answering, datasets),
        "texts": _keep(study.texts, datasets),
        "reporting": study.reporting.model_copy(
            update={
                "tables": sorted(selection.tables) or study.reporting.tables,
                "pronouns": [name for name in study.reporting.pronouns if name in datasets],
            }
        ),
    }
    for stage in STAGES:
        entry = getattr(study, stage)
        if stage in study.model_fields_set:
            models, stage_datasets = {run.model for run in runs[stage]}, {run.dataset for run in runs[stage]}
            used = [name for name in entry.groups if stage_datasets.intersection(groups.get(name, ()))]
            changes[stage] = entry.model_copy(
                update={"models": [name for name in entry.models if name in models], "groups": used}
            )
    cut = study.model_copy(update=changes)
    return cut.model_copy(update={"sources": _select_sources(cut, datasets)})


def _select_sources(study: Study, datasets: Collection[str]) -> dict[str, Any]:
    """Return the sources that a cut study needs; those of finished items with the needed files alone."""
    entries: list[Any] = [
        *study.instruments.values(),
        *study.alignment.values(),
        *study.answering.values(),
        *study.texts.values(),
    ]
    used = {entry.source for entry in [*entries, *([study.cv_probes] if study.cv_probes else [])]}
    run_models = [*study.evaluation.models, *study.consistency.models]
    used |= {study.models[name].recorded for name in run_models if study.models[name].recorded}
    sources = {}
    for name, entry in study.sources.items():
        if name in used:
            sources[name] = entry
        elif entry.format in ITEM_FORMATS and (files := _keep(entry.files, datasets)):
            sources[name] = entry.model_copy(update={"files": files})
    return sources


def _list_helper_models(study: Study) -> list[str]:
    """Return the models that build data sets or help with tests."""
    proposals, probes = study.proposals, study.cv_probes
    helpers = [study.consistency.helper, probes.repair if probes else None]
    helpers += [proposals.spans, proposals.verbs] if proposals else []
    return [name for name in [*helpers, *(study.filters.models.values() if study.filters else [])] if name]


def _keep(entries: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: entry for name, entry in entries.items() if name in names}
