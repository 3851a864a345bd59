"""The default study: drawn, written, read back, built, reported."""

import json
import os
import shutil
import signal
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from stand_ins import annotation_platforms as platforms
from stand_ins.models import tiny_encoders
from waltz.cli.commands.people import app as people
from waltz.core.files.group_files import read_runs
from waltz.core.schema import ATTRIBUTION
from workflow_runs.checkout import Checkout, read_stored
from workflow_runs.studies import INSTRUMENTS

pytestmark = pytest.mark.workflow


@pytest.fixture
def results(scenes_run):
    return scenes_run.folder / "results" / "tiny"


def test_every_source_is_read_back_and_every_image_opens(scenes_run, results):
    study = yaml.safe_load((scenes_run.folder / "tiny.yaml").read_text())
    for name, entry in study["sources"].items():
        record = json.loads((results / f"sources/{name}.run.json").read_text())
        rows = pq.read_table(results / f"sources/{name}.parquet")
        assert record["rows_in"] == len(rows) > 0
        reasons = set(rows["rejected"].drop_null().to_pylist())
        assert reasons <= {"a correct caption, no foil"}, name
        if "images" in entry:
            assert (
                pq.read_table(results / f"sources/images/{name}.parquet").to_pylist()
                == []
            ), name
    assert len(pq.read_table(results / "sources/coco.parquet")) == 5 * 40


def test_the_page_shows_sheet_sources_scores_and_what_was_built(results):
    page = (results / "reporting/report.html").read_text()
    shown = (
        "24 drawn scenes",
        "visual7w",
        "AUROC against corrupted sentences",
        "every image can be used",
    )
    for text in shown:
        assert text.lower() in page.lower(), text
    for table in ("funnel", "oracle", "audit"):
        _, _, section = page.partition(f'id="{table}"')
        rows = section.partition("</details>")[0]
        assert all(
            f'<th scope="row">{instrument}</th>' in rows for instrument in INSTRUMENTS
        ), table


@pytest.mark.parametrize("instrument", INSTRUMENTS)
def test_every_candidate_is_an_item_or_says_why_not(results, instrument):
    candidates = pq.read_table(results / f"foils/{instrument}.parquet").to_pylist()
    filtered = pq.read_table(results / f"filters/{instrument}.parquet").to_pylist()
    chosen = pq.read_table(
        results / f"benchmark/balanced/{instrument}.parquet"
    ).to_pylist()
    items = pq.read_table(results / f"benchmark/{instrument}.parquet").to_pylist()
    ids = [row["item_id"] for row in candidates]
    for rows in (filtered, chosen):
        assert sorted(row["item_id"] for row in rows) == sorted(ids)
        assert all(row["kept"] == (row["rejected"] is None) for row in rows)
    assert {row["item_id"] for row in items} == {
        row["item_id"] for row in chosen if row["kept"]
    }
    assert len(items) > 3
    assert {row["voter"] for row in items} == {"oracle"}
    records = [
        json.loads((results / f"{stage}/{instrument}.run.json").read_text())
        for stage in ("foils", "filters")
    ]
    assert [record["rows_out"] for record in records] == [
        len(ids),
        sum(row["kept"] for row in filtered),
    ]
    funnel = pq.read_table(results / "benchmark/funnel.parquet").to_pylist()
    counts = {
        row["step"]: row["count"] for row in funnel if row["instrument"] == instrument
    }
    assert (counts["candidates"], counts["balanced"]) == (len(ids), len(items))
    assert sum(
        part["count"]
        for row in funnel
        if row["instrument"] == instrument
        for part in row["lost"]
    ) == (len(ids) - counts["valid"])


def test_by_the_oracle_captions_are_true_and_rules_foils_false(results):
    shares = {
        (row["instrument"], row["candidates"], row["metric"]): row
        for row in pq.read_table(results / "benchmark/oracle.parquet").to_pylist()
    }
    for instrument in INSTRUMENTS:
        assert shares[instrument, "attested", "captions_true"]["value"] >= 99
    for instrument in ("existence", "plurality", "action-replacement"):
        assert shares[instrument, "items", "foils_false"]["value"] >= 97
    judges = pq.read_table(results / "benchmark/audit.parquet").to_pylist()
    assert {row["judge"] for row in judges} == {
        "causal LM",
        "GRUEN",
        "masked LM",
        "nli",
        "length",
    }


def test_a_second_run_has_nothing_to_do(scenes_run):
    assert scenes_run.planned() == set()


