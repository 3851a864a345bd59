"""Slots of toy texts, and the masked model of the scenes."""

from conftest import ROOT
from waltz.core.jobs.devices import Device
from waltz.foils.candidates import Slot
from waltz.model_registry import ModelSpec
from waltz.models.text.masked import load_masked_model

SCENES = ROOT / "resources" / "scenes" / "models" / "masked-lm"


def mark_slot(text):
    """Return the slot between angle brackets."""
    return Slot(
        text.replace("<", "").replace(">", ""), text.index("<"), text.index(">") - 1
    )


SLOTS = [
    mark_slot(text)
    for text in (
        "A man <rides> a horse.",
        "<a> dog sits",
        "A cat sits <on> the table, and the dog",
    )
]
SCENE_SLOTS = [
    mark_slot("A red dog is <next to> the cat."),
    mark_slot("A man <throws> a ball."),
    mark_slot("<There> are two apples on the table, and a woman sits under it."),
]


def load_scenes_model():
    """Load the masked model of the scenes."""
    return load_masked_model(
        ModelSpec("masked-lm", "masked", str(SCENES), "local"), Device("cpu", 1, "test")
    )
