"""GRUEN's grammaticality: the likelihood of a text by a masked LM, and its acceptability by a classifier.

With LM, the mean over sentences of exp(cross-entropy) of the unmasked sentence, and CoLA, the mean over
sentences of the raw logit of the class "acceptable":

    grammaticality = max(0, (exp(-LM / 2) + CoLA) / 8 + 1 / 2)

It is not capped above; a text without a sentence of two words has LM = CoLA = 0 and scores 0.625. GRUEN's
other parts (redundancy, focus) do not apply to single sentences and are not computed, as in the thesis.
Source: Zhu and Bhat (Findings of EMNLP 2020) and their released code.
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
"""Most word pieces of a sentence that the masked LM reads, its two special tokens aside."""
ACCEPTABILITY_POSITIONS = 128
ABBREVIATIONS = frozenset(
    ["dr", "e.g", "etc", "i.e", "jr", "mr", "mrs", "ms", "mt", "no", "prof", "sr", "st", "u.k", "u.s", "vs"]
)
"""Words that Punkt does not take for the end of a sentence; the released code uses a model trained on newspapers."""
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
DECIMAL = re.compile(r"\d+\. \d+")


def score_texts(
    texts: Iterable[str],
    masked: MaskedModel,
    acceptability: Classifier,
    cache_file: Path | None = None,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[str, float]:
    """Return the grammaticality of each distinct text; sentences that texts share are scored once.

    Args:
        texts: Texts of one sentence or more.
        masked: The masked LM (`bert-base-cased` in the papers).
        acceptability: A classifier of two classes, fine-tuned on CoLA.
        on_progress: Called with the number of distinct sentences of each batch of either model.
    Returns:
        By text, a number from 0; about 1 for a good sentence.
    """
    acceptable = find_acceptable_class(acceptability)
    sentences = {text: split_sentences(text) for text in dict.fromkeys(texts)}
    distinct = list(dict.fromkeys(sentence for text_sentences in sentences.values() for sentence in text_sentences))
    tokens = {sentence: _tokenize(sentence, masked) for sentence in distinct}
    losses = compute_unmasked_losses(masked, tokens.values(), cache_file, on_progress)
    logits = compute_class_logits(
        acceptability,
        [(sentence,) for sentence in distinct],
        max_positions=ACCEPTABILITY_POSITIONS,
        cache_file=cache_file,
        on_progress=on_progress,
    )
    return {
        text: compute_grammaticality(
            [losses[tokens[sentence]] for sentence in text_sentences],
            [float(logits[(sentence,)][acceptable]) for sentence in text_sentences],
        )
        for text, text_sentences in sentences.items()
    }


def compute_grammaticality(losses: Sequence[float], acceptabilities: Sequence[float]) -> float:
    """Return the score of a text from its sentences.

    Args:
        losses: Mean cross-entropy of each sentence, in nats.
        acceptabilities: Raw logit of the class "acceptable" of each sentence.
    """
    likelihood = math.fsum(map(math.exp, losses)) / max(len(losses), 1)
    acceptability = math.fsum(acceptabilities) / max(len(acceptabilities), 1)
    return max(0.0, (math.exp(-likelihood / 2) + acceptability) / 8 + 1 / 2)


def split_sentences(text: str) -> list[str]:
    """Return sentences of two words or more, after the released code's repairs of full stops and line breaks."""
    return [
        sentence
        for sentence in _load_splitter().tokenize(_repair(text))
        if len(sentence.translate(NO_PUNCTUATION).split()) > 1
    ]


def find_acceptable_class(model: Classifier) -> int:
    """Return the class of acceptable sentences: the one with that name, else 1, as in CoLA."""
    if len(model.labels) != 2:
        raise UserError(
            f"models.{model.spec.name}: {model.spec.weights} has {len(model.labels)} classes"
            f" ({', '.join(model.labels)}); GRUEN needs a classifier of two, fine-tuned on CoLA"
        )
    classes = [index for index, label in enumerate(model.labels) if label.lower() == "acceptable"]
    return classes[0] if classes else 1


def _repair(text: str) -> str:
    """Return a text whose line breaks end a sentence, with one space after a full stop and UNK for decimal numbers."""
    text = re.sub(r"\n\n?", ". ", text.strip())
    text = text.replace("..", ".").replace(".", ". ")
    text = text.replace(". . ", ". ").replace(".  . ", ". ")
    text = re.sub(" {2,}", " ", text)
    while number := DECIMAL.search(text):
        text = text.replace(number.group(), "UNK")
    return text.strip()


def _tokenize(sentence: str, model: MaskedModel) -> Tokens:
    ids = model.tokenize(sentence)
    before, after = model.special_counts
    return (*ids[: len(ids) - after][: before + MAX_PIECES], *ids[len(ids) - after :])


@cache
def _load_splitter() -> PunktSentenceTokenizer:
    parameters = PunktParameters()
    parameters.abbrev_types = set(ABBREVIATIONS)
    return PunktSentenceTokenizer(parameters)
