"""Prepositions of place that stand before a thing, and others that contradict them.

"A dog near a tree" may be under it as well, so that not every other preposition makes a caption
false. The table has only those that do, for the same things at the same time.
"""

from collections.abc import Iterator

from spacy.tokens import Doc, Span, Token

from waltz.foils.english.nouns import singularize
from waltz.foils.english.numerals import is_denied, is_quoted
from waltz.foils.english.patterns import TokenPattern, contains_one_of
from waltz.foils.english.quantifiable.noun_kinds import is_abstract
from waltz.foils.english.wordnet import read_words

BESIDE = ("far from", "inside", "on top of", "under")
INSIDE = ("outside", "behind", "on top of", "next to")
ON_TOP = ("under", "beside", "next to")
BELOW = ("above", "on top of", "next to")
ABOVE = ("under", "below", "beneath")
CONTRARY = {
    "above": ABOVE,
    "across": ("under",),
    "along": ("away from",),
    "alongside": BESIDE,
    "among": ("above", "far from"),
    "around": ("on top of", "under", "far from"),
    "at": ("above", "under", "far from"),
    "atop": ON_TOP,
    "away from": ("toward",),
    "behind": ("in front of", "on top of"),
    "below": BELOW,
    "beneath": BELOW,
    "beside": BESIDE,
    "between": ("above", "on top of", "under"),
    "by": BESIDE,
    "close to": ("far from",),
    "down": ("up",),
    "far from": ("near", "inside"),
    "in": ("outside", "behind", "above", "under", "next to"),
    "in between": ("above", "on top of", "under"),
    "in front of": ("behind", "on top of", "under"),
    "inside": INSIDE,
    "inside of": INSIDE,
    "near": ("far from",),
    "next to": BESIDE,
    "on": ON_TOP,
    "on top of": ON_TOP,
    "out of": ("into",),
    "outside": ("inside",),
    "outside of": ("inside",),
    "over": ABOVE,
    "toward": ("away from",),
    "towards": ("away from",),
    "under": BELOW,
    "underneath": BELOW,
    "up": ("down",),
    "with": ("without",),
    "within": INSIDE,
}
"""Prepositions that contradict each preposition."""
LONGEST_PREPOSITION = 3

ADPOSITION = TokenPattern(tags=("IN", "RP", "TO"))
PREPOSITION = TokenPattern(relations=("prep",))
OBJECT = TokenPattern(relations=("pobj",), tags=("NN", "NNS"))
PLURAL = TokenPattern(tags=("NNS",))
ARTICLE = TokenPattern(words=("a", "an", "the", "another"), relations=("det",))
POSSESSIVE = TokenPattern(tags=("PRP$",))
# "Without some flowers" and "without two dogs" are no plain denials.
QUANTITY = TokenPattern(tags=("CD", "PDT", "PRP$"))
QUANTITY_WORD = TokenPattern(
    words=(
        "some",
        "many",
        "several",
        "the",
        "multiple",
        "various",
        "few",
        "lot",
        "all",
        "no",
    )
)
PAST = TokenPattern(tags=("VBD", "VBN"))
SLOPES = frozenset((
    "escalator", "hill", "hills", "hillside", "ladder", "mountain", "mountains", "mountainside", "pole", "ramp",
    "slope", "slopes", "staircase", "stairs", "stairway", "steps", "tree",
))  # fmt: skip
"""Things of which an image shows whether one moves up or down."""
NO_PLACES = frozenset((
    "act", "action", "afternoon", "age", "ages", "air", "area", "autumn", "back", "backdrop", "background",
    "black", "bottom", "bunch", "center", "centre", "centuries", "century", "circle", "city", "color",
    "competition", "contest", "corner", "country", "countryside", "couple", "dark", "dawn", "day", "daylight",
    "days", "decade", "decades", "direction", "display", "distance", "dusk", "edge", "end", "evening", "event",
    "fall", "fashion", "fog", "foreground", "form", "front", "game", "glow", "ground", "group", "haze", "hour",
    "hours", "image", "left", "light", "lights", "line", "lot", "lots", "manner", "match", "middle", "minute",
    "minutes", "mist", "mode", "moment", "month", "months", "mood", "moonlight", "morning", "motion", "move",
    "night", "nights", "noon", "number", "other", "others", "outdoors", "pair", "party", "photo", "picture",
    "pose", "position", "process", "rain", "ray", "rays", "right", "row", "rows", "season", "second", "seconds",
    "series", "shade", "shadow", "shape", "shot", "side", "sides", "sky", "smoke", "snow", "spring", "style",
    "summer", "sun", "sunlight", "sunrise", "sunset", "sunshine", "time", "top", "tournament", "town", "trip",
    "turn", "variety", "view", "walk", "way", "weather", "week", "weeks", "while", "white", "wild", "wind",
    "winter", "world", "year", "years",
))  # fmt: skip
"""Nouns behind a preposition that name no place that another preposition could deny."""
CLOTHES = frozenset((
    "attire", "boots", "cap", "clothes", "clothing", "coat", "coats", "costume", "costumes", "dress", "dresses",
    "gear", "glasses", "gloves", "gown", "hat", "hats", "helmet", "helmets", "hoodie", "jacket", "jackets",
    "jeans", "outfit", "outfits", "pants", "robe", "robes", "shirt", "shirts", "shoes", "shorts", "skirt",
    "skis", "suit", "suits", "sunglasses", "sweater", "swimsuit", "tie", "ties", "tuxedo", "uniform",
    "uniforms", "vest", "wetsuit", "wetsuits",
))  # fmt: skip
OPEN_SPACES = frozenset((
    "beach", "branch", "bush", "court", "desert", "field", "forest", "garden", "grass", "hill", "lake", "lawn", "log",
    "meadow", "mountain", "ocean", "park", "pasture", "path", "pond", "pool", "river", "road", "rock", "sand", "sea",
    "sidewalk", "slope", "snow", "stone", "street", "table", "tree", "water", "wave", "yard",
))  # fmt: skip
"""Places next to the things of WordNet's file of artifacts."""
BORDERS = frozenset((
    "bank", "border", "boundary", "brink", "coast", "coastline", "curb", "edge", "lakeside", "perimeter", "rim",
    "riverbank", "shore", "shoreline", "waterfront",
))  # fmt: skip
"""Narrow places: what is on one of them is next to it as well."""
TETHERS = frozenset(("chain", "lead", "leash", "rope", "string"))
"""Things on which an animal is held."""
SURFACES_OR_SPACES = frozenset(
    ("across", "along", "at", "in", "inside", "on", "on top of", "out of", "within")
)
"""Prepositions that also introduce manners, directions and parts."""
SPREADING = frozenset(("dot", "extend", "scatter", "sprawl", "spread", "stretch"))
"""Verbs behind which "across" and "along" say nearly the same."""
VERBS_OF_PREPOSITION = {
    "across": SPREADING,
    "along": SPREADING,
    "at": frozenset((
        "aim", "arrive", "bark", "gaze", "glance", "laugh", "look", "point", "smile", "stare", "swing", "throw",
        "wave",
    )),
    "in": frozenset((
        "be", "coat", "compete", "cover", "cut", "drench", "dress", "engage", "participate", "result", "split",
        "wrap",
    )),
    "on": frozenset((
        "base", "chat", "chew", "concentrate", "depend", "feed", "focus", "put", "rely", "snack", "speak",
        "talk", "try", "work",
    )),
    "out of": frozenset((
        "drink", "eat", "make",
    )),
    "over": frozenset((
        "fight", "look", "preside", "take", "watch",
    )),
    "up": frozenset((
        "hold", "line", "pick", "put", "set",
    )),
    "with": frozenset((
        "agree", "cover", "deal", "fight", "fill", "finish", "go", "interact", "line", "match", "mix", "share",
        "top",
    )),
}  # fmt: skip
"""Verbs that take a preposition for themselves, so that another is no place."""


