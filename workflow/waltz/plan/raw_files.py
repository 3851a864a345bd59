"""Raw files of a study: their paths, and the entry that fetches a file that several share."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TypeVar

from waltz.core.errors import UserError
from waltz.core.files.downloads import get_archive_member, get_file_name, is_url
from waltz.core.files.resources import find_in_checkout
from waltz.plan.study import File, Settings, Study

IMAGES = "images"
"""Name of a source's images among its files."""

Entry = TypeVar("Entry")
Key = tuple[str, str]
"""A source and the name of one of its files."""


def list_files(study: Study) -> dict[Key, File]:
    """Return the entry of every file of every source.

    A source's images are called `images`; where they lie in several places, `images-1` and so on, and there is then no
    `images`.
    """
    return {
        (source, name): file
        for source, entry in study.sources.items()
        for name, file in name_files(entry.files, entry.images).items()
    }


def name_files(files: Mapping[str, Entry], images: Entry | list[Entry] | None) -> dict[str, Entry]:
    """Return the entries of one source's files and images by name."""
    if isinstance(images, list):
        return {**files, **{f"{IMAGES}-{number}": entry for number, entry in enumerate(images, 1)}}
    return dict(files) if images is None else {**files, IMAGES: images}


def find_owners(study: Study) -> dict[tuple[str, str], Key]:
    """Return the first file of each url, which fetches it for the others.

    Returns:
        By url without the part behind #, and `file`, or `archive` where files of it are meant.
    Raises:
        UserError: Two files give the same url different checksums.
    """
    owners: dict[tuple[str, str], Key] = {}
    files = list_files(study)
    for key, file in files.items():
        if file.url is None:
            continue
        url = file.url.partition("#")[0]
        first = owners.setdefault((url, "archive" if get_archive_member(file.url) else "file"), key)
        if files[first].sha256 != file.sha256:
            raise UserError(
                f"study file: sources.{'.'.join(key)}.sha256: sources.{'.'.join(first)} gives the same url another"
            )
    return owners


def get_stored_name(file: File) -> str:
    """Return the name under which a raw file is stored: that of its path, url, or place in the archive of its url."""
    if file.listed is not None:
        return "images.zip"
    if file.path is not None:
        return file.path.rstrip("/").rsplit("/", 1)[-1]
    url = file.url or ""
    return Path(get_archive_member(url)).name or get_file_name(url)


@cache
def describe_folder(folder: str) -> str:
    """Return a digest of the names, sizes and times of all files below a folder, read once a process."""
    digest = hashlib.sha256()
    for file in _list_entries(folder):
        state = file.stat(follow_symlinks=file.is_file())  # a link may lead nowhere
        digest.update(f"{file.path}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _list_entries(folder: str) -> Iterator["os.DirEntry[str]"]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _list_entries(entry.path)
        else:
            yield entry


@dataclass(frozen=True)
class RawFiles:
    """Paths of the raw files of a study.

    Attributes:
        study: The study.
        results: Its folder of results.
    """

    study: Study
    results: str

    @cached_property
    def files(self) -> dict[Key, File]:
        """Entry of every file."""
        return list_files(self.study)

    @cached_property
    def owners(self) -> dict[tuple[str, str], Key]:
        """File that fetches each url."""
        return find_owners(self.study)

    def get_entry(self, source: str, name: str) -> Settings:
        """Return the study's entry of a file."""
        return self.files[source, name].to_dict()

    def get_path(self, source: str, name: str) -> str:
        """Return the path of a raw file: drawn, in a folder of the user's, or fetched."""
        if name == IMAGES and len(self.list_image_parts(source)) > 1:
            return f"{self.results}/sources/raw/{source}/images.txt"
        file = self.files[source, name]
        if file.drawn is not None:
            return self.build_drawn_path(file.drawn)
        if _is_images(name) and file.path is not None:
            return file.path
        if file.url and is_url(file.url) and not get_archive_member(file.url):
            source, name = self.owners[file.url, "file"]
        return f"{self.results}/sources/raw/{source}/{name}/{get_stored_name(self.files[source, name])}"

    def get_own_path(self, source: str, name: str) -> str | list[str]:
        """Return the user's own path of a file, or the list of its images; an empty list where it has a url."""
        file = self.files[source, name]
        return file.path or (self.get_image_list(source) if file.listed else None) or []

    def get_image_list(self, source: str) -> str | None:
        """Return the table of a source's images; None where they are not listed."""
        file = self.files.get((source, IMAGES))
        return find_in_checkout(file.listed) if file and file.listed else None

    def get_archive(self, source: str, name: str) -> str | list[str]:
        """Return the fetched archive that a raw file is a part of; an empty list where it is a file of its own."""
        url = self.files[source, name].url or ""
        if not get_archive_member(url):
            return []
        origin = url.partition("#")[0]
        source, name = self.owners[origin, "archive"]
        return f"{self.results}/sources/archives/{source}/{name}/{get_file_name(origin)}"

    def describe_own_images(self) -> dict[str, str]:
        """Return a digest of each folder of images of the user's own, as Snakemake does not see times in a folder."""
        return {
            path: describe_folder(path)
            for source in self.list_sources_with_images()
            for name in self.list_image_parts(source)
            if (path := self.files[source, name].path) and Path(path).is_dir()
        }

    def build_drawn_path(self, path: str) -> str:
        """Return the path of a drawn file of the embedded world."""
        return f"{self.results}/sources/drawn/{path}"

    def list_image_parts(self, source: str) -> list[str]:
        """Return the names of the places where a source's images lie; none where it has no images."""
        return [name for (owner, name) in self.files if owner == source and _is_images(name)]

    def get_images(self, source: str) -> str:
        """Return the folder, archive or list of a source's images.

        Raises:
            UserError: The study gives none.
        """
        if not self.list_image_parts(source):
            raise UserError(f"study file: sources.{source}.images is missing: models look at the images of {source}")
        return self.get_path(source, IMAGES)

    @cached_property
    def drawn_files(self) -> list[str]:
        """Annotation files of the embedded world that the study uses."""
        descriptions = self.study.cv_probes.descriptions if self.study.cv_probes else None
        files = {self.get_path(*key) for key, file in self.files.items() if file.drawn and not _is_images(key[1])}
        return sorted(files | ({self.build_drawn_path(descriptions.drawn)} if descriptions else set()))

    @cached_property
    def drawn_images(self) -> list[str]:
        """Image folders of the embedded world that the study uses."""
        return sorted({self.get_path(*key) for key, file in self.files.items() if file.drawn and _is_images(key[1])})

    @property
    def drawn_originals(self) -> bool:
        """True where raw files are drawn, so that nothing can be compared with papers."""
        return any(file.drawn for file in self.files.values())

    def list_source_files(self, source: str) -> list[str]:
        """Return the raw files of a source, in the order of the study."""
        return [self.get_path(source, name) for name in self.study.sources[source].files]

    def list_sources_with_images(self) -> list[str]:
        """Return the sources that have images in one place."""
        return [source for source, entry in self.study.sources.items() if entry.images is not None]

    def list_names(self) -> Mapping[str, list[str]]:
        """Return the names of all sources and of all files, for wildcards."""
        return {"source": list(self.study.sources), "part": sorted({name for _, name in self.files})}


def _is_images(name: str) -> bool:
    return name.partition("-")[0] == IMAGES
