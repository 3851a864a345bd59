"""Shapley values of a VL decoder by enumeration: each coalition is one call of its network with what
its processor returns, masked.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

POSITION_INPUTS = (
    "token_type_ids",
    "mm_token_type_ids",
    "moe_mm_token_type_ids",
    "cross_attention_mask",
    "image_attention_mask",
    "image_embeds_position_mask",
)

STARTS = {
    "blip": lambda config: config.text_config.bos_token_id,
    "git": lambda config: config.bos_token_id,
    "pix2struct": lambda config: config.text_config.decoder_start_token_id,
    "pp_formulanet": lambda config: config.text_config.decoder_start_token_id,
    "vision-encoder-decoder": lambda config: config.decoder_start_token_id,
}
"""First id of a text, by types whose processors have no placeholder."""
PIXELS = (
    "pixel_values",
    "high_res_pixel_values",
    "pixel_values_local",
    "pixel_values_images",
    "flattened_patches",
    "image_patches",
)
PLACES_IMAGE = (
    "FuyuProcessor",
    "IdeficsProcessor",
    "Kosmos2_5Processor",
    "Blip2Processor",
    "InstructBlipProcessor",
    "Florence2Processor",
    "Kosmos2Processor",
)


@torch.inference_mode()
def read_plainly(
    decoder: Any,
    text: str,
    image: Any,
    targets: Sequence[int],
    hidden_words: Sequence[str] = (),
    cells: Any = None,
    visible: Any = None,
) -> np.ndarray:
    """Logits before each target by the network's forward pass, with words and patches masked in its
    inputs.
    """
    places_image = decoder.processor.__class__.__name__ in PLACES_IMAGE
    if places_image:
        text = text.replace(decoder.placeholder, "")
    config = decoder.network.model.config
    if config.model_type == "hunyuan_vl":
        text = text.replace("<image>", "<img><image></img>")
    options: dict[str, Any] = {"return_tensors": "pt"}
    if not config.is_encoder_decoder and not places_image:
        options["add_special_tokens"] = True
    if config.model_type == "cosmos3_edge":
        options["return_mm_token_type_ids"] = True
    if config.model_type in STARTS:
        inputs = dict(decoder.processor.image_processor([image], return_tensors="pt"))
        tokenizer, text = (
            decoder.processor.tokenizer,
            text.replace(decoder.placeholder, ""),
        )
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        inputs["input_ids"] = torch.tensor([[STARTS[config.model_type](config), *ids]])
    else:
        inputs = dict(decoder.processor(text=[text], images=[image], **options))
    inputs.pop("labels", None)
    ids = inputs["input_ids"][0].tolist()
    for word in hidden_words if "qformer_input_ids" in inputs else ():
        tokenizer = decoder.processor.qformer_tokenizer
        is_word = inputs["qformer_input_ids"] == tokenizer.convert_tokens_to_ids(word)
        assert int(is_word.sum()) == 1
        hidden = inputs["qformer_input_ids"].masked_fill(
            is_word, tokenizer.mask_token_id
        )
        inputs["qformer_input_ids"] = hidden
    for word in hidden_words:
        place = [
            at
            for at, token in enumerate(ids)
            if token == decoder.tokenizer.convert_tokens_to_ids(word)
        ]
        assert len(place) == 1
        ids[place[0]] = decoder.masked_id
    if config.is_encoder_decoder and config.model_type in STARTS:
        del inputs["input_ids"]
        inputs["decoder_input_ids"] = torch.tensor([[*ids, *targets[:-1]]])
    elif config.is_encoder_decoder:
        settings = decoder.network.model.generation_config
        start = [settings.decoder_start_token_id]
        if config.model_type == "t5gemma2":
            start = [settings.bos_token_id]
        if config.model_type == "florence2":
            start.append(settings.forced_bos_token_id)
        inputs["decoder_input_ids"] = torch.tensor([[*start, *targets[:-1]]])
        inputs["input_ids"] = torch.tensor([ids])
    else:
        inputs["input_ids"] = torch.tensor([[*ids, *targets[:-1]]])
    if "input_ids" in inputs:
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    is_prefix_model = config.model_type == "paligemma"
    for name in POSITION_INPUTS:
        if name in inputs:
            # PaliGemma's processor gives type 0 to a prompt and 1 to a suffix.
            last = inputs[name][:, -1:] + int(is_prefix_model)
            inputs[name] = torch.cat(
                [inputs[name], *[last] * (len(targets) - 1)], dim=1
            )
    if cells is not None:
        names = [name for name in PIXELS if name in inputs]
        # Several tensors of pixels have their cells one behind the other.
        cells = [cells]
        if len(names) > 1:
            cells = cells[0].split([inputs[name].numel() for name in names])
        # Zeros would be padding for some networks. Chameleon's codes of an image jump from zeros to
        # almost zeros.
        is_exact = config.model_type in ("chameleon", "emu3") or not decoder.fills_zeros
        for name, cells_of_name in zip(names, cells, strict=True):
            pixels = inputs[name]
            hidden = ~torch.tensor([*visible, True])[cells_of_name]
            hidden = hidden.view(pixels.shape) if len(names) > 1 else hidden
            inputs[name] = pixels.masked_fill(
                hidden.expand_as(pixels), 0 if is_exact else 1e-30
            )
    inputs = {
        name: values
        for name, values in inputs.items()
        if isinstance(values, torch.Tensor)
        or name in ("num_local_patches", "patches_grid")
    }
    return decoder.network.model(**inputs).logits[0, -len(targets) :].double().numpy()


def score_plainly(
    decoder: Any, text: str, image: Any, targets: Sequence[int], *masked: Any
) -> np.ndarray:
    """Logit of each target, of shape (targets,); see `read_plainly`."""
    logits = read_plainly(decoder, text, image, targets, *masked)
    return logits[range(len(targets)), targets]


def enumerate_shapley(
    decoder: Any, text: str, image: Any, targets: Sequence[int], players: Any
) -> np.ndarray:
    """Shapley values of the words and patches that play, of shape (players, targets)."""
    words = [players.prompt.tokens[position] for position in players.positions]
    count = len(players)
    masks = np.array(list(itertools.product([False, True], repeat=count)))
    values = {}
    for mask in masks:
        hidden_words = list(itertools.compress(words, ~mask[players.text]))
        masked = (hidden_words, players.cells, mask[players.image])
        values[tuple(mask)] = score_plainly(decoder, text, image, targets, *masked)

    phi = np.zeros((count, len(targets)))
    for mask in masks:
        for player in np.flatnonzero(~mask):
            gain = (
                values[tuple(mask | (np.arange(count) == player))] - values[tuple(mask)]
            )
            phi[player] += gain / (count * math.comb(count - 1, int(mask.sum())))
    return phi
