"""Layouts of published sets of captions and foils, by the names of their columns, and a user's own mapping.

A layout says which columns hold image, caption and foil. A column is named by a path: `1.POS` is the field `POS` of the
field `1`; within a list, a number is a position, `1:` all entries behind the first, and a name the field of every
entry. One caption with several foils gives a pair for each foil; as many captions as foils give a pair for each two.
"""

import ast
import io
import math
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import filterfalse, product
from operator import itemgetter

from waltz.core.errors import UserError, find_closest, list_names, shorten_value
from waltz.core.files.json_objects import JsonObject, parse_json
from waltz.sources.pair_options import (
    OptionColumns,
    find_option_columns,
    split_options,
)
from waltz.sources.raw_entry import RawEntry
from waltz.sources.tables import IMAGE_NAME

PAIR_COLUMNS = ("image", "caption", "foil")
"""What every pair has."""
OPTIONAL_COLUMNS = ("id", "phenomenon")
"""What a pair may have."""
PHENOMENON_COLUMNS = (
    "phenomenon",
    "linguistic_phenomena",
    "relation_name",
    "collapsed_tag",
)
"""Names of the column of the phenomenon, of waltz, VALSE, ARO and Winoground."""
IMAGE_NAMES = (
    "image",
    "image_path",
    "image_file",
    "filename",
    "file_name",
    "images",
    "image_options",
    "image_name",
    "img",
    "img_path",
    "imagename",
    "image_id",
)
"""Names of the column of the image, in layouts with one image."""
TEXT_NAMES = (
    ("caption", "foil"),
    ("caption", "foils"),
    ("captions", "foils"),
    ("caption", "negative_caption"),
    ("caption", "negative_captions"),
    ("positive_caption", "negative_caption"),
    ("positive", "negative"),
    ("pos", "neg"),
    ("pos_caption", "neg_caption"),
    ("true_caption", "false_caption"),
    ("correct_caption", "incorrect_caption"),
    ("caption", "hard_negatives"),
    ("caption", "hard_negative"),
    ("caption", "hard_neg"),
    ("caption", "negatives"),
    ("caption", "negative"),
)
"""Names of the columns of caption and foil: of waltz and VALSE, SugarCrepe, ARO, What'sUp and others."""
IMAGE_KEYS = ("path", "file_name", "filename", "src")
"""Fields of an image object that hold its name."""
ABSENT = {"", "nan", "none", "null", "na", "n/a", "<na>", "#n/a", "\\n"}
"""Texts that other programs write, in any case of letters, where a value is absent."""
REPRESENTED_LIST = re.compile(r"""\[\s*(?:['"]|array\(|np\.)""")
"""Start of a list as Python, numpy or JSON write it, unlike that of a text in brackets."""
NUMBER = re.compile(r"[_ ]?\d+$")
"""Number behind the name of a column of one of several captions or foils."""
QUESTION_ROW = "no caption and foil but a question or statement; write its right and wrong answer as caption and foil"
TRUTH_NAMES = ("label", "is_foil", "is_correct", "is_true", "correct")
"""Names of a column that says whether the only text of a row is true."""
UNREAD_ROWS: Mapping[tuple[str, ...], str] = {
    ("sentence", "pos_url", "neg_url"): (
        "a sentence with a right and a wrong image, and no foil (SVO-Probes); write a foil for each sentence"
    ),
    **dict.fromkeys(
        product(("caption",), TRUTH_NAMES),
        "a caption with a label, and no foil (as of VSR); write a true and a false caption of an image in one row, or"
        " name the column of the foil (--columns foil=NAME)",
    ),
    ("question",): QUESTION_ROW,
    ("question_0",): QUESTION_ROW,
    ("statement",): QUESTION_ROW,
    ("text", "label"): QUESTION_ROW,
}
"""What rows of published sets hold that are no pairs, and the remedy, by their columns."""
FLAGS = ("true", "false", "0", "1")
"""Values of a column that says whether a text is a foil."""
HAS_LETTER = re.compile(r"[^\W\d_]")
SEARCHED_ROWS = 100
"""Number of the first rows by which a layout is chosen: a value may be absent in some."""
REST = re.compile(r"(\d+):")
"""Part of a path that names the entries of a list from a position on."""


