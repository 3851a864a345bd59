"""Study files: found by name, validated against one schema, cut into the slices that rules read."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

from waltz.core.errors import UserError
from waltz.core.raw_files import files, owners
from waltz.instruments import FILTER_MODELS, INSTRUMENTS

DEFAULT = "scenes"
ITEM_FORMATS = ("valse-release", "pairs")
"""Formats of finished items, whose files are data sets."""
RAW_MATERIAL = {name: entry.source_format for name, entry in INSTRUMENTS.items()}
"""Format of the source that each instrument is built from."""
PROPOSED = {name: entry.proposal_key for name, entry in INSTRUMENTS.items() if entry.proposal_key}
"""Instruments whose foils a model proposes, with the key of that model under `proposals`."""
ALIGNED = ("coco-captions", "vqa", "gqa")
"""Formats of sources whose texts can be set beside other images (`alignment`)."""
ASKED = ("vqa", "gqa")
"""Formats of sources whose questions can be answered (`answering`)."""
TASKS = ("e-snli", "e-snli-lines", "comve", "bbh", "bbh-examples")
"""Formats of sources whose items are text tasks with labels (`texts`)."""
PROBES, PROBES_KEY = "cv-probes", "cv_probes"
"""Name of the data set that CV-Probes are, and the study's key that asks for it."""
SCORING = ("evaluation", "attribution", "consistency")
"""Stages that run models on groups of data sets."""
FILTER_KEYS = frozenset(key for keys in FILTER_MODELS.values() for key in keys)


def study_file(config: Mapping[str, Any], given: Sequence[object], folder: Path) -> Path | None:
    """The study file to load beside what the command line gave.

    A study replaces the default and is never merged with it: where `--configfile` gave files, nothing
    else is loaded.

    Args:
        config: What `--config` and `--configfile` gave.
        given: The files named with `--configfile`.
        folder: Where the studies lie.
    Raises:
        UserError: `--config study=NAME` names no study; the message names the nearest.
    """
    if given:
        return None
    name = str(config.get("study", DEFAULT))
    studies = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in studies:
        raise UserError(f"study {name!r} is not in {folder}/{_nearest(name, studies)}; there are {', '.join(studies)}")
    return folder / f"{name}.yaml"


def validate(config: Mapping[str, Any], schema_file: Path) -> None:
    """Check a study against the schema and its own cross-references.

    Raises:
        UserError: The first fault, with the path of its key and, for a misspelt one, its nearest neighbour.
    """
    schema = yaml.safe_load(schema_file.read_text(encoding="utf-8"))
    fault = best_match(Draft202012Validator(schema).iter_errors(config))
    if fault is not None:
        raise UserError(f"study file: {_explain(fault)}")
    known = {**datasets(config), **instruments(config)}
    posed = {**config.get("alignment", {}), **config.get("answering", {}), **config.get("texts", {})}
    scorable = {**known, **posed, **({PROBES: {}} if "cv_probes" in config else {})}
    models, groups, consistency = config.get("models", {}), config.get("groups", {}), config.get("consistency", {})
    edits = consistency.get("cc_shap", {}).get("edits")
    named = (
        *((f"groups.{group}", names, scorable) for group, names in groups.items()),
        *(
            (f"{stage}.{key}", config.get(stage, {}).get(key, []), there)
            for stage in ("evaluation", "attribution", "consistency")
            for key, there in (("models", models), ("groups", groups))
        ),
        (
            "evaluation.only",
            config.get("evaluation", {}).get("only", {}),
            config.get("evaluation", {}).get("models", []),
        ),
        *(
            (f"evaluation.only.{name}", names, config["evaluation"]["groups"])
            for name, names in config.get("evaluation", {}).get("only", {}).items()
        ),
        ("consistency.cc_shap.edits", edits if isinstance(edits, list) else [], consistency.get("models", [])),
        ("consistency.helper", [name for name in [consistency.get("helper")] if name], models),
        ("left_out", config.get("left_out", {}), models),
        ("reporting.pronouns", config["reporting"].get("pronouns", []), known),
        ("benchmark.annotations", config.get("benchmark", {}).get("annotations", {}), instruments(config)),
        *((f"filters.{key}", [name], models) for key, name in config.get("filters", {}).items() if key in FILTER_KEYS),
        *(
            (f"proposals.{key}", [config["proposals"][key]], models)
            for key in PROPOSED.values()
            if "proposals" in config
        ),
    )
    for place, names, there in named:
        for name in names:
            if name not in there:
                have = f"there are {', '.join(sorted(there))}" if there else "there are none"
                raise UserError(f"study file: {place}: nothing is called {name!r}{_nearest(name, there)}; {have}")
    drawn = [f"sources.{source}.{name}" for (source, name), file in files(config).items() if "drawn" in file]
    drawn += ["cv_probes.descriptions"] if "descriptions" in config.get("cv_probes", {}) else []
    if drawn and "scenes" not in config:
        raise UserError(f"study file: scenes is missing: {drawn[0]} is drawn, which needs scenes.count and scenes.seed")
    if known and "benchmark" not in config:
        raise UserError("study file: benchmark is missing: data sets need benchmark.valid_votes")
    owners(config)
    _check_instruments(config)
    _check_groups(config)
    if "cv_probes" in config:
        _check_probes(config)