def find_prepositions(doc: Doc) -> Iterator[Span]:
    """Yield the prepositions of a caption that place a thing at another thing, of one to three
    words.

    "In front of" is one preposition. Particles of verbs, the "to" of an infinitive, prepositions of
    times and idioms, in quotations and in denials are left out.
    """
    index = 0
    while index < len(doc):
        preposition = _match_preposition(doc, index)
        if preposition is not None and _places_thing(preposition):
            yield preposition
        index += len(preposition or " ")


def _match_preposition(doc: Doc, start: int) -> Span | None:
    """Return the longest preposition of the table that begins at a word; None without one."""
    for length in range(LONGEST_PREPOSITION, 0, -1):
        words = doc[start : start + length]
        if words.text.lower() in CONTRARY:
            return words
    return None


def _places_thing(preposition: Span) -> bool:
    """Return True where a preposition stands before a thing, and no other word belongs to it."""
    first, last = preposition[0], preposition[-1]
    if len(preposition) == 1 and not PREPOSITION.matches(last):
        return False
    if ADPOSITION.matches_any(_list_neighbors(preposition)):
        return False
    thing = OBJECT.find(last.children)
    if thing is None or thing.i < last.i:
        return False
    governor = first.head
    if is_quoted(first) or is_denied(governor):
        return False
    name = preposition.text.lower()
    if is_abstract(governor.lower_) or _belongs_to_verb(governor, name):
        return False
    return _is_place(thing, name)


def _list_neighbors(preposition: Span) -> list[Token]:
    """Return the words next to a preposition ("up" in "up on a hill", "from" in "from behind")."""
    doc = preposition.doc
    before = doc[max(preposition.start - 1, 0) : preposition.start]
    return [*before, *doc[preposition.end : preposition.end + 1]]


def _is_place(thing: Token, name: str) -> bool:
    """Return True for a thing of which another preposition than `name` can be false."""
    noun = singularize(thing.lower_)
    if thing.lower_ in NO_PLACES or noun in NO_PLACES:
        return False
    if name in ("up", "down"):
        return thing.lower_ in SLOPES
    if noun in BORDERS:
        return False
    if name == "in" and thing.lower_ in CLOTHES:
        return False
    if name == "on" and noun in TETHERS:
        return False
    if name in ("with", "without"):
        return not _is_quantified(thing)
    if name in SURFACES_OR_SPACES and not _is_known_place(thing):
        return False
    # "by train", "in black", "at night"
    if PLURAL.matches(thing):
        return True
    return contains_one_of(list(thing.children), (ARTICLE, POSSESSIVE))


def _is_known_place(thing: Token) -> bool:
    """Return True for a thing or an open space, but not for a manner or a part ("in an arc")."""
    noun = singularize(thing.lower_)
    return noun in OPEN_SPACES or noun in read_words("things")


def _is_quantified(thing: Token) -> bool:
    """Return True for a thing that "without" denies in part only, or that belongs to someone."""
    return contains_one_of(list(thing.children), (QUANTITY, QUANTITY_WORD))


def _belongs_to_verb(governor: Token, name: str) -> bool:
    """Return True where a preposition belongs to its verb ("looks at", "filled with")."""
    if name in ("with", "by") and PAST.matches(governor):
        return True
    return governor.lemma_ in VERBS_OF_PREPOSITION.get(name, ())
