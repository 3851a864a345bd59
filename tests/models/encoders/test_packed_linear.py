"""Packed linear layers: the same numbers, gradients where they are asked for, other layers left alone."""

import pytest
import torch

from waltz.models.encoders.base import PackedLinear, pack_linear_layers


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 7), (3, 5, 7), (40, 7)])
def test_the_numbers_are_those_of_the_plain_layer(shape, bias):
    layer, states = torch.nn.Linear(7, 11, bias=bias), torch.randn(shape)
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(layer)(states), layer(states), rtol=0, atol=1e-6)


def test_gradients_are_those_of_the_plain_layer():
    layer = torch.nn.Linear(7, 11)
    found = []
    for one in (layer, PackedLinear(layer)):
        states = torch.ones(2, 7, requires_grad=True)
        one(states).square().sum().backward()
        found.append(states.grad)
    torch.testing.assert_close(*found)


def test_only_single_precision_linear_layers_are_packed():
    network = torch.nn.Sequential(
        torch.nn.Linear(4, 4),
        torch.nn.Sequential(torch.nn.GELU(), torch.nn.Linear(4, 4)),
        torch.nn.Linear(4, 4).double(),
    )
    pack_linear_layers(network)
    assert isinstance(network[0], PackedLinear)
    assert isinstance(network[1][1], PackedLinear)
    assert type(network[2]) is torch.nn.Linear
