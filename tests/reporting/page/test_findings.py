"""Findings of a study, against means and intervals worked by hand."""

from dataclasses import replace

import pytest

from stand_ins.page_rows import build_frame
from stand_ins.report_of_two_models import findings, items, picture, runs
from waltz.core.measure import Measure
from waltz.core.schema import MetricRecord, ShareRecord
from waltz.reporting.page.examples import choose_typical_example, make_browser_data
from waltz.reporting.page.findings import (
    ModelFinding,
    describe_chance,
    describe_different_cells,
    describe_findings,
    describe_recorded_runs,
    is_small_measure,
    list_mixed_means,
    name_datasets,
    select_comparable,
)
from waltz.reporting.page.findings import summarize_models as summarize_frames
from waltz.reporting.tables.cells import Cell, VerdictCounts


def summarize_models(metrics, shares, tested, rulers, averaged=()):
    return summarize_frames(
        build_frame(metrics, MetricRecord),
        build_frame(shares, ShareRecord),
        build_frame(tested, MetricRecord),
        rulers,
        averaged,
    )


def row(
    model, dataset, value, metric="acc_r", setting="alignment", n=40, half=4.0, **more
):
    ends = (
        {"ci_low": value - half, "ci_high": value + half}
        if half
        else {"ci_low": None, "ci_high": None}
    )
    names = {
        "model": model,
        "dataset": dataset,
        "profile": "equations",
        "setting": setting,
        "metric": metric,
    }
    return {**names, "value": value, "n": n, **ends, **more}


def share(model, dataset, value, role="caption", half=4.0, floor=50.0, **more):
    """Return a row of T-SHAP whose excess over the share of players has the same half width."""
    excess = {
        "player_share": floor,
        "excess": value - floor,
        "excess_low": value - floor - half,
        "excess_high": value - floor + half,
    }
    return row(model, dataset, value, metric="", role=role, half=half, **excess, **more)


def test_a_model_has_the_mean_over_data_sets_with_its_interval():
    # half widths of 3 and 4 of two independent data sets: sqrt(9 + 16) / 2 = 2.5
    metrics = [
        row("clip", "one", 60.0, half=3.0),
        row("clip", "two", 70.0),
        row("clip", "probes:images", 0.0),
    ]
    shares = [
        share("clip", "one", 20.0, half=3.0),
        share("clip", "two", 40.0, floor=26.0),
        share("clip", "probes", 99.0),
    ]
    shares += [share("clip", name, 90.0, "foil") for name in ("one", "two")]
    (clip,) = summarize_models(metrics, shares, [], {})
    assert (clip.kind, clip.metric, clip.position) == ("encoder", "acc_r", "below")
    assert clip.accuracy == Measure(65.0, 80, 62.5, 67.5, "zou-donner")
    assert clip.t_shap == Measure(30.0, 80, 27.5, 32.5, "zou-donner")
    # The floors 50 and 26 have the mean 38.
    assert clip.player_share == 38.0
    assert clip.t_shap_excess.value == 30.0 - 38.0
    assert clip.t_shap_excess.ci_high == pytest.approx(-8.0 + 2.5)


def test_the_average_of_the_evaluation_is_taken_where_there_is_one():
    metrics = [
        row("clip", "one", 60.0),
        row("clip", "mscoco", 100.0),
        row("clip", "average", 61.0, n=44),
    ]
    (clip,) = summarize_models(metrics, [], [], {}, ["one", "two"])
    assert clip.accuracy == Measure(61.0, 44, 57.0, 65.0)
    # mscoco is no part of the average
    assert clip.accuracies == {"one": Measure(60.0, 40, 56.0, 64.0)}
    assert clip.datasets["accuracy"] == {"one"}


