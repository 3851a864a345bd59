"""Noun phrases to which a quantifier can be given: one thing, or several, that a caption counts.

A phrase is refused where the words around it, its form or its noun leave open whether "exactly one"
and "a number of" make sense: `RULES` lists the reasons in the order in which they are tried. Rules
on the form of a phrase refuse what they do not know, such as a noun without a determiner. Rules on
words know those of their lists alone; WordNet's tables keep these lists short.
"""

import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from itertools import chain, filterfalse, pairwise

from inflect import pl_sb_uninflected_complete, pl_sb_uninflected_endings
from lemminflect import getAllLemmas
from spacy.tokens import Doc, Span, Token

from waltz.core.number_words import NUMBER_WORDS
from waltz.foils.english.coco_nouns import read_categories
from waltz.foils.english.noun_phrases import (
    HYPHENS,
    PEOPLE,
    PRONOUN,
    NounPhrase,
    change_verb_number,
    find_agreeing_verbs,
    find_distant_verbs,
    find_noun_phrases,
    list_antecedents,
    list_numbers,
)
from waltz.foils.english.nouns import (
    PLURAL_QUANTITIES,
    TENS,
    Number,
    parse_number,
    pluralize,
    singularize,
)
from waltz.foils.english.numerals import is_number_sign
from waltz.foils.english.patterns import TokenPattern, matches_one_of
from waltz.foils.english.wordnet import read_words

TORN_WORD = "a hyphen joins the noun phrase to another word"
OTHER_QUANTITY = "the noun phrase has another quantity"
PART_OF_QUANTITY = "the noun is part of a quantity"
NEGATION = "the sentence has a negation"
QUOTATION = "the words are quoted"
NAME = "the noun is part of a name or number"
UNIT = "the noun is a unit of measurement"
NOT_COUNTED = "the noun is not used as one of several things"
NO_OTHER_NUMBER = "the noun has no form in the other number"
OTHER_FORM = "determiner and noun differ in number"
NO_NOUN = "the word may be a verb"
DOUBTFUL_PARSE = "another word of the sentence may be its verb"
PART_OF_PHRASE = "the noun phrase begins before the words that were found"
MODIFIER = "the noun may modify another noun"
AMONG_SEVERAL = "the preposition needs several things"
QUESTION = "the text is a question"
REQUEST = "the text is a request"
ANOTHER_FITS = "the text speaks of one of several things, and the foil may fit another"
SHARED_OUT = "several things may each have one of these"
JOINT = "what the caption says needs several things"
FIXED_EXPRESSION = "the noun is part of a fixed expression"
SHARED_ARTICLE = "two nouns or adjectives share one determiner"
UNCLEAR_PRONOUN = "a pronoun may refer to this noun or to another one"
PREDICATE = "the noun says what another thing is"
COMPARED = "the thing is only compared"
MENTIONED_AGAIN = "the text mentions the thing twice"
COUNTED_AGAIN = "a later word counts the things again"
UNCHANGED_VERB = "a verb that may agree with the noun would keep its number"

