"""Decoders that a server runs: the tokenizer runs here, and short requests test which values the
server returns.
"""

import itertools
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
from waltz.models.decoders.decoder import ChatTurn, PreparedImage, Prompt, PromptLayout
from waltz.models.decoders.endpoint import RefusedError
from waltz.models.decoders.language_model import LanguageModel, add_chat_template
from waltz.models.decoders.network import Network
from waltz.models.decoders.server import (
    ECHO,
    FORCED,
    TOP,
    ServedPrompt,
    Server,
    encode_png,
    open_server,
)
from waltz.models.decoders.server_replies import (
    Completion,
    ListedModel,
    ModelList,
    Properties,
    Text,
    TokenizedReply,
    Version,
)
from waltz.models.decoders.vision_language_model import VisionLanguageModel, draw_probe
from waltz.models.decoders.vision_loading import PilProcessor
from waltz.models.pretrained import load_generation_config, load_tokenizer

PROBE = "The dog's 2 legs (A), or \u00e9 B:"
"""Text whose token ids are compared with the server's."""
LONGEST_FACTS = 10_000
"""Maximum number of letters of a server's description, which is stored in records."""
Output = TypeVar("Output")
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, kw_only=True)
class Served:
    """A decoder behind a server."""

    connection: Server

    @property
    def server(self) -> Server:
        """The server."""
        return self.connection

    @property
    def forward_pass(self) -> str:
        """Description of how the network is read."""
        return f"by a server: {self.server.facts}; {self.server.describe_scoring()}"


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedModel(Served, LanguageModel):
    """A language model behind a server."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedVisionModel(Served, VisionLanguageModel):
    """A VL decoder behind a server, which masks pixels of the image itself."""

    def prepare_image(self, image: Image.Image) -> PreparedImage:
        """Return the pixels of the raw image, less the color of masked pixels: shape (1, 3, height,
        width).
        """
        # (height, width, 3)
        levels = torch.from_numpy(np.array(image.convert("RGB"), dtype=np.float32))
        pixels = (levels - torch.tensor(self.connection.masked_color)).permute(2, 0, 1)[
            None
        ]
        return PreparedImage(pixels, {}, image)

    def _build_layout(
        self, prompt: Prompt, picture: PreparedImage, image_position: int
    ) -> PromptLayout:
        return PromptLayout((self.image_id,), (0,), torch.arange(len(prompt.ids)))

    def _compute_positions(self, ids: torch.Tensor, *_: Any) -> torch.Tensor:
        return torch.arange(ids.shape[1])


def connect_served_model(spec: ModelSpec) -> ServedModel | ServedVisionModel:
    """Return a decoder behind the server of its entry.

    The decoder's revision is the entry's revision and the server's description, so that cached
    results of another server or version are not used.

    Raises:
        UserError: The server is not reached, does not have the model, or has another tokenizer than
            the entry.
    """
    server = open_server(spec.server, spec.weights, f"models.{spec.name}.server")
    entry = _find_model(server)
    processor = load_tokenizer(spec, PilProcessor) if spec.kind == "vision" else None
    # Prompts are rendered and tokenized here; the server gets ids, or a text with the same tokens.
    tokenizer = load_tokenizer(spec) if processor is None else processor.tokenizer
    reader = processor or tokenizer
    add_chat_template(
        reader, bool(tokenizer.chat_template or reader.chat_template), spec
    )

    # llama.cpp describes its window under /props, vLLM in its list of models.
    properties = _try(partial(server.get, "/props", Properties)) or Properties()
    settings = properties.default_generation_settings
    window = entry.max_model_len
    if not window and settings:
        window = settings.n_ctx
    server = replace(
        server,
        facts=_describe_server(server, entry, properties),
        tokenizer=tokenizer,
        window=int(window or tokenizer.model_max_length),
        ends=frozenset()
        if tokenizer.eos_token_id is None
        else frozenset([tokenizer.eos_token_id]),
    )
    _compare_tokenizers(server)

    spec = replace(spec, revision=f"{spec.revision} ({server.facts})")
    is_llama_cpp = settings is not None
    # The network is the server's; generation settings of the checkpoint are read from its files.
    generation = SimpleNamespace(generation_config=load_generation_config(spec))
    network = Network(generation, "cpu", frozenset(), False)
    decoder: ServedModel | ServedVisionModel
    if processor is None:
        server = _find_scoring(server, is_llama_cpp)
        decoder = ServedModel(
            spec,
            "cpu",
            network,
            tokenizer,
            server.ends,
            server.window,
            connection=server,
        )
    else:
        decoder = _build_vision_model(spec, server, network, processor, is_llama_cpp)
    log.info(
        "models.%s: %s; %s", spec.name, server.facts, decoder.server.describe_scoring()
    )
    return decoder


def _describe_server(server: Server, entry: ListedModel, properties: Properties) -> str:
    """Return in one line the owner, version and details of a model, as its server reports them.

    Raises:
        UserError: The description is too long or not printable.
    """
    # llama.cpp reports its version with its settings, vLLM under a path that other servers lack.
    version = properties.build_info
    if not version:
        version = (_try(partial(server.get, "/version", Version)) or Version()).version
    details: dict[str, object] = {}
    if entry.root:
        details["root"] = entry.root
    if entry.meta:
        details["meta"] = entry.meta
    parts = [entry.owned_by or "server", version, json.dumps(details, sort_keys=True)]
    facts = " ".join(part for part in parts if part)
    if not facts.isprintable() or len(facts) > LONGEST_FACTS:
        raise UserError(
            f"{server.location}: its description of itself is not a short line (got {facts[:80]!r}); correct it there"
        )
    return facts


def _build_vision_model(
    spec: ModelSpec,
    server: Server,
    network: Network,
    processor: Any,
    is_llama_cpp: bool,
) -> ServedVisionModel:
    """Return a VL decoder that knows how its server returns log-probabilities."""
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
    # A masked pixel has the mean color, which is 0 after the processor's normalization.
    mean_color = getattr(processor.image_processor, "image_mean", (0, 0, 0))
    red, green, blue = (round(255 * share) for share in mean_color)
    chat_server = ChatServer(
        **{**vars(server), "masked_color": (red, green, blue)},
        placeholder=placeholder,
        render_chat=decoder.render_chat,
    )
    return replace(
        decoder, connection=_find_chat_scoring(chat_server, decoder, is_llama_cpp)
    )


def find_served_model(url: str) -> str:
    """Return the name of the only model of a server.

    Raises:
        UserError: The server is not reached, or does not have exactly one model.
    """
    names = _list_models(open_server(url, "", url))
    if len(names) != 1:
        raise UserError(
            f"{url}: serves {', '.join(names) or 'no model'}, expected 1; write {url}#NAME"
        )
    return next(iter(names))


def _list_models(server: Server) -> dict[str, ListedModel]:
    return {entry.id: entry for entry in server.get("models", ModelList).data}


def _find_model(server: Server) -> ListedModel:
    models = _list_models(server)
    if not models:  # `transformers serve` lists those of its cache alone
        return ListedModel(id=server.model)
    # Some servers list a model by its path, and its name as an alias.
    for name, entry in models.items():
        if server.model in (name, *entry.aliases):
            return entry
    raise UserError(
        f"{server.location}: no such model at the server (got {server.model}, expected {' or '.join(models)});"
        f" correct the key weights of models.{server.location.split('.')[1]}"
    )


def _try(request: Callable[[], Output]) -> Output | None:
    """Return the reply to a request, or None if the server refuses it or its reply has other
    fields.
    """
    try:
        return request()
    except RefusedError:
        return None


def _compare_tokenizers(server: Server) -> None:
    """Refuse a tokenizer whose ids of a text differ from the server's ids, if the server returns
    ids.
    """
    body = {
        "content": PROBE,
        "prompt": PROBE,
        "input": PROBE,
        "add_special": True,
        "parse_special": True,
    }
    server_ids = None
    for path in ("/tokenize", "/extras/tokenize"):
        reply = _try(partial(server.post, path, body, TokenizedReply))
        if reply and reply.tokens is not None:
            server_ids = reply.tokens
            break
    if server_ids is None:
        return

    # One of the two may add the start token, and the other not.
    ids, start = server.tokenizer(PROBE)["input_ids"], [server.tokenizer.bos_token_id]
    if server_ids in (ids, [*start, *ids]) or [*start, *server_ids] == ids:
        return
    raise UserError(
        f"{server.location}: the server's tokenizer is another one: {PROBE!r} has ids {server_ids[:8]}... there"
        f" (expected {ids[:8]}...); name the model's own under models.{server.location.split('.')[1]}.tokenizer"
    )


def _find_scoring(server: Server, is_llama_cpp: bool) -> Server:
    """Return the server with the method by which it returns log-probabilities, found by a few short
    requests.
    """
    # The best methods first: llama.cpp's forced tokens; then, from ids before from text, the echoed
    # prompt and the likeliest tokens.
    ids = server.tokenizer(PROBE)["input_ids"]
    candidates = []
    if is_llama_cpp:
        candidates.append(replace(server, scoring=FORCED))
    for takes_ids, scoring in itertools.product((True, False), (ECHO, TOP)):
        candidates.append(replace(server, scoring=scoring, takes_ids=takes_ids))
    for candidate in candidates:
        if _scores(candidate, ServedPrompt(ids[:-1]), ids[-1]):
            return candidate

    # No log-probabilities at all: the server only generates, from ids or from text.
    request = partial(
        server.post, "completions", {"prompt": ids, "max_tokens": 1}, Completion[Text]
    )
    return replace(server, takes_ids=_try(request) is not None)


def _find_chat_scoring(
    server: ChatServer, decoder: ServedVisionModel, is_llama_cpp: bool
) -> ChatServer:
    """Return the server with the method by which it returns log-probabilities, found by a few short
    requests.

    Raises:
        UserError: The server has another chat template or tokenizer, or reads no images.
    """
    question, answer = ChatTurn("user", PROBE), ChatTurn("assistant", PROBE)
    image_question = replace(question, image=True)

    def build_prompt(*turns: ChatTurn) -> ServedPrompt:
        return ServedPrompt(list(decoder.build_prompt(decoder.render_chat(turns)).ids))

    # Chats with and without the image, each up to the answer and with an answer to be continued.
    opening, continued = build_prompt(question), build_prompt(question, answer)
    image_opening = build_prompt(image_question)
    image_continued = build_prompt(image_question, answer)
    image = encode_png(draw_probe())
    target = image_continued.ids[-1]
    # Other servers than vLLM ignore the template, but return no such values.
    for takes_template in (True, False):
        candidate = replace(
            server, scoring=ECHO, takes_template=takes_template, continues=True
        )
        if _scores(candidate, ServedPrompt(image_continued.ids[:-1], image), target):
            return candidate

    # A chat without an image has as many tokens at the server as here, unless its template or
    # tokenizer differs.
    count = server.count_tokens(opening)
    if count not in (None, len(opening.ids)):
        raise UserError(
            f"{server.location}: the server makes {count} tokens of a chat that has {len(opening.ids)} here; name the"
            f" model's own tokenizer under models.{server.location.split('.')[1]}.tokenizer, or start the server with"
            " the model's own chat template"
        )
    continues = count is not None and _continues(
        replace(server, continues=True), continued
    )
    server = replace(server, continues=continues)
    prompt = replace(image_opening, image=image)
    for scoring in [FORCED, TOP] if is_llama_cpp else [TOP]:
        candidate = replace(server, scoring=scoring)
        if _scores(candidate, prompt, target):
            return candidate
    server.count_tokens(prompt)  # an error where it reads no images
    return server


def _continues(server: ChatServer, prompt: ServedPrompt) -> bool:
    """Return whether a server continues the assistant's turn at the end of a prompt."""
    try:
        return server.count_tokens(prompt) == len(prompt.ids)
    except UserError as error:
        log.info(
            "%s: begins new turns only: %s", server.location, get_first_line(error)
        )
        return False


def _scores(server: Server, prompt: ServedPrompt, target: int) -> bool:
    """Return whether a server returns log-probabilities by the method that `scoring` names."""
    try:
        if server.scoring == TOP:
            return bool(server.find_likeliest(prompt))
        (values,) = server.score([(prompt, [target])], "log-probability")
    except UserError as error:
        log.info(
            "%s: %s is not served: %s",
            server.location,
            server.scoring,
            get_first_line(error),
        )
        return False
    return math.isfinite(values[0])
