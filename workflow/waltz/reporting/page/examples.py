"""Samples to be looked at on the page: items with what each model made of their texts, and why."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from waltz.attribution.contribution_ratios import compute_contribution_ratios, find_contributing_outputs
from waltz.core.sampling import rank
from waltz.evaluation.metrics.scored_pairs import ALIGNMENT, FOILS, MISMATCHED, PAIRWISE, PERPLEXITY, SINGLE

Row = Mapping[str, Any]

STEPS, DETAIL_STEPS = 999, 99
"""Into how many steps a column's largest magnitude is cut, for one output and for each of many."""
DETAILS, ROOM = 2_000_000, 4_000_000
"""Characters of single output tokens' values, beyond which only their mean ratios are shown, and of all others."""
MEAN = "mean of ratios"
TEXTS = {"caption": "caption", "question": "question", "answer": "gold answer"}
"""Fields of an item that are texts, beside its foil."""
FACTS = ("piece", "condition", "form", "verb", "source", "split", "direction")
JUDGEMENTS = {"valid": ("valid", "not valid"), "match": ("a match", "no match")}
VOTES = ("votes_caption", "votes_foil", "votes_other")
SCORES = ("role", "setting", "score", "probability", "prediction", "correct", "order", "reasoning", "error")
SHARES = ("role", "setting", "explained", "score", "t_shap", "t_shap_se", "estimator", "evaluated", "reason", "error")
TESTS = (
    "role",
    "setting",
    "test",
    "verdict",
    "answer",
    "edited_answer",
    "reason",
    "explanation",
    "edited_input",
    "edited_explanation",
    "inserted",
    "flipped",
    "exchanges",
    "seed",
)
CC_SHAPS = (
    "role",
    "setting",
    "kind",
    "value",
    "standard_error",
    "t_shap_answer",
    "t_shap_explanation",
    "answer",
    "explanation",
    "reason",
    "seed",
)


@dataclass(frozen=True)
class ModelRun:
    """What one model made of one data set.

    Attributes:
        model: The model.
        dataset: The data set.
        evaluation: Rows of the evaluation layout.
        attribution: Rows of the attribution layout; `outputs` names the columns of `phi` where there are several.
        consistency: Rows of the tests of self-consistency.
        cc_shap: Rows of CC-SHAP.
    """

    model: str
    dataset: str
    evaluation: Sequence[Row] = ()
    attribution: Sequence[Row] = ()
    consistency: Sequence[Row] = ()
    cc_shap: Sequence[Row] = ()


def select_examples(attributed: Sequence[str], evaluated: Sequence[str], n: int, seed: int) -> list[str]:
    """The items of a data set that the page shows: those of lowest rank, attributed ones first.

    Args:
        attributed: Ids of items with contributions; repeated ones count once.
        evaluated: Ids of items with scores.
        n: Most items.
        seed: The study's, by which its own samples are drawn.
    """
    first = set(attributed)
    order = sorted({*attributed, *evaluated}, key=lambda item: (item not in first, rank(item, seed), item))
    return order[:n]