@pytest.mark.parametrize(
    ("file", "old", "new", "rerun"),
    [
        (
            "foils/action_replacement.py",
            '"no form of another',
            '"not a form of another',
            {"action-replacement"},
        ),
        (
            "foils/english/noun_phrases.py",
            'dict.fromkeys(("it", "its"',
            'dict.fromkeys(("its", "it"',
            {"existence", "plurality", "relations"},
        ),
        (
            "foils/swig_nouns.yaml",
            "plurals: [people",
            "plurals: [folk, people",
            {"action-replacement"},
        ),
        ("foils/swig_nouns.yaml", "plurals:", "# nouns\nplurals:", set()),
    ],
)
def test_an_edit_reruns_the_instruments_whose_code_it_is(
    scenes_run, file, old, new, rerun
):
    path = scenes_run.folder / "workflow/waltz" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    try:
        assert scenes_run.jobs().get("candidates", set()) == rerun
    finally:
        path.write_text(text)


def test_what_follows_an_edited_instrument_runs_again(scenes_run):
    path = scenes_run.folder / "workflow/waltz/foils/plurality.py"
    text = path.read_text()
    path.write_text(text.replace('"baggage"', '"baggages"'))
    follow = {
        "filter_candidates",
        "balance",
        "vote",
        "funnel",
        "oracle",
        "audit",
        "validation_statistics",
        "report",
    }
    try:
        jobs = scenes_run.jobs()
        assert set(jobs) == {"candidates", "frequency_figures", *follow}
        for rule in ("candidates", "filter_candidates", "balance", "vote"):
            assert jobs[rule] == {"plurality"}
    finally:
        path.write_text(text)


def changed(scenes_run, key, value):
    """Jobs planned after one key of the study changed; it is put back."""
    path = scenes_run.folder / "tiny.yaml"
    text = path.read_text()
    scenes_run.change(key, value)
    try:
        return scenes_run.jobs()
    finally:
        path.write_text(text)


def test_another_threshold_filters_again_and_makes_no_candidate(scenes_run):
    planned = changed(scenes_run, "filters.grammaticality", 0.6)
    assert (
        planned["filter_candidates"] == planned["balance"] == {"plurality", "relations"}
    )
    assert "candidates" not in planned


def test_another_limit_of_the_audit_audits_only(scenes_run):
    assert set(changed(scenes_run, "benchmark.audit", 70)) == {"audit", "report"}


def test_an_edited_table_of_the_world_draws_it_anew(scenes_run):
    path = scenes_run.folder / "workflow/waltz/scenes/verbs.yaml"
    text = path.read_text()
    path.write_text(text.replace("take a picture with", "photograph with"))
    assert {
        "draw_scenes",
        "source",
        "scene_model_scores",
        "report",
    } <= scenes_run.planned()
    path.write_text(text)
    assert scenes_run.planned() == set()


def built(checkout, instruments):
    """Content of the Parquet files of some instruments in the stages foils, filters and benchmark."""
    stages = ("foils", "filters", "benchmark", "benchmark/balanced")
    names = [
        f"tiny/{stage}/{instrument}.parquet"
        for stage in stages
        for instrument in instruments
    ]
    files = checkout.parquet()
    return {name: files[name] for name in names}


def test_one_core_or_two_give_the_same_bytes_and_another_seed_another_choice(
    scenes_run, tmp_path
):
    pair = ("plurality", "action-replacement")
    copy = Checkout(tmp_path / "waltz")
    shutil.copytree(scenes_run.folder, copy.folder, symlinks=True)
    for stage in ("foils", "filters", "benchmark"):
        shutil.rmtree(copy.folder / "results/tiny" / stage)
    tables = [f"results/tiny/benchmark/{instrument}.parquet" for instrument in pair]
    copy.snakemake("--cores", "1", *tables)
    again, before = built(copy, pair), built(scenes_run, pair)
    assert {name: again[name] == before[name] for name in again} == dict.fromkeys(
        again, True
    )
    copy.change("seed", 7)
    copy.snakemake(*tables)
    other = built(copy, pair)
    moved = {name for name in again if other[name] != again[name]}
    assert "tiny/benchmark/balanced/plurality.parquet" in moved
    assert all(name.startswith("tiny/benchmark/") for name in moved)


