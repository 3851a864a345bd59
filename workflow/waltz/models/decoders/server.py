"""Language models behind a server with the completions API of OpenAI: vLLM, llama.cpp,
llama-cpp-python and the like.

Prompts and coalitions are sent as token ids, so that masked tokens keep their positions. A server
that takes only texts gets the text of the ids, if tokenizing this text gives the same ids again.
"""

import base64
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.models.decoders.endpoint import Endpoint, open_client
from waltz.models.decoders.server_replies import (
    Completion,
    LikeliestTokens,
    NativeCompletion,
    PromptTokens,
    Scored,
    TakenToken,
    TakenTokens,
    Text,
)

REQUESTS_AT_ONCE = 8
"""Number of requests that are sent at the same time."""
TOP_TOKENS = 20
"""Number of likeliest tokens whose log-probability is requested if the server returns none of given
target tokens.
"""
FORCING_BIAS = 1000.0
"""Bias of the logit of a token that llama.cpp is to take; the log-probability that it returns is
without the bias.
"""
TOKENS_PER_RETURNED_TOKEN = 4
"""Maximum number of tokens into which the text of one token is split: part of a character is
returned as a replacement character of three bytes.
"""
WHOLE_VOCABULARY = 1 << 24
"""Number of requested tokens that is larger than every vocabulary."""
LOWEST = math.log(np.finfo(np.float32).smallest_subnormal)
"""Log-probability of a token whose probability is 0 in single precision."""
NO_END_BIAS = -100
"""Bias of the logit of a token that a server must not generate: the lowest bias that OpenAI's API
takes.
"""
ECHO, FORCED, TOP = "echo", "forced", "top"
"""Sources of log-probabilities: the echoed prompt, a token that llama.cpp is forced to take, or the
likeliest tokens.
"""


def _compute_log_odds(log_probability: float) -> float:
    """Return ln(q / (1 - q)) from ln q; infinity if q is 1 within rounding."""
    if log_probability >= 0:
        return math.inf
    return log_probability - math.log(-math.expm1(log_probability))


OUTCOMES: Mapping[str, Callable[[float], float]] = {
    "log-probability": float,
    "probability": math.exp,
    "log-odds": _compute_log_odds,
}
"""Outcomes of a token that can be computed from its log-probability; its logit cannot."""

Input = TypeVar("Input")
Output = TypeVar("Output")


@dataclass(frozen=True, eq=False)
class ServedPrompt:
    """A prompt as it is sent.

    Attributes:
        ids: Token ids, including the id of an image's placeholder.
        image: PNG file of the image as a data url; empty without one.
    """

    ids: list[int]
    image: str = ""

    def extend(self, tokens: Sequence[int]) -> "ServedPrompt":
        """Return the prompt with tokens behind it."""
        return replace(self, ids=[*self.ids, *tokens])


Continuation = tuple[ServedPrompt, Sequence[int]]
"""A prompt, and the tokens behind it that are scored."""


