"""Reading and checking of study files; an error names the key and the most similar known key."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from waltz.core.errors import UserError, find_closest, suggest_name, suggest_or_list
from waltz.core.files.bounded_yaml import read_yaml
from waltz.core.redaction import describe_value
from waltz.instruments import INSTRUMENTS
from waltz.plan.datasets import list_datasets, list_recorded_datasets
from waltz.plan.raw_files import find_owners
from waltz.plan.study import (
    ALIGNMENT_FORMATS,
    CV_PROBES,
    ITEM_FORMATS,
    QUESTION_FORMATS,
    RECORDED_FORMATS,
    TASK_FORMATS,
    CvProbes,
    Settings,
    Study,
)

StudyContent = Mapping[str, Any]
"""Content of a study file before it is checked, as YAML is read."""
DEFAULT = "scenes"
"""Name of the study that is run by default."""
Reference = tuple[str, Iterable[str], Collection[str]]
"""Key of a study that names something, the names in it, and all names that exist."""
LONGEST_SHOWN = 80
"""Largest number of characters of a wrong value in a message."""
SCHEMA_HEADER = """\
# Generated from waltz.plan.study by `python -m waltz.plan.write_schema`; edit that module.
"""


def find_study_files(
    config: StudyContent, configfiles: Sequence[object], folder: Path
) -> list[Path]:
    """Return the study files to load over each other: first the extended studies, then the named or
    default study.

    Args:
        config: Values of `--config` and `--configfile`.
        configfiles: Files that `--configfile` names; Snakemake loads them itself, so that only the
            studies that they extend are returned.
        folder: Folder of the studies.
    Raises:
        UserError: A named study does not exist, a study extends itself, or a study that extends
            another has no name.
    """
    if configfiles:
        if "extends" in config and "study" not in config:
            raise UserError(
                f"study is missing: a study that extends {config['extends']} needs a name; set study"
            )
        return _find_bases(config.get("extends"), folder)
    # Without a file, the study is chosen by name.
    name = config.get("study", DEFAULT)
    if name in (None, ""):
        raise UserError(
            f"--config: study has no name; run: snakemake --cores 2 --config study={DEFAULT}"
        )
    file = _find_study(str(name), folder, "run: snakemake --cores 2 --config study={}")
    return [*_find_bases(load_yaml(file).get("extends"), folder, last=file), file]


def _find_bases(name: object, folder: Path, last: Path | None = None) -> list[Path]:
    """Return the file of an extended study, after the files of the studies that it extends in turn.

    Args:
        name: Name of the extended study; None for no file.
        folder: Folder of the studies.
        last: File of the study that extends it, which must not be extended again.
    """
    files: list[Path] = []
    while name is not None:
        file = _find_study(str(name), folder, "set extends: {}")
        if file in files or file == last:
            raise UserError(
                f"{file}: extends: the study extends itself; name another one"
            )
        files.insert(0, file)
        name = load_yaml(file).get("extends")
    return files


def list_studies(folder: Path) -> list[str]:
    """Return the names of the studies in a folder, sorted."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def _find_study(name: str, folder: Path, advice: str) -> Path:
    """Return the file of a study.

    Args:
        name: Name of the study.
        folder: Folder of the studies.
        advice: Instruction for the error, with `{}` for the name that was probably meant.
    Raises:
        UserError: The folder has no such study.
    """
    studies = list_studies(folder)
    if name in studies:
        return folder / f"{name}.yaml"
    message = f"study {name!r} is not in {folder}/{suggest_or_list(name, studies)}"
    closest = find_closest(name, studies)
    if closest:
        message += f"; {advice.format(closest)}"
    raise UserError(message)


