"""Tiny random detectors in the key layout of ViLBERT's, and a plain restatement of what they
compute.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from stand_ins.models.random_weights import RandomWeights

STAGES = {
    "layer1": (1, 4, 8),
    "layer2": (2, 8, 12),
    "layer3": (2, 8, 16),
    "layer4": (1, 12, 20),
}
"""Blocks, inner and outer channels."""
STEM, GROUPS, CHANNELS, CELLS, WIDTH, HIDDEN, CLASSES = 6, 2, 10, 3, 14, 9, 7
CONFIG: dict[str, Any] = {
    "INPUT": {"MIN_SIZE_TEST": 72, "MAX_SIZE_TEST": 120},
    "MODEL": {
        "RPN": {
            "PRE_NMS_TOP_N_TEST": 40,
            "POST_NMS_TOP_N_TEST": 25,
            "FPN_POST_NMS_TOP_N_TEST": 50,
        },
        "RESNETS": {"NUM_GROUPS": GROUPS, "WIDTH_PER_GROUP": 2, "STRIDE_IN_1X1": False},
        "ROI_BOX_HEAD": {
            "NUM_CLASSES": 1 + CLASSES,
            "POOLER_RESOLUTION": CELLS,
            "POOLER_SAMPLING_RATIO": 2,
        },
    },
    "num_features": 12,
}
"""Small enough that a detection takes milliseconds."""


def tiny_pyramid_weights(seed: int = 0, width: int = WIDTH) -> dict[str, torch.Tensor]:
    """Random weights whose states neither vanish nor grow, so that boxes, classes and features
    differ.
    """
    weights = RandomWeights(seed)
    body = "backbone.body"
    weights.add_convolution(f"{body}.stem.conv1", f"{body}.stem.bn1", STEM, 3, 7, 7)
    weights[f"{body}.stem.conv1.weight"] /= 60  # pixels are of that size
    inputs = STEM
    for number, (stage, (blocks, inner, outputs)) in enumerate(STAGES.items(), start=1):
        for block in range(blocks):
            where = f"{body}.{stage}.{block}"
            if block == 0:
                weights.add_convolution(
                    f"{where}.downsample.0",
                    f"{where}.downsample.1",
                    outputs,
                    inputs,
                    1,
                    1,
                )
            weights.add_convolution(
                f"{where}.conv1", f"{where}.bn1", inner, inputs, 1, 1
            )
            weights.add_convolution(
                f"{where}.conv2", f"{where}.bn2", inner, inner // GROUPS, 3, 3
            )
            weights.add_convolution(
                f"{where}.conv3", f"{where}.bn3", outputs, inner, 1, 1
            )
            inputs = outputs
        weights.add_linear(
            f"backbone.fpn.fpn_inner{number}", CHANNELS, outputs, 1, 1, spread=0.3
        )
        weights.add_linear(f"backbone.fpn.fpn_layer{number}", CHANNELS, CHANNELS, 3, 3)
    for number in range(5):
        size = 8 * 2**number
        anchors = torch.tensor(
            [[-size, -size / 2, size, size / 2], [-size / 2, -size, size / 2, size]]
        )
        weights[f"rpn.anchor_generator.cell_anchors.{number}"] = (
            anchors + weights.normal(2, 4)
        ).round()
    weights.add_linear("rpn.head.conv", CHANNELS, CHANNELS, 3, 3)
    weights.add_linear("rpn.head.cls_logits", 2, CHANNELS, 1, 1)
    weights.add_linear("rpn.head.bbox_pred", 8, CHANNELS, 1, 1, spread=0.3)
    box = "roi_heads.box"
    weights.add_linear(
        f"{box}.feature_extractor.fc6", width, CHANNELS * CELLS**2, spread=0.5
    )
    weights.add_linear(f"{box}.feature_extractor.fc7", HIDDEN, width)
    weights.add_linear(f"{box}.predictor.cls_score", 1 + CLASSES, HIDDEN, spread=2)
    weights.add_linear(f"{box}.predictor.bbox_pred", 4 + 4 * CLASSES, HIDDEN)
    weights.add_linear(f"{box}.predictor.cls_embed", 1 + CLASSES, 4, bias=False)
    weights.add_linear(f"{box}.predictor.attr_linear1", 5, HIDDEN + 4)
    weights.add_linear(f"{box}.predictor.attr_linear2", 3, 5)
    return dict(weights)


def save_tiny_pyramid(
    folder: Path, weights: dict[str, torch.Tensor] | None = None
) -> Path:
    """Write a tiny detector as training wrote the released one, and return the file of its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = tiny_pyramid_weights() if weights is None else weights
    content = {
        "model": {f"module.{key}": value for key, value in weights.items()},
        "iteration": 9,
        "optimizer": {},
    }
    torch.save(content, folder / "detectron_model.pth")
    return folder / "detectron_model.pth"


