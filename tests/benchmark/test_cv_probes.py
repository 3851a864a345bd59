"""Captions and conditions of CV-Probes worked by hand, and the script that builds them from scenes."""

import json
import runpy
from functools import partial
from types import SimpleNamespace

import pytest

from conftest import ROOT
from stand_ins.records import build_probes
from waltz.benchmark.cv_probes import (
    ACTION_SHOWN,
    CAPTION_NOT_SHOWN,
    IMAGE_NOT_IN_STUDY,
    NO_CONTEXTUAL_CAPTION,
    NO_PLAIN_IMAGE,
    SAME_CAPTION,
    UNDECIDED,
    build_conditions,
    count_rejections,
    list_checks,
    read_checks,
    read_written_captions,
    review_plain_captions,
    select_contextual_captions,
)
from waltz.benchmark.oracle import answer_checks, compute_condition_shares
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.records import from_row, get_layout, to_row, write_records
from waltz.core.schema import (
    CONDITIONS,
    ProbeCaptionRecord,
    ProbeRecord,
)
from waltz.filters.pipeline import READS_WORSE
from waltz.foils.cv_probes import (
    WrittenCaption,
    build_contextual_captions,
    select_images,
    select_verbs,
)
from waltz.foils.english.wordnet import read_swig_verbs
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers import annotations
from waltz.scenes.writers.files import find_scene
from waltz.sources.formats.swig import read_frames, read_situation_space

SWIG = read_swig_verbs()


def build_contextual(image, number, caption, rejected=None):
    return ProbeCaptionRecord(
        caption_id=f"contextual:{image}#{number}",
        kind="contextual",
        verb="voting",
        image=image,
        writer="rule",
        caption=caption,
        simplified=caption,
        rejected=rejected,
    )


CONTEXTUAL_ROWS = [
    build_contextual("a.jpg", 0, "A person votes."),
    build_contextual("a.jpg", 1, "A man votes."),
    build_contextual("a.jpg", 2, "A man votes."),
    build_contextual("b.jpg", 0, None, "nobody fills the role before the verb"),
    build_contextual("c.jpg", 0, "A person votes."),
]
CONTEXTUAL = select_contextual_captions(
    CONTEXTUAL_ROWS, {"A person votes.": 0.5, "A man votes.": 0.9}
)


def build_written(image, caption, plain_image="p.jpg"):
    return WrittenCaption(image, "voting", "w", caption, plain_image)


def test_the_most_grammatical_caption_of_an_image_is_selected_once():
    assert [row.rejected for row in CONTEXTUAL] == [
        READS_WORSE,
        None,
        SAME_CAPTION,
        "nobody fills the role before the verb",
        None,
    ]
    assert [row.grammaticality for row in CONTEXTUAL] == [0.5, 0.9, 0.9, None, 0.5]


def test_every_plain_caption_is_used_or_has_a_reason():
    rows = [
        build_written("a.jpg", "A man stands in a room."),
        build_written("a.jpg", "A man casts a ballot, voting."),
        build_written("a.jpg", "A man waits.", None),
        build_written("b.jpg", "A man waits."),
        build_written("z.jpg", "A man waits."),
    ]
    plain_rows = review_plain_captions(rows, CONTEXTUAL, None)
    assert [(row.image, row.rejected) for row in plain_rows] == [
        ("a.jpg", None),
        ("a.jpg", "uses the contextual verb"),
        ("a.jpg", NO_PLAIN_IMAGE),
        ("b.jpg", NO_CONTEXTUAL_CAPTION),
        ("z.jpg", IMAGE_NOT_IN_STUDY),
    ]
    assert [row.caption_id for row in plain_rows[:3]] == [
        "plain:a.jpg#0",
        "plain:a.jpg#1",
        "plain:a.jpg#2",
    ]
    parquet.build_table(
        map(to_row, [*CONTEXTUAL, *plain_rows]), get_layout(ProbeCaptionRecord)
    )
    assert count_rejections(plain_rows[:2]) == {
        "plain": {"kept": 1, "uses the contextual verb": 1}
    }