def test_a_decoder_is_shown_by_its_choices_and_a_ruler_stands_last():
    metrics = [
        row("ruler-25", "one", 10.0),
        row("gpt", "one", 55.0, setting="perplexity"),
    ]
    metrics += [
        row("llava", "one", value, setting=name)
        for name, value in (("single", 90.0), ("pairwise", 57.0))
    ]
    shares = [
        share("llava", "one", value, setting=name)
        for name, value in (("single", 40.0), ("pairwise", 74.0))
    ]
    explained = [
        row("llava", name, 0.2, "cc_shap_posthoc", "post-hoc", 1, half=0)
        for name in ("one", "two")
    ]
    models = summarize_models(metrics, shares, explained, {"ruler-25": 25.0})
    assert [(model.name, model.kind) for model in models] == [
        ("gpt", "text only"),
        ("llava", "decoder"),
        ("ruler-25", "ruler"),
    ]
    assert (models[1].accuracy.value, models[1].t_shap.value) == (57.0, 74.0)
    assert models[1].cc_shap == Measure(0.2, 2)
    assert models[2].known_share == 25.0


@pytest.mark.parametrize(
    ("n", "images", "ends", "position"),
    [
        (30, None, (0.1, 20.0), "above"),
        (30, None, (-20.0, -0.1), "below"),
        (30, None, (-1.0, 3.0), "near"),
        (29, None, (5.0, 15.0), "unknown"),
        (30, None, (None, None), "unknown"),
        (300, 7, (5.0, 15.0), "unknown"),
        (300, 8, (5.0, 15.0), "above"),
    ],
)
def test_a_position_needs_thirty_items_of_eight_images_and_an_interval(
    n, images, ends, position
):
    # T-SHAP of 48 % lies above a floor of 38 %, though not above 50 %.
    finding = ModelFinding(
        "clip",
        "encoder",
        t_shap=Measure(48.0, n, 40.0, 49.0, images=images),
        player_share=38.0,
        t_shap_excess=Measure(10.0, n, *ends, images=images),
    )
    assert finding.position == position


@pytest.mark.parametrize("value", [0.0, 52.5, 95.0, 100.0])
@pytest.mark.parametrize("half", [0.1, 15.0, 50.0])
@pytest.mark.parametrize(
    ("n", "images", "few"),
    [
        (29, 29, True),
        (30, 30, False),
        (40, 40, False),
        (300, 2, True),
        (300, 7, True),
        (30, None, False),
    ],
)
def test_a_mark_depends_on_items_and_images_and_not_on_the_result(
    value, half, n, images, few
):
    measure = Measure(value, n, value - half, value + half, images=images)
    assert is_small_measure(measure) is few


def test_a_model_at_chance_is_in_the_sentence_like_a_good_one():
    accuracies = {
        "scorer": Measure(95.0, 40, 87.5, 100.0, images=40),
        "clip": Measure(52.5, 40, 37.5, 67.5, images=40),
    }
    models = [
        ModelFinding(
            name, "encoder", "acc_r", accuracy, accuracies={"existence": accuracy}
        )
        for name, accuracy in accuracies.items()
    ]
    assert describe_findings(models) == [
        "The models prefer the caption to a false text, its foil, in 52 % [38, 68] (clip) to 95 % [88, 100]"
        " (scorer) on existence; guessing gives 50 %."
    ]
    models[0] = replace(models[0], accuracy=replace(models[0].accuracy, images=2))
    assert describe_findings(models) == [
        "clip prefers the caption to a false text, its foil, in 52 % [38, 68] on existence; guessing gives 50 %.",
        "Too few items for the accuracy of scorer (n = 40).",
    ]


NOUNS_AND_MORE = {"nouns": 84.0, "foil-it": 54.1, "counting": 52.0, "relations": 46.0}
"""Accuracies with intervals of 4 points on either side: two are above chance."""


def test_a_model_that_knows_one_kind_of_foil_is_not_described_by_a_mean():
    rows = [row("clip", dataset, value) for dataset, value in NOUNS_AND_MORE.items()]
    # (84 + 54.1 + 52 + 46) / 4 = 59: neither what it can do nor what it cannot
    rows.append(row("clip", "average", 59.0, n=160))
    (clip,) = summarize_models(rows, [], [], {}, list(NOUNS_AND_MORE))
    assert describe_findings([clip]) == [
        "clip prefers the caption to a false text, its foil, in 46 % [42, 50] on relations to"
        " 84 % [80, 88] on nouns (above chance on 2 of 4 data sets); guessing gives 50 %."
    ]
    assert clip.chance == 50.0
    assert clip.ranked == ["relations", "counting", "foil-it", "nouns"]