def datasets(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Every data set of finished items, with the entry of its file and its source's facts.

    Raises:
        UserError: Two sources build a data set of one name.
    """
    found: dict[str, dict[str, Any]] = {}
    for source, entry in config["sources"].items():
        if entry["format"] not in ITEM_FORMATS:
            continue
        for name, file in entry["files"].items():
            if name in found:
                raise UserError(
                    f"study file: sources.{source}.files: {name!r} is built by {found[name]['source']} as well;"
                    " rename one of them"
                )
            found[name] = {"source": source, "format": entry["format"], **file}
    return found


def instruments(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Every instrument that the study builds, with its entry."""
    return dict(config.get("instruments", {}))


def grouped(config: Mapping[str, Any], stage: str) -> dict[str, list[str]]:
    """The data sets of each group that a stage (evaluation, attribution, consistency) names."""
    return {group: list(config["groups"][group]) for group in config.get(stage, {}).get("groups", [])}


def needed_models(config: Mapping[str, Any], instrument: str) -> dict[str, str]:
    """Names of the models that the filters of an instrument ask, by their keys under `filters`."""
    keys = {key for name in config["instruments"][instrument]["filters"] for key in FILTER_MODELS[name]}
    return {key: config["filters"][key] for key in sorted(keys)}


def _check_instruments(config: Mapping[str, Any]) -> None:
    """Refuse instruments whose source, models or name do not fit the rest of the study."""
    taken = datasets(config)
    for name, entry in instruments(config).items():
        place = f"study file: instruments.{name}"
        _check_source(config, place, entry["source"], RAW_MATERIAL[name])
        if name in taken and taken[name]["format"] != "valse-release":
            raise UserError(f"{place}: sources.{taken[name]['source']} holds a data set of that name; leave one out")
        if (name in PROPOSED or "most_tokens" in entry) and "proposals" not in config:
            raise UserError(f"study file: proposals is missing: instruments.{name} needs its models")
        if entry["filters"] and "filters" not in config:
            raise UserError(f"study file: filters is missing: instruments.{name}.filters needs its models")
    if "audit" in config.get("benchmark", {}) and "filters" not in config:
        raise UserError("study file: filters is missing: benchmark.audit asks its models")
    if config.get("benchmark", {}).get("oracle") and "scenes" not in config:
        raise UserError("study file: benchmark.oracle: only drawn scenes have an oracle, and scenes is missing")


def _check_groups(config: Mapping[str, Any]) -> None:
    """Refuse a data set in two groups, and alignment data whose source or name does not fit the rest of the study."""
    first: dict[str, str] = {}
    for group, names in config.get("groups", {}).items():
        for name in names:
            if name in first:
                raise UserError(f"study file: groups.{group}: {name!r} stands in groups.{first[name]} as well")
            first[name] = group
    taken = {*datasets(config), *instruments(config), PROBES}
    for key, formats in (("alignment", ALIGNED), ("answering", ASKED), ("texts", TASKS)):
        for name, entry in config.get(key, {}).items():
            place = f"study file: {key}.{name}"
            _check_source(config, place, entry["source"], *formats)
            if name in taken:
                raise UserError(f"{place}: another data set is called so; rename it")
            taken.add(name)
    if "attribution" in config and "evaluation" not in config:
        raise UserError("study file: evaluation is missing: attribution takes its items from those that are scored")


def _check_source(config: Mapping[str, Any], place: str, source: str, *wanted: str) -> None:
    """Refuse a source that does not exist or has another format than what is built from it needs."""
    if source not in config["sources"]:
        near = _nearest(source, config["sources"])
        raise UserError(f"{place}.source: no source is called {source!r}{near}")
    given = config["sources"][source]["format"]
    if given not in wanted:
        raise UserError(f"{place}.source: {source} is in format {given}, this is made from {' or '.join(wanted)}")


def _check_probes(config: Mapping[str, Any]) -> None:
    """Refuse CV-Probes whose source, captions, models or name do not fit the rest of the study."""
    place, entry, taken = "study file: cv_probes", config["cv_probes"], datasets(config)
    _check_source(config, place, entry["source"], "imsitu")
    if PROBES in taken:
        raise UserError(f"{place}: sources.{taken[PROBES]['source']} holds a data set called {PROBES}; rename it")
    if "descriptions" in entry and "written" in entry:
        raise UserError(f"{place}: written and descriptions both give plain captions; leave one out")
    if "checks" in entry and "written" not in entry:
        raise UserError(f"{place}.checks: what people checked are the captions of cv_probes.written, which is missing")
    if "filters" not in config:
        raise UserError("study file: filters is missing: cv_probes chooses the most grammatical captions")
    name = entry.get("repair")
    if name is not None and name not in config.get("models", {}):
        near = _nearest(name, config.get("models", {}))
        raise UserError(f"{place}.repair: no model is called {name!r}{near}; name it under models")


def raw_sources(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The sources that are no finished items, by name."""
    return {name: entry for name, entry in config["sources"].items() if entry["format"] not in ITEM_FORMATS}


def keys(schema: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each key that a schema declares, as `a.b.c` (`*` for names that users choose), with its own schema."""
    for name, child in schema.get("properties", {}).items():
        yield f"{prefix}{name}", child
        yield from keys(child, f"{prefix}{name}.")
    chosen = schema.get("additionalProperties")
    if isinstance(chosen, Mapping):
        yield from keys(chosen, f"{prefix}*.")


def _explain(fault: ValidationError) -> str:
    place = ".".join(str(part) for part in fault.absolute_path) or "top level"
    if fault.validator == "additionalProperties":
        schema: Mapping[str, Any] = fault.schema if isinstance(fault.schema, Mapping) else {}
        known = list(schema.get("properties", {}))
        unknown = next(str(key) for key in cast(Mapping[str, Any], fault.instance) if key not in known)
        return f"{place}: unknown key {unknown!r}{_nearest(unknown, known)}; known keys: {', '.join(known)}"
    if fault.validator == "enum" and isinstance(fault.instance, str):
        allowed = [str(value) for value in cast(Sequence[object], fault.validator_value)]
        near = _nearest(fault.instance, allowed)
        return f"{place}: {fault.instance!r} is not one of {', '.join(allowed)}{near}"
    return f"{place}: {fault.message}"


def _nearest(name: str, known: Sequence[str] | set[str] | Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""
