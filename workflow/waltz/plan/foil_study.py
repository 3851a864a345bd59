"""The study that `waltz eval` writes, which scores models on captions and foils."""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.instruments import INSTRUMENTS
from waltz.model_registry import ModelSpec, load_registry, load_scene_models
from waltz.plan.study import CV_PROBES, FORMS, NAME_PATTERN, Settings

SEED = 1520
"""Seed of the written studies; the studies of the papers have the same seed."""
ATTRIBUTED = 100
"""Largest number of attributed items of a data set, as for the decoders of the thesis."""
ESTIMATION = {"estimator": "auto", "evaluations": 1000, "standard_error": 0.02}
"""Estimation of T-SHAP in profile `equations`, as in the study `thesis`."""
ACCURACY_TABLES = ["thesis-3.4", "thesis-3.5"]
T_SHAP_TABLES = ["thesis-4.2", "thesis-4.3"]
DIGEST = re.compile(r"^# digest: (\w+)\n", re.MULTILINE)


def build_study(
    name: str,
    models: Mapping[str, ModelSpec],
    data: Settings,
    *,
    profile: str,
    limit: int | None = None,
    attribute: bool = False,
) -> Settings:
    """Return a study that scores models on the captions and foils of some data sets.

    Args:
        name: Name of the study.
        models: The models by their names in the study.
        data: Keys of the study about data, with one group, as `select_release`, `extend_built` and
            `describe_pairs` return them.
        profile: Fidelity profile.
        limit: Largest number of items of a data set; None for all items.
        attribute: Whether the study also computes T-SHAP of the scores.
    """
    # Scores of all models come first; attributions are added below.
    groups = list(data["groups"])
    study: Settings = {
        "study": name,
        "seed": SEED,
        "profiles": [profile],
        **data,
        "models": {key: _build_entry(key, spec) for key, spec in models.items()},
        "evaluation": {
            "models": list(models),
            "groups": groups,
            "items": "valid",
            "sample": limit,
            "tokens_per_batch": 2048,
            **data.get("evaluation", {}),
        },
        "reporting": {"tables": ACCURACY_TABLES, "resamples": 1000, "confidence": 0.95},
    }
    # T-SHAP needs a model that reads images.
    attributed = [key for key, spec in models.items() if spec.kind != "text"]
    if not (attribute and attributed):
        return study

    sample = min(limit or ATTRIBUTED, ATTRIBUTED)
    study["attribution"] = {
        "models": attributed,
        "groups": groups,
        "sample": sample,
        **ESTIMATION,
    }
    if "extends" in data:
        study["attribution"]["companions"] = (
            None  # companion measures of the extended study would take longest
        )
    study["reporting"] |= {"tables": [*ACCURACY_TABLES, *T_SHAP_TABLES], "samples": 1}
    return study


def select_release(study: Settings, images: str | None) -> Settings:
    """Return the keys of a study about the data of the released benchmark.

    Args:
        study: The study `valse`.
        images: Folder, zip or tar of the images; None for models that read only text.
    """
    sources: Settings = {}
    datasets: list[str] = []
    for name, entry in study["sources"].items():
        if entry["format"] != "valse-release":
            continue
        datasets += entry["files"]
        sources[name] = dict(entry)
        # The user's images replace the downloads that the study names.
        if images:
            sources[name]["images"] = {"path": images}
    return {
        "sources": sources,
        "benchmark": study["benchmark"],
        "groups": {"foils": datasets},
    }


def extend_built(study: Settings) -> Settings:
    """Return the keys of a study that extends another one with only its instruments: the embedded
    world, or a benchmark that was built from captions.

    Args:
        study: The study `scenes`, or one that `waltz build` wrote.
    """
    return {
        "extends": study["study"],
        "seed": study["seed"],  # which chose the items
        "groups": {"pairs": list(study["instruments"])},
        "benchmark": {"audit": None},
        "evaluation": {"decoder_sample": None},
        **dict.fromkeys(("cv_probes", "attribution", "consistency")),
    }


@dataclass(frozen=True, slots=True)
class PairFile:
    """Name a file of pairs, and where its images are.

    Attributes:
        path: The file.
        images: Folder, zip or tar of the images; None for models that read only text.
    """

    path: str
    images: str | None


def describe_pairs(
    files: Mapping[str, PairFile], columns: Mapping[str, str] | None = None
) -> Settings:
    """Return the keys of a study about the data in files of pairs.

    Args:
        files: File of each data set, by the name of the data set.
        columns: Columns that have other names in each file.
    """
    sources: Settings = {}
    for dataset, file in files.items():
        entry: Settings = {"path": file.path}
        if columns:
            entry["columns"] = dict(columns)
        source: Settings = {"format": "pairs", "files": {dataset: entry}}
        if file.images:
            source["images"] = {"path": file.images}
        # A source has one folder of images, so that each file is a source.
        name = "own" if len(files) == 1 else f"own-{dataset}"
        sources[name] = source
    return {
        "sources": sources,
        "benchmark": {"valid_votes": 1},
        "groups": {"foils": list(files)},
    }


def choose_dataset_name(file: Path) -> str:
    """Return a name for the data set in a file; it differs from the names of instruments, CV-Probes
    and models.
    """
    name = _simplify(file.stem).replace(".", "-").strip("-") or "pairs"
    # These names have a meaning in tables or studies.
    used_names = {*INSTRUMENTS, CV_PROBES, *load_registry()}
    return f"own-{name}" if name in used_names else name