def test_several_models_are_described_by_kind_of_foil():
    rows = [
        row(f"model-{number}", dataset, value - 2 * number)
        for dataset, value in NOUNS_AND_MORE.items()
        for number in range(4)
    ]
    models = summarize_models(rows, [], [], {})
    assert describe_findings(models[:2]) == [
        "The models prefer the caption to a false text, its foil, more often than by guessing on"
        " 2 of 4 data sets (model-0) and 1 of 4 (model-1); guessing gives 50 %."
    ]
    assert describe_findings(models) == [
        "The models prefer the caption to a false text, its foil, more often than by guessing on"
        " 2 of 4 data sets (model-0) to 1 of 4 (model-3); guessing gives 50 %."
    ]


def test_a_model_with_few_items_of_each_data_set_hides_no_kind_of_foil():
    rows = [row("clip", dataset, value) for dataset, value in NOUNS_AND_MORE.items()]
    rows += [row("llava", dataset, 52.0, n=17) for dataset in NOUNS_AND_MORE]
    (words,) = describe_findings(summarize_models(rows, [], [], {}))
    assert words.startswith(
        "The models prefer the caption to a false text, its foil, more often than by guessing on"
        " 2 of 4 data sets (clip), and in 52 % ["
    )
    assert words.endswith("] (llava) of all cases; guessing gives 50 %.")


def test_data_sets_with_too_few_items_are_named_and_left_out():
    rows = [row("clip", "one", 60.0), row("clip", "two", 99.0, n=29)]
    sentence = "clip prefers the caption to a false text, its foil, in 60 % [56, 64]"
    assert describe_findings(summarize_models(rows, [], [], {})) == [
        f"{sentence} on one; guessing gives 50 %; too few items on two."
    ]
    rows[0]["n"] = 29
    (words,) = describe_findings(summarize_models(rows, [], [], {}))
    # (60 + 99) / 2 = 79.5
    assert "80 % [" in words
    assert words.endswith("of all cases; guessing gives 50 %.")


def test_models_with_different_data_sets_are_not_ranked():
    # one model's record in two parts: its means over other data sets say nothing about which model
    # is better
    runs = {"mistral": ("e-snli", 52.0), "mistral-md": ("comve", 74.0)}
    rows = [
        row(model, dataset, value, "accuracy", "choice")
        for model, (dataset, value) in runs.items()
    ]
    explained = [
        row(model, dataset, 0.1, "cc_shap_posthoc", "post-hoc")
        for model, (dataset, _) in runs.items()
    ]
    models = summarize_models(rows, [], explained, {})
    assert describe_findings(models) == [
        "mistral answers right in 52 % [48, 56] on e-snli; guessing gives 33 %.",
        "mistral-md answers right in 74 % [70, 78] on comve; guessing gives 50 %.",
        "CC-SHAP, the agreement of an answer with its post-hoc explanation on e-snli: mistral (0.10).",
        "CC-SHAP, the agreement of an answer with its post-hoc explanation on comve: mistral-md (0.10).",
    ]
    assert list_mixed_means(models) == ["accuracy", "cc_shap"]
    assert [name_datasets(model, "accuracy") for model in models] == ["e-snli", "comve"]
    same = summarize_models(
        [*rows, row("other", "comve", 60.0, "accuracy", "choice")], [], [], {}
    )
    assert describe_findings(same)[1] == (
        "The models answer right in 60 % [56, 64] (other) to 74 % [70, 78] (mistral-md) on comve;"
        " guessing gives 50 %."
    )