def test_answers_of_people_take_the_place_of_the_oracle(scenes_run, tmp_path):
    """Items go out as tasks, come back as answers, and the study that names them counts their
    votes.
    """
    copy = Checkout(tmp_path / "waltz")
    shutil.copytree(scenes_run.folder, copy.folder, symlinks=True)
    table = "results/tiny/benchmark/existence.parquet"
    items = {
        row["item_id"]: row for row in pq.read_table(copy.folder / table).to_pylist()
    }
    common = ["--items", str(copy.folder / table), "--platform", "mturk", "--seed", "3"]
    tasks = [
        "export",
        *common,
        "--folder",
        str(tmp_path / "tasks"),
        "--image-prefix",
        "https://images.example/",
    ]
    assert CliRunner().invoke(people, tasks).exit_code == 0
    keys = json.loads((tmp_path / "tasks/keys/existence.json").read_text())["tasks"]
    assert {task["item_id"] for task in keys} == set(items)
    doubted = sorted(items)[0]
    answers = [
        (
            task["task"],
            person,
            "both"
            if task["item_id"] == doubted and person != "w1"
            else task["caption_position"],
        )
        for task in keys
        for person in ("w1", "w2", "w3")
    ]
    results = platforms.write_results("mturk", tmp_path / "results", answers)
    given = [
        "import",
        str(results),
        *common,
        "--output",
        str(copy.folder / "answers.csv"),
    ]
    done = CliRunner().invoke(people, given)
    assert done.exit_code == 0, done.output
    copy.change("benchmark.annotations", {"existence": "answers.csv"})
    assert copy.jobs()["vote"] == {"existence"}
    copy.snakemake(table)
    voted = {
        row["item_id"]: row for row in pq.read_table(copy.folder / table).to_pylist()
    }
    assert {row["voter"] for row in voted.values()} == {"people"}
    assert voted.keys() == items.keys()
    votes = {
        key: (row["votes_caption"], row["votes_other"], row["valid"])
        for key, row in voted.items()
    }
    assert votes == dict.fromkeys(items, (3, 0, True)) | {doubted: (1, 2, False)}
    annotations = pq.read_table(
        copy.folder / "results/tiny/benchmark/annotations/existence.parquet"
    )
    assert len(annotations) == 3 * len(items)


def test_rulers_find_their_share_and_clip_has_no_threshold(results):
    shares = pq.read_table(results / "attribution/shares.parquet").to_pylist()
    ruled = [row["value"] for row in shares if row["model"] == "ruler-25"]
    # Both profiles: two roles on pairs, one on CV-Probes.
    assert len(ruled) == 2 * (2 + 2 + 1)
    # Regressions are not additive to the last digit.
    assert ruled == pytest.approx([25.0] * len(ruled), abs=1e-3)
    metrics = pq.read_table(results / "evaluation/metrics.parquet").to_pylist()
    of_clip = {
        row["metric"]: row
        for row in metrics
        if row["model"] == "scenes-clip" and row["dataset"] == "existence"
    }
    assert of_clip["acc_r"]["value"] is not None
    assert of_clip["p_c"]["value"] is None
    assert "not applicable" in of_clip["p_c"]["reason"]
    page = (results / "reporting/report.html").read_text()
    for text in (
        "T-SHAP, profile published",
        "CV-Probes: the verb",
        "Accuracy without one modality, profile equations",
    ):
        assert text in page, text


def test_attributions_are_efficient_and_both_shards_are_there(results):
    rows = read_runs([results / "attribution/scenes-clip/pairs.parquet"], ATTRIBUTION)[
        "scenes-clip", "existence"
    ].to_pylist()
    assert {row["estimator"] for row in rows if row["profile"] == "published"} == {
        "permutation"
    }
    assert len({row["item_id"] for row in rows if row["profile"] == "equations"}) == 3
    for row in rows:
        phi = [output for (output,) in row["phi"]]
        assert len(phi) == len(row["tokens"]) + row["grid"] ** 2
        assert sum(phi) == pytest.approx(
            row["value"][0] - row["base_value"][0], rel=1e-5, abs=1e-5
        )
        assert row["residual"] < 1e-5


@pytest.fixture
def copied(scenes_run, tmp_path):
    """A copy of the checkout that is run, to be changed."""
    copy = Checkout(tmp_path / "waltz")
    shutil.copytree(scenes_run.folder, copy.folder, symlinks=True)
    return copy


def attributions(checkout):
    return {
        name: content
        for name, content in checkout.parquet().items()
        if name.startswith("tiny/attribution/")
    }


def test_a_killed_shard_resumes_and_ends_in_the_same_bytes(copied):
    before = attributions(copied)
    folder = copied.folder / "results/tiny/attribution/scenes-clip"
    store = folder / "shards/.store"
    stored_keys = set(read_stored(store))
    results = copied.folder / "results/tiny"
    ends = [results / "attribution/shares.parquet", results / "reporting/report.html"]
    for file in [
        *store.iterdir(),
        *folder.glob("*.parquet"),
        *folder.glob("shards/*.parquet"),
        *ends,
    ]:
        file.unlink()
    running = copied.start()
    deadline = time.monotonic() + 120
    while len(read_stored(store)) < 3 and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    assert running.poll() is None, "it ended before it could be killed"
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    left = read_stored(store)
    copied.snakemake("--unlock")
    copied.snakemake("--rerun-incomplete")
    assert left.items() <= read_stored(store).items()  # nothing finished was done again
    assert set(read_stored(store)) == stored_keys
    assert attributions(copied) == before


