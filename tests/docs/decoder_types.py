"""The table of decoder types in docs/explanation/decoders.md: how waltz reads a tiny random network
of each type of `AutoModelForImageTextToText`, and whether its values are those of enumeration.

Run `python tests/docs/decoder_types.py TYPE ...` after the reading of decoders changed or
transformers was updated; without types all networks are read anew, which needs torchvision and
timm. The decisions are recorded in decoder_types.csv.
"""

import csv
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from PIL import Image
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

sys.path.insert(0, str(Path(__file__).parents[1]))

from stand_ins.models import tiny_decoder_types
from stand_ins.models.enumeration import enumerate_shapley
from waltz.attribution.prompt_attribution import (
    PromptGame,
    PromptSettings,
    attribute_prompts,
)
from waltz.core.errors import UserError
from waltz.fidelity import EQUATIONS
from waltz.model_registry import ModelSpec
from waltz.models.decoders.vision_loading import wrap_vision_language_model

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "decoders.md"
RECORD = Path(__file__).with_suffix(".csv")
START, END = "<!-- decoder types -->", "<!-- end of decoder types -->"
REFUSED, NOT_TRIED = "refused", "not tried"
TARGETS = (70, 41)
TOLERANCE = 2e-4
"""Largest difference of a Shapley value from enumeration, in logits, that counts as equal."""
REFUSED_REASONS = {
    "evolla": "reads proteins, not images",
    "instructblipvideo": "reads videos of 4 frames, not images",
    "pi0": "predicts movements of a robot, not text",
    "udop": "reads the words of a page with their boxes, which an OCR finds, not a prompt",
}
"""Why there is nothing to explain in types that do not answer with text about an image."""


class Row(NamedTuple):
    """A row of the table: how a type is read, and why not in a faster way or not at all."""

    model_type: str
    class_name: str
    path: str
    reason: str


def draw_photo() -> Image.Image:
    """Return an image whose pixels are all different."""
    levels = np.random.default_rng(0).integers(0, 255, (60, 44, 3), dtype=np.uint8)
    return Image.fromarray(levels)


def decide(model_type: str, network: Any, processor: Any) -> Row:
    """Return the row of a type, after its Shapley values were compared with enumeration.

    Raises:
        ValueError: They differ.
    """
    class_name = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES[model_type]
    assert type(network).__name__ == class_name
    spec = ModelSpec(model_type, weights="tiny", revision="local")
    try:
        decoder = wrap_vision_language_model(spec, network, processor, "cpu")
    except UserError as error:
        return Row(model_type, class_name, REFUSED, shorten(str(error), model_type))
    check_values(decoder)
    reason = shorten(decoder.forward_pass_reason, model_type)
    return Row(model_type, class_name, decoder.forward_pass, reason)


def shorten(reason: str, model_type: str) -> str:
    """Return a reason without the name of the model, advice and measured differences."""
    reason = reason.removeprefix(f"models.{model_type}: ")
    reason = re.sub(rf"^{re.escape(model_type)}:? ", "", reason)
    reason = re.sub(r"^the processor of \S+", "its processor", reason)
    for end in ("; ", " (cache: ", ". "):
        reason = reason.partition(end)[0]
    return re.sub(r"logits differ by .*", "logits differ", reason).replace("|", "\\|")


def check_values(decoder: Any) -> None:
    """Raise a ValueError if the Shapley values of a prompt differ from those of enumeration."""
    image, text = draw_photo(), f"{decoder.placeholder} this dog"
    settings = PromptSettings(EQUATIONS, evaluations=4096, value="logit")
    games = [PromptGame(text, "", TARGETS)]
    picture = decoder.prepare_image(image)
    (attribution,) = attribute_prompts(decoder, picture, games, settings)
    assert attribution.estimate.exact
    expected = enumerate_shapley(decoder, text, image, TARGETS, attribution.players)
    difference = np.abs(attribution.estimate.phi - expected).max()
    if not difference < TOLERANCE or not np.abs(expected).max(axis=1).min() > TOLERANCE:
        raise ValueError(f"values differ by {difference}, from {expected.tolist()}")


def read_record() -> dict[str, Row]:
    """Return the recorded rows by type."""
    with RECORD.open(encoding="utf-8", newline="") as file:
        rows = [Row(**fields) for fields in csv.DictReader(file)]
    return {row.model_type: row for row in rows}


def write_record(rows: Mapping[str, Row]) -> None:
    """Write one row for each type of transformers, those without a network as not tried or refused."""
    with RECORD.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row._fields)
        for (
            model_type,
            class_name,
        ) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.items():
            path = REFUSED if model_type in REFUSED_REASONS else NOT_TRIED
            reason = REFUSED_REASONS.get(model_type, "no tiny network was built")
            untried = Row(model_type, class_name, path, reason)
            writer.writerow(rows.get(model_type, untried))


def summarize() -> str:
    """Return how many types are right, refused and not tried, as the README says it."""
    paths = [row.path for row in read_record().values()]
    refused, untried = paths.count(REFUSED), paths.count(NOT_TRIED)
    right = len(paths) - refused - untried
    return (
        f"{right} of {len(paths)} types right, {refused} refused, {untried} not tried"
    )


def render_table() -> Iterator[str]:
    """Yield the lines of the table as Markdown."""
    yield f"Types of transformers {transformers.__version__} ({summarize()}):\n"
    yield "| type | class | read | why not faster, or not at all |\n|---|---|---|---|"
    for row in read_record().values():
        reason = row.reason.replace("<", "&lt;")
        yield f"| `{row.model_type}` | `{row.class_name}` | {row.path} | {reason} |"


def replace_table(page: str) -> str:
    """Return the page with a new table between its two markers."""
    head, _, rest = page.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}\n" + "\n".join(render_table()) + f"\n{END}{tail}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    model_types = sys.argv[1:] or tuple(tiny_decoder_types.TYPES)
    rows = read_record() if sys.argv[1:] else {}
    for model_type in model_types:
        rows[model_type] = decide(model_type, *tiny_decoder_types.build(model_type))
        print(*rows[model_type], sep=" | ", flush=True)
    write_record(rows)
    PAGE.write_text(replace_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