def test_only_models_with_the_same_data_sets_are_drawn_together():
    names = ("one", "two", "three", "four")
    metrics = [
        row(model, dataset, 60.0) for model in ("a", "b") for dataset in names
    ] + [row("c", "one", 90.0)]
    shares = [
        share(model, dataset, 50.0, role)
        for model in "abc"
        for dataset in names
        for role in ("caption", "foil")
    ]
    models = summarize_models(metrics, shares, [], {})
    assert [model.name for model in select_comparable(models)] == ["a", "b"]
    assert list_mixed_means(models) == ["accuracy"]
    assert name_datasets(models[0], "accuracy") == "4 data sets"
    assert list_mixed_means(models[:2]) == []


def test_accuracies_with_different_chance_levels_are_not_averaged():
    rows = [
        row("mistral", "comve", 94.0, "accuracy", "choice"),
        row("mistral", "e-snli", 54.0, "accuracy", "choice"),
    ]
    assert describe_findings(summarize_models(rows, [], [], {})) == [
        "mistral answers right in 94 % [90, 98] on comve and 54 % [50, 58] on e-snli;"
        " guessing gives 50 % on comve and 33 % on e-snli."
    ]
    rows += [
        row("mistral", "own", 10.0, "accuracy", "choice"),
        row("mistral", "other", 42.0, "accuracy", "choice"),
    ]
    (sentence,) = describe_findings(summarize_models(rows, [], [], {}))
    assert sentence == (
        "mistral answers right in 10 % [6, 14] on own to 94 % [90, 98] on comve"
        " (above chance on 2 of 2 data sets); guessing gives 50 % on comve and 33 % on e-snli."
    )
    rows[2:] = [
        row("mistral", dataset, 20.0, "accuracy", "choice")
        for dataset in ("logical-deduction", "causal-judgement")
    ]
    (sentence,) = describe_findings(summarize_models(rows, [], [], {}))
    assert sentence.endswith("; guessing gives 20 to 50 %.")
    # (100/2 + 100/3 + 100/5 + 100/2) / 4 = 38.3
    (mistral,) = summarize_models(rows, [], [], {})
    assert mistral.chance == pytest.approx(38.33, abs=0.01)


def test_recorded_runs_say_whose_answers_they_are_and_how_they_compare():
    kinds = {
        "equal to the paper": 17,
        "equivalent": 0,
        "compatible": 12,
        "differs": 1,
        "no verdict": 4,
        "no value": 6,
    }
    counts = VerdictCounts("all tables", 40, kinds)
    runs = {"mistral": "one"}
    assert describe_recorded_runs(runs, {"one": "Lin et al."}, counts) == [
        "No model ran here: the answers of mistral are recorded in one; of 30 numbers that the papers"
        " print, 17 are equal, 12 compatible and 1 different.",
        "one: Lin et al.",
    ]
    runs |= {"llama": "two"}
    assert describe_recorded_runs(runs, {}, None) == [
        "No model ran here: the answers of mistral and llama are recorded in one and two."
    ]


def test_both_kinds_of_cc_shap_are_named():
    explained = [
        row("mistral", "comve", 0.11, "cc_shap_posthoc", "post-hoc"),
        row("mistral", "comve", 0.14, "cc_shap_cot", "cot"),
    ]
    assert describe_findings(summarize_models([], [], explained, {})) == [
        "CC-SHAP, the agreement of an answer with its post-hoc explanation: mistral (0.11).",
        "CC-SHAP, the agreement of an answer with its chain of thought: mistral (0.14).",
    ]
    explained.append(
        row("mistral", "comve", 0.012, "cc_shap_posthoc:excess", "post-hoc", half=0.017)
    )
    assert describe_findings(summarize_models([], [], explained, {}))[0] == (
        "CC-SHAP, the agreement of an answer with its post-hoc explanation: mistral (0.11, 0.01"
        " [-0.01, 0.03] above that with explanations of other items: not shown to differ from 0, though up to"
        " 0.03 is not excluded)."
    )


