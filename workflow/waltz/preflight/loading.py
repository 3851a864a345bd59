"""Models without values: loaded from a skeleton by their own loaders, which render a prompt of each profile."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import transformers
from PIL import Image

from waltz.consistency.cc_shap.dialogue import POST_HOC, PROMPT_KINDS
from waltz.consistency.cc_shap.measure import find_shared_players
from waltz.consistency.cc_shap.pair_attribution import count_suffix_players
from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.evaluation.decoder_tasks import build_template
from waltz.evaluation.prompting.prompts import render_prompt
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import get_fidelity
from waltz.model_registry import (
    DECODER_KINDS,
    ModelSpec,
)
from waltz.models.decoders import load_decoder
from waltz.models.decoders.decoder import Decoder
from waltz.models.encoders import load_encoder
from waltz.models.pretrained import META
from waltz.models.regions import DETECTOR_LOADERS
from waltz.models.text.classifier import load_classifier
from waltz.models.text.masked import load_masked_model

SENTENCES = ("There are two dogs on the grass.", "There are six dogs on the grass.")
"""A caption and a foil."""
IMAGE_SIZE = (640, 480)
WITHOUT_VALUES = Device(META, 1, "no weights are loaded")
ANSWERS = "answers.json"
"""List of answers next to a skeleton, as long as its head needs."""


def check_model(spec: ModelSpec, skeleton: Path, profiles: Sequence[str]) -> str:
    """Load a model without values and let it read a text, and return what was seen.

    Args:
        spec: Its entry.
        skeleton: A folder that `write_skeleton` wrote, or a checkpoint file without values.
        profiles: Profiles whose prompts a decoder renders; none for one that only scores texts.
    Raises:
        UserError: Its tokenizer, processor or config cannot be loaded, a key of its weights is missing or unexpected or
            has another shape, or a prompt cannot be rendered.
    """
    local = replace(
        spec, weights=str(skeleton), revision="local", detector="", four_bit=False, device_map="", unpack=""
    )
    transformers.utils.logging.set_verbosity_error()  # it prints each list of keys, which is judged here
    if spec.kind in DETECTOR_LOADERS:
        DETECTOR_LOADERS[spec.kind](skeleton, None, spec.allow_missing)
        return "keys and shapes fit"
    if spec.kind in DECODER_KINDS:
        decoder = replace(load_decoder(local, WITHOUT_VALUES), device="cpu")
        decoder.build_prompt(SENTENCES[0])
        prompts = [_render_prompts(decoder, profile) for profile in profiles]
        return f"keys and shapes fit; {' and '.join(prompts) or 'it reads a text'}"
    if spec.kind == "masked":
        load_masked_model(local, WITHOUT_VALUES).tokenize(SENTENCES[0])
    elif spec.kind == "classifier":
        load_classifier(local, WITHOUT_VALUES).tokenizer(SENTENCES[0])
    else:
        folder = skeleton if skeleton.is_dir() else skeleton.parent
        with_inputs = replace(
            local, regions=str(folder), masks="", answers=str(_write_answers(folder)) if spec.answers else ""
        )
        encoder = load_encoder(with_inputs, WITHOUT_VALUES)
        encoder.tokenize(SENTENCES[0])
    return "keys and shapes fit; it reads a text"


def _render_prompts(decoder: Decoder, profile: str) -> str:
    """Return how many tokens a prompt of a profile has, after its pair of CC-SHAP was compared."""
    question = _build_question(decoder.reads_images)
    template = build_template(decoder, profile)
    prompts = [render_prompt(kind, question, template, {"answer": "A"}) for kind in PROMPT_KINDS[POST_HOC]]
    answer, explanation = (decoder.build_prompt(prompt.text) for prompt in prompts)
    if get_fidelity(profile).shared_players != "prefix":
        suffixes = [count_suffix_players(decoder, prompt.counted_suffix, template.suffix_rule) for prompt in prompts]
        shared = find_shared_players(answer.ids, explanation.ids, (suffixes[0], suffixes[1]), get_fidelity(profile))
        if not len(shared[0]):
            raise UserError(
                f"models.{decoder.spec.name}: no players stand before the query suffix in {profile}; correct its family"
            )
    if decoder.reads_images:
        decoder.build_layout(answer, decoder.prepare_image(Image.new("RGB", IMAGE_SIZE)))
    return f"a prompt of {len(answer.ids)} tokens in {profile}"


def _build_question(reads_images: bool) -> Question:
    first, second = SENTENCES
    fields: dict[str, Any] = {"first": first, "second": second}
    form, image = ("pairwise", "image.jpg") if reads_images else ("comve", None)
    return Question("preflight", form, form, image, fields, ("A", "B"), ("A",), "B", None, "caption-first")


def _write_answers(folder: Path) -> Path:
    """Write a list of as many answers as the head of a skeleton chooses from."""
    config = folder / "config.json"
    settings = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    count = int(settings.get("num_qa_labels", 2))
    file = folder / ANSWERS
    file.write_text(json.dumps([f"answer {number}" for number in range(count)]), encoding="utf-8")
    return file
