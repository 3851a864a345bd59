"""Owen values of a text's pieces, as shap explains language models: a tree of pieces, best split
first.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from waltz.attribution.published import PUBLISHED_ROWS
from waltz.attribution.shapley.estimate import Estimate
from waltz.core.errors import UserError

BATCH = 10
"""Number of texts that shap evaluates at once; it decides which groups of pieces are split next."""
MASK = "..."
"""Text that replaces a run of masked pieces."""

StringValue = Callable[[Sequence[str]], np.ndarray]
"""Function that takes k texts and returns their values, float64 of shape (k, outputs)."""


@dataclass(frozen=True, eq=False)
class PieceAttribution:
    """Hold the Owen values of the pieces of a text.

    Attributes:
        pieces: The players: pieces of the text, with the spaces before them; the piece of a special
            token is empty.
        estimate: Owen values of shape (players, outputs); `value` is the value of the joined
            pieces.
        evaluated: Number of distinct texts that the model read.
    """

    pieces: tuple[str, ...]
    estimate: Estimate
    evaluated: int


def compute_owen_values(
    text: str,
    tokenizer: Any,
    value: StringValue,
    *,
    seed: int,
    rows: int = PUBLISHED_ROWS,
    joins_tokens: bool = False,
) -> PieceAttribution:
    """Return the Owen values of a text's pieces, as `shap.PartitionExplainer` computes them for the
    released CC-SHAP.

    shap replaces each run of masked pieces by one " ...", merges repeated spaces, and tokenizes the
    text again. A start token that the tokenizer adds is a player that cannot be masked, since the
    tokenizer adds it again; without a start token, "..." stands first. Groups of pieces are split
    until the rows are spent, and the pieces of an unsplit group get equal values. Nothing is
    sampled, so that the estimate is marked as exact; the seed decides between splits of the same
    weight. The values are Owen values, not Shapley values. The state of numpy's global generator
    stays.

    Args:
        text: The prompt, without special tokens that the tokenizer adds.
        tokenizer: A tokenizer of `transformers`.
        value: Function that returns the value of each output for some texts; the model's tokenizer
            adds start tokens.
        seed: Seed of numpy's global generator, 0 to 2**32 - 1.
        rows: Maximum number of texts to evaluate, the empty and the full text included.
        joins_tokens: Whether each token is decoded alone and the tokens are joined by spaces, as
            shap does with tokenizers without offsets (`use_fast=False` in the released code: Llama,
            Mistral, GPT-2). The joined pieces then differ from the text. Else the pieces are cut
            from the text.
    Returns:
        The Owen values, which sum to v(all) - v(none).
    Raises:
        UserError: The rows do not suffice for a split, the seed is out of range, or there are fewer
            than two pieces.
    Source:
        CC-SHAP's released script for language models; Owen values with coalitions of a heuristic
        tree of tokens.
    """
    # The import takes two seconds, and no other estimator needs shap.
    import shap

    if rows < 4:
        raise UserError(
            f"rows: too few for one split of a text (got {rows}, expected at least 4); set at least 4"
        )
    if not 0 <= seed < 2**32:
        raise UserError(
            f"seed: {seed} is not a seed of numpy's global generator; take 0 to {2**32 - 1}"
        )
    masker = _build_masker(tokenizer, joins_tokens)
    pieces = _cut_pieces(masker, text)
    if len(pieces) < 2:
        raise UserError(
            f"prompt {text!r}: too short for the partition estimator (got {len(pieces)} pieces, expected at least 2);"
            " give a longer one"
        )
    # shap draws from numpy's global generator, whose state the caller keeps.
    cached = _CachedValues(value)
    state = np.random.get_state()
    try:
        # Infinite log-odds make NaN, which CC-SHAP reports.
        with (
            _run_interpreted(),
            np.errstate(invalid="ignore"),
        ):
            np.random.seed(seed)
            explainer = shap.PartitionExplainer(cached, masker)
            explanation = explainer(
                [text], max_evals=rows, batch_size=BATCH, silent=True
            )
    finally:
        np.random.set_state(state)
    # shap has already evaluated the full and the empty text, so that the cache returns them without
    # a pass. They are read after the requests were counted.
    requested = cached.requested
    all_visible = np.ones(len(pieces), dtype=bool)
    full_value, empty_value = cached(
        [_mask_text(masker, all_visible, text), _mask_text(masker, ~all_visible, text)]
    )
    # (pieces, outputs)
    phi = np.asarray(explanation.values[0], dtype=np.float64).reshape(len(pieces), -1)
    estimate = Estimate(phi, empty_value, full_value, requested=requested, exact=True)
    return PieceAttribution(pieces, estimate, len(cached.values))


def cut_pieces(
    text: str, tokenizer: Any, joins_tokens: bool = False
) -> tuple[str, ...]:
    """Return the pieces of a text, which are the players of `compute_owen_values`."""
    return _cut_pieces(_build_masker(tokenizer, joins_tokens), text)


def _build_masker(tokenizer: Any, joins_tokens: bool) -> Any:
    import shap

    return shap.maskers.Text(
        _PieceTokenizer(tokenizer, joins_tokens),
        mask_token=MASK,
        collapse_mask_token=True,
    )


def _cut_pieces(masker: Any, text: str) -> tuple[str, ...]:
    return tuple(str(piece) for piece in masker.token_segments(text)[0])


class _PieceTokenizer:
    """Adapt a tokenizer to `shap.maskers.Text`, so that texts are cut as by the shap version of the
    released code.
    """

    def __init__(self, tokenizer: Any, joins_tokens: bool) -> None:
        self.tokenizer, self.joins_tokens = tokenizer, joins_tokens
        self.sep_token, self.sep_token_id = tokenizer.sep_token, tokenizer.sep_token_id
        self.mask_token = tokenizer.mask_token
        self.special_tokens_map = tokenizer.special_tokens_map

    def __call__(self, text: str, return_offsets_mapping: bool = False) -> Any:
        if not text and self._adds_start_only():
            return {"input_ids": []}
        if not return_offsets_mapping:
            return self.tokenizer(text)
        if self.joins_tokens:
            # shap's masker catches this error, decodes each token alone and joins the tokens.
            raise NotImplementedError("a tokenizer without offsets")
        return self.tokenizer(text, return_offsets_mapping=True)

    def decode(self, ids: Any) -> str:
        return str(self.tokenizer.decode(ids))

    def get_special_tokens_mask(
        self, ids: Sequence[int], already_has_special_tokens: bool
    ) -> list[int]:
        return [int(token in self.tokenizer.all_special_ids) for token in ids]

    def _adds_start_only(self) -> bool:
        """Return whether the tokenizer adds a start token and nothing else.

        Today's shap keeps such a token visible; the version of the released code did not.
        """
        special_ids = self.tokenizer("")["input_ids"]
        return list(special_ids) == [self.tokenizer.bos_token_id]


class _CachedValues:
    """Wrap a value function, so that each text is evaluated once and all requested texts are
    counted.
    """

    def __init__(self, value: StringValue) -> None:
        self.value, self.requested = value, 0
        self.values: dict[str, np.ndarray] = {}

    def __call__(self, texts: Sequence[Any]) -> np.ndarray:
        texts = [str(text) for text in texts]
        self.requested += len(texts)
        new_texts = [text for text in dict.fromkeys(texts) if text not in self.values]
        if new_texts:
            new_values = np.asarray(self.value(new_texts), dtype=np.float64)
            self.values.update(zip(new_texts, new_values, strict=True))
        return np.stack([self.values[text] for text in texts])


def _mask_text(masker: Any, mask: np.ndarray, text: str) -> str:
    return str(masker(mask, text)[0][0])


@contextmanager
def _run_interpreted() -> Iterator[None]:
    """Make shap run its loops in Python instead of compiling them.

    numba compiles them once in each process. The first explanation of a process took 8 to 11 s
    compiled and 2 s interpreted (a prompt of 42 tokens, 500 rows); each later explanation took 0.1
    s in both cases.
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
