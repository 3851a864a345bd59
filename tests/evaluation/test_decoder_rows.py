"""Everything that a decoder is evaluated on, in one go."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest
from PIL import Image

from stand_ins import tiny_decoders
from stand_ins.scripted_decoders import scripted
from waltz.core.files import parquet
from waltz.core.schema import EVALUATION, Layout
from waltz.evaluation.decoder_tasks import (
    GenerationSettings,
    assign_orders,
    choose_sampling,
    evaluate_labelled_questions,
    evaluate_open_questions,
    evaluate_pairs,
)
from waltz.evaluation.prompting.generation_cache import DecoderSession
from waltz.evaluation.prompting.image_questions import count_earlier_draws
from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.evaluation.prompting.prompts import build_equations_template, build_published_template
from waltz.models.decoders.decoder import Sampling

NULLABLE = [field.with_nullable(True) if field.name == "image" else field for field in EVALUATION.schema]
MORE = [pa.field(name, pa.string()) for name in ("order", "reasoning") if name not in EVALUATION.schema.names]
LAYOUT = Layout("evaluation", pa.schema([*NULLABLE, *MORE]), EVALUATION.key)
"""Text tasks have no image; pairwise rows say who was (A), rows after a chain of thought hold it."""

ITEMS = [
    {"item_id": f"i{place}", "instrument": "existence", "image": f"m{place}", "caption": "a dog", "foil": "no dog"}
    for place in range(3)
]


def session(decoder):
    return DecoderSession(decoder, lambda name: Image.new("RGB", (24, 24)))


def test_each_setting_has_a_row_for_each_item_or_text():
    decoder = scripted(lambda text: {"A": 1.0}, says=lambda prompt, seed: " so")
    template = build_equations_template(decoder.render_chat)
    orders = assign_orders(ITEMS, "existence", "equations", 0)
    rows = evaluate_pairs(session(decoder), ITEMS, "existence", template, orders, GenerationSettings(0, cot_tokens=5))
    counts = {}
    for row in rows:
        counts[row["setting"]] = counts.get(row["setting"], 0) + 1
        assert row["error"] is None
        assert ("reasoning" in row) == row["setting"].endswith("-after-cot")
    assert counts == {"pairwise": 3, "pairwise-after-cot": 3, "single": 6, "single-after-cot": 6} | {
        "log-likelihood": 6,
        "log-likelihood-sum": 6,
        "vqascore": 6,
    }
    assert parquet.build_table(rows, LAYOUT).num_rows == len(rows)
    assert {
        row["setting"] for row in evaluate_labelled_questions(session(decoder), [], template, GenerationSettings(0))
    } == set()


def test_open_questions_are_answered_at_once_and_after_a_chain_of_thought():
    decoder = scripted(lambda text: {}, says=lambda prompt, seed: "a dog")
    items = [{"item_id": "d:0", "image": "m", "question": "What?", "answer": "dog", "answers": []}]
    rows = evaluate_open_questions(
        session(decoder), items, "d", build_equations_template(decoder.render_chat), GenerationSettings(0, cot_tokens=9)
    )
    assert [(row["setting"], row["correct"]) for row in rows] == [("answering", True), ("answering-after-cot", True)]
    assert parquet.build_table(rows, LAYOUT).num_rows == 2


def test_published_orders_have_their_place_in_the_stream_of_pieces():
    random.seed(42)
    stream = [random.choice([0, 1]) == 0 for _ in range(count_earlier_draws("existence") + 3)]
    assert list(assign_orders(ITEMS, "existence", "published", 0).values()) == stream[-3:]
    assert list(assign_orders(ITEMS, "mscoco", "published", 0).values()) == stream[:3]


def test_who_draws_tokens():
    decoder = scripted(lambda text: {})
    own = SimpleNamespace(temperature=0.6, top_k=None, top_p=0.9, do_sample=False)
    decoder.network.model = SimpleNamespace(generation_config=own)
    assert choose_sampling(decoder, "equations") is None
    assert choose_sampling(decoder, "published") == Sampling(0.6, 50, 0.9)
    decoder.reads_images = False
    assert choose_sampling(decoder, "published") is None
    own.do_sample = True
    assert choose_sampling(decoder, "published") == Sampling(0.6, 50, 0.9)


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_a_real_network_gives_the_same_rows_for_one_item_alone(profile):
    decoder = tiny_decoders.llava()
    if profile == "published":
        template = build_published_template("llava-vicuna")
    else:
        known = replace(read_prompt_file("equations"), affirms="is")  # the tiny vocabulary has no "Yes"
        template = build_equations_template(scripted(lambda text: {}).render_chat, known)
    items = [{**item, "caption": f"a dog sits on table {place}"} for place, item in enumerate(ITEMS)]
    orders = assign_orders(items, "existence", profile, 0)
    saying = GenerationSettings(3, Sampling() if profile == "published" else None, cot_tokens=6)
    rows = evaluate_pairs(session(decoder), items, "existence", template, orders, saying)
    assert not [row["error"] for row in rows if row["error"]]
    alone = evaluate_pairs(session(decoder), items[1:2], "existence", template, orders, saying)
    assert alone == [row for row in rows if row["item_id"] == "i1"]
