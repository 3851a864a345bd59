"""Votes of the oracle, in the place of human validators.

The column `voter` of every row marks them as the oracle's.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from waltz.scenes.oracle.truth import decide_truth
from waltz.scenes.world.graph import Graph

VOTER = "oracle"
VOTES = 3

Vote = Literal["caption", "foil", "both", "neither", "cannot tell"]


def cast_vote(graph: Graph, caption: str, foil: str) -> Vote:
    """Return the oracle's vote on which of two texts describes a scene."""
    verdicts = (decide_truth(graph, caption), decide_truth(graph, foil))
    if "unknown" in verdicts:
        return "cannot tell"
    if verdicts[0] == verdicts[1]:
        return "both" if verdicts[0] == "true" else "neither"
    return "caption" if verdicts[0] == "true" else "foil"


def cast_votes(items: Iterable[Mapping[str, Any]], scene_of: Mapping[str, Graph]) -> list[dict[str, Any]]:
    """Return the oracle's votes on items, counted as three votes for each item.

    Args:
        items: Rows with item_id, image, caption and foil.
        scene_of: Scene of each image.
    Returns:
        item_id, voter, vote, votes_caption, votes_foil, votes_other of each item, in order.
    Raises:
        KeyError: An image belongs to no scene.
    """
    rows = []
    for item in items:
        vote = cast_vote(scene_of[item["image"]], item["caption"], item["foil"])
        counts = {
            "votes_caption": VOTES * (vote == "caption"),
            "votes_foil": VOTES * (vote == "foil"),
            "votes_other": VOTES * (vote not in ("caption", "foil")),
        }
        rows.append({"item_id": item["item_id"], "voter": VOTER, "vote": vote, **counts})
    return rows
