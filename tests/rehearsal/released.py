"""Files that models are loaded from by url, in small: original checkpoints, archives, lists of answers."""

from collections.abc import Callable, Iterable
from pathlib import Path

from rehearsal.upstream import Files, bare, packed
from waltz.models.registry import ModelSpec

Writer = Callable[[Path], None]