def read_study(config: StudyContent) -> Study:
    """Return the content of a study file as a checked study.

    Raises:
        UserError: The content is not a valid study; the error has the path of the key and, for a
            misspelled key, the most similar known key.
    """
    try:
        # In a study that extends another one, null removes a key: see
        # `Section.drop_or_refuse_null`.
        study = Study.model_validate(
            dict(config), context={"extends": "extends" in config}
        )
    except ValidationError as error:
        if missing := find_missing_keys(error, config):
            raise _build_missing_error(missing) from None
        raise UserError(f"study file: {_explain(error, config)}") from None
    # The file is a valid study, but sections may need each other.
    if missing := find_missing_sections(config):
        raise _build_missing_error(missing)
    check_references(study)
    return study


def find_missing_keys(error: ValidationError, config: StudyContent) -> dict[str, str]:
    """Return all keys that a study lacks, including keys of absent sections, each with a reason or
    an empty text.

    The result is empty if there is any other fault: a misspelled key, for example, is missing as
    well, but needs another message.
    """
    missing: dict[str, str] = {}
    for fault in error.errors():
        if fault["type"] != "missing":
            return {}
        path, section = _locate(fault, config)
        key = str(fault["loc"][-1])
        field = section.model_fields.get(key)
        full_key = ".".join(map(str, [*path, key]))
        for required_key in _list_required_keys(
            full_key, field.annotation if field else None
        ):
            missing[required_key] = ""
    return {**missing, **find_missing_sections(config)}


def _list_required_keys(path: str, annotation: Any) -> list[str]:
    """Return the full keys that are required: the required keys inside a section, or else the key
    itself.
    """
    if not _is_section(annotation):
        return [path]
    keys: list[str] = []
    for name, field in annotation.model_fields.items():
        if field.is_required():
            keys += _list_required_keys(f"{path}.{name}", field.annotation)
    return keys or [path]