@dataclass(frozen=True, eq=False)
class Server(Endpoint):
    """A model that a server runs.

    Attributes:
        facts: Name and version of the server and the model, as the server reports them.
        tokenizer: The model's tokenizer, which runs here.
        scoring: One of `ECHO`, `FORCED` and `TOP`; empty where the server returns no
            log-probabilities.
        takes_ids: Whether the server takes a prompt as token ids; if not, it takes text.
        window: Maximum number of positions that the model reads.
        ends: Ids that end a generation.
        masked_color: Red, green and blue of masked pixels, from 0 to 255.
    """

    facts: str = ""
    tokenizer: Any = None
    scoring: str = ""
    takes_ids: bool = True
    window: int = 0
    ends: frozenset[int] = frozenset()
    masked_color: tuple[int, int, int] = (0, 0, 0)

    def describe_scoring(self) -> str:
        """Return in words which log-probabilities the server returns."""
        kinds = {
            ECHO: "log-probabilities of given tokens",
            FORCED: "log-probabilities of given tokens, one request for each",
            TOP: f"log-probabilities of the {TOP_TOKENS} likeliest tokens",
        }
        description = kinds.get(self.scoring, "no log-probabilities")
        return description if self.takes_ids else f"{description}, of texts alone"

    def score(
        self, continuations: Sequence[Continuation], value: str
    ) -> Iterator[np.ndarray]:
        """Yield the outcomes of the tokens that follow each prompt: float64 of shape (tokens,), in
        order.

        Args:
            value: A key of `OUTCOMES`.
        Raises:
            UserError: The server returns no log-probabilities, or the value cannot be computed from
                them.
        """
        if value not in OUTCOMES:
            raise UserError(
                f"{self.location}: {value!r} is not a function of log-probabilities, and a server returns no logits;"
                f" choose {', '.join(OUTCOMES)} (profile equations)"
            )
        if not self.scoring:
            raise UserError(
                f"{self.location}: {self.model} is served without log-probabilities of the prompt (echo) or the"
                " likeliest tokens (logprobs), which scores need; let vLLM or llama.cpp serve it, or only generate text"
            )
        for values in _map_at_once(self._score, continuations):
            yield np.array([OUTCOMES[value](number) for number in values])

    def _score(self, continuation: Continuation) -> list[float]:
        """Return log-probabilities of tokens that follow a prompt."""
        prompt, targets = continuation
        # With echo one request returns the log-probabilities of all targets; else each target takes
        # a request.
        if self.scoring == ECHO:
            return self._score_prompt(prompt.extend(targets))[len(prompt.ids) :]
        score_token = (
            self._score_forced if self.scoring == FORCED else self._score_likeliest
        )
        return [
            score_token(prompt.extend(targets[:index]), target)
            for index, target in enumerate(targets)
        ]

    def _score_prompt(self, prompt: ServedPrompt) -> list[float]:
        """Return the log-probability of each token of a prompt; NaN for the first token."""
        token_count = len(prompt.ids)
        # One token is generated as well, and left out.
        options = {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
        body = {"prompt": self._encode(prompt.ids), **options}
        completion = self.post("completions", body, Completion[Scored[PromptTokens]])
        values = completion.choices[0].logprobs.token_logprobs
        # Servers return the generated token as well, or not.
        if len(values) not in (token_count, token_count + 1):
            raise UserError(
                f"{self.location}: {len(values)} log-probabilities were returned for {token_count} tokens; check that"
                " the server has the same tokenizer"
            )
        if None in values[1:token_count]:
            raise UserError(
                f"{self.location}: token {values.index(None, 1)} of {token_count} has no log-probability; let another"
                " server serve the model"
            )
        return [
            math.nan if value is None else max(value, LOWEST)
            for value in values[:token_count]
        ]

    def _score_forced(self, prompt: ServedPrompt, target: int) -> float:
        """Return the log-probability of a token that llama.cpp is forced to take.

        llama.cpp returns no log-probability of a token that is only the beginning of a character,
        and some versions none of an end token. Such tokens are looked up among all tokens at the
        position, which llama.cpp returns when a letter is forced.

        Raises:
            UserError: llama.cpp does not return it there either.
        """
        token = self._force(prompt, target, 1)
        value = (
            token.logprob
            if token is not None
            else self._find_in_vocabulary(prompt, target)
        )
        if value is None:
            raise UserError(
                f"{self.location}: {self.client.base_url} returns no log-probability of token {target}"
                f" ({self.tokenizer.decode([target])!r}), which ends a text or is a part of a character; let vLLM serve"
                " the model"
            )
        return max(value, LOWEST)

    def _find_in_vocabulary(self, prompt: ServedPrompt, target: int) -> float | None:
        """Return the log-probability of a token from the list of the entire vocabulary; None if the
        list lacks it.
        """
        # Any token that is a complete character will do: the server returns it with the tokens at
        # its position.
        letter = self.tokenizer("a", add_special_tokens=False)["input_ids"][-1]
        forced = self._force(prompt, letter, WHOLE_VOCABULARY)
        if forced is None:
            return None
        for token in forced.top_logprobs:
            if token.id == target:
                return token.logprob
        return None

    def _force(
        self, prompt: ServedPrompt, target: int, top_count: int
    ) -> TakenToken | None:
        """Return the token that llama.cpp is forced to take, with the likeliest tokens; None if the
        reply omits it.
        """
        token = self._take(prompt, target, top_count)
        if token and token.id != target:
            raise UserError(
                f"{self.location}: the server took token {token.id}, expected {target}; report this"
            )
        return token

    def _take(
        self, prompt: ServedPrompt, target: int, top_count: int
    ) -> TakenToken | None:
        # The bias makes the target certain; the returned log-probability is computed before the
        # bias.
        options = {
            "n_predict": 1,
            "n_probs": top_count,
            "temperature": 0,
            "logit_bias": [[target, FORCING_BIAS]],
        }
        reply = self.post("/completion", {"prompt": prompt.ids, **options}, TakenTokens)
        tokens = reply.completion_probabilities
        return tokens[0] if tokens else None

    def find_likeliest(self, prompt: ServedPrompt) -> dict[str, float]:
        """Return the log-probabilities of the likeliest tokens after a prompt, by their texts."""
        options = {"logprobs": TOP_TOKENS, "max_tokens": 1, "temperature": 0}
        body = {"prompt": self._encode(prompt.ids), **options}
        completion = self.post("completions", body, Completion[Scored[LikeliestTokens]])
        return completion.choices[0].logprobs.top_logprobs[0]

    def _score_likeliest(self, prompt: ServedPrompt, target: int) -> float:
        """Return the log-probability of a token, which must be among the likeliest tokens."""
        text, likeliest = self.tokenizer.decode([target]), self.find_likeliest(prompt)
        if text not in likeliest:
            raise UserError(
                f"{self.location}: {text!r} is not among the {len(likeliest)} likeliest tokens, of which alone this"
                " server returns log-probabilities; let vLLM or llama.cpp serve the model"
            )
        return max(likeliest[text], LOWEST)

    def generate(
        self,
        prompts: Sequence[ServedPrompt],
        max_tokens: int,
        sampling: Mapping[str, float],
        seeds: Sequence[int],
        min_tokens: int,
        keep_end: bool,
    ) -> list[tuple[int, ...]]:
        """Return the tokens that are generated after each prompt; see
        `continuations.generate_texts`.

        If the server returns only text, the text is tokenized here.

        Args:
            sampling: `temperature`, `top_k` and `top_p`; empty takes the likeliest tokens.
        """

        def generate(pair: tuple[ServedPrompt, int]) -> tuple[int, ...]:
            prompt, seed = pair
            # A prompt that fills the window gets an empty generation, as with a loaded network.
            room = min(max_tokens, self.window - len(prompt.ids))
            if room < 1:
                return ()
            tokens, has_end = self._generate_at_least(
                prompt, room, sampling, seed, min_tokens
            )
            # Which end token was generated is not known here; the smallest id stands for it.
            if keep_end and has_end and self.ends:
                tokens = [*tokens, min(self.ends)]
            return tuple(tokens)

        return list(_map_at_once(generate, list(zip(prompts, seeds, strict=True))))

    def _generate_at_least(
        self,
        prompt: ServedPrompt,
        room: int,
        sampling: Mapping[str, float],
        seed: int,
        min_tokens: int,
    ) -> tuple[list[int], bool]:
        """Return at least `min_tokens` and at most `room` generated tokens, and whether an end
        token follows them.
        """
        tokens, has_end = self._generate(prompt, room, sampling, seed)
        while len(tokens) < min(min_tokens, room):
            # The end is not allowed yet: one token is generated without it, then the text goes on
            # from there.
            forced, _ = self._generate(
                prompt.extend(tokens), 1, sampling, seed, without_end=True
            )
            if not forced:
                break
            tokens, has_end = [*tokens, *forced], False
            if len(tokens) < room:
                continued, has_end = self._generate(
                    prompt.extend(tokens), room - len(tokens), sampling, seed
                )
                tokens = [*tokens, *continued]
        return tokens, has_end

    def _generate(
        self,
        prompt: ServedPrompt,
        max_tokens: int,
        sampling: Mapping[str, float],
        seed: int,
        *,
        without_end: bool = False,
    ) -> tuple[list[int], bool]:
        """Return generated tokens without the end token, and whether the end was generated."""
        # Seeds of requests have 63 bits, of which the server gets 31.
        options: dict[str, object] = {
            "temperature": 0.0,
            "seed": seed % 2**31,
            "stream": False,
        }
        for name, number in sampling.items():
            # OpenAI's API has no top_k, and a top_k of 0 takes all tokens.
            if name != "top_k" or number:
                options[name] = number
        if self.scoring == FORCED:
            # llama.cpp's defaults of min_p and top_k leave tokens out; a bias of false forbids a
            # token.
            bias = [[end, False] for end in self.ends] if without_end else []
            options = {"min_p": 0.0, "top_k": 0, **options, "logit_bias": bias}
        elif without_end:
            options["logit_bias"] = {str(end): NO_END_BIAS for end in self.ends}

        tokens, has_end = self._continue(prompt, max_tokens, options)
        unknown = [token for token in tokens if token >= len(self.tokenizer)]
        if unknown:
            raise UserError(
                f"{self.location}: token {unknown[0]} was generated, and the tokenizer has {len(self.tokenizer)}"
                " tokens; name the model's own tokenizer"
            )
        return [token for token in tokens if token not in self.ends], has_end

    def _continue(
        self, prompt: ServedPrompt, max_tokens: int, options: Mapping[str, object]
    ) -> tuple[list[int], bool]:
        """Return generated tokens, and whether the model ended its answer after them."""
        # llama.cpp's native path returns token ids; of the completions API, only some servers do.
        if self.scoring == FORCED:
            body = {
                "prompt": prompt.ids,
                "n_predict": max_tokens,
                **options,
                "return_tokens": True,
            }
            reply = self.post("/completion", body, NativeCompletion)
            return reply.tokens[:max_tokens], reply.stop_type == "eos"
        body = {"prompt": self._encode(prompt.ids), "max_tokens": max_tokens, **options}
        if self.takes_ids:
            body["return_token_ids"] = True
        choice = self.post("completions", body, Completion[Text]).choices[0]
        return self._read_tokens(
            choice.text, choice.token_ids, max_tokens
        ), choice.finish_reason == "stop"

    def _read_tokens(
        self, text: str, ids: list[int] | None, max_tokens: int
    ) -> list[int]:
        """Return generated tokens; if the server returned only text, tokenize it."""
        if ids is not None:
            return ids[:max_tokens]  # a server may exceed the limit
        tokens: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens[: TOKENS_PER_RETURNED_TOKEN * max_tokens]

    def _encode(self, ids: list[int]) -> list[int] | str:
        """Return a prompt in the form that the server takes, ids or text.

        Raises:
            UserError: The server takes only texts, and tokenizing the text gives other ids, as
                masked tokens can cause.
        """
        if self.takes_ids:
            return ids
        # A text has the tokens of the tokenizer, which may join a masked token with its neighbor.
        text = self.decode(ids)
        if self.tokenizer(text)["input_ids"] != ids:
            raise UserError(
                f"{self.location}: the server takes texts and no token ids, and {text[-40:]!r} has other tokens than"
                " the masked prompt; let vLLM or llama.cpp's llama-server serve the model, or name a special token"
                " under masked_token"
            )
        return text

    def render_pixels(self, pixels: torch.Tensor) -> Image.Image:
        """Return the image of pixels of shape (1, 3, height, width) from which the masked color was
        subtracted.
        """
        # (height, width, 3)
        levels = pixels[0].permute(1, 2, 0) + torch.tensor(self.masked_color)
        return Image.fromarray(levels.to(torch.uint8).numpy())

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a prompt, without the start token that the tokenizer adds."""
        if ids and ids[0] == self.tokenizer.bos_token_id and self._adds_start():
            ids = ids[1:]
        return str(self.tokenizer.decode(ids, clean_up_tokenization_spaces=False))

    def _adds_start(self) -> bool:
        """Return whether the tokenizer puts its start token before a text."""
        return bool(self.tokenizer("a")["input_ids"][0] == self.tokenizer.bos_token_id)


def _map_at_once(
    function: Callable[[Input], Output], values: Sequence[Input]
) -> Iterator[Output]:
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        yield from pool.map(function, values)


def encode_png(image: Image.Image) -> str:
    """Return an RGB image as a data url."""
    file = io.BytesIO()
    image.convert("RGB").save(file, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def open_server(url: str, model: str, location: str) -> Server:
    """Return a server by its url, with the API key of the environment.

    Raises:
        UserError: The url or the key is invalid, or the url holds a key, which records and messages
            would show.
    """
    return Server(location, model, open_client(url, model, location))