NEGATORS = {
    "absence", "absent", "avoid", "avoiding", "barely", "cannot", "devoid", "except", "excluding", "fail",
    "fails", "hardly", "if", "impossible", "lack", "lacking", "lacks", "may", "maybe", "might", "minus",
    "missing", "n't", "neither", "never", "nil", "no", "nobody", "none", "nor", "not", "nothing", "nowhere",
    "perhaps", "possibly", "rarely", "refuse", "refuses", "scarcely", "seldom", "unclear", "unlike",
    "whether", "without",
}  # fmt: skip
"""Words after which things may not be there."""
DEGREES = {
    "about", "almost", "approximately", "around", "at", "atleast", "enough", "exactly", "fewer", "just", "last",
    "least", "less", "mere", "more", "most", "much", "nearly", "next", "only", "or", "over", "per", "roughly",
    "same", "some", "than", "under", "up",
}  # fmt: skip
"""Words that modify a quantity ("at least two", "only one", "one or two")."""
UNREPLACED = {
    "half", "more", "most", "only", "quite", "rather", "same", "such", "what", "which",
}  # fmt: skip
"""Words before a noun whose meaning no quantifier keeps."""
LARGE_QUANTITIES = {
    "dozen",
    "dozens",
    "hundred",
    "hundreds",
    "thousand",
    "thousands",
    "million",
    "millions",
}
QUANTITIES = {
    *NUMBER_WORDS[1:], *TENS, *PLURAL_QUANTITIES, *LARGE_QUANTITIES, "first", "half", "lone", "occasional", "second",
    "single", "sole", "third", "whole",
}  # fmt: skip
ORDINAL = re.compile(r"\d+(st|nd|rd|th)")
MEASURES = {
    "amount", "array", "bit", "couple", "kind", "lot", "majority", "maximum", "minimum", "number", "part", "plenty",
    "range", "rest", "series", "sort", "total", "type", "variety",
}  # fmt: skip
"""Nouns that state how much or what kind of what follows "of"; a quantifier of their own fits badly."""
SHARES = {"half", "most", "part", "parts", "quarter", "rest", "third", "thirds"}
"""Words for a part of one thing ("part of the wall") or of several ("part of the dogs")."""
GROUPS = {
    "assortment", "audience", "band", "batch", "bouquet", "bunch", "bundle", "choir", "class", "cluster", "collection",
    "army", "convoy", "crew", "crowd", "duo", "family", "fleet", "flock", "gang", "group", "heap", "herd", "horde",
    "host", "line", "litter", "mass", "mob", "multitude", "network", "pack", "pair", "panel", "party", "pile",
    "procession", "quartet", "quintet", "row", "school", "sea", "selection", "sequence", "set", "squad", "stack",
    "string", "swarm", "team", "throng", "trio", "troop",
}  # fmt: skip
"""Nouns of things that are several, so that what follows "of" is never one."""
COUNTERS = {*MEASURES, *GROUPS, *LARGE_QUANTITIES, "all", "each", "many", "most", "several", "some"}  # fmt: skip
"""Words before "of" that count what follows."""
UNITS = {
    "cent", "cm", "day", "degree", "dollar", "euro", "ft", "foot", "gram", "hour", "inch", "kg", "kilogram",
    "kilometer", "kilometre", "km", "lb", "liter", "litre", "m", "meter", "metre", "mile", "minute", "mm", "month",
    "mph", "ounce", "percent", "pm", "pound", "second", "ton", "week", "yard", "year",
}  # fmt: skip
UNCOUNTABLE = {
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
    # Substances and colours that are used like things without an article ("in orange").
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
}  # fmt: skip
"""Nouns that are not counted in captions, beside those that inflect leaves unchanged."""
WIDE = {"fog", "grass", "mist", "sand", "sky", "snow", "water", "wood"}
"""Substances and parts of a scene whose plural means one of them, too ("blue skies")."""
ABSTRACT_ENDINGS = ("ance", "ence", "ity", "ness", "ship")
"""Endings of abstract nouns of which one is several as well ("bears a resemblance")."""
SINGLE_PARTS = {
    "beard", "belly", "body", "chest", "chin", "face", "forehead", "head", "mouth", "mustache", "neck", "nose",
    "stomach", "tongue", "torso", "waist",
}  # fmt: skip
"""Parts of which a body has one."""
SINGLE_SCENES = {
    "background", "countryside", "foreground", "forefront", "horizon", "periphery", "sun",
}  # fmt: skip
"""Parts of which a scene has one."""
COLOURS = {
    "black", "blue", "brown", "gray", "green", "grey", "pink", "purple", "red", "white", "yellow",
}  # fmt: skip
SINGULAR_STARTS = {"a", "an", "another", "one"}
"""Determiners that only a countable noun in the singular can have."""
DEFINITES = {
    "the",
    "this",
    "that",
    "his",
    "her",
    "its",
    "their",
    "my",
    "your",
    "our",
    "'s",
    "’s",
}
SINGULAR_DETERMINERS = {*SINGULAR_STARTS, "this", "that", "each", "every"}
PLURAL_DETERMINERS = {*PLURAL_QUANTITIES, *NUMBER_WORDS[2:], *TENS}
OPPOSITES = {
    "back", "bottom", "first", "front", "inner", "left", "leftmost", "lower", "opposite", "other", "outer", "port",
    "right", "rightmost", "second", "starboard", "top", "upper",
}  # fmt: skip
"""Adjectives of which one thing has only one ("the left and right picture")."""
POSITIONS = {"corner", "edge", "end", "half", "part", "portion", "section", "side"}
"""Nouns of which a thing has one in each direction."""
PLURAL_MODIFIERS = {"arts", "sales", "sports"}
"""Plurals that modify another noun ("a sports car")."""
FIXED_BEFORE_OF = {
    "absence", "act", "aftermath", "area", "company", "course", "direction", "form", "midst", "name", "presence",
    "process", "spirit",
}  # fmt: skip
"""Nouns of prepositions such as "in the midst of", beside abstract nouns."""
FIXED_WITH_THE = {"scene", "move", "run", "job", "phone", "loose", "go", "air"}
"""Nouns behind "on the" or "in the" that name no single thing, beside times."""
PICTURES = {"image", "photo", "photograph", "picture", "portrait", "shot", "view"}
COUNTED = {*PICTURES, "level", "pattern", "reflection", "stage"}
"""Nouns that captions count although WordNet has them as abstract."""
CLAUSE_WORDS = (
    TokenPattern(tags={"NNS"}, excluded_words=PLURAL_MODIFIERS),
    TokenPattern(tags={"DT", "IN", "PRP$", "TO", "VB", "VBP", "VBZ", "WP$"}),
    TokenPattern(words={"...", "…"}),
)
"""Words before a noun that show that the parser took a clause for a noun phrase."""
DISTRIBUTORS = (
    TokenPattern(
        words={"each", "every"},
        head=TokenPattern(relations={"nsubj", "nsubjpass"}, excluded_words=PICTURES),
    ),
    TokenPattern(
        words={"all", "both"}, head=TokenPattern(relations={"nsubj", "nsubjpass"})
    ),
    TokenPattern(words={"everybody", "everyone"}),
)
"""Words of subjects of whom each may have one thing; each image of a pair is one image."""
EACH = TokenPattern(
    words={"each", "either", "every"},
    relations={"det"},
    head=TokenPattern(relations={"dobj", "pobj"}, excluded_words={"other"}),
)
AT_LEAST = TokenPattern(words={"least"}, before=TokenPattern(words={"at"}))
ONE = TokenPattern(words={"one"})
COUNTED_LATER = TokenPattern(words={"one", "another", "half"}, relations={"appos"})
SOME_OF_THEM = TokenPattern(
    words={"them", "which", "whom"}, before=TokenPattern(words={"of"})
)
NEGATOR = (
    TokenPattern(words=NEGATORS),
    # "it is hard to see a boat", not "a hard hat"
    TokenPattern(words={"difficult", "hard"}, relations={"acomp", "conj", "ROOT"}),
)
POSSESSIVE_OF_ONE = TokenPattern(words={"his", "her", "its", "my", "your", "'s", "’s"})
ZERO = TokenPattern(words={"0", "zero"})
NEGATION_OF_VERB = TokenPattern(relations={"neg"})
CLAUSE_END = TokenPattern(parts_of_speech={"PUNCT", "CCONJ", "SCONJ", "VERB", "AUX"})
DESCRIBED_THING = TokenPattern(relations={"nsubj", "nsubjpass", "dobj"})
WITHOUT = TokenPattern(words={"without"}, relations={"prep"})
OF_PREPOSITION = TokenPattern(relations={"pobj"})
COUNTED_BEHIND_COMMA = TokenPattern(
    words={*NUMBER_WORDS[1:], "all", "another", "both", "each", "either", "half", "most", "neither", "others", "some"},
    relations={"appos", "attr", "conj", "dobj", "npadvmod", "nsubj", "nsubjpass", "pobj", "ROOT"},
    before=TokenPattern(words={",", "and", "with"}),
)  # fmt: skip
"""Words that pick some of several things."""
COUNTED_BEHIND_LINK = TokenPattern(
    words={*NUMBER_WORDS[1:], "all", "both", "each", "others", "some"},
    before=TokenPattern(words={",", "and", "as", "while", "with"}),
)
PREDICATION = TokenPattern(parts_of_speech={"ADP", "AUX", "VERB"})
JOINT_OBJECTS = {"arms", "faces", "hands", "places", "sides", "turns"}
JOINT_VERBS = {
    "get", "hold", "join", "lay", "link", "lock", "make", "shake", "switch", "take", "trade",
}  # fmt: skip
"""Verbs that mean one action with a bare object of the words before ("holding hands")."""
AS = TokenPattern(words={"as"}, parts_of_speech={"ADP", "SCONJ"})
OWN_DETERMINER = TokenPattern(relations={"det", "poss"})
COMPARISON = TokenPattern(
    words={"resemble", "resembles", "resembled", "resembling", "like"},
    parts_of_speech={"ADP", "SCONJ", "VERB"},
)
ADJECTIVE = TokenPattern(parts_of_speech={"ADJ"})
FIRST_DETERMINER = (
    TokenPattern(tags={"DT", "PDT", "POS", "PRP$", "WP$"}),
    TokenPattern(words={"one"}),
)
"""Words that determine the noun behind them also where a determiner follows ("one a puppy")."""
MODIFIER_OF_NOUN = (
    *FIRST_DETERMINER,
    TokenPattern(parts_of_speech={"ADJ", "DET", "NOUN", "NUM", "PROPN"}),
    TokenPattern(tags={"VBN"}),
    # "in sitting poses"
    TokenPattern(tags={"VBG"}, before=TokenPattern(words={"and", "in", "of", "with"})),
)
GERUND = TokenPattern(
    tags={"VBG"},
    relations={"pcomp"},
    head=TokenPattern(excluded_words={"after", "before", "by", "for", "from"}),
)
"""Participle of a noun that the parser took for an action ("inside glowing boxes")."""
LINKS = {",", "and", "but", "or"}
LINK_OF_ADJECTIVES = (
    TokenPattern(words=LINKS, before=TokenPattern(tags={"JJ", "VBN"})),
    TokenPattern(words=LINKS, before=TokenPattern(words=COLOURS)),
    # "an eye-level, wide shot"
    TokenPattern(words={","}, before=TokenPattern(before=TokenPattern(words=HYPHENS))),
)
COMMA = TokenPattern(words={","})
MODIFIER_IN_LIST = TokenPattern(
    parts_of_speech={"ADJ", "ADV", "NOUN", "PUNCT"}, excluded_words=PICTURES
)
ADJECTIVAL = TokenPattern(relations={"amod"})
INFINITIVE_OF_VERB = TokenPattern(tags={"TO"}, relations={"aux"})
DETERMINER_BEHIND_VERB = TokenPattern(
    tags={"DT", "PRP$"}, excluded_words={"all", "both"}
)
REFLEXIVE = TokenPattern(words={"herself", "himself", "itself", "themselves"})
FINITE = TokenPattern(tags={"VBD", "VBP", "VBZ"})
FINITE_OR_CLAUSE = (
    TokenPattern(tags={"MD", "VBD", "VBP", "VBZ", "WDT", "WP", "WP$", "WRB", ":"}),
    TokenPattern(
        words={
            "after", "although", "as", "because", "before", "but", "if", "since", "so", "that", "though", "until",
            "while",
        }
    ),
)  # fmt: skip
"""Finite verbs, and words behind which the verb of another clause follows."""
LIST_MARK = TokenPattern(words={"and", "or", ","})
SECOND_VERB = (
    TokenPattern(
        tags={"NNS"},
        head=TokenPattern(tags={"NN", "VBZ"}),
        before=TokenPattern(words={"and"}),
    ),
)
"""Plural that is a second verb, if it is no thing ("holds up a cloth and smiles")."""
ONLY_VERB = (
    TokenPattern(tags={"NNS"}, before=TokenPattern(tags={"RP"})),
    TokenPattern(
        tags={"NNS"},
        before=TokenPattern(words=COLOURS, before=TokenPattern(words={"in"})),
    ),
)
"""Plural that is the only verb, if it is no thing ("a biker in red rides")."""
PARTICIPLES = {"cut", "hit", "shut", "split", "spread"}
"""Participles that look like nouns ("a slice cut out of a cake")."""
DEFINITE_ARTICLE = TokenPattern(words={"the"}, relations={"det"})
ITS = TokenPattern(words={"its"}, head=TokenPattern(tags={"JJ", "VBG", "RB"}))
POSSESSIVE = TokenPattern(tags={"PRP$"})
IT_IS = TokenPattern(words={"'s", "’s"}, relations={"case"})
"""The end of "it's", written for "its"."""
CLAUSE = TokenPattern(relations={"ccomp", "csubj", "xcomp"})
NAMING = TokenPattern(parts_of_speech={"NOUN", "PROPN", "PRON"})
SEVERAL = TokenPattern(words={"all", "both", "they", "we", "people"})
IMPERATIVE = TokenPattern(tags={"VB"}, relations={"ROOT"})
PRESENT_OF_ONE = TokenPattern(tags={"VBZ"})
VERB = TokenPattern(parts_of_speech={"VERB", "AUX"})
UNIQUE = TokenPattern(tags={"JJS", "RBS"})
"""Superlatives, which one thing has alone ("the latest model")."""
NAME_TAG = TokenPattern(tags={"NNP"})
NOUN = TokenPattern(tags={"NN", "NNS", "NNP", "NNPS"})
PLURAL = TokenPattern(tags={"NNS"})
COMMON_NOUN = TokenPattern(parts_of_speech={"NOUN"})
PREPOSITION = TokenPattern(parts_of_speech={"ADP"})
OF = TokenPattern(words={"of"})
INFINITIVE_MARK = TokenPattern(tags={"TO"})
SUBJECT = TokenPattern(relations={"nsubj", "nsubjpass"})
NUMERAL = TokenPattern(tags={"CD"})
RELATIVE = TokenPattern(tags={"WDT", "WP"})
CLAUSE_OF_NOUN = TokenPattern(relations={"relcl"})
PASSIVE_CLAUSE = TokenPattern(relations={"acl"}, tags={"VBN"})
PLACE_OF_CLAUSE = TokenPattern(words={"when", "where"})
OBJECT = TokenPattern(relations={"dobj"})
OF_BEINGS = {"he", "him", "his", "she", "her", "hers"}
LISTED = TokenPattern(relations={"appos", "conj"})
ATTRIBUTE = TokenPattern(relations={"attr"})
SINGULAR_ARTICLE = TokenPattern(words={"a", "an"})
OTHER_SUBJECTS = {"VBZ": "NNS", "VBP": "NN"}
"""Tag of nouns that are never the subject of a verb, by its tag."""
AMONG = {"amid", "among", "amongst", "between"}
AMONG_THEM = TokenPattern(
    words={"them", "themselves"}, before=TokenPattern(words=AMONG)
)
QUOTATION_MARKS = {'"', "“", "”", "«", "»", "``", "''", "‘"}
NOUNS_IN_ING = {
    "awning", "building", "ceiling", "clothing", "crossing", "dressing", "drawing", "evening", "filling", "icing",
    "king", "landing", "lightning", "morning", "offspring", "opening", "painting", "railing", "ring", "serving",
    "setting", "sibling", "sling", "stocking", "string", "swing", "thing", "topping", "wedding", "wing", "writing",
}  # fmt: skip
OPENING = {"", " ", "(", "["}
POSSESSIVE_VERBS = {
    "carry", "drink", "eat", "have", "hold", "lift", "raise", "ride", "use", "wave", "wear", "sport",
}  # fmt: skip
"""Verbs whose object each of several subjects can have for itself ("men wear hats")."""
POSSESSIVE_PREPOSITIONS = {"in", "on", "with", "of", "at", "by"}
SPREAD = {
    "assemble", "cluster", "collide", "converge", "disperse", "gather", "huddle", "intersect", "intersperse", "overlap",
    "scatter", "strew",
}  # fmt: skip
"""Verbs of which one thing is no subject ("scattered across the lawn")."""
VARIETIES = {
    "adjacent", "alternating", "assorted", "contrasting", "different", "differing", "diverse", "identical", "matching",
    "opposing", "opposite", "parallel", "respective", "separate", "varied", "various", "varying",
}  # fmt: skip
"""Words that tell several things apart ("bowls of various sizes")."""
EVERYWHERE = {"everywhere", "throughout", "together"}
"""Adverbs of place and manner that one thing does not have."""
HERE_AND = TokenPattern(words={"and"}, before=TokenPattern(words={"here"}))
THERE = TokenPattern(words={"there"}, before=HERE_AND)
"""The end of "here and there"."""
JOINT_WORDS = ({"together"}, {"each", "other"}, {"one", "another"}, {"both"})
"""Words that need several things, each set in one sentence."""