def _is_section(annotation: Any) -> bool:
    """Return whether the annotation of a key is a section, which has keys itself."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def find_missing_sections(config: StudyContent) -> dict[str, str]:
    """Return the sections that a study file lacks although other sections need them, each with the
    reason.

    The content need not be a valid study, so that a message can list these sections together with
    missing keys.
    """
    needs = [
        *_list_world_needs(config),
        *_list_benchmark_needs(config),
        *_list_instrument_needs(config),
    ]
    if "attribution" in config:
        needs.append(
            ("evaluation", "attribution takes its items from those that are scored")
        )
    # A section that several others need is named once, with the first reason.
    missing: dict[str, str] = {}
    for section, reason in needs:
        if config.get(section) is None:
            missing.setdefault(section, reason)  # the first reason is enough
    return missing


def _list_world_needs(config: StudyContent) -> Iterator[tuple[str, str]]:
    """Yield the section `scenes` with a reason for each use of the embedded world in a study."""
    # Files, images and plain captions may be drawn with the scenes.
    drawn_sections = [
        f"sources.{name}"
        for name, source in _get_map(config, "sources").items()
        if _holds_key(source, "drawn")
    ]
    if "descriptions" in _get_map(config, "cv_probes"):
        drawn_sections.append("cv_probes.descriptions")
    if drawn_sections:
        reason = (
            f"{drawn_sections[0]} is drawn, which needs scenes.count and scenes.seed"
        )
        yield "scenes", reason
    if _get_map(config, "benchmark").get("oracle"):
        yield "scenes", "benchmark.oracle knows drawn scenes alone"


def _list_benchmark_needs(config: StudyContent) -> Iterator[tuple[str, str]]:
    """Yield the sections `benchmark` and `filters`, each with a reason why data sets, CV-Probes or
    the self-consistency tests need it.
    """
    sources = _get_map(config, "sources")
    has_items = any(
        _get_map(sources, name).get("format") in ITEM_FORMATS for name in sources
    )
    if _get_map(config, "instruments") or has_items:
        yield "benchmark", "data sets need benchmark.valid_votes"
    if _get_map(config, "cv_probes"):
        yield "filters", "cv_probes chooses the most grammatical captions"
    if _get_map(config, "benchmark").get("audit") is not None:
        yield "filters", "benchmark.audit asks its models"
    if _get_map(config, "consistency").get("meaning") == "nli":
        yield "filters", "consistency.meaning asks filters.nli"


def _list_instrument_needs(config: StudyContent) -> Iterator[tuple[str, str]]:
    """Yield the sections `proposals` and `filters`, each with a reason why an instrument needs its
    models.
    """
    instruments = _get_map(config, "instruments")
    for name in instruments:
        entry = _get_map(instruments, name)
        has_proposals = name in INSTRUMENTS and bool(INSTRUMENTS[name].proposal_key)
        if has_proposals or entry.get("most_tokens"):
            yield "proposals", f"instruments.{name} needs its models"
        if entry.get("filters"):
            yield "filters", f"instruments.{name}.filters needs its models"


def _get_map(config: StudyContent, key: str) -> StudyContent:
    """Return the mapping under a key; an empty mapping if the key is absent or has another value."""
    value = config.get(key)
    return value if isinstance(value, Mapping) else {}


def _holds_key(value: Any, key: str) -> bool:
    """Return whether a key occurs at any level of nested mappings and lists."""
    if isinstance(value, Mapping):
        return key in value or any(_holds_key(part, key) for part in value.values())
    return isinstance(value, list) and any(_holds_key(part, key) for part in value)


def _build_missing_error(missing: Mapping[str, str]) -> UserError:
    """Return the error about the keys that a study lacks.

    Args:
        missing: Reason for each key; empty for a key that every study needs.
    """
    if len(missing) == 1:
        ((key, reason),) = missing.items()
        return UserError(
            f"study file: {key} is missing: {reason or 'the study needs it'}; see config/valse.yaml"
        )
    keys = ", ".join(
        f"{key} ({reason})" if reason else key for key, reason in missing.items()
    )
    return UserError(
        f"study file: {len(missing)} keys are missing: {keys}; see config/valse.yaml"
    )


def read_study_files(files: Sequence[Path], folder: Path) -> Study:
    """Return the checked study of files that are merged over each other, and over the studies that
    they extend.

    Args:
        files: The files; values of later files replace those of earlier ones.
        folder: Folder of the studies.
    Raises:
        UserError: A file cannot be read, or the merged content is not a valid study.
    """
    content: Settings = {}
    for file in files:
        _update(content, load_yaml(file))
    return read_study(merge_study(content, folder))


def merge_study(study: StudyContent, folder: Path) -> Settings:
    """Return a study merged over the studies that it extends.

    Args:
        study: Content of the study.
        folder: Folder of the studies.
    Raises:
        UserError: An extended study does not exist.
    """
    return merge_study_files(find_study_files(study, [study], folder), study)


def merge_study_files(files: Iterable[Path], study: StudyContent) -> Settings:
    """Return the content of some files merged over each other, and the content `study` merged over
    them.
    """
    config: Settings = {}
    for file in files:
        _update(config, load_yaml(file))
    _update(config, study)
    return config


def _update(config: Settings, changes: StudyContent) -> None:
    """Merge changes into a configuration in place as Snakemake does: merge mappings, and replace
    lists and values.
    """
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(config.get(key), dict):
            _update(config[key], value)
        else:
            config[key] = value


def load_yaml(file: Path) -> Settings:
    """Return the content of a YAML file of keys.

    Raises:
        UserError: The file is missing, is not YAML or no mapping, contains a key twice, or exceeds
            a limit of `read_yaml`.
    """
    # Each kind of fault has a message that names the file and the remedy.
    try:
        content = read_yaml(file)
    except OSError as error:
        raise UserError(
            f"{file}: cannot be read: {error.strerror}; check the path"
        ) from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{file}: not UTF-8 at byte {error.start}; save the file as UTF-8"
        ) from None
    except yaml.YAMLError as error:
        fault = " ".join(str(error).split())
        raise UserError(f"{file}: is not YAML ({fault}); correct it") from None
    if not isinstance(content, dict):
        raise UserError(
            f"{file}: holds no keys (got {type(content).__name__}); see config/valse.yaml"
        )
    return content


def build_schema() -> str:
    """Return the JSON schema of study files as YAML, for editors and readers."""
    schema = _simplify(Study.model_json_schema())
    return SCHEMA_HEADER + yaml.safe_dump(
        schema, sort_keys=False, width=120, allow_unicode=True
    )


def check_references(study: Study) -> None:
    """Refuse a study in which a key names something that does not exist, or two keys contradict
    each other.

    Raises:
        UserError: The study has such a fault; the error is about the first one.
    """
    # Names are checked first, because the other checks look them up.
    datasets = {*list_datasets(study), *study.instruments}
    _check_names(study, datasets)
    find_owners(study)
    for name, entry in study.models.items():
        if entry.recorded is not None:
            _check_source(
                study,
                f"study file: models.{name}",
                entry.recorded,
                *RECORDED_FORMATS,
                key="recorded",
            )
    _check_instruments(study)
    _check_groups(study)
    if study.cv_probes:
        _check_probes(study, study.cv_probes)


def _check_names(study: Study, datasets: Collection[str]) -> None:
    """Refuse a study with a key that names something that does not exist.

    Args:
        study: The study.
        datasets: Data sets of finished items and instruments of the study.
    """
    for key, names, options in _list_references(study, datasets):
        for name in names:
            if name not in options:
                advice = suggest_or_list(name, sorted(options))
                raise UserError(
                    f"study file: {key}: nothing is called {name!r}{advice}"
                )


def _list_references(study: Study, datasets: Collection[str]) -> Iterator[Reference]:
    """Yield each key of a study that names something, with the names in it and all names that
    exist.
    """
    # Groups may contain every data set that models can be run on.
    groupable = {
        *datasets,
        *study.alignment,
        *study.answering,
        *study.texts,
        *list_recorded_datasets(study),
    }
    if study.cv_probes:
        groupable.add(CV_PROBES)
    for group, names in study.groups.items():
        yield f"groups.{group}", names, groupable
    # Stages that run models on groups.
    for stage in ("evaluation", "attribution", "consistency"):
        section = getattr(study, stage)
        yield f"{stage}.models", section.models, study.models
        yield f"{stage}.groups", section.groups, study.groups

    yield from _list_references_of_runs(study, groupable)
    yield from _list_references_of_items(study, datasets)


def _list_references_of_runs(
    study: Study, groupable: Collection[str]
) -> Iterator[Reference]:
    """Yield the keys that limit a stage to some models, groups or data sets, and the helper of the
    tests.
    """
    models, consistency, only = study.models, study.consistency, study.evaluation.only
    yield "evaluation.only", only, models
    for name, groups in only.items():
        yield f"evaluation.only.{name}", groups, study.evaluation.groups
    if consistency.cc_shap and isinstance(consistency.cc_shap.edits, list):
        yield "consistency.cc_shap.edits", consistency.cc_shap.edits, consistency.models
    if consistency.repeated:
        yield "consistency.repeated", consistency.repeated, groupable
    if consistency.helper is not None:
        yield "consistency.helper", [consistency.helper], models
    yield "skipped", study.skipped, models


def _list_references_of_items(
    study: Study, datasets: Collection[str]
) -> Iterator[Reference]:
    """Yield the keys of stage measures, of counts and annotations, and of the models that build and
    judge foils.
    """
    models = study.models
    # Stage measures names data sets and not groups.
    yield "measures.models", study.measures.models, models
    yield "measures.datasets", study.measures.datasets, {*datasets, *study.alignment}
    if study.measures.plausibility:
        language_model = study.measures.plausibility.language_model
        yield (
            "measures.plausibility.language_model",
            [language_model],
            study.evaluation.models,
        )

    yield "reporting.pronouns", study.reporting.pronouns, datasets
    yield "benchmark.annotations", study.benchmark.annotations, study.instruments
    if study.filters:
        for key, name in study.filters.models.items():
            yield f"filters.{key}", [name], models
    if study.proposals:
        yield "proposals.spans", [study.proposals.spans], models
        yield "proposals.verbs", [study.proposals.verbs], models


def _check_instruments(study: Study) -> None:
    """Refuse instruments whose source, models or name do not fit the rest of the study."""
    datasets = list_datasets(study)
    for name, entry in study.instruments.items():
        location = f"study file: instruments.{name}"
        # Some instruments can be built from two formats of sources.
        formats = [INSTRUMENTS[name].source_format]
        if INSTRUMENTS[name].other_format:
            formats.append(INSTRUMENTS[name].other_format)
        _check_source(study, location, entry.source, *formats)
        # An instrument may be rebuilt next to the released data set of the same name, but not next
        # to another data set.
        if name in datasets and study.sources[datasets[name]].format != "valse-release":
            raise UserError(
                f"{location}: sources.{datasets[name]} holds a data set of that name; leave one out"
            )


def _check_groups(study: Study) -> None:
    """Refuse a data set that is in two groups, has a source of an unfit format, or has the name of
    another data set.
    """
    group_of: dict[str, str] = {}
    for group, names in study.groups.items():
        for name in names:
            if name in group_of:
                raise UserError(
                    f"study file: groups.{group}: {name!r} stands in groups.{group_of[name]} as well; remove one"
                )
            group_of[name] = group

    # Data sets that are made from a source must have new names.
    used_names = {*list_datasets(study), *study.instruments, CV_PROBES}
    for key, source, formats in _list_made_datasets(study):
        _check_source(study, f"study file: {key}", source, *formats)
        name = key.partition(".")[2]
        if name in used_names:
            raise UserError(
                f"study file: {key}: another data set has this name; rename it"
            )
        used_names.add(name)


def _list_made_datasets(study: Study) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield for each data set that is made from a source: its key, the source, and the formats that
    fit.
    """
    for name, alignment in study.alignment.items():
        yield f"alignment.{name}", alignment.source, ALIGNMENT_FORMATS[alignment.choice]
    for name, questions in study.answering.items():
        yield f"answering.{name}", questions.source, QUESTION_FORMATS
    for name, task in study.texts.items():
        yield f"texts.{name}", task.source, TASK_FORMATS


