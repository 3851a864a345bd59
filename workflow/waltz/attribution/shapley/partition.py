"""Owen values of a text's pieces, as shap explains language models: a tree of pieces, best split first."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from waltz.attribution.shapley.estimate import Estimate
from waltz.core.errors import UserError

PUBLISHED_ROWS = 500
"""Rows of one explanation in the released CC-SHAP."""
BATCH = 10
"""Rows that it evaluates at once; which nodes are split next depends on it."""
MASK = "..."

StringValue = Callable[[Sequence[str]], np.ndarray]
"""From k texts to values, float64 of shape (k, outputs)."""


@dataclass(frozen=True, eq=False)
class PieceAttribution:
    """Owen values of the pieces of a text.

    Attributes:
        pieces: The players: the text in pieces, with the spaces before them; a special token is empty.
        estimate: Values of shape (players, outputs); `value` is that of the joined pieces.
        evaluated: Distinct texts that the model read.
    """

    pieces: tuple[str, ...]
    estimate: Estimate
    evaluated: int


def compute_owen_values(
    text: str, tokenizer: Any, value: StringValue, *, seed: int, rows: int = PUBLISHED_ROWS, joins_tokens: bool = False
) -> PieceAttribution:
    """Return the Owen values of a text's pieces, as `shap.PartitionExplainer` computes them for the released CC-SHAP.

    A run of masked pieces becomes one " ...", spaces are squeezed, and the text is tokenized anew. A start token that
    the tokenizer adds is a player that cannot be masked, since the tokenizer adds it again; without it, "..." stands
    first. Groups of pieces are split until the rows are spent; pieces of an unsplit group get equal values. Nothing is
    sampled, but chance decides between splits of the same weight, so that the estimate counts as exact of these values,
    which are no Shapley values. numpy's global generator is left unchanged.

    Args:
        text: The prompt, without special tokens that the tokenizer adds.
        tokenizer: A tokenizer of `transformers`.
        value: Value of each output for texts; the model's tokenizer adds start tokens itself.
        seed: Seed of numpy's global generator, 0 to 2**32 - 1.
        rows: Most texts to evaluate, the empty and the whole one among them.
        joins_tokens: Whether each token is decoded alone and joined to the one before by a space, as shap does with
            tokenizers that know no offsets (`use_fast=False` in the released code: Llama, Mistral, GPT-2); then the
            joined pieces are not the text. Else pieces are cut from the text.
    Returns:
        The values, which sum to v(all) - v(none).
    Raises:
        UserError: The rows do not suffice for a split, the seed is out of range, or there are fewer than two pieces.
    Source:
        CC-SHAP's released script for language models; Owen values with coalitions of a heuristic tree of tokens.
    """
    import shap  # takes two seconds, and no other estimator needs it

    if rows < 4:
        raise UserError(f"rows: too few for one split of a text (got {rows}, expected at least 4); set at least 4")
    if not 0 <= seed < 2**32:
        raise UserError(f"seed: {seed} is no seed of numpy's global generator; take 0 to {2**32 - 1}")
    masker = _build_masker(tokenizer, joins_tokens)
    pieces = _cut_pieces(masker, text)
    if len(pieces) < 2:
        raise UserError(
            f"prompt {text!r}: too short for the partition estimator (got {len(pieces)} pieces, expected at least 2);"
            " give a longer one"
        )
    cached = _CachedValues(value)
    state = np.random.get_state()
    try:
        with _run_interpreted(), np.errstate(invalid="ignore"):  # infinite log-odds make NaN, which CC-SHAP reports
            np.random.seed(seed)
            explainer = shap.PartitionExplainer(cached, masker)
            explanation = explainer([text], max_evals=rows, batch_size=BATCH, silent=True)
    finally:
        np.random.set_state(state)
    full_value, empty_value = cached(
        [_mask_text(masker, np.full(len(pieces), visible), text) for visible in (True, False)]
    )
    phi = np.asarray(explanation.values[0], dtype=np.float64).reshape(len(pieces), -1)
    return PieceAttribution(
        pieces, Estimate(phi, empty_value, full_value, requested=cached.requested - 2, exact=True), len(cached.values)
    )


def cut_pieces(text: str, tokenizer: Any, joins_tokens: bool = False) -> tuple[str, ...]:
    """Return the pieces of a text, which are the players of `compute_owen_values`."""
    return _cut_pieces(_build_masker(tokenizer, joins_tokens), text)


def _build_masker(tokenizer: Any, joins_tokens: bool) -> Any:
    import shap

    return shap.maskers.Text(_PieceTokenizer(tokenizer, joins_tokens), mask_token=MASK, collapse_mask_token=True)


def _cut_pieces(masker: Any, text: str) -> tuple[str, ...]:
    return tuple(str(piece) for piece in masker.token_segments(text)[0])


class _PieceTokenizer:
    """A tokenizer for `shap.maskers.Text`, so that it cuts a text as the version in the released code does."""

    def __init__(self, tokenizer: Any, joins_tokens: bool) -> None:
        self.tokenizer, self.joins_tokens = tokenizer, joins_tokens
        self.sep_token, self.sep_token_id = tokenizer.sep_token, tokenizer.sep_token_id
        self.mask_token = tokenizer.mask_token
        self.special_tokens_map = tokenizer.special_tokens_map

    def __call__(self, text: str, return_offsets_mapping: bool = False) -> Any:
        if not text and self._adds_start_only():
            return {"input_ids": []}
        if return_offsets_mapping and self.joins_tokens:
            raise NotImplementedError("a tokenizer without offsets")  # shap's masker catches this and joins tokens
        return self.tokenizer(text, return_offsets_mapping=True) if return_offsets_mapping else self.tokenizer(text)

    def decode(self, ids: Any) -> str:
        return str(self.tokenizer.decode(ids))

    def get_special_tokens_mask(self, ids: Sequence[int], already_has_special_tokens: bool) -> list[int]:
        return [int(token in self.tokenizer.all_special_ids) for token in ids]

    def _adds_start_only(self) -> bool:
        """Return whether only a start token is added; shap keeps it visible now, but did not then."""
        special_ids = self.tokenizer("")["input_ids"]
        return list(special_ids) == [self.tokenizer.bos_token_id]


class _CachedValues:
    """A value function that reads no text twice and counts the texts that it is called with."""

    def __init__(self, value: StringValue) -> None:
        self.value, self.requested = value, 0
        self.values: dict[str, np.ndarray] = {}

    def __call__(self, texts: Sequence[Any]) -> np.ndarray:
        texts = [str(text) for text in texts]
        self.requested += len(texts)
        new = [text for text in dict.fromkeys(texts) if text not in self.values]
        if new:
            self.values.update(zip(new, np.asarray(self.value(new), dtype=np.float64), strict=True))
        return np.stack([self.values[text] for text in texts])


def _mask_text(masker: Any, mask: np.ndarray, text: str) -> str:
    return str(masker(mask, text)[0][0])


@contextmanager
def _run_interpreted() -> Iterator[None]:
    """Let shap run its loops in Python.

    shap compiles them by numba, once in each process: the first explanation of a process took 8 to 11 s compiled and
    2 s interpreted (a prompt of 42 tokens, 500 rows), each later one 0.1 s either way.
    """
    from shap.explainers import _partition
    from shap.utils import _masked_model

    functions = [
        (_partition, "lower_credit"),
        (_masked_model, "_init_masks"),
        (_masked_model, "_rec_fill_masks"),
        (_masked_model, "_build_fixed_multi_output"),
    ]
    compiled = [(module, name, getattr(module, name)) for module, name in functions]
    for module, name, function in compiled:
        setattr(module, name, getattr(function, "py_func", function))
    try:
        yield
    finally:
        for module, name, function in compiled:
            setattr(module, name, function)
