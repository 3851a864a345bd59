"""Record the values of all coalitions of games of the scenes' networks.

Usage: python benchmarks/record_games.py FOLDER [--pictures N]

Writes one .npz file for each game of the matcher, of the decoder, and of CLIP that has at most
`MAX_PLAYERS` players, with `values` (2^players, outputs), whose row k is the coalition of the players at
the bits of k, text first, and `text_players`. `benchmarks/estimators.py` reads them.
"""

import argparse
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image

from waltz.attribution.mm_shap import choose_outcome
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.decoders import coalitions as decoder_coalitions
from waltz.models.decoders import load_decoder
from waltz.models.encoders import load_encoder
from waltz.models.encoders.coalitions import EncoderCoalitions, build_equations_players
from waltz.models.games import CoalitionValues
from waltz.scenes.drawing import render_scene
from waltz.scenes.language.captions import draw_plain_caption
from waltz.scenes.sampling import draw_scenes

MODELS = Path(__file__).parents[1] / "resources" / "scenes" / "models"
CPU = Device("cpu", 1, "benchmark")
MAX_PLAYERS = 16
DECODER_WORDS = 6
"""Number of words of a decoder's prompt, the last ones, that play."""
DECODER_GRID = 3


def draw_pictures(count: int) -> list[tuple[Image.Image, str]]:
    """Return pictures of scenes, each with a caption."""
    return [
        (render_scene(scene), draw_plain_caption(scene, Random(number)))
        for number, scene in enumerate(draw_scenes(count, 7))
    ]


def load_scenes_encoder(family: str, name: str, **options: Any) -> Any:
    """Return an encoder of the scenes."""
    spec = ModelSpec(name, family, str(MODELS / name), "local", **options)
    return load_encoder(spec, CPU)


def load_scenes_decoder() -> Any:
    """Return the vision-and-language decoder of the scenes."""
    spec = ModelSpec(
        "llava", "vision", str(MODELS / "llava"), "local", prompts="scenes.yaml"
    )
    return load_decoder(spec, CPU)


def build_encoder_game(
    encoder: Any, picture: Image.Image, caption: str
) -> tuple[CoalitionValues[Any], int]:
    """Return the game of an encoder's score, and the number of text players."""
    image = encoder.prepare_image(picture)
    players = build_equations_players(encoder, encoder.tokenize(caption), image)
    outcome = choose_outcome(encoder)
    return EncoderCoalitions(encoder, image, [players], outcome), players.n_text_players


def build_decoder_game(
    decoder: Any, picture: Image.Image, caption: str
) -> tuple[CoalitionValues[Any], int]:
    """Return the game of the log-probabilities of a caption's last two tokens, and the number of text
    players.
    """
    image = decoder.prepare_image(picture)
    prompt = decoder.build_prompt(f"<image> {caption}")
    words = [
        position
        for position, is_special in enumerate(prompt.special)
        if not is_special and position != prompt.image_position
    ]
    players = decoder_coalitions.build_equations_players(
        decoder, prompt, image, positions=words[-DECODER_WORDS:], grid=DECODER_GRID
    )
    targets = (prompt.ids[words[-2]], prompt.ids[words[-1]])
    game = decoder_coalitions.Game(players, targets, "log-probability")
    table = decoder_coalitions.DecoderCoalitions(decoder, image, [game])
    return table, players.n_text_players


def list_coalitions(players: int) -> np.ndarray:
    """Return all coalitions: bool of shape (2^players, players), row k the bits of k."""
    numbers = np.arange(2**players)
    coalitions: np.ndarray = (numbers[:, None] >> np.arange(players) & 1).astype(bool)
    return coalitions


def record(path: Path, table: CoalitionValues[Any], text_players: int) -> None:
    """Write the values of all coalitions of a game that is not too large."""
    players = len(table.players[0])
    if players > MAX_PLAYERS or path.exists():
        return
    (values,) = table.values([list_coalitions(players)])
    np.savez(path, values=values, text_players=text_players)
    print(f"{path.name}: {players} players, {values.shape[1]} outputs", flush=True)


def main() -> None:
    """Record the games."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pictures", type=int, default=12)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    pictures = draw_pictures(arguments.pictures)
    clip = load_scenes_encoder("clip", "clip", masked_token="[UNK]")
    matcher = load_scenes_encoder("blip", "matcher")
    decoder = load_scenes_decoder()
    for number, (picture, caption) in enumerate(pictures):
        for name, build, network in (
            ("decoder", build_decoder_game, decoder),
            ("matcher", build_encoder_game, matcher),
            ("clip", build_encoder_game, clip),
        ):
            path = arguments.folder / f"{name}-{number}.npz"
            record(path, *build(network, picture, caption))


if __name__ == "__main__":
    main()