def _check_source(
    study: Study, location: str, source: str, *formats: str, key: str = "source"
) -> None:
    """Refuse a source that does not exist or has a format that is not expected."""
    if source not in study.sources:
        raise UserError(
            f"{location}.{key}: no source is called {source!r}{suggest_name(source, study.sources)}"
        )
    form = study.sources[source].format
    if form not in formats:
        raise UserError(
            f"{location}.{key}: {source} is in format {form}, this is made from {' or '.join(formats)}; name another"
            " source"
        )


def _check_probes(study: Study, entry: CvProbes) -> None:
    """Refuse CV-Probes if their source, captions, models or name do not fit the rest of the study."""
    datasets, location = list_datasets(study), "study file: cv_probes"
    _check_source(study, location, entry.source, "imsitu")
    if CV_PROBES in datasets:
        raise UserError(
            f"{location}: sources.{datasets[CV_PROBES]} holds a data set called {CV_PROBES}; rename it"
        )
    # Plain captions come either from people or from the drawn scenes.
    if entry.descriptions and entry.written:
        raise UserError(
            f"{location}: written and descriptions both give plain captions; leave one out"
        )
    if entry.checks and not entry.written:
        raise UserError(
            f"{location}.checks: people checked the captions of cv_probes.written, which is missing; name that file, or"
            " leave checks out"
        )
    if entry.repair is not None and entry.repair not in study.models:
        closest = suggest_name(entry.repair, study.models)
        raise UserError(
            f"{location}.repair: no model is called {entry.repair!r}{closest}; name it under models"
        )