def check_study_name(name: str) -> None:
    """Refuse a name that a study cannot have, with one that it can have.

    Raises:
        UserError: The name has other characters than those of a path on every system.
    """
    if re.search(NAME_PATTERN, name):
        return
    allowed_name = _simplify(name).replace(".", "-").strip("-") or "my-study"
    raise UserError(
        f"--name: wrong value (got {name!r}, expected {FORMS[NAME_PATTERN]}); take {allowed_name}"
    )


def choose_model_names(
    specs: Sequence[ModelSpec], used_names: Collection[str] = ()
) -> dict[str, ModelSpec]:
    """Return models by their names in a study: known names, or the last parts of a folder
    or hub id.

    Args:
        specs: The models.
        used_names: Names of other models.
    Raises:
        UserError: A model is named twice.
    """
    known = {**load_registry(), **load_scene_models()}
    models: dict[str, ModelSpec] = {}
    for spec in specs:
        if spec in models.values():
            raise UserError(f"--model {spec.name}: is named twice; leave one out")
        name = spec.name
        if name not in known:
            name = _choose_free_name(
                spec, {*known, *used_names, *models}, len(models) + 1
            )
        models[name] = spec
    return models


def _choose_free_name(spec: ModelSpec, used_names: Collection[str], number: int) -> str:
    """Return a name from the end of the path of a model's weights, as short as possible and not
    taken.

    Args:
        spec: The model.
        used_names: Names of other models.
        number: Number of the model in the study, which makes a name if all ends of the path are
            taken.
    """
    parts = Path(spec.weights).parts
    ends = ["-".join(parts[-count:]) for count in range(1, len(parts) + 1)]
    candidates = [_simplify(end) for end in ends]
    # If all ends of the path are taken, the name gets a prefix, or is the number of the model.
    candidates += [f"own-{candidates[0]}", f"model-{number}"]
    return next(name for name in candidates if name and name not in used_names)


def render_study(study: Settings, command: str) -> str:
    """Return a study as YAML, headed by the command that wrote it and a digest that reveals later
    edits.
    """
    body = yaml.safe_dump(
        study, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True
    )
    return (
        f"# Written by: {command}\n# Every key is described in workflow/waltz/resources/study.schema.yaml.\n"
        f"# digest: {_compute_digest(body)}\n{body}"
    )


def write_study(file: Path, text: str) -> str:
    """Write a study to a file, unless the file already contains it.

    A file that a command wrote for the same data is replaced if models and limits are only added
    or omitted, so that results are used again.

    Args:
        file: The file.
        text: The study, as `render_study` returns it.
    Returns:
        `written`, `unchanged` or `replaced`.
    Raises:
        UserError: The file was edited, or contains other models or data.
    """
    if not file.exists():
        write_text(file, text)
        return "written"
    # The digest in the head of the file shows whether somebody edited the YAML below it.
    digest, body = _split_body(file.read_text(encoding="utf-8"))
    _, new_body = _split_body(text)
    # The head may differ in the command, which changes no result.
    if body == new_body:
        return "unchanged"
    if digest != _compute_digest(body):
        raise UserError(
            f"{file}: was edited, or was not written by waltz; run it with snakemake, or choose another --name"
        )
    study, new_study = yaml.safe_load(body), yaml.safe_load(new_body)
    # Other data, or another model of the same name, would mix results of two studies in one folder.
    changed = []
    for key in ("sources", "extends"):
        if study.get(key) != new_study.get(key):
            changed.append(key)
    if _holds_other_models(study["models"], new_study["models"]):
        changed.append("models")
    if changed:
        raise UserError(
            f"{file}: holds other {' and '.join(changed)}; choose another --name, or delete it"
        )
    write_text(file, text)
    return "replaced"


def _holds_other_models(models: Settings, new_models: Settings) -> bool:
    """Return whether models are other ones, and not those of before with some added or omitted."""
    smaller, larger = sorted((models, new_models), key=len)
    return not smaller.items() <= larger.items()


def _build_entry(name: str, spec: ModelSpec) -> Settings:
    """Return the study's entry of a model; it is empty for a model as registered."""
    if spec == load_registry().get(name):
        return {}
    # Only these fields are written; empty ones are omitted.
    entry = {
        "kind": spec.kind,
        "weights": spec.weights,
        "base": spec.base,
        "server": spec.server,
        "tokenizer": spec.tokenizer,
        "masked_token": spec.masked_token,
        "prompts": spec.prompts,
    }
    if spec.revision != "local":
        entry["revision"] = spec.revision
    return {key: value for key, value in entry.items() if value}


def _simplify(name: str) -> str:
    """Return a name in small letters, in which a hyphen replaces other characters than letters,
    digits and dots.
    """
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")


def _split_body(text: str) -> tuple[str, str]:
    """Return the digest in the head of a study file and the YAML after it; empty and all text
    without a digest.
    """
    match = DIGEST.search(text)
    return (match[1], text[match.end() :]) if match else ("", text)


def _compute_digest(body: str) -> str:
    """Return the digest of the YAML of a study: 16 hexadecimal digits."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]
