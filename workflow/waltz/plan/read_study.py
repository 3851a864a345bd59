"""Reading and checking of study files; a fault names its key and the nearest known key."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from waltz.core.errors import UserError, find_closest, suggest_name
from waltz.instruments import INSTRUMENTS
from waltz.plan.raw_files import find_owners, list_files
from waltz.plan.study import (
    ALIGNMENT_FORMATS,
    CV_PROBES,
    ITEM_FORMATS,
    QUESTION_FORMATS,
    RECORDED_FORMATS,
    TASK_FORMATS,
    Study,
)

DEFAULT = "scenes"
LONGEST_SHOWN = 80
"""Most characters of a wrong value in a message."""
SCHEMA_HEADER = """\
# Generated from waltz.plan.study by `python -m waltz.plan.write_schema`; edit that module.
"""


def find_study_files(config: Mapping[str, Any], configfiles: Sequence[object], folder: Path) -> list[Path]:
    """Return the study files to load over each other: the named or default study, after those that it extends.

    Args:
        config: Values of `--config` and `--configfile`.
        configfiles: The files named with `--configfile`; of their study, only those that it extends are returned.
        folder: Folder of the studies.
    Raises:
        UserError: A name is that of no study, a study extends itself, or one that extends another has no name.
    """
    if configfiles and "extends" in config and "study" not in config:
        raise UserError(f"study is missing: a study that extends {config['extends']} needs a name of its own")
    if not configfiles and config.get("study", DEFAULT) in (None, ""):
        raise UserError(f"--config: study has no name; run: snakemake --cores 2 --config study={DEFAULT}")
    name = config.get("extends") if configfiles else config.get("study", DEFAULT)
    files: list[Path] = []
    while name is not None:
        is_base = bool(files) or bool(configfiles)
        advice = "set extends: {}" if is_base else "run: snakemake --cores 2 --config study={}"
        file = _find_study(str(name), folder, advice)
        if file in files:
            raise UserError(f"{file}: extends: the study extends itself; name another one")
        files.insert(0, file)
        name = load_yaml(file).get("extends")
    return files


def _find_study(name: str, folder: Path, advice: str) -> Path:
    """Return the file of a study; `advice` is what to do with the name that was meant."""
    studies = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in studies:
        closest = find_closest(name, studies)
        advice = advice.format(closest) if closest else f"there are {', '.join(studies)}"
        raise UserError(f"study {name!r} is not in {folder}/{suggest_name(name, studies)}; {advice}")
    return folder / f"{name}.yaml"


def read_study(config: Mapping[str, Any]) -> Study:
    """Return the content of a study file as a checked study.

    Raises:
        UserError: The first fault, with the path of its key and, for a misspelt one, its nearest neighbour.
    """
    try:
        study = Study.model_validate(dict(config), context={"extends": "extends" in config})
    except ValidationError as error:
        raise UserError(f"study file: {_explain(error, config)}") from None
    check_references(study)
    return study


def read_study_files(files: Sequence[Path], folder: Path) -> Study:
    """Return the checked study of files that are loaded over each other, and over the studies that they extend.

    Args:
        folder: Folder of the studies.
    Raises:
        UserError: The files are no study.
    """
    given: dict[str, Any] = {}
    for file in files:
        _update(given, load_yaml(file))
    return read_study(merge_study(given, folder))


def merge_study(study: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a study merged over those that it extends.

    Args:
        folder: Folder of the studies.
    Raises:
        UserError: A study that it extends does not exist.
    """
    return merge_study_files(find_study_files(study, [study], folder), study)


def merge_study_files(files: Iterable[Path], study: Mapping[str, Any]) -> dict[str, Any]:
    """Return the studies of some files merged over each other, and a study over them."""
    config: dict[str, Any] = {}
    for file in files:
        _update(config, load_yaml(file))
    _update(config, study)
    return config


