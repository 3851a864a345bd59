"""ALBEF once more: step by step in float64, head by head and row by row, over the weights as they
are in the file.
"""

import math

import torch

Weights = dict[str, torch.Tensor]


def linear(weights, key, states):
    return states @ weights[f"{key}.weight"].T + weights[f"{key}.bias"]


def norm(weights, key, states, epsilon):
    centred = states - states.mean(dim=-1, keepdim=True)
    deviation = (centred.square().mean(dim=-1, keepdim=True) + epsilon).sqrt()
    return centred / deviation * weights[f"{key}.weight"] + weights[f"{key}.bias"]


def gelu(states):
    return 0.5 * states * (1 + torch.erf(states / math.sqrt(2)))


def attention(queries, keys, values, heads, bias=None):
    """Of one pair: (tokens, width) to (positions, width)."""
    size = queries.shape[1] // heads
    mixed = []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        scores = queries[:, part] @ keys[:, part].T / math.sqrt(size)
        scores = scores if bias is None else scores + bias
        exponents = (scores - scores.max(dim=1, keepdim=True).values).exp()
        mixed.append(exponents / exponents.sum(dim=1, keepdim=True) @ values[:, part])
    return torch.cat(mixed, dim=1)


def cubic(distance, a=-0.75):
    """Keys' kernel."""
    x = abs(distance)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def resize_matrix(old, new):
    """Weights of the old points for each new one, edges repeated."""
    matrix = torch.zeros(new, old, dtype=torch.float64)
    for row in range(new):
        centre = (row + 0.5) * old / new - 0.5
        for offset in range(math.floor(centre) - 1, math.floor(centre) + 3):
            matrix[row, min(max(offset, 0), old - 1)] += cubic(centre - offset)
    return matrix


def positions(weights, grid):
    embeddings = weights["visual_encoder.pos_embed"][0]
    old = math.isqrt(len(embeddings) - 1)
    if old == grid:
        return embeddings
    matrix = resize_matrix(old, grid)
    laid = torch.einsum(
        "ya,xb,abw->yxw", matrix, matrix, embeddings[1:].reshape(old, old, -1)
    )
    return torch.cat([embeddings[:1], laid.reshape(grid * grid, -1)])


def seen(weights, image, heads):
    """States of one image (3, side, side)."""
    kernel = weights["visual_encoder.patch_embed.proj.weight"]
    patch, grid = kernel.shape[-1], image.shape[-1] // kernel.shape[-1]
    rows = [weights["visual_encoder.cls_token"][0, 0]]
    for y in range(grid):
        for x in range(grid):
            pixels = image[:, y * patch : (y + 1) * patch, x * patch : (x + 1) * patch]
            product = kernel.flatten(1) @ pixels.flatten()
            rows.append(product + weights["visual_encoder.patch_embed.proj.bias"])
    states = torch.stack(rows) + positions(weights, grid)
    number = 0
    while f"visual_encoder.blocks.{number}.norm1.weight" in weights:
        block = f"visual_encoder.blocks.{number}"
        queries, keys, values = linear(
            weights, f"{block}.attn.qkv", norm(weights, f"{block}.norm1", states, 1e-6)
        ).chunk(3, dim=1)
        states = states + linear(
            weights, f"{block}.attn.proj", attention(queries, keys, values, heads)
        )
        inner = gelu(
            linear(
                weights,
                f"{block}.mlp.fc1",
                norm(weights, f"{block}.norm2", states, 1e-6),
            )
        )
        states = states + linear(weights, f"{block}.mlp.fc2", inner)
        number += 1
    return norm(weights, "visual_encoder.norm", states, 1e-6)


def read(weights, ids, heads, context, mask=None, segments=None, prefix="text_encoder"):
    """States of one text (tokens,) after all layers, with the context (positions, width)."""
    names = f"{prefix}.embeddings"
    segments = [0] * len(ids) if segments is None else segments
    states = weights[f"{names}.word_embeddings.weight"][ids]
    states = states + weights[f"{names}.token_type_embeddings.weight"][segments]
    states = states + weights[f"{names}.position_embeddings.weight"][: len(ids)]
    states = norm(weights, f"{names}.LayerNorm", states, 1e-12)
    bias = None if mask is None else (1 - mask.double()) * -10000
    number = 0
    while f"{prefix}.encoder.layer.{number}.output.dense.weight" in weights:
        layer = f"{prefix}.encoder.layer.{number}"
        states = _attended(weights, f"{layer}.attention", states, states, heads, bias)
        if f"{layer}.crossattention.self.query.weight" in weights:
            states = _attended(
                weights, f"{layer}.crossattention", states, context, heads
            )
        inner = gelu(linear(weights, f"{layer}.intermediate.dense", states))
        inner = linear(weights, f"{layer}.output.dense", inner)
        states = norm(weights, f"{layer}.output.LayerNorm", states + inner, 1e-12)
        number += 1
    return states


def _attended(weights, key, states, context, heads, bias=None):
    parts = [
        linear(weights, f"{key}.self.{name}", side)
        for name, side in (("query", states), ("key", context), ("value", context))
    ]
    mixed = linear(weights, f"{key}.output.dense", attention(*parts, heads, bias))
    return norm(weights, f"{key}.output.LayerNorm", states + mixed, 1e-12)


def match_logits(weights, config, image, ids, mask=None, segments=None):
    """Both logits of one pair; weights of any layout of the release that has a matching head."""
    weights = {
        key.replace("text_encoder.bert.", "text_encoder."): value.double()
        for key, value in weights.items()
    }
    patches = seen(weights, image.double(), config["vision_heads"])
    heads = config["bert_config"]["num_attention_heads"]
    states = read(weights, ids, heads, patches, mask, segments)
    return linear(weights, "itm_head", states[0])
