"""Study that scores models on foils, as `waltz eval` writes it."""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.instruments import INSTRUMENTS
from waltz.model_registry import ModelSpec, load_registry
from waltz.plan.study import CV_PROBES, Settings

SEED = 1520
"""Seed of the studies, as in those of the papers."""
ATTRIBUTED = 100
"""Most items a data set that are attributed, as for the decoders of the thesis."""
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
        models: The models, by the names that they have in the study.
        data: The keys of the data, with their only group, as the functions below build them.
        profile: Fidelity profile.
        limit: Most items of a data set; None takes all.
        attribute: Whether T-SHAP of the scores is computed as well.
    """
    names = list(models)
    study: Settings = {
        "study": name,
        "seed": SEED,
        "profiles": [profile],
        **data,
        "models": {key: _build_entry(key, spec) for key, spec in models.items()},
        "evaluation": {
            "models": names,
            "groups": list(data["groups"]),
            "items": "valid",
            "sample": limit,
            "tokens_per_batch": 2048,
            **data.get("evaluation", {}),
        },
        "reporting": {"tables": ACCURACY_TABLES, "resamples": 1000, "confidence": 0.95},
    }
    attributed = [key for key, spec in models.items() if spec.kind != "text"]
    if attribute and attributed:
        study["attribution"] = {
            "models": attributed,
            "groups": list(data["groups"]),
            "sample": min(limit or ATTRIBUTED, ATTRIBUTED),
            **ESTIMATION,
            **({"companions": None} if "extends" in data else {}),
        }
        study["reporting"] |= {"tables": [*ACCURACY_TABLES, *T_SHAP_TABLES], "samples": 1}
    return study


def select_release(study: Mapping[str, Any], images: str | None) -> Settings:
    """Return the data of the released benchmark.

    Args:
        study: The study `valse`.
        images: Folder, zip or tar of the images; None for models that read only text.
    """
    sources = {name: entry for name, entry in study["sources"].items() if entry["format"] == "valse-release"}
    if images:
        sources = {name: {**entry, "images": {"path": images}} for name, entry in sources.items()}
    datasets = [name for entry in sources.values() for name in entry["files"]]
    return {"sources": sources, "benchmark": study["benchmark"], "groups": {"foils": datasets}}


def extend_world(study: Mapping[str, Any]) -> Settings:
    """Return the data of the embedded world: the study `scenes` with no more than its instruments.

    Args:
        study: The study `scenes`.
    """
    return {
        "extends": study["study"],
        "groups": {"pairs": list(study["instruments"])},
        "benchmark": {"audit": None},
        "evaluation": {"decoder_sample": None},
        **dict.fromkeys(("cv_probes", "attribution", "consistency")),
    }


def describe_pairs(dataset: str, file: str, images: str | None) -> Settings:
    """Return the data of one file of pairs.

    Args:
        dataset: Name of the data set.
        file: CSV, JSON or Parquet of image, caption and foil.
        images: Folder, zip or tar of the images; None for models that read only text.
    """
    source: Settings = {"format": "pairs", "files": {dataset: {"path": file}}}
    if images:
        source["images"] = {"path": images}
    return {"sources": {"own": source}, "benchmark": {"valid_votes": 1}, "groups": {"foils": [dataset]}}


def choose_dataset_name(file: Path) -> str:
    """Return the name of the data set of a file, which is none of the papers' data sets."""
    name = _simplify(file.stem).replace(".", "-").strip("-") or "pairs"
    return f"own-{name}" if name in {*INSTRUMENTS, CV_PROBES, *load_registry()} else name


def choose_model_names(specs: Sequence[ModelSpec], taken: Collection[str] = ()) -> dict[str, ModelSpec]:
    """Return models by names for a study: the registry's, or the last parts of a folder or hub id.

    Args:
        taken: Names that stand for other models.
    Raises:
        UserError: Two of the models are the same.
    """
    registry, named = load_registry(), dict[str, ModelSpec]()
    for spec in specs:
        if spec in named.values():
            raise UserError(f"--model {spec.name}: is named twice; leave one out")
        parts = Path(spec.weights).parts
        candidates = [_simplify("-".join(parts[-count:])) for count in range(1, len(parts) + 1)]
        candidates += [f"own-{candidates[0]}", f"model-{len(named) + 1}"]
        free = (name for name in candidates if name and name not in {*registry, *taken, *named})
        named[spec.name if spec.name in registry else next(free)] = spec
    return named


def render_study(study: Settings, command: str) -> str:
    """Return a study as YAML with the command that wrote it and a digest, which tells whether it was edited."""
    body = yaml.safe_dump(study, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
    return (
        f"# Written by: {command}\n# Every key is described in workflow/waltz/resources/study.schema.yaml.\n"
        f"# digest: {_compute_digest(body)}\n{body}"
    )


def write_study(file: Path, text: str) -> str:
    """Write a study unless its file holds it already.

    A file of `waltz eval` with the same models and data is replaced, because only limits changed, and what is computed
    can be used again.

    Args:
        text: The study, as `render_study` gives it.
    Returns:
        `written`, `unchanged` or `replaced`.
    Raises:
        UserError: The file was edited, or holds other models or data.
    """
    if not file.exists():
        write_text(file, text)
        return "written"
    old = file.read_text(encoding="utf-8")
    if _split_body(old)[1] == _split_body(text)[1]:
        return "unchanged"
    digest, body = _split_body(old)
    if digest != _compute_digest(body):
        raise UserError(f"{file}: is not as `waltz eval` wrote it; run it with snakemake, or choose another --name")
    before, now = yaml.safe_load(body), yaml.safe_load(text)
    changed = [key for key in ("models", "sources", "extends") if before.get(key) != now.get(key)]
    if changed:
        raise UserError(f"{file}: holds other {' and '.join(changed)}; choose another --name, or delete it")
    write_text(file, text)
    return "replaced"


def _build_entry(name: str, spec: ModelSpec) -> Settings:
    if spec == load_registry().get(name):
        return {}
    entry = {"kind": spec.kind, "weights": spec.weights, "masked_token": spec.masked_token}
    if spec.revision != "local":
        entry["revision"] = spec.revision
    return {key: value for key, value in entry.items() if value}


def _simplify(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")


def _split_body(text: str) -> tuple[str, str]:
    """Return the digest in the head of a study file, and the YAML after it."""
    match = DIGEST.search(text)
    return (match[1], text[match.end() :]) if match else ("", text)


def _compute_digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]