def explain_refusal(phrase: NounPhrase) -> str | None:
    """Return the reason why no quantifier can be given to a phrase of a caption; None where one can."""
    for reason, refuses in RULES:
        if refuses(phrase):
            return reason
    return None


def find_text_fault(doc: Doc) -> str | None:
    """Return the reason why a text asserts nothing about numbers of things; None where it may."""
    if doc.text.rstrip().endswith("?") or doc[:2].text.lower() == "how to":
        return QUESTION
    return REQUEST if IMPERATIVE.matches_any(doc[:1]) else None


def _get_before(phrase: NounPhrase, count: int = 1) -> list[Token]:
    """Return the words directly before a phrase, the nearest one last."""
    return list(phrase.head.doc[max(phrase.start - count, 0) : phrase.start])


def _get_after(phrase: NounPhrase, count: int = 1) -> list[Token]:
    """Return the words directly after a phrase."""
    return list(phrase.head.doc[phrase.head.i + 1 : phrase.head.i + 1 + count])


def _is_torn(phrase: NounPhrase) -> bool:
    """Return True where a quantifier would stand inside of a word ("6-year-old")."""
    doc = phrase.head.doc
    for index in (phrase.start, phrase.stem):
        before = doc[:index].text_with_ws[-1:]
        follows_possessive = doc[max(index - 1, 0)].tag_ == "POS"
        if before not in OPENING and not (before.isspace() or follows_possessive):
            return True
    has_hyphen = doc[phrase.stem].text in HYPHENS or _follows_dash(phrase)
    after = doc[phrase.head.i + 1 :].text[:1]
    ends_in_word = not phrase.head.whitespace_ and (after.isalnum() or after in HYPHENS)
    return has_hyphen or ends_in_word


def _follows_dash(phrase: NounPhrase) -> bool:
    """Return True for a noun directly behind a slash or a spaced dash ("white / blond")."""
    dashes = (word for word in phrase.words[:-1] if word.text in HYPHENS)
    return any(dash.i == phrase.head.i - 1 and dash.whitespace_ for dash in dashes)


def _begins_earlier(phrase: NounPhrase) -> bool:
    """Return True where words before a phrase belong to it: a determiner ("a" before "few thin
    trees"), a modifier ("two shirtless" before "young boys"), or an adjective of a list ("a grey
    but" before "painted wall").
    """
    patterns: tuple[TokenPattern, ...] = (*MODIFIER_OF_NOUN, GERUND)
    if phrase.determiners:
        patterns = FIRST_DETERMINER
    before = _get_before(phrase)
    if any(matches_one_of(token, patterns) for token in before):
        return True
    is_linked = any(matches_one_of(token, LINK_OF_ADJECTIVES) for token in before)
    is_bare = not phrase.determiners
    return is_bare and is_linked and ADJECTIVAL.matches_any(phrase.words[:-1])


