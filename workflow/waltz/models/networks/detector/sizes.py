"""The sizes of a detector, read from the shapes of its weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from waltz.core.errors import UserError
from waltz.models.checkpoint_file import listed
from waltz.models.networks.detector.backbone import StageSizes

STAGES = {
    "res2": "backbone.res2",
    "res3": "backbone.res3",
    "res4": "backbone.res4",
    "res5": "roi_heads.res5",
}
"""Where the weights of each stage stand."""
STEM = "backbone.stem.conv1.weight"
ANCHORS = "proposal_generator.anchor_generator.cell_anchors.0"
HIDDEN = "proposal_generator.rpn_head.conv.weight"
CLASSES = "roi_heads.box_predictor.cls_score.weight"
EMBEDDING = "roi_heads.box_predictor.cls_embedding.weight"
MIXED = "roi_heads.box_predictor.fc_attr.weight"
ATTRIBUTES = "roi_heads.box_predictor.attr_score.weight"


@dataclass(frozen=True)
class Sizes:
    """Sizes of a detector.

    Attributes:
        stem: Channels of the stem.
        stages: Sizes of the stages `res2` to `res5`.
        anchors: Anchors of a cell.
        hidden: Channels inside of the head that proposes.
        classes: Classes, background left out.
        attributes: Attributes, "none" left out.
        embedding: Width of a class's embedding.
        mixed: Width inside of the head of attributes.
    """

    stem: int
    stages: Mapping[str, StageSizes]
    anchors: int
    hidden: int
    classes: int
    attributes: int
    embedding: int
    mixed: int

    @property
    def width(self) -> int:
        """Number of features of a region."""
        return self.stages["res5"].outputs


def sizes_of(weights: Mapping[str, torch.Tensor], file: Path) -> Sizes:
    """Sizes of the detector that some weights are of.

    Args:
        weights: Weights by key.
        file: Where they come from, for errors.
    Raises:
        UserError: Weights that sizes are read from are absent, or of no shape that they can have.
    """
    dimensions = {STEM: 4, HIDDEN: 4, ANCHORS: 2, CLASSES: 2, EMBEDDING: 2, MIXED: 2, ATTRIBUTES: 2}
    for where in STAGES.values():
        dimensions |= {f"{where}.0.conv{number}.weight": 4 for number in (1, 2, 3)}
    absent = [key for key in dimensions if key not in weights]
    if absent:
        raise UserError(f"{file}: lacks {listed(absent)}; name the weights of the detector")
    odd = [key for key, number in dimensions.items() if weights[key].ndim != number or not weights[key].numel()]
    if odd:
        raise UserError(f"{file}: has of no shape that can be: {listed(odd)}; name the weights of the detector")
    first = {key: weights[key].shape[0] for key in dimensions}
    return Sizes(
        stem=first[STEM],
        stages={name: _stage(weights, where, file) for name, where in STAGES.items()},
        anchors=first[ANCHORS],
        hidden=first[HIDDEN],
        classes=first[CLASSES] - 1,
        attributes=first[ATTRIBUTES] - 1,
        embedding=weights[EMBEDDING].shape[1],
        mixed=first[MIXED],
    )


def agree(sizes: Sizes, said: Mapping[str, int], file: Path, config: Path) -> None:
    """Refuse a configuration that is of another network than the weights.

    Args:
        sizes: Sizes of the weights.
        said: What the configuration says of them; see `settings.SHAPES`.
        file: Where the weights come from.
        config: Where the configuration comes from.
    Raises:
        UserError: They differ.
    """
    res2 = sizes.stages["res2"]
    own = {
        "roi_heads.num_classes": sizes.classes,
        "roi_box_head.num_attrs": sizes.attributes,
        "proposal_generator.hidden_channels": sizes.hidden,
        "resnets.depth": 2 + 3 * sum(stage.blocks for stage in sizes.stages.values()),
        "resnets.stem_out_channels": sizes.stem,
        "resnets.res2_out_channels": res2.outputs,
        "resnets.num_groups": res2.groups,
        "resnets.width_per_group": res2.width // res2.groups,
    }
    wanted = dict(said)
    if wanted.get("proposal_generator.hidden_channels") == -1:  # as many as go in
        wanted["proposal_generator.hidden_channels"] = sizes.stages["res4"].outputs
    if "anchor_generator.sizes" in said and "anchor_generator.aspect_ratios" in said:
        wanted["anchors"] = said["anchor_generator.sizes"] * said["anchor_generator.aspect_ratios"]
        own["anchors"] = sizes.anchors
    faults = [f"{key}: {wanted[key]} for {own[key]}" for key in own if wanted.get(key, own[key]) != own[key]]
    if faults:
        raise UserError(f"{config}: is of another detector than {file}: {'; '.join(faults)}; name its own config.yaml")


def _stage(weights: Mapping[str, torch.Tensor], where: str, file: Path) -> StageSizes:
    numbers = {key[len(where) + 1 :].partition(".")[0] for key in weights if key.startswith(f"{where}.")}
    width = weights[f"{where}.0.conv1.weight"].shape[0]
    of_group = weights[f"{where}.0.conv2.weight"].shape[1]
    if width % of_group:
        raise UserError(f"{file}: {where}.0.conv2.weight: {width} channels are no groups of {of_group}")
    return StageSizes(
        blocks=1 + max(int(number) for number in numbers if number.isdecimal()),
        width=width,
        outputs=weights[f"{where}.0.conv3.weight"].shape[0],
        groups=width // of_group,
    )