@dataclass(frozen=True, slots=True)
class PairLayout:
    """Layout of a file of pairs.

    Attributes:
        name: Name of the set, for messages.
        columns: For each pair of a row: the paths of image, caption and foil.
        phenomenon: Columns of the phenomenon; the first with a value counts.
        ignored: Columns that mean something that is not done, with what that is.
        may_lack: Whether a row may lack some of its pairs; the columns of the first show the layout.
        options: Columns of options and answer, of a file that has them in place of captions and foils.
    """

    name: str
    columns: tuple[tuple[str, str, str], ...]
    phenomenon: tuple[str, ...] = PHENOMENON_COLUMNS
    ignored: Mapping[str, str] = field(default_factory=dict)
    may_lack: bool = False
    options: OptionColumns | None = None

    @property
    def paths(self) -> list[str]:
        """Return the paths of all columns that a row must have."""
        pairs = self.columns[:1] if self.may_lack else self.columns
        return [path for pair in pairs for path in pair]

    @property
    def is_crossed(self) -> bool:
        """Return whether a row has two images, of which each has the caption of the other as foil."""
        if len(self.columns) != 2:
            return False
        (image_a, caption_a, foil_a), (image_b, caption_b, foil_b) = self.columns
        return image_a != image_b and (caption_a, foil_a) == (foil_b, caption_b)


NO_BOXES = "boxes are not cut out; the whole image is used"
NO_ANSWER = (
    "no column says which option is the caption; the first counts, as in What'sUp (ARO's classes put it last): add"
    " correct_option, counted from 0, where it is another"
)
IGNORED = {"mturk": "votes are not read; all items count", "bbox_x": NO_BOXES}
CROP = {"x": NO_BOXES}
ROWS = PairLayout("rows of image, caption and foil", (("0", "1", "2"),))
"""Layout of lists of three texts."""

NUMBERS_OF_TWO = (
    *(("_0", "_1"), ("0", "1"), ("_1", "_2"), ("1", "2")),
    *(("_a", "_b"), ("_left", "_right")),
)
"""Ends of the names of columns of two images: of Winoground and VisMin, EqBen, ColorSwap and others."""
LAYOUTS = (
    PairLayout(
        "BiVLC",
        (
            ("image", "caption", "negative_caption"),
            ("negative_image", "negative_caption", "caption"),
        ),
    ),
    *(
        PairLayout("one image", ((image, *texts),), ignored=IGNORED)
        for image, texts in product(IMAGE_NAMES, TEXT_NAMES)
    ),
    *(
        PairLayout(
            "two images",
            (
                (f"image{first}", f"{text}{first}", f"{text}{second}"),
                (f"image{second}", f"{text}{second}", f"{text}{first}"),
            ),
        )
        for (first, second), text in product(NUMBERS_OF_TWO, ("caption", "text"))
    ),
    PairLayout(
        "BLA",
        (
            ("image_id", "caption_group.True1", "caption_group.False1"),
            ("image_id", "caption_group.True2", "caption_group.False2"),
        ),
        may_lack=True,
    ),
    PairLayout("VL-CheckList", (("0", "1.POS", "1.NEG"),)),
    PairLayout("CREPE", (("image_id", "caption", "hard_negs"),), ignored=CROP),
    PairLayout(
        "CREPE", (("image_id", "caption", "valid_hard_negs_combined"),), ignored=CROP
    ),
    PairLayout(
        "CREPE", (("image_id", "caption", "valid_hard_negs_atom"),), ignored=CROP
    ),
    PairLayout(
        "CREPE", (("image_id", "caption", "valid_hard_negs_comp"),), ignored=CROP
    ),
    ROWS,
)
"""Known layouts; the first whose columns a row has is its layout, so that a layout stands before those with fewer
columns.
"""


@dataclass(frozen=True, slots=True)
class FoundPair:
    """A pair of a row.

    Attributes:
        number: Position of the pair within its row, from 1; None where the row has one pair.
        image: Name of the image.
        caption: The caption, as the file has it.
        foil: The foil, as the file has it.
    """

    number: int | None
    image: object
    caption: object
    foil: object


def choose_layout(rows: Sequence[RawEntry], columns: Mapping[str, str]) -> PairLayout:
    """Return the layout of a file by the columns of its first rows.

    Args:
        rows: All rows.
        columns: The user's mapping: path of a column for `image`, `caption`, `foil`, `id` or `phenomenon`.
    Raises:
        UserError: The rows are of a published set without foils.
    """
    if columns:
        layout = _map_columns(columns)
    else:
        names = _join_names(rows[:SEARCHED_ROWS])
        layout = (
            _number_columns(names)
            or _find_layout(names)
            or _build_option_layout(names)
            or _find_empty_layout(names)
            or _guess_layout(rows[0])
        )
    _check_foils(rows[:SEARCHED_ROWS], layout)
    return layout