@pytest.mark.parametrize(
    ("plain", "contextual", "reason"),
    [
        (["yes", "yes", "no"], ["no", "no", "yes"], None),
        (["yes", "no"], ["no"], CAPTION_NOT_SHOWN),
        (["yes"], ["yes", "no"], ACTION_SHOWN),
        (["yes"], [], UNDECIDED),
        ([], ["no"], UNDECIDED),
    ],
)
def test_a_majority_of_checkers_decides_about_a_plain_image(plain, contextual, reason):
    rows = [build_written("a.jpg", "A man waits.")]
    assert list_checks(rows, CONTEXTUAL) == [
        ("p.jpg", "A man waits."),
        ("p.jpg", "A man votes."),
    ]
    answers = {("p.jpg", "A man waits."): plain, ("p.jpg", "A man votes."): contextual}
    assert review_plain_captions(rows, CONTEXTUAL, answers)[0].rejected == reason


def test_a_caption_that_cannot_be_simplified_has_only_its_original_form():
    rows = [
        build_written("a.jpg", "A man waits in a hall."),
        build_written("a.jpg", "Nice big hall", "q.jpg"),
    ]
    plain = review_plain_captions(rows, CONTEXTUAL, None)
    assert plain[1].not_simplified == "no main verb is found"
    items = build_conditions([*CONTEXTUAL, *plain])
    parquet.build_table(map(to_row, items), CONDITIONS)
    group_items = [
        (row.form, row.condition, row.image, row.caption)
        for row in items
        if row.group == "a.jpg"
    ]
    assert [row for row in group_items if row[0] == "simplified"] == [
        ("simplified", "+img+cap", "a.jpg", "A man votes."),
        ("simplified", "+img-cap", "a.jpg", "A man waits in a hall."),
        ("simplified", "-img+cap", "p.jpg", "A man votes."),
        ("simplified", "-img-cap", "p.jpg", "A man waits in a hall."),
    ]
    assert len(group_items) == 4 + 7
    assert [row.condition for row in items if row.group == "c.jpg"] == [
        "+img+cap",
        "+img+cap",
    ]


def test_simplified_captions_of_people_come_first_and_are_reviewed(tmp_path):
    path = tmp_path / "written.csv"
    path.write_text(
        "image,annotator,caption,plain_image,simplified\n"
        "a.jpg,w,A man sits in a hall with a hat in his hand.,p.jpg,A man sits with a hat in his hand.\n"
        "a.jpg,w,An old man waits.,p.jpg,\n"
        "a.jpg,w,A man stands in a hall.,p.jpg,A man votes.\n"
        "a.jpg,w,A man looks up.,p.jpg,A man looks up at the ceiling.\n"
    )
    written = read_written_captions(path, {"a.jpg": "voting"})
    rows = review_plain_captions(written, CONTEXTUAL, None)
    assert [(row.simplified, row.not_simplified) for row in rows] == [
        ("A man sits with a hat in his hand.", None),
        ("A man waits.", None),
        (None, "its simplified caption: uses the contextual verb"),
        (None, "its simplified caption has more words than the caption"),
    ]
    assert {row.rejected for row in rows} == {None}


def test_files_of_written_captions_and_checks(tmp_path):
    captions, checks = tmp_path / "written.csv", tmp_path / "checks.csv"
    captions.write_text(
        'image,annotator,caption,plain_image\na.jpg,w1,"A man, waits.",\nz.jpg,w1,A man.,p.jpg\n'
    )
    assert read_written_captions(captions, {"a.jpg": "voting"}) == [
        WrittenCaption("a.jpg", "voting", "w1", "A man, waits.", None),
        WrittenCaption("z.jpg", "", "w1", "A man.", "p.jpg"),
    ]
    head = "image,caption,annotator,answer\np.jpg,A man.,w1,yes\n"
    checks.write_text(head + "p.jpg,A man.,w2,no\n")
    assert read_checks(checks) == {("p.jpg", "A man."): ["yes", "no"]}
    checks.write_text(head + "p.jpg,A man.,w1,no\n")
    with pytest.raises(
        UserError, match="line 3: annotator 'w1' answered this image and caption twice"
    ):
        read_checks(checks)
    checks.write_text(head + "p.jpg,A man.,w2,perhaps\n")
    with pytest.raises(UserError, match="line 3: answer 'perhaps' is none of yes, no"):
        read_checks(checks)


