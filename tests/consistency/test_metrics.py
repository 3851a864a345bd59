"""Numbers over items and seeds, by hand, from rows as the stage writes them."""

import csv
import math

import numpy as np
import pytest

from waltz.attribution.t_shap import compute_jackknife_error
from waltz.consistency.cc_shap.measure import compute_cosine
from waltz.consistency.edit_tests.tests import TESTS
from waltz.consistency.metrics import (
    SETTING_OF_TEST,
    ConsistencyRows,
    build_correlation_records,
    build_metric_records,
    collect_series,
)
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.resources import RESOURCES
from waltz.core.intervals import Resampling, bound_common_error
from waltz.core.records import read_records, to_row, write_records
from waltz.core.schema import (
    CC_SHAP,
    CONSISTENCY,
    EDITED,
    METRICS,
    CcShapRecord,
    ConsistencyRecord,
    EditedRecord,
    MetricRecord,
)

HOW = Resampling(resamples=200, confidence=0.95, seed=1)
PUBLISHED = RESOURCES / "published"


def verdict_row(item, test, verdict, seed=0, image=None, setting="choice", **more):
    names = {
        "item_id": item,
        "profile": "equations",
        "setting": setting,
        "test": test,
        "seed": seed,
        "image": image,
    }
    return {
        **names,
        "verdict": verdict,
        "correct": None,
        "reason": None,
        "error": None,
        **more,
    }


def cc_shap_row(item, kind, value, seed=0, image=None, **more):
    columns = dict.fromkeys(CC_SHAP.schema.names)
    names = {
        "item_id": item,
        "profile": "equations",
        "setting": "choice",
        "kind": kind,
        "seed": seed,
        "image": image,
    }
    return {**columns, **names, "value": value, **more}


def edited_row(item, answer, explanation, **more):
    columns = dict.fromkeys(EDITED.schema.names)
    names = {"item_id": item, "profile": "equations", "setting": "choice", "seed": 0}
    shares = {"inserted_answer": 0.25, "inserted_explanation": 0.5}
    return {
        **columns,
        **names,
        "answer": answer,
        "explanation": explanation,
        **shares,
        **more,
    }


def build_run(tests=(), cc_shap=(), edits=()):
    return ConsistencyRows(
        [ConsistencyRecord(**{"text": "?", **row}) for row in tests],
        [CcShapRecord(**row) for row in cc_shap],
        [EditedRecord(**row) for row in edits],
    )


def index_metrics(rows):
    return {
        (row["dataset"], row["setting"], row["metric"]): row
        for row in map(to_row, rows)
    }


def one(tests=(), cc_shap=(), edits=()):
    run = {("m", "d"): build_run(tests, cc_shap, edits)}
    return index_metrics(build_metric_records(run, HOW)), index_metrics(
        build_correlation_records(run, HOW)
    )


def test_every_test_has_the_setting_that_print_puts_it_in():
    assert set(SETTING_OF_TEST) == set(TESTS)
    with (PUBLISHED / "thesis-5.2.csv").open(encoding="utf-8") as file:
        paper_cells = {(row["metric"], row["setting"]) for row in csv.DictReader(file)}
    assert set(SETTING_OF_TEST.items()) <= paper_cells


def test_a_test_is_percent_of_items_with_a_verdict():
    verdicts = [1, 0, 1, 1, None]
    metrics, _ = one(
        [
            verdict_row(str(place), "paraphrasing", verdict)
            for place, verdict in enumerate(verdicts)
        ]
    )
    row = metrics["d", "cot", "paraphrasing"]
    assert (row["value"], row["n"]) == (75.0, 4)
    assert row["ci_low"] < 75 < row["ci_high"]
    assert metrics["d", "cot", "paraphrasing:seed=0"]["value"] == 75.0
    assert (
        metrics["d", "cot", "paraphrasing:sd"]["reason"]
        == "one run; a standard deviation needs two"
    )


def test_a_model_that_does_not_sample_has_no_deviation_and_the_reason():
    rows = [verdict_row(str(item), "paraphrasing", 1, sampled=False) for item in (1, 2)]
    metrics, _ = one(rows)
    deviation = metrics["d", "cot", "paraphrasing:sd"]
    assert deviation["value"] is None
    assert deviation["reason"] == "one run: the model does not sample"


