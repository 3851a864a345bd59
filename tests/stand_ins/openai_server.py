"""A server on the loopback with the completions API of OpenAI, which computes with a network that
is loaded here.

Dialects: `vllm` (token ids, echo, `/tokenize`), `llama.cpp` (its own `/completion`, which returns
the log-probability of the token that a bias makes it take, except of an end or the beginning of a
character), `text` (texts and echo, no token ids, as llama-cpp-python), `likeliest` (no echo) and
`bare` (no log-probabilities). Chats with images are rendered with the chat template of a VL
decoder: `vllm` also with one of the request and with log-probabilities of the prompt, `untrusting`
as vLLM without a template of the request, `turns` does not continue a last turn of the assistant,
and `strict` takes the fields of OpenAI alone, as `transformers serve` does.
"""

import base64
import io
import json
import threading
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from PIL import Image
from transformers.convert_slow_tokenizer import bytes_to_unicode

from waltz.models.decoders.decoder import Decoder

MODEL = "tiny"
OPENAI_FIELDS = {
    "logit_bias",
    "logprobs",
    "max_tokens",
    "messages",
    "model",
    "seed",
    "stream",
    "temperature",
    "top_logprobs",
    "top_p",
}
"""Fields of a chat that every server knows."""
BYTES = {letter: byte for byte, letter in bytes_to_unicode().items()}


class UnknownError(Exception):
    """A request that the dialect does not have, with its status."""