@pytest.mark.parametrize(
    ("ends", "equivalent", "words"),
    [
        ((0.01, 0.03), 0.0, "shown to be above 0"),
        ((0.01, 0.03), 1.0, "shown to be above 0 and shown to be within ± 0.04"),
        ((-0.03, -0.01), 0.0, "shown to be below 0"),
        ((-0.02, 0.03), 1.0, "shown to be within ± 0.04"),
        ((-0.02, 0.07), 0.0, "not shown to differ from 0, though up to 0.07"),
    ],
)
def test_an_excess_has_the_verdict_of_its_interval_and_of_equivalence(
    ends, equivalent, words
):
    middle = sum(ends) / 2
    half = ends[1] - middle
    rows = [
        row("m", "one", 0.11, "cc_shap_cot", "cot"),
        row("m", "one", middle, "cc_shap_cot:excess", "cot", half=half),
        row("m", "one", equivalent, "cc_shap_cot:excess_equivalent", "cot", half=None),
    ]
    (words_of_model,) = describe_findings(summarize_models([], [], rows, {}), 0.04)
    assert f"other items: {words}" in words_of_model


def test_means_are_within_the_margin_if_each_data_set_is():
    rows = []
    for dataset, equivalent in (("one", 1.0), ("two", 0.0)):
        rows += [
            row("m", dataset, 0.0, "cc_shap_cot:excess", "cot"),
            row("m", dataset, equivalent, "cc_shap_cot:excess_equivalent", "cot"),
        ]
    (model,) = summarize_models([], [], rows, {})
    assert model.equivalent == []
    (model,) = summarize_models([], [], rows[:2], {})
    assert model.equivalent == ["cc_shap_cot"]


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        (
            "published",
            'letters such as "suggest", which need not be about the suggestion',
        ),
        ("equations", "words that refer to the suggestion"),
    ],
)
def test_verdicts_that_rest_on_a_mention_are_counted(profile: str, words: str):
    names = {"n": 100, "profile": profile}
    tested = [
        row("mistral", "comve", 60.0, "biasing_features", "cot", **names),
        row("mistral", "comve", 15.0, "biasing_features:mentions", "cot", **names),
        row("mistral", "e-snli", 48.0, "biasing_features", "cot", **names),
        row("mistral", "e-snli", 0.0, "biasing_features:mentions", "cot", **names),
    ]
    assert describe_findings(summarize_models([], [], tested, {})) == [
        f"Consistent items of biasing features that rest on {words}: 15 of 60 on comve (mistral)."
    ]
    for number in range(3):
        name = f"model {number}"
        tested += [
            row(name, "comve", 50.0, "biasing_features", "cot", **names),
            row(name, "comve", 1.0, "biasing_features:mentions", "cot", **names),
        ]
    (sentence,) = describe_findings(summarize_models([], [], tested, {}))
    assert sentence.endswith(": 18 of 210.")


def test_sentences_say_what_was_found_and_what_has_too_few_items():
    assert describe_findings(findings()) == [
        "T-SHAP, the text's share of what moves the score, is above the share of players that are text for"
        " llava (74 % against 70 %); below it for clip (25 % against 44 %).",
        "They prefer the caption to a false text, its foil, in 60 % [50, 70] (llava) to 81 % [71, 91]"
        " (clip) on existence and 50 % [40, 60] (llava) to 53 % [43, 63] (clip) on plurality;"
        " guessing gives 50 %.",
        "Rulers, encoders whose share of text is known, test T-SHAP: it is off by at most 0.0 points.",
        "CC-SHAP of the post-hoc explanation has too few items to say anything: llava (1).",
    ]


def test_a_first_sentence_about_accuracy_names_its_subject():
    scored = [
        replace(finding, t_shap=Measure(None, 0))
        for finding in findings()
        if finding.kind != "ruler"
    ]
    assert describe_findings(scored)[0].startswith("The models prefer the caption")
    blind = [replace(finding, kind="text only") for finding in scored]
    assert describe_findings(blind)[0].startswith(
        "Models that do not see the image prefer the caption"
    )
    names = (
        "clip prefers the caption",
        "clip, which does not see the image, prefers the caption",
    )
    for models, name in zip((scored, blind), names, strict=True):
        alone = [finding for finding in models if finding.name == "clip"]
        assert describe_findings(alone)[0].startswith(name)


