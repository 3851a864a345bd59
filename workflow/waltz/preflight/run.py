"""All checks of a study, in about two minutes: files, repositories, models without values, and the machine."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urldefrag

from waltz.core.errors import UserError, get_first_line
from waltz.core.files.downloads import (
    LOCK_ON_DOWNLOAD,
    apply_mirror,
    find_local_copy,
    get_archive_member,
    get_file_name,
    is_url,
    read_recorded,
)
from waltz.model_registry import (
    BERT_REVISION,
    BERT_TOKENIZER,
    DETECTOR_KIND,
    ModelSpec,
    is_packaged,
    list_downloads,
    list_hub_copies,
    may_borrow_tokenizer,
)
from waltz.plan.plan import Plan
from waltz.preflight.checks import Check, State, run_at_once
from waltz.preflight.hub import Files, find_cached, get_hub_cache, read_folder, read_repository
from waltz.preflight.machine import check_disk, check_gpus, check_scheduler, list_gpus
from waltz.preflight.skeletons import (
    list_absent_weights,
    read_shapes,
    select_small_files,
    select_weights,
    write_skeleton,
)
from waltz.preflight.web import NoRangesError, RemoteFile, open_remote, probe_file
from waltz.sources.listed_images import read_image_list

LARGE = 1_000_000_000
"""Parameters from which a model on a CPU is too slow for a study."""
RULER_KIND = "ruler"
"""Kind of synthetic encoders, which have no files."""
PICKLE = ".pkl"
"""Suffix of weights that only a whole download can describe."""


@dataclass(frozen=True)
class Repository:
    """A repository of the hub that a study reads.

    Attributes:
        id: Its id.
        revision: Full commit hash; None for the newest state, which the lock file will record.
        gated: Whether its licence has to be accepted.
        folder: Where a study puts it as a whole.
        only_tokenizer: Whether its weights are not read.
        file: The one file of weights that is read; empty where the repository is a model.
    """

    id: str
    revision: str | None
    gated: bool
    folder: Path
    only_tokenizer: bool = False
    file: str = ""


@dataclass(frozen=True)
class WebFile:
    """A file that a study fetches by url.

    Attributes:
        name: Key of the study that names it first.
        url: Its address, without the part after `#`.
        target: Its path once it is fetched.
        kind: What it counts as on the disk: `sources` or `weights`.
        size: Bytes that the study or the lock file says; None where neither does.
        local: Whether it is here already.
    """

    name: str
    url: str
    target: Path
    kind: str
    size: int | None
    local: bool


def check_study(plan: Plan, profile: Path | None, timeout: float) -> list[Check]:
    """Check all that a study needs before it runs.

    Args:
        plan: Its plan.
        profile: Profile of Snakemake that jobs run with; None for this machine.
        timeout: Seconds that all servers have to answer, and half of what they have to describe all checkpoints.
    Returns:
        Checks of files, repositories, models and the machine.
    """
    specs = select_run_models(plan)
    files = list_web_files(plan, specs)
    repositories = list_repositories(plan, specs)
    missing = [file for file in files if not file.local]
    tasks: dict[str, Callable[[], RemoteFile | Files]] = {
        **{file.url: partial(probe_file, file.url, timeout) for file in missing},
        **{name: partial(_read_files, repository, timeout) for name, repository in repositories.items()},
    }
    answers = run_at_once(tasks, timeout)
    remote = {key: answer for key, answer in answers.items() if isinstance(answer, RemoteFile)}
    found = {key: answer for key, answer in answers.items() if isinstance(answer, Files)}
    checks = [*_check_own_files(plan), *(_judge_file(file, answers.get(file.url)) for file in files)]
    checks += [_judge_repository(name, answers[name]) for name in repositories]
    with tempfile.TemporaryDirectory() as folder:
        checks += list(_check_models(plan, specs, files, remote, found, Path(folder), timeout))
    checks += check_disk(_list_needed(plan, missing, remote, repositories, found))
    checks += check_gpus(_list_gpu_needs(plan, specs), list_gpus(), scheduled=profile is not None)
    if fault := plan.describe_missing_quantizer():
        checks.append(Check("package", "bitsandbytes", State.FAILURE, fault))
    return [*checks, *check_scheduler(profile)]


def select_run_models(plan: Plan) -> dict[str, ModelSpec]:
    """Return the models that jobs of a study run, with the paths of their fetched files."""
    return {name: plan.models[name] for name in plan.models.run_here if name not in plan.skipped}


def list_web_files(plan: Plan, specs: Mapping[str, ModelSpec]) -> list[WebFile]:
    """Return the files that a study fetches by url, each once."""
    study, raw = plan.study, plan.raw
    files: dict[str, WebFile] = {}
    for (source, name), entry in raw.files.items():
        for image in read_image_list(Path(str(raw.get_image_list(source)))) if entry.listed else ():
            copy = {"local": f"{entry.local}/{image.file}"} if entry.local else {}
            target = Path(raw.get_path(source, name))
            cached = Path("results/.downloads") / image.sha256
            local = target.exists() or cached.exists() or find_local_copy(copy) is not None
            files[image.url] = WebFile(f"sources.{source}.{name}", image.url, target, "sources", image.size, local)
        url = urldefrag(entry.url or "").url
        if not is_url(url) or url in files:
            continue
        target = Path(raw.get_path(source, name))
        if get_archive_member(entry.url or ""):
            target = Path(str(raw.get_archive(source, name)))
        cached = Path("results/.downloads") / str(entry.sha256)
        local = target.exists() or cached.exists() or find_local_copy(entry.to_dict()) is not None
        files[url] = WebFile(
            f"sources.{source}.{name}", url, target, "sources", _find_size(plan, url, entry.size), local
        )
    for name in specs:
        spec = plan.models.resolved[name]
        for url, path in list_downloads(spec, study.weights).items():
            whole = Path(plan.models[name].weights) if spec.unpack else Path(path)
            local = Path(path).exists() or whole.exists()
            files.setdefault(
                url, WebFile(f"models.{name}", url, Path(path), "weights", _find_size(plan, url, None), local)
            )
    return list(files.values())


def _find_size(plan: Plan, url: str, size: int | None) -> int | None:
    """Return the size of a file that the study says, or that its first download had."""
    recorded = read_recorded(Path(plan.study.lock_file), url, "size")
    return size if size is not None else int(recorded) if recorded else None


def list_repositories(plan: Plan, specs: Mapping[str, ModelSpec]) -> dict[str, Repository]:
    """Return the repositories of the hub that a study reads, by id, or by `ID/FILE` where it reads one file."""
    repositories: dict[str, Repository] = {}
    lock = Path(plan.study.lock_file)
    for name, local in specs.items():
        spec = plan.models.resolved[name]
        if (
            spec.server
            or spec.revision == "local"
            or is_url(spec.weights)
            or is_packaged(spec)
            or spec.kind == RULER_KIND
        ):
            continue
        locked = spec.revision == LOCK_ON_DOWNLOAD
        revision = read_recorded(lock, spec.weights, "commit") if locked else spec.revision
        for path, commit in {spec.weights: revision, **dict(list_hub_copies(spec))}.items():
            owner_and_name, file = "/".join(path.split("/")[:2]), "".join(path.split("/", 2)[2:])
            folder = Path(local.weights if path == spec.weights else path)
            repositories.setdefault(path, Repository(owner_and_name, commit, spec.gated, folder, file=file))
    if any(map(may_borrow_tokenizer, specs.values())):
        bert = Repository(BERT_TOKENIZER, BERT_REVISION, False, Path(BERT_TOKENIZER), only_tokenizer=True)
        repositories.setdefault(bert.id, bert)
    return repositories


def _read_files(repository: Repository, timeout: float) -> Files:
    """Return the files of a repository that are read, of weights only the one that is named."""
    files = _find_files(repository, timeout)
    if not repository.file:
        return files
    if repository.file not in files.sizes:
        raise UserError(f"{repository.id} has no {repository.file} at commit {repository.revision}; correct weights")
    names = {repository.file, *select_small_files(files)}
    return replace(files, sizes={name: size for name, size in files.sizes.items() if name in names})


def _find_files(repository: Repository, timeout: float) -> Files:
    """Return the files of a repository: those here where they are complete, else those of the hub."""
    if repository.folder.is_dir():
        return read_folder(repository.folder)
    if cached := find_cached(repository.id, repository.revision):
        files = read_folder(cached)
        if repository.only_tokenizer or (select_weights(files) and not list_absent_weights(files)):
            return files
    return read_repository(repository.id, repository.revision, repository.gated, timeout)


def _check_own_files(plan: Plan) -> Iterator[Check]:
    """Yield the check of each file and folder of the user's own that the study names."""
    for (source, name), entry in plan.raw.files.items():
        if entry.path is not None and not Path(entry.path).exists():
            finding = f"{entry.path}: no such file or folder; correct the path, which is relative to {Path.cwd()}"
            yield Check("file", f"sources.{source}.{name}", State.FAILURE, finding)
        elif entry.path is not None:
            yield Check("file", f"sources.{source}.{name}", State.OK, f"{entry.path} is here")


