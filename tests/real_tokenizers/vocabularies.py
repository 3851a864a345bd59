"""Vocabularies of released models, from packages: downloaded once, kept in the user's cache folder."""

import functools
import gzip
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import sentencepiece
from filelock import FileLock
from transformers.convert_slow_tokenizer import bytes_to_unicode
from transformers.integrations.gguf import read_gguf_metadata

from waltz.core.files.atomic import replace_folder
from waltz.core.files.packages import download_package
from waltz.models.pretrained import get_user_folder

CACHE = get_user_folder() / "vocabularies"
GGUF_STEMS = {
    "llama2": "llama-spm",
    "falcon": "falcon",
    "gpt2": "gpt-2",
    "qwen2": "qwen2",
    "bert": "bert-bge",
}
"""Files of llama.cpp by the name of the tokenizer; next to each are test strings and their ids."""
STRING_SEPARATOR = "\n__ggml_vocab_test__\n"
NORMAL, CONTROL = 1, 3
"""Kinds of pieces that are not for bytes, unknown or unused."""
CLIP_MERGES = 49152 - 256 - 2
"""Merges that CLIP's vocabulary is made of; the file lists more."""

Merges = Sequence[tuple[str, str]]


class Piece(NamedTuple):
    """A piece of a vocabulary with its score and kind, by SentencePiece's numbers."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class Package:
    """A package that holds vocabularies.

    Attributes:
        sha256: Checksum of the file that is downloaded.
        members: Name in the cache of each file, by its path in the package.
        source: Whether they are in the source distribution, below a folder of the package's name.
    """

    name: str
    version: str
    sha256: str
    members: Mapping[str, str]
    source: bool = False

    @property
    def folder(self) -> Path:
        """Folder of its files in the cache."""
        return CACHE / f"{self.name}-{self.version}"

    def read(self, archive: Path) -> dict[str, bytes]:
        """Return the contents of its files by their names in the cache."""
        if not self.source:
            with zipfile.ZipFile(archive) as wheel:
                return {name: wheel.read(path) for path, name in self.members.items()}
        with tarfile.open(archive) as tar:
            files = {
                entry.name.partition("/")[2]: entry for entry in tar if entry.isfile()
            }
            streams = {
                name: tar.extractfile(files[path])
                for path, name in self.members.items()
            }
            return {
                name: stream.read()
                for name, stream in streams.items()
                if stream is not None
            }


LLAMA_CPP = Package(
    "llama-cpp-python",
    "0.3.36",
    "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
    {
        f"vendor/llama.cpp/models/ggml-vocab-{stem}.gguf{ending}": f"{name}.gguf{ending}"
        for name, stem in GGUF_STEMS.items()
        for ending in ("", ".inp", ".out")
    },
    source=True,
)
MISTRAL_COMMON = Package(
    "mistral-common",
    "1.13.1",
    "98b4d0755b8d90bf4691fa8f1b70cb3b4a8cd4dc1653c4ed08ef3d1c7d2c29af",
    {"mistral_common/data/tokenizer.model.v1": "mistral.model"},
)
OPEN_CLIP = Package(
    "open-clip-torch",
    "3.3.0",
    "c549ad5ed6bfc119cc11105033c0a2b9d7a2a4afeb40a58a09aab3da1a0043ce",
    {"open_clip/bpe_simple_vocab_16e6.txt.gz": "clip.txt.gz"},
)
PACKAGES = (LLAMA_CPP, MISTRAL_COMMON, OPEN_CLIP)


def fetch() -> None:
    """Download the packages that are not in the cache.

    Raises:
        UserError: A package cannot be downloaded, or is another one.
    """
    for package in PACKAGES:
        package.folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{package.folder}.lock"):
            if not package.folder.is_dir():
                advice = f"put {', '.join(package.members.values())} of it into {package.folder}"
                with (
                    download_package(
                        package.name,
                        package.version,
                        package.sha256,
                        advice,
                        package.source,
                    ) as archive,
                    replace_folder(package.folder) as folder,
                ):
                    for name, content in package.read(archive).items():
                        (folder / name).write_bytes(content)


def read_test_strings(name: str) -> list[tuple[str, list[int]]]:
    """Return llama.cpp's test strings for a tokenizer, each with its ids."""
    texts = (
        (LLAMA_CPP.folder / f"{name}.gguf.inp")
        .read_text(encoding="utf-8")
        .split(STRING_SEPARATOR)
    )
    lines = (
        (LLAMA_CPP.folder / f"{name}.gguf.out").read_text(encoding="utf-8").split("\n")
    )
    return [
        (text, [int(word) for word in line.split()])
        for text, line in zip(texts, lines, strict=False)
    ]


