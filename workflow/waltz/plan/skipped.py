"""Models and data sets of a study that cannot run here, with reasons, and the study without them."""

from collections.abc import Mapping
from pathlib import Path

from waltz.plan.study import CV_PROBES, Study


def find_skipped(study: Study) -> dict[str, str]:
    """Return the reason of each model, and of CV-Probes, that is skipped here.

    A model is skipped where the study says so (`left_out`) or where its regions are missing; CV-Probes where the
    captions that people write for it are missing.
    """
    reasons = dict(study.left_out)
    for name, entry in study.models.items():
        if entry.regions and not Path(entry.regions).exists():
            reasons.setdefault(
                name, f"not run: there are no regions for it here (models.{name}.regions: {entry.regions})"
            )
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
