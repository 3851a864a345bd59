"""The tasks of a scripted decoder, from data sets to rows."""

import json
import random
import sqlite3
from contextlib import closing, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest
from PIL import Image

from stand_ins.models import tiny_decoders
from stand_ins.models.scripted_decoders import scripted
from stand_ins.records import build_items
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles, merge_shards, write_results
from waltz.core.layout import POSITION, Layout
from waltz.core.records import to_row
from waltz.core.schema import BENCHMARK, EVALUATION
from waltz.evaluation import decoder_tasks as module
from waltz.evaluation.decoder_rows import GenerationSettings
from waltz.evaluation.decoder_tasks import (
    DecoderTask,
    build_task,
    build_template,
    count_skipped,
    evaluate_labeled_questions,
    evaluate_open_questions,
    evaluate_pairs,
    evaluate_task,
    prompt_datasets,
)
from waltz.evaluation.prompting.decoder_outputs import (
    DecoderSession,
    choose_sampling,
    select_sampling,
)
from waltz.evaluation.prompting.prompt_files import (
    ANSWER_KINDS,
    KINDS,
    check_prompts,
    get_prompt_family,
    read_prompt_file,
)
from waltz.evaluation.prompting.prompts import (
    build_equations_template,
    build_published_template,
)
from waltz.evaluation.prompting.questions import (
    assign_balanced_orders,
    assign_orders,
    count_earlier_draws,
    draw_published_orders,
)
from waltz.evaluation.settings import PromptingSettings
from waltz.evaluation.vqa import VqaItem
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity
from waltz.model_registry import ModelSpec
from waltz.models.decoders.decoder import ChatTurn, Sampling
from waltz.sources.readers import QUESTIONS, TEXTS

SETTINGS = PromptingSettings(
    profiles=["equations"], scored="valid", sample=None, seed=3, cot_tokens=4
)
PHRASES = {"caption_phrases": [], "foil_phrases": [], "kept": True}


def pair(place, image=None, valid=True):
    return {
        "item_id": f"i{place}",
        "image": image or f"m{place}",
        "caption": f"{place} dogs",
        "foil": "no dog",
    } | {
        **PHRASES,
        **dict.fromkeys(("instrument", "piece", "source"), "d"),
        "valid": valid,
    }


def text(place, gold, choices=("yes", "no", "maybe"), rejected=None):
    return {
        "source": "s",
        "source_id": str(place),
        "task": "esnli",
        "premise": f"P{place}.",
        "hypothesis": "So.",
    } | {
        "choices": list(choices),
        "gold": gold,
        "explanations": [],
        "reconstructed": False,
        "rejected": rejected,
    }


def question(place, answer="dog", rejected=None):
    return {
        "source": "s",
        "source_id": str(place),
        "image": f"m{place % 2}",
        "question": "What is it?",
    } | {
        "answer": answer,
        "answers": [],
        "choices": [],
        "rejected": rejected,
    }


def written(tmp_path, rows, layout):
    path = tmp_path / "rows.parquet"
    parquet.write_rows(path, rows, layout)
    return path


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_orders_are_those_of_all_valid_items_whatever_is_sampled(tmp_path, profile):
    file = written(
        tmp_path, [pair(place, valid=place != 2) for place in range(20)], BENCHMARK
    )
    few = build_task(
        file, "d", {"form": "pairs"}, get_fidelity(profile), replace(SETTINGS, sample=6)
    )
    ids = [f"i{place}" for place in range(20) if place != 2]
    items = build_items(
        {"item_id": item_id, "image": "m", "caption": "a", "foil": "b"}
        for item_id in ids
    )
    assert few.orders == (
        assign_balanced_orders(ids, 3)
        if profile == "equations"
        else draw_published_orders(items)
    )
    assert few.count_items() == 6
    firsts = [few.orders[item.item_id] for item in few.items]
    assert profile == "published" or sum(firsts) == 3
    assert (
        build_task(
            file,
            "d",
            {"form": "pairs"},
            get_fidelity(profile),
            replace(SETTINGS, scored="all"),
        ).count_items()
        == 20
    )


def test_skipped_questions_are_counted_by_reason(tmp_path):
    rows = [question(0), question(1, answer=None), question(2, rejected="no image")]
    task = build_task(
        written(tmp_path, rows, QUESTIONS),
        "d",
        {"form": "open", "size": 5},
        EQUATIONS,
        SETTINGS,
    )
    assert [item.item_id for item in task.items] == ["d:0"]
    assert task.skipped == {"the answer is withheld": 1, "no image": 1}
    rows = [text(0, 0), text(1, 3), text(2, 2), text(3, None, rejected="no label")]
    choice = build_task(
        written(tmp_path, rows, TEXTS),
        "e",
        {"form": "choice", "size": 9},
        PUBLISHED,
        SETTINGS,
    )
    assert {one.item_id for one in choice.questions} == {"s:0", "s:2"}
    assert count_skipped([task, choice, DecoderTask("e", "other", "choice")]) == {
        "equations": task.skipped,
        "published": {"no label": 1, "its answer is none of A, B, C": 1},
    }