@pytest.fixture(scope="module")
def scene_files(tmp_path_factory):
    """Contextual captions and descriptions of 40 scenes, as files."""
    folder, graphs = tmp_path_factory.mktemp("probes"), draw_scenes(40, 2026)
    (folder / "space.json").write_text(json.dumps(annotations.build_verb_space()))
    space, frames = read_situation_space(folder / "space.json"), []
    for split in annotations.SWIG_SPLITS:
        (folder / "frames.json").write_text(
            json.dumps(annotations.build_swig(graphs, 2026, split, False))
        )
        frames += list(read_frames(folder / "frames.json", space, "imsitu", split))
    names = select_verbs(frames, "all")
    rows = build_contextual_captions(frames, select_images(frames, 1, names))
    write_records(folder / "contextual.parquet", rows, ProbeCaptionRecord)
    (folder / "descriptions.json").write_text(
        json.dumps(annotations.build_descriptions(graphs, 2026))
    )
    return folder


def run(scene_files, **inputs):
    names = ("masked-lm", "acceptability")
    models = [
        {
            "name": name,
            "weights": str(ROOT / "resources/scenes/models" / name),
            "revision": "local",
            "dtype": "float32",
        }
        for name in names
    ]
    snakemake = SimpleNamespace(
        input=inputs | {"contextual": scene_files / "contextual.parquet"},
        output=SimpleNamespace(
            probes=scene_files / "items.parquet",
            captions=scene_files / "all.parquet",
            run=scene_files / "run.json",
        ),
        params=SimpleNamespace(
            models=dict(zip(("likelihood", "acceptability"), models, strict=True)),
            scenes={"count": 40, "seed": 2026},
        ),
        log=[scene_files / "log"],
        resources={},
        threads=1,
    )
    snakemake.input = InputFiles(snakemake.input)
    runpy.run_path(
        str(ROOT / "workflow/scripts/cv_probes.py"), {"snakemake": snakemake}
    )


class InputFiles(dict):
    """Input files by name, as in Snakemake."""

    __getattr__ = dict.__getitem__


def test_the_script_builds_four_conditions_that_the_oracle_confirms(scene_files):
    run(scene_files, descriptions=scene_files / "descriptions.json")
    items = parquet.read_rows(scene_files / "items.parquet", CONDITIONS)
    captions = parquet.read_rows(
        scene_files / "all.parquet", get_layout(ProbeCaptionRecord)
    )
    record = json.loads((scene_files / "run.json").read_text())
    assert sum(sum(counts.values()) for counts in record["captions"].values()) == len(
        captions
    )
    assert record["checker"] == "oracle"
    assert record["captions"]["plain"][UNDECIDED] > 0
    graphs = draw_scenes(40, 2026)
    shares = compute_condition_shares(
        [from_row(item, ProbeRecord) for item in items],
        partial(find_scene, graphs=graphs),
        Resampling(100, 0.95, 1),
    )
    assert len(shares) == 2 * 4 * 2
    assert {row.measure.value for row in shares if row.metric == "as_expected"} == {
        100.0
    }
    assert min(row.measure.n for row in shares) >= 15


def test_without_written_captions_the_script_names_the_next_command(
    scene_files, capsys
):
    with pytest.raises(SystemExit):
        run(scene_files)
    message = capsys.readouterr().err.strip()
    assert "\n" not in message
    assert "cv_probes.written is missing" in message
    assert "waltz people export-captions --captions" in message


def test_the_oracles_shares_distinguish_false_items_from_true_ones():
    graph = next(
        graph
        for graph in draw_scenes(40, 2026)
        if graph.action and graph.action.verb == "sleeping"
    )
    kind = graph.objects[graph.action.agent].kind
    texts = {
        f"A {kind} sleeps.": True,
        f"A {kind} eats.": True,
        "It is what it is, they say.": True,
    }
    rows = [
        {
            "item_id": text,
            "condition": "+img+cap",
            "image": "x",
            "caption": text,
            "match": match,
            "group": text,
        }
        for text, match in texts.items()
    ]
    decided, right = compute_condition_shares(
        build_probes(rows), lambda _: graph, Resampling(100, 0.95, 1)
    )
    assert (decided.candidates, decided.metric, decided.measure.n) == (
        "original +img+cap",
        "decided",
        3,
    )
    assert decided.measure.value == pytest.approx(200 / 3)
    assert (right.metric, right.measure.value, right.measure.n) == (
        "as_expected",
        50.0,
        2,
    )
    answers = answer_checks([("x", text) for text in texts], lambda _: graph)
    assert list(answers.values()) == [["yes"], ["no"], []]
