"""Attention relevance of CLIP."""

import numpy as np
import pytest
import torch
from transformers.models.clip import modeling_clip

from stand_ins.models import tiny_clip
from waltz.attribution.attention_relevance import (
    compute_clip_relevance,
    propagate_relevance,
)

IDS = torch.tensor([48, 3, 17, 5, 49])
END = 49


@pytest.fixture(scope="module")
def image():
    return torch.randn(3, 35, 35, generator=torch.Generator().manual_seed(3))


def test_two_heads_of_one_layer_worked_by_hand():
    # gradient x attention: [[.5, -.5], [.2, .8]] and [[.25, .75], [0, -2]]; positive parts, mean,
    # plus identity
    maps = torch.tensor([[[0.5, 0.5], [0.2, 0.8]], [[0.25, 0.75], [0.0, 1.0]]])
    gradients = torch.tensor([[[1.0, -1.0], [1.0, 1.0]], [[1.0, 1.0], [5.0, -2.0]]])
    assert propagate_relevance([maps], [gradients]).tolist() == pytest.approx(
        [pytest.approx([1.375, 0.375]), pytest.approx([0.1, 1.4])]
    )


def test_a_second_layer_looks_through_the_first():
    # the second looks from 0 at 1 alone with weight 2: row 0 gains twice row 1 of the first
    first = torch.tensor([[[0.0, 0.0], [0.5, 0.0]]])
    second = torch.tensor([[[0.0, 2.0], [0.0, 0.0]]])
    ones = torch.ones(1, 2, 2)
    assert propagate_relevance([first, second], [ones, ones]).tolist() == [
        [2.0, 2.0],
        [0.5, 1.0],
    ]


def test_no_row_falls_below_the_identity(image):
    generator = torch.Generator().manual_seed(0)
    maps = [torch.rand(3, 6, 6, generator=generator).softmax(-1) for _ in range(4)]
    gradients = [torch.randn(3, 6, 6, generator=generator) for _ in range(4)]
    relevance = propagate_relevance(maps, gradients)
    assert (relevance.sum(dim=1) >= 1).all()
    assert (relevance.diagonal() >= 1).all()
    assert (relevance >= 0).all()


def test_shapes_and_what_no_text_position_can_look_at(image):
    network = tiny_clip.network(END, 50)
    padded = torch.cat([IDS, torch.tensor([7, 7])])
    relevance = compute_clip_relevance(network, padded, image)
    assert relevance.tokens.shape == (7,)
    assert relevance.patches.shape == (5, 5)
    # Attention is causal: what follows the end token is not seen.
    assert relevance.tokens[5:].tolist() == [
        0,
        0,
    ]
    assert (relevance.tokens[:5] > 0).any()
    assert (relevance.patches > 0).any()
    assert relevance.tokens.min() >= 0
    assert relevance.patches.min() >= 0


def test_one_layer_equals_differences_of_the_score(image, monkeypatch):
    network = tiny_clip.network(END, 50, layers=1).double()
    clip_relevance = compute_clip_relevance(network, IDS, image)
    network.set_attn_implementation("eager")
    shift = {}
    plain = modeling_clip.eager_attention_forward

    def shifted(module, query, key, value, mask, scaling, **rest):
        _, maps = plain(module, query, key, value, mask, scaling, **rest)
        if maps.shape[-1] in shift:
            maps = maps + shift[maps.shape[-1]]
        seen.append(maps)
        return (maps @ value).transpose(1, 2).contiguous(), maps

    seen = []
    monkeypatch.setattr(modeling_clip, "eager_attention_forward", shifted)

    def score():
        seen.clear()
        with torch.no_grad():
            return network(
                input_ids=IDS[None], pixel_values=image[None].double()
            ).logits_per_image.item()

    for length, row, expected in (
        (5, 4, clip_relevance.tokens),
        (26, 0, clip_relevance.patches.ravel()),
    ):
        shift.clear()
        score()
        maps = next(part for part in seen if part.shape[-1] == length)[0]
        columns = range(length) if length == 5 else range(1, length)
        relevance = []
        for column in columns:
            heads = []
            for head in range(2):
                step = torch.zeros(1, 2, length, length, dtype=torch.float64)
                step[0, head, row, column] = 1e-5
                shift[length] = step
                above = score()
                shift[length] = -step
                heads.append(
                    max(0, (above - score()) / 2e-5 * maps[head, row, column].item())
                )
            relevance.append(np.mean(heads))
        np.testing.assert_allclose(expected, relevance, rtol=1e-4, atol=1e-7)


def test_the_network_is_left_as_it_was(image):
    network = tiny_clip.network(END, 50).requires_grad_(False)
    before = [
        tower.config._attn_implementation
        for tower in (network, network.text_model, network.vision_model)
    ]
    with torch.no_grad():
        compute_clip_relevance(network, IDS, image)
    assert [
        tower.config._attn_implementation
        for tower in (network, network.text_model, network.vision_model)
    ] == before
    assert all(
        weight.grad is None and not weight.requires_grad
        for weight in network.parameters()
    )
