"""VL decoders behind a server: chat completions of OpenAI, with the image as a PNG file in a data
url.

Servers render chats themselves. A prompt that was rendered here is therefore sent as the messages
that the server renders to the same prompt, if such messages exist. vLLM gets the prompt unchanged,
with a chat template that changes nothing. The tokens of the prompt are compared with the server's
tokens if the server returns them.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from pydantic import ValidationError

from waltz.core.errors import UserError, shorten_value
from waltz.models.decoders.decoder import ChatTurn
from waltz.models.decoders.endpoint import RefusedError
from waltz.models.decoders.server import (
    ECHO,
    FORCING_BIAS,
    LOWEST,
    TOP_TOKENS,
    ServedPrompt,
    Server,
)
from waltz.models.decoders.server_replies import (
    Chat,
    ChatToken,
    PromptToken,
    TakenToken,
)

UNCHANGED = (
    "{%% for message in messages %%}{%% for part in message['content'] %%}"
    "{%% if part['type'] == 'text' %%}{{ part['text'] }}{%% else %%}{{ '%s' }}{%% endif %%}{%% endfor %%}{%% endfor %%}"
)
"""Chat template of vLLM that joins the parts of messages, with a placeholder for an image."""
PromptEntry = dict[int, PromptToken] | None
"""Log-probabilities of some tokens at a position of a prompt, by id; None at the first position."""


class ImageUrl(TypedDict):
    """Address of an image in a message, here a data url."""

    url: str


class MessagePart(TypedDict, total=False):
    """Part of a message: a text of type `text`, or an image of type `image_url`."""

    type: str
    text: str
    image_url: ImageUrl


class RequestMessage(TypedDict):
    """Message of a chat, as OpenAI's API takes it."""

    role: str
    content: str | list[MessagePart]


class ChatRequest(TypedDict, total=False):
    """Fields of a request that decide the prompt; the flags exist only for vLLM and llama.cpp."""

    messages: list[RequestMessage]
    chat_template: str
    add_generation_prompt: bool
    continue_final_message: bool
    add_special_tokens: bool


