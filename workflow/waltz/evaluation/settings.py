"""Settings of the steps of evaluation, and the settings and roles that its columns name."""

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = "alignment"
"""Setting of the scores of encoders; also the instrument of items whose foil is the text of another
image.
"""
VALSE_SCRIPT = "valse-script"
"""Setting of the scores of LXMERT by the rules of VALSE's script, in `published` alone."""
PERPLEXITY = "perplexity"
"""Setting of the scores of language models, which see no image."""
SINGLE = "single"
"""Setting of the answers of decoders to the question whether a text describes its image."""
PAIRWISE = "pairwise"
"""Setting of the choices of decoders between caption and foil."""
CHOICE = "choice"
"""Setting of answers to questions with labels that are about text alone."""
AFTER_COT = "-after-cot"
"""Suffix of the settings in which answers follow a chain of thought."""
MISMATCHED = "mismatched"
"""Role of a foil that is the text of another image."""
FOILS = ("foil", MISMATCHED)
"""Roles of texts that are wrong for their image."""
RIGHT_PREDICTION = {"caption": "match", "foil": "mismatch", MISMATCHED: "mismatch"}
"""Right prediction for a text of each role."""
WITHHELD = "the answer is withheld"
"""Reason why a question without an answer cannot be used."""
EXPECTED_PREDICTION = {True: "match", False: "mismatch"}
"""Right prediction for a row of CV-Probes, for each value of its column `match`."""
ALL_DATA_SETS = "all data sets"
"""Name of the data set of differences over all data sets, each with the same weight; no data set of a
study has spaces.
"""
GROUPED_SETTINGS = (ALIGNMENT, SINGLE)
"""Settings in which each text has a score with its image, so that images can be compared."""
GROUP_METRICS = ("text_score", "image_score", "group_score")
"""Metrics of groups of two images and two captions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringSettings:
    """Hold the settings by which models score the items of data sets.

    Attributes:
        profiles: Names of the profiles.
        scored: Which items are scored, `valid` or `all`, as in `evaluation.items`.
        sample: Number of items of each data set; None takes all.
        seed: Seed of samples, orders and draws.
    """

    profiles: Sequence[str]
    scored: str
    sample: int | None
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweringSettings:
    """Hold the settings by which encoders answer the questions of data sets.

    Attributes:
        profiles: Names of the profiles.
        seed: Seed of the samples of questions.
    """

    profiles: Sequence[str]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelihoodSettings(ScoringSettings):
    """Hold the settings by which language models score the items of data sets.

    Attributes:
        tokens_per_batch: Maximum number of tokens in one forward pass.
    """

    tokens_per_batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptingSettings(ScoringSettings):
    """Hold the settings by which decoders are asked about the items of data sets.

    Attributes:
        cot_tokens: Maximum number of tokens of a chain of thought; 0 requests no answers after a
            chain of thought.
    """

    cot_tokens: int