def _judge_file(file: WebFile, answer: object) -> Check:
    """Return the check of a file of the web by what its server answered."""
    where = f"{get_file_name(file.url)} ({file.url})"
    if file.local:
        return Check("file", file.name, State.OK, f"{get_file_name(file.url)} is here")
    if isinstance(answer, UserError):
        return Check("file", file.name, State.FAILURE, f"{where}: {answer}")
    assert isinstance(answer, RemoteFile)
    if file.size is not None and answer.size not in (None, file.size):
        finding = f"wrong size (got {answer.size} bytes, expected {file.size}); correct the study, or put a copy there"
        return Check("file", file.name, State.FAILURE, f"{where}: {finding}")
    size = "size not stated" if answer.size is None else f"{answer.size:,} bytes"
    if not answer.has_ranges:
        finding = f"{size}; the server sends no ranges, so that an interrupted download starts again; nothing to do"
        return Check("file", file.name, State.WARNING, f"{where}: {finding}")
    return Check("file", file.name, State.OK, f"{get_file_name(file.url)}: {size}")


def _judge_repository(name: str, answer: object) -> Check:
    if isinstance(answer, UserError):
        return Check("repository", name, State.FAILURE, str(answer))
    assert isinstance(answer, Files)
    return Check("repository", name, State.OK, f"{len(answer.sizes)} files{' are here' if answer.is_local else ''}")