def has_doubtful_verb(phrase: NounPhrase) -> bool:
    """Return True for a phrase that holds a verb or another plural, and before a verb in -s that
    the parser takes for a noun ("boys ride ponies", "a boy in a kayak paddles").
    """
    if any(matches_one_of(token, CLAUSE_WORDS) for token in phrase.words[:-1]):
        return True
    if _shares_verb(phrase) or _precedes_verb(phrase):
        return True
    if _holds_participle(phrase) or _begins_with_number_of_others(phrase):
        return True
    own_words = {phrase.head.i}
    if phrase.verb is not None:
        own_words.add(phrase.verb.i)
    sentence = phrase.head.sent
    verbs = _find_doubtful_verbs(phrase.head.doc, sentence.start, sentence.end)
    return any(verb >= phrase.start for verb in verbs - own_words)


def _shares_verb(phrase: NounPhrase) -> bool:
    """Return True for one of several subjects that the parser gave one verb in the singular ("a
    group, and a girl is saying").
    """
    verb = phrase.head.head
    subjects = SUBJECT.select(verb.children)
    if phrase.head not in subjects or len(subjects) == 1:
        return False
    # "a boy, six cacti and a cow"
    words_after = (noun.doc[noun.i + 1 : noun.i + 2].text.lower() for noun in subjects)
    if not LINKS.isdisjoint(words_after):
        return False
    return PRESENT_OF_ONE.matches_any([verb, *verb.lefts])


def _precedes_verb(phrase: NounPhrase) -> bool:
    """Return True before a verb that the parser took for an adjective ("two paths intersect")."""
    for word in filter(ADJECTIVE.matches, _get_after(phrase)):
        lemmas = getAllLemmas(word.lower_)
        if "ADJ" not in lemmas and word.lower_ in lemmas.get("VERB", ()):
            return True
    return False


def _begins_with_number_of_others(phrase: NounPhrase) -> bool:
    """Return True for a number and a verb that the parser joined to the object ("two wearing hats")."""
    first_word = phrase.words[0]
    is_verb = first_word.tag_ == "VBG" and first_word.lemma_ in POSSESSIVE_VERBS
    return is_verb and NUMERAL.matches_any(phrase.determiners)


def _holds_participle(phrase: NounPhrase) -> bool:
    """Return True for a being and what it does to something, joined to one noun ("a dragon
    breathing fire").
    """
    pairs = pairwise(phrase.words)
    return any(_is_being(noun) and _is_participle(verb.lower_) for noun, verb in pairs)


def _is_participle(word: str) -> bool:
    return word.endswith("ing") and word not in NOUNS_IN_ING


@lru_cache(maxsize=8)
def _find_doubtful_verbs(doc: Doc, start: int, end: int) -> frozenset[int]:
    """Return the plural nouns of a sentence that may be verbs, each behind another noun, and the
    verbs that disagree with their subjects.
    """
    sentence = doc[start:end]
    nouns = filter(_is_doubtful_noun, sentence)
    roots = (chunk.root for chunk in sentence.noun_chunks if _holds_verb(chunk))
    verbs = filter(_disagrees_with_subject, sentence)
    return frozenset(token.i for token in chain(nouns, roots, verbs))


def _is_doubtful_noun(token: Token) -> bool:
    """Return True for a plural that may be a verb: WordNet has no such noun, it follows another
    plural, which would modify it ("dogs sleeps"), or an article follows it ("a cat bats a ball").
    """
    # With a subject, the other rules take it for a verb.
    if token.tag_ != "NNS" or SUBJECT.matches_any(token.children):
        return False
    lemmas = getAllLemmas(token.lower_)
    before = token.doc[max(token.i - 1, token.sent.start) : token.i]
    after = token.doc[token.i + 1 : token.i + 2]
    has_object = DETERMINER_BEHIND_VERB.matches_any(after)
    has_infinitive = _stands_before_infinitive(token)
    has_verb_form = "NOUN" not in lemmas or PLURAL.matches_any(before)
    is_doubtful = has_verb_form or has_object or has_infinitive
    return "VERB" in lemmas and (is_doubtful or _stands_as_verb(token))


def _stands_before_infinitive(noun: Token) -> bool:
    """Return True for a bare plural that is no thing before an infinitive ("black tries to look")."""
    is_bare = PLURAL.matches(noun) and not OWN_DETERMINER.matches_any(noun.lefts)
    after = noun.doc[noun.i + 1 : noun.i + 2]
    is_thing = _is_among(noun.lower_, read_words("things")) or _is_being(noun)
    return is_bare and not is_thing and INFINITIVE_OF_VERB.matches_any(after)


def _stands_as_verb(noun: Token) -> bool:
    """Return True for a bare plural that is no thing, where a verb in -s can stand."""
    is_thing = _is_among(noun.lower_, {*read_words("things"), *UNCOUNTABLE})
    if is_thing or _is_being(noun) or "VERB" not in getAllLemmas(noun.lower_):
        return False
    patterns = SECOND_VERB if FINITE.matches_any(noun.sent) else ONLY_VERB
    return matches_one_of(noun, patterns)


def _holds_verb(chunk: Span) -> bool:
    """Return True for a singular noun with a verb in -s that the parser joined ("a boy paddles")."""
    word = chunk.root
    is_plural = word.tag_ == "NNS" and "VERB" in getAllLemmas(word.lower_)
    inner_nouns = COMMON_NOUN.select(chunk[1:-1])
    return is_plural and SINGULAR_ARTICLE.matches(chunk[0]) and bool(inner_nouns)


def _disagrees_with_subject(verb: Token) -> bool:
    """Return True for a present tense whose subject has another number, or that the parser took
    for a participle: it misread the sentence ("a teddy bear", "two bones is barking").
    """
    if verb.tag_ not in OTHER_SUBJECTS:
        return False
    clause = verb.head if verb.dep_ in {"aux", "auxpass"} else verb
    subjects = SUBJECT.select(clause.children)
    if not subjects:
        return bool(verb.dep_ == "acl")
    subject = subjects[0]
    if clause.dep_ == "relcl" and RELATIVE.matches(subject):
        subject = clause.head
    # "a boy, a cow and two dogs are", of which the parser makes several subjects
    is_listed = LISTED.matches(subject) or LISTED.matches_any(subject.subtree)
    is_several = len(subjects) > 1 or is_listed
    # "a number of boats lie there", "a group of people wait"
    if is_several or subject.lower_ in MEASURES | GROUPS:
        return False
    return bool(subject.tag_ == OTHER_SUBJECTS[verb.tag_])


def _is_negated(phrase: NounPhrase) -> bool:
    """Return True behind a word of negation, and where the clause of the phrase denies something."""
    sentence = phrase.head.sent
    if ZERO.matches_any(phrase.determiners):
        return True
    if NEGATION_OF_VERB.matches_any(phrase.head.head.children):
        return True
    return any(
        _denies(word, phrase.head)
        for word in sentence[: phrase.head.i - sentence.start]
        if matches_one_of(word, NEGATOR)
    )


def _denies(negator: Token, noun: Token) -> bool:
    """Return True where a word of negation denies a later noun: behind "with no" and "without" only
    up to the next comma, conjunction or verb, and what belongs to the denied noun.
    """
    if is_number_sign(negator):
        return False
    denied = negator if WITHOUT.matches(negator) else negator.head
    is_local = denied == negator or OF_PREPOSITION.matches(denied)
    ends = is_local and CLAUSE_END.matches_any(noun.doc[denied.i : noun.i])
    return not ends or noun in denied.subtree


def _is_quoted(phrase: NounPhrase) -> bool:
    """Return True for words in quotation marks, and for a noun in capitals within other text."""
    doc = phrase.head.doc
    marks_before = sum(token.text in QUOTATION_MARKS for token in doc[: phrase.head.i])
    marks_after = sum(token.text in QUOTATION_MARKS for token in doc[phrase.head.i :])
    is_enclosed = marks_before % 2 == 1 and marks_after > 0
    is_inscription = len(phrase.head) > 1 and phrase.head.is_upper
    return is_enclosed or is_inscription


