"""Decoders behind a server: their tokenizer is here, and what the server returns is found when it is reached."""

import json
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image

from waltz.core.errors import UserError, get_first_line
from waltz.model_registry import ModelSpec
from waltz.models.decoders.chat_server import ChatServer
from waltz.models.decoders.decoder import PreparedImage, Prompt, PromptLayout, Turn
from waltz.models.decoders.language_model import LanguageModel, add_chat_template
from waltz.models.decoders.network import Network
from waltz.models.decoders.server import ECHO, FORCED, TOP, RefusedError, ServedPrompt, Server, encode_png, open_server
from waltz.models.decoders.server_replies import (
    Completion,
    ModelEntry,
    ModelList,
    Properties,
    Text,
    TokenizedText,
    Version,
)
from waltz.models.decoders.vision_language_model import VisionLanguageModel, draw_probe
from waltz.models.decoders.vision_loading import PilProcessor
from waltz.models.pretrained import load_generation_config, load_tokenizer

PROBE = "The dog's 2 legs (A), or \u00e9 B:"
"""Text whose token ids are compared with the server's."""
LONGEST_FACTS = 10_000
"""Most letters of what a server says of itself, which records hold."""
Output = TypeVar("Output")
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, kw_only=True)
class Served:
    """What decoders behind a server have in common."""

    connection: Server

    @property
    def server(self) -> Server:
        """The server."""
        return self.connection

    @property
    def forward_pass(self) -> str:
        """How the network is read, in words."""
        return f"by a server: {self.server.facts}; {self.server.describe_scoring()}"


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedModel(Served, LanguageModel):
    """A language model behind a server."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedVisionModel(Served, VisionLanguageModel):
    """A VL decoder behind a server, which masks pixels of the image itself."""

    def prepare_image(self, image: Image.Image) -> PreparedImage:
        """Return the image's own pixels, as differences from the colour of masked ones."""
        levels = torch.from_numpy(np.array(image.convert("RGB"), dtype=np.float32))
        pixels = (levels - torch.tensor(self.connection.masked_colour)).permute(2, 0, 1)[None]
        return PreparedImage(pixels, {}, image)

    def _build_layout(self, prompt: Prompt, picture: PreparedImage, image_position: int) -> PromptLayout:
        return PromptLayout((self.image_id,), (0,), torch.arange(len(prompt.ids)))

    def _compute_positions(self, ids: torch.Tensor, *_: Any) -> torch.Tensor:
        return torch.arange(ids.shape[1])


def load(spec: ModelSpec) -> ServedModel | ServedVisionModel:
    """Return a decoder behind the server of its entry.

    Its revision is that of the entry and what the server says of the model, so that cached results are of one state.

    Raises:
        UserError: The server is not reached, does not have the model, or has another tokenizer than the entry.
    """
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request
    where = f"models.{spec.name}.server"
    server = open_server(spec.server, spec.weights, where)
    entry = _find_model(server)
    processor = load_tokenizer(spec, PilProcessor) if spec.kind == "vision" else None
    tokenizer = load_tokenizer(spec) if processor is None else processor.tokenizer
    reader = processor or tokenizer
    add_chat_template(reader, bool(tokenizer.chat_template or reader.chat_template), spec)
    properties = _try(partial(server.get, "/props", Properties)) or Properties()
    version = properties.build_info or (_try(partial(server.get, "/version", Version)) or Version()).version
    details = {name: value for name, value in (("root", entry.root), ("meta", entry.meta)) if value}
    facts = " ".join(filter(None, [entry.owned_by or "server", version, json.dumps(details, sort_keys=True)]))
    if not facts.isprintable() or len(facts) > LONGEST_FACTS:
        raise UserError(
            f"{where}: what the server says of itself is no short line (got {facts[:80]!r}); correct it there"
        )
    settings = properties.default_generation_settings
    window = entry.max_model_len or (settings and settings.n_ctx)
    ends = frozenset() if tokenizer.eos_token_id is None else frozenset([tokenizer.eos_token_id])
    limit = int(window or tokenizer.model_max_length)
    server = replace(server, facts=facts, tokenizer=tokenizer, window=limit, ends=ends)
    _compare_tokenizers(server)
    spec = replace(spec, revision=f"{spec.revision} ({facts})")
    generation = SimpleNamespace(generation_config=load_generation_config(spec))
    network = Network(generation, "cpu", frozenset(), False)
    if processor is None:
        server = _find_scoring(server, is_llama_cpp=settings is not None)
        decoder: ServedModel | ServedVisionModel = ServedModel(
            spec, "cpu", network, tokenizer, ends, limit, connection=server
        )
    else:
        decoder = _build_vision_model(spec, server, network, processor, is_llama_cpp=settings is not None)
    log.info("models.%s: %s; %s", spec.name, facts, decoder.server.describe_scoring())
    return decoder


def _build_vision_model(
    spec: ModelSpec, server: Server, network: Network, processor: Any, is_llama_cpp: bool
) -> ServedVisionModel:
    """Return a VL decoder, with the way in which its server returns log-probabilities."""
    placeholder = str(processor.image_token)
    decoder = ServedVisionModel(
        spec,
        "cpu",
        network,
        server.tokenizer,
        server.ends,
        server.window,
        placeholder,
        processor=processor,
        image_id=server.tokenizer.convert_tokens_to_ids(placeholder),
        connection=server,
    )
    red, green, blue = (round(255 * share) for share in getattr(processor.image_processor, "image_mean", (0, 0, 0)))
    chat_server = ChatServer(
        **{**vars(server), "masked_colour": (red, green, blue)},
        placeholder=placeholder,
        render_chat=decoder.render_chat,
    )
    return replace(decoder, connection=_find_chat_scoring(chat_server, decoder, is_llama_cpp))