def _list_gpu_needs(plan: Plan, specs: Mapping[str, ModelSpec]) -> dict[str, tuple[int, int]]:
    """Return memory in GB and number of GPUs that the jobs of each large model request."""
    tested = {run.model for run in plan.tested}
    loaded = {
        name: plan.list_testing_models(name) if name in tested else [name]
        for name, spec in specs.items()
        if spec.parameters >= LARGE
    }
    return {
        name: (plan.models.estimate_gpu_gb(*names), plan.models.count_gpus(names, None))
        for name, names in loaded.items()
    }


def _list_needed(
    plan: Plan,
    missing: list[WebFile],
    remote: Mapping[str, RemoteFile],
    repositories: Mapping[str, Repository],
    found: Mapping[str, Files],
) -> Iterator[tuple[Path, int, str]]:
    """Yield folder, bytes and kind of each file that is still to be fetched."""
    for file in missing:
        size = remote[file.url].size if file.url in remote else None
        yield file.target.parent, size or file.size or 0, file.kind
    for name, files in found.items():
        if files.is_local:
            continue
        folder = repositories[name].folder
        place = folder if folder.is_relative_to(plan.study.weights) else get_hub_cache()
        names = {*select_small_files(files), *([] if repositories[name].only_tokenizer else select_weights(files))}
        yield place, sum(files.sizes[each] for each in names), "models of the hub"