def test_a_file_of_another_form_is_refused(tmp_path):
    file = written(tmp_path, [question(0)], QUESTIONS)
    with pytest.raises(UserError, match="benchmark: column 'item_id' is missing"):
        build_task(file, "d", {"form": "pairs"}, EQUATIONS, SETTINGS)


@pytest.mark.parametrize("thought", [0, 5])
def test_rows_are_sorted_by_setting_for_any_batch(monkeypatch, thought):
    decoder = scripted(
        lambda prompt: {"A": float(len(prompt) % 7)}, says=lambda prompt, seed: " so"
    )
    # two items share an image and stand apart in the file
    items = tuple(build_items(pair(place, image=f"m{place % 4}") for place in range(6)))
    orders = {f"i{place}": place % 2 == 0 for place in range(6)}
    opened, rows, done = [], {}, []

    def load(name):
        opened.append(name)
        return Image.new("RGB", (2, 2))

    for images in (1, 32):
        monkeypatch.setattr(module, "IMAGES_PER_BLOCK", images)
        opened.clear()
        done.clear()
        session = DecoderSession(decoder, load, report_progress=done.append)
        task = DecoderTask("d", EQUATIONS, "pairs", items=items, orders=orders)
        rows[images] = evaluate_task(
            session,
            task,
            build_equations_template(decoder.render_chat),
            GenerationSettings(0, cot_tokens=thought),
        )
        assert sorted(opened) == ["m0", "m1", "m2", "m3"]
    assert rows[1] == rows[32]
    by_setting = {}
    for row in rows[1]:
        by_setting.setdefault(row.setting, []).append((row.item_id, row.role))
    assert [row.setting for row in rows[1]] == [
        setting for setting, of in by_setting.items() for _ in of
    ]
    assert by_setting["single"] == [
        (item.item_id, role) for item in items for role in ("caption", "foil")
    ]
    # "no dog" with one image is one prompt, whatever the item; what the likelihood needs is one
    # prompt each
    repeated = 2 * (3 if not thought else 5)
    assert sum(done) == task.count_prompts(thought) - repeated
    assert parquet.build_table(list(map(to_row, rows[1])), EVALUATION).num_rows == len(
        rows[1]
    )


def test_any_number_of_shards_gives_the_same_file_from_the_same_stored_results(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "IMAGES_PER_BLOCK", 1)
    monkeypatch.setattr(module, "open_images", lambda images: nullcontext())
    monkeypatch.setattr(
        module, "load_image", lambda source, name: Image.new("RGB", (2, 2))
    )
    decoder = scripted(
        lambda prompt: {"A": float(len(prompt) % 7)}, says=lambda prompt, seed: " so"
    )
    # images of two items each, which stand apart in the file; the second data set has fewer blocks
    # than shards
    (tmp_path / "z").mkdir()
    files = [
        written(
            tmp_path / "z",
            [pair(place, image=f"m{place % 4}") for place in range(8)],
            BENCHMARK,
        ),
        written(tmp_path, [question(place) for place in range(3)], QUESTIONS),
    ]
    datasets = [
        DatasetFiles("z", str(files[0]), "images", {"form": "pairs"}),
        DatasetFiles("a", str(files[1]), "images", {"form": "open", "size": None}),
    ]

    def count_stored(job):
        with closing(sqlite3.connect(tmp_path / "store" / f"{job}.sqlite")) as file:
            return file.execute("SELECT count(*) FROM results").fetchone()[0]

    def merge(shards):
        parts = []
        for shard in range(shards):
            results = prompt_datasets(
                decoder,
                datasets,
                tmp_path / "store" / f"{shard}-of-{shards}.sqlite",
                SETTINGS,
                slice(shard, None, shards),
            )
            paths = (
                tmp_path / f"{shard}-of-{shards}.parquet",
                tmp_path / f"{shard}-of-{shards}.run.json",
            )
            outputs = {"scores": (str(paths[0]), EVALUATION.with_position())}
            write_results(outputs, str(paths[1]), results, model={"name": "m"})
            parts.append([str(path) for path in paths])
        file, record = tmp_path / f"{shards}.parquet", tmp_path / f"{shards}.run.json"
        rows, records = zip(*parts, strict=True)
        merge_shards(rows, records, str(file), str(record), EVALUATION, [POSITION])
        return parquet.read_rows(file, EVALUATION.with_dataset()), json.loads(
            record.read_text()
        )

    whole, _ = merge(1)
    assert count_stored("0-of-1") > 0
    assert [row["item_id"] for row in whole if row["setting"] == "pairwise"] == [
        f"i{place}" for place in range(8)
    ]
    assert list(dict.fromkeys(row["dataset"] for row in whole)) == ["z", "a"]
    cut, records = merge(3)
    assert cut == whole
    assert [count_stored(f"{shard}-of-3") for shard in range(3)] == [0, 0, 0]
    assert sum(record["rows_in"] for record in records) == 8 + 3