@dataclass
class StandIn:
    """A model behind a server.

    Attributes:
        decoder: The loaded model.
        failures: Requests that are still answered with status 503.
        key: API key that is needed.
        replies: Replies by path, in the place of its own.
        requests: Paths and bodies so far.
    """

    decoder: Decoder
    dialect: str = "vllm"
    failures: int = 0
    key: str = ""
    url: str = ""
    replies: dict[str, Any] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def reply(self, path: str, body: dict[str, Any]) -> Any:
        if path in self.replies:
            return self.replies[path]
        if path == "/v1/models":
            entry = {"id": MODEL, "owned_by": self.dialect, "root": "/weights/tiny"}
            return {
                "data": [
                    entry
                    | (
                        {"max_model_len": self.decoder.window}
                        if self.dialect == "vllm"
                        else {}
                    )
                ]
            }
        if path == "/version" and self.dialect == "vllm":
            return {"version": "0.11"}
        if path == "/props" and self.dialect == "llama.cpp":
            return {
                "build_info": "b1",
                "default_generation_settings": {"n_ctx": self.decoder.window},
            }
        if path == "/tokenize" and self.dialect in ("vllm", "llama.cpp"):
            return {"tokens": self.decoder.tokenizer(body["prompt"])["input_ids"]}
        if path == "/completion" and self.dialect == "llama.cpp":
            return self.complete_natively(body)
        if path == "/v1/completions" and self.dialect != "llama.cpp":
            return {"choices": [self.complete(body)]}
        if path == "/v1/chat/completions" and hasattr(self.decoder, "processor"):
            return self.chat(body)
        raise UnknownError(404)

    def read(self, prompt: Any) -> list[int]:
        if isinstance(prompt, list) == (self.dialect == "text"):
            raise UnknownError(422)
        return (
            self.decoder.tokenizer(prompt)["input_ids"]
            if isinstance(prompt, str)
            else prompt
        )

    def compute_log_probabilities(self, ids: list[int]) -> torch.Tensor:
        with self.lock, torch.inference_mode():
            return (
                self.decoder.network.model(torch.tensor([ids]))
                .logits[0]
                .double()
                .log_softmax(-1)
            )

    def choose(
        self, ids: list[int], most: int, bias: dict[int, float]
    ) -> tuple[list[int], bool]:
        tokens: list[int] = []
        for _ in range(most):
            scores = self.compute_log_probabilities([*ids, *tokens])[-1].clone()
            for token, value in bias.items():
                scores[token] += value
            token = int(scores.argmax())
            if token in self.decoder.ends:
                return tokens, True
            tokens.append(token)
        return tokens, False

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        ids = self.read(body["prompt"])
        bias = {
            int(token): value for token, value in body.get("logit_bias", {}).items()
        }
        tokens, has_end = self.choose(ids, body["max_tokens"], bias)
        choice: dict[str, Any] = {"text": self.decoder.tokenizer.decode(tokens)}
        choice["finish_reason"] = "stop" if has_end else "length"
        if self.dialect == "vllm":
            choice["token_ids"] = tokens
        if "logprobs" in body and self.dialect in ("vllm", "text") and body.get("echo"):
            table = self.compute_log_probabilities([*ids, *tokens])
            values = [
                float(table[place, token])
                for place, token in enumerate([*ids, *tokens][1:])
            ]
            choice["logprobs"] = {"token_logprobs": [None, *values]}
        if "logprobs" in body and self.dialect == "likeliest":
            if body.get("echo"):
                raise UnknownError(400)
            best = self.compute_log_probabilities(ids)[-1].topk(body["logprobs"])
            texts = [
                self.decoder.tokenizer.decode([int(token)]) for token in best.indices
            ]
            choice["logprobs"] = {
                "top_logprobs": [dict(zip(texts, best.values.tolist(), strict=True))]
            }
        return choice

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Continue a chat, with its image, as vLLM and llama.cpp do."""
        if self.dialect == "strict" and body.keys() - OPENAI_FIELDS:
            raise UnknownError(422)
        images: list[Image.Image] = []
        template = body.get("chat_template") if self.dialect == "vllm" else None
        if self.dialect == "untrusting" and "chat_template" in body:
            raise UnknownError(400)
        messages = [
            {**message, "content": read_parts(message["content"], images)}
            for message in body["messages"]
        ]
        continues = messages[-1]["role"] == "assistant" and self.dialect not in (
            "turns",
            "strict",
        )
        text = self.decoder.processor.apply_chat_template(
            messages,
            chat_template=template,
            add_generation_prompt=not continues and not template,
            continue_final_message=continues and not template,
        )
        inputs = self.decoder.processor(
            text=[text],
            images=images or None,
            add_special_tokens=body.get("add_special_tokens", False),
            return_tensors="pt",
        )
        ids = inputs.pop("input_ids")[0].tolist()
        bias = {
            int(token): value
            for token, value in dict(body.get("logit_bias", {})).items()
        }
        bias = {
            token: -1e9 if value is False else value for token, value in bias.items()
        }
        tokens: list[int] = []
        scores = []
        for _ in range(body["max_tokens"]):
            table = self.read_chat([*ids, *tokens], inputs)
            scores.append(table[-1])
            biased = table[-1].clone()
            for token, value in bias.items():
                biased[token] += value
            tokens.append(int(biased.argmax()))
            if tokens[-1] in self.decoder.ends:
                break
        has_end = tokens[-1] in self.decoder.ends
        said = tokens[: len(tokens) - has_end]
        choice: dict[str, Any] = {
            "message": {"content": self.decoder.tokenizer.decode(said)}
        }
        choice["finish_reason"] = "stop" if has_end else "length"
        reply: dict[str, Any] = {
            "choices": [choice],
            "usage": {"prompt_tokens": len(ids)},
        }
        if self.dialect in ("vllm", "untrusting"):
            choice["token_ids"] = said
            if "prompt_logprobs" in body:
                table = self.read_chat(ids, inputs)
                entries = [
                    {str(token): {"logprob": float(table[place, token])}}
                    for place, token in enumerate(ids[1:])
                ]
                reply["prompt_logprobs"] = [None, *entries]
        if body.get("logprobs") and self.dialect not in ("bare", "strict"):
            piece = self.decoder.tokenizer.convert_ids_to_tokens(tokens[0])
            left_out = self.dialect == "llama.cpp" and begins_character(piece)
            content = (
                []
                if left_out
                else [self.describe_token(scores[0], tokens[0], body["top_logprobs"])]
            )
            choice["logprobs"] = {"content": content}
        return reply

    def read_chat(self, ids: list[int], inputs: Any) -> torch.Tensor:
        own = {name: value for name, value in inputs.items() if name == "pixel_values"}
        with self.lock, torch.inference_mode():
            return (
                self.decoder.network.model(torch.tensor([ids]), **own)
                .logits[0]
                .double()
                .log_softmax(-1)
            )

    def describe_token(
        self, scores: torch.Tensor, token: int, most: int
    ) -> dict[str, Any]:
        def describe(number: int) -> dict[str, Any]:
            entry = {
                "token": self.decoder.tokenizer.decode([number]),
                "logprob": float(scores[number]),
            }
            return entry | ({"id": number} if self.dialect == "llama.cpp" else {})

        likeliest = scores.topk(min(most, len(scores))).indices.tolist()
        return describe(token) | {
            "top_logprobs": [describe(number) for number in likeliest]
        }

    def complete_natively(self, body: dict[str, Any]) -> dict[str, Any]:
        ids = self.read(body["prompt"])
        bias = {
            token: -1e9 if value is False else value
            for token, value in body.get("logit_bias", [])
        }
        tokens, has_end = self.choose(ids, body["n_predict"], bias)
        reply: dict[str, Any] = {
            "tokens": tokens,
            "stop_type": "eos" if has_end else "limit",
        }
        if body.get("n_probs"):
            table = self.compute_log_probabilities(ids)[-1]
            best = table.topk(min(body["n_probs"], len(table)))
            likeliest = [
                {"id": token, "logprob": value}
                for token, value in zip(
                    best.indices.tolist(), best.values.tolist(), strict=True
                )
            ]
            taken = [
                {"id": token, "logprob": float(table[token]), "top_logprobs": likeliest}
                for token in tokens[:1]
                if not begins_character(
                    self.decoder.tokenizer.convert_ids_to_tokens(token)
                )
            ]
            reply |= {"completion_probabilities": taken} if taken else {}
        return reply


def read_parts(content: Any, images: list[Image.Image]) -> list[dict[str, str]]:
    """Return the content of a message as the chat template of a processor takes it; its images are
    added to a list.
    """
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    for part in content:
        if part["type"] == "image_url":
            file = base64.b64decode(
                part["image_url"]["url"].removeprefix("data:image/png;base64,")
            )
            images.append(Image.open(io.BytesIO(file)))
    return [part if part["type"] == "text" else {"type": "image"} for part in content]


def begins_character(piece: str) -> bool:
    """Return whether the text of a piece is the beginning of a character of several bytes."""
    reader = getincrementaldecoder("utf-8")("ignore")
    reader.decode(bytes(BYTES[letter] for letter in piece if letter in BYTES))
    return bool(reader.getstate()[0])


@contextmanager
def serve(decoder: Decoder, dialect: str = "vllm", **options: Any) -> Iterator[StandIn]:
    """Serve a model while the block runs."""
    stand_in = StandIn(decoder, dialect, **options)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            stand_in.requests.append((self.path, body))
            status, reply = 200, None
            if stand_in.failures:
                stand_in.failures -= 1
                status = 503
            elif (
                stand_in.key
                and self.headers.get("Authorization") != f"Bearer {stand_in.key}"
            ):
                status = 401
            else:
                try:
                    reply = stand_in.reply(self.path, body)
                except UnknownError as error:
                    (status,) = error.args
            content = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = handle_any

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stand_in.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()