def _check_models(
    plan: Plan,
    specs: Mapping[str, ModelSpec],
    files: list[WebFile],
    remote: Mapping[str, RemoteFile],
    found: Mapping[str, Files],
    folder: Path,
    timeout: float,
) -> Iterator[Check]:
    """Yield the check of each model whose files could be found: its skeleton is fetched, loaded and reads a text."""
    from waltz.models.pretrained import find_gguf_file  # torch and transformers take seconds to import

    tasks: dict[str, Callable[[], Path]] = {}
    by_url = {file.url: file for file in files}
    for name, spec in specs.items():
        origin = plan.models.resolved[name]
        place = folder / name
        place.mkdir()
        if origin.server:
            yield _judge_server(origin)
            continue
        if origin.kind == RULER_KIND or is_packaged(origin) or (origin.unpack and not Path(spec.weights).is_dir()):
            continue
        if is_url(origin.weights) and not origin.unpack:
            file = by_url[urldefrag(origin.weights).url]
            if file.local or file.url in remote:
                tasks[name] = partial(_write_file_skeleton, file, remote.get(file.url), place, timeout)
        elif Path(spec.weights).exists() and find_gguf_file(Path(spec.weights), name):
            yield Check("model", name, State.OK, "a GGUF file, whose weights are checked when it is loaded")
        elif Path(spec.weights).is_file():
            tasks[name] = partial(_write_local_skeleton, Path(spec.weights), place)
        elif Path(spec.weights).is_dir():
            tasks[name] = partial(_write_folder_skeleton, read_folder(Path(spec.weights)), place)
        elif origin.weights in found:
            tasks[name] = partial(_write_folder_skeleton, found[origin.weights], place)
    skeletons = run_at_once(tasks, 2 * timeout)
    for name, skeleton in skeletons.items():
        spec = plan.models.resolved[name]
        yield _judge_model(plan, spec, skeleton)
    for name in specs.keys() - skeletons.keys():
        if plan.models.resolved[name].unpack or is_packaged(plan.models.resolved[name]):
            yield Check("model", name, State.OK, "checked when its archive is unpacked")


def _judge_server(spec: ModelSpec) -> Check:
    from waltz.core.devices import Device
    from waltz.models.decoders import load_decoder

    try:
        return Check("model", spec.name, State.OK, load_decoder(spec, Device("cpu", 1, "a server")).forward_pass)
    except UserError as error:
        return Check("model", spec.name, State.FAILURE, str(error))


def _judge_model(plan: Plan, spec: ModelSpec, skeleton: Path | UserError) -> Check:
    from waltz.preflight.loading import check_model

    if isinstance(skeleton, NoRangesError):
        return Check("model", spec.name, State.WARNING, f"{skeleton}; nothing to do")
    if isinstance(skeleton, UserError):
        return Check("model", spec.name, State.FAILURE, str(skeleton))
    if spec.trust_remote_code:
        return Check(
            "model", spec.name, State.WARNING, "not loaded, since code of its repository would run; nothing to do"
        )
    if spec.kind == DETECTOR_KIND and skeleton.suffix == PICKLE:
        return Check("model", spec.name, State.OK, "a pickle, whose keys are checked when it is loaded")
    try:
        prompted = any(run.model == spec.name for run in [*plan.decoded, *plan.tested])
        seen = check_model(spec, skeleton, plan.study.profiles if prompted else [])
        return Check("model", spec.name, State.OK, seen)
    except UserError as error:
        fault = str(error)
    except Exception as error:  # transformers raises anything where a file is broken
        fault = f"{spec.weights} cannot be loaded ({type(error).__name__}: {get_first_line(error)}); see its page"
    return Check("model", spec.name, State.FAILURE, fault.replace(str(skeleton), spec.weights))


def _write_folder_skeleton(files: Files, folder: Path) -> Path:
    write_skeleton(files, folder)
    return folder


def _write_local_skeleton(file: Path, folder: Path) -> Path:
    """Write the skeleton of a local checkpoint file, with the settings and tokenizer next to it."""
    import torch

    target = folder / file.with_suffix(".bin").name
    if file.suffix == PICKLE:
        return file
    with file.open("rb") as opened:
        torch.save(read_shapes(opened, file.name), target)
    _copy_adjacent(file, folder)
    return target


def _write_file_skeleton(file: WebFile, remote: RemoteFile | None, folder: Path, timeout: float) -> Path:
    """Write the skeleton of a checkpoint file of the web."""
    import torch

    if file.target.is_file():
        return _write_local_skeleton(file.target, folder)
    name = get_file_name(file.url)
    target = folder / Path(name).with_suffix(".bin")
    if name.endswith(PICKLE) or remote is None or remote.size is None:
        return folder / name
    with open_remote(apply_mirror(file.url), remote.size, timeout) as opened:
        torch.save(read_shapes(opened, name), target)
    _copy_adjacent(file.target, folder)
    return target


def _copy_adjacent(file: Path, folder: Path) -> None:
    """Copy the settings and tokenizer next to a checkpoint file, which a user may have put there before."""
    if file.parent.is_dir():
        for path in file.parent.iterdir():
            if path.is_file() and path.suffix in (".json", ".txt", ".yaml"):
                shutil.copyfile(path, folder / path.name)
