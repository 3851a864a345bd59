"""Language models behind a server: their tokenizer is here, and what the server returns is found when it is reached."""

import json
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import TypeVar

from waltz.core.errors import UserError, get_first_line
from waltz.model_registry import ModelSpec
from waltz.models.decoders.language_model import LanguageModel, add_chat_template
from waltz.models.decoders.network import Network
from waltz.models.decoders.server import ECHO, FORCED, TOP, RefusedError, Server, open_server
from waltz.models.decoders.server_replies import (
    Completion,
    ModelEntry,
    ModelList,
    Properties,
    Text,
    TokenizedText,
    Version,
)
from waltz.models.pretrained import load_generation_config, load_tokenizer

PROBE = "The dog's 2 legs (A), or \u00e9 B:"
"""Text whose token ids are compared with the server's."""
LONGEST_FACTS = 10_000
"""Most letters of what a server says of itself, which records hold."""
Output = TypeVar("Output")
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedModel(LanguageModel):
    """A language model behind a server."""

    connection: Server

    @property
    def server(self) -> Server:
        """The server."""
        return self.connection

    @property
    def forward_pass(self) -> str:
        """How the network is read, in words."""
        return f"by a server: {self.server.facts}; {self.server.describe_scoring()}"


def load(spec: ModelSpec) -> ServedModel:
    """Return a language model behind the server of its entry.

    Its revision is that of the entry and what the server says of the model, so that cached results are of one state.

    Raises:
        UserError: The server is not reached, does not have the model, or has another tokenizer than the entry.
    """
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request
    where = f"models.{spec.name}.server"
    server = open_server(spec.server, spec.weights, where)
    entry = _find_model(server)
    tokenizer = load_tokenizer(spec)
    add_chat_template(tokenizer, bool(tokenizer.chat_template), spec)
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
    server = _find_scoring(server, is_llama_cpp=settings is not None)
    log.info("models.%s: %s; %s", spec.name, facts, server.describe_scoring())
    return ServedModel(
        replace(spec, revision=f"{spec.revision} ({facts})"),
        "cpu",
        Network(SimpleNamespace(generation_config=load_generation_config(spec)), "cpu", frozenset(), False),
        tokenizer,
        ends,
        server.window,
        connection=server,
    )


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
    for name, entry in models.items():
        if server.model in (name, *entry.aliases):
            return entry
    raise UserError(
        f"{server.where}: no such model at the server (got {server.model}, expected {' or '.join(models) or 'any'});"
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
        try:
            if candidate.scoring == TOP:
                usable = bool(candidate.find_likeliest(ids))
            else:
                (values,) = candidate.score([(ids[:-1], ids[-1:])], "log-probability")
                usable = math.isfinite(values[0])
        except UserError as error:
            log.info("%s: %s is not served: %s", server.where, candidate.scoring, get_first_line(error))
            continue
        if usable:
            return candidate
    takes_ids = (
        _try(partial(server.post, "completions", {"prompt": ids, "max_tokens": 1}, Completion[Text])) is not None
    )
    return replace(server, takes_ids=takes_ids)
