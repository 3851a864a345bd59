"""Language models behind a server with the completions API of OpenAI: vLLM, llama.cpp, llama-cpp-python and the like.

Prompts and coalitions are sent as token ids, so that masked tokens stay in their places. A server that takes texts
alone gets the text of the ids if it has the same ids again.
"""

import base64
import io
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import httpx
import numpy as np
import torch
from PIL import Image
from pydantic import ValidationError

from waltz.core.errors import UserError, get_first_line
from waltz.core.files.downloads import may_hold_secret
from waltz.models.decoders.server_replies import (
    Completion,
    LikeliestTokens,
    NativeCompletion,
    PromptTokens,
    Reply,
    Scored,
    TakenToken,
    TakenTokens,
    Text,
)

log = logging.getLogger(__name__)
API_KEY = "WALTZ_API_KEY"
"""Environment variable with the key of a server that needs one."""
REQUESTS_AT_ONCE = 8
ATTEMPTS = 5
FIRST_DELAY = 0.5
"""Seconds before a request is sent again; they double with each attempt."""
BUSY = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses after which a request is sent again."""
TIMEOUT = httpx.Timeout(600, connect=10)
TOP_TOKENS = 20
"""Tokens whose log-probability is requested where the server has none of given tokens."""
LARGEST_REPLY = 1 << 27
"""Most bytes of a reply; the log-probabilities of a vocabulary of 256,000 tokens take half of it."""
FORCING_BIAS = 1000.0
"""Bias of the logit of a token that llama.cpp is to take; its log-probability is that without the bias."""
TOKENS_OF_ONE = 4
"""Most tokens of the text of one: a part of a character is returned as a character of three bytes."""
WHOLE_VOCABULARY = 1 << 24
"""More tokens than a model has."""
LOWEST = math.log(np.finfo(np.float32).smallest_subnormal)
"""Log-probability in the place of one whose probability is 0 in single precision."""
ECHO, FORCED, TOP = "echo", "forced", "top"
"""Log-probabilities of the prompt, of a token that llama.cpp is made to take, or of the likeliest tokens."""
OUTCOMES: Mapping[str, Callable[[float], float]] = {
    "log-probability": float,
    "probability": math.exp,
    "log-odds": lambda value: value - math.log(-math.expm1(value)) if value < 0 else math.inf,
}
"""Outcomes of a token that follow from its log-probability; a logit does not."""

Input = TypeVar("Input")
Output = TypeVar("Output")
AnyReply = TypeVar("AnyReply", bound=Reply)


@dataclass(frozen=True, eq=False)
class ServedPrompt:
    """A prompt as it is sent.

    Attributes:
        ids: Token ids, including that of the placeholder of an image.
        image: PNG file of the image as a data url; empty without one.
    """

    ids: list[int]
    image: str = ""

    def extend(self, tokens: Sequence[int]) -> "ServedPrompt":
        """Return the prompt with tokens behind it."""
        return replace(self, ids=[*self.ids, *tokens])


Continuation = tuple[ServedPrompt, Sequence[int]]
"""A prompt, and the tokens that follow and are scored."""


@dataclass(frozen=True, eq=False)
class Server:
    """A model at a server.

    Attributes:
        where: Key of the study, for errors.
        model: Name of the model at the server.
        client: Connection, with the API key.
        facts: What the server says of itself and the model.
        tokenizer: The model's tokenizer, here.
        scoring: One of `ECHO`, `FORCED` and `TOP`; empty where no log-probabilities can be had.
        takes_ids: Whether a prompt can be token ids; else it is text.
        window: Most positions that the model reads.
        ends: Ids that end a generation.
        masked_colour: Red, green and blue of masked pixels, from 0 to 255.
    """

    where: str
    model: str
    client: httpx.Client
    facts: str = ""
    tokenizer: Any = None
    scoring: str = ""
    takes_ids: bool = True
    window: int = 0
    ends: frozenset[int] = frozenset()
    masked_colour: tuple[int, int, int] = (0, 0, 0)

    def describe_scoring(self) -> str:
        """Return in words which log-probabilities the server returns."""
        kinds = {
            ECHO: "log-probabilities of given tokens",
            FORCED: "log-probabilities of given tokens, one request for each",
            TOP: f"log-probabilities of the {TOP_TOKENS} likeliest tokens",
        }
        return kinds.get(self.scoring, "no log-probabilities") + ("" if self.takes_ids else ", of texts alone")

    def score(self, continuations: Sequence[Continuation], value: str) -> Iterator[np.ndarray]:
        """Yield the outcomes of the tokens that follow each prompt: float64 of shape (tokens,), in order.

        Args:
            value: A key of `OUTCOMES`.
        Raises:
            UserError: The server lacks what is needed, or the value does not follow from log-probabilities.
        """
        if value not in OUTCOMES:
            raise UserError(
                f"{self.where}: {value!r} is no function of log-probabilities, and a server returns no logits; choose"
                f" {', '.join(OUTCOMES)} (profile equations)"
            )
        if not self.scoring:
            raise UserError(
                f"{self.where}: {self.model} is served without log-probabilities of the prompt (echo) or the likeliest"
                " tokens (logprobs), which scores need; let vLLM or llama.cpp serve it, or only generate text"
            )
        for values in _map_at_once(self._score, continuations):
            yield np.array([OUTCOMES[value](number) for number in values])

    def _score(self, continuation: Continuation) -> list[float]:
        """Return log-probabilities of tokens that follow a prompt."""
        prompt, targets = continuation
        if self.scoring == ECHO:
            return self._score_prompt(prompt.extend(targets))[len(prompt.ids) :]
        score_token = self._score_forced if self.scoring == FORCED else self._score_likeliest
        return [score_token(prompt.extend(targets[:index]), target) for index, target in enumerate(targets)]

    def _score_prompt(self, prompt: ServedPrompt) -> list[float]:
        """Return the log-probability of each token of a prompt; the first has none."""
        ids = prompt.ids
        options = {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
        completion = self.post(
            "completions", {"prompt": self._encode(ids), **options}, Completion[Scored[PromptTokens]]
        )
        values = completion.choices[0].logprobs.token_logprobs
        if not len(ids) <= len(values) <= len(ids) + 1:
            raise UserError(
                f"{self.where}: {len(values)} log-probabilities were returned for {len(ids)} tokens; check that the"
                " server has the same tokenizer"
            )
        if None in values[1 : len(ids)]:
            raise UserError(
                f"{self.where}: token {values.index(None, 1)} of {len(ids)} has no log-probability; let another server"
                " serve the model"
            )
        return [math.nan if value is None else max(value, LOWEST) for value in values[: len(ids)]]

    def _score_forced(self, prompt: ServedPrompt, target: int) -> float:
        """Return the log-probability of a token that llama.cpp is made to take.

        It returns none of a token that is the beginning of a character, and some versions none of the end. These are
        found among those of the whole vocabulary in the place of a letter that it takes.

        Raises:
            UserError: It returns none there either.
        """
        taken = self._force(prompt, target, 1)
        if taken is None:
            letter = self.tokenizer("a", add_special_tokens=False)["input_ids"][-1]
            others = self._force(prompt, letter, WHOLE_VOCABULARY)
            value = (
                next((token.logprob for token in others.top_logprobs if token.id == target), None) if others else None
            )
        else:
            value = taken.logprob
        if value is None:
            raise UserError(
                f"{self.where}: {self.client.base_url} returns no log-probability of token {target}"
                f" ({self.tokenizer.decode([target])!r}), which ends a text or is a part of a character; let vLLM serve"
                " the model"
            )
        return max(value, LOWEST)

    def _force(self, prompt: ServedPrompt, target: int, most: int) -> TakenToken | None:
        """Return the token that llama.cpp is made to take, with the likeliest ones; None where it leaves it out."""
        taken = self._take(prompt, target, most)
        if taken and taken.id != target:
            raise UserError(f"{self.where}: the server took token {taken.id}, expected {target}; report this")
        return taken

    def _take(self, prompt: ServedPrompt, target: int, most: int) -> TakenToken | None:
        options = {"n_predict": 1, "n_probs": most, "temperature": 0, "logit_bias": [[target, FORCING_BIAS]]}
        taken = self.post("/completion", {"prompt": prompt.ids, **options}, TakenTokens).completion_probabilities
        return taken[0] if taken else None

    def find_likeliest(self, prompt: ServedPrompt) -> dict[str, float]:
        """Return the log-probabilities of the likeliest tokens after a prompt, by their texts."""
        options = {"logprobs": TOP_TOKENS, "max_tokens": 1, "temperature": 0}
        completion = self.post(
            "completions", {"prompt": self._encode(prompt.ids), **options}, Completion[Scored[LikeliestTokens]]
        )
        return completion.choices[0].logprobs.top_logprobs[0]

    def _score_likeliest(self, prompt: ServedPrompt, target: int) -> float:
        """Return the log-probability of a token if it is one of the likeliest."""
        text, likeliest = self.tokenizer.decode([target]), self.find_likeliest(prompt)
        if text not in likeliest:
            raise UserError(
                f"{self.where}: {text!r} is not among the {len(likeliest)} likeliest tokens, of which alone this server"
                " returns log-probabilities; let vLLM or llama.cpp serve the model"
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
        """Return the tokens that are generated after each prompt; see `continuations.generate_texts`.

        A server that returns only text has its text tokenized again.

        Args:
            sampling: `temperature`, `top_k` and `top_p`; empty takes the likeliest tokens.
        """

        def generate(pair: tuple[ServedPrompt, int]) -> tuple[int, ...]:
            prompt, seed = pair
            most = min(max_tokens, self.window - len(prompt.ids))
            if most < 1:
                return ()
            tokens, has_end = self._generate(prompt, most, sampling, seed)
            while len(tokens) < min(min_tokens, most):  # the end is not allowed yet
                forced, _ = self._generate(prompt.extend(tokens), 1, sampling, seed, without_end=True)
                if not forced:
                    break
                tokens, has_end = [*tokens, *forced], False
                if len(tokens) < most:
                    more, has_end = self._generate(prompt.extend(tokens), most - len(tokens), sampling, seed)
                    tokens = [*tokens, *more]
            end = [min(self.ends)] if keep_end and has_end and self.ends else []
            return (*tokens, *end)

        return list(_map_at_once(generate, list(zip(prompts, seeds, strict=True))))

    def _generate(
        self,
        prompt: ServedPrompt,
        most: int,
        sampling: Mapping[str, float],
        seed: int,
        *,
        without_end: bool = False,
    ) -> tuple[list[int], bool]:
        """Return generated tokens, without the end, and whether it was generated."""
        options: dict[str, Any] = {"temperature": 0.0, "seed": seed % 2**31, "stream": False}
        options |= {name: number for name, number in sampling.items() if name != "top_k" or number}
        if self.scoring == FORCED:
            bias = [[end, False] for end in self.ends] if without_end else []
            options = {"min_p": 0.0, "top_k": 0, **options, "logit_bias": bias}
        elif without_end:
            options["logit_bias"] = {str(end): -100 for end in self.ends}
        tokens, has_end = self._continue(prompt, most, options)
        if unknown := [token for token in tokens if token >= len(self.tokenizer)]:
            raise UserError(
                f"{self.where}: token {unknown[0]} was generated, and the tokenizer has {len(self.tokenizer)} tokens;"
                " name the model's own tokenizer"
            )
        return [token for token in tokens if token not in self.ends], has_end

    def _continue(self, prompt: ServedPrompt, most: int, options: Mapping[str, Any]) -> tuple[list[int], bool]:
        """Return generated tokens, and whether they end with the end of an answer."""
        if self.scoring == FORCED:
            body = {"prompt": prompt.ids, "n_predict": most, **options, "return_tokens": True}
            reply = self.post("/completion", body, NativeCompletion)
            return reply.tokens[:most], reply.stop_type == "eos"
        body = {"prompt": self._encode(prompt.ids), "max_tokens": most, **options}
        if self.takes_ids:
            body["return_token_ids"] = True
        choice = self.post("completions", body, Completion[Text]).choices[0]
        return self._read_tokens(choice.text, choice.token_ids, most), choice.finish_reason == "stop"

    def _read_tokens(self, text: str, ids: list[int] | None, most: int) -> list[int]:
        """Return generated tokens; where only their text was returned, it is tokenized again."""
        if ids is not None:
            return ids[:most]  # a server may pass over the limit
        tokens: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens[: TOKENS_OF_ONE * most]

    def _encode(self, ids: list[int]) -> list[int] | str:
        """Return a prompt as the server takes it.

        Raises:
            UserError: It takes texts alone, and the text of the ids has other ids, as masked tokens may.
        """
        if self.takes_ids:
            return ids
        text = self.decode(ids)
        if self.tokenizer(text)["input_ids"] != ids:
            raise UserError(
                f"{self.where}: the server takes texts and no token ids, and {text[-40:]!r} has other tokens than the"
                " masked prompt; let vLLM or llama.cpp's llama-server serve the model, or name a special token under"
                " masked_token"
            )
        return text

    def render_pixels(self, pixels: torch.Tensor) -> Image.Image:
        """Return an image from its pixels, of shape (1, 3, height, width), as differences from the masked colour."""
        levels = pixels[0].permute(1, 2, 0) + torch.tensor(self.masked_colour)
        return Image.fromarray(levels.to(torch.uint8).numpy())

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a prompt, without the start token that the tokenizer adds."""
        start = int(
            bool(ids) and ids[0] == self.tokenizer.bos_token_id and self.tokenizer("a")["input_ids"][0] == ids[0]
        )
        return str(self.tokenizer.decode(ids[start:], clean_up_tokenization_spaces=False))

    def post(self, path: str, body: Mapping[str, Any], kind: type[AnyReply]) -> AnyReply:
        """Return the reply to a request, sent again with longer and longer delays while the server is busy.

        Args:
            path: Path below the url; that of the server where it begins with `/`.
            kind: Fields that the reply must have.
        Raises:
            UserError: The server is not reached, refuses the request, or its reply lacks a field.
        """
        return self._request("POST", path, {"model": self.model, **body}, kind)

    def get(self, path: str, kind: type[AnyReply]) -> AnyReply:
        """Return the reply to a request without a body; see `post`."""
        return self._request("GET", path, None, kind)

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None, kind: type[AnyReply]) -> AnyReply:
        url, root = str(self.client.base_url).rstrip("/"), str(self.client.base_url).rstrip("/").removesuffix("/v1")
        address, fault = f"{root}{path}" if path.startswith("/") else f"{url}/{path}", ""
        for attempt in range(ATTEMPTS):
            if attempt:
                log.warning(
                    "%s: no reply from %s (%s); attempt %d of %d", self.where, address, fault, attempt, ATTEMPTS
                )
                time.sleep(FIRST_DELAY * 2 ** (attempt - 1))
            try:
                with self.client.stream(method, address, json=body) as response:
                    content = self._receive(response)
            except httpx.RequestError as error:
                fault = get_first_line(error) or type(error).__name__
                continue
            if response.status_code in (401, 403):
                advice = "is wrong; correct it" if os.environ.get(API_KEY) else "is not set; set it to the server's key"
                raise UserError(f"{self.where}: {url} needs an API key: the environment variable {API_KEY} {advice}")
            if response.is_success:
                return self._read(address, content, kind)
            text = " ".join(content.decode(errors="replace").split())[:200]
            fault = f"status {response.status_code}: {text}"
            if response.status_code not in BUSY:
                raise RefusedError(f"{self.where}: {address} refuses the request ({fault}); check url and server")
        raise UserError(
            f"{self.where}: no reply from {address} in {ATTEMPTS} attempts ({fault}); start the server, or correct the"
            " url"
        )

    def _receive(self, response: httpx.Response) -> bytes:
        """Return the body of a reply, which may have no end."""
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if len(content) > LARGEST_REPLY:
                raise UserError(
                    f"{self.where}: the reply of {response.url} has more than {LARGEST_REPLY} bytes; correct the url"
                )
        return bytes(content)

    def _read(self, address: str, content: bytes, kind: type[AnyReply]) -> AnyReply:
        """Return the fields of a reply."""
        try:
            return kind.model_validate_json(content)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            if fault["type"] == "json_invalid":
                reason = fault["msg"].removeprefix("Invalid JSON: ")
                raise UserError(f"{self.where}: {address} returns no JSON ({reason}); correct the url") from None
            field = ".".join(map(str, fault["loc"])) or "object"
            got = "" if fault["type"] == "missing" else f", got {str(fault['input'])[:40]!r}"
            raise RefusedError(
                f"{self.where}: the reply of {address} has no usable {field} ({fault['msg']}{got}); check that the url"
                " is that of an API like OpenAI's (it ends in /v1)"
            ) from None


class RefusedError(UserError):
    """A request that the server does not know or take, or whose reply lacks a field."""


def _map_at_once(function: Callable[[Input], Output], values: Sequence[Input]) -> Iterator[Output]:
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        yield from pool.map(function, values)


def encode_png(image: Image.Image) -> str:
    """Return an RGB image as a data url."""
    file = io.BytesIO()
    image.convert("RGB").save(file, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def open_server(url: str, model: str, where: str) -> Server:
    """Return a server by its url, with the API key of the environment.

    Raises:
        UserError: The url or the key is none, or the url holds a key, which records and messages would show.
    """
    if may_hold_secret(url):
        raise UserError(f"{model or 'model'}: the server's url holds a password or key; set {API_KEY} to it instead")
    key = os.environ.get(API_KEY, "")
    if not (key.isascii() and key.isprintable()):
        raise UserError(f"{API_KEY}: holds other characters than printable ones of ASCII; set it to the server's key")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        return Server(where, model, httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT))
    except httpx.InvalidURL as error:
        raise UserError(f"{where}: no url of a server ({get_first_line(error)}); correct it") from None