def _is_in_name(phrase: NounPhrase) -> bool:
    """Return True for names, and for nouns with a number, a quotation or a word in capitals behind
    them ("table 5", "No. 12", "the word STOP").
    """
    head = phrase.head
    is_named = any(map(_is_label, _get_after(phrase)))
    if is_named or head.lower_ in {"no", "nr", "nos"}:
        return True
    n_titled = sum(token.is_title for token in head.doc)
    if n_titled > len(head.doc) / 2:  # a title, in which each word has a capital
        return False
    has_title = any(
        token.is_title and token.i > phrase.start for token in phrase.determiners
    )
    # "the Orion constellation" is a single one by its name.
    has_the = any(token.lower_ == "the" for token in phrase.determiners)
    is_family = head.is_title and head.tag_ == "NNPS"  # "the Smiths"
    is_named_thing = NAME_TAG.matches_any(phrase.words[:-1]) or _precedes_name(phrase)
    is_single = has_the and (is_family or is_named_thing)
    # "Golden Gate bridge"
    named_words = filter(NAME_TAG.matches, phrase.words[:-1])
    has_name = any(token.is_title and token.i > 0 for token in named_words)
    is_one = list_numbers(head) == ("sg",)
    is_bare_name = has_name and is_one and not phrase.determiners
    is_name = head.is_title and head.tag_ in {"NNP", "NNPS"}
    # At the start of a text a capital says nothing.
    is_noun = phrase.start == 0 and is_in_wordnet(head.lower_)
    return has_title or is_single or is_bare_name or (is_name and not is_noun)


def _precedes_name(phrase: NounPhrase) -> bool:
    """Return True for one thing with a name behind "of" ("the city of London")."""
    after = _get_after(phrase, 2)
    names_thing = OF.matches_any(after[:1]) and NAME_TAG.matches_any(after[1:])
    return names_thing and list_numbers(phrase.head) == ("sg",)


def _is_label(token: Token) -> bool:
    """Return True for a number, a mark that opens a quotation, and a word in capitals."""
    opens_quotation = token.text in {*QUOTATION_MARKS, "'"} and token.tag_ != "POS"
    is_inscription = token.is_upper and len(token) > 1
    return bool(token.like_num) or opens_quotation or is_inscription


def _has_unit(phrase: NounPhrase) -> bool:
    """Return True for a unit of measurement, time or money with a number ("4.8 km")."""
    is_unit = singularize(phrase.head.lower_) in UNITS
    return is_unit and any(token.like_num for token in phrase.determiners)


def _keeps_quantity(phrase: NounPhrase) -> bool:
    """Return True where a quantity would be left next to the new quantifier."""
    left = [token.lower_ for token in phrase.words[:-1]]
    # "the worlds smallest dog" lacks an apostrophe.
    superlatives = UNIQUE.select([*phrase.words[:-1], *_get_after(phrase)])
    is_limited = bool(superlatives) or not DEGREES.isdisjoint(left)
    if is_limited or any(map(_is_quantity, left)):
        return True
    # "at least two": words before the phrase, or determiners that the quantifier does not replace.
    has_number = any(token.like_num for token in phrase.determiners)
    before = [token.lower_ for token in _get_before(phrase, 2)]
    is_limit = before == ["up", "to"] or {*before[-1:]} & (DEGREES | QUANTITIES)
    if has_number and is_limit:
        return True
    determiners = [token.lower_ for token in phrase.determiners]
    # "few dogs" are hardly any, unlike "a few dogs".
    if determiners[:1] == ["few"]:
        return True
    return not UNREPLACED.isdisjoint([*before[-1:], *determiners])


def _is_quantity(word: str) -> bool:
    """Return True for numerals, ordinals and fractions, in letters or digits, without hyphens."""
    is_number = parse_number(word) is not None
    return is_number or _is_among(word, QUANTITIES) or bool(ORDINAL.fullmatch(word))


def _is_among(word: str, words: Collection[str]) -> bool:
    """Return True for a noun whose form or singular is one of several words."""
    return word in words or singularize(word) in words


def _is_part_of_quantity(phrase: NounPhrase) -> bool:
    """Return True for a noun that counts others ("hundreds of"), and for what it counts."""
    head = phrase.head.lower_
    after = [token.lower_ for token in _get_after(phrase)]
    if OF.matches_any(phrase.determiners):
        return True
    is_measure = _is_among(head, MEASURES)
    if head in LARGE_QUANTITIES or (is_measure and after == ["of"]):
        return True
    before = [token.lower_ for token in _get_before(phrase, 2)]
    if before[-1:] != ["of"]:
        return False
    counter = before[0]
    is_one = list_numbers(phrase.head) == ("sg",)
    if is_one and phrase.determiners and counter in SHARES:
        return False
    # "thirds of", "three out of"
    is_share = counter == "out" and NUMERAL.matches_any(_get_before(phrase, 3)[:1])
    return is_share or _is_quantity(counter) or _is_among(counter, COUNTERS)


def _differs_in_number(phrase: NounPhrase) -> bool:
    """Return True where a determiner or the form has another number than the noun by its tag ("an
    angler fishes", "contours" as a singular).
    """
    determiners = {token.lower_ for token in phrase.determiners}
    numbers = list_numbers(phrase.head)
    if numbers == ("pl",) and determiners & SINGULAR_DETERMINERS:
        return True
    if numbers != ("sg",):
        return False
    return _is_known_plural(phrase.head.lower_) or bool(
        determiners & PLURAL_DETERMINERS
    )


def _is_known_plural(word: str) -> bool:
    lemmas: tuple[str, ...] = getAllLemmas(word).get("NOUN", ())
    return lemmas == (singularize(word),) and word not in lemmas


def _may_be_verb(phrase: NounPhrase) -> bool:
    """Return True for a verb in -ing or an infinitive that is taken for a noun."""
    word = phrase.head.lower_
    lemmas = getAllLemmas(word)
    is_bare = not phrase.determiners
    may_be_adverb = is_bare and word in read_words("adverbs")  # "thus"
    is_noun = ("NOUN" in lemmas and not may_be_adverb) or is_in_wordnet(word)
    if "VERB" not in lemmas:
        return bool(lemmas) and not is_noun
    # "to exit", "a woman exit"
    follows_to = INFINITIVE_MARK.matches_any(_get_before(phrase))
    partner = NOUN.select(phrase.words[-2:-1])
    follows_subject = follows_to or any(map(_is_being, partner))
    # "a bull standing in a field": the determiner is of another noun.
    is_participle = _is_participle(word) or (bool(partner) and word in PARTICIPLES)
    has_infinitive = _stands_before_infinitive(phrase.head)
    is_verb = is_participle or _is_only_verb(phrase) or has_infinitive or not is_noun
    return is_verb or (is_bare and (follows_subject or _stands_as_verb(phrase.head)))


def _is_only_verb(phrase: NounPhrase) -> bool:
    """Return True for the last word of two subjects without another verb, which the parser takes
    for a noun ("a giraffe and a baby zebra stand near a hut").
    """
    head = phrase.head
    is_last_subject = head.dep_ == "conj" and head.head.dep_ == "ROOT"
    follows_noun = len(phrase.words) > 1 and phrase.words[-2].pos_ == "NOUN"
    has_verb = any(token.pos_ in {"VERB", "AUX"} for token in head.sent)
    return is_last_subject and follows_noun and not has_verb


def _may_modify_noun(phrase: NounPhrase) -> bool:
    """Return True for a noun before a modified noun ("chocolate" in "a chocolate frosted
    doughnut"), and before a noun that the parser took for a verb ("fire hydrant").
    """
    after = _get_after(phrase, 2)
    if any(map(_is_only_noun, after[:1])) or _precedes_picture(phrase):
        return True
    tags = [token.tag_ for token in after]
    return len(tags) == 2 and tags[0] in {"VBN", "VBD", "JJ"} and tags[1] == "NN"


