"""A server on the loopback with the completions API of OpenAI, which computes with a network that is loaded here.

Dialects: `vllm` (token ids, echo, `/tokenize`), `llama.cpp` (its own `/completion`, which returns the log-probability
of the token that a bias makes it take, except of an end or the beginning of a character), `text` (texts and echo, no
token ids, as llama-cpp-python), `likeliest` (no echo) and `bare` (no log-probabilities).
"""

import json
import threading
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from transformers.convert_slow_tokenizer import bytes_to_unicode

from waltz.models.decoders.language_model import LanguageModel

MODEL = "tiny"
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

    decoder: LanguageModel
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
            return {"data": [entry | ({"max_model_len": 512} if self.dialect == "vllm" else {})]}
        if path == "/version" and self.dialect == "vllm":
            return {"version": "0.11"}
        if path == "/props" and self.dialect == "llama.cpp":
            return {"build_info": "b1", "default_generation_settings": {"n_ctx": 512}}
        if path == "/tokenize" and self.dialect in ("vllm", "llama.cpp"):
            return {"tokens": self.decoder.tokenizer(body["prompt"])["input_ids"]}
        if path == "/completion" and self.dialect == "llama.cpp":
            return self.complete_natively(body)
        if path == "/v1/completions" and self.dialect != "llama.cpp":
            return {"choices": [self.complete(body)]}
        raise UnknownError(404)

    def read(self, prompt: Any) -> list[int]:
        if isinstance(prompt, list) == (self.dialect == "text"):
            raise UnknownError(422)
        return self.decoder.tokenizer(prompt)["input_ids"] if isinstance(prompt, str) else prompt

    def compute_log_probabilities(self, ids: list[int]) -> torch.Tensor:
        with self.lock, torch.inference_mode():
            return self.decoder.network.model(torch.tensor([ids])).logits[0].double().log_softmax(-1)

    def choose(self, ids: list[int], most: int, bias: dict[int, float]) -> tuple[list[int], bool]:
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
        bias = {int(token): value for token, value in body.get("logit_bias", {}).items()}
        tokens, has_end = self.choose(ids, body["max_tokens"], bias)
        choice: dict[str, Any] = {"text": self.decoder.tokenizer.decode(tokens)}
        choice["finish_reason"] = "stop" if has_end else "length"
        if self.dialect == "vllm":
            choice["token_ids"] = tokens
        if "logprobs" in body and self.dialect in ("vllm", "text") and body.get("echo"):
            table = self.compute_log_probabilities([*ids, *tokens])
            values = [float(table[place, token]) for place, token in enumerate([*ids, *tokens][1:])]
            choice["logprobs"] = {"token_logprobs": [None, *values]}
        if "logprobs" in body and self.dialect == "likeliest":
            if body.get("echo"):
                raise UnknownError(400)
            best = self.compute_log_probabilities(ids)[-1].topk(body["logprobs"])
            texts = [self.decoder.tokenizer.decode([int(token)]) for token in best.indices]
            choice["logprobs"] = {"top_logprobs": [dict(zip(texts, best.values.tolist(), strict=True))]}
        return choice

    def complete_natively(self, body: dict[str, Any]) -> dict[str, Any]:
        ids = self.read(body["prompt"])
        bias = {token: -1e9 if value is False else value for token, value in body.get("logit_bias", [])}
        tokens, has_end = self.choose(ids, body["n_predict"], bias)
        reply: dict[str, Any] = {"tokens": tokens, "stop_type": "eos" if has_end else "limit"}
        if body.get("n_probs"):
            table = self.compute_log_probabilities(ids)[-1]
            best = table.topk(min(body["n_probs"], len(table)))
            likeliest = [
                {"id": token, "logprob": value}
                for token, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ]
            taken = [
                {"id": token, "logprob": float(table[token]), "top_logprobs": likeliest}
                for token in tokens[:1]
                if not begins_character(self.decoder.tokenizer.convert_ids_to_tokens(token))
            ]
            reply |= {"completion_probabilities": taken} if taken else {}
        return reply


def begins_character(piece: str) -> bool:
    """Return whether the text of a piece is the beginning of a character of several bytes."""
    reader = getincrementaldecoder("utf-8")("ignore")
    reader.decode(bytes(BYTES[letter] for letter in piece if letter in BYTES))
    return bool(reader.getstate()[0])


@contextmanager
def serve(decoder: LanguageModel, dialect: str = "vllm", **options: Any) -> Iterator[StandIn]:
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
            elif stand_in.key and self.headers.get("Authorization") != f"Bearer {stand_in.key}":
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
