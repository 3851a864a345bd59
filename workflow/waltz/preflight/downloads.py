"""Checks of what a study fetches, before anything big is fetched: files by url, and repositories on
the hub.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urldefrag

from waltz.core.downloads.checksums import LOCK_ON_DOWNLOAD
from waltz.core.downloads.lock_file import read_recorded
from waltz.core.downloads.transfer import find_local_copy
from waltz.core.downloads.urls import (
    get_archive_member,
    get_url_file_name,
    is_url,
)
from waltz.core.errors import UserError
from waltz.core.redaction import redact_url
from waltz.model_registry import (
    BERT_REVISION,
    BERT_TOKENIZER,
    ModelSpec,
    is_packaged,
    list_downloads,
    list_hub_copies,
    may_borrow_tokenizer,
)
from waltz.plan.plan import Plan
from waltz.plan.study import File
from waltz.preflight.checks import Check, NoAnswerError, State, run_at_once
from waltz.preflight.hub import (
    Files,
    find_cached,
    get_hub_cache,
    read_folder,
    read_repository,
)
from waltz.preflight.skeletons import (
    list_absent_weights,
    select_small_files,
    select_weights,
)
from waltz.preflight.web import RemoteFile, probe_file
from waltz.sources.listed_images import read_image_list

DOWNLOADS = Path("results/.downloads")
"""Folder of fetched files, named by their checksums."""
RULER_KIND = "ruler"
"""Kind of rulers, the synthetic encoders, which have no files."""


@dataclass(frozen=True)
class Repository:
    """Repository on the hub that a study reads.

    Attributes:
        id: Id of the repository.
        revision: Full commit hash; None for the newest commit, which the lock file will record.
        gated: Whether the license has to be accepted.
        folder: Folder in which the study stores the complete repository.
        only_tokenizer: Whether only the tokenizer is read, and no weights.
        file: Name of the single file of weights that is read; empty if the whole repository is a
            model.
    """

    id: str
    revision: str | None
    gated: bool
    folder: Path
    only_tokenizer: bool = False
    file: str = ""


@dataclass(frozen=True)
class WebFile:
    """File that a study fetches by url.

    Attributes:
        name: First key of the study that names the file.
        url: Address without the part after `#`.
        target: Path of the fetched file.
        kind: Kind of the file in the check of the disk: `sources` or `weights`.
        size: Size in bytes from the study or the lock file; None if neither states it.
        local: Whether the file is already on this machine.
    """

    name: str
    url: str
    target: Path
    kind: str
    size: int | None
    local: bool


Answers = Mapping[str, RemoteFile | Files | UserError]
"""Answer of a server, or the error, by url of a file or name of a repository."""


@dataclass(frozen=True)
class Inventory:
    """Files and repositories that a study reads, as far as servers described them.

    Attributes:
        files: Files that are fetched from the web, by url.
        remote: Descriptions of files that are still to be fetched, by url.
        repositories: Files of each repository by its name.
    """

    files: Mapping[str, WebFile]
    remote: Mapping[str, RemoteFile]
    repositories: Mapping[str, Files]


def ask_servers(
    files: list[WebFile], repositories: Mapping[str, Repository], timeout: float
) -> Answers:
    """Return the servers' descriptions of each missing file (by url) and each repository (by name),
    or the errors.
    """
    tasks: dict[str, Callable[[], RemoteFile | Files]] = {}
    for file in files:
        if not file.local:
            tasks[file.url] = partial(probe_file, file.url, timeout)
    for name, repository in repositories.items():
        tasks[name] = partial(_read_files, repository, timeout)
    return run_at_once(tasks, timeout)


def judge_answers(
    files: list[WebFile], repositories: Mapping[str, Repository], answers: Answers
) -> list[Check]:
    """Return the checks of files and repositories: first answers about missing ones, then local or
    described ones.
    """
    missing: list[Check] = []
    described: list[Check] = []
    for file in files:
        if file.local:
            finding = f"{get_url_file_name(file.url)} is here"
            described.append(Check("file", file.name, State.OK, finding))
        else:
            missing.append(_judge_file(file, answers[file.url]))
    for name in repositories:
        check = _judge_repository(name, answers[name])
        if check.state is State.OK:
            described.append(check)
        else:
            missing.append(check)
    # Without a network, one check replaces a failure for each file.
    if is_network_missing(answers):
        missing = [_describe_missing_network(answers)]
    return [*missing, *described]


def take_inventory(files: list[WebFile], answers: Answers) -> Inventory:
    """Return the files and repositories with the answers that are not errors."""
    remote: dict[str, RemoteFile] = {}
    repositories: dict[str, Files] = {}
    for name, answer in answers.items():
        if isinstance(answer, RemoteFile):
            remote[name] = answer
        elif isinstance(answer, Files):
            repositories[name] = answer
    return Inventory({file.url: file for file in files}, remote, repositories)


def is_network_missing(answers: Mapping[str, object]) -> bool:
    """Return whether no server answered: then the network is missing, not single files or
    repositories.

    Args:
        answers: Answer of each server, or the error; repositories on this machine do not count. A
            single server without answer does not show that the network is missing.
    """
    remote_count = 0
    for answer in answers.values():
        if isinstance(answer, Files) and answer.is_local:
            continue
        if not isinstance(answer, NoAnswerError):
            return False
        remote_count += 1
    return remote_count > 1


def _describe_missing_network(answers: Mapping[str, object]) -> Check:
    """Return the check that replaces the checks of all files and repositories if no server
    answered.
    """
    unanswered = [
        name for name, answer in answers.items() if isinstance(answer, NoAnswerError)
    ]
    name = redact_url(unanswered[0])
    finding = (
        f"no server answered: {len(unanswered)} files and repositories could not be asked, such as"
        f" {name} ({answers[unanswered[0]]}); connect, or put copies into $WALTZ_DATA and the hub's cache (HF_HOME)"
    )
    return Check("network", "all servers", State.FAILURE, finding)


def list_web_files(plan: Plan, specs: Mapping[str, ModelSpec]) -> list[WebFile]:
    """Return the files that a study fetches by url, each once: first files of sources, then of
    models.
    """
    files: dict[str, WebFile] = {}
    for file in [*_list_source_files(plan), *_list_weight_files(plan, specs)]:
        # Several entries may name one url, and members of an archive share the archive.
        files.setdefault(file.url, file)
    return list(files.values())


def _list_source_files(plan: Plan) -> Iterator[WebFile]:
    """Yield the files of sources that a study fetches by url."""
    for (source, name), entry in plan.raw.files.items():
        if entry.listed:
            yield from _list_listed_images(plan, source, name, entry)
        url = urldefrag(entry.address).url
        if not is_url(url):
            continue
        target = Path(plan.raw.get_path(source, name))
        if get_archive_member(entry.address):
            target = Path(str(plan.raw.get_archive(source, name)))
        is_local = _is_here(target, str(entry.sha256), entry.local)
        size = _find_size(plan, url, entry.size)
        key = f"sources.{source}.{name}"
        yield WebFile(key, url, target, "sources", size, is_local)


def _list_listed_images(
    plan: Plan, source: str, name: str, entry: File
) -> Iterator[WebFile]:
    """Yield the images in the table of a source."""
    target = Path(plan.raw.get_path(source, name))
    key = f"sources.{source}.{name}"
    for image in read_image_list(Path(str(plan.raw.get_listed_images(source)))):
        local = f"{entry.local}/{image.file}" if entry.local else None
        is_local = _is_here(target, image.sha256, local)
        yield WebFile(key, image.url, target, "sources", image.size, is_local)


def _list_weight_files(plan: Plan, specs: Mapping[str, ModelSpec]) -> Iterator[WebFile]:
    """Yield the files of models that a study fetches by url."""
    for name in specs:
        spec = plan.models.resolved[name]
        for url, path in list_downloads(spec, plan.study.weights).items():
            is_local = Path(path).exists()
            # An archive of weights is no longer needed when it is unpacked.
            if spec.unpack:
                is_local = is_local or Path(plan.models[name].weights).exists()
            size = _find_size(plan, url, None)
            key = f"models.{name}"
            yield WebFile(key, url, Path(path), "weights", size, is_local)


def _is_here(target: Path, sha256: str, local: str | None) -> bool:
    """Return whether a file is already fetched, or the user has a copy of it."""
    is_fetched = target.exists() or (DOWNLOADS / sha256).exists()
    return is_fetched or find_local_copy(local) is not None


def _find_size(plan: Plan, url: str, size: int | None) -> int | None:
    """Return the size of a file in bytes from the study, or else of its first download; None if
    both are unknown.
    """
    if size is not None:
        return size
    recorded = read_recorded(Path(plan.study.lock_file), url, "size")
    if not recorded:
        return None
    return int(recorded)


def list_repositories(
    plan: Plan, specs: Mapping[str, ModelSpec]
) -> dict[str, Repository]:
    """Return the hub repositories that a study reads, by id, or by `ID/FILE` if it reads only one
    file.
    """
    repositories: dict[str, Repository] = {}
    # For a model with `revision: lock`, the lock file has the commit of the first download.
    lock = Path(plan.study.lock_file)
    for name, local in specs.items():
        spec = plan.models.resolved[name]
        if not _is_on_hub(spec):
            continue
        revision: str | None = spec.revision
        if revision == LOCK_ON_DOWNLOAD:
            revision = read_recorded(lock, spec.weights, "commit")
        for path, commit in {
            spec.weights: revision,
            **dict(list_hub_copies(spec)),
        }.items():
            # The path is OWNER/NAME, or OWNER/NAME/FILE for a single file.
            parts = path.split("/", 2)
            file = "".join(parts[2:])
            folder = Path(local.weights if path == spec.weights else path)
            repositories.setdefault(
                path,
                Repository("/".join(parts[:2]), commit, spec.gated, folder, file=file),
            )
    if any(may_borrow_tokenizer(spec) for spec in specs.values()):
        bert = Repository(
            BERT_TOKENIZER,
            BERT_REVISION,
            False,
            Path(BERT_TOKENIZER),
            only_tokenizer=True,
        )
        repositories.setdefault(bert.id, bert)
    return repositories


def _is_on_hub(spec: ModelSpec) -> bool:
    """Return whether the weights of a model come from a repository on the hub."""
    if spec.server or spec.revision == "local" or spec.kind == RULER_KIND:
        return False
    return not is_url(spec.weights) and not is_packaged(spec)


def _read_files(repository: Repository, timeout: float) -> Files:
    """Return the files of a repository that the study reads: all, or the named file with settings
    and tokenizer.
    """
    files = _find_files(repository, timeout)
    if not repository.file:
        return files
    if repository.file not in files.sizes:
        raise UserError(
            f"{repository.id} has no {repository.file} at commit {repository.revision}; correct weights"
        )
    names = {repository.file, *select_small_files(files)}
    return replace(
        files, sizes={name: size for name, size in files.sizes.items() if name in names}
    )


def _find_files(repository: Repository, timeout: float) -> Files:
    """Return the files of a repository: from this machine if they are complete, else from the hub."""
    if repository.folder.is_dir():
        return read_folder(repository.folder)
    # An interrupted download may have left a part of the weights in the cache.
    cached = find_cached(repository.id, repository.revision)
    if cached:
        files = read_folder(cached)
        has_weights = bool(select_weights(files)) and not list_absent_weights(files)
        if repository.only_tokenizer or has_weights:
            return files
    return read_repository(
        repository.id, repository.revision, repository.gated, timeout
    )


def _judge_file(file: WebFile, answer: object) -> Check:
    """Return the check of a file from the web, by the answer of its server."""
    location = f"{get_url_file_name(file.url)} ({redact_url(file.url)})"
    if isinstance(answer, UserError):
        return Check("file", file.name, State.FAILURE, f"{location}: {answer}")
    assert isinstance(answer, RemoteFile)
    # A file of another size cannot have the expected checksum.
    if file.size is not None and answer.size not in (None, file.size):
        finding = f"wrong size (got {answer.size} bytes, expected {file.size}); correct the study, or put a copy there"
        return Check("file", file.name, State.FAILURE, f"{location}: {finding}")
    size = "size not stated"
    if answer.size is not None:
        size = f"{answer.size:,} bytes"
    if not answer.has_ranges:
        finding = f"{size}; the server sends no ranges, so that an interrupted download starts again; nothing to do"
        return Check("file", file.name, State.WARNING, f"{location}: {finding}")
    return Check("file", file.name, State.OK, f"{get_url_file_name(file.url)}: {size}")


def _judge_repository(name: str, answer: object) -> Check:
    """Return the check of a repository, by the answer of the hub or the files on this machine."""
    if isinstance(answer, UserError):
        return Check("repository", name, State.FAILURE, str(answer))
    assert isinstance(answer, Files)
    finding = f"{len(answer.sizes)} files"
    if answer.is_local:
        finding += " are here"
    return Check("repository", name, State.OK, finding)


def list_needed_space(
    plan: Plan, inventory: Inventory, repositories: Mapping[str, Repository]
) -> Iterator[tuple[Path, int | None, str]]:
    """Yield folder, size in bytes and kind of each file that is still to be fetched; the size is
    None if unknown.
    """
    for file in inventory.files.values():
        if file.local:
            continue
        # The size from the server is preferred to the size in the study or lock file.
        remote = inventory.remote.get(file.url)
        size = file.size
        if remote is not None and remote.size is not None:
            size = remote.size
        yield file.target.parent, size, file.kind
    for name, repository in repositories.items():
        # Complete repositories are stored among the weights of the study, all others in the hub's
        # cache.
        folder = get_hub_cache()
        if repository.folder.is_relative_to(plan.study.weights):
            folder = repository.folder
        files = inventory.repositories.get(name)
        if files is None:
            yield folder, None, "models of the hub"
            continue
        if files.is_local:
            continue
        # Of a repository, only settings, tokenizer and one format of weights are fetched.
        names = set(select_small_files(files))
        if not repository.only_tokenizer:
            names.update(select_weights(files))
        yield (
            folder,
            sum(files.sizes[file_name] for file_name in names),
            "models of the hub",
        )
