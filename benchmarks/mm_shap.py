"""MM-SHAP by this engine against one forward pass a coalition: same items, same permutations, one
run.

Usage: python benchmarks/mm_shap.py [--case speed|error|memory] [--shape clip|blip] [--permutations
N] [--threads N]
           [--texts 1|2] [--items NAME ...] [--device DEVICE] [--dtype float32|bfloat16] [--figure
           FILE] [--photo FILE --caption TEXT]

Networks have the shape of CLIP ViT-B/32 or BLIP base and random weights; the profile is
`published`.
speed   Seconds (wall and CPU) of either way, their ratio, and the largest difference of a Shapley value. The plain way
        passes each coalition through the whole network on its own, repeated ones again, as the released scripts do; its
        prepared image is masked on the device, which they do not spare. With --dtype, the values' largest difference
        from float32 relative to the largest value. One permutation instead of ten makes a BLIP item short.
error   Median relative error over ten seeds and median CPU seconds of estimators by budget, for the trained CLIP,
        matcher and decoder of the scenes, and with --photo for `photo-scorer`; how many times fewer coalitions (or
        passes) are as good as ten permutations; and a figure of error against seconds (--figure). Then, with the shape
        of ViT-B/32, the seconds of ten permutations one by one, and of as good a regression (--passes).
memory  Seconds and peak memory after one, two, four and eight times --permutations.
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import factorial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib.style
import numpy as np
import torch
import transformers
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from PIL import Image
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from waltz import fidelity
from waltz.attribution.mm_shap import attribute_texts, choose_outcome
from waltz.attribution.shapley.estimate import AttributionSettings, estimate_in_step
from waltz.attribution.shapley.estimators import begin_estimation
from waltz.attribution.shapley.late_fusion import compute_factorized
from waltz.core.jobs.devices import Device
from waltz.core.jobs.records import measure_peak_memory_mb
from waltz.model_registry import ModelSpec
from waltz.models.decoders import coalitions as decoder_coalitions
from waltz.models.decoders import load_decoder
from waltz.models.encoders import load_encoder
from waltz.models.encoders.coalitions import (
    EncoderCoalitions,
    EncoderPlayers,
    build_equations_players,
    build_published_players,
)
from waltz.models.games import CoalitionValues
from waltz.models.resolve_name import resolve_encoder
from waltz.reporting.figures.figure_files import STYLE, save_figure
from waltz.scenes.drawing import render_scene
from waltz.scenes.language.captions import draw_plain_caption
from waltz.scenes.sampling import draw_scenes

SCENES = Path(__file__).parents[1] / "resources" / "scenes" / "models"
CPU = Device("cpu", 1, "benchmark")
SEEDS = range(10)
ITEMS = {
    "zebras": ("there are no zebras .", "there are zebras ."),
    "kitchen": ("a cat sits on the table .", "a cat stands on the table ."),
    "bench": (
        "two people are sitting on a bench .",
        "two people are standing on a bench .",
    ),
    "tennis": (
        "a man in red throws a ball to the other player .",
        "a man in red throws a ball to no other player .",
    ),
}
"""Caption and foil; 6 to 14 tokens with start and end, grids of 3 and 4."""
CLASSES: dict[str, Any] = {
    "clip": transformers.CLIPModel,
    "blip": transformers.BlipForImageTextRetrieval,
}

PERMUTATIONS = (1, 2, 5, 10, 20, 40, 80)
"""Permutations whose errors are measured."""
PUBLISHED = 10
"""Permutations of the reference."""
LONG_TEXT = "There are two tractors and five rabbits outdoors at night."
"""Eleven tokens of the scenes' CLIP, so 16 patches: about the size of the published games."""
COLORS = {
    "permutation": "C3",
    "KernelSHAP": "C7",
    "regression": "C0",
    "factorised-regression": "C2",
}
Values = Callable[[list[np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True)
class Point:
    """One estimator with one budget: coalitions or passes, median relative error, median CPU
    seconds.
    """

    estimator: str
    requested: int
    error: float
    seconds: float


@dataclass(frozen=True)
class Curves:
    """Errors of the estimators of one network and text; seconds of exact values."""

    name: str
    points: Sequence[Point]
    exact_seconds: float


class Counted:
    """An encoder that counts the rows of each side."""

    def __init__(self, encoder: Any) -> None:
        """Count from 0."""
        self.encoder, self.image_count, self.text_count, self.pair_count = (
            encoder,
            0,
            0,
            0,
        )

    def __getattr__(self, name: str) -> Any:
        """What the encoder has."""
        return getattr(self.encoder, name)

    def encode_image(self, images: torch.Tensor) -> Any:
        """See and count."""
        self.image_count += len(images)
        return self.encoder.encode_image(images)

    def encode_text(self, ids: torch.Tensor) -> Any:
        """Read and count."""
        self.text_count += len(ids)
        return self.encoder.encode_text(ids)

    def fuse(self, text: Any, image: Any) -> torch.Tensor:
        """Fuse and count."""
        self.pair_count += len(text[0])
        logits: torch.Tensor = self.encoder.fuse(text, image)
        return logits


def build(shape: str, folder: Path) -> None:
    """Save a network of random weights with a tokenizer of the items' words."""
    words = sorted(
        {word for texts in ITEMS.values() for text in texts for word in text.split()}
    )
    numbers = {
        word: number
        for number, word in enumerate(["[PAD]", "[UNK]", "[START]", "[END]", *words])
    }
    core = Tokenizer(models.WordLevel(numbers, "[UNK]"))
    core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.post_processor = processors.TemplateProcessing(
        "[START] $A [END]", None, [("[START]", 2), ("[END]", 3)]
    )
    special = {
        "unk_token": "[UNK]",
        "pad_token": "[PAD]",
        "bos_token": "[START]",
        "eos_token": "[END]",
    }
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, **special
    ).save_pretrained(folder)
    torch.manual_seed(0)
    if shape == "clip":
        config: Any = transformers.CLIPConfig(
            text_config={"bos_token_id": 2, "eos_token_id": 3}
        )
        reader: Any = transformers.CLIPImageProcessorPil()
    else:
        config = transformers.BlipConfig(vision_config={"image_size": 384})
        reader = transformers.BlipImageProcessorPil()
    network = CLASSES[shape](config)
    # Fresh weights are so small that no token and no patch would count.
    with torch.no_grad():
        for weights in network.parameters():
            weights.mul_(2.0 if weights.ndim > 1 else 1.0)
    network.save_pretrained(folder)
    reader.save_pretrained(folder)


def loaded(shape: str, device: str, dtype: str) -> tuple[Any, Any]:
    """The encoder of a new folder, as the workflow loads it, and the plain network."""
    with TemporaryDirectory() as folder:
        build(shape, Path(folder))
        spec = ModelSpec(shape, shape, folder, "local", dtype)
        plain = (
            CLASSES[shape]
            .from_pretrained(folder, dtype=getattr(torch, dtype))
            .to(device)
            .eval()
        )
        return load_encoder(
            spec, Device(device, torch.get_num_threads(), "benchmark")
        ), plain


def picture() -> Image.Image:
    """A picture of colored noise, 640 by 480."""
    coarse = np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((640, 480), Image.Resampling.BICUBIC)


def one_by_one(
    network: Any, encoder: Any, image: torch.Tensor, game: EncoderPlayers
) -> Values:
    """Values by the whole network, a row a pass."""
    outcome = choose_outcome(encoder)

    @torch.inference_mode()
    def values(masks: list[np.ndarray]) -> list[np.ndarray]:
        results = []
        for row in masks[0]:
            ids = game.mask_text(row[None, : game.n_text_players]).to(encoder.device)
            output = network(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                pixel_values=game.mask_image(image, row[None, game.n_text_players :]),
            )
            if encoder.late:
                logit = output.logits_per_image[0].float()
            else:
                logit = (output.itm_score[:, 1] - output.itm_score[:, 0]).float()
            results.append(float(outcome(logit)[0]))
        return [np.array(results)[:, None]]

    return values


def timed(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it returns, wall seconds and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def settings(permutations: int, players: int, seed: int = 0) -> AttributionSettings:
    """The `published` profile with some permutations."""
    return AttributionSettings(
        fidelity.PUBLISHED, "permutation", permutations * (2 * players + 1), seed
    )


def plainly(network: Any, encoder: Any, text: str, permutations: int) -> np.ndarray:
    """Shapley values of a text by single passes."""
    image = encoder.prepare_image(picture())
    game = build_published_players(encoder, encoder.tokenize(text), image)
    asking = begin_estimation(
        "permutation", len(game), game.n_text_players, settings(permutations, len(game))
    )
    phi: np.ndarray = estimate_in_step(
        [asking], one_by_one(network, encoder, image, game)
    )[0].phi[:, 0]
    return phi


def speed(arguments: argparse.Namespace) -> None:
    """Both ways on each item's caption, then on caption and foil."""
    encoder, network = loaded(arguments.shape, arguments.device, arguments.dtype)
    precise = (
        loaded(arguments.shape, arguments.device, "float32")[0]
        if arguments.dtype != "float32"
        else None
    )
    image = encoder.prepare_image(picture())
    warm = build_published_players(encoder, encoder.tokenize("a cat"), image)
    one_by_one(network, encoder, image, warm)([np.ones((2, len(warm)), dtype=bool)])
    for name in arguments.items:
        before = os.getloadavg()[0]
        chosen = ITEMS[name][: arguments.texts]
        singles = [
            timed(partial(plainly, network, encoder, text, arguments.permutations))
            for text in chosen
        ]
        expected = [single[0] for single in singles]
        for number in range(1, arguments.texts + 1):
            texts, plain = chosen[:number], singles[:number]
            players = len(
                build_published_players(encoder, encoder.tokenize(texts[0]), image)
            )
            attribution_settings = settings(arguments.permutations, players)
            counted = Counted(encoder)
            attribution, wall, cpu = timed(
                partial(
                    attribute_texts, counted, picture(), texts, attribution_settings
                )
            )
            plain_wall, plain_cpu = (
                sum(one[1] for one in plain),
                sum(one[2] for one in plain),
            )
            difference = max(
                np.abs(one.estimate.phi[:, 0] - phi).max()
                for one, phi in zip(attribution, expected, strict=False)
            )
            largest = max(np.abs(one.estimate.phi).max() for one in attribution)
            print(
                f"{arguments.shape} {name}, {len(texts)} text(s) of {[len(one.tokens) for one in attribution]} tokens,"
                f" grid {attribution[0].grid}, {sum(one.estimate.requested for one in attribution)} coalitions of"
                f" {arguments.permutations} permutations: {counted.image_count} images, {counted.text_count} texts,"
                f" {counted.pair_count} pairs"
            )
            print(f"  one by one {plain_wall:7.1f} s wall {plain_cpu:7.1f} s CPU")
            print(f"  engine     {wall:7.1f} s wall {cpu:7.1f} s CPU")
            print(
                f"  ratio {plain_wall / wall:.2f} wall, {plain_cpu / cpu:.2f} CPU; largest value {largest:.2e},"
                f" largest difference {difference:.1e}; load {before:.1f}"
            )
            if precise is not None:
                exact = attribute_texts(precise, picture(), texts, attribution_settings)
                apart = max(
                    np.abs(one.estimate.phi - other.estimate.phi).max()
                    for one, other in zip(attribution, exact, strict=True)
                )
                print(
                    f"  {arguments.dtype}: largest difference from float32 {apart:.1e}"
                )
    print(
        f"peak memory {measure_peak_memory_mb()} MB, {torch.get_num_threads()} threads"
    )


def error(arguments: argparse.Namespace) -> None:
    """Errors of estimators with trained networks, and seconds of equally good ones with the shape
    of ViT-B/32.
    """
    scenes = draw_scenes(12, 7)
    pictures = [
        (render_scene(scene), draw_plain_caption(scene, Random(number)))
        for number, scene in enumerate(scenes)
    ]
    late: Any = load_encoder(
        ModelSpec("clip", "clip", str(SCENES / "clip"), "local", masked_token="[UNK]"),
        CPU,
    )
    # 15 and 16 players.
    curves = [
        compare_late_fusion("CLIP", late, *pictures[number]) for number in (1, 2, 9)
    ]
    curves.append(compare_late_fusion("CLIP", late, pictures[1][0], LONG_TEXT))
    if arguments.photo:
        scorer: Any = load_encoder(resolve_encoder("photo-scorer"), CPU)
        photo = Image.open(arguments.photo).convert("RGB")
        curves.append(
            compare_late_fusion("photo-scorer", scorer, photo, arguments.caption)
        )
    matcher: Any = load_encoder(
        ModelSpec("matcher", "blip", str(SCENES / "matcher"), "local"), CPU
    )
    for shown, caption in (pictures[9], pictures[1]):
        image = matcher.prepare_image(shown)
        game = build_equations_players(matcher, matcher.tokenize(caption), image)
        build_game = partial(
            EncoderCoalitions, matcher, image, [game], choose_outcome(matcher)
        )
        curves.append(
            compare_coalitions(
                f"BLIP's stand-in: {caption}", game.n_text_players, build_game
            )
        )
    spec = ModelSpec(
        "llava", "vision", str(SCENES / "llava"), "local", prompts="scenes.yaml"
    )
    decoder: Any = load_decoder(spec, CPU)
    shown, caption = pictures[9]
    picture_of_decoder = decoder.prepare_image(shown)
    prompt = decoder.build_prompt(f"<image> {caption}")
    words = [
        place
        for place, special in enumerate(prompt.special)
        if not special and place != prompt.image_position
    ]
    players = decoder_coalitions.build_equations_players(
        decoder, prompt, picture_of_decoder, positions=words[-6:], grid=3
    )
    played = decoder_coalitions.Game(
        players, (prompt.ids[words[-2]], prompt.ids[words[-1]]), "log-probability"
    )
    build_game = partial(
        decoder_coalitions.DecoderCoalitions, decoder, picture_of_decoder, [played]
    )
    curves.append(
        compare_coalitions(f"decoder: {caption}", players.n_text_players, build_game)
    )
    if arguments.figure:
        save_figure(draw_curves(curves), [arguments.figure])
    encoder, network = loaded("clip", arguments.device, arguments.dtype)
    image = encoder.prepare_image(picture())
    one_by_one(
        network,
        encoder,
        image,
        build_published_players(encoder, encoder.tokenize("a cat"), image),
    )([np.ones((2, 8), dtype=bool)])
    for name in arguments.items:
        text = ITEMS[name][0]
        game = build_published_players(encoder, encoder.tokenize(text), image)
        _, plain_wall, plain_cpu = timed(partial(plainly, network, encoder, text, 10))
        (estimate,), wall, cpu = timed(
            partial(compute_factorized, encoder, image, [game], arguments.passes)
        )
        print(
            f"CLIP's shape, {name}, {len(game)} players: {plain_wall:.1f} s wall {plain_cpu:.1f} s CPU one by one,"
            f" {wall:.2f} s wall {cpu:.2f} s CPU for {estimate.passes} passes; ratio {plain_wall / wall:.1f} wall,"
            f" {plain_cpu / cpu:.1f} CPU"
        )


def compare_late_fusion(
    kind: str, encoder: Any, shown: Image.Image, text: str
) -> Curves:
    """Print errors of permutations, whose coalitions count as two passes, and of regressions of
    each side.
    """
    image = encoder.prepare_image(shown)
    game = build_equations_players(encoder, encoder.tokenize(text), image)
    (exact,), _, exact_seconds = timed(
        partial(compute_factorized, encoder, image, [game])
    )
    truth = exact.estimate.phi
    print(
        f"{kind}: {text} {len(game)} players, exact values in {exact_seconds:.2f} s CPU"
    )

    def run(estimator: str, budget: int, seed: int) -> tuple[np.ndarray, int]:
        own_settings = AttributionSettings(fidelity.EQUATIONS, estimator, budget, seed)
        (attribution,) = attribute_texts(encoder, shown, [text], own_settings)
        return attribution.estimate.phi, attribution.estimate.requested

    points, least = measure_permutations(len(game), run, truth), 2 * len(game) + 4
    budgets = (*range(least, least + 32, 4), 100, 160)
    points += [
        report("factorised-regression", budget, run, truth) for budget in budgets
    ]
    _print_gains(points, "factorised-regression", 2)
    return Curves(f"{kind}: {text}", points, exact_seconds)


def compare_coalitions(
    name: str, words: int, build: Callable[[], CoalitionValues[Any]]
) -> Curves:
    """Print errors of estimators of any game by their coalitions."""
    table = build()
    players = len(table.players[0])
    numbers = np.arange(2**players)
    masks = (numbers[:, None] >> np.arange(players) & 1).astype(bool)
    (values,), _, exact_seconds = timed(partial(table.values, [masks]))
    sizes = masks.sum(axis=1)
    weights = np.array(
        [
            factorial(s) * factorial(players - s - 1) / factorial(players)
            for s in range(players)
        ]
    )
    truth = np.empty((players, values.shape[1]))
    for player in range(players):
        without = numbers[~masks[:, player]]
        truth[player] = weights[sizes[without]] @ (
            values[without | 1 << player] - values[without]
        )
    print(f"{name} {players} players, exact values in {exact_seconds:.2f} s CPU")

    def run(estimator: str, budget: int, seed: int) -> tuple[np.ndarray, int]:
        own_settings = AttributionSettings(fidelity.EQUATIONS, estimator, budget, seed)
        (estimate,) = estimate_in_step(
            [begin_estimation(estimator, players, words, own_settings)], build().values
        )
        return estimate.phi, estimate.requested

    points, walk = measure_permutations(players, run, truth), 2 * players + 1
    points += [
        report("KernelSHAP", budget, run, truth)
        for budget in (4 * players, 5 * walk, 10 * walk)
    ]
    points += [
        report("regression", walk + 1 + 16 * rounds, run, truth) for rounds in range(10)
    ]
    _print_gains(points, "regression", 1)
    return Curves(name, points, exact_seconds)


def measure_permutations(
    players: int,
    run: Callable[[str, int, int], tuple[np.ndarray, int]],
    truth: np.ndarray,
) -> list[Point]:
    """Print and return errors of some permutations, fewest first."""
    return [
        report("permutation", count * (2 * players + 1), run, truth)
        for count in PERMUTATIONS
    ]


def report(
    estimator: str,
    budget: int,
    run: Callable[[str, int, int], tuple[np.ndarray, int]],
    truth: np.ndarray,
) -> Point:
    """Print and return the median error of an estimator over seeds, its seconds, and what it
    requested.
    """
    errors, seconds, requested = [], [], 0
    for seed in SEEDS:
        (phi, requested), _, cpu = timed(partial(run, estimator, budget, seed))
        errors.append(_relative(phi, truth))
        seconds.append(cpu)
    point = Point(
        estimator, requested, float(np.median(errors)), float(np.median(seconds))
    )
    print(
        f"  {estimator} {requested}: median error {point.error:.3f}, {point.seconds:.3f} s CPU",
        flush=True,
    )
    return point


def _print_gains(points: Sequence[Point], estimator: str, passes: int) -> None:
    """Print how much less an estimator needs than permutations, each of whose coalitions counts as
    some passes.

    First to be as good as the published number of permutations; then at equal errors, that of the
    estimator's least evaluations as good as those. What permutations need for an error is read off
    the line between two measured numbers.
    """
    permutations = [point for point in points if point.estimator == "permutation"]
    published = permutations[PERMUTATIONS.index(PUBLISHED)]
    best = next(
        (
            one
            for one in points
            if one.estimator == estimator and one.error <= published.error
        ),
        None,
    )
    if best is None:
        return
    errors, coalitions, seconds = (
        np.log([getattr(one, name) for one in reversed(permutations)])
        for name in ("error", "requested", "seconds")
    )
    equal, cpu = (
        float(np.exp(np.interp(np.log(best.error), errors, values)))
        for values in (coalitions, seconds)
    )
    bound = "at least " if best.error < permutations[-1].error else ""
    print(
        f"  as good as {PUBLISHED} permutations: {passes * published.requested / best.requested:.1f} times fewer"
        f" evaluations, {published.seconds / best.seconds:.1f} times less CPU\n"
        f"  at an error of {best.error:.3f}, {equal:.0f} coalitions: {bound}{passes * equal / best.requested:.1f} times"
        f" fewer evaluations, {cpu / best.seconds:.1f} times less CPU"
    )


def draw_curves(curves: Sequence[Curves]) -> Figure:
    """Draw error against seconds for each network and text; a dotted line marks the seconds of
    exact values.
    """
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(9, 2.5 * -(-len(curves) // 3)), layout="constrained")
        panels = figure.subplots(-(-len(curves) // 3), 3, squeeze=False).ravel()
        for panel in panels[len(curves) :]:
            panel.set_visible(False)
        for panel, case in zip(panels, curves, strict=False):
            for name, color in COLORS.items():
                points = [point for point in case.points if point.estimator == name]
                seconds, errors = (
                    [point.seconds for point in points],
                    [point.error for point in points],
                )
                panel.plot(seconds, errors, marker=".", color=color, label=name)
            panel.axvline(
                case.exact_seconds, color="0.6", linestyle=":", label="exact values"
            )
            panel.set(
                xscale="log",
                yscale="log",
                xlabel="CPU seconds",
                ylabel="relative error",
            )
            panel.xaxis.set_minor_formatter(NullFormatter())
            panel.set_title(case.name, fontsize=7)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5)
    return figure


def memory(arguments: argparse.Namespace) -> None:
    """Cost and peak memory as the budget grows."""
    encoder, _ = loaded(arguments.shape, arguments.device, arguments.dtype)
    text = ITEMS[arguments.items[-1]][0]
    players = len(
        build_published_players(
            encoder, encoder.tokenize(text), encoder.prepare_image(picture())
        )
    )
    for times in (1, 2, 4, 8):
        attribution_settings = settings(times * arguments.permutations, players)
        (attribution,), wall, cpu = timed(
            partial(attribute_texts, encoder, picture(), [text], attribution_settings)
        )
        print(
            f"{attribution.requested} coalitions, {attribution.evaluated} distinct: {wall:.1f} s wall, {cpu:.1f} s CPU,"
            f" peak {measure_peak_memory_mb()} MB"
        )


def _relative(values: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(values - truth) / np.linalg.norm(truth))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", choices=["speed", "error", "memory"], default="speed")
    parser.add_argument("--shape", choices=list(CLASSES), default="clip")
    parser.add_argument("--permutations", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--items", nargs="+", choices=list(ITEMS), default=["kitchen", "bench"]
    )
    parser.add_argument(
        "--texts", type=int, choices=[1, 2], default=2, help="1: captions alone"
    )
    parser.add_argument(
        "--passes",
        type=int,
        default=50,
        help="encoder passes of a regression, for --case error",
    )
    parser.add_argument(
        "--figure", type=Path, help="figure of --case error, .svg or .png"
    )
    parser.add_argument(
        "--photo", type=Path, help="photo for photo-scorer, for --case error"
    )
    parser.add_argument("--caption", default="", help="its caption")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    transformers.utils.logging.set_verbosity_error()
    {"speed": speed, "error": error, "memory": memory}[arguments.case](arguments)


if __name__ == "__main__":
    main()