def _map_columns(columns: Mapping[str, str]) -> PairLayout:
    """Return the layout of a user's mapping."""
    image, caption, foil = (columns.get(name, name) for name in PAIR_COLUMNS)
    phenomenon: tuple[str, ...] = PHENOMENON_COLUMNS
    if "phenomenon" in columns:
        phenomenon = (columns["phenomenon"],)
    return PairLayout("own columns", ((image, caption, foil),), phenomenon)


def _check_foils(rows: Sequence[RawEntry], layout: PairLayout) -> None:
    """Refuse rows of one text each, whose `foil` is true or 1 where it is a foil."""
    ((_, caption, foil), *_) = layout.columns
    flags = [_follow(row.fields, foil) for row in rows]
    captions = [_follow(row.fields, caption) for row in rows]
    are_flags = all(str(flag).strip().lower() in FLAGS for flag in flags)
    # A caption may be a number, and its foil another one.
    are_texts = all(
        isinstance(text, str) and HAS_LETTER.search(text) for text in captions
    )
    if are_flags and are_texts:
        raise UserError(
            f"{rows[0].location}: {foil!r} says whether the caption is one (got {flags[0]!r}), and is no foil (as in"
            " FOIL-COCO); write caption and foil in one row, or name FOIL-COCO's files in a study: format foil-it"
        )


def _join_names(rows: Sequence[RawEntry]) -> JsonObject:
    """Return the first value of every column that is not null, by its folded name; null where all are."""
    names: JsonObject = {}
    for row in rows:
        for name, value in fold_names(row.fields).items():
            if names.get(name) is None:
                names[name] = value
    return names


def _find_layout(names: JsonObject) -> PairLayout | None:
    """Return the first known layout whose columns a file has."""
    for layout in LAYOUTS:
        is_other = layout is ROWS and not _is_row(names)
        if not is_other and all(has_column(names, path) for path in layout.paths):
            return layout
    return None


def _is_row(names: JsonObject) -> bool:
    """Return whether values without names are an image and two texts: no other value, and no other order."""
    # A fourth value may be anything, such as another image.
    if len(names) != len(PAIR_COLUMNS):
        return False
    texts = f"{names.get('1')}\n{names.get('2')}"
    return not any(map(IMAGE_NAME.search, texts.split("\n")))


def _find_empty_layout(names: JsonObject) -> PairLayout | None:
    """Return the first known layout whose columns a file has, some with nothing but null, so that a message names
    them.
    """
    null_columns = {name for name, value in names.items() if value is None}
    if not null_columns:
        return None
    for layout in LAYOUTS:
        missing_columns = filterfalse(partial(has_column, names), layout.paths)
        if null_columns.issuperset(missing_columns):
            return layout
    return None


def _number_columns(names: JsonObject) -> PairLayout | None:
    """Return the layout of a file with numbered columns, such as `foil1` and `foil2`, or `caption` and `caption2`."""
    image = next(filter(names.get, IMAGE_NAMES), None)
    if image is None:
        return None
    for caption, foil in TEXT_NAMES:
        captions = _list_numbered(names, caption)
        foils = _list_numbered(names, foil)
        is_numbered = [*captions, *foils] != [caption, foil]
        if not (captions and foils and is_numbered):
            continue
        # One caption belongs to all foils, and one foil to all captions.
        if len(captions) == 1:
            captions *= len(foils)
        if len(foils) == 1:
            foils *= len(captions)
        if len(captions) == len(foils):
            columns = [(image, *texts) for texts in zip(captions, foils, strict=True)]
            return PairLayout("numbered columns", tuple(columns), may_lack=True)
    return None


def _list_numbered(names: JsonObject, name: str) -> list[str]:
    """Return the columns that have a name, with or without a number behind it."""
    return [
        column
        for column, value in names.items()
        if value is not None and NUMBER.sub("", column) == name
    ]


def _build_option_layout(names: JsonObject) -> PairLayout | None:
    """Return the layout of a file with options, of which an answer says which is the caption."""
    image = next(filter(names.get, IMAGE_NAMES), None)
    options = find_option_columns(names)
    if image is None or options is None:
        return None
    texts = (options.options[0], options.options[-1])
    ignored = {}
    if options.answer is None:
        ignored = {options.options[0]: NO_ANSWER}
    return PairLayout("options", ((image, *texts),), ignored=ignored, options=options)