def find_served_model(url: str) -> str:
    """Return the name of the only model of a server.

    Raises:
        UserError: It is not reached, or has several models.
    """
    names = _list_models(open_server(url, "", url))
    if len(names) != 1:
        raise UserError(f"{url}: serves {', '.join(names) or 'no model'}, expected 1; write {url}#NAME")
    return next(iter(names))


def _list_models(server: Server) -> dict[str, ModelEntry]:
    return {entry.id: entry for entry in server.get("models", ModelList).data}


def _find_model(server: Server) -> ModelEntry:
    models = _list_models(server)
    if not models:  # `transformers serve` lists those of its cache alone
        return ModelEntry(id=server.model)
    for name, entry in models.items():
        if server.model in (name, *entry.aliases):
            return entry
    raise UserError(
        f"{server.where}: no such model at the server (got {server.model}, expected {' or '.join(models)});"
        f" correct the key weights of models.{server.where.split('.')[1]}"
    )


def _try(request: Callable[[], Output]) -> Output | None:
    """Return the reply to a request that the server may not know, or answer otherwise; None then."""
    try:
        return request()
    except RefusedError:
        return None


def _compare_tokenizers(server: Server) -> None:
    """Refuse a tokenizer whose ids of a text are not the server's, where it tells its own."""
    body = {"content": PROBE, "prompt": PROBE, "input": PROBE, "add_special": True, "parse_special": True}
    replies = [_try(partial(server.post, path, body, TokenizedText)) for path in ("/tokenize", "/extras/tokenize")]
    theirs = next((reply.tokens for reply in replies if reply and reply.tokens is not None), None)
    ours, start = server.tokenizer(PROBE)["input_ids"], [server.tokenizer.bos_token_id]
    if theirs is not None and theirs != ours and [*start, *theirs] != ours and theirs != [*start, *ours]:
        raise UserError(
            f"{server.where}: the server's tokenizer is another one: {PROBE!r} has ids {theirs[:8]}... there (expected"
            f" {ours[:8]}...); name the model's own under models.{server.where.split('.')[1]}.tokenizer"
        )


def _find_scoring(server: Server, is_llama_cpp: bool) -> Server:
    """Return the server with the way in which it returns log-probabilities, found by a few short requests."""
    ids = server.tokenizer(PROBE)["input_ids"]
    candidates = [replace(server, scoring=scoring, takes_ids=ids) for ids in (True, False) for scoring in (ECHO, TOP)]
    if is_llama_cpp:
        candidates = [replace(server, scoring=FORCED), *candidates]
    for candidate in candidates:
        if _scores(candidate, ServedPrompt(ids[:-1]), ids[-1]):
            return candidate
    takes_ids = (
        _try(partial(server.post, "completions", {"prompt": ids, "max_tokens": 1}, Completion[Text])) is not None
    )
    return replace(server, takes_ids=takes_ids)


def _find_chat_scoring(server: ChatServer, decoder: ServedVisionModel, is_llama_cpp: bool) -> ChatServer:
    """Return the server with the way in which it returns log-probabilities, found by a few short requests.

    Raises:
        UserError: It has another chat template or tokenizer, or reads no images.
    """
    asked, answered = Turn("user", PROBE), Turn("assistant", PROBE)
    shown = replace(asked, image=True)
    opening, continued, seen, seen_continued = (
        ServedPrompt(list(decoder.build_prompt(decoder.render_chat(turns)).ids))
        for turns in ([asked], [asked, answered], [shown], [shown, answered])
    )
    image = encode_png(draw_probe())
    target = seen_continued.ids[-1]
    for takes_template in (True, False):  # other servers than vLLM ignore the template, but return no such values
        candidate = replace(server, scoring=ECHO, takes_template=takes_template, continues=True)
        prompt = ServedPrompt(seen_continued.ids[:-1], image)
        if _scores(candidate, prompt, target):
            return candidate
    count = server.count_tokens(opening)
    if count not in (None, len(opening.ids)):
        raise UserError(
            f"{server.where}: the server makes {count} tokens of a chat that has {len(opening.ids)} here; name the"
            f" model's own tokenizer under models.{server.where.split('.')[1]}.tokenizer, or start the server with the"
            " model's own chat template"
        )
    server = replace(server, continues=count is not None and _continues(replace(server, continues=True), continued))
    prompt = replace(seen, image=image)
    for scoring in [FORCED, TOP] if is_llama_cpp else [TOP]:
        candidate = replace(server, scoring=scoring)
        if _scores(candidate, prompt, target):
            return candidate
    server.count_tokens(prompt)  # an error where it reads no images
    return server


def _continues(server: ChatServer, prompt: ServedPrompt) -> bool:
    """Return whether a server goes on with the assistant's turn at the end of a prompt."""
    try:
        return server.count_tokens(prompt) == len(prompt.ids)
    except UserError as error:
        log.info("%s: begins new turns only: %s", server.where, get_first_line(error))
        return False


def _scores(server: Server, prompt: ServedPrompt, target: int) -> bool:
    """Return whether a server returns log-probabilities in the way that it is expected to."""
    try:
        if server.scoring == TOP:
            return bool(server.find_likeliest(prompt))
        (values,) = server.score([(prompt, [target])], "log-probability")
    except UserError as error:
        log.info("%s: %s is not served: %s", server.where, server.scoring, get_first_line(error))
        return False
    return math.isfinite(values[0])
