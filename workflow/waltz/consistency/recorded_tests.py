"""Test verdicts and attributions of recorded runs in the layouts of stage consistency; CC-SHAP is
computed again.
"""

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
    list_companions,
)
from waltz.consistency.metrics import SETTING_OF_TEST
from waltz.core.errors import UserError
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.text_diff import Span
from waltz.evaluation.recorded_answers import build_answer_record
from waltz.evaluation.vqa import ANSWER
from waltz.fidelity import get_fidelity
from waltz.sources.formats.recorded_runs import RATIO
from waltz.sources.recorded import read_records

Row = Mapping[str, Any]
OUTPUTS = ("answer", "explanation")


def import_tests(
    file: str | Path,
    model: Mapping[str, Any],
    datasets: Iterable[str],
    profiles: Sequence[str],
) -> Iterator[DatasetResult]:
    """Yield the test verdicts of a recorded model on each data set, as rows of the layout
    `CONSISTENCY`, under `rows`.

    Args:
        file: File with the rows of recorded runs.
        model: Name of the model in the study, and its weights.
        datasets: Names of the data sets.
        profiles: Profiles of the study.
    Raises:
        UserError: The file has no rows of the model on a data set.
    """
    for dataset, records in read_records(
        file, model, list(datasets), profiles, "test", "answer"
    ):
        # correct: whether each answer is right, by item, run and kind. All tests of a setting start
        # from one answer.
        correct = {}
        for row in records.rows:
            if row["record"] == "answer":
                key = row["item_id"], row["profile"], row["seed"], row["kind"]
                correct[key] = build_answer_record(row).correct
        rows = []
        for row in records.rows:
            if row["record"] == "test":
                key = (
                    row["item_id"],
                    row["profile"],
                    row["seed"],
                    SETTING_OF_TEST[row["test"]],
                )
                rows.append(build_test_row(row, correct.get(key)))
        facts = {
            **records.facts,
            "without_verdict": sum(row["verdict"] is None for row in rows),
        }
        yield DatasetResult(
            DatasetFiles(dataset, str(file)), {"rows": rows}, records.read, facts
        )


def import_attributions(
    file: str | Path,
    model: Mapping[str, Any],
    datasets: Iterable[str],
    profiles: Sequence[str],
) -> Iterator[DatasetResult]:
    """Yield CC-SHAP (`rows`) and the attributions (`contributions`) of a recorded model on each
    data set.

    Arguments and errors are as in `import_tests`. The run record states the largest difference
    between our CC-SHAP and the recorded CC-SHAP; if both are right, it is the rounding of the
    recorded value.
    """
    for dataset, records in read_records(
        file, model, list(datasets), profiles, "attribution"
    ):
        # The attributions of an answer and of its explanation are two records, which are joined to
        # a pair.
        pairs: dict[tuple[object, ...], dict[str, Row]] = {}
        for row in records.rows:
            key = tuple(
                row[name] for name in ("item_id", "profile", "setting", "kind", "seed")
            )
            pairs.setdefault(key, {})[row["output"]] = row
        first_seed = min(records.facts["seeds"], default=0)
        rows, contributions, differences = [], [], []
        for pair in pairs.values():
            row = build_cc_shap_row(pair)
            rows.append(row)
            recorded = next(iter(pair.values()))["cc_shap"]
            if row["value"] is not None and recorded is not None:
                differences.append(abs(row["value"] - recorded))
            # As in our runs, attributions are stored for the first seed.
            if len(pair) == len(OUTPUTS) and row["seed"] == first_seed:
                contributions += [
                    build_attribution_row(pair[output]) for output in OUTPUTS
                ]
        facts = {
            **records.facts,
            "rows_without_value": sum(row["value"] is None for row in rows),
            "recorded_values": len(differences),
            "largest_difference": max(differences, default=None),
        }
        tables = {"rows": rows, "contributions": contributions}
        yield DatasetResult(
            DatasetFiles(dataset, str(file)), tables, records.read, facts
        )


def build_test_row(record: Row, correct: bool | None) -> dict[str, Any]:
    """Convert one recorded verdict to a row of the layout `CONSISTENCY`.

    Args:
        correct: Whether the answer that the test starts from is right; None if it is not recorded.
    """
    columns = (
        "item_id",
        "profile",
        "setting",
        "test",
        "seed",
        "image",
        "verdict",
        "answer",
        "edited_answer",
    )
    texts = (
        "reason",
        "explanation",
        "edited_input",
        "edited_explanation",
        "inserted",
        "flipped",
    )
    exchanges = []
    if record["prompt"] is not None and record["generation"] is not None:
        inputs = json.dumps({"prompt": record["prompt"]}, ensure_ascii=False)
        exchanges = [
            {
                "kind": "recorded",
                "seed": record["seed"],
                "given": inputs,
                "reply": record["generation"],
            }
        ]
    return {
        **{name: record[name] for name in (*columns, *texts)},
        "text": record["input"] or "",
        "score": None if record["verdict"] is None else float(record["verdict"]),
        "correct": correct,
        "exchanges": exchanges,
        "error": None,
    }