def save_config(folder: Path, config: dict[str, Any] = CONFIG) -> Path:
    """Write a configuration as JSON, and return its file."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder / "config.json"


def restate_image(
    levels: np.ndarray, shortest: int, longest: int
) -> tuple[np.ndarray, float]:
    """The padded image and its factor of an RGB image of shape (height, width, 3), pixel by pixel
    in float64.
    """
    height, width = levels.shape[:2]
    scale = shortest / min(height, width)
    if round(scale * max(height, width)) > longest:
        scale = longest / max(height, width)
    centred = levels[..., ::-1].astype(np.float64) - [102.9801, 115.9465, 122.7717]
    rows, columns = round(height * scale), round(width * scale)
    padded = np.zeros((3, math.ceil(rows / 32) * 32, math.ceil(columns / 32) * 32))
    for row in range(rows):
        for column in range(columns):
            y = min(max((row + 0.5) / scale - 0.5, 0), height - 1)
            x = min(max((column + 0.5) / scale - 0.5, 0), width - 1)
            padded[:, row, column] = interpolated(centred.transpose(2, 0, 1), y, x)
    return padded, scale


def interpolated(states: np.ndarray, y: float, x: float) -> np.ndarray:
    """States between the four around a place on the map; of shape (channels,)."""
    top, left = math.floor(y), math.floor(x)
    bottom, right = (
        min(top + 1, states.shape[1] - 1),
        min(left + 1, states.shape[2] - 1),
    )
    down, across = y - top, x - left
    upper = states[:, top, left] * (1 - across) + states[:, top, right] * across
    lower = states[:, bottom, left] * (1 - across) + states[:, bottom, right] * across
    result: np.ndarray = upper * (1 - down) + lower * down
    return result


def restate_align(
    states: np.ndarray, box: np.ndarray, side: int, scale: float, samples: int = 2
) -> np.ndarray:
    """RoIAlign of one box, point by point; of shape (channels, side, side)."""
    left, top, right, bottom = (float(value) * scale for value in box)
    across, down = max(right - left, 1) / side, max(bottom - top, 1) / side
    height, width = states.shape[1:]
    pooled = np.zeros((len(states), side, side))
    for row in range(side):
        for column in range(side):
            for i in range(samples):
                for j in range(samples):
                    y = top + (row + (i + 0.5) / samples) * down
                    x = left + (column + (j + 0.5) / samples) * across
                    if -1 <= y <= height and -1 <= x <= width:
                        y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
                        pooled[:, row, column] += (
                            interpolated(states, y, x) / samples**2
                        )
    return pooled


def overlap_of_inclusive(one: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union of boxes whose last pixels belong to them."""
    across = max(0.0, min(one[2], other[2]) - max(one[0], other[0]) + 1)
    down = max(0.0, min(one[3], other[3]) - max(one[1], other[1]) + 1)
    areas = [(box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (one, other)]
    union = sum(areas) - across * down
    return float(across * down / union) if union > 0 else 0.0


def restate_nms(boxes: np.ndarray, scores: np.ndarray, limit: float) -> list[int]:
    """Places of the boxes that stay, each held against every better one that does."""
    selected: list[int] = []
    for place in sorted(range(len(boxes)), key=lambda place: -scores[place]):
        if all(
            overlap_of_inclusive(boxes[place], boxes[better]) <= limit
            for better in selected
        ):
            selected.append(place)
    return selected


def restate_selection(
    boxes: np.ndarray, probabilities: np.ndarray, limit: float, most: int
) -> tuple[Any, Any]:
    """The released script's choice: a suppression for each class, then the best probability that
    stayed.
    """
    best = np.zeros(len(boxes), dtype=probabilities.dtype)
    for column in probabilities.T:
        for place in restate_nms(boxes, column, limit):
            best[place] = max(best[place], column[place])
    order = sorted(range(len(boxes)), key=lambda place: -best[place])[:most]
    return order, best[order]


def restate(
    weights: dict[str, torch.Tensor],
    levels: np.ndarray,
    config: dict[str, Any] = CONFIG,
) -> dict[str, Any]:
    """Boxes, features, probabilities and scores of an RGB image, step by step over the weights in
    float64.
    """
    weights = {key: values.double() for key, values in weights.items()}
    rpn = config["MODEL"]["RPN"]
    padded, scale = restate_image(
        levels, config["INPUT"]["MIN_SIZE_TEST"], config["INPUT"]["MAX_SIZE_TEST"]
    )

    def convolved(states: torch.Tensor, key: str, **options: Any) -> torch.Tensor:
        return functional.conv2d(
            states, weights[f"{key}.weight"], weights.get(f"{key}.bias"), **options
        )

    def normed(states: torch.Tensor, key: str) -> torch.Tensor:
        parts = {
            part: weights[f"{key}.{part}"][:, None, None]
            for part in ("weight", "bias", "running_mean")
        }
        factor = parts["weight"] / weights[f"{key}.running_var"][:, None, None].sqrt()
        return states * factor + (parts["bias"] - parts["running_mean"] * factor)

    def headed(states: torch.Tensor, key: str) -> torch.Tensor:
        return states @ weights[f"{key}.weight"].T + weights[f"{key}.bias"]

    body = "backbone.body"
    pixels = torch.from_numpy(padded)[None]
    states = normed(
        convolved(pixels, f"{body}.stem.conv1", stride=2, padding=3), f"{body}.stem.bn1"
    ).relu()
    states = functional.pad(states, (1, 1, 1, 1), value=-math.inf)
    states = states.unfold(2, 3, 2).unfold(3, 3, 2).amax(dim=(4, 5))
    stage_maps = []
    for stage, (blocks, _, _) in STAGES.items():
        for block in range(blocks):
            key, stride = (
                f"{body}.{stage}.{block}",
                1 if stage == "layer1" or block else 2,
            )
            shortcut = states
            if f"{key}.downsample.0.weight" in weights:
                shortcut = normed(
                    convolved(states, f"{key}.downsample.0", stride=stride),
                    f"{key}.downsample.1",
                )
            inner = normed(convolved(states, f"{key}.conv1"), f"{key}.bn1").relu()
            inner = convolved(
                inner, f"{key}.conv2", stride=stride, padding=1, groups=GROUPS
            )
            inner = normed(inner, f"{key}.bn2").relu()
            states = (
                normed(convolved(inner, f"{key}.conv3"), f"{key}.bn3") + shortcut
            ).relu()
        stage_maps.append(states)
    inner = convolved(stage_maps[3], "backbone.fpn.fpn_inner4")
    maps = [convolved(inner, "backbone.fpn.fpn_layer4", padding=1)]
    for number in (3, 2, 1):
        enlarged = inner.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        inner = (
            convolved(stage_maps[number - 1], f"backbone.fpn.fpn_inner{number}")
            + enlarged
        )
        maps.insert(0, convolved(inner, f"backbone.fpn.fpn_layer{number}", padding=1))
    maps.append(maps[3][:, :, ::2, ::2])

    height, width = padded.shape[1:]
    proposals: list[tuple[float, list[float]]] = []
    for number, states in enumerate(maps):
        hidden = convolved(states, "rpn.head.conv", padding=1).relu()
        logits, deltas = (
            convolved(hidden, f"rpn.head.{name}")[0]
            for name in ("cls_logits", "bbox_pred")
        )
        candidates = []
        for row in range(states.shape[2]):
            for column in range(states.shape[3]):
                for anchor, corners in enumerate(
                    weights[f"rpn.anchor_generator.cell_anchors.{number}"].tolist()
                ):
                    stride = 4 * 2**number
                    placed = [
                        value + stride * (column, row)[axis % 2]
                        for axis, value in enumerate(corners)
                    ]
                    moves = deltas[4 * anchor : 4 * anchor + 4, row, column].tolist()
                    score = 1 / (1 + math.exp(-float(logits[anchor, row, column])))
                    candidates.append(
                        (score, restate_move(placed, moves, height, width))
                    )
        candidates = sorted(candidates, key=lambda candidate: -candidate[0])[
            : rpn["PRE_NMS_TOP_N_TEST"]
        ]
        boxes, scores = (
            np.array([box for _, box in candidates]),
            np.array([score for score, _ in candidates]),
        )
        kept = restate_nms(boxes, scores, rpn.get("NMS_THRESH", 0.7))[
            : rpn["POST_NMS_TOP_N_TEST"]
        ]
        proposals += [candidates[place] for place in kept]
    proposals = sorted(proposals, key=lambda proposal: -proposal[0])[
        : rpn["FPN_POST_NMS_TOP_N_TEST"]
    ]
    boxes = np.array([box for _, box in proposals])

    pooled, numbers = [], []
    for box in boxes:
        area = (box[2] - box[0] + 1) * (box[3] - box[1] + 1)
        number = (
            min(max(math.floor(4 + math.log2(math.sqrt(area) / 224 + 1e-6)), 2), 5) - 2
        )
        numbers.append(number)
        pooled.append(
            restate_align(
                maps[number][0].numpy(), box, CELLS, 1 / (4 * 2**number)
            ).ravel()
        )
    features = headed(
        torch.from_numpy(np.stack(pooled)), "roi_heads.box.feature_extractor.fc6"
    ).relu()
    hidden = headed(features, "roi_heads.box.feature_extractor.fc7").relu()
    probabilities = (
        headed(hidden, "roi_heads.box.predictor.cls_score").softmax(dim=1).numpy()
    )
    boxes = boxes / scale
    order, best = restate_selection(
        boxes, probabilities[:, 1:], 0.5, config["num_features"]
    )
    return {
        "boxes": boxes[order],
        "features": features.numpy()[order],
        "cls_prob": probabilities[order],
        "objects": probabilities[order, 1:].argmax(axis=1),
        "scores": best,
        "maps": sorted(set(numbers)),
        "limits": (width / scale, height / scale),
    }


def restate_move(
    box: list[float], deltas: list[float], height: int, width: int
) -> list[float]:
    """An inclusive box by its deltas, cut to the padded image."""
    across, down = box[2] - box[0] + 1, box[3] - box[1] + 1
    x, y = (
        box[0] + across / 2 + deltas[0] * across,
        box[1] + down / 2 + deltas[1] * down,
    )
    most = math.log(1000 / 16)
    across, down = (
        across * math.exp(min(deltas[2], most)),
        down * math.exp(min(deltas[3], most)),
    )
    moved = [x - across / 2, y - down / 2, x + across / 2 - 1, y + down / 2 - 1]
    return [
        min(max(value, 0), (width - 1, height - 1)[axis % 2])
        for axis, value in enumerate(moved)
    ]
