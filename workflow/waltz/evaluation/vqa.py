"""Questions about images (VQA, GQA): selection, comparison of answers, and accuracy by profile.

- `published`: the share of correct answers. The answer of an encoder is correct if it is the gold answer (VQA's agreed
  answer, GQA's answer), compared without case, extra whitespace and a final full stop. The answer of a decoder is
  correct if it contains a gold answer.
- `equations`: the measure of VQA, min(1, annotators with that answer / 3), averaged over the ten sets of nine
  annotators (Antol et al. 2015, as in its evaluation code); for GQA, which has one gold answer, the share of right
  answers. Answers are normalized before comparison. An encoder's answer is right if it equals a gold answer; the text
  that a decoder generates is right if it gives a gold answer (`gives_answer`).
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from waltz.core.layout import Row
from waltz.core.number_words import NUMBER_WORDS
from waltz.core.sampling import sample_at_most
from waltz.evaluation.settings import WITHHELD
from waltz.fidelity import Fidelity
from waltz.sources.published_samples import select_published_ids

ANSWERING = "answering"
"""Setting of answers to questions about images."""
ANSWER = "answer"
"""Role of answers."""
ARTICLES = frozenset({"a", "an", "the"})
DIGITS = {
    "none": "0",
    **{word: str(number) for number, word in enumerate(NUMBER_WORDS[:11])},
}
"""Digits for number words, so that "two" equals "2" when answers are compared."""
WORDS = re.compile(r"\d+(?:[.,:/]\d+)+|\w+")
"""Pattern of a word, or of a number with a point, comma, colon or slash in it."""
POLAR_WORDS = frozenset({"yes", "no"})
"""Answers to questions that ask whether something is so."""
NEGATIONS = frozenset(
    {
        *("no", "not", "never", "without", "neither", "nor", "cannot", "cant", "wont"),
        *("isnt", "arent", "wasnt", "werent", "doesnt", "dont", "didnt", "havent"),
    }
)
"""Words, without apostrophes, that deny what follows in their clause."""
CLAUSE_END = re.compile(r"[.,;:!?]+(?=\s|$)|\bbut\b", re.IGNORECASE)
"""Pattern of what separates two clauses."""
SENTENCE_TOKENS = re.compile(rf"{WORDS.pattern}|;|(?<=\w)-(?=\w)")
"""Pattern of a word, the end of a clause, or a hyphen within a word."""
LIST_MARK = re.compile(r"\s*\d+[.)]\s+(?=\S)")
"""Pattern of the number of a list entry at the beginning of a text ("5. There is a horse")."""

FULL_AGREEMENT = 3
"""Number of annotators who must agree with an answer to make it fully right."""


@dataclass(frozen=True, slots=True)
class VqaItem:
    """Hold a question about an image with its gold answers.

    Attributes:
        item_id: Id of the item.
        image: Name of the image.
        question: The question.
        answer: The gold answer: VQA's agreed answer, or GQA's answer.
        answers: Answers of the annotators; empty for GQA.
    """

    item_id: str
    image: str
    question: str
    answer: str
    answers: Sequence[str]


def select_vqa_items(
    name: str, rows: Sequence[Row], n: int | None, seed: int, choice: str | None = None
) -> tuple[list[VqaItem], Counter[str]]:
    """Select the questions of a data set: a seeded sample, or the questions of the published runs.

    Args:
        name: Name of the data set.
        rows: All rows of a source, of the layout `QUESTIONS`, in file order.
        n: Number of questions; None takes all, and a smaller source is taken completely.
        seed: Seed of the sample.
        choice: A key of `sources.published_samples.PUBLISHED_SAMPLES`, which takes the rows of the
            published runs: all usable rows among the first n drawn. None draws a seeded sample.
    Returns:
        The questions; and the number of rows that cannot be used, by reason.
    """
    unusable: Counter[str] = Counter()
    usable: dict[str, Row] = {}
    for row in rows:
        if row["rejected"] is not None:
            unusable[row["rejected"]] += 1
        elif row["answer"] is None:
            unusable[WITHHELD] += 1
        else:
            usable[row["source_id"]] = row

    # A published draw includes rows that cannot be used; a sample is drawn from the usable rows.
    if choice is None:
        ids = sample_at_most(list(usable), n, seed)
    else:
        ids = select_published_ids(choice, rows, n)
    items = []
    for source_id in ids:
        if source_id not in usable:
            continue
        row = usable[source_id]
        items.append(
            VqaItem(
                f"{name}:{source_id}",
                row["image"],
                row["question"],
                row["answer"],
                row["answers"],
            )
        )
    return items, unusable


def contains_gold_answer(predicted: str, gold: str, annotators: Sequence[str]) -> bool:
    """Return whether an answer, in lower case, contains a gold answer: the rule of the released
    code for decoders.

    The answer of any annotator counts as a gold answer, in lower case too (VQA). Without annotators
    the single gold answer counts, as it is written (GQA).
    """
    # The released code puts the answers of annotators (VQA) into lower case, but not the single
    # answer of GQA.
    golds = [gold]
    if annotators:
        golds = [answer.lower() for answer in annotators]
    return any(answer in predicted.lower() for answer in golds)


def normalize_case(answer: str) -> str:
    """Normalize an answer: remove case, extra whitespace and a final full stop."""
    return " ".join(answer.casefold().split()).removesuffix(".").rstrip()


def normalize_answer(answer: str) -> str:
    """Normalize an answer as VQA's evaluation does: remove case, articles and punctuation, write
    numbers as digits.

    Number words up to ten become digits. Apostrophes are dropped in all answers, so that no list of
    contractions is needed. A point, comma, colon or slash between digits stays, and so does an
    answer that consists of articles ("a").
    """
    return " ".join(_read_tokens(answer, WORDS))


def _read_tokens(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Return the tokens of a text by a pattern, in the form of `normalize_answer`."""
    without_apostrophes = re.sub("['’]", "", text.casefold())
    tokens: list[str] = []
    for match in pattern.findall(without_apostrophes):
        word = match.strip("_")  # \w counts an underscore as a letter
        if word:
            tokens.append(DIGITS.get(word, word))
    without_articles = [token for token in tokens if token not in ARTICLES]
    return without_articles or tokens


