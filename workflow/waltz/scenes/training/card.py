"""The card that stands beside a scene model."""

from collections.abc import Mapping

from waltz.core.intervals import Measure
from waltz.scenes.training import STARTS
from waltz.scenes.training.recipes import RECIPES
from waltz.scenes.training.scores import is_sufficient


def render_card(
    name: str, architecture: str, parameters: int, seconds: float, scores: Mapping[str, Measure], seed: int
) -> str:
    """Markdown: what the model is, how it was made, and what it can do on scenes that it has not seen.

    Args:
        name: One of the scene models.
        architecture: Its transformers class.
        parameters: Number of its parameters.
        seconds: CPU time of the training; 0 where it is not known.
        scores: Its scores on held-out scenes.
        seed: Seed of these scenes.
    """
    recipe = RECIPES[name]
    lines = [
        f"# {name}",
        "",
        f"{architecture}, {parameters:,} parameters, half precision; stands for {recipe.role}.",
        "",
        "- "
        + (f"goes on from `{STARTS[name]}`; " if name in STARTS else "")
        + f"trained on {recipe.scenes:,} drawn scenes of seed "
        f"{recipe.seed}, {recipe.steps:,} steps" + (f"; {seconds / 60:.1f} minutes of one CPU core" if seconds else ""),
        "- made by `snakemake scene_models --cores 2 --config study=scenes`; licence MIT",
        "- knows the world of the scenes, and nothing else",
        "",
        f"Held-out scenes (seed {seed}):",
        "",
        "| score | value | n | enough |",
        "|---|---|---|---|",
    ]
    for metric, found in scores.items():
        assert found.value is not None
        enough = {True: "yes", False: "no", None: ""}[is_sufficient(name, metric, found.value)]
        lines.append(f"| {metric} | {found.value:.3f} | {found.n} | {enough} |")
    return "\n".join(lines) + "\n"
