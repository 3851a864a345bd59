"""Checks of models without the values of their weights: their skeletons are fetched and loaded."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urldefrag

from waltz.core.downloads.urls import (
    apply_mirror,
    get_url_file_name,
    is_url,
)
from waltz.core.errors import UserError, get_first_line
from waltz.model_registry import (
    DETECTOR_KIND,
    ModelSpec,
    is_adapter,
    is_packaged,
)
from waltz.plan.plan import Plan
from waltz.preflight.checks import Check, State, run_at_once
from waltz.preflight.downloads import RULER_KIND, Inventory, WebFile
from waltz.preflight.hub import (
    Files,
    read_folder,
)
from waltz.preflight.skeletons import (
    read_shapes,
    write_skeleton,
)
from waltz.preflight.web import NoRangesError, RemoteFile, open_remote

PICKLE = ".pkl"
"""Suffix of weights whose keys are known only after a complete download."""


def check_models(
    plan: Plan,
    specs: Mapping[str, ModelSpec],
    inventory: Inventory,
    folder: Path,
    timeout: float,
) -> Iterator[Check]:
    """Yield a check of each model whose files are known: its skeleton is fetched, loaded, and reads
    a text.
    """
    tasks: dict[str, Callable[[], Path]] = {}
    # Models whose check needs no skeleton are judged at once; the skeletons of all others are
    # fetched together.
    for name, spec in specs.items():
        origin = plan.models.resolved[name]
        if origin.kind == RULER_KIND:
            continue
        # A model behind a server has no files here; the server is asked instead.
        if origin.server:
            yield _judge_server(origin)
            continue
        if finding := _describe_later_check(origin, spec):
            yield Check("model", name, State.OK, finding)
            continue
        model_folder = folder / name
        model_folder.mkdir()
        task = _choose_skeleton_task(origin, spec, inventory, model_folder, timeout)
        if task is not None:
            tasks[name] = task

    # Skeletons are loaded one after the other, because loading takes the CPU and not the network.
    skeletons = run_at_once(tasks, 2 * timeout)
    for name, skeleton in skeletons.items():
        yield _judge_model(plan, plan.models.resolved[name], skeleton)


def _describe_later_check(origin: ModelSpec, spec: ModelSpec) -> str:
    """Return when the weights of a model are checked if they have no skeleton; empty if they have
    one.

    Args:
        origin: The model with the origins of its files.
        spec: The same model with the paths of its fetched files.
    """
    # Transformers takes seconds to import.
    from waltz.models.pretrained import find_gguf_file

    path = Path(spec.weights)
    is_packed = bool(origin.unpack) and not path.is_dir()
    if is_packed or is_packaged(origin):
        return "checked when its archive is unpacked"
    # A checkpoint file has the keys of its base, an adapter only those of its own layers.
    if is_adapter(origin):
        return "an adapter, which is checked when it is merged into its base"
    is_downloaded_file = is_url(origin.weights) and not origin.unpack
    if not is_downloaded_file and path.exists() and find_gguf_file(path, spec.name):
        return "a GGUF file, whose weights are checked when it is loaded"
    return ""


def _choose_skeleton_task(
    origin: ModelSpec,
    spec: ModelSpec,
    inventory: Inventory,
    folder: Path,
    timeout: float,
) -> Callable[[], Path] | None:
    """Return a function that writes the skeleton of a model and returns its path; None if no files
    are known.

    Args:
        origin: The model with the origins of its files.
        spec: The same model with the paths of its fetched files.
        inventory: Files that servers described.
        folder: Folder for the skeleton.
        timeout: Time limit in seconds for each answer of a server.
    """
    # In this order: a file from the web, a local file, a local folder, a repository on the hub.
    if is_url(origin.weights) and not origin.unpack:
        file = inventory.files[urldefrag(origin.weights).url]
        # Its server gave no answer, which is a failure already.
        if not file.local and file.url not in inventory.remote:
            return None
        return partial(
            _write_file_skeleton, file, inventory.remote.get(file.url), folder, timeout
        )
    path = Path(spec.weights)
    if path.is_file():
        return partial(_write_local_skeleton, path, folder)
    if path.is_dir():
        return partial(_write_folder_skeleton, read_folder(path), folder)
    if origin.weights in inventory.repositories:
        return partial(
            _write_folder_skeleton, inventory.repositories[origin.weights], folder
        )
    return None


def _judge_server(spec: ModelSpec) -> Check:
    """Return the check of a model behind a server, which has to answer a first request."""
    from waltz.core.jobs.devices import Device
    from waltz.models.decoders import load_decoder

    try:
        decoder = load_decoder(spec, Device("cpu", 1, "a server"))
        return Check("model", spec.name, State.OK, decoder.forward_pass)
    except UserError as error:
        return Check("model", spec.name, State.FAILURE, str(error))


def _judge_model(plan: Plan, spec: ModelSpec, skeleton: Path | UserError) -> Check:
    """Return the check of a model by loading its skeleton, or by the error of fetching the
    skeleton.
    """
    from waltz.preflight.loading import check_model

    if isinstance(skeleton, NoRangesError):
        return Check("model", spec.name, State.WARNING, f"{skeleton}; nothing to do")
    if isinstance(skeleton, UserError):
        return Check("model", spec.name, State.FAILURE, str(skeleton))
    if spec.trust_remote_code:
        finding = "not loaded, since code of its repository would run; nothing to do"
        return Check("model", spec.name, State.WARNING, finding)
    if spec.kind == DETECTOR_KIND and skeleton.suffix == PICKLE:
        return Check(
            "model",
            spec.name,
            State.OK,
            "a pickle, whose keys are checked when it is loaded",
        )
    try:
        # A decoder that only scores texts needs no prompts.
        is_prompted = any(
            run.model == spec.name for run in [*plan.decoded, *plan.checked]
        )
        profiles = plan.study.profiles if is_prompted else []
        return Check(
            "model", spec.name, State.OK, check_model(spec, skeleton, profiles)
        )
    except UserError as error:
        fault = str(error)
    except Exception as error:
        # Transformers raises errors of any type for broken files.
        fault = f"{spec.weights} cannot be loaded ({type(error).__name__}: {get_first_line(error)}); see its page"
    # Messages of loaders name the skeleton, but the user knows only the weights.
    return Check(
        "model", spec.name, State.FAILURE, fault.replace(str(skeleton), spec.weights)
    )


def _write_folder_skeleton(files: Files, folder: Path) -> Path:
    """Write the skeleton of a model folder or repository, and return its path."""
    write_skeleton(files, folder)
    return folder


def _write_local_skeleton(file: Path, folder: Path) -> Path:
    """Write the skeleton of a local checkpoint file with the settings and tokenizer next to it;
    return its path.
    """
    import torch

    target = folder / file.with_suffix(".bin").name
    if file.suffix == PICKLE:
        return file
    with file.open("rb") as opened:
        torch.save(read_shapes(opened, file.name), target)
    _copy_adjacent(file, folder)
    return target


def _write_file_skeleton(
    file: WebFile, remote: RemoteFile | None, folder: Path, timeout: float
) -> Path:
    """Write the skeleton of a checkpoint file on the web from ranges of it; return its path."""
    import torch

    if file.target.is_file():
        return _write_local_skeleton(file.target, folder)
    name = get_url_file_name(file.url)
    target = folder / Path(name).with_suffix(".bin")
    if name.endswith(PICKLE) or remote is None or remote.size is None:
        return folder / name
    with open_remote(apply_mirror(file.url), remote.size, timeout) as opened:
        torch.save(read_shapes(opened, name), target)
    _copy_adjacent(file.target, folder)
    return target


def _copy_adjacent(file: Path, folder: Path) -> None:
    """Copy the settings and tokenizer next to a checkpoint file; a user may have put them there
    before the run.
    """
    if not file.parent.is_dir():
        return
    for path in file.parent.iterdir():
        if path.is_file() and path.suffix in (".json", ".txt", ".yaml"):
            shutil.copyfile(path, folder / path.name)
