"""What the released CC-SHAP scripts compute, in plain lines: one `generate` a coalition, and `shap`
itself.
"""

import math
from types import SimpleNamespace

import numpy as np
import shap
import torch
from PIL import Image
from scipy.spatial import distance
from shap.explainers import _partition
from shap.utils import _masked_model

COMPILED = (
    (_partition, "lower_credit"),
    (_masked_model, "_init_masks"),
    (_masked_model, "_rec_fill_masks"),
    (_masked_model, "_build_fixed_multi_output"),
)
"""What `shap` compiles, which takes longer than a test."""


def interpret(monkeypatch):
    for module, name in COMPILED:
        monkeypatch.setattr(
            module,
            name,
            getattr(getattr(module, name), "py_func", getattr(module, name)),
        )


def compared(answer, explanation, tails):
    """CC-SHAP of values of shape (players, outputs), of whose players the last ones are the tails."""
    means = []
    for phi, tail in zip((answer, explanation), tails, strict=True):
        total = np.abs(phi).sum(axis=0) - np.abs(phi[len(phi) - tail :]).sum(axis=0)
        means.append((100 * phi / total).mean(axis=1)[: len(phi) - tail])
    return *means, 1 - distance.cosine(*means)


@torch.inference_mode()
def of_image(
    model,
    processor,
    image,
    prompt,
    most,
    *,
    mask_id,
    keep_ids,
    seed,
    budgets=(600, 700, 800, 900),
    p=None,
):
    """Target, values and T-SHAP of what a LLaVA says after a prompt with an image; patches are the
    first players.

    Those of an image in tiles are black in the upper left corner of the image itself.
    """
    tokenizer = processor.tokenizer
    ids = tokenizer(prompt)["input_ids"]
    given = processor(text=prompt, images=image, return_tensors="pt")
    place = ids.index(processor.image_token_id)
    block = given["input_ids"].shape[1] - len(ids) + 1
    generated = model.generate(
        **given, max_new_tokens=most, min_new_tokens=1, do_sample=False
    )
    target = generated[0, given["input_ids"].shape[1] :].tolist()
    p = p or math.ceil(math.sqrt(len(ids)))
    width = given["pixel_values"].shape[-1] // p
    tiles = given["pixel_values"].ndim == 5
    image_inputs = {
        name: given[name]
        for name in given
        if name not in ("input_ids", "attention_mask", "pixel_values")
    }
    row = np.array([[[*range(-1, -p * p - 1, -1), *ids]]])

    def masked(mask, x):
        visible = mask | np.isin(x[0], keep_ids)
        out = x.copy()
        out[0, : p * p][~visible[: p * p]] = 0
        out[0, p * p :][~visible[p * p :]] = mask_id
        return (out,)

    def first_logits(rows):
        logits = []
        for one in rows:
            words, pixels, black = (
                one[p * p :].tolist(),
                given["pixel_values"].clone(),
                np.array(image),
            )
            for patch in range(p * p):
                if one[patch] == 0:
                    top, left = patch // p * width, patch % p * width
                    pixels[..., top : top + width, left : left + width] = 0
                    black[top : top + width, left : left + width] = 0
            if tiles:
                pixels = processor(
                    text=prompt, images=Image.fromarray(black), return_tensors="pt"
                )["pixel_values"]
            spelt = torch.tensor(
                [
                    [
                        *words[:place],
                        *[processor.image_token_id] * block,
                        *words[place + 1 :],
                    ]
                ]
            )
            output = model.generate(
                input_ids=spelt,
                attention_mask=torch.ones_like(spelt),
                pixel_values=pixels,
                **image_inputs,
                max_new_tokens=most,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
            )
            logits.append(output.logits[0][0, target].double().numpy())
        return np.array(logits)

    for budget in budgets:
        explainer = shap.PermutationExplainer(first_logits, masked, seed=seed)
        try:
            values = explainer(row, max_evals=budget, silent=True).values[0]
            break
        except ValueError:
            continue
    phi = values.reshape(row.size, len(target))
    share = np.abs(phi[p * p :]).sum() / np.abs(phi).sum()
    return SimpleNamespace(target=target, phi=phi, t_shap=share, p=p)


class AllPlay(shap.maskers.Text):
    """A start token is a player too, as it was in the fork of `shap` that was released."""

    def __init__(self, tokenizer):
        super().__init__(tokenizer, mask_token="...", collapse_mask_token=True)
        self.keep_prefix = self.keep_suffix = 0


@torch.inference_mode()
def of_text(model, tokenizer, prompt, most, *, seed):
    """Target and values of what a language model says after a prompt."""
    given = tokenizer([prompt], return_tensors="pt")
    generated = model.generate(
        **given, max_new_tokens=most, min_new_tokens=1, do_sample=False
    )
    target = generated[0, given["input_ids"].shape[1] :].tolist()
    named = tokenizer.special_tokens_map.values()
    if tokenizer.convert_ids_to_tokens(target[0]) in named:
        target = target[1:]
    if len(target) > 1 and tokenizer.convert_ids_to_tokens(target[-1]) in named:
        target = target[:-1]
    masker = shap.maskers.OutputComposite(
        AllPlay(tokenizer), lambda text: np.array([target])
    )
    np.random.seed(seed)
    explainer = shap.PartitionExplainer(
        shap.models.TeacherForcing(model, tokenizer), masker
    )
    values = explainer([prompt], batch_size=10, max_evals=500, silent=True).values[0]
    return SimpleNamespace(
        target=target, phi=values.reshape(-1, len(target)), t_shap=1.0
    )
