"""The grammaticality score of GRUEN, from a masked language model and a classifier of
acceptability.

With LM, the mean over sentences of exp(cross-entropy) of the unmasked sentence, and CoLA, the mean
over sentences of the raw logit of the class "acceptable":

    grammaticality = max(0, (exp(-LM / 2) + CoLA) / 8 + 1 / 2)

The score has no upper limit. A text without a sentence of two words has LM = CoLA = 0 and scores
0.625. GRUEN's other parts (redundancy, focus) do not apply to single sentences and are not
computed, as in the thesis. Source: Zhu and Bhat (Findings of EMNLP 2020) and their released code.
"""

import math
import re
import string
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

from waltz.core.errors import UserError
from waltz.models.batches import ProgressCallback, Tokens, ignore_progress
from waltz.models.text.classifier import Classifier, compute_class_logits
from waltz.models.text.masked import MaskedModel, compute_unmasked_losses

MAX_PIECES = 510
"""Highest number of word pieces of a sentence that the masked LM reads, without its two special
tokens.
"""
ACCEPTABILITY_POSITIONS = 128
"""Highest number of token positions that the acceptability classifier reads, special tokens
included.
"""
ABBREVIATIONS = frozenset(
    [
        "dr",
        "e.g",
        "etc",
        "i.e",
        "jr",
        "mr",
        "mrs",
        "ms",
        "mt",
        "no",
        "prof",
        "sr",
        "st",
        "u.k",
        "u.s",
        "vs",
    ]
)
"""Abbreviations whose full stop does not end a sentence; the released code uses a Punkt model
trained on newspapers.
"""
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
"""Translation table that deletes ASCII punctuation."""
DECIMAL = re.compile(r"\d+\. \d+")
"""Decimal number after `_repair` put a space behind its full stop ("3. 5")."""


def score_texts(
    texts: Iterable[str],
    masked: MaskedModel,
    acceptability: Classifier,
    cache_file: Path | None = None,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[str, float]:
    """Return the grammaticality of each distinct text; a sentence that several texts share is
    scored once.

    Args:
        texts: Texts of one sentence or more.
        masked: The masked LM (`bert-base-cased` in the papers).
        acceptability: A classifier of two classes, fine-tuned on CoLA.
        on_progress: Called with the number of distinct sentences of each batch of either model.
    Returns:
        The score by text: 0 or more, about 1 for a good sentence.
    """
    sentences_by_text = {text: split_sentences(text) for text in dict.fromkeys(texts)}
    # A dictionary as an ordered set: each sentence once, in the order of the texts.
    distinct: dict[str, None] = {}
    for sentences in sentences_by_text.values():
        distinct |= dict.fromkeys(sentences)

    # Two models read each sentence: the masked LM gives a loss, the classifier the logits of its
    # classes.
    tokens = {sentence: _tokenize(sentence, masked) for sentence in distinct}
    losses = compute_unmasked_losses(masked, tokens.values(), cache_file, on_progress)
    logits = compute_class_logits(
        acceptability,
        [(sentence,) for sentence in distinct],
        max_positions=ACCEPTABILITY_POSITIONS,
        cache_file=cache_file,
        on_progress=on_progress,
    )
    # A text's score averages over its sentences, looked up by their tokens and by the sentence
    # itself.
    acceptable = find_acceptable_class(acceptability)
    scores = {}
    for text, sentences in sentences_by_text.items():
        scores[text] = compute_grammaticality(
            losses=[losses[tokens[sentence]] for sentence in sentences],
            acceptabilities=[
                float(logits[(sentence,)][acceptable]) for sentence in sentences
            ],
        )
    return scores


def compute_grammaticality(
    losses: Sequence[float], acceptabilities: Sequence[float]
) -> float:
    """Return the score of a text from the scores of its sentences: 0 or more, about 1 for a good
    sentence.

    Args:
        losses: Mean cross-entropy of each sentence, in nats.
        acceptabilities: Raw logit of the class "acceptable" of each sentence.
    Source:
        GRUEN (Zhu and Bhat, Findings of EMNLP 2020), as its released code computes it.
    """
    n_sentences = max(len(losses), 1)  # a text without sentences has LM = CoLA = 0
    # LM: the mean perplexity of the sentences; CoLA: their mean logit.
    likelihood = math.fsum(map(math.exp, losses)) / n_sentences
    acceptability = math.fsum(acceptabilities) / n_sentences
    # exp(-LM / 2) is at most exp(-1/2), since a perplexity is at least 1; 1/8 and 1/2 are the
    # released constants.
    grammaticality = (math.exp(-likelihood / 2) + acceptability) / 8 + 1 / 2
    return max(0.0, grammaticality)


def split_sentences(text: str) -> list[str]:
    """Split a text into its sentences of at least two words, after the released code's repairs of
    stops and breaks.
    """
    sentences = _load_splitter().tokenize(_repair(text))
    return [sentence for sentence in sentences if _count_words(sentence) > 1]


def _count_words(sentence: str) -> int:
    return len(sentence.translate(NO_PUNCTUATION).split())


def find_acceptable_class(model: Classifier) -> int:
    """Return the index of the class "acceptable"; if no class has that name, return 1, its index in
    CoLA.
    """
    if len(model.labels) != 2:
        raise UserError(
            f"models.{model.spec.name}: {model.spec.weights} has {len(model.labels)} classes"
            f" ({', '.join(model.labels)}); GRUEN needs a classifier of two, fine-tuned on CoLA"
        )
    classes = [
        index
        for index, label in enumerate(model.labels)
        if label.lower() == "acceptable"
    ]
    return classes[0] if classes else 1


def _repair(text: str) -> str:
    """Repair a text as the released code does: a line break becomes a full stop, a decimal number
    becomes UNK.

    One space follows each full stop.
    """
    text = re.sub(r"\n\n?", ". ", text.strip())
    # The released code's order: double full stops first, then one space behind each full stop.
    text = text.replace("..", ".").replace(".", ". ")
    text = text.replace(". . ", ". ").replace(".  . ", ". ")
    text = re.sub(" {2,}", " ", text)
    # The space after each full stop has split decimal numbers ("3. 5"), which would end a sentence.
    while number := DECIMAL.search(text):
        text = text.replace(number.group(), "UNK")
    return text.strip()


def _tokenize(sentence: str, model: MaskedModel) -> Tokens:
    """Return the token ids of a sentence with its special tokens, cut to `MAX_PIECES` word pieces."""
    ids = model.tokenize(sentence)
    n_before, n_after = model.special_counts
    end = len(ids) - n_after
    return (*ids[:end][: n_before + MAX_PIECES], *ids[end:])


@cache
def _load_splitter() -> PunktSentenceTokenizer:
    parameters = PunktParameters()
    parameters.abbrev_types = set(ABBREVIATIONS)
    return PunktSentenceTokenizer(parameters)