def test_verdicts_that_rest_on_a_mention_are_percent_of_items_with_a_verdict():
    rows = [
        verdict_row("1", "biasing_features", 1, mention="you said"),
        verdict_row("2", "biasing_features", 1),
        verdict_row("3", "biasing_features", 0),
        verdict_row("4", "biasing_features", None),
        verdict_row("5", "biasing_features", 1, mention="suggest"),
    ]
    metrics, correlations = one(rows)
    assert metrics["d", "cot", "biasing_features"]["value"] == 75
    mentions = metrics["d", "cot", "biasing_features:mentions"]
    assert (mentions["value"], mentions["n"]) == (50, 4)
    assert 0 <= mentions["ci_low"] < 50 < mentions["ci_high"] <= 100
    assert not correlations


def test_mean_and_deviation_over_three_seeds():
    shares = {0: [1, 0], 1: [1, 1], 2: [0, 0]}
    metrics, _ = one(
        [
            verdict_row(str(i), "filler_tokens", v, seed)
            for seed, vs in shares.items()
            for i, v in enumerate(vs)
        ]
    )
    row = metrics["d", "cot", "filler_tokens"]
    assert (row["value"], row["n"]) == (50.0, 2)
    # Of 50, 100, 0.
    assert metrics["d", "cot", "filler_tokens:sd"]["value"] == pytest.approx(50.0)
    assert metrics["d", "cot", "filler_tokens:sd"]["n"] == 3
    assert [
        metrics["d", "cot", f"filler_tokens:seed={seed}"]["value"] for seed in shares
    ] == [50, 100, 0]


def test_a_mean_over_seeds_has_the_interval_of_its_items_not_of_seeds():
    # Seeds agree, so that the interval of the mean is that of one seed.
    rows = [
        verdict_row(str(i), "filler_tokens", i % 2, seed)
        for seed in (0, 1)
        for i in range(8)
    ]
    metrics, _ = one(rows)
    mean, single = (
        metrics["d", "cot", "filler_tokens"],
        metrics["d", "cot", "filler_tokens:seed=0"],
    )
    assert (mean["ci_low"], mean["ci_high"]) == (single["ci_low"], single["ci_high"])


def test_without_verdicts_the_reason_of_the_rows_is_reported():
    metrics, _ = one(
        [verdict_row("a", "adding_mistakes", None, reason="no mistake was made")]
    )
    assert metrics["d", "cot", "adding_mistakes"]["value"] is None
    assert (
        metrics["d", "cot", "adding_mistakes"]["reason"]
        == "none of 1 items has one: no mistake was made"
    )
    metrics, _ = one(
        [verdict_row("a", "adding_mistakes", None, error="the prompt is too long")]
    )
    assert "the prompt is too long" in metrics["d", "cot", "adding_mistakes"]["reason"]


def test_cc_shap_its_companions_and_shares_of_text():
    rows = [
        cc_shap_row(
            "a",
            "post-hoc",
            0.2,
            image="i",
            kl=1.0,
            t_shap_answer=0.5,
            t_shap_explanation=0.9,
        ),
        cc_shap_row(
            "b",
            "post-hoc",
            0.6,
            image="j",
            kl=0.5,
            t_shap_answer=0.7,
            t_shap_explanation=None,
        ),
        cc_shap_row("c", "post-hoc", None, image="k", reason="no tokens"),
    ]
    metrics, _ = one(cc_shap=rows)
    assert metrics["d", "post-hoc", "cc_shap_posthoc"]["value"] == pytest.approx(0.4)
    assert metrics["d", "post-hoc", "cc_shap_posthoc"]["n"] == 2
    assert metrics["d", "post-hoc", "cc_shap_posthoc:kl"]["value"] == pytest.approx(
        0.75
    )
    assert metrics["d", "post-hoc", "t_shap_prediction_shared"][
        "value"
    ] == pytest.approx(60)
    assert metrics["d", "post-hoc", "t_shap_explanation_shared"][
        "value"
    ] == pytest.approx(90)
    published, _ = one(cc_shap=[{**row, "profile": "published"} for row in rows])
    assert published["d", "post-hoc", "t_shap_prediction"]["value"] == pytest.approx(60)
    assert published["d", "post-hoc", "t_shap_explanation"]["value"] == pytest.approx(
        90
    )
    assert not published.keys() & {
        ("d", "post-hoc", f"t_shap_{side}_shared")
        for side in ("prediction", "explanation")
    }


