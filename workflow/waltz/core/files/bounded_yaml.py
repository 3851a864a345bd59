"""YAML files whose aliases, merges and numbers stay within bounds."""

import re
from pathlib import Path
from typing import Any, NoReturn

import yaml

MAX_REPEATED = 100_000
"""Largest number of values that the aliases of a file may repeat; the largest study has thousands
and no alias.
"""
MAX_DEPTH = 100
"""Largest number of nested levels, with aliases followed."""
MAX_BYTES = 64 * 1024**2
"""Size limit of a file in bytes; the largest file of a study has a quarter of a megabyte."""
MAX_DIGITS = 4000
"""Largest number of digits of a number; Python refuses to read longer ones."""
INTEGER = "tag:yaml.org,2002:int"
"""Tag that YAML gives to integers; `FLOAT` is the tag of other numbers."""
FLOAT = "tag:yaml.org,2002:float"
OCTAL = re.compile("[-+]?0[0-7_]+")
"""Integer that YAML reads in base 8."""


class _BoundedLoader(yaml.SafeLoader):
    """Loader of plain values that counts them before it creates any.

    It refuses a key that occurs twice in a mapping, where YAML would use the last value, and
    numbers like `1:30` and `010`, which YAML would read as 90 in base 60 and 8 in base 8.
    """

    def get_single_node(self) -> yaml.Node | None:
        """Return the tree of the file; refuse a tree that gets too large when its aliases are
        followed.
        """
        node = super().get_single_node()
        if node is None:
            return None
        counts: dict[int, int] = {}
        count = self._count_values(node, counts, 1)
        # `counts` contains each node once; `count` includes a node again for each alias of it.
        if count > len(counts) + MAX_REPEATED:
            raise yaml.YAMLError(f"aliases stand for more than {MAX_REPEATED} values")
        return node

    def _count_values(self, node: yaml.Node, counts: dict[int, int], depth: int) -> int:
        """Return the number of values in a node, including itself.

        Args:
            node: The node.
            counts: Number of values by the id of each visited node; 0 while a node is being
                counted.
            depth: Level of the node, from 1.
        """
        known_count = counts.get(id(node))
        if depth > MAX_DEPTH or known_count == 0:
            _refuse(node, "values are nested too deeply, or in themselves")
        if known_count is not None:
            return known_count
        # 0 marks a node that is being counted: meeting it again means that it holds itself.
        counts[id(node)] = 0
        count = 1
        for child in _list_children(node):
            count += self._count_values(child, counts, depth + 1)
        counts[id(node)] = count
        return count

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """Return the number of a node; refuse numbers in base 60 or 8 and numbers that are too long
        for Python.
        """
        if ":" in node.value:
            _refuse(
                node,
                f"{node.value[:20]} is a number in base 60; write it in quotation marks, or in base 10",
            )
        if node.tag == INTEGER and OCTAL.fullmatch(node.value):
            _refuse(
                node,
                f"{node.value[:20]} is a number in base 8; write it in quotation marks, or without the zero",
            )
        if len(node.value) > MAX_DIGITS:
            _refuse(
                node,
                f"a number of {len(node.value)} digits (expected {MAX_DIGITS} or fewer)",
            )
        # The constructors of PyYAML parse the checked text.
        if node.tag == INTEGER:
            return int(self.construct_yaml_int(node))
        return float(self.construct_yaml_float(node))


def _list_children(node: yaml.Node) -> list[yaml.Node]:
    """Return the entries of a list, or the keys and values of a mapping."""
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        _check_keys(node)
        for key, value in node.value:
            children += [key, value]
    return children


_BoundedLoader.add_constructor(INTEGER, _BoundedLoader.construct_number)
_BoundedLoader.add_constructor(FLOAT, _BoundedLoader.construct_number)


def _check_keys(node: yaml.MappingNode) -> None:
    """Refuse a mapping in which a key occurs twice."""
    lines: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        line = key.start_mark.line + 1
        if key.value in lines:
            raise yaml.YAMLError(
                f"key {key.value!r} stands twice, in lines {lines[key.value]} and {line}"
            )
        lines[key.value] = line


def _refuse(node: yaml.Node, fault: str) -> NoReturn:
    """Raise an error with the line of a node."""
    raise yaml.YAMLError(f"line {node.start_mark.line + 1}: {fault}")


def read_yaml(file: Path) -> Any:
    """Return the content of a YAML file of plain values.

    Args:
        file: A UTF-8 file.
    Raises:
        OSError: The file cannot be read.
        UnicodeDecodeError: The file is not UTF-8.
        yaml.YAMLError: The file is not YAML, is larger than `MAX_BYTES`, or contains a key twice,
            aliases for more than `MAX_REPEATED` values, more than `MAX_DEPTH` levels, or values
            that cannot be read.
    """
    # Check the size before the file is read into memory.
    if file.stat().st_size > MAX_BYTES:
        raise yaml.YAMLError(
            f"it has {file.stat().st_size} bytes (expected {MAX_BYTES} or fewer)"
        )
    text = file.read_text(encoding="utf-8")
    try:
        return yaml.load(text, _BoundedLoader)
    except RecursionError:
        raise yaml.YAMLError("values are nested too deeply, or in themselves") from None
    except yaml.MarkedYAMLError as error:
        # The text of the error quotes the line of the file, which may contain a secret.
        fault = error.problem or error.context
        mark = error.problem_mark or error.context_mark
        if mark:
            fault = f"line {mark.line + 1}, column {mark.column + 1}: {fault}"
        raise yaml.YAMLError(fault) from None
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        OverflowError,
    ) as error:
        # Such as a date of month 13.
        raise yaml.YAMLError(f"a value cannot be read ({error})") from None
