"""Tiny random detectors in the key layout of the released one, and a plain restatement of what they
compute.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch.nn import functional

from stand_ins.models.random_weights import RandomWeights

BLOCKS = {"res2": (1, 4, 8), "res3": (2, 6, 12), "res4": (2, 8, 16), "res5": (3, 6, 12)}
"""Blocks, inner and outer channels."""
STEM, HIDDEN, CLASSES, ATTRIBUTES = 6, 10, 7, 5
WIDTH = BLOCKS["res5"][2]
CONFIG: dict[str, Any] = {
    "input": {"min_size_test": 96, "max_size_test": 160},
    "rpn": {"pre_nms_topk_test": 150, "post_nms_topk_test": 30},
    "roi_box_head": {"pooler_resolution": 4},
    "min_detections": 5,
    "max_detections": 5,
}
"""Small enough that a detection takes milliseconds."""


def tiny_weights(seed: int = 0, counters: bool = True) -> dict[str, torch.Tensor]:
    """Random weights whose states neither vanish nor grow, so that boxes, classes and features
    differ.
    """
    weights = RandomWeights(seed)

    def convolution(key: str, *shape: int) -> None:
        weights.add_convolution(key, f"{key}.norm", *shape)
        if counters:
            weights[f"{key}.norm.num_batches_tracked"] = torch.tensor(3)

    convolution("backbone.stem.conv1", STEM, 3, 7, 7)
    weights["backbone.stem.conv1.weight"] /= 60  # pixels are of that size
    inputs = STEM
    for stage, (blocks, inner, outputs) in BLOCKS.items():
        where = f"roi_heads.{stage}" if stage == "res5" else f"backbone.{stage}"
        for block in range(blocks):
            if inputs != outputs:
                convolution(f"{where}.{block}.shortcut", outputs, inputs, 1, 1)
            convolution(f"{where}.{block}.conv1", inner, inputs, 1, 1)
            convolution(f"{where}.{block}.conv2", inner, inner, 3, 3)
            convolution(f"{where}.{block}.conv3", outputs, inner, 1, 1)
            inputs = outputs
    sizes = [(size, ratio) for size in (24, 48) for ratio in (0.5, 1, 2)]
    corners = [
        (size / math.sqrt(ratio) / 2, size * math.sqrt(ratio) / 2)
        for size, ratio in sizes
    ]
    anchors = torch.tensor([(-right, -down, right, down) for right, down in corners])
    weights["proposal_generator.anchor_generator.cell_anchors.0"] = (
        anchors + weights.normal(*anchors.shape)
    )
    weights.add_linear(
        "proposal_generator.rpn_head.conv", HIDDEN, BLOCKS["res4"][2], 3, 3
    )
    weights.add_linear(
        "proposal_generator.rpn_head.objectness_logits", len(anchors), HIDDEN, 1, 1
    )
    weights.add_linear(
        "proposal_generator.rpn_head.anchor_deltas",
        4 * len(anchors),
        HIDDEN,
        1,
        1,
        spread=0.3,
    )
    heads = "roi_heads.box_predictor"
    weights.add_linear(f"{heads}.cls_score", CLASSES + 1, WIDTH, spread=2)
    weights.add_linear(f"{heads}.bbox_pred", 4 * CLASSES, WIDTH, spread=2)
    weights.add_linear(f"{heads}.cls_embedding", CLASSES + 1, WIDTH // 8, bias=False)
    weights.add_linear(f"{heads}.fc_attr", WIDTH // 4, WIDTH + WIDTH // 8)
    weights.add_linear(f"{heads}.attr_score", ATTRIBUTES + 1, WIDTH // 4, spread=2)
    return dict(weights)


def save_tiny(
    folder: Path, weights: dict[str, torch.Tensor] | None = None, config: Any = CONFIG
) -> Path:
    """Write a tiny detector with its configuration, and return the file of its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(
        tiny_weights() if weights is None else weights, folder / "pytorch_model.bin"
    )
    if config is not None:
        (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return folder / "pytorch_model.bin"


def restated_pool(states: np.ndarray, boxes: np.ndarray, side: int) -> np.ndarray:
    """RoIPool at a sixteenth, cell by cell."""
    channels, rows, columns = states.shape
    pooled = np.zeros((len(boxes), channels, side, side), dtype=np.float32)
    for number, box in enumerate(boxes):
        left, top, right, bottom = (
            math.floor(abs(value) / 16 + 0.5) * (1 if value >= 0 else -1)
            for value in box
        )
        across, down = max(right - left + 1, 1), max(bottom - top + 1, 1)
        for row in range(side):
            for column in range(side):
                first, last = spans(row, down, side)
                begin, end = spans(column, across, side)
                first, last = (
                    min(max(place + top, 0), rows) for place in (first, last)
                )
                begin, end = (
                    min(max(place + left, 0), columns) for place in (begin, end)
                )
                if first < last and begin < end:
                    pooled[number, :, row, column] = states[
                        :, first:last, begin:end
                    ].max(axis=(1, 2))
    return pooled


def spans(cell: int, length: int, side: int) -> tuple[int, int]:
    """Start and end of a cell of the grid, in float32."""
    step = np.float32(length) / np.float32(side)
    return math.floor(np.float32(cell) * step), math.ceil(np.float32(cell + 1) * step)


def restated_nms(boxes: np.ndarray, scores: np.ndarray, limit: float) -> list[int]:
    """Places of the boxes that stay, each held against every better one that does."""
    selected: list[int] = []
    for place in sorted(range(len(boxes)), key=lambda place: -scores[place]):
        if all(overlap(boxes[place], boxes[better]) <= limit for better in selected):
            selected.append(place)
    return selected


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union; 0 of two empty boxes."""
    across = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    down = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    union = sum(areas) - across * down
    return across * down / union if union > 0 else 0.0


def restated(
    weights: dict[str, torch.Tensor],
    pixels: torch.Tensor,
    config: dict[str, Any] = CONFIG,
) -> dict[str, Any]:
    """Boxes, features, classes, scores and attributes of a prepared image, step by step over the
    weights.
    """

    def convolved(states: torch.Tensor, key: str, **options: Any) -> torch.Tensor:
        output = functional.conv2d(states, weights[f"{key}.weight"], **options)
        of = {
            part: weights[f"{key}.norm.{part}"][:, None, None]
            for part in ("weight", "bias", "running_mean")
        }
        spread = (weights[f"{key}.norm.running_var"][:, None, None] + 1e-5).sqrt()
        return (output - of["running_mean"]) / spread * of["weight"] + of["bias"]

    def block(
        states: torch.Tensor, key: str, stride: int, dilation: int
    ) -> torch.Tensor:
        inner = convolved(states, f"{key}.conv1", stride=stride).relu()
        inner = convolved(
            inner, f"{key}.conv2", padding=dilation, dilation=dilation
        ).relu()
        shortcut = (
            convolved(states, f"{key}.shortcut", stride=stride)
            if f"{key}.shortcut.weight" in weights
            else states
        )
        return (convolved(inner, f"{key}.conv3") + shortcut).relu()

    def headed(states: torch.Tensor, key: str) -> torch.Tensor:
        return states @ weights[f"{key}.weight"].T + weights[f"{key}.bias"]

    states = convolved(pixels[None], "backbone.stem.conv1", stride=2, padding=3).relu()
    lacking = [-(size - 3) % 2 for size in states.shape[-2:]]
    states = functional.max_pool2d(
        functional.pad(states, (0, lacking[1], 0, lacking[0]), value=-math.inf), 3, 2
    )
    for stage in ("res2", "res3", "res4"):
        for number in range(BLOCKS[stage][0]):
            states = block(
                states,
                f"backbone.{stage}.{number}",
                1 if stage == "res2" or number else 2,
                1,
            )
    head = "proposal_generator.rpn_head"
    inner = functional.conv2d(
        states, weights[f"{head}.conv.weight"], weights[f"{head}.conv.bias"], padding=1
    ).relu()
    scores, deltas = (
        functional.conv2d(
            inner, weights[f"{head}.{name}.weight"], weights[f"{head}.{name}.bias"]
        )[0]
        for name in ("objectness_logits", "anchor_deltas")
    )
    candidates = []
    for row in range(states.shape[2]):
        for column in range(states.shape[3]):
            for number, anchor in enumerate(
                weights["proposal_generator.anchor_generator.cell_anchors.0"].tolist()
            ):
                placed = [
                    value + 16 * (column, row)[axis % 2]
                    for axis, value in enumerate(anchor)
                ]
                moves = deltas[4 * number : 4 * number + 4, row, column].tolist()
                candidates.append(
                    (
                        float(scores[number, row, column]),
                        moved(placed, moves, (1, 1, 1, 1)),
                    )
                )
    height, width = pixels.shape[-2:]
    candidates.sort(key=lambda candidate: -candidate[0])
    clipped = [
        (score, cut(box, height, width))
        for score, box in candidates[: config["rpn"]["pre_nms_topk_test"]]
    ]
    clipped = [
        (score, box) for score, box in clipped if box[2] > box[0] and box[3] > box[1]
    ]
    limit = config["rpn"].get("nms_thresh", 0.7)
    selected = restated_nms(
        np.array([box for _, box in clipped]),
        np.array([score for score, _ in clipped]),
        limit,
    )
    proposals = np.array(
        [clipped[place][1] for place in selected[: config["rpn"]["post_nms_topk_test"]]]
    )
    pooled = restated_pool(
        states[0].numpy(), proposals, config["roi_box_head"]["pooler_resolution"]
    )
    patches = torch.from_numpy(pooled)
    for number in range(BLOCKS["res5"][0]):
        patches = block(patches, f"roi_heads.res5.{number}", 1, 2)
    features = patches.flatten(2).mean(dim=2)
    logits = headed(features, "roi_heads.box_predictor.cls_score")
    shares = logits.softmax(dim=1)[:, :CLASSES]
    best = shares.argmax(dim=1).tolist()
    of_class = headed(features, "roi_heads.box_predictor.bbox_pred").tolist()
    boxes = np.array(
        [
            cut(
                moved(
                    box,
                    of_class[number][4 * best[number] : 4 * best[number] + 4],
                    (10, 10, 5, 5),
                ),
                height,
                width,
            )
            for number, box in enumerate(proposals)
        ]
    )
    certain = shares.max(dim=1).values.numpy()
    for limit in (0.5, 0.6, 0.7):
        selected = restated_nms(boxes, certain, limit)[: config["max_detections"]]
        if len(selected) >= config["min_detections"]:
            break
    embedded = weights["roi_heads.box_predictor.cls_embedding.weight"][
        logits.argmax(dim=1)
    ]
    mixed = headed(
        torch.cat([features, embedded], dim=1), "roi_heads.box_predictor.fc_attr"
    ).relu()
    attributes = headed(mixed, "roi_heads.box_predictor.attr_score")[:, :-1].softmax(
        dim=1
    )
    return {
        "boxes": boxes[selected],
        "features": features[selected].numpy(),
        "classes": np.array(best)[selected],
        "scores": certain[selected],
        "attributes": attributes.argmax(dim=1).numpy()[selected],
        "attribute_scores": attributes.max(dim=1).values.numpy()[selected],
        "limit": limit,
    }


def moved(box: Any, deltas: Any, weights: tuple[float, ...]) -> list[float]:
    """A box by its deltas."""
    across, down = box[2] - box[0], box[3] - box[1]
    centre = (
        box[0] + across / 2 + deltas[0] / weights[0] * across,
        box[1] + down / 2 + deltas[1] / weights[1] * down,
    )
    most = math.log(1000 / 16)
    across *= math.exp(min(deltas[2] / weights[2], most))
    down *= math.exp(min(deltas[3] / weights[3], most))
    return [
        centre[0] - across / 2,
        centre[1] - down / 2,
        centre[0] + across / 2,
        centre[1] + down / 2,
    ]


def cut(box: Any, height: int, width: int) -> list[float]:
    """A box within an image."""
    return [
        min(max(value, 0), (width, height)[axis % 2]) for axis, value in enumerate(box)
    ]
