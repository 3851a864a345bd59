"""Test verdicts and attributions of recorded runs in the layouts of stage consistency; CC-SHAP is computed anew."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from waltz.attribution.shapley.estimate import Estimate, to_null
from waltz.attribution.t_shap import CONTRIBUTION_RATIO
from waltz.consistency.cc_shap.measure import (
    Companions,
    SharedEstimate,
    compute_cc_shap,
    compute_companions,
    compute_cosine,
    find_shared_players,
)
from waltz.consistency.metrics import SETTING_OF_TEST
from waltz.core.errors import UserError
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.text_diff import Span
from waltz.evaluation.recorded_answers import build_answer_row
from waltz.evaluation.vqa import ANSWER
from waltz.fidelity import get_fidelity
from waltz.sources.formats.recorded_runs import RATIO
from waltz.sources.recorded import read_records

Row = Mapping[str, Any]
OUTPUTS = ("answer", "explanation")


def import_tests(
    file: str | Path, model: Mapping[str, Any], datasets: Iterable[str], profiles: Sequence[str]
) -> Iterator[DatasetResult]:
    """Yield the test verdicts of a recorded model on each data set, as rows of the layout `CONSISTENCY`, under `rows`.

    Args:
        file: Rows of a source of recorded runs.
        model: Name of the model in the study, and its weights.
        profiles: Profiles of the study.
    Raises:
        UserError: The source holds nothing of the model on a data set.
    """
    for dataset, records in read_records(file, model, list(datasets), profiles, "test", "answer"):
        correct = {
            (row["item_id"], row["profile"], row["seed"], row["kind"]): build_answer_row(row)["correct"]
            for row in records.rows
            if row["record"] == "answer"
        }
        rows = [
            build_test_row(
                row, correct.get((row["item_id"], row["profile"], row["seed"], SETTING_OF_TEST[row["test"]]))
            )
            for row in records.rows
            if row["record"] == "test"
        ]
        facts = {**records.facts, "without_verdict": sum(row["verdict"] is None for row in rows)}
        yield DatasetResult(DatasetFiles(dataset, str(file)), {"rows": rows}, records.read, facts)


def import_attributions(
    file: str | Path, model: Mapping[str, Any], datasets: Iterable[str], profiles: Sequence[str]
) -> Iterator[DatasetResult]:
    """Yield CC-SHAP (`rows`) and the attributions (`contributions`) of a recorded model on each data set.

    Arguments and errors are those of `import_tests`. The record has the largest difference between our CC-SHAP and that
    of the run, which is its rounding where both are right.
    """
    for dataset, records in read_records(file, model, list(datasets), profiles, "attribution"):
        pairs: dict[tuple[object, ...], dict[str, Row]] = {}
        for row in records.rows:
            key = tuple(row[name] for name in ("item_id", "profile", "setting", "kind", "seed"))
            pairs.setdefault(key, {})[row["output"]] = row
        rows = [build_cc_shap_row(pair) for pair in pairs.values()]
        differences = [
            abs(row["value"] - recorded)
            for row, pair in zip(rows, pairs.values(), strict=True)
            if row["value"] is not None and (recorded := next(iter(pair.values()))["cc_shap"]) is not None
        ]
        first = min(records.facts["seeds"], default=0)
        contributions = [
            build_attribution_row(pair[output])
            for pair in pairs.values()
            if len(pair) == len(OUTPUTS)
            for output in OUTPUTS
            if pair[output]["seed"] == first
        ]
        facts = {
            **records.facts,
            "rows_without_value": sum(row["value"] is None for row in rows),
            "recorded_values": len(differences),
            "largest_difference": max(differences, default=None),
        }
        tables = {"rows": rows, "contributions": contributions}
        yield DatasetResult(DatasetFiles(dataset, str(file)), tables, records.read, facts)


def build_test_row(record: Row, correct: bool | None) -> dict[str, Any]:
    """Return the row of the layout `CONSISTENCY` of one recorded verdict.

    Args:
        correct: Whether the answer that the test starts from is right; None where it is not recorded.
    """
    columns = ("item_id", "profile", "setting", "test", "seed", "image", "verdict", "answer", "edited_answer")
    texts = ("reason", "explanation", "edited_input", "edited_explanation", "inserted", "flipped")
    exchanges = []
    if record["prompt"] is not None and record["generation"] is not None:
        given = json.dumps({"prompt": record["prompt"]}, ensure_ascii=False)
        exchanges = [{"kind": "recorded", "seed": record["seed"], "given": given, "reply": record["generation"]}]
    return {
        **{name: record[name] for name in (*columns, *texts)},
        "text": record["input"] or "",
        "score": None if record["verdict"] is None else float(record["verdict"]),
        "correct": correct,
        "exchanges": exchanges,
        "error": None,
    }


def build_cc_shap_row(pair: Mapping[str, Row]) -> dict[str, Any]:
    """Return the row of the layout `CC_SHAP` of the recorded attributions of an answer and its explanation.

    Ratios are compared as they are; from Shapley values the ratios of the profile are computed first.

    Args:
        pair: Rows of the layout `RECORDED` by output.
    """
    some = next(iter(pair.values()))
    row: dict[str, Any] = {
        **{name: some[name] for name in ("item_id", "profile", "setting", "kind", "seed", "image")},
        **dict.fromkeys(("value", "standard_error", "with_weak", "weak_answer", "weak_explanation")),
        **dict.fromkeys(field.name for field in fields(Companions)),
        **dict.fromkeys(("ratios_answer", "ratios_explanation", "evaluated", "reason", "error")),
        **{f"t_shap_{name}{ending}": None for name in OUTPUTS for ending in ("", "_se")},
        "answer": some["label"],
        "explanation": None,
    }
    missing = [name for name in OUTPUTS if name not in pair]
    if missing:
        return row | {"reason": f"the run has no usable attribution of the {missing[0]}"}
    answer, explanation = (pair[name] for name in OUTPUTS)
    row |= {f"t_shap_{name}": pair[name]["t_shap"] for name in OUTPUTS}
    row |= {"answer": answer["generation"] or answer["label"], "explanation": explanation["generation"]}
    if answer["unit"] != explanation["unit"] or answer["grid"] != explanation["grid"]:
        return row | {"reason": "answer and explanation have different units or grids of patches"}
    if answer["unit"] == RATIO:
        return row | _compare_ratios(_list_ratios(answer), _list_ratios(explanation))
    try:
        return row | _compare_shapley_values(answer, explanation)
    except UserError as error:
        return row | {"reason": str(error)}


def _list_ratios(record: Row) -> np.ndarray:
    """Return the mean ratios of the players before the query suffix, text first: float64 of shape (players,)."""
    words = record["values"][: len(record["tokens"]) - record["suffix"]]
    ratios: np.ndarray = np.array([*words, *(record["patches"] or [])], dtype=np.float64).mean(axis=1)
    return ratios


def _compare_ratios(answer: np.ndarray, explanation: np.ndarray) -> dict[str, Any]:
    """Return the columns of CC-SHAP of two vectors of ratios."""
    columns: dict[str, Any] = {"ratios_answer": answer.tolist(), "ratios_explanation": explanation.tolist()}
    if len(answer) != len(explanation):
        reason = f"{len(answer)} ratios of the answer, {len(explanation)} of the explanation cannot be compared"
        return {**columns, "reason": reason}
    value = float(compute_cosine(answer, explanation))
    if np.isnan(value):
        return {**columns, "reason": "all ratios of one side are 0"}
    return {**columns, "value": value, "with_weak": value, **vars(compute_companions(answer, explanation))}


def _compare_shapley_values(answer: Row, explanation: Row) -> dict[str, Any]:
    """Return the columns of CC-SHAP of the Shapley values of two prompts."""
    profile = answer["profile"]
    shared = find_shared_players(
        answer["tokens"],
        explanation["tokens"],
        (answer["suffix"], explanation["suffix"]),
        get_fidelity(profile),
        patches=(answer["grid"] or 0) ** 2,
    )
    sides = []
    for record, players in zip((answer, explanation), shared, strict=True):
        phi = np.array([*record["values"], *(record["patches"] or [])], dtype=np.float64)
        unknown = np.full(phi.shape[1], np.nan)
        sides.append(SharedEstimate(Estimate(phi, unknown, unknown, 0), players))
    cc_shap = compute_cc_shap(sides[0], sides[1], profile)
    companions = {field.name: getattr(cc_shap.companions, field.name, None) for field in fields(Companions)}
    return {
        "value": cc_shap.value,
        **companions,
        "with_weak": cc_shap.with_weak,
        "weak_answer": cc_shap.weak_answer,
        "weak_explanation": cc_shap.weak_explanation,
        "ratios_answer": [to_null(ratio) for ratio in cc_shap.ratios_answer],
        "ratios_explanation": [to_null(ratio) for ratio in cc_shap.ratios_explanation],
        "reason": None if cc_shap.value is not None else cc_shap.reason,
    }


def build_attribution_row(record: Row) -> dict[str, Any]:
    """Return the row of the attribution layout of one recorded attribution.

    Ratios are of the players before the query suffix, so the others are left out.
    """
    is_ratio = record["unit"] == RATIO
    words = len(record["tokens"]) - (record["suffix"] if is_ratio else 0)
    tokens, text = record["tokens"][:words], record["prompt"] or record["input"] or ""
    unmeasured = ("score", "base_value", "value", "t_shap_se", "estimator", "budget", "evaluated", "residual")
    return {
        "item_id": record["item_id"],
        "role": "caption" if record["setting"] == "pairwise" else ANSWER,
        "profile": record["profile"],
        "setting": f"{record['kind']}:{record['output']}",
        "image": record["image"],
        "text": text,
        "explained": CONTRIBUTION_RATIO if is_ratio else "recorded",
        "outputs": None,
        **dict.fromkeys((*unmeasured, "without_text", "without_image", "error")),
        "tokens": tokens,
        "spans": locate_tokens(text, tokens),
        "grid": record["grid"] or 0,
        "phi": [*record["values"][:words], *(record["patches"] or [])],
        "t_shap": record["t_shap"],
        "reason": None if record["t_shap"] is not None else "the run has no T-SHAP",
        "seed": record["seed"],
    }


def locate_tokens(text: str, tokens: Sequence[str]) -> list[Span]:
    """Return the characters of a text that each token stands for, in order; empty spans where one is not found.

    A token is compared without its spaces; one of spaces alone stands for nothing.
    """
    spans, end = [], 0
    for token in tokens:
        word = token.strip(" ▁Ġ")
        start = text.find(word, end) if word else end
        if start < 0:
            return [Span(start=0, end=0) for _ in tokens]
        end = start + len(word)
        spans.append(Span(start=start, end=end))
    return spans