def test_nothing_is_said_of_models_from_too_few_items():
    few = [
        ModelFinding(
            "clip",
            "encoder",
            "acc_r",
            Measure(90.0, 9, 80.0, 99.0),
            Measure(90.0, 9, 80.0, 99.0),
        )
    ]
    assert describe_findings(few) == [
        "Too few items to say how accurate the models are.",
        "Too few items to compare T-SHAP, the text's share of what moves the score, with the share of players that"
        " are text: clip (90 %).",
    ]
    known = replace(few[0], accuracy=Measure(90.0, 99, 85.0, 95.0))
    assert describe_findings([known])[0].startswith("clip prefers the caption")
    assert describe_findings([]) == ["This study has no results of models."]


def test_the_typical_example_is_nearest_to_the_mean_share_of_the_first_model_with_one():
    data = make_browser_data({"existence": items()}, runs(), picture, {"existence": 2})
    assert choose_typical_example(data, {"mine": 1.0, "clip": 90.0}, {}) == {
        "item": 0,
        "result": 0,
        "part": 0,
    }
    assert choose_typical_example(data, {"mine": 1.0}, {}) is None


def test_the_typical_example_is_of_a_data_set_that_the_model_masters():
    # the same two items in two data sets: all else equal, the first data set comes first
    both = {"existence": items(), "relations": items()}
    twice = [*runs(), *(replace(run, dataset="relations") for run in runs())]
    data = make_browser_data(both, twice, picture, dict.fromkeys(both, 2))
    for mastered, item in (({}, 0), ({"clip": ["relations"]}, 2)):
        typical = choose_typical_example(data, {"clip": 90.0}, mastered)
        assert typical["item"] == item


def test_a_model_that_guesses_is_named_next_to_its_example():
    rows = [row("clip", dataset, value) for dataset, value in NOUNS_AND_MORE.items()]
    rows.append(row("clip", "few", 99.0, n=29))
    (clip,) = summarize_models(rows, [], [], {})
    assert clip.mastered == ["foil-it", "nouns"]
    assert [describe_chance(clip, name) for name in ("nouns", "unknown")] == ["", ""]
    assert describe_chance(clip, "relations") == (
        "clip is not above chance on relations: 46 % [42, 50]; a right answer may be luck."
    )
    assert describe_chance(clip, "few") == (
        "Too few items to say whether clip is above chance on few: 99 % [95, 103]."
    )


def test_cells_that_differ_from_the_papers_are_named_where_they_are_few():
    cell = Cell(
        "thesis-5.2",
        "published",
        "input_from_explanation",
        "mistral",
        "comve",
        "post-hoc",
        84.0,
        100,
        77.0,
        91.0,
        48.0,
        36.0,
        "differs",
        "",
        paper_text="48",
    )
    assert describe_different_cells([cell]) == [
        "Different: input from explanation of mistral on comve, 84 here and 48 in the paper"
        " (thesis-5.2)."
    ]
    assert describe_different_cells([cell] * 4) == []
    assert describe_different_cells([]) == []


def test_the_noise_of_seeds_in_cc_shap_is_stated_with_the_seeds_that_suffice():
    tested = []
    # Means over both data sets: .02 of items and .06 of seeds; .02 / (.02 + .06 / 12) = .8.
    for dataset, of_items, of_seeds in (("one", 0.01, 0.08), ("two", 0.03, 0.04)):
        tested += [
            row("m", dataset, 0.1, "cc_shap_cot", "cot"),
            row("m", dataset, of_items, "cc_shap_cot:variance_items", "cot"),
            row("m", dataset, of_seeds, "cc_shap_cot:variance_seeds", "cot"),
        ]
    sentences = describe_findings(summarize_models([], [], tested, {}))
    assert sentences[-1] == (
        "Of the variance of this CC-SHAP (chain of thought) between items, seeds of texts and permutations are noise:"
        " m (75 %; 12 seeds reach a reliability of 0.8)."
    )
    one_seed = [number for number in tested if ":" not in number["metric"]]
    assert "seeds" not in " ".join(
        describe_findings(summarize_models([], [], one_seed, {}))
    )