def make_browser_data(
    items: Mapping[str, Sequence[Row]],
    runs: Sequence[ModelRun],
    picture: Callable[[str, str], tuple[str | None, str]],
    sizes: Mapping[str, int],
    middle_square: Sequence[str] = (),
) -> dict[str, Any]:
    """All that the sample browser shows, for its script.

    Scores and contributions are lists of values in the order of `fields`, cut after the last that is there.

    Args:
        items: By data set, rows of the benchmark, CV-Probes or questions layout, in the order to be shown.
        runs: What models made of these items; rows of other items are passed over.
        picture: The image of a data set by name, as a data URI and empty text, or None and why there is none.
        sizes: How many items each data set has.
        middle_square: Models that see no more of an image than the square in its middle.
    """
    shown = []
    models = list(dict.fromkeys(run.model for run in runs))
    players: dict[str, int] = {}
    images: dict[str, int] = {}
    for dataset, rows in items.items():
        of = [run for run in runs if run.dataset == dataset]
        by_item = [_group_by_item(run) for run in of]
        for place, row in enumerate(rows):
            results = [
                {"model": models.index(run.model), **result}
                for run, found in zip(of, by_item, strict=True)
                for result in _pack_results(found.get(row["item_id"], {}), players)
            ]
            uri, fault = picture(dataset, row["image"]) if row.get("image") else (None, "")
            image = None if uri is None else images.setdefault(uri, len(images))
            seen = {"image": image, "fault": fault}
            shown.append({"dataset": dataset, "place": place, **_describe_item(row), **seen, "results": results})
    _drop_largest(shown)
    return {
        "datasets": [{"name": name, "items": sizes[name], "shown": len(rows)} for name, rows in items.items()],
        "models": models,
        "fields": {"scores": SCORES, "contributions": SHARES},
        "middle_square": list(middle_square),
        "images": list(images),
        "players": [json.loads(known) for known in players],
        "items": shown,
    }


def describe_outcome(rows: Sequence[Row]) -> str:
    """Whether a model got an item right: `right`, `wrong`, `tie`, or nothing where that is not decided.

    Pairs are right where the caption wins; what has no pair is right where its one text, or answer, is.

    Args:
        rows: Rows of the evaluation layout, of one item and profile.
    """
    settings = {row["setting"] for row in rows}
    for setting in sorted(settings, key=_rank_setting):
        of = {("foil" if row["role"] in FOILS else row["role"]): row for row in rows if row["setting"] == setting}
        if setting in (ALIGNMENT, SINGLE) and {"caption", "foil"} <= of.keys():
            scores = of["caption"]["score"], of["foil"]["score"]
            if None not in scores:
                return "tie" if scores[0] == scores[1] else "right" if scores[0] > scores[1] else "wrong"
        else:
            judged = [row["correct"] for row in [of.get("caption"), *of.values()] if row is not None]
            for correct in judged:
                if correct is not None:
                    return "right" if correct else "wrong"
    return ""


def _rank_setting(setting: str) -> tuple[int, str]:
    known = (PAIRWISE, PERPLEXITY, ALIGNMENT, SINGLE)
    return (known.index(setting) if setting in known else len(known), setting)


def _describe_item(row: Row) -> dict[str, Any]:
    texts = {role: row[field] for field, role in TEXTS.items() if row.get(field)}
    if row.get("foil"):
        texts[MISMATCHED if row.get("instrument") == ALIGNMENT else "foil"] = row["foil"]
    spans = {side: _pack_span(row.get(f"{side}_span")) for side in ("caption", "foil")}
    votes = [str(row[name]) for name in VOTES if row.get(name) is not None]
    facts = [f"{name} {row[name]}" for name in FACTS if row.get(name)]
    facts += [words[not row[name]] for name, words in JUDGEMENTS.items() if row.get(name) is not None]
    if votes:
        facts.append(f"votes of {row.get('voter') or 'people'} for caption, foil, neither: {', '.join(votes)}")
    return {
        "id": row["item_id"],
        "texts": texts,
        "spans": {side: span for side, span in spans.items() if span},
        "facts": facts,
    }


def _pack_span(span: Row | None) -> list[int] | None:
    return [span["start"], span["end"]] if span and span["end"] > span["start"] else None


def _group_by_item(run: ModelRun) -> dict[str, dict[str, list[Row]]]:
    found: dict[str, dict[str, list[Row]]] = {}
    for kind in ("evaluation", "attribution", "consistency", "cc_shap"):
        for row in getattr(run, kind):
            found.setdefault(row["item_id"], {}).setdefault(kind, []).append(row)
    return found


