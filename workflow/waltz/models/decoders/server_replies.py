"""Replies of servers with the completions API of OpenAI, and of llama.cpp's own: the fields that
are read.
"""

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from waltz.core.files.json_objects import JsonObject

TokenId = Annotated[int, Field(ge=0, lt=2**31)]
LogProbability = Annotated[float, Field(le=0.01)]
"""Log-probability: at most 0 apart from rounding, and not NaN."""
Item = TypeVar("Item")


class Reply(BaseModel):
    """Fields of a reply; other fields are ignored. A boolean or a text is not accepted as a number."""

    # Strict: a reply with a wrong type is an error of the server, never a converted number.
    model_config = ConfigDict(frozen=True, strict=True)


class ListedModel(Reply):
    """A model in a list of models."""

    id: str
    # Fields that only some servers fill.
    aliases: list[str] = []
    owned_by: str | None = None
    root: str | None = None
    meta: JsonObject | None = None
    max_model_len: Annotated[int, Field(ge=0)] | None = None


class ModelList(Reply):
    """Models of a server."""

    data: list[ListedModel]


class ServedGenerationSettings(Reply):
    """Settings of llama.cpp; `n_ctx` counts the positions of its window."""

    n_ctx: Annotated[int, Field(ge=0)] | None = None


class Properties(Reply):
    """Version and settings that llama.cpp reports."""

    # Defaults: other servers answer the same path without these fields.
    build_info: str = ""
    default_generation_settings: ServedGenerationSettings | None = None


class Version(Reply):
    """The version that vLLM reports."""

    version: str = ""


class TokenizedReply(Reply):
    """Token ids of a text."""

    tokens: list[TokenId] | None = None


class Completion(Reply, Generic[Item]):
    """A completion of a prompt."""

    # Each request asks for one completion.
    choices: Annotated[list[Item], Field(min_length=1)]


class Text(Reply):
    """A completion's text, and its token ids where the server returns them."""

    text: str
    token_ids: list[TokenId] | None = None
    finish_reason: str | None = None


class PromptTokens(Reply):
    """Log-probabilities of the tokens of a prompt, and of tokens behind it; None is allowed for the
    first token.
    """

    token_logprobs: list[LogProbability | None]


class LikeliestTokens(Reply):
    """Log-probabilities of the likeliest tokens of each step, by their texts."""

    top_logprobs: Annotated[list[dict[str, LogProbability]], Field(min_length=1)]


class Scored(Reply, Generic[Item]):
    """A completion with log-probabilities."""

    logprobs: Item


class ScoredToken(Reply):
    """A token with its log-probability, before any bias."""

    id: TokenId
    logprob: LogProbability


class TakenToken(ScoredToken):
    """A token that llama.cpp takes, and the likeliest tokens at its position."""

    top_logprobs: list[ScoredToken] = []


class TakenTokens(Reply):
    """Tokens that llama.cpp takes; a token that is only the beginning of a character is omitted."""

    completion_probabilities: list[TakenToken] | None = None


class NativeCompletion(Reply):
    """A completion of llama.cpp."""

    tokens: list[TokenId]
    stop_type: str | None = None


class ReplyMessage(Reply):
    """A turn of a chat."""

    content: str | None = None


class LikelyToken(Reply):
    """A token of a chat with its log-probability, and its id where llama.cpp returns it."""

    token: str
    logprob: LogProbability
    id: TokenId | None = None


class ChatToken(LikelyToken):
    """A generated token of a chat, and the likeliest tokens at its position."""

    top_logprobs: list[LikelyToken] = []


class ChatLogProbabilities(Reply):
    """Log-probabilities of a chat's generated tokens."""

    content: list[ChatToken] | None = None


class ChatChoice(Reply):
    """The turn that follows a chat."""

    message: ReplyMessage
    logprobs: ChatLogProbabilities | None = None
    finish_reason: str | None = None
    token_ids: list[TokenId] | None = None


class Usage(Reply):
    """Number of tokens of a chat."""

    prompt_tokens: Annotated[int, Field(ge=0)]


class PromptToken(Reply):
    """A token of a prompt with its log-probability."""

    logprob: LogProbability


class Chat(Reply):
    """A chat's continuation, with the tokens of the chat itself where vLLM returns them."""

    choices: Annotated[list[ChatChoice], Field(min_length=1)]
    usage: Usage | None = None
    # None at the first token, which no token precedes.
    prompt_logprobs: list[dict[TokenId, PromptToken] | None] | None = None