def _explain(error: ValidationError, config: StudyContent) -> str:
    """Return a one-line message about the most informative fault: an unknown key, or else the most
    deeply nested.
    """
    # Pydantic reports a fault for each branch of a union; the right branch usually leads deepest.
    fault = max(
        error.errors(),
        key=lambda fault: (fault["type"] == "extra_forbidden", len(fault["loc"])),
    )
    path, section = _locate(fault, config)
    value = describe_value(fault["input"])
    if fault["type"] == "extra_forbidden":
        *parents, unknown = path
        closest = suggest_or_list(str(unknown), list(section.model_fields))
        return f"{_join_path(parents)}: unknown key {unknown!r}{closest}"
    # A choice among names: suggest the name that was meant.
    key = _join_path(path)
    if fault["type"] == "literal_error":
        allowed = re.findall(
            r"'([^']*)'", str(fault.get("ctx", {}).get("expected", ""))
        )
        return f"{key}: unknown value {value}{suggest_or_list(str(fault['input']), allowed)}"
    # The validators of `plan.study` have complete messages.
    if fault["type"] == "value_error":
        return f"{key}: {fault['msg'].removeprefix('Value error, ')}"
    if len(value) > LONGEST_SHOWN:
        value = f"{value[:LONGEST_SHOWN]}..."
    return f"{key}: wrong value (got {value}, expected {_describe_expected(fault['msg'])}); correct it"