def _update(config: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Change values as Snakemake does when it loads a second study: maps are merged, lists are replaced."""
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(config.get(key), dict):
            _update(config[key], value)
        else:
            config[key] = value


class _StrictLoader(yaml.SafeLoader):
    """Loader of plain values that refuses a key that stands twice in a mapping; YAML takes the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping whose keys are distinct."""
        lines: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode):
                if key.value in lines:
                    raise yaml.YAMLError(f"key {key.value!r} stands twice, in lines {lines[key.value]} and {line}")
                lines[key.value] = line
        return super().construct_mapping(node, deep)


def load_yaml(file: Path) -> dict[str, Any]:
    """Return the keys of a YAML file.

    Raises:
        UserError: The file is missing, or holds no YAML, no keys, or a key twice.
    """
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), _StrictLoader)
        json.dumps(content, skipkeys=True, default=str)  # which refuses values that contain themselves
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}; check the path") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None
    except yaml.YAMLError as error:
        fault = " ".join(str(error).split())
        raise UserError(f"{file}: is no YAML ({fault}); correct it") from None
    except (RecursionError, ValueError):
        raise UserError(f"{file}: values are nested too deeply, or in themselves; correct it") from None
    if not isinstance(content, dict):
        raise UserError(f"{file}: holds no keys (got {type(content).__name__}); see config/valse.yaml")
    return content


def build_schema() -> str:
    """Return the JSON schema of study files as YAML, for editors and readers."""
    schema = _simplify(Study.model_json_schema())
    return SCHEMA_HEADER + yaml.safe_dump(schema, sort_keys=False, width=120, allow_unicode=True)


def list_datasets(study: Study) -> dict[str, str]:
    """Return the source of each data set of finished items.

    Raises:
        UserError: Two sources build a data set of one name.
    """
    sources: dict[str, str] = {}
    for source, entry in study.sources.items():
        for name in entry.files if entry.format in ITEM_FORMATS else ():
            if name in sources:
                raise UserError(
                    f"study file: sources.{source}.files: {name!r} is built by {sources[name]} as well;"
                    " rename one of them"
                )
            sources[name] = source
    return sources


def list_recorded_datasets(study: Study) -> dict[str, str]:
    """Return a source of each data set of recorded runs; several sources may have runs on one data set."""
    return {
        name: source
        for source, entry in study.sources.items()
        for name in entry.files
        if entry.format in RECORDED_FORMATS
    }


def check_references(study: Study) -> None:
    """Refuse a study in which a key names something that does not exist, or two keys contradict each other.

    Raises:
        UserError: The first fault.
    """
    datasets = {*list_datasets(study), *study.instruments}
    _check_names(study, datasets)
    drawn_keys = [f"sources.{source}.{name}" for (source, name), file in list_files(study).items() if file.drawn]
    drawn_keys += ["cv_probes.descriptions"] if study.cv_probes and study.cv_probes.descriptions else []
    if drawn_keys and study.scenes is None:
        raise UserError(
            f"study file: scenes is missing: {drawn_keys[0]} is drawn, which needs scenes.count and scenes.seed"
        )
    if datasets and "benchmark" not in study.model_fields_set:
        raise UserError("study file: benchmark is missing: data sets need benchmark.valid_votes")
    find_owners(study)
    for name, entry in study.models.items():
        if entry.recorded is not None:
            _check_source(study, f"study file: models.{name}", entry.recorded, *RECORDED_FORMATS, key="recorded")
    _check_instruments(study)
    _check_groups(study)
    if study.cv_probes:
        _check_probes(study)


def _check_names(study: Study, datasets: Collection[str]) -> None:
    """Refuse a name that does not exist."""
    known = {*study.alignment, *study.answering, *study.texts, *list_recorded_datasets(study)}
    groupable = {*datasets, *known, *([CV_PROBES] if study.cv_probes else [])}
    models, consistency, only = study.models, study.consistency, study.evaluation.only
    cc_shap = consistency.cc_shap
    edited = cc_shap.edits if cc_shap and isinstance(cc_shap.edits, list) else []
    references: list[tuple[str, Collection[str], Collection[str]]] = [
        *((f"groups.{group}", names, groupable) for group, names in study.groups.items()),
        *(
            (f"{stage}.{key}", getattr(getattr(study, stage), key), options)
            for stage in ("evaluation", "attribution", "consistency")
            for key, options in (("models", models), ("groups", study.groups))
        ),
        ("measures.models", study.measures.models, models),
        ("measures.datasets", study.measures.datasets, {*datasets, *study.alignment}),
        (
            "measures.plausibility.language_model",
            [study.measures.plausibility.language_model] if study.measures.plausibility else [],
            study.evaluation.models,
        ),
        ("evaluation.only", only, models),
        *((f"evaluation.only.{name}", groups, study.evaluation.groups) for name, groups in only.items()),
        ("consistency.cc_shap.edits", edited, consistency.models),
        ("consistency.repeated", consistency.repeated or [], groupable),
        ("consistency.helper", [consistency.helper] if consistency.helper else [], models),
        ("skipped", study.skipped, models),
        ("reporting.pronouns", study.reporting.pronouns, datasets),
        ("benchmark.annotations", study.benchmark.annotations, study.instruments),
        *((f"filters.{key}", [name], models) for key, name in (study.filters.models if study.filters else {}).items()),
        *(
            (f"proposals.{key}", [getattr(study.proposals, key)], models)
            for key in ("spans", "verbs")
            if study.proposals
        ),
    ]
    for place, names, options in references:
        for name in names:
            if name not in options:
                have = f"there are {', '.join(sorted(options))}" if options else "there are none"
                raise UserError(f"study file: {place}: nothing is called {name!r}{suggest_name(name, options)}; {have}")


def _check_instruments(study: Study) -> None:
    """Refuse instruments whose source, models or name do not fit the rest of the study."""
    datasets = list_datasets(study)
    for name, entry in study.instruments.items():
        place = f"study file: instruments.{name}"
        formats = (INSTRUMENTS[name].source_format, INSTRUMENTS[name].other_format)
        _check_source(study, place, entry.source, *filter(None, formats))
        if name in datasets and study.sources[datasets[name]].format != "valse-release":
            raise UserError(f"{place}: sources.{datasets[name]} holds a data set of that name; leave one out")
        if (INSTRUMENTS[name].proposal_key or entry.most_tokens) and study.proposals is None:
            raise UserError(f"study file: proposals is missing: instruments.{name} needs its models")
        if entry.filters and study.filters is None:
            raise UserError(f"study file: filters is missing: instruments.{name}.filters needs its models")
    if study.benchmark.audit is not None and study.filters is None:
        raise UserError("study file: filters is missing: benchmark.audit asks its models")
    if study.benchmark.oracle and study.scenes is None:
        raise UserError("study file: benchmark.oracle: only drawn scenes have an oracle, and scenes is missing")


def _check_groups(study: Study) -> None:
    """Refuse a data set in two groups, and one whose source or name does not fit the rest of the study."""
    group_of: dict[str, str] = {}
    for group, names in study.groups.items():
        for name in names:
            if name in group_of:
                raise UserError(f"study file: groups.{group}: {name!r} stands in groups.{group_of[name]} as well")
            group_of[name] = group
    used_names = {*list_datasets(study), *study.instruments, CV_PROBES}
    formats = {
        **{("alignment", name): ALIGNMENT_FORMATS[entry.choice] for name, entry in study.alignment.items()},
        **{("answering", name): QUESTION_FORMATS for name in study.answering},
        **{("texts", name): TASK_FORMATS for name in study.texts},
    }
    for (key, name), entry_formats in formats.items():
        place = f"study file: {key}.{name}"
        _check_source(study, place, getattr(study, key)[name].source, *entry_formats)
        if name in used_names:
            raise UserError(f"{place}: another data set is called so; rename it")
        used_names.add(name)
    if "attribution" in study.model_fields_set and "evaluation" not in study.model_fields_set:
        raise UserError("study file: evaluation is missing: attribution takes its items from those that are scored")


def _check_source(study: Study, place: str, source: str, *formats: str, key: str = "source") -> None:
    """Refuse a source that does not exist or has a format other than the expected ones."""
    if source not in study.sources:
        raise UserError(f"{place}.{key}: no source is called {source!r}{suggest_name(source, study.sources)}")
    form = study.sources[source].format
    if form not in formats:
        raise UserError(f"{place}.{key}: {source} is in format {form}, this is made from {' or '.join(formats)}")


def _check_probes(study: Study) -> None:
    """Refuse CV-Probes whose source, captions, models or name do not fit the rest of the study."""
    entry, datasets, place = study.cv_probes, list_datasets(study), "study file: cv_probes"
    assert entry is not None
    _check_source(study, place, entry.source, "imsitu")
    if CV_PROBES in datasets:
        raise UserError(f"{place}: sources.{datasets[CV_PROBES]} holds a data set called {CV_PROBES}; rename it")
    if entry.descriptions and entry.written:
        raise UserError(f"{place}: written and descriptions both give plain captions; leave one out")
    if entry.checks and not entry.written:
        raise UserError(f"{place}.checks: what people checked are the captions of cv_probes.written, which is missing")
    if study.filters is None:
        raise UserError("study file: filters is missing: cv_probes chooses the most grammatical captions")
    if entry.repair is not None and entry.repair not in study.models:
        near = suggest_name(entry.repair, study.models)
        raise UserError(f"{place}.repair: no model is called {entry.repair!r}{near}; name it under models")


def _explain(error: ValidationError, config: Mapping[str, Any]) -> str:
    """Return the most telling of pydantic's faults in one line."""
    fault = max(error.errors(), key=lambda each: (each["type"] == "extra_forbidden", len(each["loc"])))
    path, section = _locate(fault, config)
    place = ".".join(map(str, path)) or "top level"
    if fault["type"] == "extra_forbidden":
        *parents, unknown = path
        place, known_keys = ".".join(map(str, parents)) or "top level", list(section.model_fields)
        return (
            f"{place}: unknown key {unknown!r}{suggest_name(str(unknown), known_keys)};"
            f" known keys: {', '.join(known_keys)}"
        )
    if fault["type"] == "missing":
        return f"{place}: required key {str(fault['loc'][-1])!r} is missing"
    if fault["type"] == "literal_error":
        allowed = re.findall(r"'([^']*)'", str(fault.get("ctx", {}).get("expected", "")))
        near = suggest_name(str(fault["input"]), allowed)
        return f"{place}: {fault['input']!r} is not one of {', '.join(allowed)}{near}"
    if fault["type"] == "value_error":
        return f"{place}: {fault['msg'].removeprefix('Value error, ')}"
    expected = re.sub(r"^\w+ should (be )?", "", fault["msg"]).replace("match pattern", "a text of the form")
    expected = expected.replace("have at most", "at most")
    given = repr(fault["input"])
    if len(given) > LONGEST_SHOWN:
        given = f"{given[:LONGEST_SHOWN]}..."
    return f"{place}: wrong value (got {given}, expected {expected}); correct it"


def _locate(fault: ErrorDetails, config: Mapping[str, Any]) -> tuple[list[str | int], type[BaseModel]]:
    """Return the path of a fault in the study, without the names of a union's branches, and the section it is in."""
    path: list[str | int] = []
    value: Any = config
    section: type[BaseModel] = Study
    for part in fault["loc"]:
        inside = (isinstance(value, Mapping) and part in value) or (isinstance(value, list) and isinstance(part, int))
        if not inside:
            continue
        path.append(part)
        value = value[part]
        if isinstance(part, str) and part in section.model_fields:
            section = _section_of(section.model_fields[part].annotation) or section
    return path, section


def _section_of(annotation: Any) -> type[BaseModel] | None:
    """Return the section that a field holds, in a list, a map or alone."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((section for part in get_args(annotation) if (section := _section_of(part))), None)


def _simplify(schema: Any) -> Any:
    """Return a schema without titles, and without null where a study omits the key instead."""
    if isinstance(schema, list):
        return [_simplify(each) for each in schema]
    if not isinstance(schema, dict):
        return " ".join(schema.split()) if isinstance(schema, str) else schema
    simple = {key: _simplify(value) for key, value in schema.items() if key not in ("title", "nullable")}
    if "anyOf" in simple and simple.get("default", "") is None and not schema.get("nullable"):
        del simple["default"]
        options = [each for each in simple["anyOf"] if each != {"type": "null"}]
        if len(options) > 1:
            return {**simple, "anyOf": options}
        del simple["anyOf"]
        return {**options[0], **simple}
    return simple
