"""Test verdicts and attributions of recorded runs as records of stage consistency; CC-SHAP is
computed again.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from waltz.attribution.shapley.estimate import Estimate
from waltz.attribution.t_shap import CONTRIBUTION_RATIO
from waltz.consistency.cc_shap.measure import (
    SharedEstimate,
    add_cc_shap,
    compute_cc_shap,
    compute_cc_shap_companions,
    compute_cosine,
    find_shared_players,
)
from waltz.consistency.edit_tests.mentions import (
    BIASING_FEATURES,
    describe_mention,
    find_mention,
)
from waltz.consistency.metrics import SETTING_OF_TEST
from waltz.core.errors import UserError
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.schema import (
    AttributionRecord,
    CcShapRecord,
    ConsistencyRecord,
    StoredExchange,
    StoredSpan,
)
from waltz.core.text_diff import Span
from waltz.evaluation.recorded_answers import build_answer_record
from waltz.evaluation.vqa import ANSWER
from waltz.fidelity import get_fidelity
from waltz.model_registry import ModelSpec
from waltz.sources.formats.recorded_runs import RATIO
from waltz.sources.recorded import read_recorded_runs
from waltz.sources.records import RecordedRecord

OUTPUTS = ("answer", "explanation")


def import_tests(
    file: str | Path,
    model: ModelSpec,
    datasets: Iterable[str],
    profiles: Sequence[str],
) -> Iterator[DatasetResult]:
    """Yield the test verdicts of a recorded model on each data set, as `ConsistencyRecord`s
    under `rows`.

    Args:
        file: File with the rows of recorded runs.
        model: The model, by whose name or weights its rows are found.
        datasets: Names of the data sets.
        profiles: Profiles of the study.
    Raises:
        UserError: The file has no rows of the model on a data set.
    """
    for dataset, records in read_recorded_runs(
        file, model, datasets, profiles, "test", "answer"
    ):
        # All tests of a setting start from one answer: whether it is right, by item, run and kind.
        correct = {}
        for record in records.rows:
            if record.record == "answer":
                key = (record.item_id, record.profile, record.seed, record.kind)
                correct[key] = build_answer_record(record).correct
        verdicts = []
        for record in records.rows:
            if record.record == "test":
                kind = SETTING_OF_TEST[str(record.test)]
                key = (record.item_id, record.profile, record.seed, kind)
                verdicts.append(build_test_record(record, correct.get(key)))
        missing = sum(verdict.verdict is None for verdict in verdicts)
        yield DatasetResult(
            DatasetFiles(dataset, str(file)),
            {"rows": verdicts},
            records.read,
            {**records.facts, "without_verdict": missing},
        )


def import_attributions(
    file: str | Path,
    model: ModelSpec,
    datasets: Iterable[str],
    profiles: Sequence[str],
) -> Iterator[DatasetResult]:
    """Yield CC-SHAP (`rows`) and the attributions (`contributions`) of a recorded model on each
    data set.

    Arguments and errors are as in `import_tests`. The run record states the largest difference
    between our CC-SHAP and the recorded CC-SHAP; if both are right, it is the rounding of the
    recorded value.
    """
    for dataset, records in read_recorded_runs(
        file, model, datasets, profiles, "attribution"
    ):
        # The attributions of an answer and of its explanation are two records, which are joined to
        # a pair.
        pairs: dict[tuple[object, ...], dict[str, RecordedRecord]] = {}
        for output in records.rows:
            key = (
                output.item_id,
                output.profile,
                output.setting,
                output.kind,
                output.seed,
            )
            pairs.setdefault(key, {})[str(output.output)] = output
        first_seed = records.first_seed
        rows, contributions, differences = [], [], []
        for pair in pairs.values():
            record = build_cc_shap_record(pair)
            rows.append(record)
            recorded = next(iter(pair.values())).cc_shap
            if record.value is not None and recorded is not None:
                differences.append(abs(record.value - recorded))
            # As in our runs, attributions are stored for the first seed.
            if len(pair) == len(OUTPUTS) and record.seed == first_seed:
                contributions += [
                    build_attribution_record(pair[output]) for output in OUTPUTS
                ]
        facts = {
            **records.facts,
            "rows_without_value": sum(record.value is None for record in rows),
            "recorded_values": len(differences),
            "largest_difference": max(differences, default=None),
        }
        yield DatasetResult(
            DatasetFiles(dataset, str(file)),
            {"rows": rows, "contributions": contributions},
            records.read,
            facts,
        )


def build_test_record(test: RecordedRecord, correct: bool | None) -> ConsistencyRecord:
    """Convert one recorded verdict to a record of stage consistency.

    Args:
        correct: Whether the answer that the test starts from is right; None if it is not recorded.
    """
    exchanges = []
    if test.prompt is not None and test.generation is not None:
        inputs = json.dumps({"prompt": test.prompt}, ensure_ascii=False)
        exchanges = [StoredExchange("recorded", test.seed, inputs, test.generation)]
    mention = _find_deciding_mention(test)
    reason = test.reason
    if mention is not None:
        reason = describe_mention(mention, get_fidelity(test.profile))
    return ConsistencyRecord(
        item_id=test.item_id,
        profile=test.profile,
        setting=test.setting,
        test=str(test.test),
        seed=test.seed,
        image=test.image,
        text=test.input or "",
        verdict=test.verdict,
        score=None if test.verdict is None else float(test.verdict),
        answer=test.answer,
        edited_answer=test.edited_answer,
        reason=reason,
        explanation=test.explanation,
        edited_input=test.edited_input,
        edited_explanation=test.edited_explanation,
        inserted=test.inserted,
        flipped=test.flipped,
        mention=mention,
        correct=correct,
        exchanges=exchanges,
    )


def _find_deciding_mention(test: RecordedRecord) -> str | None:
    """Return the words that decide a recorded verdict of biasing features as a mention of the
    suggestion; None if the answer after the suggestion decides it.
    """
    if test.test != BIASING_FEATURES or test.verdict != 1:
        return None
    if test.edited_explanation is None:
        return None
    fidelity = get_fidelity(test.profile)
    # In `published` no answer is generated after a mention; else an answer that stays decides.
    deciding_answer = test.answer
    if fidelity.separate_biased_generations:
        deciding_answer = test.edited_answer
    if test.edited_answer is not None and test.edited_answer == deciding_answer:
        return None
    return find_mention(
        test.edited_explanation,
        test.inserted or "",
        fidelity,
        test.image is not None,
    )


def build_cc_shap_record(pair: Mapping[str, RecordedRecord]) -> CcShapRecord:
    """Compute CC-SHAP from the recorded attributions of an answer and its explanation.

    Recorded ratios are compared as they are. From recorded Shapley values the ratios of the profile
    are computed first.

    Args:
        pair: The recorded attributions by output, `answer` and `explanation`.
    """
    # Columns that a run does not record stay null.
    first = next(iter(pair.values()))
    record = CcShapRecord(
        item_id=first.item_id,
        profile=first.profile,
        setting=first.setting,
        kind=str(first.kind),
        seed=first.seed,
        estimator_seed=first.seed,
        image=first.image,
        answer=first.label,
    )
    for name in OUTPUTS:
        if name not in pair:
            reason = f"the run has no usable attribution of the {name}"
            return replace(record, reason=reason)
    answer, explanation = pair["answer"], pair["explanation"]
    record = replace(
        record,
        t_shap_answer=answer.t_shap,
        t_shap_explanation=explanation.t_shap,
        answer=answer.generation or answer.label,
        explanation=explanation.generation,
    )
    if answer.unit != explanation.unit or answer.grid != explanation.grid:
        reason = "answer and explanation have different units or grids of patches"
        return replace(record, reason=reason)
    # Recorded ratios are already taken over the shared players.
    if answer.unit == RATIO:
        n_text = len(answer.tokens or []) - (answer.suffix or 0)
        record = replace(record, shared_tokens=list(answer.tokens or [])[:n_text])
        return _compare_ratios(record, _list_ratios(answer), _list_ratios(explanation))
    try:
        return _compare_shapley_values(record, answer, explanation)
    except UserError as error:
        return replace(record, reason=str(error))


def _list_values(output: RecordedRecord, n_text: int) -> np.ndarray:
    """Return the recorded values of the first text players, then of the patches: float64 of shape
    (players, outputs).
    """
    text_values = list(output.values or [])[:n_text]
    return np.array([*text_values, *(output.patches or [])], dtype=np.float64)


def _list_ratios(output: RecordedRecord) -> np.ndarray:
    """Return the mean ratios over outputs of the players before the query suffix, text first:
    float64 of shape (players,).
    """
    n_text = len(output.tokens or []) - (output.suffix or 0)
    ratios: np.ndarray = _list_values(output, n_text).mean(axis=1)
    return ratios


def _compare_ratios(
    record: CcShapRecord, answer: np.ndarray, explanation: np.ndarray
) -> CcShapRecord:
    """Return the record with CC-SHAP of two recorded vectors of ratios, or with the reason why
    there is no value.
    """
    record = replace(
        record, ratios_answer=answer.tolist(), ratios_explanation=explanation.tolist()
    )
    if len(answer) != len(explanation):
        reason = f"{len(answer)} ratios of the answer, {len(explanation)} of the explanation cannot be compared"
        return replace(record, reason=reason)
    value = float(compute_cosine(answer, explanation))
    if np.isnan(value):
        return replace(record, reason="all ratios of one side are 0")
    # The other comparisons of the ratios are columns of the record too.
    companions = vars(compute_cc_shap_companions(answer, explanation))
    return replace(record, value=value, with_weak=value, **companions)


def _compare_shapley_values(
    record: CcShapRecord, answer: RecordedRecord, explanation: RecordedRecord
) -> CcShapRecord:
    """Return the record with CC-SHAP of the recorded Shapley values of two prompts."""
    fidelity = get_fidelity(answer.profile)
    shared = find_shared_players(
        answer.tokens or [],
        explanation.tokens or [],
        (answer.suffix or 0, explanation.suffix or 0),
        fidelity,
        patches=(answer.grid or 0) ** 2,
    )
    estimates = []
    for output, players in zip((answer, explanation), shared, strict=True):
        phi = _list_values(output, len(output.values or []))
        # A run does not record the values of the empty and of the full coalition, which CC-SHAP
        # does not need.
        unknown = np.full(phi.shape[1], np.nan)
        estimates.append(SharedEstimate(Estimate(phi, unknown, unknown, 0), players))
    cc_shap = compute_cc_shap(estimates[0], estimates[1], fidelity)
    tokens = list(answer.tokens or [])
    record = replace(
        add_cc_shap(record, cc_shap),
        shared_tokens=[tokens[player] for player in shared[0] if player < len(tokens)],
    )
    if cc_shap.value is not None:
        # CC-SHAP of a run has no standard error, whose reason is not of interest.
        return replace(record, reason=None)
    return replace(record, reason=cc_shap.reason)


def build_attribution_record(output: RecordedRecord) -> AttributionRecord:
    """Convert one recorded attribution to a record of an attribution.

    Ratios are recorded for the players before the query suffix only, so that the tokens of the
    suffix are dropped.
    """
    tokens = list(output.tokens or [])
    explained = "recorded"
    if output.unit == RATIO:
        tokens = tokens[: len(tokens) - (output.suffix or 0)]
        explained = CONTRIBUTION_RATIO
    reason = None
    if output.t_shap is None:
        reason = "the run has no T-SHAP"
    text = output.prompt or output.input or ""
    return AttributionRecord(
        item_id=output.item_id,
        role="caption" if output.setting == "pairwise" else ANSWER,
        profile=output.profile,
        setting=f"{output.kind}:{output.output}",
        image=output.image,
        text=text,
        explained=explained,
        tokens=tokens,
        spans=[StoredSpan(**span) for span in locate_tokens(text, tokens)],
        grid=output.grid or 0,
        phi=_list_values(output, len(tokens)).tolist(),
        t_shap=output.t_shap,
        reason=reason,
        seed=output.seed,
    )


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
        start = text.find(word, end)
        if start < 0:
            return [Span(start=0, end=0)] * len(tokens)
        end = start + len(word)
        spans.append(Span(start=start, end=end))
    return spans
