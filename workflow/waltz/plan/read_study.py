"""Reading and checking of study files; an error names the key and the most similar known key."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from waltz.core.errors import (
    UserError,
    find_closest,
    shorten_value,
    suggest_or_list,
)
from waltz.core.files.bounded_yaml import read_yaml
from waltz.core.redaction import describe_value
from waltz.instruments import INSTRUMENTS
from waltz.plan.references import check_references
from waltz.plan.study import (
    FORMS,
    ITEM_FORMATS,
    Settings,
    Study,
)

VARIABLE_IN_MAPPING = re.compile(r"\{[^\n'\"}]*\$\{")
"""A variable within a mapping in braces, without quotation marks around it."""
StudyContent = Mapping[str, Any]
"""Content of a study file before it is checked, as YAML is read."""
DEFAULT = "scenes"
"""Name of the study that is run by default."""
YAML_KINDS: Mapping[type, str] = {
    bool: "a truth value, as which it reads on, off, yes and no",
    int: "a number",
    float: "a number",
    date: "a date",
    type(None): "no value, as which it reads null, ~ and nothing",
}
"""How YAML reads some texts that have no quotes around them."""


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
    name = str(name)
    if _is_path(name):
        raise UserError(
            f"--config: study {name!r} is a file, not a name; run: snakemake --cores 2 --configfile {name}"
        )
    file = _find_study(name, folder, "run: snakemake --cores 2 --config study={}")
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
        if _is_path(str(name)):
            raise UserError(
                f"extends: {name} is a file, not the name of a study in {folder}/; name one, or pass both files:"
                f" --configfile {name} MINE.yaml"
            )
        file = _find_study(str(name), folder, "set extends: {}")
        if file in files or file == last:
            raise UserError(
                f"{file}: extends: the study extends itself; name another one"
            )
        files.insert(0, file)
        name = load_yaml(file).get("extends")
    return files


def _is_path(name: str) -> bool:
    """Return whether the name of a study is the path of a file."""
    return "/" in name or Path(name).suffix in (".yaml", ".yml")


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
        advice = "correct it"
        # Braces of a variable are those of a mapping.
        is_open = "expected ',' or '}'" in fault
        if is_open and VARIABLE_IN_MAPPING.search(file.read_text(encoding="utf-8")):
            advice = "write a value with ${NAME} in quotation marks"
        raise UserError(f"{file}: is not YAML ({fault}); {advice}") from None
    if not isinstance(content, dict):
        raise UserError(
            f"{file}: holds no keys (got {type(content).__name__}); see config/valse.yaml"
        )
    return content


def _explain(error: ValidationError, config: StudyContent) -> str:
    """Return a one-line message about the most informative fault: an unknown key, or else the most
    deeply nested.
    """
    # Pydantic reports a fault for each branch of a union; the right branch usually leads deepest.
    # Of several faults at one depth, a missing key can be told when the others are corrected.
    fault = max(
        error.errors(),
        key=lambda fault: (
            fault["type"] == "extra_forbidden",
            len(fault["loc"]),
            fault["type"] != "missing",
        ),
    )
    path, section = _locate(fault, config)
    value = describe_value(fault["input"])
    if fault["type"] == "extra_forbidden":
        *parents, unknown = path
        closest = suggest_or_list(str(unknown), list(section.model_fields))
        return f"{_join_path(parents)}: unknown key {unknown!r}{closest}"
    key = _join_path(path)
    if fault["type"] == "missing":
        return f"{key}: required key {fault['loc'][-1]!r} is missing; add it"
    # A choice among names: suggest the name that was meant.
    if fault["type"] == "literal_error":
        allowed = re.findall(
            r"'([^']*)'", str(fault.get("ctx", {}).get("expected", ""))
        )
        return f"{key}: unknown value {value}{suggest_or_list(str(fault['input']), allowed)}"
    # The validators of `plan.study` have complete messages.
    if fault["type"] == "value_error":
        return f"{key}: {fault['msg'].removeprefix('Value error, ')}"
    value = shorten_value(value)
    kind = YAML_KINDS.get(type(fault["input"]))
    if fault["type"] == "string_type" and kind is not None:
        key_or_mapping = _join_path(_drop_key(path, fault))
        return (
            f"{key_or_mapping}: wrong value (got {value}, expected a text): YAML takes this for {kind};"
            " put quotes around it"
        )
    return f"{key}: wrong value (got {value}, expected {_describe_expected(fault['msg'])}); correct it"


def _drop_key(path: Sequence[str | int], fault: ErrorDetails) -> Sequence[str | int]:
    """Return the path of a fault; if the fault is a key itself, the path of its mapping."""
    return path[:-1] if fault["loc"][-1] == "[key]" else path


def _join_path(path: Sequence[str | int]) -> str:
    """Return the path of a key in the study, with dots between its parts."""
    return ".".join(map(str, path)) or "top level"


def _describe_expected(message: str) -> str:
    """Return the expected value in pydantic's message, such as "a valid list" of "Input should be a
    valid list".
    """
    expected = re.sub(r"^\w+ should (be )?", "", message)
    for pattern, form in FORMS.items():
        expected = expected.replace(f"match pattern '{pattern}'", form)
    expected = expected.replace("match pattern", "a text of the form")
    expected = re.sub(r"have (at most|at least)", r"\1", expected)
    return expected.replace(" after validation", "")


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