def test_a_larger_budget_begins_with_the_values_of_the_smaller(copied):
    table = "results/tiny/attribution/scenes-clip/pairs.parquet"

    def rows():
        copied.snakemake(table)
        return pq.read_table(copied.folder / table).to_pylist()

    copied.change("attribution.estimator", "permutation")
    small = rows()
    copied.change("attribution.evaluations", 400)
    assert "align" not in copied.jobs()
    large = rows()
    shutil.rmtree(copied.folder / "results/tiny/attribution")
    again = rows()
    # Alike but for what is computed in one batch.
    for ours, other in zip(large, again, strict=True):
        assert np.array(ours["phi"]) == pytest.approx(np.array(other["phi"]), abs=1e-5)
        exact = (
            "item_id",
            "role",
            "profile",
            "estimator",
            "requested",
            "evaluated",
            "tokens",
            "error",
        )
        assert [ours[name] for name in exact] == [other[name] for name in exact]
    budgets = [
        [row["requested"] for row in rows if row["profile"] == "equations"]
        for rows in (small, large)
    ]
    assert all(fewer < more for fewer, more in zip(*budgets, strict=True))


def test_an_answering_head_answers_from_stored_regions_which_are_attributed(copied):
    folder = copied.folder
    for part in tiny_encoders.build("lxmert-answering"):
        part.save_pretrained(folder / "lxmert")
    (folder / "answers.json").write_text(json.dumps(list(tiny_encoders.ANSWERS)))
    (folder / "regions").mkdir()
    generator = np.random.default_rng(0)
    for image in set(
        pq.read_table(folder / "results/tiny/sources/vqa.parquet")["image"].to_pylist()
    ):
        corner, size = (
            generator.random((5, 2)) * 100,
            generator.random((5, 2)) * 100 + 1,
        )
        np.savez(
            folder / f"regions/{image.rsplit('/', 1)[-1]}.npz",
            features=generator.random((5, tiny_encoders.WIDTH), dtype=np.float32),
            boxes=np.concatenate([corner, corner + size], axis=1).astype(np.float32),
            size=np.array([256, 256]),
        )
    files = {
        "weights": "lxmert",
        "regions": "regions",
        "answers": "answers.json",
        "masks": "regions",
    }
    copied.change("models.tiny-lxmert", {"kind": "lxmert-answering", **files})
    copied.change("answering", {"vqa-questions": {"source": "vqa", "size": 20}})
    copied.change("evaluation.models", ["scenes-clip", "tiny-lxmert"])
    copied.change("groups.questions", ["vqa-questions"])
    copied.change("attribution.models", ["scenes-clip", "tiny-lxmert"])
    copied.change("attribution.groups", ["pairs", "questions"])
    copied.snakemake(
        "results/tiny/evaluation/metrics.parquet",
        "results/tiny/attribution/shares.parquet",
    )
    rows = pq.read_table(
        folder / "results/tiny/evaluation/tiny-lxmert/questions.parquet"
    ).to_pylist()
    assert {row["prediction"] for row in rows} <= set(tiny_encoders.ANSWERS)
    assert [row["error"] for row in rows] == [None] * 2 * 20
    metrics = pq.read_table(
        folder / "results/tiny/evaluation/metrics.parquet"
    ).to_pylist()
    answered = [
        row
        for row in metrics
        if row["metric"] == "accuracy" and row["dataset"] == "vqa-questions"
    ]
    assert [row["profile"] for row in answered] == ["equations", "published"]
    assert all(row["n"] == 20 and 0 <= row["value"] <= 100 for row in answered)
    attributed = pq.read_table(
        folder / "results/tiny/attribution/tiny-lxmert/questions.parquet"
    ).to_pylist()
    assert len(attributed) == 2 * 3
    predictions = {row["item_id"]: row["prediction"] for row in rows}
    assert all(row["outputs"] == [predictions[row["item_id"]]] for row in attributed)
    of = [
        row
        for row in pq.read_table(
            folder / "results/tiny/attribution/shares.parquet"
        ).to_pylist()
        if row["model"] == "tiny-lxmert"
    ]
    assert [(row["role"], row["setting"], row["n"]) for row in of] == [
        ("answer", "answering:regions", 3)
    ] * 2
