"""What a study names and cannot run here: why, and the study without it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from waltz.core.study import PROBES, PROBES_KEY, SCORING


def absent(config: Mapping[str, Any]) -> dict[str, str]:
    """What a study names and cannot run here, with the reason: models by name, and cv-probes.

    A model is left out where the study says so (`left_out`) or where its regions are not there; CV-Probes where the
    captions are not there that people write for it.
    """
    reasons = {name: str(reason) for name, reason in config.get("left_out", {}).items()}
    for name, entry in config.get("models", {}).items():
        regions = (entry or {}).get("regions", "")
        if regions and not Path(regions).exists():
            reasons.setdefault(name, f"not run: there are no regions for it here (models.{name}.regions: {regions})")
    written = config.get(PROBES_KEY, {}).get("written")
    if written and not Path(written).exists():
        reasons[PROBES] = f"not run: nobody has written the plain captions (cv_probes.written: {written})"
    return reasons


def runnable(config: Mapping[str, Any], reasons: Mapping[str, str]) -> dict[str, Any]:
    """A study without what `absent` found: models in no stage, CV-Probes in no group, and no group empty."""
    found = dict(config)
    if PROBES in reasons:
        found.pop(PROBES_KEY, None)
        groups = config.get("groups", {})
        kept = {group: [name for name in names if name != PROBES] for group, names in groups.items()}
        found["groups"] = {group: names for group, names in kept.items() if names}
    for stage in SCORING:
        if stage in config:
            entry = dict(config[stage])
            entry["models"] = [name for name in entry["models"] if name not in reasons]
            entry["groups"] = [group for group in entry["groups"] if group in found.get("groups", {})]
            if "only" in entry:
                entry["only"] = {
                    name: [group for group in groups if group in entry["groups"]]
                    for name, groups in entry["only"].items()
                    if name not in reasons
                }
            found[stage] = entry
    return found
