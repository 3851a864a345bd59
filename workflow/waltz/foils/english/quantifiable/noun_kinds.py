"""Kinds of nouns: beings, pictures, and what is abstract or not counted.

WordNet says most of it. The lists of words come from captions of COCO, Flickr30k and other origins
of which samples were read and judged, unless a list names another source.
"""

from collections.abc import Collection

from inflect import pl_sb_uninflected_complete, pl_sb_uninflected_endings
from spacy.tokens import Token

from waltz.foils.english.noun_phrases import PEOPLE
from waltz.foils.english.nouns import singularize
from waltz.foils.english.wordnet import read_words

UNCOUNTABLE = frozenset({
    *pl_sb_uninflected_complete, *pl_sb_uninflected_endings,
    # Things without a singular.
    "athletics", "badlands", "belongings", "billiards", "binoculars", "breeches", "briefs", "cattle", "clippers",
    "clothes", "clothing", "contents", "coveralls", "dungarees", "earphones", "eyeglasses", "fatigues", "festivities",
    "glasses", "goggles", "goods", "groceries", "gymnastics", "headphones", "headquarters", "italics", "jeans",
    "khakis", "knickers", "leftovers", "leggings", "livestock", "others", "outskirts", "overalls", "pajamas", "pants",
    "pliers", "police", "poultry", "premises", "pyjamas", "remains", "scrubs", "seconds", "shears", "shorts", "slacks",
    "spectacles", "stairs", "sunglasses", "surroundings", "suspenders", "sweatpants", "thanks", "tights", "tongs",
    "trousers", "tweezers", "underpants", "whereabouts", "woods",
    # Things without a plural.
    "advice", "air", "apparel", "armor", "armour", "art", "bacon", "bamboo", "bread", "brickwork", "broccoli", "bronze",
    "butter", "cash", "celery", "cement", "cheese", "chaos", "chrome", "clay", "coffee", "copper", "corn", "cutlery",
    "daylight", "dirt", "dust", "evidence", "fabric", "fire", "flour", "foam", "foliage", "food", "fog", "footage",
    "fun", "fur", "garbage", "garlic", "gear", "glass", "gold", "graffiti", "grain", "granite", "gravel", "grass",
    "greenery", "ground", "hair", "hardware", "hay", "health", "heat", "help", "homework", "honey", "ice", "ink",
    "ivory", "ivy", "juice", "knowledge", "laundry", "lettuce", "light", "lightning", "limestone", "linen",
    "literature", "luck", "lumber", "lycra", "makeup", "mail", "masonry", "meat", "merchandise", "metal", "milk",
    "money", "moonlight", "moss", "mud", "mulch", "music", "nature", "nudity", "nylon", "oil", "oxygen", "paint",
    "paper", "pasta", "pepper", "plaster", "plastic", "plumage", "pollution", "pork", "poverty", "prey", "produce",
    "progress", "rain", "research", "rice", "rubble", "rush", "salt", "sand", "sandstone", "satin", "scenery",
    "seafood", "seaweed", "shade", "shrubbery", "signage", "silver", "sky", "smoke", "snow", "soap", "software",
    "soil", "soup", "space", "spandex", "staff", "steam", "steel", "stonework", "stucco", "sugar", "sun", "sunlight",
    "sunshine", "tarmac", "tea", "tennis", "terrain", "timber", "tinsel", "toast", "traffic", "trash", "tulle", "turf",
    "underbrush", "undergrowth", "underwear", "upholstery", "vegetation", "velvet", "vinyl", "water", "weather",
    "wheat", "wicker", "wildlife", "wine", "wood", "woodwork", "wool", "work", "world", "youth",
    # Substances and colors that are used like things without an article ("in orange").
    "asphalt", "attire", "beef", "camouflage", "canvas", "cardboard", "concrete", "cotton", "denim", "lace", "leather",
    "marble", "orange", "plaid", "rope", "rubber", "silk", "transit", "transportation",
    # What remains or is summed up.
    "maximum", "minimum", "rest", "total",
    # Times, places and parts of a scene, of which there is one.
    "daytime", "internet", "nighttime",
    "afternoon", "background", "center", "centre", "countryside", "dark", "darkness", "dusk", "dawn", "distance",
    "east", "end", "evening", "foreground", "front", "future", "inside", "left", "middle", "morning", "night",
    "noon", "north", "outside", "past", "right", "seaside", "shore", "skyline", "south", "summer",
    "sunrise", "sunset",
    "time", "top", "west", "winter", "autumn", "spring", "back", "bottom", "way", "rear",
})  # fmt: skip
"""Nouns that are not counted in captions, with those that inflect leaves unchanged."""
COLORS = frozenset(
    {
        "black", "blue", "brown", "gray", "green", "grey", "pink", "purple", "red", "white", "yellow",
    }
)  # fmt: skip
PICTURES = frozenset(
    {"image", "photo", "photograph", "picture", "portrait", "shot", "view"}
)
COUNTED = PICTURES | {"level", "pattern", "reflection", "stage"}
"""Nouns that captions count although WordNet has them as abstract."""
NOUNS_IN_ING = frozenset(
    {
        "awning", "building", "ceiling", "clothing", "crossing", "dressing", "drawing", "evening", "filling", "icing",
        "king", "landing", "lightning", "morning", "offspring", "opening", "painting", "railing", "ring", "serving",
        "setting", "sibling", "sling", "stocking", "string", "swing", "thing", "topping", "wedding", "wing", "writing",
    }
)  # fmt: skip


def has_form_in(word: str, words: Collection[str]) -> bool:
    """Return True for a noun that is one of several words, itself or by its singular."""
    return word in words or singularize(word) in words


def is_person(word: str) -> bool:
    """Return True for a noun in the singular that names people."""
    return word in PEOPLE or word in read_words("people")


def is_being(noun: Token) -> bool:
    """Return True for people or animals."""
    word = singularize(noun.lower_)
    return is_person(word) or word in read_words("animals")


def is_thing(noun: Token) -> bool:
    """Return True for a word that WordNet has as a thing, a person or an animal."""
    return has_form_in(noun.lower_, read_words("things")) or is_being(noun)


def is_abstract(word: str) -> bool:
    """Return True for a noun of something abstract, a substance or a time that captions do not count."""
    return word in read_words("abstract") and word not in COUNTED


def is_in_wordnet(word: str) -> bool:
    """Return True for a noun of WordNet that names no place or person by a capital."""
    if is_person(word) or word in read_words("animals"):
        return True
    return word in read_words("things") or word in read_words("abstract")


def is_picture(word: str) -> bool:
    """Return True for a word for a picture or pictures."""
    return has_form_in(word, PICTURES)


def looks_like_participle(word: str) -> bool:
    """Return True for a word in -ing that is not known as a noun."""
    return word.endswith("ing") and word not in NOUNS_IN_ING
