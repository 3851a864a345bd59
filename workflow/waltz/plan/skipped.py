"""Models and data sets that a study skips, with reasons, and the study without them."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from waltz.plan.study import CV_PROBES, Study

RUN_STAGES = ("evaluation", "attribution", "consistency")
"""Stages whose sections name models and groups."""


def find_skipped(study: Study) -> dict[str, str]:
    """Return for each skipped model, and for CV-Probes if skipped, the reason why it is not run
    here.

    A model is skipped if the study lists it under `skipped`, CV-Probes if the captions that people
    write for it are missing.
    """
    reasons = dict(study.skipped)
    captions_file = study.cv_probes.written if study.cv_probes else None
    if captions_file and not Path(captions_file).exists():
        reasons[CV_PROBES] = (
            f"not run: nobody has written the plain captions (cv_probes.written: {captions_file})"
        )
    return reasons


def remove_skipped(study: Study, reasons: Mapping[str, str]) -> Study:
    """Return a copy of a study without skipped models and data sets, and without groups that become
    empty.
    """
    changes: dict[str, object] = {}
    models, groups = study.models.keys() - reasons.keys(), study.groups
    if CV_PROBES in reasons:
        groups = _remove_dataset(groups, CV_PROBES)
        changes = {"cv_probes": None, "groups": groups}
    for stage in RUN_STAGES:
        # A stage that the study does not name keeps its empty default, and stays unnamed.
        if stage not in study.model_fields_set:
            continue
        section = getattr(study, stage)
        # Each stage names models and groups; `only` of stage evaluation names both again.
        section_changes: dict[str, object] = {
            "models": _select_names(section.models, models),
            "groups": _select_names(section.groups, groups),
        }
        if stage == "evaluation" and section.only:
            only = {}
            for model in _select_names(section.only, models):
                only[model] = _select_names(section.only[model], groups)
            section_changes["only"] = only
        changes[stage] = section.model_copy(update=section_changes)
    return study.model_copy(update=changes)


def _remove_dataset(
    groups: Mapping[str, list[str]], dataset: str
) -> dict[str, list[str]]:
    """Return groups without a data set, and without the groups that contained only this data set."""
    remaining = {}
    for group, names in groups.items():
        other_names = [name for name in names if name != dataset]
        if other_names:
            remaining[group] = other_names
    return remaining


def _select_names(names: Iterable[str], allowed: Collection[str]) -> list[str]:
    """Return the names that are allowed, in their order."""
    return [name for name in names if name in allowed]