def test_open_questions_and_choices_give_rows_of_the_layout(tmp_path):
    decoder = scripted(lambda prompt: {"B": 1.0}, says=lambda prompt, seed: "a dog")
    template, session = (
        build_equations_template(decoder.render_chat),
        DecoderSession(decoder, lambda name: Image.new("RGB", (2, 2))),
    )
    task = build_task(
        written(tmp_path, [question(place) for place in range(3)], QUESTIONS),
        *("d", {"form": "open", "size": None}, "equations"),
        SETTINGS,
    )
    rows = evaluate_task(session, task, template, GenerationSettings(0))
    assert [(row.item_id, row.correct) for row in rows] == [
        ("d:0", True),
        ("d:1", True),
        ("d:2", True),
    ]
    task = build_task(
        written(tmp_path, [text(0, 0), text(1, 1)], TEXTS),
        "e",
        {"form": "choice", "size": 2},
        EQUATIONS,
        SETTINGS,
    )
    rows += evaluate_task(session, task, template, GenerationSettings(0, cot_tokens=3))
    assert [row.correct for row in rows[3:]] == [False, True] * 2
    assert task.count_prompts(3) == 2 * 3
    assert parquet.build_table(list(map(to_row, rows)), EVALUATION).num_rows == 7


def test_a_language_model_without_chat_template_is_given_turns_below_each_other(
    tmp_path,
):
    decoder = tiny_decoders.causal()
    template = build_template(decoder, EQUATIONS)
    assert (
        template.render_turns([ChatTurn("user", "so?"), ChatTurn("assistant", "(")])
        == "so?\n("
    )
    mine = tmp_path / "mine.yaml"
    mine.write_text("affirms: so\n")
    decoder = replace(
        decoder, spec=replace(decoder.spec, prompts=str(mine), family="gpt2")
    )
    assert build_template(decoder, EQUATIONS).prompt_file.affirms == "so"
    assert (
        build_template(decoder, PUBLISHED).family,
        build_template(decoder, PUBLISHED).prompt_file.affirms,
    ) == (
        "gpt2",
        "Yes",
    )


def test_a_model_that_published_cannot_speak_to_is_refused_before_it_is_loaded(
    tmp_path,
):
    missing = ModelSpec("m", kind="vision")
    with pytest.raises(
        UserError,
        match=r"models\.m\.family: is missing; .* bakllava, llava-mistral, llava-vicuna",
    ):
        check_prompts(missing, ["equations", "published"])
    check_prompts(missing, ["equations"])
    with pytest.raises(
        UserError, match="'gpt2' is not a family of models that read images"
    ):
        get_prompt_family(ModelSpec("m", kind="vision", family="gpt2"))
    with pytest.raises(
        UserError, match="'bakllava' is not a family of models that read text alone"
    ):
        get_prompt_family(ModelSpec("m", kind="text", family="bakllava"))
    assert (
        get_prompt_family(ModelSpec("m", kind="vision", family="mplug-owl3"))
        == "mplug-owl3"
    )
    odd = tmp_path / "odd.yaml"
    odd.write_text("affirm: 'yes'\n")
    with pytest.raises(UserError, match="affirm: unknown key"):
        check_prompts(ModelSpec("m", kind="text", prompts=str(odd)), ["equations"])


NULLABLE = [
    field.with_nullable(True) if field.name == "image" else field
    for field in EVALUATION.schema
]
MORE = [
    pa.field(name, pa.string())
    for name in ("order", "reasoning")
    if name not in EVALUATION.schema.names
]
LAYOUT = Layout("evaluation", pa.schema([*NULLABLE, *MORE]), EVALUATION.key)
"""Text tasks have no image; pairwise rows say who was (A), rows after a chain of thought hold it.
"""

ITEMS = build_items(
    {
        "item_id": f"i{place}",
        "instrument": "existence",
        "image": f"m{place}",
        "caption": "a dog",
        "foil": "no dog",
    }
    for place in range(3)
)