def _is_only_noun(token: Token) -> bool:
    is_known = NOUN.matches(token) or is_in_wordnet(token.lower_)
    return is_known and set(getAllLemmas(token.lower_)) == {"NOUN"}


def _precedes_picture(phrase: NounPhrase) -> bool:
    """Return True for a noun of a list of modifiers of a picture ("an eye-level, wide shot")."""
    later_words = phrase.head.doc[phrase.head.i + 1 :]
    picture = next(filterfalse(MODIFIER_IN_LIST.matches, later_words), None)
    is_list = COMMA.matches_any(_get_after(phrase))
    return is_list and picture is not None and _is_among(picture.lower_, PICTURES)


def _is_uncounted(phrase: NounPhrase) -> bool:
    """Return True for a noun that is used as a substance, an activity, a time or a manner."""
    word = phrase.head.lower_
    if phrase.head.pos_ not in {"NOUN", "PROPN"} or phrase.head.tag_ in {"JJ", "VBG"}:
        return True
    determiners = {token.lower_ for token in phrase.determiners}
    has_owner = any(token.lower_ == "own" for token in phrase.words[:-1])
    # "my own oven", "in his forties", "on all fours"
    if has_owner or singularize(word) in {*TENS, *NUMBER_WORDS}:
        return True
    if list_numbers(phrase.head) == ("pl",):
        return word in UNCOUNTABLE or singularize(word) in WIDE
    if word in COLOURS:
        return True
    if determiners & SINGULAR_STARTS:  # "a background", "a coffee"
        return is_abstract(word) and word.endswith(ABSTRACT_ENDINGS)
    if word in SINGLE_PARTS and _is_part_of_one(phrase):
        return False
    if word in SINGLE_SCENES and DESCRIBED_THING.matches(phrase.head):
        return not determiners & DEFINITES
    is_part = _is_among(word, SINGLE_PARTS | SINGLE_SCENES)
    if is_part or _is_among(word, UNCOUNTABLE) or _is_opposite_side(phrase):
        return True
    if determiners & DEFINITES:
        return is_abstract(word)
    return not (_is_known_thing(phrase) or _is_in_list(phrase))


def _is_opposite_side(phrase: NounPhrase) -> bool:
    """Return True for a side of which a thing has one ("on the left side", "at the right edge")."""
    modifiers = {token.lower_ for token in phrase.words[:-1]}
    return phrase.head.lower_ in POSITIONS and not modifiers.isdisjoint(OPPOSITES)


def _is_part_of_one(phrase: NounPhrase) -> bool:
    """Return True for a part of one body that its clause is about ("its mouth is open", "with its
    mouth open"), but not for a place ("on its head").
    """
    if not POSSESSIVE_OF_ONE.matches_any(phrase.determiners):
        return False
    is_place = OF_PREPOSITION.matches(phrase.head)
    return not is_place or phrase.head.head.lower_ == "with"


def _is_known_thing(phrase: NounPhrase) -> bool:
    """Return True for a noun without determiner that is counted all the same: a person or a
    category of COCO, and at the start or behind a modifier other things ("in red skirt", but not
    "by bus").
    """
    word = phrase.head.lower_
    if word in read_categories() or _is_person(word):
        return True
    if phrase.start == 0:
        return not is_abstract(word)
    modifiers = phrase.words[:-1]
    has_name = NAME_TAG.matches_any(modifiers)  # "Eiffel tower"
    return bool(modifiers) and not has_name and word in read_words("things")


def _is_person(word: str) -> bool:
    return word in PEOPLE or word in read_words("people")


def is_abstract(word: str) -> bool:
    """Return True for a noun of something abstract, a substance or a time that captions do not count."""
    return word in read_words("abstract") and word not in COUNTED


def is_in_wordnet(word: str) -> bool:
    """Return True for a noun of WordNet that names no place or person by a capital."""
    kinds = ("animals", "things", "abstract")
    return _is_person(word) or any(word in read_words(kind) for kind in kinds)


def _is_in_list(phrase: NounPhrase) -> bool:
    """Return True for a noun in a list that begins with an article ("a bathtub, window and sink")."""
    before = [token.lower_ for token in _get_before(phrase, 5)]
    return before[-1:] in ([","], ["and"]) and not {"a", "an"}.isdisjoint(before)


def _lacks_other_number(phrase: NounPhrase) -> bool:
    """Return True where the other form is not a known noun, or does not lead back to this one."""
    word = str(phrase.head.lower_)
    numbers: tuple[Number, ...] = list_numbers(phrase.head)
    if len(numbers) > 1:
        return False
    if numbers == ("pl",):
        other = singularize(word)
        return other == word or word not in {pluralize(other), f"{other}s"}
    return pluralize(word) == word


def _is_among_several(phrase: NounPhrase) -> bool:
    """Return True behind a preposition that needs several things ("between two trees")."""
    words = [*_get_before(phrase), *phrase.determiners]
    return any(token.lower_ in AMONG for token in words)


def _is_shared_out(phrase: NounPhrase) -> bool:
    """Return True where each of several subjects may have one of the things ("men wear hats"), so
    that a text about one of them can be true, too.
    """
    head = phrase.head
    before = head.doc[head.sent.start : phrase.start]
    if any(matches_one_of(token, DISTRIBUTORS) for token in before):
        return True
    if "pl" not in list_numbers(head):
        return False
    # "vehicles in the center of each quadrant"
    if EACH.matches_any(head.doc[head.i + 1 : head.sent.end]):
        return True
    owner = None
    if head.dep_ in {"dobj", "conj"} and head.head.lemma_ in POSSESSIVE_VERBS:
        owner = _find_subject(head.head)
    elif head.dep_ == "pobj" and head.head.lower_ in POSSESSIVE_PREPOSITIONS:
        owner = head.head.head
        if VERB.matches(owner):
            owner = _find_subject(owner)
    if owner is None or owner == head:
        return False
    # "two wearing scarves"
    if NUMERAL.matches(owner):
        return owner.lower_ not in SINGULAR_STARTS
    if not NAMING.matches(owner):
        return False
    return SEVERAL.matches(owner) or "pl" in list_numbers(owner)


def _may_fit_another(phrase: NounPhrase) -> bool:
    """Return True for what "at least one" of several things or "one of" them has, since the foil may
    be true of another one; also where these are images ("in at least one of the images").
    """
    head = phrase.head
    return any(
        token.i < phrase.start or (token.i > head.i and _counts_images(token))
        for token in _find_pickers(head.doc)
        if token.sent == head.sent
    )


@lru_cache(maxsize=8)
def _find_pickers(doc: Doc) -> tuple[Token, ...]:
    """Return the words that pick one or more of several things ("at least", "one of")."""
    return tuple(token for token in doc if AT_LEAST.matches(token) or _picks_one(token))


def _picks_one(token: Token) -> bool:
    """Return True for "one" before "of" or a picture ("one of the images", "one image")."""
    after = token.doc[token.i + 1 : token.i + 2]
    is_picture = any(_is_among(word.lower_, PICTURES) for word in after)
    return ONE.matches(token) and (OF.matches_any(after) or is_picture)


def _counts_images(token: Token) -> bool:
    after = token.doc[token.i + 1 : token.i + 5]
    return any(_is_among(word.lower_, PICTURES) for word in after)


def _find_subject(verb: Token) -> Token | None:
    """Return the subject of a verb, or the noun that a participle modifies; None without one."""
    subject = SUBJECT.find(verb.children)
    if subject is not None:
        return subject
    if verb.dep_ in {"acl", "relcl"}:
        return verb.head
    return _find_subject(verb.head) if verb.dep_ in {"conj", "advcl", "xcomp"} else None