@pytest.mark.parametrize(("margin", "verdict"), [(0.5, 1), (0.005, 0)])
def test_an_excess_is_equivalent_to_0_if_its_90_percent_interval_is_within_the_margin(
    margin, verdict
):
    # Answers and explanations are unrelated.
    ratios = np.random.default_rng(1).normal(size=(2, 60, 20))
    rows = [
        CcShapRecord(
            **cc_shap_row(
                str(item),
                "cot",
                0.0,
                ratios_answer=ratios[0, item].tolist(),
                ratios_explanation=ratios[1, item].tolist(),
            )
        )
        for item in range(60)
    ]
    records = build_metric_records(
        {("m", "d"): ConsistencyRows(cc_shap=rows)}, HOW, margin=margin
    )
    measures = {record.metric: record.measure for record in records}
    assert measures["cc_shap_cot:excess_equivalent"].value == verdict
    # The interval at 95 % is wider than 0.01, and lies within ± 0.5.
    excess = measures["cc_shap_cot:excess"]
    assert 0.01 < excess.ci_high - excess.ci_low < 0.2


def test_texts_without_an_image_have_no_share_of_text():
    metrics, _ = one(cc_shap=[cc_shap_row("a", "cot", 0.2, t_shap_answer=1.0)])
    assert not [key for key in metrics if key[2].startswith("t_shap")]


def test_a_correlation_times_100_with_n_and_an_interval_that_draws_images():
    verdicts, scores = [1, 1, 0, 0] * 5, [0.2, 0.8, 0.0, 0.2] * 5
    tests = [
        verdict_row(str(place), "paraphrasing", verdict)
        for place, verdict in enumerate(verdicts)
    ]
    cot = [cc_shap_row(str(place), "cot", score) for place, score in enumerate(scores)]
    _, correlations = one(
        tests,
        [*cot, *(cc_shap_row(str(place), "post-hoc", 0.1) for place in range(20))],
    )
    row = correlations["d", "cot", "paraphrasing"]
    assert row["value"] == pytest.approx(100 * (0.5 - 0.1) / math.sqrt(0.09) * 0.5)
    assert row["n"] == 20
    assert row["ci_low"] < row["value"] < row["ci_high"] <= 100
    # One image for all items says nothing of how images differ.
    together = (
        [{**row, "image": "one"} for row in tests],
        [{**row, "image": "one"} for row in cot],
    )
    row = one(*together)[1]["d", "cot", "paraphrasing"]
    assert (row["ci_low"], row["ci_high"]) == (None, None)


def test_a_constant_test_has_no_correlation_and_says_so():
    tests = [verdict_row(str(place), "paraphrasing", 1) for place in range(4)]
    _, correlations = one(
        tests, [cc_shap_row(str(place), "cot", place / 4) for place in range(4)]
    )
    row = correlations["d", "cot", "paraphrasing"]
    assert (row["value"], row["n"], row["reason"]) == (
        None,
        4,
        "the test is constant: all 4 verdicts are 1",
    )


def test_tests_correlate_with_the_cc_shap_of_their_own_setting_and_seed():
    tests = [
        verdict_row(item, "counterfactual_edits", verdict, seed)
        for item, verdict in (("a", 0), ("b", 1))
        for seed in (0, 1)
    ]
    scores = [
        cc_shap_row(item, "post-hoc", value, seed)
        for seed in (0, 1)
        for item, value in (("a", seed), ("b", 1 - seed))
    ]
    _, correlations = one(tests, [*scores, cc_shap_row("a", "cot", 0.5)])
    assert [
        correlations["d", "post-hoc", f"counterfactual_edits:seed={seed}"]["value"]
        for seed in (0, 1)
    ] == [
        100,
        -100,
    ]
    assert correlations["d", "post-hoc", "counterfactual_edits"][
        "value"
    ] == pytest.approx(0)


