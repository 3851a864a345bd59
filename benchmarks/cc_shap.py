"""CC-SHAP of a decoder: waltz against the published pattern, and against one row at a time.

    python benchmarks/cc_shap.py [--coalitions N] [--rows N] [--threads N] [--prompt N] [--new N]

One network of random weights: a language model of the shape of SmolLM2-135M (30 layers of width
576, 49,152 tokens) behind a small image tower of 576 positions, a prompt of 75 tokens, 100 new
tokens. Coalitions are a stretch of one permutation and as many of its reverse, players in turn from
text and image in proportion, as in a whole explanation. The patterns compared with are timed on
some of the very coalitions that waltz computes. The whole permutation there and back has more
coalitions to a masked image than a stretch of it: waltz's seconds for all are scaled by the
positions that pass its network, counted by a run without one, the others' by the number of
coalitions.

(a) The published code, one explanation: a whole greedy `generate` for each coalition, of which the
logits of the first
    step are cached. As in its prompts, a start token and three lone blanks play but are never
    masked.
(b) Teacher-forced, one item: its answer (1 token) and its explanation (the new tokens, after a
question of 12 tokens
    more), whose players are the tokens of the prompt that both share. Each coalition of each is one
    whole row.

Both sides work on prepared images. Prints seconds by the clock, ratios by the clock and by the
seconds of the processor (which other work on the machine disturbs less, but which count idle turns
of threads), and the largest difference.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))

import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from waltz.model_registry import ModelSpec
from waltz.models.decoders import coalitions, vision_language_model, vision_loading
from waltz.models.decoders.coalitions import DecoderCoalitions, Game
from waltz.models.decoders.continuations import FIRST_STEP
from waltz.models.decoders.decoder import PreparedImage
from waltz.models.decoders.network import Network

SIDE, PATCH = 336, 14
OneRow = Callable[
    [vision_language_model.VisionLanguageModel, PreparedImage, Game, np.ndarray],
    np.ndarray,
]


SMOLLM2 = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
}


def decoder(
    sizes: Mapping[str, int] = SMOLLM2,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> vision_language_model.VisionLanguageModel:
    """The network, its image tower of two narrow layers, and a tokenizer of numbered words."""
    torch.manual_seed(0)
    words = {"<unk>": 0, "</s>": 1, "<image>": 2, "_": 3} | {
        f"w{number}": number for number in range(4, 49152)
    }
    core = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.add_special_tokens(["<unk>", "</s>", "<image>"])
    extra = {"image_token": "<image>"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="<unk>",
        eos_token="</s>",
        pad_token="</s>",
        extra_special_tokens=extra,
    )
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            image_size=SIDE,
            patch_size=PATCH,
        ),
        text_config=transformers.LlamaConfig(
            vocab_size=49152,
            **sizes,
            max_position_embeddings=8192,
            tie_word_embeddings=True,
            eos_token_id=1,
            pad_token_id=1,
        ),
        image_token_index=2,
        tie_word_embeddings=True,
    )
    images = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": SIDE},
        crop_size={"height": SIDE, "width": SIDE},
        do_center_crop=True,
    )
    processor = transformers.LlavaProcessor(
        images,
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    with torch.device(device):
        network = transformers.AutoModelForImageTextToText.from_config(
            config, dtype=dtype
        )
    return vision_loading.wrap_vision_language_model(
        ModelSpec("bench", weights="random", revision="local"),
        network,
        processor,
        device,
    )


@dataclass(frozen=True)
class Counting(Network):
    """A network that computes nothing, to count its inputs."""

    def compute_logits(self, request):
        """Return zeros in the requested shapes."""
        rows = len(request.ids)
        states = torch.zeros(rows, 1, 1, 1)
        return torch.zeros(rows, request.last_count, 256), ((states, states),)


def permutation(words: int, patches: int, image_first: bool, seed: int) -> np.ndarray:
    """Coalitions of one permutation and of its reverse: bool of shape (2 x players + 1, players)."""
    draws = np.random.default_rng(seed)
    texts, images = draws.permutation(words), draws.permutation(patches)
    if image_first:
        texts = texts + patches
    else:
        images = images + words
    places = np.concatenate(
        [(np.arange(words) + 0.5) / words, (np.arange(patches) + 0.5) / patches]
    )
    order = np.concatenate([texts, images])[places.argsort(kind="stable")]
    forward = np.zeros((len(order) + 1, len(order)), dtype=bool)
    for step, player in enumerate(order):
        forward[step + 1 :, player] = True
    return np.concatenate([forward, ~forward[1:]])


def timed(work: Callable[[], list[np.ndarray]]) -> tuple[list[np.ndarray], np.ndarray]:
    """What some work gives, and its seconds by the clock and of the processor."""
    begin = np.array([time.perf_counter(), time.process_time()])
    return work(), np.array([time.perf_counter(), time.process_time()]) - begin


def inputs(
    model: vision_language_model.VisionLanguageModel,
    picture: PreparedImage,
    played: coalitions.DecoderPlayers,
    mask: np.ndarray,
    behind: list[int],
) -> dict:
    """One coalition as the network's own forward pass takes it, with tokens behind the prompt."""
    shown = mask | played.always_visible
    block = model.build_layout(played.prompt, picture).block
    row = torch.tensor([[*block, *played.mask_text(shown[played.text])[1:], *behind]])
    pixels = played.mask_image(model, picture, shown[None, played.image])[0]
    return {
        "input_ids": row,
        "attention_mask": torch.ones_like(row),
        "pixel_values": pixels,
    }