@functools.cache
def read_gguf(name: str) -> Mapping[str, Any]:
    """Return the fields of a vocabulary of llama.cpp, without the beginning that their names share."""
    shared = "tokenizer.ggml."
    lists = {f"{shared}tokens", f"{shared}merges"}
    fields, _ = read_gguf_metadata(str(LLAMA_CPP.folder / f"{name}.gguf"), lists)
    return {key.removeprefix(shared): value for key, value in fields.items()}


@functools.cache
def read_llama2() -> tuple[Piece, ...]:
    """Return the pieces of Llama 2."""
    fields = read_gguf("llama2")
    return tuple(map(Piece, fields["tokens"], fields["scores"], fields["token_type"]))


@functools.cache
def read_mistral() -> tuple[Piece, ...]:
    """Return the pieces of Mistral's first tokenizer."""
    pieces = sentencepiece.SentencePieceProcessor(
        model_file=str(MISTRAL_COMMON.folder / "mistral.model")
    )
    special = [pieces.unk_id(), pieces.bos_id(), pieces.eos_id()]
    return tuple(
        Piece(
            pieces.id_to_piece(place),
            pieces.get_score(place),
            CONTROL if place in special or pieces.is_byte(place) else NORMAL,
        )
        for place in range(len(pieces))
    )


def read_byte_level(name: str) -> tuple[dict[str, int], Merges, list[str]]:
    """Return vocabulary, merges and special tokens of a byte-level BPE of llama.cpp; padded rows
    are left out.
    """
    fields = read_gguf(name)
    kinds = dict(zip(fields["tokens"], fields["token_type"], strict=True))
    ids = {
        text: place
        for place, text in enumerate(fields["tokens"])
        if kinds[text] in (NORMAL, CONTROL)
    }
    merges = [
        (first, second)
        for first, second in (merge.split(" ") for merge in fields["merges"])
    ]
    return ids, merges, [text for text in ids if kinds[text] == CONTROL]


def read_bert() -> dict[str, int]:
    """Return the vocabulary of uncased BERT, whose pieces llama.cpp spells with ▁ at the beginning
    of words.
    """
    return {
        _spell_wordpiece(text): place
        for place, text in enumerate(read_gguf("bert")["tokens"])
    }


def _spell_wordpiece(text: str) -> str:
    if text.startswith("▁"):
        return text[1:]
    return text if text.startswith("[") and text.endswith("]") else f"##{text}"


def read_clip() -> tuple[dict[str, int], Merges]:
    """Return vocabulary and merges of CLIP."""
    lines = (
        gzip.decompress((OPEN_CLIP.folder / "clip.txt.gz").read_bytes())
        .decode()
        .split("\n")
    )
    merges = [
        (first, second)
        for first, second in (line.split() for line in lines[1 : CLIP_MERGES + 1])
    ]
    letters = list(bytes_to_unicode().values())
    pieces = [
        *letters,
        *(f"{letter}</w>" for letter in letters),
        *(first + second for first, second in merges),
    ]
    return {
        text: place
        for place, text in enumerate([*pieces, "<|startoftext|>", "<|endoftext|>"])
    }, merges