def test_the_rescaled_average_matches_the_paper_tables():
    runs = {}
    for table in ("thesis-5.2", "thesis-C.2"):
        for row in csv.DictReader((PUBLISHED / f"{table}.csv").open(encoding="utf-8")):
            if row["model"] != "falcon-7b" or row["metric"].startswith("accuracy"):
                continue
            tests, cc_shap = runs.setdefault(("falcon-7b", row["dataset"]), ([], []))
            value = float(row["value"])
            if row["metric"].startswith("cc_shap"):
                cc_shap.extend(
                    cc_shap_row(item, row["setting"], value) for item in "01"
                )
            else:
                tests.extend(
                    verdict_row(str(i), row["metric"], int(i < value))
                    for i in range(100)
                )
    metrics = index_metrics(
        build_metric_records({key: build_run(*rows) for key, rows in runs.items()}, HOW)
    )
    for metric, value, cells in (
        ("rescaled_average", 36.3, 41),
        ("rescaled_tests", 30.99, 31),
        ("rescaled_cc_shap", 52.55, 10),
    ):
        row = metrics["average", "", metric]
        assert row["value"] == pytest.approx(value, abs=0.06)
        assert row["n"] == cells
        assert row["ci_low"] <= row["value"] <= row["ci_high"]


def test_a_rescaled_average_with_a_cell_missing_has_none():
    metrics, _ = one(
        [verdict_row("a", "paraphrasing", None, reason="x")],
        [cc_shap_row("a", "cot", 0.5)],
    )
    assert (
        metrics["average", "", "rescaled_average"]["reason"]
        == "no value for paraphrasing on d"
    )


def test_accuracies_over_seeds_count_each_answer_once_whatever_tests_start_from_it():
    # right before the chain of thought: 1 of 2 with the first seed, 0 of 2 with the second; after
    # it 1 and 2 of 2
    before = {("a", 1): True, ("b", 1): False, ("a", 2): False, ("b", 2): False}
    after = {("a", 1): True, ("b", 1): False, ("a", 2): True, ("b", 2): True}
    tests = [
        verdict_row(item, test, 1, seed=seed, correct=correct[item, seed])
        for correct, names in (
            (before, ("counterfactual_edits",)),
            (after, ("early_answering", "filler_tokens", "paraphrasing")),
        )
        for item, seed in correct
        for test in names
    ]
    tests.append(verdict_row("c", "paraphrasing", None, seed=1))  # no answer
    metrics, _ = one(tests)
    values = {
        metric: metrics["d", setting, metric]["value"]
        for _, setting, metric in metrics
        if "accuracy" in metric
    }
    assert values == {
        "accuracy": 25.0,
        "accuracy:sd": pytest.approx(50 / math.sqrt(2)),
        "accuracy:seed=1": 50.0,
        "accuracy:seed=2": 0.0,
        "accuracy_cot": 75.0,
        "accuracy_cot:sd": pytest.approx(50 / math.sqrt(2)),
        "accuracy_cot:seed=1": 50.0,
        "accuracy_cot:seed=2": 100.0,
    }
    assert metrics["d", "cot", "accuracy_cot"]["n"] == 2


def test_edits_support_or_refute_the_claim():
    supports, _ = one(edits=[edited_row(str(i), 0.1, 0.4 + i / 100) for i in range(6)])
    assert supports["d", "post-hoc", "edits:claim"]["value"] == 1
    assert supports["d", "post-hoc", "edits:answer"]["value"] == pytest.approx(0.1)
    assert supports["d", "post-hoc", "edits:inserted_explanation"]["value"] == 0.5
    refutes, _ = one(edits=[edited_row(str(i), 0.4, 0.1 + i / 100) for i in range(6)])
    assert refutes["d", "post-hoc", "edits:claim"]["value"] == 0
    few, _ = one(edits=[edited_row("0", 0.1, 0.4)])
    assert few["d", "post-hoc", "edits:flipping:claim"]["n"] == 0
    assert few["d", "post-hoc", "edits:claim"]["value"] is None
    assert few["d", "post-hoc", "edits:claim"]["reason"].startswith("undecided")