def generate(
    model: vision_language_model.VisionLanguageModel,
    picture: PreparedImage,
    game: Game,
    mask: np.ndarray,
) -> np.ndarray:
    """The published pattern: a whole answer, of which the first step counts."""
    new = len(game.targets)
    settings = {
        "do_sample": False,
        "output_logits": True,
        "return_dict_in_generate": True,
        "min_new_tokens": new,
    }
    given = inputs(model, picture, game.players, mask, [])
    generated = model.network.model.generate(**given, max_new_tokens=new, **settings)
    return generated.logits[0][0, list(game.targets)].double().numpy()


def complete_row(
    model: vision_language_model.VisionLanguageModel,
    picture: PreparedImage,
    game: Game,
    mask: np.ndarray,
) -> np.ndarray:
    """One teacher-forced row, logits of its last positions only."""
    new = len(game.targets)
    given = inputs(model, picture, game.players, mask, list(game.targets[:-1]))
    logits = model.network.model(**given, use_cache=False, logits_to_keep=new).logits[0]
    return (
        torch.log_softmax(logits, dim=-1)[torch.arange(new), list(game.targets)]
        .double()
        .numpy()
    )


@torch.inference_mode()
def measure(
    name: str,
    model: vision_language_model.VisionLanguageModel,
    picture: PreparedImage,
    games: list[Game],
    most: int,
    rows: int,
    one: OneRow,
) -> None:
    """Time both ways on one set of coalitions, and print."""
    played = games[0].players
    coalition_rows = permutation(
        played.n_text_players, played.n_image_players, played.image_first, seed=1
    )
    first = (len(played) - most // 2) // 2
    places = [
        *range(first, first + most // 2),
        *range(first + len(played) + 1, first + len(played) + 1 + most // 2),
    ]
    selected = coalition_rows[places]
    table = DecoderCoalitions(model, picture, games)
    values, ours = timed(lambda: table.values([selected] * len(games)))
    dry = replace(model, network=Counting(**vars(model.network)))
    counted = DecoderCoalitions(dry, picture, games)
    counted.values([coalition_rows] * len(games))
    ours_total = ours * counted.position_count / table.position_count
    chosen = np.linspace(0, len(selected) - 1, rows).round().astype(int)
    expected, theirs = timed(
        lambda: [
            np.stack([one(model, picture, game, selected[place]) for place in chosen])
            for game in games
        ]
    )
    theirs_total = theirs / rows * len(coalition_rows)
    difference = max(
        np.abs(mine[chosen] - plain).max()
        for mine, plain in zip(values, expected, strict=True)
    )
    ratio = theirs_total / ours_total
    lengths = ", ".join(
        f"{len(game.players.prompt.ids)} + {len(game.targets)}" for game in games
    )
    print(
        f"{name}: {played.n_text_players} tokens and {played.n_image_players} patches play; prompt + new tokens"
        f" {lengths}"
    )
    print(
        f"  waltz          {ours[0]:6.1f} s for {len(selected)} coalitions, {table.image_count} masked images"
    )
    print(
        f"                 {ours_total[0]:6.0f} s for all {len(coalition_rows)}, {counted.image_count} masked images"
    )
    print(
        f"  one at a time  {theirs[0]:6.1f} s for {rows} coalitions, {theirs_total[0]:.0f} s for all"
    )
    print(
        f"  ratio {ratio[0]:.1f} by the clock, {ratio[1]:.1f} by the processor, largest difference {difference:.1e}",
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--coalitions", type=int, default=24, help="coalitions that waltz computes"
    )
    parser.add_argument(
        "--rows", type=int, default=2, help="coalitions of the patterns compared with"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--prompt",
        type=int,
        default=75,
        help="tokens of the prompt, its placeholder one of them",
    )
    parser.add_argument("--new", type=int, default=100, help="new tokens")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    model = decoder()
    words = [f"w{4 + 17 * place}" for place in range(given.prompt + 11)]
    answer, longer = (
        model.build_prompt("<image> " + " ".join(words[:size]))
        for size in (given.prompt - 1, given.prompt + 11)
    )
    picture = model.prepare_image(Image.effect_noise((SIDE, SIDE), 80).convert("RGB"))
    new = tuple(range(100, 100 + given.new))
    never = [answer.ids[place] for place in (1, 9, 27, 45) if place < len(answer.ids)]
    first = [
        Game(
            coalitions.build_published_players(
                model, answer, picture, unmasked_ids=never
            ),
            new,
            FIRST_STEP,
        )
    ]
    measure(
        "(a) published, an explanation",
        model,
        picture,
        first,
        given.coalitions,
        given.rows,
        generate,
    )
    shared = range(1, len(answer.ids))
    games = [
        Game(
            coalitions.build_equations_players(
                model, prompt, picture, positions=shared
            ),
            targets,
            "log-probability",
        )
        for prompt, targets in ((answer, new[:1]), (longer, new))
    ]
    measure(
        "(b) teacher-forced, an item",
        model,
        picture,
        games,
        given.coalitions,
        given.rows,
        complete_row,
    )


if __name__ == "__main__":
    main()
