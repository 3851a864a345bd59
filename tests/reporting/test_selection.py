"""A plan that `only` cuts to models, data sets, instruments and tables."""

from pathlib import Path

import pytest

from stand_ins.yaml_files import read_yaml
from waltz.core.errors import UserError
from waltz.plan.build_plan import build_plan
from waltz.plan.plan import Plan
from waltz.plan.read_study import read_study
from waltz.reporting.plan import ReportingPlan
from waltz.reporting.selection import select_only

CONFIG = Path(__file__).parents[2] / "config"


def cut(study: str, only: object) -> Plan:
    settings = read_yaml(CONFIG / f"{study}.yaml")
    return select_only(build_plan(read_study({**settings, "only": only})))


def list_models(plan: Plan) -> set[str]:
    return {run.model for run in [*plan.scored, *plan.attributed, *plan.tested]}


def list_datasets(plan: Plan) -> set[str]:
    return {run.dataset for run in [*plan.scored, *plan.attributed, *plan.tested]}


def test_without_only_the_plan_is_whole():
    plan = build_plan(read_study(read_yaml(CONFIG / "scenes.yaml")))
    assert select_only(plan) is plan


def test_a_model_runs_on_all_its_data_sets_and_no_other_model_runs():
    whole, plan = cut("thesis", []), cut("thesis", "clip-vit-base-patch32")
    assert list_models(plan) == {"clip-vit-base-patch32"}
    assert plan.attributed == [
        run for run in whole.attributed if run.model == "clip-vit-base-patch32"
    ]
    assert plan.tested == []
    assert "e-snli" not in plan.study.sources
    assert "mistral-7b" not in plan.models
    assert plan.skipped["mistral-7b"] == "left out by only: clip-vit-base-patch32"
    # its results lie where those of the whole study do, so that neither is computed again
    for run in plan.attributed:
        file = whole.get_run_file("attribution", run)
        assert plan.get_run_file("attribution", run) == file


def test_a_data_set_is_run_by_all_models_that_can_and_others_are_not_built():
    plan = cut("scenes", ["existence"])
    assert list_datasets(plan) == {"existence"}
    assert list_models(plan) > {"scenes-clip", "scenes-llava"}
    assert list(plan.study.instruments) == ["existence"]
    assert plan.built_or_finished == ["existence"]
    assert set(plan.study.sources) == {plan.study.instruments["existence"].source}
    assert plan.study.cv_probes is None
    assert "cv-probes" in plan.skipped


def test_models_and_data_sets_are_cut_together_whether_listed_or_separated_by_commas():
    plan = cut("scenes", "scenes-clip, existence")
    assert (list_models(plan), list_datasets(plan)) == ({"scenes-clip"}, {"existence"})
    assert cut("scenes", ["scenes-clip", "existence"]).scored == plan.scored


def test_a_table_brings_the_runs_that_it_shows():
    plan = cut("thesis", "thesis-4.2")
    assert ReportingPlan(plan).tables == ["thesis-4.2"]
    assert {plan.get_table_kind(model) for model in list_models(plan)} == {"encoder"}
    whole = ReportingPlan(cut("thesis", []))
    for kind in ("attribution", "shares"):
        parts = whole.list_shown_parts("thesis-4.2", kind)
        runs = {run for part in parts for run in whole.get_part_runs(kind)[part]}
        assert runs == set(plan.attributed)


BUILDERS = {"spanbert", "albert-xxlarge-nli", "gruen-cola"}
"""Models that propose and filter foils in the study of the thesis, and run on nothing."""


@pytest.mark.parametrize(
    "only",
    [
        "clip-vit-base-patch32,relations",
        "lxmert,existence",
        "gpt2,comve",
        "thesis-4.2",
        "bakllava",
        "differences-foils",
    ],
)
def test_runs_on_released_items_rebuild_nothing(only):
    plan = cut("thesis", only)
    assert not plan.study.instruments
    assert not plan.construction.models
    assert not BUILDERS.intersection(plan.models)
    assert plan.scored
    assert {"coco", "swig", "visdial"}.isdisjoint(
        plan.list_sources(plan.built_or_finished)
    )


@pytest.mark.parametrize(
    "only", ["relations", "thesis-A.2", "clip-vit-base-patch32,thesis-A.2"]
)
def test_what_is_about_building_rebuilds_released_instruments(only):
    plan = cut("thesis", only)
    assert "relations" in plan.study.instruments
    assert {*plan.construction.models} >= BUILDERS


def test_a_model_on_items_that_nobody_released_has_them_built():
    plan = cut("scenes", "scenes-clip,existence")
    assert list(plan.study.instruments) == ["existence"]


def test_only_models_with_tests_have_a_helper():
    assert "llama2-13b-chat" not in cut("thesis", "clip-vit-base-patch32").models
    assert "llama2-13b-chat" in cut("thesis", "gpt2,comve").models


def test_a_table_about_building_keeps_all_instruments():
    assert (
        cut("scenes", "thesis-A.2").study.instruments
        == cut("scenes", []).study.instruments
    )


@pytest.mark.parametrize(
    ("only", "message"),
    [
        (
            "scenes-klip",
            r"only: nothing is called 'scenes-klip' \(did you mean 'scenes-clip'\?\)",
        ),
        (
            ["existence", "thesis-4-2"],
            r"only: nothing is called 'thesis-4-2' \(did you mean 'thesis-4\.2'\?\)",
        ),
    ],
)
def test_an_unknown_name_is_answered_with_the_one_that_was_meant(only, message):
    with pytest.raises(UserError, match=message):
        cut("scenes", only)
