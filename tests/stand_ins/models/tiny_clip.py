"""A tiny CLIP with random weights, saved as transformers saves one."""

from pathlib import Path

import torch
import transformers
from tokenizers.pre_tokenizers import ByteLevel

torch.set_num_threads(1)
START, END = "<|startoftext|>", "<|endoftext|>"
SENTENCES = """
a man woman dog cat rides sees holds the red blue big ball horse on in beside box there is no two
"""
WORDS = SENTENCES.split()


def save_clip(
    folder: Path,
    first: str = "!",
    side: int = 35,
    positions: int = 77,
    layers: int = 2,
    **tokens,
) -> Path:
    """Save network, tokenizer and image processor into a folder.

    Args:
        folder: Where to.
        first: The token of id 0.
        side: Side of the images that the network takes; patches are of 7 pixels.
        positions: Most tokens of a text.
        layers: Layers of each tower.
        tokens: Changes of the tokenizer's special tokens.
    """
    vocabulary, merges = [], []
    for letter in sorted(ByteLevel.alphabet()):
        vocabulary += [letter, f"{letter}</w>"]
    for word in WORDS:
        pieces = [*word[:-1], f"{word[-1]}</w>"]
        while len(pieces) > 1:
            if "".join(pieces[:2]) not in vocabulary:
                vocabulary.append("".join(pieces[:2]))
                merges.append(tuple(pieces[:2]))
            pieces[:2] = ["".join(pieces[:2])]
    vocabulary = [
        first,
        *(piece for piece in [*vocabulary, START, END] if piece != first),
    ]
    ids = {piece: place for place, piece in enumerate(vocabulary)}
    transformers.CLIPTokenizerFast(vocab=ids, merges=merges, **tokens).save_pretrained(
        folder
    )
    transformers.CLIPImageProcessorPil(
        size={"shortest_edge": side}, crop_size={"height": side, "width": side}
    ).save_pretrained(folder)
    network(ids[END], len(vocabulary), side, positions, layers).save_pretrained(folder)
    return folder


def network(
    end: int, size: int, side: int = 35, positions: int = 77, layers: int = 2
) -> transformers.CLIPModel:
    """The network alone; `end` is the id that it pools at."""
    common = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
    }
    torch.manual_seed(0)
    config = transformers.CLIPConfig(
        text_config={
            **common,
            "vocab_size": size,
            "max_position_embeddings": positions,
            "bos_token_id": end - 1,
            "eos_token_id": end,
        },
        vision_config={**common, "image_size": side, "patch_size": 7},
        projection_dim=24,
        initializer_factor=8.0,
    )
    return transformers.CLIPModel(config).eval()