def _join_path(path: Sequence[str | int]) -> str:
    """Return the path of a key in the study, with dots between its parts."""
    return ".".join(map(str, path)) or "top level"


def _describe_expected(message: str) -> str:
    """Return the expected value in pydantic's message, such as "a valid list" of "Input should be a
    valid list".
    """
    expected = re.sub(r"^\w+ should (be )?", "", message)
    expected = expected.replace("match pattern", "a text of the form")
    return expected.replace("have at most", "at most")


def _locate(
    fault: ErrorDetails, config: StudyContent
) -> tuple[list[str | int], type[BaseModel]]:
    """Return the path of a fault in the study and the section that contains it.

    Pydantic's path also contains the names of the branches of unions, which the result omits.
    """
    path: list[str | int] = []
    value: Any = config
    section: type[BaseModel] = Study
    for part in fault["loc"]:
        if not _is_inside(part, value):
            continue  # the name of a branch
        path.append(part)
        value = value[part]
        if isinstance(part, str) and part in section.model_fields:
            section = _section_of(section.model_fields[part].annotation) or section
    return path, section


def _is_inside(part: str | int, value: Any) -> bool:
    """Return whether a part of pydantic's path is a key or index inside a value."""
    if isinstance(value, Mapping):
        return part in value
    return isinstance(value, list) and isinstance(part, int)


def _section_of(annotation: Any) -> type[BaseModel] | None:
    """Return the section in the annotation of a field, alone or inside a list, mapping or union;
    None without one.
    """
    if _is_section(annotation):
        section: type[BaseModel] = annotation
        return section
    for part in get_args(annotation):
        inner_section = _section_of(part)
        if inner_section:
            return inner_section
    return None


def _simplify(schema: Any) -> Any:
    """Return a JSON schema without titles, and without null for keys that a study omits instead."""
    if isinstance(schema, list):
        return [_simplify(part) for part in schema]
    if isinstance(schema, str):
        return " ".join(schema.split())
    if not isinstance(schema, dict):
        return schema
    # Titles repeat the names of keys.
    simple = {
        key: _simplify(value)
        for key, value in schema.items()
        if key not in ("title", "nullable")
    }
    is_optional = "anyOf" in simple and simple.get("default", "") is None
    if not is_optional or schema.get("nullable"):
        return simple

    # A study omits such a key instead of setting null, so readers need neither the default nor the
    # type null.
    del simple["default"]
    options = [option for option in simple["anyOf"] if option != {"type": "null"}]
    if len(options) > 1:
        return {**simple, "anyOf": options}
    del simple["anyOf"]
    return {**options[0], **simple}