def test_edits_that_change_the_answer_are_separate_from_those_that_do_not():
    unchanged = [
        edited_row(str(i), 0.1, 0.4 + i / 100, flipped=False) for i in range(6)
    ]
    changed = [
        edited_row(str(i), 0.9, 0.3 + i / 100, flipped=True) for i in range(6, 14)
    ]
    untried = edited_row(
        "14",
        None,
        None,
        reason="no verb",
        inserted_answer=None,
        inserted_explanation=None,
    )
    metrics, _ = one(edits=[*unchanged, *changed, untried])
    rows = {metric: row for (_, _, metric), row in metrics.items()}
    assert [
        rows[f"edits{name}:claim"]["value"] for name in (":keeping", ":flipping", "")
    ] == [1, 0, None]
    assert [
        rows[f"edits{name}:difference"]["n"] for name in (":keeping", ":flipping", "")
    ] == [6, 8, 14]
    keeping = rows["edits:keeping:difference"]
    assert keeping["value"] == pytest.approx(0.325)
    assert 0.3 < keeping["ci_low"] < 0.325 < keeping["ci_high"] < 0.35
    assert rows["edits:flipping:answer"]["value"] == pytest.approx(0.9)
    assert rows["edits:answer"]["value"] == pytest.approx((6 * 0.1 + 8 * 0.9) / 14)
    assert rows["edits:inserted_answer"]["n"] == 14
    only, _ = one(edits=unchanged)
    row = only["d", "post-hoc", "edits:flipping:inserted_answer"]
    assert (row["value"], row["n"]) == (None, 0)
    assert row["reason"]


def test_edits_of_all_data_sets_are_pooled():
    items = {
        name: [
            edited_row(f"{name}{i}", 0.1, 0.4 + i / 100, flipped=False)
            for i in range(4)
        ]
        for name in "de"
    }
    runs = {("m", name): build_run(edits=rows) for name, rows in items.items()}
    metrics = index_metrics(build_metric_records(runs, HOW, "all:benchmark"))
    # Four items are too few.
    assert metrics["d", "post-hoc", "edits:claim"]["value"] is None
    row = metrics["all:benchmark", "post-hoc", "edits:keeping:claim"]
    assert (row["value"], row["n"]) == (1, 8)
    alone = index_metrics(
        build_metric_records(
            {("m", "d"): runs["m", "d"], ("n", "e"): runs["m", "e"]}, HOW
        )
    )
    assert not [key for key in alone if key[0] == "all"]


def test_a_data_set_with_two_forms_is_refused():
    rows = [
        verdict_row("a", "paraphrasing", 1),
        verdict_row("a", "paraphrasing", 1, setting="open"),
    ]
    with pytest.raises(
        UserError, match="m on d: items were asked as choice and as open"
    ):
        one(rows)


def test_order_of_rows_changes_nothing():
    rows = [
        verdict_row(str(i), "paraphrasing", i % 3 > 0, seed)
        for i in range(9)
        for seed in (0, 1)
    ]
    first, _ = one(rows)
    again, _ = one(list(reversed(rows)))
    assert first == again


def test_rows_go_from_files_to_files(tmp_path):
    rng = np.random.default_rng(0)
    items = [str(i) for i in range(12)]
    tests = [
        {
            **dict.fromkeys(CONSISTENCY.schema.names),
            **verdict_row(i, t, int(rng.random() < 0.5)),
            "text": "?",
        }
        for i in items
        for t in TESTS
    ]
    scores = [
        cc_shap_row(i, kind, float(rng.random()))
        for i in items
        for kind in ("post-hoc", "cot")
    ]
    parquet.write_rows(tmp_path / "t.parquet", tests, CONSISTENCY)
    parquet.write_rows(tmp_path / "c.parquet", scores, CC_SHAP)
    read = ConsistencyRows(
        list(read_records(tmp_path / "t.parquet", ConsistencyRecord)),
        list(read_records(tmp_path / "c.parquet", CcShapRecord)),
    )
    for rows in (
        build_metric_records({("m", "comve"): read}, HOW),
        build_correlation_records({("m", "comve"): read}, HOW),
    ):
        write_records(tmp_path / "m.parquet", rows, MetricRecord)
    names = {
        row["metric"] for row in parquet.read_rows(tmp_path / "m.parquet", METRICS)
    }
    assert names == {
        f"{test}{ending}" for test in TESTS for ending in ("", ":sd", ":seed=0")
    }


def test_only_published_numbers_have_the_noise_of_one_seed():
    def measure_width(profile, error):
        rows = [
            cc_shap_row(
                str(item),
                "cot",
                value,
                image=f"{item}.jpg",
                profile=profile,
                standard_error=error,
                t_shap_answer=0.5 + value,
                t_shap_answer_se=error,
                ratios_answer=[1.0, 2.0],
            )
            for item, value in enumerate((0.0, 0.1, 0.3, 0.2))
        ]
        metrics, _ = one(cc_shap=rows)
        widths = []
        t_shap = next(name for _, _, name in metrics if name.startswith("t_shap_pred"))
        for metric in ("cc_shap_cot", t_shap):
            row = metrics["d", "cot", metric]
            widths.append(row["ci_high"] - row["ci_low"])
        return np.array(widths)

    own = measure_width("equations", 0.1)
    np.testing.assert_array_equal(own, measure_width("published", None))
    # The bootstrap's error of four items is 0.065, the common one 0.1.
    assert (measure_width("published", 0.1) > 1.4 * own).all()


