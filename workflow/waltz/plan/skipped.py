"""Models and data sets that a study skips, with reasons, and the study without them."""

from collections.abc import Collection, Mapping
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
    groups = study.groups
    if CV_PROBES in reasons:
        groups = remove_dataset(groups, CV_PROBES)
        changes = {"cv_probes": None, "groups": groups}
    for stage in RUN_STAGES:
        # A stage that the study does not name keeps its empty default, and stays unnamed.
        if stage not in study.model_fields_set:
            continue
        section = getattr(study, stage)
        # Each stage names models and groups; `only` of stage evaluation names both again.
        section_changes: dict[str, object] = {
            "models": [name for name in section.models if name not in reasons],
            "groups": [group for group in section.groups if group in groups],
        }
        if stage == "evaluation" and section.only:
            section_changes["only"] = _cut_only(section.only, reasons, groups)
        changes[stage] = section.model_copy(update=section_changes)
    return study.model_copy(update=changes)


def remove_dataset(
    groups: Mapping[str, list[str]], dataset: str
) -> dict[str, list[str]]:
    """Return groups without a data set, and without the groups that contained only this data set."""
    remaining = {}
    for group, names in groups.items():
        other_names = [name for name in names if name != dataset]
        if other_names:
            remaining[group] = other_names
    return remaining


def _cut_only(
    only: Mapping[str, list[str]], reasons: Collection[str], groups: Collection[str]
) -> dict[str, list[str]]:
    """Return the mapping `evaluation.only` without skipped models and without groups that no longer
    exist.
    """
    remaining = {}
    for model, model_groups in only.items():
        if model not in reasons:
            remaining[model] = [group for group in model_groups if group in groups]
    return remaining
