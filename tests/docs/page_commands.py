"""The commands that the pages tell a reader to type."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = re.compile(r"(?:\w+=\S+ )*(?:waltz|snakemake|pip|python) ")
BLOCK = re.compile(r"^[> ]*```(\w*)\n(.*?)^[> ]*```$", re.MULTILINE | re.DOTALL)
INDENTED_LINE = re.compile(r"^ {4}\S.*$", re.MULTILINE)
INLINE_CODE = re.compile(r"`([^`]+)`")
PLACEHOLDER = re.compile(
    r"…|\.\.\.|<\w+>|\[--|\b(?:NAME|TABLE|STUDY|STAGE|PATH|RUN_ID)\b"
)


def list_page_commands(page: Path) -> list[list[str]]:
    """Return the words of each command on a page: those of blocks, of indented lines, and of the text.

    Commands that `&&` joins are listed one by one. Commands with placeholders, and a program that
    a block passes to Python line by line, are left out.
    """
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = [body for language, body in BLOCK.findall(text) if language != "python"]
    text_without_blocks = BLOCK.sub("", text)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += INDENTED_LINE.findall(text_without_blocks)
    lines += INLINE_CODE.findall(text_without_blocks)
    commands: dict[str, list[str]] = {}
    for line in lines:
        for command in " ".join(line.split()).split(" && "):
            if PROGRAM.match(command) and not PLACEHOLDER.search(command):
                words = split_words(command)
                commands[shlex.join(words)] = words
    return [words for words in commands.values() if words]


def split_words(command: str) -> list[str]:
    """Return the words of a command without variables, comment and redirection; none if it goes on
    in the next line.
    """
    try:
        words = shlex.split(command, comments=True)
    except ValueError:  # a quote that the line does not close
        return []
    while "=" in words[0]:
        del words[0]
    end = words.index(">") if ">" in words else len(words)
    return words[:end]
