"""VL decoders behind a server: chat completions of OpenAI, with the image as a PNG file in a data url.

Servers render chats themselves. A prompt, rendered here, is therefore sent as the messages that give it, if there are
any; or, to vLLM, as it is, with a chat template that changes nothing. Its tokens are compared with those of the server
where that returns them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from waltz.core.errors import UserError
from waltz.models.decoders.decoder import Turn
from waltz.models.decoders.server import ECHO, FORCING_BIAS, LOWEST, TOP_TOKENS, RefusedError, ServedPrompt, Server
from waltz.models.decoders.server_replies import Chat, ChatToken, TakenToken

UNCHANGED = (
    "{%% for message in messages %%}{%% for part in message['content'] %%}"
    "{%% if part['type'] == 'text' %%}{{ part['text'] }}{%% else %%}{{ '%s' }}{%% endif %%}{%% endfor %%}{%% endfor %%}"
)
"""Chat template of vLLM that joins the parts of messages, with a placeholder for an image."""
SENTINELS = ("first words", "second words", "third words")
"""Texts of turns by which the text between turns is found."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ChatServer(Server):
    """A VL decoder at a server.

    Attributes:
        placeholder: Text that stands for the image in a prompt.
        render_chat: From turns to the prompt that the model's chat template makes of them; see `Decoder.render_chat`.
        takes_template: Whether prompts are sent as they are, with a chat template that changes nothing.
        continues: Whether the server goes on with an assistant's turn.
    """

    placeholder: str
    render_chat: Callable[[Sequence[Turn]], str] = field(repr=False)
    takes_template: bool = False
    continues: bool = False

    def describe_scoring(self) -> str:
        """Return in words which log-probabilities the server returns."""
        turns = "" if self.continues else "; a text only from the beginning of a turn"
        return super().describe_scoring() + turns + ("" if self.takes_template else "; with its own chat template")

    def count_tokens(self, prompt: ServedPrompt) -> int | None:
        """Return the number of tokens of a prompt at the server, those of the image included, if it says that."""
        usage = self._chat(prompt, max_tokens=1, temperature=0).usage
        return usage.prompt_tokens if usage else None

    def find_likeliest(self, prompt: ServedPrompt) -> dict[str, float]:
        """Return the log-probabilities of the likeliest tokens after a prompt, by their texts."""
        options = {"logprobs": True, "top_logprobs": TOP_TOKENS, "max_tokens": 1, "temperature": 0}
        tokens = self._read_log_probabilities(self._chat(prompt, **options))
        return {token.token: token.logprob for token in tokens[0].top_logprobs} if tokens else {}

    def _score_prompt(self, prompt: ServedPrompt) -> list[float]:
        """Return the log-probability of each token of a prompt; the first and the image have none.

        Raises:
            UserError: The server has other tokens than the prompt.
        """
        entries = self._chat(prompt, prompt_logprobs=0, max_tokens=1, temperature=0).prompt_logprobs
        if entries is None:
            raise RefusedError(f"{self.where}: {self.client.base_url} returns no prompt_logprobs of a chat")
        behind = len(prompt.ids) - 1 - self._find_image(prompt.ids) if prompt.image else 0
        split = len(prompt.ids) - behind
        at = dict(enumerate(entries[: split - bool(prompt.image)]))
        at |= dict(enumerate(entries[len(entries) - behind :], split)) if behind else {}
        values = [math.nan] * len(prompt.ids)
        for place, entry in at.items():
            token = prompt.ids[place]
            if entry is not None and token not in entry:
                raise self._report_tokens(prompt)
            values[place] = max(entry[token].logprob, LOWEST) if entry else math.nan
        if len(entries) < len(prompt.ids) or (not prompt.image and len(entries) > len(prompt.ids)):
            raise self._report_tokens(prompt)
        return values

    def _report_tokens(self, prompt: ServedPrompt) -> UserError:
        return UserError(
            f"{self.where}: the server has other tokens than the prompt {self.decode(prompt.ids)[-40:]!r}; check that"
            " it has the same tokenizer and chat template"
        )

    def _take(self, prompt: ServedPrompt, target: int, most: int) -> TakenToken | None:
        bias = {"logit_bias": [[target, FORCING_BIAS]], "logprobs": True, "top_logprobs": most}
        tokens = self._read_log_probabilities(self._chat(prompt, max_tokens=1, temperature=0, **bias))
        if not tokens:
            return None
        try:
            return TakenToken.model_validate(tokens[0].model_dump())
        except ValidationError:
            raise RefusedError(f"{self.where}: {self.client.base_url} returns no ids of tokens of a chat") from None

    def _continue(self, prompt: ServedPrompt, most: int, options: Mapping[str, Any]) -> tuple[list[int], bool]:
        if self.scoring == ECHO:
            options = {**options, "return_token_ids": True}
        (choice, *_) = self._chat(prompt, max_tokens=most, **options).choices
        text = choice.message.content or ""
        return self._read_tokens(text, choice.token_ids, most), choice.finish_reason == "stop"

    def _chat(self, prompt: ServedPrompt, **options: Any) -> Chat:
        return self.post("chat/completions", {**self._build_request(prompt), "stream": False, **options}, Chat)

    def _read_log_probabilities(self, chat: Chat) -> list[ChatToken]:
        scores = chat.choices[0].logprobs
        if scores is None or scores.content is None:
            raise RefusedError(f"{self.where}: {self.client.base_url} returns no logprobs of a chat")
        return scores.content

    def _build_request(self, prompt: ServedPrompt) -> dict[str, Any]:
        """Return the fields of a request whose chat is rendered to the prompt.

        Raises:
            UserError: There are none.
        """
        text = self.decode(prompt.ids)
        if self.takes_template:
            fields, rendered = self._build_unchanged(text, prompt.image), text
        else:
            turns = self._split_turns(text, bool(prompt.image))
            fields, rendered = self._build_messages(turns, prompt.image), self._render(turns, bool(prompt.image))
        has_start = bool(self.tokenizer.bos_token) and rendered.startswith(self.tokenizer.bos_token)
        if self.tokenizer(rendered, add_special_tokens=not has_start)["input_ids"] != prompt.ids:
            raise UserError(
                f"{self.where}: no {'text' if self.takes_template else 'chat'} has the tokens of the prompt"
                f" {text[-40:]!r}, as the server takes texts and no token ids; name a special token under masked_token"
                + ("" if self.takes_template else ", or start vLLM with --trust-request-chat-template")
            )
        return {**fields, "add_special_tokens": not has_start} if self.scoring == ECHO else fields

    def _build_unchanged(self, text: str, image: str) -> dict[str, Any]:
        before, _, after = text.partition(self.placeholder)
        parts = [_build_text(before), _build_image(image), _build_text(after)] if image else [_build_text(text)]
        template = UNCHANGED % self.placeholder
        return {"messages": [{"role": "user", "content": parts}], "chat_template": template}

    def _build_messages(self, turns: Sequence[str], image: str) -> dict[str, Any]:
        """Return the messages of turns; the last is the assistant's, and continued by the server."""
        messages: list[dict[str, Any]] = [
            {"role": turn.speaker, "content": turn.text} for turn in _build_turns(turns, False)
        ]
        if image:
            messages[0]["content"] = [_build_image(image), _build_text(turns[0])]
        if not turns[-1]:
            return {"messages": messages[:-1]}
        if not self.continues:
            raise UserError(
                f"{self.where}: the server begins a new turn where an answer is to be continued ({turns[-1][-40:]!r});"
                " let vLLM or llama.cpp serve the model"
            )
        return {"messages": messages, "add_generation_prompt": False, "continue_final_message": True}

    def _render(self, texts: Sequence[str], has_image: bool) -> str:
        """Return the prompt that the server makes of turns, the last of which is the assistant's."""
        turns = _build_turns(texts, has_image)
        if not texts[-1]:
            return self.render_chat(turns[:-1])
        marked = self.render_chat([*turns[:-1], Turn("assistant", SENTINELS[0]), Turn("user", SENTINELS[1])])
        return marked.partition(SENTINELS[0])[0] + texts[-1]

    def _split_turns(self, text: str, has_image: bool) -> list[str]:
        """Return the texts of the turns of a prompt: the user's and the assistant's in turn.

        Raises:
            UserError: It does not begin with a user's turn as the chat template renders it.
        """
        chat = self.render_chat(_build_turns(SENTINELS, has_image))
        before, _, chat = chat.partition(SENTINELS[0])
        to_assistant, _, chat = chat.partition(SENTINELS[1])
        to_user, _, opening = chat.partition(SENTINELS[2])
        before = before.removeprefix(self.tokenizer.bos_token or "")
        *pairs, last = text.removeprefix(before).split(to_user) if to_user else [text.removeprefix(before)]
        turns = [*(pair.partition(to_assistant) for pair in pairs), last.partition(opening)]
        if not text.startswith(before) or not opening or not all(mark for _, mark, _ in turns):
            raise UserError(
                f"{self.where}: the prompt {text[:40]!r}... is no chat of a user and an assistant as the chat template"
                " of the model renders it, and its own template is all that the server takes; start vLLM with"
                " --trust-request-chat-template, or change the prompts"
            )
        return [part for user, _, assistant in turns for part in (user, assistant)]

    def _find_image(self, ids: Sequence[int]) -> int:
        """Return the position of the placeholder."""
        return list(ids).index(self.tokenizer.convert_tokens_to_ids(self.placeholder))


def _build_turns(texts: Sequence[str], has_image: bool) -> list[Turn]:
    """Return turns of a user, who shows the image first, and an assistant."""
    speakers = ("user", "assistant")
    return [Turn(speakers[index % 2], text, has_image and index == 0) for index, text in enumerate(texts)]


def _build_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _build_image(image: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": image}}
