"""Rows that hold several texts about an image, of which an answer says which is the caption; all others are foils."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from waltz.core.errors import UserError, shorten_value
from waltz.core.files.json_objects import JsonObject
from waltz.core.text_diff import fold_text

FIRST_IS_CAPTION = "caption_options"
"""Column of options of which the first is the caption where the file has no answers, as in What'sUp."""
LISTS = (
    FIRST_IS_CAPTION,
    "options",
    "choices",
    "candidates",
    "captions",
    "texts",
    "sentences",
)
"""Names of columns of a list of options."""
NUMBERED = ("caption", "text", "sentence", "option", "choice", "candidate")
"""Names of columns of one option each, behind which its number or letter stands."""
ANSWERS = (
    "correct_option",
    "correct_option_index",
    "correct_option_id",
    "correct_index",
    "correct_idx",
    "correct_caption",
    "correct_answer",
    "correct",
    "answer_index",
    "answer_idx",
    "answer_key",
    "answerkey",
    "answer",
    "true_caption",
    "ground_truth",
    "gold",
    "target",
    "labels",
    "label",
)
"""Names of columns that say which option is the caption; the first that a file has counts."""
SUFFIX = re.compile(r"(?P<name>.+?)[_ ]?(?P<key>\d+|[a-e])")
"""Name of a column of one option: `caption_0`, `option b`."""
ENCLOSING = "().: "
"""Characters around the letter of an option: `(B)`, `B.`."""


@dataclass(frozen=True, slots=True)
class OptionColumns:
    """Columns of options and answer.

    Attributes:
        options: The column of a list of options, or one column for each option.
        answer: The column that says which is the caption; None where the first is.
    """

    options: tuple[str, ...]
    answer: str | None


def find_option_columns(names: JsonObject) -> OptionColumns | None:
    """Return the columns of options and answer of a file; None where it has none.

    Args:
        names: A value of each column, by its folded name; null where no row has a value.
    """
    # Options of a question are no captions.
    if any(name.startswith("question") for name in names):
        return None
    answer = next(filter(names.__contains__, ANSWERS), None)
    column = next(filter(names.get, LISTS), None)
    if column is None:
        options = _list_numbered(names)
    else:
        options = (column,)
    has_answer = answer is not None or column == FIRST_IS_CAPTION
    if not options or not has_answer:
        return None
    return OptionColumns(options, answer)


def _list_numbered(names: JsonObject) -> tuple[str, ...]:
    """Return the columns of one option each, at least two; none where a file has none."""
    for name in NUMBERED:
        matches = {column: SUFFIX.fullmatch(column) for column in names}
        # Columns stand in the order of their numbers or letters, wherever the file has them.
        keys = {
            match["key"]: column
            for column, match in matches.items()
            if match and match["name"] == name
        }
        if len(keys) > 1:
            return tuple(keys[key] for key in sorted(keys, key=_pad_number))
    return ()


def _pad_number(key: str) -> str:
    """Return a key by which numbers are sorted by their size."""
    return key.zfill(9)


def split_options(
    texts: Sequence[object], columns: OptionColumns, answer: object, location: str
) -> tuple[object, list[object]]:
    """Return the caption among the options of a row, and its foils.

    Args:
        texts: All options in their order; None or an empty text is no option.
        answer: Position from 0, or the number of its column; letter; the option itself; or one flag for each option.
        location: The row, for messages.
    Raises:
        UserError: The answer is missing, or names none of the options.
    """
    numbered = enumerate(texts)
    options = {number: text for number, text in numbered if not _is_empty(text)}
    if len(options) < 2:
        raise UserError(
            f"{location}: {columns.options[0]!r} has {len(options)} options; write at least two"
        )
    correct = 0
    if columns.answer is not None:
        correct = _find_correct(options, columns, answer, location)
    caption = options.pop(correct)
    return caption, list(options.values())


def _find_correct(
    options: dict[int, object], columns: OptionColumns, answer: object, location: str
) -> int:
    """Return the number of the option that an answer names."""
    if isinstance(answer, list):
        answer = _read_flags(answer, len(options))
    if _is_empty(answer):
        raise UserError(
            f"{location}: {columns.answer!r} is missing or empty; write which option is the caption"
        )
    text = str(answer)
    for number, option in options.items():
        if isinstance(option, str) and fold_text(option) == fold_text(text):
            return number
    # A caption may be a number or letter itself, so that texts are compared first.
    spellings = {number: _list_spellings(number, columns.options) for number in options}
    # Tables with gaps write whole numbers with a fraction.
    folded = text.removesuffix(".0").strip(ENCLOSING).lower()
    for number, names in spellings.items():
        if folded in names:
            return number
    expected = [names[0] for names in spellings.values()]
    raise UserError(
        f"{location}: {columns.answer!r} names none of {len(options)} options (got {shorten_value(repr(text))},"
        f" expected {expected[0]} to {expected[-1]}, a letter from A on, or the option itself); correct it"
    )


def _list_spellings(number: int, columns: Sequence[str]) -> list[str]:
    """Return the names of an option: its number, its letter, and its column if it has one of its own."""
    letter = chr(ord("a") + number)
    if len(columns) == 1:
        return [str(number), letter]
    column = columns[number]
    match = SUFFIX.fullmatch(column)
    key = match["key"] if match else ""
    if key.isdecimal():
        return [str(int(key)), letter, column]
    return [str(number), key, column]


def _is_empty(value: object) -> bool:
    """Return whether a value is null or a text without content."""
    return value is None or (isinstance(value, str) and not value.strip())


def _read_flags(answer: Sequence[object], n_options: int) -> object:
    """Return the position of the only true flag of as many as options, and the only entry of a list of one.

    Any other list is returned as it is, and names no option.
    """
    if len(answer) == 1:
        return answer[0]
    flags = set(map(str, answer))
    are_flags = flags in ({"0", "1"}, {"-1", "1"}, {"False", "True"})
    if len(answer) == n_options and are_flags and answer.count(True) == 1:
        return answer.index(True)
    return answer