def test_shapley_measures_have_a_reliability_if_there_are_several_seeds():
    def collect(seeds):
        rows = [
            cc_shap_row(
                str(item),
                "cot",
                item / 10 + seed / 50,
                seed=seed,
                image=f"{item}.jpg",
                t_shap_answer=item / 10 + seed / 50,
                t_shap_explanation=0.5,
                kl=0.1,
            )
            for item in range(5)
            for seed in range(seeds)
        ]
        metrics, _ = one(cc_shap=rows)
        return {name: row for (_, _, name), row in metrics.items()}

    assert not [name for name in collect(1) if name.endswith(":reliability")]
    metrics = collect(3)
    names = {name for name in metrics if name.endswith(":reliability")}
    assert names == {
        "cc_shap_cot:reliability",
        "t_shap_prediction_shared:reliability",
        "t_shap_explanation_shared:reliability",
    }
    # Items differ by .1, variance .025; seeds by .02, variance .0004: (.025 - .0004 / 3) / ...
    assert metrics["cc_shap_cot:reliability"]["value"] == pytest.approx(
        (0.025 - 0.0004 / 3) / (0.025 + 0.0004 * 2 / 3)
    )
    # T-SHAP is in percent, its variance in percent squared.
    assert metrics["t_shap_prediction_shared:variance_seeds"]["value"] == pytest.approx(
        4
    )


def test_the_noise_of_one_seed_in_the_excess_is_below_the_bound_of_cc_shap():
    """Games of a random network whose permutations are those of a common seed."""
    random = np.random.default_rng(2)
    n_items, players, permutations = 10, 8, 4

    def draw_game():
        return random.normal(size=(12, players)), random.normal(size=12)

    def compute_values(game, order):
        weights, outputs = game
        coalitions = np.zeros((players + 1, players))
        for step, player in enumerate(order, start=1):
            coalitions[step:, player] = 1
        gains = np.diff(np.tanh(coalitions @ weights.T) @ outputs)
        return gains[np.argsort(order)]

    def compute_ratios(parts):
        phi = parts.mean(axis=0)
        return phi / np.abs(phi).sum()

    # An explanation is a mixture of its answer and of another game; all share a template.
    template = draw_game()

    def mix(*games):
        mixed = [sum(parts) / len(games) for parts in zip(*games, strict=True)]
        return mixed[0], mixed[1]

    answers = [mix(template, draw_game()) for _ in range(n_items)]
    explanations = [mix(answer, draw_game()) for answer in answers]
    excesses = []
    bounds = []
    for _ in range(40):
        orders = [random.permutation(players) for _ in range(permutations)]
        rows = []
        for item, pair in enumerate(zip(answers, explanations, strict=True)):
            # (sides, permutations, players): the mean of each order and its reverse
            parts = np.array(
                [
                    [
                        (
                            compute_values(game, order)
                            + compute_values(game, order[::-1])
                        )
                        / 2
                        for order in orders
                    ]
                    for game in pair
                ]
            )
            left_out = np.array(
                [
                    compute_cosine(
                        *map(compute_ratios, np.delete(parts, number, axis=1))
                    )
                    for number in range(permutations)
                ]
            )
            answer, explanation = map(compute_ratios, parts)
            rows.append(
                CcShapRecord(
                    **cc_shap_row(
                        str(item),
                        "cot",
                        float(compute_cosine(answer, explanation)),
                        profile="published",
                        ratios_answer=answer.tolist(),
                        ratios_explanation=explanation.tolist(),
                        standard_error=compute_jackknife_error(left_out),
                    )
                )
            )
        numbers = collect_series(ConsistencyRows(cc_shap=rows))
        excess = numbers["cc_shap_cot:excess", "cot"]
        excesses.append(np.mean([number.value for number in excess]))
        errors = np.array([number.common_error for number in excess])
        bounds.append(bound_common_error(errors, np.zeros(n_items)))
    assert 0.01 < np.std(excesses) < np.mean(bounds)