def build_cc_shap_row(pair: Mapping[str, Row]) -> dict[str, Any]:
    """Compute CC-SHAP from the recorded attributions of an answer and its explanation: a row of the
    layout `CC_SHAP`.

    Recorded ratios are compared as they are. From recorded Shapley values the ratios of the profile
    are computed first.

    Args:
        pair: Rows of the layout `RECORDED` by output, `answer` and `explanation`.
    """
    # Columns that a run does not record stay null.
    first = next(iter(pair.values()))
    row: dict[str, Any] = {
        **{
            name: first[name]
            for name in ("item_id", "profile", "setting", "kind", "seed", "image")
        },
        **dict.fromkeys(
            ("value", "standard_error", "with_weak", "weak_answer", "weak_explanation")
        ),
        **dict.fromkeys(field.name for field in fields(Companions)),
        **dict.fromkeys(
            ("ratios_answer", "ratios_explanation", "evaluated", "reason", "error")
        ),
        **dict.fromkeys(
            (
                "t_shap_answer",
                "t_shap_answer_se",
                "t_shap_explanation",
                "t_shap_explanation_se",
            )
        ),
        "answer": first["label"],
        "explanation": None,
    }
    missing = [name for name in OUTPUTS if name not in pair]
    if missing:
        return row | {
            "reason": f"the run has no usable attribution of the {missing[0]}"
        }
    answer, explanation = (pair[name] for name in OUTPUTS)
    row |= {f"t_shap_{name}": pair[name]["t_shap"] for name in OUTPUTS}
    row |= {
        "answer": answer["generation"] or answer["label"],
        "explanation": explanation["generation"],
    }
    if answer["unit"] != explanation["unit"] or answer["grid"] != explanation["grid"]:
        return row | {
            "reason": "answer and explanation have different units or grids of patches"
        }
    # Recorded ratios are already taken over the shared players.
    if answer["unit"] == RATIO:
        return row | _compare_ratios(_list_ratios(answer), _list_ratios(explanation))
    try:
        return row | _compare_shapley_values(answer, explanation)
    except UserError as error:
        return row | {"reason": str(error)}


def _list_ratios(record: Row) -> np.ndarray:
    """Return the mean ratios over outputs of the players before the query suffix, text first: shape
    (players,).
    """
    text_values = record["values"][: len(record["tokens"]) - record["suffix"]]
    # (players, outputs)
    values = np.array([*text_values, *(record["patches"] or [])], dtype=np.float64)
    ratios: np.ndarray = values.mean(axis=1)
    return ratios


def _compare_ratios(answer: np.ndarray, explanation: np.ndarray) -> dict[str, Any]:
    """Return the columns of CC-SHAP for two recorded vectors of ratios, or the reason why there is
    no value.
    """
    columns: dict[str, Any] = {
        "ratios_answer": answer.tolist(),
        "ratios_explanation": explanation.tolist(),
    }
    if len(answer) != len(explanation):
        reason = f"{len(answer)} ratios of the answer, {len(explanation)} of the explanation cannot be compared"
        return {**columns, "reason": reason}
    value = float(compute_cosine(answer, explanation))
    if np.isnan(value):
        return {**columns, "reason": "all ratios of one side are 0"}
    return {
        **columns,
        "value": value,
        "with_weak": value,
        **vars(compute_companions(answer, explanation)),
    }


def _compare_shapley_values(answer: Row, explanation: Row) -> dict[str, Any]:
    """Return the columns of CC-SHAP for the recorded Shapley values of two prompts."""
    fidelity = get_fidelity(answer["profile"])
    shared = find_shared_players(
        answer["tokens"],
        explanation["tokens"],
        (answer["suffix"], explanation["suffix"]),
        fidelity,
        patches=(answer["grid"] or 0) ** 2,
    )
    estimates = []
    for record, players in zip((answer, explanation), shared, strict=True):
        # (players, outputs)
        phi = np.array(
            [*record["values"], *(record["patches"] or [])], dtype=np.float64
        )
        # A run does not record the values of the empty and of the full coalition, which CC-SHAP
        # does not need.
        unknown = np.full(phi.shape[1], np.nan)
        estimates.append(SharedEstimate(Estimate(phi, unknown, unknown, 0), players))
    cc_shap = compute_cc_shap(estimates[0], estimates[1], fidelity)
    return {
        "value": cc_shap.value,
        **list_companions(cc_shap),
        "with_weak": cc_shap.with_weak,
        "weak_answer": cc_shap.weak_answer,
        "weak_explanation": cc_shap.weak_explanation,
        "ratios_answer": [to_null(ratio) for ratio in cc_shap.ratios_answer],
        "ratios_explanation": [to_null(ratio) for ratio in cc_shap.ratios_explanation],
        "reason": None if cc_shap.value is not None else cc_shap.reason,
    }


def build_attribution_row(record: Row) -> dict[str, Any]:
    """Convert one recorded attribution to a row of the attribution layout.

    Ratios are recorded for the players before the query suffix only, so that the tokens of the
    suffix are dropped.
    """
    is_ratio = record["unit"] == RATIO
    n_text = len(record["tokens"])
    if is_ratio:
        n_text -= record["suffix"]
    tokens, text = record["tokens"][:n_text], record["prompt"] or record["input"] or ""
    unmeasured = (
        "score",
        "base_value",
        "value",
        "t_shap_se",
        "estimator",
        "requested",
        "evaluated",
        "residual",
    )
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
        "phi": [*record["values"][:n_text], *(record["patches"] or [])],
        "t_shap": record["t_shap"],
        "reason": None if record["t_shap"] is not None else "the run has no T-SHAP",
        "seed": record["seed"],
    }


def locate_tokens(text: str, tokens: Sequence[str]) -> list[Span]:
    """Return the start and end of each token in a text; all spans are empty if a token is not
    found.

    Tokens are found one after the other. A token is compared without the spaces around it; a token
    of spaces has an empty span.
    """
    # "▁" and "Ġ" mark a space in the vocabularies of SentencePiece and of GPT-2.
    spans, end = [], 0
    for token in tokens:
        word = token.strip(" ▁Ġ")
        start = text.find(word, end) if word else end
        if start < 0:
            return [Span(start=0, end=0) for _ in tokens]
        end = start + len(word)
        spans.append(Span(start=start, end=end))
    return spans