def _is_joint(phrase: NounPhrase) -> bool:
    """Return True for several things that do what one cannot do alone ("walk arm in arm")."""
    if "pl" not in list_numbers(phrase.head):
        return False
    # "men sitting next to each other"
    modifiers = {token.lower_ for token in phrase.head.subtree}
    tells_apart = {"each", "other"} <= modifiers or modifiers & VARIETIES
    later_words = phrase.head.doc[phrase.head.i : phrase.head.sent.end]
    if modifiers & EVERYWHERE or THERE.matches_any(later_words):
        return True
    if tells_apart or AMONG_THEM.matches_any(phrase.head.sent):
        return True
    # "boats scattered on a lake", "people gather"
    if any(verb.lemma_ in SPREAD for verb in (phrase.head.head, *phrase.head.children)):
        return True
    if phrase.head.dep_ not in {"nsubj", "nsubjpass", "ROOT", "attr"}:
        return False
    holds_hands = any(map(_is_joint_object, phrase.head.sent))
    words = [token.lower_ for token in phrase.head.sent]
    # "arm in arm", "side by side"
    repeats = zip(words, words[1:], words[2:], strict=False)
    has_repeat = any(
        first == last and middle.isalpha() and middle != "and"
        for first, middle, last in repeats
    )
    has_words = any(joint.issubset(words) for joint in JOINT_WORDS)
    return holds_hands or has_repeat or has_words


def _is_joint_object(noun: Token) -> bool:
    return noun.lower_ in JOINT_OBJECTS and noun.head.lemma_ in JOINT_VERBS


def _is_fixed(phrase: NounPhrase) -> bool:
    """Return True for the noun of a preposition ("in the shape of"), for a time or scene that is not
    described ("during the day"), and for "hands" in "holding hands".
    """
    before, after = _get_before(phrase), _get_after(phrase)
    if _is_joint_object(phrase.head) and not phrase.determiners:
        return True
    if len(phrase.words) > 1 or not PREPOSITION.matches_any(before):
        return False
    word = phrase.head.lower_
    if OF.matches_any(after):
        return is_abstract(word) or word in FIXED_BEFORE_OF
    determiners = [token.lower_ for token in phrase.determiners]
    return determiners == ["the"] and (is_abstract(word) or word in FIXED_WITH_THE)


def _shares_article(phrase: NounPhrase) -> bool:
    """Return True for adjectives or nouns with one determiner for two things ("the left and right
    picture", "a lady and man").
    """
    inner = {token.lower_ for token in phrase.words[:-1]}
    if len(inner & OPPOSITES) > 1 and inner & {"and", "or", "/", "&"}:
        return True
    if (
        _continues_possessions(phrase)
        or _holds_list(phrase)
        or _begins_definite_list(phrase)
    ):
        return True
    # "a bathtub, window and sink" is a list, whose later nouns need no article.
    is_first = phrase.determiners or phrase.start == 0
    if list_numbers(phrase.head) != ("sg",) or not is_first:
        return False
    after = _get_after(phrase, 2)
    if len(after) < 2 or after[0].lower_ not in {"and", "or", "&", "/", ","}:
        return False
    # The conjunct begins directly behind the conjunction or comma, with no determiner.
    partner = after[1].head if after[1].dep_ in {"amod", "compound"} else after[1]
    is_conjunct = partner.dep_ == "conj" and partner.head == phrase.head
    is_single = is_conjunct and partner.tag_ == "NN"
    return is_single and not OWN_DETERMINER.matches_any(partner.lefts)


def _continues_possessions(phrase: NounPhrase) -> bool:
    """Return True for a later noun of a list behind one possessive ("her breasts, waist and hips")."""
    if phrase.determiners or phrase.head.dep_ != "conj":
        return False
    owners = chain.from_iterable(noun.lefts for noun in phrase.head.conjuncts)
    return POSSESSIVE.matches_any(owners)


def _holds_list(phrase: NounPhrase) -> bool:
    """Return True for a phrase with a being or a list before its noun ("a singer and actor", "a vest,
    and neck tie").
    """
    pairs = pairwise(phrase.words[:-1])
    return any(_is_listed_noun(noun) and link.lower_ in LINKS for noun, link in pairs)


def _is_listed_noun(word: Token) -> bool:
    return _is_being(word) or word.lower_ in read_words("things")


def _begins_definite_list(phrase: NounPhrase) -> bool:
    """Return True for the first of several nouns behind one "the" ("the hood, top and sides")."""
    is_definite = any(token.lower_ in DEFINITES for token in phrase.determiners)
    is_one = list_numbers(phrase.head) == ("sg",)
    after = _get_after(phrase)
    if not (is_definite and is_one and any(word.lower_ in LINKS for word in after)):
        return False
    conjuncts = filterfalse(PLURAL.matches, LISTED.select(phrase.head.children))
    return any(not OWN_DETERMINER.matches_any(noun.lefts) for noun in conjuncts)


def _is_predicate(phrase: NounPhrase) -> bool:
    """Return True for a noun behind "is" ("this is a kitchen"), but not behind "there is", and for
    a thing that is said to be another one ("a door is an exit").
    """
    verb = phrase.head.head
    if AS.matches(verb):  # "dressed as a clown"
        return True
    relations = {child.dep_ for child in verb.children}
    if phrase.head.dep_ == "attr":
        # "under the bridge is a boat" has no other subject
        has_subject = "nsubj" in relations or verb.tag_ in {"VB", "VBG"}
        return has_subject and "expl" not in relations
    predicate = ATTRIBUTE.find(verb.children)
    if predicate is None or not SUBJECT.matches(phrase.head):
        return False
    return SINGULAR_ARTICLE.matches_any(predicate.lefts)


def _is_compared(phrase: NounPhrase) -> bool:
    """Return True for what another thing is like ("moss that resembles a carpet"): it is like
    several of them, too.
    """
    return COMPARISON.matches(phrase.head.head)


def _is_counted_again(phrase: NounPhrase) -> bool:
    """Return True for several things of which a later word picks some ("two dogs, one all wet")."""
    if "pl" not in list_numbers(phrase.head):
        return False
    patterns = (COUNTED_LATER, COUNTED_BEHIND_COMMA, SOME_OF_THEM)
    later_words = phrase.head.doc[phrase.head.i + 1 :]
    has_later_count = any(matches_one_of(word, patterns) for word in later_words)
    return has_later_count or any(map(_counts_alone, later_words))


def _is_mentioned_again(phrase: NounPhrase) -> bool:
    """Return True for a thing that a text mentions with "a" and in a later sentence with "the"."""
    return phrase.head in _find_repeated(phrase.head.doc)


@lru_cache(maxsize=8)
def _find_repeated(doc: Doc) -> frozenset[Token]:
    """Return the nouns that name a thing of which another sentence speaks with the same noun."""
    mentions: dict[str, list[Token]] = {}
    for noun in NOUN.select(doc):
        mentions.setdefault(noun.lower_, []).append(noun)
    repeated: set[Token] = set()
    for nouns in mentions.values():
        first, last = nouns[0], nouns[-1]
        is_definite = DEFINITE_ARTICLE.matches_any(last.lefts)
        is_new = not DEFINITE_ARTICLE.matches_any(first.lefts)
        if is_definite and is_new and first.sent != last.sent:
            repeated.update(nouns)
    return frozenset(repeated)


def _counts_alone(word: Token) -> bool:
    """Return True for a number behind a comma or "and" that stands before a verb or preposition
    instead of a noun ("two wearing hats").
    """
    after = word.doc[word.i + 1 : word.i + 2]
    return COUNTED_BEHIND_LINK.matches(word) and PREDICATION.matches_any(after)


def _has_unclear_pronoun(phrase: NounPhrase) -> bool:
    """Return True where a pronoun may refer to this noun and to others ("a man throws a ball after
    another man kicks his foot"), and before one that stresses it ("the works themselves").
    """
    is_stressed = REFLEXIVE.matches_any(_get_after(phrase))
    return is_stressed or phrase.head in _find_rivals(phrase.head.doc)


