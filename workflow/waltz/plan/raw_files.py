"""Raw files of a study: their paths, and the entry that fetches a file shared by several entries."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TypeVar

from waltz.core.downloads.urls import get_archive_member, get_url_file_name
from waltz.core.errors import UserError
from waltz.plan.study import File, Settings, Study

IMAGES = "images"
"""Name under which the images of a source are listed among its files."""

Entry = TypeVar("Entry")
Key = tuple[str, str]
"""Name of a source and name of one of its files."""


def list_files(study: Study) -> dict[Key, File]:
    """Return the entry of every file of every source.

    The images of a source are called `images`. If they come in several archives or folders, these
    are called `images-1` and so on, and `images` is missing.
    """
    files = {}
    for source, entry in study.sources.items():
        for name, file in name_files(entry.files, entry.images).items():
            files[source, name] = file
    return files


def name_files(
    files: Mapping[str, Entry], images: Entry | list[Entry] | None
) -> dict[str, Entry]:
    """Return the entries of the files and images of one source by name."""
    named = dict(files)
    # Several archives or folders of images are numbered from 1.
    if isinstance(images, list):
        for number, entry in enumerate(images, 1):
            named[f"{IMAGES}-{number}"] = entry
    elif images is not None:
        named[IMAGES] = images
    return named


def find_owners(study: Study) -> dict[tuple[str, str], Key]:
    """Return for each url the first file that names it; this file fetches the url for all others.

    Returns:
        Source and name of the file. Keys are the url without the part after #, and `archive` if
        files inside the url's archive are meant, else `file`.
    Raises:
        UserError: Two files state different checksums for the same url.
    """
    owners: dict[tuple[str, str], Key] = {}
    files = list_files(study)
    for key, file in files.items():
        if file.url is None:
            continue
        url = file.address.partition("#")[0]
        # An archive of which only members are used is stored apart from the same archive as a
        # whole.
        content = "archive" if get_archive_member(file.address) else "file"
        first = owners.setdefault((url, content), key)
        if files[first].sha256 != file.sha256:
            raise UserError(
                f"study file: sources.{'.'.join(key)}.sha256: sources.{'.'.join(first)} gives the same url another one;"
                " correct one of them"
            )
    return owners


def get_stored_name(file: File) -> str:
    """Return the name under which a raw file is stored: the last part of its path, url, or path
    inside an archive.
    """
    # Single images that are fetched one by one are stored in one archive.
    if file.listed is not None:
        return "images.zip"
    if file.path is not None:
        return file.path.rstrip("/").rsplit("/", 1)[-1]
    url = file.address
    return Path(get_archive_member(url)).name or get_url_file_name(url)


@cache
def describe_folder(folder: str) -> str:
    """Return a digest of the names, sizes and times of all files below a folder; a process reads it
    only once.
    """
    digest = hashlib.sha256()
    for file in _list_entries(folder):
        # The target of a link may be missing.
        state = file.stat(follow_symlinks=file.is_file())
        digest.update(f"{file.path}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _list_entries(folder: str) -> Iterator["os.DirEntry[str]"]:
    """Yield all files below a folder, sorted by name."""
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
        results: Folder of the study's results.
    """

    study: Study
    results: str

    @cached_property
    def files(self) -> dict[Key, File]:
        """Return the entry of every file."""
        return list_files(self.study)

    @cached_property
    def owners(self) -> dict[tuple[str, str], Key]:
        """Return for each url the file that fetches it; see `find_owners`."""
        return find_owners(self.study)

    def get_entry(self, source: str, name: str) -> Settings:
        """Return the study's entry of a file with its full url, which may contain a key: for jobs
        that fetch it.
        """
        file = self.files[source, name]
        entry = file.to_dict()
        if file.url:
            # `to_dict` has only the name of the url.
            entry["url"] = file.url
        return entry

    def get_path(self, source: str, name: str) -> str:
        """Return the path of a raw file: of a drawn file, of the user's images, or of a fetched
        file.

        Several archives or folders of images are listed in the file `images.txt`.
        """
        # Images in several archives or folders: jobs read a file that lists them.
        if name == IMAGES and len(self.list_image_parts(source)) > 1:
            return f"{self.results}/sources/raw/{source}/images.txt"
        file = self.files[source, name]
        if file.drawn is not None:
            return self.build_drawn_path(file.drawn)
        # Images of the user stay in their folder; other files of the user are copied and checked.
        if _is_images(name) and file.path is not None:
            return file.path
        # If several files name one url, the first of them fetches it. A member of an archive is
        # stored separately.
        is_member = bool(get_archive_member(file.address))
        if file.url and not is_member:
            source, name = self.owners[file.address, "file"]
        return f"{self.results}/sources/raw/{source}/{name}/{get_stored_name(self.files[source, name])}"

    def get_user_path(self, source: str, name: str) -> str | list[str]:
        """Return the user's path of a file, or the table of its listed images; an empty list if it
        has a url.
        """
        file = self.files[source, name]
        if file.path:
            return file.path
        if file.listed:
            return self.get_listed_images(source)
        return []

    def get_archive(self, source: str, name: str) -> str | list[str]:
        """Return the path of the fetched archive that contains a raw file; an empty list if no
        archive contains it.
        """
        url = self.files[source, name].address
        # Only a url with a path after # denotes a member of an archive.
        if not get_archive_member(url):
            return []
        origin = url.partition("#")[0]
        source, name = self.owners[origin, "archive"]
        return f"{self.results}/sources/archives/{source}/{name}/{get_url_file_name(origin)}"

    def describe_user_images(self) -> dict[str, str]:
        """Return a digest of each of the user's folders of images, by path.

        Snakemake sees the time of a folder, but not the times of the files in it.
        """
        digests = {}
        for source in self.list_sources_with_images():
            for name in self.list_image_parts(source):
                path = self.files[source, name].path
                # Snakemake sees the time of a file, so archives need no digest.
                if path and Path(path).is_dir():
                    digests[path] = describe_folder(path)
        return digests

    def build_drawn_path(self, path: str) -> str:
        """Return the path of a drawn file of the embedded world."""
        return f"{self.results}/sources/drawn/{path}"

    def list_image_parts(self, source: str) -> list[str]:
        """Return the names of the archives or folders with the images of a source; empty if it has
        no images.
        """
        return [
            name for (owner, name) in self.files if owner == source and _is_images(name)
        ]

    def list_image_paths(self, source: str) -> list[str]:
        """Return the paths of the archives or folders with the images of a source."""
        return [self.get_path(source, name) for name in self.list_image_parts(source)]

    def get_listed_images(self, source: str) -> str | list[str]:
        """Return the path of the table that lists the images of a source; an empty list if there is
        no such table.
        """
        file = self.files.get((source, IMAGES))
        if file is None or file.listed is None:
            return []
        return file.listed

    @cached_property
    def drawn_files(self) -> list[str]:
        """Return the annotation files of the embedded world that the study uses."""
        files = set(self._list_drawn(images=False))
        probes = self.study.cv_probes
        # Drawn plain captions of CV-Probes are not a file of a source.
        if probes and probes.descriptions:
            files.add(self.build_drawn_path(probes.descriptions.drawn))
        return sorted(files)

    @cached_property
    def drawn_images(self) -> list[str]:
        """Return the image folders of the embedded world that the study uses."""
        return sorted(set(self._list_drawn(images=True)))

    @property
    def drawn_originals(self) -> bool:
        """Return whether raw files are drawn, so that no result can be compared with papers."""
        return any(file.drawn for file in self.files.values())

    def _list_drawn(self, images: bool) -> Iterator[str]:
        """Yield the paths of drawn folders of images, or of all other drawn files."""
        for (source, name), file in self.files.items():
            if file.drawn and _is_images(name) == images:
                yield self.get_path(source, name)

    def get_format(self, source: str) -> str:
        """Return the format of a source."""
        return self.study.sources[source].format

    def list_source_names(self, source: str) -> list[str]:
        """Return the names of a source's files, in the order of the study."""
        return list(self.study.sources[source].files)

    def list_source_files(self, source: str) -> list[str]:
        """Return the raw files of a source, in the order of the study."""
        return [
            self.get_path(source, name) for name in self.study.sources[source].files
        ]

    def list_sources_with_images(self) -> list[str]:
        """Return the sources that have images."""
        return [
            source
            for source, entry in self.study.sources.items()
            if entry.images is not None
        ]

    def list_names(self) -> Mapping[str, list[str]]:
        """Return the names of all sources and of all files, the values of the wildcards `source`
        and `part`.
        """
        return {
            "source": list(self.study.sources),
            "part": sorted({name for _, name in self.files}),
        }


def _is_images(name: str) -> bool:
    """Return whether a name of a file denotes images: `images`, `images-1` and so on."""
    return name.partition("-")[0] == IMAGES