def _guess_layout(row: RawEntry) -> PairLayout:
    """Return the layout of the columns that a row has of known ones, for a message about the missing one.

    Raises:
        UserError: The row is of a published set without foils.
    """
    names = fold_names(row.fields)
    for columns, fault in UNREAD_ROWS.items():
        if names.keys() >= set(columns):
            raise UserError(f"{row.location}: {fault}")
    known_names = {
        "image": IMAGE_NAMES,
        "caption": map(itemgetter(0), TEXT_NAMES),
        "foil": map(itemgetter(1), TEXT_NAMES),
    }
    closest: list[str] = []
    for role, known in known_names.items():
        closest.append(next(filter(names.__contains__, known), role))
    image, caption, foil = closest
    return PairLayout("pairs", ((image, caption, foil),))


def fold_names(fields: JsonObject) -> JsonObject:
    """Return the fields by their names without blanks around them and in small letters."""
    # Names that differ only in case stay apart.
    folded = {str(name).strip().lower(): value for name, value in fields.items()}
    if len(folded) < len(fields):
        return dict(fields)
    return folded


def has_column(names: JsonObject, path: str) -> bool:
    """Return whether a row has the column that a path names."""
    return _follow(names, path) is not None


def _follow(value: object, path: str) -> object:
    """Return the value that a path names, None where it is missing or null."""
    for part in path.split("."):
        value = _get_part(value, part)
    return value


def _get_part(value: object, part: str) -> object:
    rest = REST.fullmatch(part)
    if isinstance(value, dict):
        return fold_names(value).get(part.strip().lower())
    if not isinstance(value, list):
        return None
    if rest:
        return value[int(rest[1]) :] or None
    if part.isdecimal():
        return next(iter(value[int(part) :]), None)
    # A name is a field of every entry; a missing one stays as null.
    entries = [_get_part(entry, part) for entry in value]
    if entries.count(None) == len(entries):
        return None
    return entries


def read_optional(row: RawEntry, path: str) -> object:
    """Return an optional value of a row; None where it is missing, null, empty or not a number (NaN)."""
    value = _follow(row.fields, path)
    return None if is_absent(value) else value


