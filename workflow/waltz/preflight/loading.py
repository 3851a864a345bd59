"""Checks of models that are loaded without the values of their weights, and read a text or render
prompts.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import transformers
from PIL import Image

from waltz.consistency.cc_shap.dialogue import POST_HOC, PROMPT_KINDS
from waltz.consistency.cc_shap.measure import find_shared_players
from waltz.consistency.cc_shap.pair_attribution import count_suffix_players
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.evaluation.decoder_tasks import build_template
from waltz.evaluation.prompting.prompts import render_prompt
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import Fidelity, get_fidelity
from waltz.model_registry import (
    DECODER_KINDS,
    ModelSpec,
)
from waltz.models.checkpoint_file import accept_skeletons
from waltz.models.decoders import load_decoder
from waltz.models.decoders.decoder import Decoder
from waltz.models.encoders import load_encoder
from waltz.models.pretrained import META
from waltz.models.regions import DETECTOR_LOADERS
from waltz.models.text.classifier import load_classifier
from waltz.models.text.masked import load_masked_model

SENTENCES = ("There are two dogs on the grass.", "There are six dogs on the grass.")
"""A caption and a foil, which models read in the checks."""
IMAGE_SIZE = (640, 480)
"""Width and height in pixels of the image in a prompt."""
WITHOUT_VALUES = Device(META, 1, "no weights are loaded")
"""The meta device of torch, whose tensors have shapes but no values."""
ANSWERS = "answers.json"
"""Name of the list of answers that is written next to a skeleton."""


@accept_skeletons()
def check_model(spec: ModelSpec, skeleton: Path, profiles: Sequence[str]) -> str:
    """Load a model without the values of its weights, let it read a text, and return the finding.

    Args:
        spec: Entry of the model.
        skeleton: A folder that `write_skeleton` wrote, or a checkpoint file without values.
        profiles: Profiles whose prompts a decoder renders; empty if the decoder only scores texts.
    Raises:
        UserError: The tokenizer, processor or config cannot be loaded; a key of the weights is
            missing, unexpected or has another shape; or a prompt cannot be rendered.
    """
    # The skeleton replaces the weights; a detector and 4-bit layers would need values.
    local = replace(
        spec,
        weights=str(skeleton),
        revision="local",
        detector="",
        four_bit=False,
        device_map="",
        unpack="",
    )
    transformers.utils.logging.set_verbosity_error()  # it would print missing keys, which the loaders judge
    # Each family is loaded by the code that loads the real model, then reads a text as far as no
    # values are needed.
    if spec.kind in DETECTOR_LOADERS:
        DETECTOR_LOADERS[spec.kind](skeleton, None, spec.allow_missing)
        return "keys and shapes fit"
    if spec.kind in DECODER_KINDS:
        decoder = replace(load_decoder(local, WITHOUT_VALUES), device="cpu")
        decoder.build_prompt(SENTENCES[0])
        prompts = [_render_prompts(decoder, get_fidelity(name)) for name in profiles]
        finding = " and ".join(prompts) or "it reads a text"
        return f"keys and shapes fit; {finding}"
    if spec.kind == "masked":
        load_masked_model(local, WITHOUT_VALUES).tokenize(SENTENCES[0])
    elif spec.kind == "classifier":
        load_classifier(local, WITHOUT_VALUES).tokenizer(SENTENCES[0])
    else:
        folder = skeleton if skeleton.is_dir() else skeleton.parent
        answers = str(_write_answers(folder)) if spec.answers else ""
        with_inputs = replace(local, regions=str(folder), masks="", answers=answers)
        encoder = load_encoder(with_inputs, WITHOUT_VALUES)
        encoder.tokenize(SENTENCES[0])
    return "keys and shapes fit; it reads a text"


def _render_prompts(decoder: Decoder, fidelity: Fidelity) -> str:
    """Render the prompts of CC-SHAP, and return a text with the number of tokens of the first
    prompt.

    Raises:
        UserError: A prompt cannot be rendered, or the prompts of answer and explanation share no
            players.
    """
    question = _build_question(decoder.reads_images)
    template = build_template(decoder, fidelity)
    prompts = [
        render_prompt(kind, question, template, {"answer": "A"})
        for kind in PROMPT_KINDS[POST_HOC]
    ]
    answer, explanation = (decoder.build_prompt(prompt.text) for prompt in prompts)
    # The released code aligns the players of both prompts by the length of the query suffix.
    if fidelity.shared_players != "prefix":
        suffixes = [
            count_suffix_players(decoder, prompt.counted_suffix, template.suffix_rule)
            for prompt in prompts
        ]
        answer_players, _ = find_shared_players(
            answer.ids, explanation.ids, (suffixes[0], suffixes[1]), fidelity
        )
        if not len(answer_players):
            raise UserError(
                f"models.{decoder.spec.name}: no players stand before the query suffix in {fidelity.name}; correct its"
                " family"
            )
    # The processor expands the placeholder, or refuses to.
    if decoder.reads_images:
        decoder.build_layout(
            answer, decoder.prepare_image(Image.new("RGB", IMAGE_SIZE))
        )
    return f"a prompt of {len(answer.ids)} tokens in {fidelity.name}"


def _build_question(reads_images: bool) -> Question:
    """Return a question about the two sentences: with an image for a VL decoder, else in the form
    of ComVE.
    """
    first, second = SENTENCES
    fields = {"first": first, "second": second}
    form, image = "comve", None
    if reads_images:
        form, image = "pairwise", "image.jpg"
    return Question(
        "preflight",
        form,
        form,
        image,
        fields,
        ("A", "B"),
        ("A",),
        "B",
        None,
        "caption-first",
    )


def _write_answers(folder: Path) -> Path:
    """Write a list of invented answers, as many as the answering head of a skeleton has, and return
    its path.
    """
    config = folder / "config.json"
    settings = {}
    if config.is_file():
        settings = json.loads(config.read_text(encoding="utf-8"))
    count = int(settings.get("num_qa_labels", 2))
    file = folder / ANSWERS
    file.write_text(
        json.dumps([f"answer {number}" for number in range(count)]), encoding="utf-8"
    )
    return file