def gives_answer(generated: str, answer: str) -> bool:
    """Return whether a text that a decoder generates gives an answer.

    The words of the answer occur in the text in one piece, after the normalization of
    `normalize_answer`: "The horse is on the sidewalk" gives "sidewalk" and "on the sidewalk". They
    do not count

    - inside a hyphenated word ("2" in "2-way"), or as the number of a list entry ("5. A horse");
    - after a negation in their clause ("not red", "no horse on the sidewalk");
    - if the rest of the text has the word "or", which lists options ("red or blue").

    A text that begins with yes or no gives this one of the two ("Yes, there is no car").

    Args:
        generated: The text of the decoder.
        answer: A gold answer, or the answer of an annotator.
    """
    gold = normalize_answer(answer)
    if normalize_answer(generated) == gold:
        return True
    # Hyphens within words and the ends of clauses are tokens, too.
    entry = CLAUSE_END.sub(" ; ", LIST_MARK.sub("", generated, count=1))
    text = " ".join(_read_tokens(entry, SENTENCE_TOKENS))
    if not gold:
        return False
    # The first word decides between yes and no.
    first, _, rest = text.partition(" ")
    if {gold, first} <= POLAR_WORDS and not rest.startswith("- "):
        return first == gold and not rest.startswith("or ")
    words = r" (?:[-;] )?".join(map(re.escape, gold.split()))
    pattern = rf"(?<!\S)(?<!- ){words}(?!\S)(?! -)"
    return any(
        not _is_denied_or_option(text[: match.start()], text[match.end() :])
        for match in re.finditer(pattern, text)
    )


def _is_denied_or_option(before: str, after: str) -> bool:
    """Return whether the tokens before and after an answer deny it, or list it with other options."""
    if "or" in f"{before} {after}".split():
        return True
    clause = before.rpartition(";")[2]
    return not NEGATIONS.isdisjoint(clause.split())


def score_answer(
    predicted: str,
    is_gold: bool,
    item: VqaItem,
    fidelity: Fidelity,
    is_generated: bool = False,
) -> float:
    """Return the accuracy of one answer, between 0 and 1.

    Args:
        predicted: The answer.
        is_gold: The verdict by the gold answer.
        item: The question.
        fidelity: `published` takes the verdict, `equations` compares with the answers of annotators
            if there are any.
        is_generated: Whether a decoder generated the answer; else it is an entry of a vocabulary.
    """
    if not fidelity.annotators:
        return float(is_gold)
    # GQA has one answer and no annotators.
    if not item.answers:
        return float(_agrees(predicted, item.answer, is_generated))
    return compute_annotator_accuracy(predicted, item.answers, is_generated)


def _agrees(predicted: str, answer: str, is_generated: bool) -> bool:
    """Return whether an answer agrees with the answer of an annotator."""
    if is_generated:
        return gives_answer(predicted, answer)
    return normalize_answer(predicted) == normalize_answer(answer)


def compute_annotator_accuracy(
    predicted: str, answers: Sequence[str], is_generated: bool = False
) -> float:
    """Return VQA's accuracy of one answer: the mean over annotators of min(1, other annotators with
    that answer / 3).

    It is between 0 and 1.

    Args:
        predicted: The answer.
        answers: Answers of the annotators, ten in VQA.
        is_generated: Whether a decoder generated the answer, which then agrees with each annotator
            whose answer it gives (`gives_answer`); else it agrees with equal answers.
    """
    agrees = [_agrees(predicted, answer, is_generated) for answer in answers]
    n_agreeing = sum(agrees)
    # Each annotator is left out once; of the others, three that agree make the answer fully right.
    scores = [
        min(1.0, (n_agreeing - is_agreeing) / FULL_AGREEMENT) for is_agreeing in agrees
    ]
    return sum(scores) / len(agrees)