@lru_cache(maxsize=8)
def _find_rivals(doc: Doc) -> frozenset[Token]:
    """Return the nouns to which a pronoun may refer that may refer to others, too."""
    nouns = [phrase.head for phrase in find_noun_phrases(doc)]
    rivals: set[Token] = set()
    for pronoun in PRONOUN.select(doc):
        meant = _list_meant(pronoun, nouns)
        is_possessive = IT_IS.matches_any(pronoun.doc[pronoun.i + 1 : pronoun.i + 2])
        lacks_being = pronoun.lower_ in OF_BEINGS and not any(map(_is_being, meant))
        if len(meant) > 1 or lacks_being or is_possessive:
            rivals.update(meant)
        # Things behind the first one may be meant as well, but a subject takes up the first.
        if SUBJECT.matches(pronoun) or any(map(_is_being, meant)):
            continue
        possible = _list_possible(pronoun, nouns)
        if not _find_described(pronoun, possible):
            rivals.update(_list_things(possible)[1:])
    return frozenset(rivals)


def resolve_pronouns(doc: Doc, nouns: Sequence[Token]) -> dict[Token, Token]:
    """Return for each pronoun the noun to which it refers; a pronoun without antecedent is absent."""
    pronouns = filterfalse(_is_expletive, PRONOUN.select(doc))
    meant = {pronoun: _list_meant(pronoun, nouns) for pronoun in pronouns}
    return {
        pronoun: antecedents[0] for pronoun, antecedents in meant.items() if antecedents
    }


def _is_expletive(pronoun: Token) -> bool:
    """Return True for a subject that announces a clause ("it is obvious that"), also where "its" is
    written for "it's" ("its hard to see").
    """
    siblings = list(pronoun.head.children)
    if ITS.matches(pronoun):
        return True
    is_subject = pronoun.lower_ == "it" and SUBJECT.matches(pronoun)
    states = ADJECTIVE.matches_any(siblings) and CLAUSE.matches_any(siblings)
    return is_subject and states


def _list_meant(pronoun: Token, nouns: Sequence[Token]) -> list[Token]:
    """Return the nouns that a pronoun may mean.

    A pronoun means people or animals rather than things, and a thing rather than its picture.
    Among things, the first one is trusted.
    """
    possible = _list_possible(pronoun, nouns)
    described = _find_described(pronoun, possible)
    if described:
        return described
    beings = list(filter(_is_being, possible))
    return beings or _list_things(possible)[:1] or possible[:1]


def _list_possible(pronoun: Token, nouns: Sequence[Token]) -> list[Token]:
    """Return the nouns that order, number, gender and clause leave for a pronoun."""
    stressed = pronoun.doc[max(pronoun.i - 1, 0) : pronoun.i]
    if REFLEXIVE.matches(pronoun) and NOUN.matches_any(stressed):
        return [noun for noun in nouns if noun in stressed]
    possible = list_antecedents(pronoun, nouns)
    if not POSSESSIVE.matches(pronoun):
        possible = [noun for noun in possible if not _acts_on(noun, pronoun)]
    clause = pronoun.head.head
    if OF_PREPOSITION.matches(pronoun) and PASSIVE_CLAUSE.matches(clause):
        # "a design painted on it"
        return [noun for noun in possible if noun != clause.head]
    return possible


def _list_things(possible: Sequence[Token]) -> list[Token]:
    """Return the nouns that are no words for pictures."""
    return [noun for noun in possible if noun.lower_ not in PICTURES]


def _acts_on(noun: Token, pronoun: Token) -> bool:
    """Return True for a noun of whose action a pronoun is the object, or part of it ("a panda that
    chews a part of it"), so that the pronoun means something else.
    """
    object_ = pronoun
    while OF_PREPOSITION.matches(object_) and OF.matches(object_.head):
        object_ = object_.head.head
    verb = object_.head
    if PREPOSITION.matches(verb) and object_ != pronoun:  # "chews on part of it"
        verb = verb.head
    is_object = object_ != pronoun or OBJECT.matches(object_)
    is_action = is_object and VERB.matches(verb) and not REFLEXIVE.matches(pronoun)
    return is_action and _find_subject(verb) == noun


def _find_described(pronoun: Token, nouns: Sequence[Token]) -> list[Token]:
    """Return the noun of the clause in which a pronoun stands ("a bag that has a star on it"), but
    not of one that the noun does to it ("a frame that holds it") or that names its place ("where").
    """
    for ancestor in filter(CLAUSE_OF_NOUN.matches, pronoun.ancestors):
        is_object = pronoun.head == ancestor and OBJECT.matches(pronoun)
        if not is_object and not PLACE_OF_CLAUSE.matches_any(ancestor.children):
            return [noun for noun in nouns if noun == ancestor.head]
    return []


def _keeps_verb(phrase: NounPhrase) -> bool:
    """Return True for the first noun of a sentence whose verb the parser joined to a later noun, so
    that the verb would not change with it ("a girl dressed in red and blue walks").
    """
    head = phrase.head
    sentence = head.sent
    opens_sentence = not any(
        token.is_alpha for token in head.doc[sentence.start : phrase.start]
    )
    later_words = head.doc[head.i + 1 : sentence.end]
    verb = next(
        (word for word in later_words if matches_one_of(word, FINITE_OR_CLAUSE)), None
    )
    if not opens_sentence or verb is None:
        return False
    is_plural = "pl" in list_numbers(head)
    between = head.doc[head.i + 1 : verb.i]
    # "men and women walk" stays a plural with one man.
    if is_plural and LIST_MARK.matches_any(between):
        return False
    new: Number = "sg" if is_plural else "pl"
    # A verb that changes with the noun shows that the parser joined them.
    agreeing = find_agreeing_verbs(head, new)
    changed = {*agreeing, *(token.i for token in find_distant_verbs(phrase))}
    if phrase.verb is not None or not changed.isdisjoint(range(verb.i + 1)):
        return False
    return change_verb_number(verb, new) is not None


def is_possession(noun: Token) -> bool:
    """Return True for a noun behind "his" that is a thing, unlike the words in "to his left" and "to
    his right holding a cup".
    """
    word = noun.lower_
    return word not in {"left", "right"} and not _is_participle(word)


def _is_being(noun: Token) -> bool:
    """Return True for people or animals."""
    word = singularize(noun.lower_)
    return _is_person(word) or word in read_words("animals")


RULES: tuple[tuple[str, Callable[[NounPhrase], bool]], ...] = (
    (QUOTATION, _is_quoted),
    (TORN_WORD, _is_torn),
    (PART_OF_PHRASE, _begins_earlier),
    (DOUBTFUL_PARSE, has_doubtful_verb),
    (NEGATION, _is_negated),
    (NAME, _is_in_name),
    (UNIT, _has_unit),
    (OTHER_QUANTITY, _keeps_quantity),
    (PART_OF_QUANTITY, _is_part_of_quantity),
    (OTHER_FORM, _differs_in_number),
    (NO_NOUN, _may_be_verb),
    (MODIFIER, _may_modify_noun),
    (NOT_COUNTED, _is_uncounted),
    (NO_OTHER_NUMBER, _lacks_other_number),
    (AMONG_SEVERAL, _is_among_several),
    (ANOTHER_FITS, _may_fit_another),
    (SHARED_OUT, _is_shared_out),
    (JOINT, _is_joint),
    (FIXED_EXPRESSION, _is_fixed),
    (SHARED_ARTICLE, _shares_article),
    (PREDICATE, _is_predicate),
    (COMPARED, _is_compared),
    (COUNTED_AGAIN, _is_counted_again),
    (MENTIONED_AGAIN, _is_mentioned_again),
    (UNCLEAR_PRONOUN, _has_unclear_pronoun),
    (UNCHANGED_VERB, _keeps_verb),
)
"""Reasons why no quantifier can be given to a phrase, in the order in which they are tried."""
