"""Records made of a few columns, with defaults for the others."""

from collections.abc import Iterable, Mapping
from typing import Any

from waltz.core.schema import (
    ComparisonRecord,
    EvaluationRecord,
    FilteredRecord,
    ItemRecord,
    ProbeRecord,
)
from waltz.evaluation.vqa import VqaItem

ITEM: dict[str, Any] = {
    "instrument": "existence",
    "piece": "existence",
    "source": "tests",
    "caption_phrases": [],
    "foil_phrases": [],
    "kept": True,
}
PROBE: dict[str, Any] = {
    "form": "original",
    "verb": "run",
    "image_kind": "contextual",
    "caption_kind": "contextual",
}
COMPARISON: dict[str, Any] = {
    "difference": 12.5,
    "ci_low": 3.1,
    "ci_high": 21.9,
    "p": 0.011,
    "p_holm": 0.011,
    "dataset": "mine",
    "setting": "single",
    "metric": "acc_r",
}
EVALUATION: dict[str, Any] = {"role": "caption", "setting": "alignment"}


def build_items(rows: Iterable[Mapping[str, Any]]) -> list[ItemRecord]:
    return [ItemRecord(**ITEM | row) for row in rows]


def build_candidates(rows: Iterable[Mapping[str, Any]]) -> list[FilteredRecord]:
    return [FilteredRecord(**ITEM | {"caption": "", "foil": ""} | row) for row in rows]


def build_probes(rows: Iterable[Mapping[str, Any]]) -> list[ProbeRecord]:
    return [ProbeRecord(**PROBE | row) for row in rows]


def build_evaluation(rows: Iterable[Mapping[str, Any]]) -> list[EvaluationRecord]:
    return [EvaluationRecord(**EVALUATION | row) for row in rows]


def build_vqa_items(rows: Iterable[Mapping[str, Any]]) -> list[VqaItem]:
    return [VqaItem(**row) for row in rows]


def build_comparison(
    model_a: str = "clip", model_b: str = "blip_2", **columns: Any
) -> ComparisonRecord:
    return ComparisonRecord(
        profile="equations",
        model_a=model_a,
        model_b=model_b,
        n=40,
        **(COMPARISON | columns),
    )