def is_absent(value: object) -> bool:
    """Return whether a value is null, not a number (NaN), blank, or a word that stands for these."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and value.strip().lower() in ABSENT)


def spell_number(value: object) -> object:
    """Return a number as its text, as which a CSV file holds it; any other value as it is."""
    if isinstance(value, bool):
        return value
    # A column of whole numbers with gaps has floating-point numbers.
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float) and math.isfinite(value):
        return str(value)
    return value


def find_pairs(row: RawEntry, layout: PairLayout) -> Iterator[FoundPair]:
    """Yield the pairs of a row.

    Raises:
        UserError: The row lacks a column, or has not as many captions as foils.
    """
    names = fold_names(row.fields)
    if not layout.may_lack:
        _check_columns(row, names, layout)
    pairs: list[tuple[object, object, object]] = []
    for paths in layout.columns:
        image, caption, foil = (_follow(names, path) for path in paths)
        if layout.options is not None:
            caption, foil = _read_options(row, names, layout.options)
        _check_separator(row, paths[2], foil)
        captions = _read_list(caption, row.location)
        foils = _read_list(foil, row.location)
        pairs += _combine(row, _read_only(image), captions, foils)
    if layout.may_lack:
        complete = list(filter(_has_texts, pairs))
        if not complete:
            _check_columns(row, names, layout)
        pairs = complete or pairs
    if len(pairs) == 1:
        yield FoundPair(None, *pairs[0])
        return
    for number, pair in enumerate(pairs, 1):
        yield FoundPair(number, *pair)


def _read_options(
    row: RawEntry, names: JsonObject, columns: OptionColumns
) -> tuple[object, list[object]]:
    """Return the caption and the foils of a row of options."""
    texts: object = [names.get(column) for column in columns.options]
    if len(columns.options) == 1:
        texts = _read_list(names.get(columns.options[0]), row.location)
    answer = None
    if columns.answer is not None:
        answer = names.get(columns.answer)
    return split_options(_make_list(texts), columns, answer, row.location)


def _check_columns(row: RawEntry, names: JsonObject, layout: PairLayout) -> None:
    """Raise an error for the first missing column of a layout."""
    for paths in layout.columns:
        for role, path in zip(PAIR_COLUMNS, paths, strict=True):
            if path.split(".")[0].strip().lower() not in names:
                raise _build_missing_error(row, path, role)


def _read_only(image: object) -> object:
    """Return the only image of a list of one, and of an object the name that it holds."""
    if isinstance(image, list) and len(image) == 1:
        (image,) = image
    if isinstance(image, dict):
        names = (image.get(key) for key in IMAGE_KEYS)
        return next(filter(None, names), image)
    return image


def _check_separator(row: RawEntry, path: str, foils: object) -> None:
    """Refuse a text of several foils with separators of its own between them."""
    if path.endswith("s") and isinstance(foils, str) and "|" in foils:
        raise UserError(
            f"{row.location}: {path!r} has texts with | between them; write them as a list of JSON, or in columns"
            " foil1, foil2 and so on"
        )


def _read_list(value: object, location: str) -> object:
    """Return a list of texts that a CSV file holds as the text of a JSON, Python or numpy list; any other value as it
    is.

    Raises:
        UserError: The text begins as such a list, and is none.
    """
    if not (isinstance(value, str) and value.startswith("[") and value.endswith("]")):
        return value
    for parse in (parse_json, _parse_represented_list):
        try:
            texts = parse(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        is_list = isinstance(texts, list)
        if is_list and all(isinstance(text, str | None) for text in texts):
            return texts
    if REPRESENTED_LIST.match(value):
        raise UserError(
            f"{location}: a list cannot be read (got {shorten_value(repr(value))}); write it as JSON"
        )
    return value


def _parse_represented_list(text: str) -> list[object]:
    """Return the entries of a list as Python or numpy write it; numpy puts no commas between texts, which Python itself
    reads as one text.

    Raises:
        ValueError: The text is no flat list of texts.
    """
    entries: list[object] = []
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except tokenize.TokenError as error:
        raise ValueError(str(error)) from None
    for number, token in enumerate(tokens):
        if token.type == tokenize.STRING:
            entries.append(ast.literal_eval(token.string))
        elif token.string in ("None", "nan"):
            entries.append(None)
        elif token.string.strip() not in ",]" and (number or token.string != "["):
            raise ValueError(f"{token.string!r} is no text")
    return entries


def _combine(
    row: RawEntry, image: object, caption: object, foil: object
) -> list[tuple[object, object, object]]:
    """Return the pairs of captions and foils, of which each is a text or a list of texts."""
    if not isinstance(caption, list) and not isinstance(foil, list):
        return [(image, caption, foil)]
    captions = _make_list(caption)
    foils = _make_list(foil)
    # One caption belongs to all foils.
    n_captions = len(captions)
    if n_captions == 1 and foils:
        captions = captions * len(foils)
    if len(captions) != len(foils) or not foils:
        raise UserError(
            f"{row.location}: {n_captions} captions and {len(foils)} foils; write as many captions as foils, or"
            " one caption"
        )
    pairs = [(image, *texts) for texts in zip(captions, foils, strict=True)]
    # Lists of one length for all rows have entries without a text.
    return list(filter(_has_texts, pairs)) or pairs


def _has_texts(pair: tuple[object, object, object]) -> bool:
    """Return whether a pair has both its texts; the word `none` may be one."""
    _, *texts = pair
    absent = filter(is_absent, texts)
    return all(str(text).lower() == "none" and text is not None for text in absent)


def _make_list(value: object) -> list[object]:
    """Return a list as it is, and any other value as the only one of a list."""
    if isinstance(value, list):
        return value
    return [value]


def _find_nested(row: RawEntry, path: str) -> str:
    """Return the path of a field within an object of a row; empty where no object has it."""
    for name, value in row.fields.items():
        if isinstance(value, dict) and path in value:
            return f"{name}.{path}"
    return ""


def _build_missing_error(row: RawEntry, path: str, role: str) -> UserError:
    """Return the error about a missing column, with the name that is most like it."""
    got = list(map(str, row.fields))
    hint = ""
    alike = list(filter(re.compile(role, re.IGNORECASE).search, got))
    # Of several names with the same word any may be meant.
    closest = _find_nested(row, path)
    if not closest and len(alike) < 2:
        closest = find_closest(path.lower(), map(str.lower, got))
    if closest:
        hint = f"; did you mean {closest!r}?"
    return UserError(
        f"{row.location}: {path!r} is missing (got {list_names(got, 'and')}){hint}; name the column of the {role}"
        f" (--columns {role}=NAME, or `columns` in a study)"
    )