SENTINELS = ("first words", "second words", "third words")
"""Texts of turns by which the text between turns is found."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ChatServer(Server):
    """A VL decoder that a server runs.

    Attributes:
        placeholder: Text that stands for the image in a prompt.
        render_chat: Renders turns with the model's chat template; see `Decoder.render_chat`.
        takes_template: Whether prompts are sent as they are, with a chat template that changes
            nothing.
        continues: Whether the server continues an assistant's turn.
    """

    placeholder: str
    render_chat: Callable[[Sequence[ChatTurn]], str] = field(repr=False)
    takes_template: bool = False
    continues: bool = False

    def describe_scoring(self) -> str:
        """Return in words which log-probabilities the server returns."""
        description = super().describe_scoring()
        if not self.continues:
            description += "; a text only from the beginning of a turn"
        if not self.takes_template:
            description += "; with its own chat template"
        return description

    def count_tokens(self, prompt: ServedPrompt) -> int | None:
        """Return the server's number of tokens of a prompt, image included; None if it does not
        return the number.
        """
        usage = self._chat(prompt, max_tokens=1, temperature=0).usage
        return usage.prompt_tokens if usage else None

    def find_likeliest(self, prompt: ServedPrompt) -> dict[str, float]:
        """Return the log-probabilities of the likeliest tokens after a prompt, by their texts."""
        options = {
            "logprobs": True,
            "top_logprobs": TOP_TOKENS,
            "max_tokens": 1,
            "temperature": 0,
        }
        tokens = self._read_log_probabilities(self._chat(prompt, **options))
        if not tokens:
            return {}
        return {token.token: token.logprob for token in tokens[0].top_logprobs}

    def _score_prompt(self, prompt: ServedPrompt) -> list[float]:
        """Return the log-probability of each token of a prompt; the first token and the image have
        none.

        Raises:
            UserError: The server has other tokens than the prompt.
        """
        entries = self._chat(
            prompt, prompt_logprobs=0, max_tokens=1, temperature=0
        ).prompt_logprobs
        if entries is None:
            raise RefusedError(
                f"{self.location}: {self.client.base_url} returns no prompt_logprobs of a chat"
            )
        # Without an image there is one entry for each token; the image takes several positions.
        has_length = len(entries) == len(prompt.ids)
        if prompt.image:
            has_length = len(entries) >= len(prompt.ids)
        if not has_length:
            raise self._report_tokens(prompt)

        values = [math.nan] * len(prompt.ids)
        for position, entry in self._align_entries(prompt, entries):
            if entry is None:
                continue
            token = prompt.ids[position]
            if token not in entry:
                raise self._report_tokens(prompt)
            values[position] = max(entry[token].logprob, LOWEST)
        return values

    def _align_entries(
        self, prompt: ServedPrompt, entries: list[PromptEntry]
    ) -> Iterator[tuple[int, PromptEntry]]:
        """Yield the position in the prompt of each entry of the server, except for those of the
        image.

        The server has an entry for each position that the image takes, so that entries behind it
        count from the end.
        """
        if not prompt.image:
            yield from enumerate(entries)
            return
        image_position = self._find_image(prompt.ids)
        yield from enumerate(entries[:image_position])
        behind_count = len(prompt.ids) - 1 - image_position
        if behind_count:
            yield from enumerate(entries[-behind_count:], image_position + 1)

    def _report_tokens(self, prompt: ServedPrompt) -> UserError:
        return UserError(
            f"{self.location}: the server has other tokens than the prompt {self.decode(prompt.ids)[-40:]!r}; check"
            " that it has the same tokenizer and chat template"
        )

    def _take(
        self, prompt: ServedPrompt, target: int, top_count: int
    ) -> TakenToken | None:
        bias = {
            "logit_bias": [[target, FORCING_BIAS]],
            "logprobs": True,
            "top_logprobs": top_count,
        }
        tokens = self._read_log_probabilities(
            self._chat(prompt, max_tokens=1, temperature=0, **bias)
        )
        if not tokens:
            return None
        try:
            return TakenToken.model_validate(tokens[0].model_dump())
        except ValidationError:
            raise RefusedError(
                f"{self.location}: {self.client.base_url} returns no ids of tokens of a chat"
            ) from None

    def _continue(
        self, prompt: ServedPrompt, max_tokens: int, options: Mapping[str, object]
    ) -> tuple[list[int], bool]:
        # A server that echoes a chat is vLLM, which can return the ids of generated tokens.
        if self.scoring == ECHO:
            options = {**options, "return_token_ids": True}
        choice = self._chat(prompt, max_tokens=max_tokens, **options).choices[0]
        text = choice.message.content or ""
        return self._read_tokens(
            text, choice.token_ids, max_tokens
        ), choice.finish_reason == "stop"

    def _chat(self, prompt: ServedPrompt, **options: Any) -> Chat:
        return self.post(
            "chat/completions",
            {**self._build_request(prompt), "stream": False, **options},
            Chat,
        )

    def _read_log_probabilities(self, chat: Chat) -> list[ChatToken]:
        scores = chat.choices[0].logprobs
        if scores is None or scores.content is None:
            raise RefusedError(
                f"{self.location}: {self.client.base_url} returns no logprobs of a chat"
            )
        return scores.content

    def _build_request(self, prompt: ServedPrompt) -> ChatRequest:
        """Return the fields of a request whose chat is rendered to the prompt.

        Raises:
            UserError: No request gives this prompt.
        """
        # vLLM takes the prompt itself; another server takes messages, and renders them as the
        # model's template does.
        text = self.decode(prompt.ids)
        if self.takes_template:
            fields, rendered = self._build_unchanged(text, prompt.image), text
        else:
            turns = self._split_turns(text, bool(prompt.image))
            fields = self._build_messages(turns, prompt.image)
            rendered = self._render(turns, bool(prompt.image))
        # The server must get the tokens of the prompt, also where some of them are masked.
        has_start = bool(self.tokenizer.bos_token) and rendered.startswith(
            self.tokenizer.bos_token
        )
        if (
            self.tokenizer(rendered, add_special_tokens=not has_start)["input_ids"]
            != prompt.ids
        ):
            raise self._report_masked_tokens(text)
        if self.scoring == ECHO:
            fields["add_special_tokens"] = not has_start
        return fields

    def _report_masked_tokens(self, text: str) -> UserError:
        kind = "chat"
        further_advice = ", or start vLLM with --trust-request-chat-template"
        if self.takes_template:
            kind, further_advice = "text", ""
        return UserError(
            f"{self.location}: no {kind} has the tokens of the prompt {text[-40:]!r}, as the server takes texts and no"
            f" token ids; name a special token under masked_token{further_advice}"
        )

    def _build_unchanged(self, text: str, image: str) -> ChatRequest:
        """Return one message with the prompt itself, and a chat template that renders it unchanged."""
        parts = [_build_text(text)]
        if image:
            before, _, after = text.partition(self.placeholder)
            parts = [_build_text(before), _build_image(image), _build_text(after)]
        template = UNCHANGED % self.placeholder
        return {
            "messages": [{"role": "user", "content": parts}],
            "chat_template": template,
        }

    def _build_messages(self, turns: Sequence[str], image: str) -> ChatRequest:
        """Return the messages of turns; the last turn is the assistant's, and the server continues
        it.
        """
        messages: list[RequestMessage] = [
            {"role": turn.speaker, "content": turn.text}
            for turn in _build_turns(turns, False)
        ]
        # The first turn is the user's, and shows the image.
        if image:
            messages[0]["content"] = [_build_image(image), _build_text(turns[0])]
        if not turns[-1]:
            return {"messages": messages[:-1]}
        if not self.continues:
            raise UserError(
                f"{self.location}: the server begins a new turn where an answer is to be continued"
                f" ({turns[-1][-40:]!r}); let vLLM or llama.cpp serve the model"
            )
        return {
            "messages": messages,
            "add_generation_prompt": False,
            "continue_final_message": True,
        }

    def _render(self, texts: Sequence[str], has_image: bool) -> str:
        """Return the prompt to which the server renders turns, the last of which is the
        assistant's.
        """
        turns = _build_turns(texts, has_image)
        if not texts[-1]:
            return self.render_chat(turns[:-1])
        # The text before a sentinel is the chat up to the assistant's turn, as it stands within a
        # conversation.
        marked = self.render_chat(
            [
                *turns[:-1],
                ChatTurn("assistant", SENTINELS[0]),
                ChatTurn("user", SENTINELS[1]),
            ]
        )
        return marked.partition(SENTINELS[0])[0] + texts[-1]

    def _split_turns(self, text: str, has_image: bool) -> list[str]:
        """Return the texts of the turns of a prompt: the user's and the assistant's in turn.

        Raises:
            UserError: It does not begin with a user's turn as the chat template renders it.
        """
        # A chat of three known turns shows what the template puts before, between and behind turns.
        chat = self.render_chat(_build_turns(SENTINELS, has_image))
        before, _, chat = chat.partition(SENTINELS[0])
        to_assistant, _, chat = chat.partition(SENTINELS[1])
        to_user, _, opening = chat.partition(SENTINELS[2])
        before = before.removeprefix(self.tokenizer.bos_token or "")

        # Each part holds a user's turn and the assistant's reply; the last reply is the one to be
        # continued.
        body = text.removeprefix(before)
        *parts, last_part = body.split(to_user) if to_user else [body]
        exchanges = [part.partition(to_assistant) for part in parts]
        exchanges.append(last_part.partition(opening))
        has_all_replies = bool(opening) and all(
            separator for _, separator, _ in exchanges
        )
        if not (text.startswith(before) and has_all_replies):
            raise UserError(
                f"{self.location}: the prompt {shorten_value(repr(text))} is not a chat of a user and an assistant as"
                " the chat template of the model renders it, and its own template is all that the server takes; start"
                " vLLM with --trust-request-chat-template, or change the prompts"
            )
        turns = []
        for user, _, assistant in exchanges:
            turns.extend([user, assistant])
        return turns

    def _find_image(self, ids: Sequence[int]) -> int:
        """Return the position of the placeholder."""
        return list(ids).index(self.tokenizer.convert_tokens_to_ids(self.placeholder))


def _build_turns(texts: Sequence[str], has_image: bool) -> list[ChatTurn]:
    """Return turns of a user, who shows the image first, and an assistant."""
    speakers = ("user", "assistant")
    return [
        ChatTurn(speakers[index % 2], text, has_image and index == 0)
        for index, text in enumerate(texts)
    ]


def _build_text(text: str) -> MessagePart:
    return {"type": "text", "text": text}


def _build_image(image: str) -> MessagePart:
    return {"type": "image_url", "image_url": {"url": image}}