def session(decoder):
    return DecoderSession(decoder, lambda name: Image.new("RGB", (24, 24)))


def test_each_setting_has_a_row_for_each_item_or_text():
    decoder = scripted(lambda text: {"A": 1.0}, says=lambda prompt, seed: " so")
    template = build_equations_template(decoder.render_chat)
    orders = assign_orders(ITEMS, "existence", EQUATIONS, 0)
    rows = evaluate_pairs(
        session(decoder),
        ITEMS,
        "existence",
        template,
        orders,
        GenerationSettings(0, cot_tokens=5),
    )
    counts = {}
    for row in rows:
        counts[row.setting] = counts.get(row.setting, 0) + 1
        assert row.error is None
        assert (row.reasoning is not None) == row.setting.endswith("-after-cot")
    assert counts == {
        "pairwise": 3,
        "pairwise-after-cot": 3,
        "single": 6,
        "single-after-cot": 6,
    } | {
        "log-likelihood": 6,
        "log-likelihood-sum": 6,
        "vqascore": 6,
    }
    assert parquet.build_table(list(map(to_row, rows)), LAYOUT).num_rows == len(rows)
    assert {
        row.setting
        for row in evaluate_labeled_questions(
            session(decoder), [], template, GenerationSettings(0)
        )
    } == set()


def test_open_questions_are_answered_at_once_and_after_a_chain_of_thought():
    decoder = scripted(lambda text: {}, says=lambda prompt, seed: "a dog")
    items = [VqaItem("d:0", "m", "What?", "dog", [])]
    rows = evaluate_open_questions(
        session(decoder),
        items,
        "d",
        build_equations_template(decoder.render_chat),
        GenerationSettings(0, cot_tokens=9),
    )
    assert [(row.setting, row.correct) for row in rows] == [
        ("answering", True),
        ("answering-after-cot", True),
    ]
    assert parquet.build_table(list(map(to_row, rows)), LAYOUT).num_rows == 2


def test_published_orders_have_their_place_in_the_stream_of_pieces():
    random.seed(42)
    stream = [
        random.choice([0, 1]) == 0 for _ in range(count_earlier_draws("existence") + 3)
    ]
    assert list(assign_orders(ITEMS, "existence", PUBLISHED, 0).values()) == stream[-3:]
    assert list(assign_orders(ITEMS, "mscoco", PUBLISHED, 0).values()) == stream[:3]


def test_who_draws_tokens():
    decoder = scripted(lambda text: {})
    own = SimpleNamespace(temperature=0.6, top_k=None, top_p=0.9, do_sample=False)
    decoder.network.model = SimpleNamespace(generation_config=own)
    # The released code samples with every VL decoder, and with language models that are set so.
    settings = Sampling(0.6, 50, 0.9)
    assert choose_sampling(decoder) == settings
    decoder.reads_images = False
    assert choose_sampling(decoder) is None
    own.do_sample = True
    assert choose_sampling(decoder) == settings
    decoder.network.model.generation_config = None
    assert choose_sampling(decoder) is None
    decoder.reads_images = True
    assert choose_sampling(decoder) == Sampling(1.0, 50, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_equations_samples_explanations_and_no_answers(kind):
    settings = Sampling(0.6, 50, 0.9)
    answers = {*ANSWER_KINDS, "same-meaning"}
    expected = None if kind in answers else settings
    assert select_sampling(settings, kind, EQUATIONS) == expected
    assert select_sampling(settings, kind, PUBLISHED) == settings
    assert select_sampling(None, kind, EQUATIONS) is None


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_a_real_network_gives_the_same_rows_for_one_item_alone(profile):
    decoder = tiny_decoders.llava()
    if profile == "published":
        template = build_published_template("llava-vicuna")
    else:
        # The tiny vocabulary has no "Yes".
        known = read_prompt_file(EQUATIONS).model_copy(update={"affirms": "is"})
        template = build_equations_template(
            scripted(lambda text: {}).render_chat, known
        )
    items = [
        replace(item, caption=f"a dog sits on table {place}")
        for place, item in enumerate(ITEMS)
    ]
    orders = assign_orders(items, "existence", get_fidelity(profile), 0)
    saying = GenerationSettings(
        3, Sampling() if profile == "published" else None, cot_tokens=6
    )
    rows = evaluate_pairs(
        session(decoder), items, "existence", template, orders, saying
    )
    assert not [row.error for row in rows if row.error]
    alone = evaluate_pairs(
        session(decoder), items[1:2], "existence", template, orders, saying
    )
    assert alone == [row for row in rows if row.item_id == "i1"]
