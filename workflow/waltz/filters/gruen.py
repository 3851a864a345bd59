"""GRUEN's grammaticality: how likely a masked LM finds a text, and how acceptable a classifier finds it.

With LM, the mean over sentences of exp(cross-entropy) of the unmasked sentence, and CoLA, the mean over
sentences of the raw logit of the class "acceptable":

    grammaticality = max(0, (exp(-LM / 2) + CoLA) / 8 + 1 / 2)

It is not capped above; a text without a sentence of two words has LM = CoLA = 0 and scores 0.625. GRUEN's
other parts (redundancy, focus) say nothing about single sentences and are left out, as in the thesis.
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
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.text.classifier import Classifier, compute_class_logits
from waltz.models.text.masked import MaskedModel, compute_unmasked_losses
from waltz.models.text.prefix_trees import Tokens

PIECES = 510
"""Most word pieces of a sentence that the masked LM reads, its two special tokens aside."""
ACCEPTABILITY_POSITIONS = 128
ABBREVIATIONS = frozenset(
    ["dr", "e.g", "etc", "i.e", "jr", "mr", "mrs", "ms", "mt", "no", "prof", "sr", "st", "u.k", "u.s", "vs"]
)
"""What Punkt takes for no end of a sentence: the released code has a model trained on newspapers in this place."""
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
DECIMAL = re.compile(r"\d+\. \d+")


def score_texts(
    texts: Iterable[str],
    masked: MaskedModel,
    acceptability: Classifier,
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
) -> dict[str, float]:
    """Grammaticality of each distinct text; sentences that texts share are read once.

    Args:
        texts: Texts of one sentence or more.
        masked: The masked LM (`bert-base-cased` in print).
        acceptability: A classifier of two classes, fine-tuned on CoLA.
        stored: Folder of finished batches.
        done: Told how many distinct sentences another batch of either model finished.
    Returns:
        By text, a number from 0; about 1 for a good sentence.
    Raises:
        UserError: The classifier has no class of acceptable sentences.
    """
    good = acceptable_class(acceptability)
    sentences = {text: split(text) for text in dict.fromkeys(texts)}
    distinct = list(dict.fromkeys(sentence for some in sentences.values() for sentence in some))
    tokens = {sentence: _tokens(sentence, masked) for sentence in distinct}
    losses = compute_unmasked_losses(masked, tokens.values(), stored, done)
    logits = compute_class_logits(
        acceptability,
        [(sentence,) for sentence in distinct],
        max_positions=ACCEPTABILITY_POSITIONS,
        cache_folder=stored,
        on_progress=done,
    )
    return {
        text: grammaticality(
            [losses[tokens[sentence]] for sentence in some], [float(logits[(sentence,)][good]) for sentence in some]
        )
        for text, some in sentences.items()
    }


def grammaticality(losses: Sequence[float], acceptabilities: Sequence[float]) -> float:
    """The score of a text from its sentences.

    Args:
        losses: Mean cross-entropy of each sentence, in nats.
        acceptabilities: Raw logit of the class "acceptable" of each sentence.
    """
    likelihood = math.fsum(map(math.exp, losses)) / max(len(losses), 1)
    acceptability = math.fsum(acceptabilities) / max(len(acceptabilities), 1)
    return max(0.0, (math.exp(-likelihood / 2) + acceptability) / 8 + 1 / 2)


def split(text: str) -> list[str]:
    """Sentences of two words or more, after the released code's repairs of full stops and line breaks."""
    return [
        sentence
        for sentence in _splitter().tokenize(_repaired(text))
        if len(sentence.translate(NO_PUNCTUATION).split()) > 1
    ]


def acceptable_class(model: Classifier) -> int:
    """Which class says that a sentence is acceptable: the one so named, or 1, as in CoLA, where none is.

    Raises:
        UserError: The classifier has not two classes.
    """
    if len(model.labels) != 2:
        raise UserError(
            f"models.{model.spec.name}: {model.spec.weights} has {len(model.labels)} classes"
            f" ({', '.join(model.labels)}); GRUEN needs a classifier of two, fine-tuned on CoLA"
        )
    named = [place for place, label in enumerate(model.labels) if label.lower() == "acceptable"]
    return named[0] if named else 1


def _repaired(text: str) -> str:
    """Line breaks end a sentence, a full stop is followed by one blank, decimal numbers lose their point."""
    text = re.sub(r"\n\n?", ". ", text.strip())
    text = text.replace("..", ".").replace(".", ". ")
    text = text.replace(". . ", ". ").replace(".  . ", ". ")
    text = re.sub(" {2,}", " ", text)
    while number := DECIMAL.search(text):
        text = text.replace(number.group(), "UNK")
    return text.strip()


def _tokens(sentence: str, model: MaskedModel) -> Tokens:
    ids = model.tokenize(sentence)
    before, after = model.special_counts
    return (*ids[: len(ids) - after][: before + PIECES], *ids[len(ids) - after :])


@cache
def _splitter() -> PunktSentenceTokenizer:
    parameters = PunktParameters()
    parameters.abbrev_types = set(ABBREVIATIONS)
    return PunktSentenceTokenizer(parameters)
