"""What the rules of stage reporting ask of its plan, for the studies of config/."""

from pathlib import Path

import pytest
from snakemake.utils import update_config

from stand_ins.yaml_files import read_yaml
from waltz.plan.build_plan import build_plan
from waltz.plan.read_study import read_study
from waltz.reporting.plan import ReportingPlan
from waltz.reporting.tables.declarations import TABLES

ROOT = Path(__file__).parents[2]


def plan_of(study: str) -> ReportingPlan:
    settings = read_yaml(ROOT / "config" / f"{study}.yaml")
    if "extends" in settings:
        base = read_yaml(ROOT / "config" / f"{settings['extends']}.yaml")
        update_config(base, settings)
        settings = base
    return ReportingPlan(build_plan(read_study(settings)))


@pytest.fixture(scope="module")
def texts() -> ReportingPlan:
    """Return the plan of a study of language models on text tasks."""
    return plan_of("texts")


@pytest.fixture(scope="module")
def scenes() -> ReportingPlan:
    """Return the plan of a study with all stages."""
    return plan_of("scenes")


def test_a_table_is_built_from_the_numbers_of_its_models_on_its_data_sets(texts):
    assert texts.get_table_inputs("thesis-5.2") == {
        "evaluation": ["results/texts/evaluation/metrics/language.tasks.parquet"],
        "consistency": ["results/texts/consistency/metrics/language.tasks.parquet"],
        "comparisons": [],
        "runs": [
            "results/texts/reporting/runs/consistency/language.tasks.json",
            "results/texts/reporting/runs/evaluation/language.tasks.json",
        ],
        "printed": ["workflow/waltz/resources/published/thesis-5.2.csv"],
    }


def test_a_table_that_the_study_has_no_numbers_for_has_its_paper_values_alone(texts):
    assert texts.get_table_inputs("thesis-4.2") == {
        "comparisons": [],
        "runs": [],
        "printed": ["workflow/waltz/resources/published/thesis-4.2.csv"],
    }


def test_tables_of_encoders_read_no_numbers_of_decoders(scenes):
    files = scenes.get_number_files("thesis-4.2")
    assert files == {
        "evaluation": ["results/scenes/evaluation/metrics/encoder.benchmark.parquet"],
        "shares": ["results/scenes/attribution/shares/encoder.benchmark.parquet"],
    }


def test_a_table_waits_for_comparisons_of_the_models_that_share_tables_and_of_no_others(
    scenes,
):
    assert scenes.list_comparisons("thesis-4.2") == [
        "results/scenes/evaluation/comparisons/scores.benchmark.parquet"
    ]
    assert scenes.list_comparisons("thesis-3.4") == [
        "results/scenes/evaluation/comparisons/scores.benchmark.parquet"
    ]
    assert scenes.list_comparisons("thesis-4.3") == [
        "results/scenes/evaluation/comparisons/vision.benchmark.parquet"
    ]
    assert scenes.list_comparisons("thesis-A.2") == []


def test_a_table_of_examples_is_built_from_the_instruments_of_its_piece(scenes):
    assert scenes.get_number_files("thesis-A.7") == {
        "samples": [
            f"results/scenes/benchmark/{name}.parquet"
            for name in ("action-replacement", "actant-swap")
        ]
    }


def test_all_tables_are_those_of_papers_and_of_own_measurements_and_others_those_that_are_named(
    scenes, texts
):
    assert scenes.tables == [
        table for table in TABLES if not table.startswith("measures-")
    ]
    assert texts.tables == [
        "thesis-5.1",
        "thesis-5.2",
        "thesis-figure-C.1",
        "thesis-C.2",
        "thesis-C.3",
    ]


def test_tables_of_measurements_are_made_from_their_files():
    plan = plan_of("measures")
    measured = [table for table in TABLES if table.startswith("measures-")]
    assert plan.tables == measured
    assert plan.get_table_inputs("measures-ground-truth") == {
        "ground_truth": ["results/measures/measures/ground_truth.parquet"],
        "comparisons": [],
        "runs": [],
        "printed": [],
    }
    assert list(plan_of("scenes").get_table_inputs("measures-bias")) == [
        "comparisons",
        "runs",
        "printed",
    ]


def test_records_of_self_consistency_are_those_of_tests_and_of_cc_shap(texts):
    assert texts.list_part_records("consistency", "language.tasks") == [
        f"results/texts/consistency/smollm2-135m-instruct/{kind}/tasks.run.json"
        for kind in ("tests", "cc-shap")
    ]


def test_charts_are_drawn_of_the_tables_that_are_built(texts):
    assert [chart.id for chart, _ in texts.charts] == [
        "thesis-C.1",
        "thesis-C.3",
        "thesis-C.3-bars",
    ]
    assert (
        texts.list_chart_files("png")[0]
        == "results/texts/reporting/figures/thesis-C.1-equations.png"
    )


@pytest.mark.parametrize("study", ["scenes", "texts", "thesis", "valse"])
def test_every_figure_and_folder_of_examples_has_a_title(study):
    plan = plan_of(study)
    assert {Path(file).stem for file in plan.figure_files} <= set(plan.figure_titles)
    assert len(plan.sample_sections) == len(plan.sample_folders)


def test_examples_are_drawn_of_encoders_and_decoders_but_not_of_rulers(scenes, texts):
    folders = [
        folder.removeprefix("results/scenes/reporting/figures/")
        for folder in scenes.sample_folders
    ]
    assert folders == [
        *("samples/scenes-clip", "samples/scenes-matcher"),
        *("traces/scenes-llava", "explanations/scenes-llava", "edits/scenes-llava"),
    ]
    assert {shows for shows, _ in texts.sample_folders.values()} == {
        "traces",
        "explanations",
    }


def test_the_page_reads_files_of_stages_that_the_study_has(scenes, texts):
    assert set(texts.summaries) == {"metrics", "comparisons", "tested", "changes"}
    assert {
        "funnel",
        "statistics",
        "oracle",
        "audit",
        "probes",
        "shares",
        "tested",
        "changes",
    } <= set(scenes.summaries)


def test_the_browser_shows_items_and_questions_but_no_text_tasks(scenes, texts):
    assert texts.browsed_datasets == []
    assert {"existence", "cv-probes"} <= set(scenes.browsed_items)
    assert set(scenes.browsed_questions) == {"vqa", "gqa", "gqa-balanced"}
    assert {
        (model, dataset) for model, dataset, _ in scenes.browsed_files["evaluation"]
    } == set(scenes.browsed_runs["evaluation"])
