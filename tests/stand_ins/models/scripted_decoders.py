"""Decoders whose every number and word is known: they read characters, and a script says what
follows a text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from types import SimpleNamespace

import torch

from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt, PromptLayout

START, PLACEHOLDER, BLOCK, VOCABULARY = 1, 2, 3, 256
IMAGE = "<image>"

GREEDY = SimpleNamespace(temperature=1.0, top_k=50, top_p=1.0, do_sample=False)
"""Generation settings of a checkpoint that does not sample."""

Script = Callable[[str], Mapping[str, float]]
"""From all text so far to logits of the characters that can follow; those of all others are 0."""


@dataclass
class ScriptedNetwork:
    """Stands for `network.Network`; keeps the texts that it read."""

    script: Script
    read_texts: list[str] = field(default_factory=list)
    model: object = field(
        default_factory=lambda: SimpleNamespace(generation_config=GREEDY)
    )

    def can_reuse(self, length):
        return False

    def can_pad(self, length):
        return True

    def embed(self, ids):
        return torch.zeros((*ids.shape, 1))

    def compute_logits(self, request):
        ids, last_count = request.ids, request.last_count
        logits = torch.zeros((len(ids), last_count, VOCABULARY))
        for row, line in enumerate(ids.tolist()):
            for step in range(last_count):
                text = spelt(line[: len(line) - last_count + step + 1])
                for character, logit in self.script(text).items():
                    logits[row, step, ord(character)] = logit
            self.read_texts.append(spelt(line))
        return logits, ()


@dataclass
class Scripted:
    """Stands for `decoder.Decoder`."""

    network: ScriptedNetwork
    says: Callable[[str, int], str] = lambda prompt, seed: ""
    spec: ModelSpec = field(
        default_factory=lambda: ModelSpec("scripted", weights="script", revision="0")
    )
    start: bool = True
    window: int = 2000
    device: str = "cpu"
    reads_images: bool = True
    tokenizer: object = None
    placeholder: str = IMAGE
    has_chat_template: bool = True
    masked_id: int = ord("_")
    ends: frozenset[int] = frozenset()
    positions_per_batch: int = 4096
    server: None = None

    def render_chat(self, turns):
        text = "\n".join(f"{IMAGE if turn.image else ''}{turn.text}" for turn in turns)
        return text if turns[-1].speaker == "assistant" else f"{text}\n"

    def build_prompt(self, text):
        before, image, after = text.partition(IMAGE)
        ids = [
            *([START] if self.start else []),
            *map(ord, before),
            *([PLACEHOLDER] if image else []),
            *map(ord, after),
        ]
        if len(ids) > self.window:
            raise UserError(
                f"a prompt of {len(ids)} tokens, 1 to {self.window} are read"
            )
        at = ids.index(PLACEHOLDER) if image else None
        widths = [
            0 if one == START else len(IMAGE) if one == PLACEHOLDER else 1
            for one in ids
        ]
        ends = list(accumulate(widths))
        spans = tuple(
            {"start": end - width, "end": end}
            for end, width in zip(ends, widths, strict=True)
        )
        return Prompt(
            text,
            tuple(ids),
            tuple(map(chr, ids)),
            spans,
            tuple(one < BLOCK for one in ids),
            at,
        )

    def prepare_image(self, image):
        return PreparedImage(torch.zeros(1, 3, 1, 1), {}, image)

    def encode_image(self, picture, pixels):
        return torch.zeros((len(pixels), 0, 1))

    def build_layout(self, prompt, picture):
        block = (BLOCK,) * (0 if picture is None else 4)
        return PromptLayout(
            block, (), torch.arange(len(prompt.ids) - bool(block) + len(block))
        )

    build_continuation = Decoder.build_continuation

    def find_label_id(self, prompt, label):
        return ord(label[0])

    def generate(
        self, prompts: Sequence[Prompt], images, most, sampling, seeds, min_tokens=0
    ):
        texts = [
            self.says(prompt.text, seed)
            for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        return [tuple(map(ord, text))[:most] for text in texts]

    def decode_text(self, ids, kept_position=None):
        return "".join(
            self.placeholder if one == PLACEHOLDER else chr(one)
            for one in ids
            if one != START and one not in self.ends
        )


def scripted(script: Script, **more) -> Scripted:
    return Scripted(ScriptedNetwork(script), **more)


def spelt(ids: Sequence[int]) -> str:
    return "".join(chr(one) for one in ids if one > BLOCK)