def _pack_results(found: Mapping[str, Sequence[Row]], players: dict[str, int]) -> list[dict[str, Any]]:
    """What was made of an item, one for each profile."""
    profiles = dict.fromkeys(row["profile"] for rows in found.values() for row in rows)
    results = []
    for profile in profiles:
        of = {kind: [row for row in rows if row["profile"] == profile] for kind, rows in found.items()}
        result = {
            "profile": profile,
            "outcome": describe_outcome(of.get("evaluation", [])),
            "scores": [_pack_fields(row, SCORES) for row in of.get("evaluation", [])],
            "contributions": [_pack_attributions(row, players) for row in of.get("attribution", [])],
            "tests": [_select_fields(row, TESTS) for row in of.get("consistency", [])],
            "cc_shap": [_select_fields(row, CC_SHAPS) for row in of.get("cc_shap", [])],
        }
        results.append({key: value for key, value in result.items() if value})
    return results


def _select_fields(row: Row, fields: Sequence[str]) -> dict[str, Any]:
    """Some fields of a row as the page shows them: numbers short, what is empty left out."""
    kept = {field: _simplify(row.get(field)) for field in fields}
    return {field: value for field, value in kept.items() if value not in (None, "", [])}


def _pack_fields(row: Row, fields: Sequence[str]) -> list[Any]:
    """Some fields of a row as a list, cut after the last that is not empty."""
    kept = _select_fields(row, fields)
    length = max((place for place, field in enumerate(fields, 1) if field in kept), default=0)
    return [kept.get(field) for field in fields[:length]]


def _simplify(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [_simplify(part) for part in value]
    return value if isinstance(value, (bool, int, str, dict)) or value is None else str(value)


def _pack_attributions(row: Row, players: dict[str, int]) -> dict[str, Any]:
    """What players contribute; who they are is said once for all rows, under a number."""
    kept: dict[str, Any] = {"is": _pack_fields(row, SHARES)}
    if row["phi"] is None:
        return kept
    phi = np.array(row["phi"], dtype=np.float64)
    spans = [end for span in row["spans"] for end in (span["start"], span["end"])]
    known = {"text": row["text"], "tokens": row["tokens"], "spans": spans, "grid": row["grid"] or 0}
    kept["players"] = players.setdefault(json.dumps(known, ensure_ascii=False), len(players))
    if phi.shape[1] == 1:
        return kept | {"columns": [_quantize("", phi[:, 0], STEPS)]}
    counts = find_contributing_outputs(phi)
    mean = compute_contribution_ratios(phi[:, counts]).mean(axis=1) if counts.any() else np.full(len(phi), np.nan)
    outputs = row.get("outputs") or [f"output {number}" for number in range(1, phi.shape[1] + 1)]
    details = [_quantize(name, phi[:, place], DETAIL_STEPS) for place, name in enumerate(outputs)]
    return kept | {"columns": [_quantize(MEAN, mean, STEPS), *details]}


def _quantize(name: str, phi: np.ndarray, steps: int) -> dict[str, Any]:
    """Shapley values of one output as whole numbers of steps; `step` is how much one is worth."""
    peak = float(np.nan_to_num(np.abs(phi)).max(initial=0))
    step = peak / steps or 1.0
    values = [None if math.isnan(value) else round(value / step) for value in phi.tolist()]
    return {"name": name, "step": float(f"{step:.6g}"), "phi": values}


def _drop_largest(items: Sequence[Mapping[str, Any]]) -> None:
    """Leave out columns that are too many for a page, those of each data set's last items first."""
    details, room = DETAILS, ROOM
    contributions = (
        contribution
        for item in sorted(items, key=lambda item: item["place"])
        for result in item["results"]
        for contribution in result.get("contributions", ())
        if "columns" in contribution
    )
    for contribution in contributions:
        first, *others = contribution["columns"]
        details -= sum(len(str(column)) for column in others)
        room -= len(str(first)) + len(str(contribution["is"]))
        if others and details < 0:
            contribution |= {"columns": [first], "outputs_left_out": len(others)}
        if room < 0:
            del contribution["columns"]
            contribution["left_out"] = True
