"""LXMERT by the rules of VALSE's script: against numbers that the script printed, and against the
network's own forward pass with the script's arguments to the tokenizer.
"""

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from stand_ins.models.tiny_encoders import REGIONS, WIDTH, build
from stand_ins.records import build_items
from waltz.core.intervals import Resampling
from waltz.core.jobs.devices import Device
from waltz.evaluation.alignment import score_items
from waltz.evaluation.metrics.pair_metrics import compute_pair_metrics, pair_scores
from waltz.evaluation.metrics.summary import (
    build_comparison_records,
    build_metric_records,
)
from waltz.evaluation.settings import ALIGNMENT, VALSE_SCRIPT
from waltz.evaluation.valse_script import MAX_TOKENS, TIED_FOIL, cut_text
from waltz.fidelity import PUBLISHED
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.encoders.encoder import tokenize_text
from waltz.models.encoders.kinds.lxmert import Lxmert
from waltz.sources.images import open_images

HOW = Resampling(50, 0.95, 0)
LONG = (
    "the red horse rides on a street under a dog two cat sleeps on the red street " * 2
)
"""36 words."""


def draw_logits():
    """Return 60 pairs of made-up logits, of shape (items, 2, 2): caption and foil; mismatch and
    match.

    One caption and three foils have equal logits.
    """
    rng = np.random.default_rng(13)
    match = rng.normal(size=(60, 2)).round(2)
    margin = rng.uniform(0.1, 3, size=(60, 2)).round(2)
    signs = np.full((60, 2), -1)
    signs[:23, 0] = 1
    signs[23, 0] = 0
    signs[:25, 1] = 1
    signs[:57, 1] = rng.permutation(signs[:57, 1])
    signs[57:] = (1, 0)
    logits = np.stack([match - margin * signs, match], axis=-1)
    return logits.round(2).astype(np.float32)


def build_item(position, caption, foil, image="0.jpg"):
    return {
        "item_id": f"i{position:02}",
        "image": image,
        "caption": caption,
        "foil": foil,
    }


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """Load a tiny LXMERT with regions of one image."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("lxmert")
    network, tokenizer = build("lxmert")
    # The script reads 30 tokens, more than the tiny network has positions for.
    positions = torch.nn.Embedding(64, network.config.hidden_size)
    network.lxmert.embeddings.position_embeddings = positions
    network.config.max_position_embeddings = 64
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    draw = np.random.default_rng(6)
    corner = draw.uniform(0, 40, (REGIONS, 2))
    regions = tmp_path_factory.mktemp("regions")
    np.savez(
        regions / "0.jpg.npz",
        features=draw.normal(size=(REGIONS, WIDTH)).astype(np.float32),
        boxes=np.concatenate([corner, corner + 20], axis=1).astype(np.float32),
        size=np.array([60, 80]),
    )
    spec = ModelSpec(
        "lxmert",
        kind="lxmert",
        weights=str(folder),
        revision="local",
        regions=str(regions),
    )
    return load_encoder(spec, Device("cpu", 1, "a test"))


@pytest.fixture
def images(tmp_path):
    Image.new("RGB", (80, 60)).save(tmp_path / "0.jpg")
    with open_images(tmp_path) as source:
        yield source


def select(records, setting, profile="published"):
    return [
        record
        for record in records
        if record.setting == setting and record.profile == profile
    ]


def round_metrics(records):
    scored = pair_scores(records, PUBLISHED)
    metrics = compute_pair_metrics(scored, "d", HOW)
    names = ("acc", "p_c", "p_f", "acc_r_paper")
    return len(scored.items), *(round(metrics[name].value, 2) for name in names)


def test_metrics_are_those_that_the_script_printed(encoder, images, monkeypatch):
    # The script at commit 2152d90, run with these logits in the place of LXMERT's, printed "made-up
    # sample 57/60", acc 48.25, p_c 40.35, p_f 56.14, acc_r 49.12.
    logits = iter(torch.from_numpy(draw_logits().reshape(-1, 2)))
    monkeypatch.setattr(
        Lxmert,
        "compute_match_logits",
        lambda self, text, image: torch.stack([next(logits) for _ in text[0]]),
    )
    # Pairs of an image are scored in the order of their texts.
    texts = [str(number) for number in range(1000, 1120)]
    items = build_items(
        build_item(position, *texts[2 * position : 2 * position + 2])
        for position in range(60)
    )
    records = score_items(encoder, items, images, ["published"])
    assert round_metrics(select(records, VALSE_SCRIPT)) == (
        57,
        48.25,
        40.35,
        56.14,
        49.12,
    )
    assert round_metrics(select(records, ALIGNMENT)) == (60, 49.17, 45.0, 53.33, 50.0)
    errors = [record.error for record in records if record.error]
    assert errors == [TIED_FOIL] * 3


def test_scores_are_logits_of_the_texts_that_the_script_reads(encoder, images):
    foil = LONG.replace("horse", "dog", 1)
    late_foil = LONG[:-8] + "cat"
    items = build_items(
        [
            build_item(0, "a dog", "a cat"),
            build_item(1, LONG, foil),
            build_item(2, LONG, late_foil),
        ]
    )
    records = score_items(encoder, items, images, ["published", "equations"])
    assert not select(records, VALSE_SCRIPT, "equations")
    scripted = select(records, VALSE_SCRIPT)
    assert [record.tokens for record in scripted] == [4, 4, 30, 30, 30, 30]

    # The script pads and cuts by its tokenizer.
    network = transformers.LxmertForPreTraining.from_pretrained(encoder.spec.weights)
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder.spec.weights)
    prepared = encoder.prepare_image(encoder.provider.load_regions("0.jpg"))
    features, boxes = encoder.provider.compute_regions(prepared[None])
    for item, pair in zip(
        items, zip(scripted[::2], scripted[1::2], strict=True), strict=True
    ):
        inputs = tokenizer(
            [item.caption, item.foil],
            padding="max_length",
            max_length=30,
            truncation=True,
            return_tensors="pt",
        )
        with torch.inference_mode():
            logits = network.eval()(
                **inputs,
                visual_feats=features.expand(2, -1, -1),
                visual_pos=boxes.expand(2, -1, -1),
            ).cross_relationship_score
        for record, (mismatch, match) in zip(pair, logits.tolist(), strict=True):
            assert record.score == pytest.approx(match, abs=1e-5)
            assert record.prediction == ("match" if match > mismatch else "mismatch")
    # A foil that differs behind the cut ties with its caption, and a tie is wrong.
    assert scripted[4].score == scripted[5].score
    assert [record.score for record in select(records, ALIGNMENT)[4:]] != [
        scripted[4].score
    ] * 2
    metrics = compute_pair_metrics(pair_scores(scripted, PUBLISHED), "d", HOW)
    assert metrics["ties"].value == pytest.approx(100 / 3)


def test_texts_of_other_images_have_no_scores_of_the_script(encoder, images):
    items = build_items([build_item(0, "a dog", "a cat") | {"instrument": "alignment"}])
    records = score_items(encoder, items, images, ["published"])
    assert [record.setting for record in records] == [ALIGNMENT] * 2


def test_metrics_and_comparisons_keep_the_two_scores_apart(encoder, images):
    items = build_items(
        build_item(position, f"a {first}", f"a {second}")
        for position, (first, second) in enumerate(
            [("dog", "cat"), ("horse", "street"), ("cat", "horse"), ("street", "dog")]
        )
    )
    records = score_items(encoder, items, images, ["published"])
    scripted, aligned = select(records, VALSE_SCRIPT), select(records, ALIGNMENT)
    runs = {
        ("lxmert", "d"): records,
        ("clip", "d"): aligned,
        ("blip", "d"): aligned,
        ("blip", "e"): aligned,
    }
    rows = build_metric_records(runs, ["published"], HOW)
    acc_r = {
        row.setting: row.measure.value
        for row in rows
        if (row.model, row.metric) == ("lxmert", "acc_r_paper")
    }
    hits = [
        caption.score > foil.score
        for caption, foil in zip(scripted[::2], scripted[1::2], strict=True)
    ]
    assert acc_r[VALSE_SCRIPT] == 25 * sum(hits)
    comparisons = build_comparison_records(runs, ["published"], HOW)
    compared = {
        (row.model_a, row.model_b, row.setting)
        for row in comparisons
        if row.metric == "acc_r"
    }
    assert compared == {
        ("lxmert", "clip", "single"),
        ("lxmert", "blip", "single"),
        ("clip", "blip", "single"),
        ("lxmert", "clip", "valse-script"),
        ("lxmert", "blip", "valse-script"),
    }
    difference = {
        (row.model_b, row.setting): row.difference
        for row in comparisons
        if row.metric == "acc_r" and row.model_a == "lxmert"
    }
    assert difference["clip", "single"] == 0
    assert difference["clip", VALSE_SCRIPT] == acc_r[VALSE_SCRIPT] - acc_r[ALIGNMENT]


class WordPieces:
    """A BERT tokenizer of a few pieces, as an encoder has it."""

    def __init__(self):
        from tokenizers import (
            Tokenizer,
            models,
            normalizers,
            pre_tokenizers,
            processors,
        )

        pieces = ["[UNK]", "[CLS]", "[SEP]", "a", "play", "##ing", "##s", "cafe", "##x"]
        core = Tokenizer(
            models.WordPiece(
                {piece: index for index, piece in enumerate(pieces)}, unk_token="[UNK]"
            )
        )
        core.normalizer = normalizers.BertNormalizer()
        core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        core.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
        )
        self.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=core,
            cls_token="[CLS]",
            sep_token="[SEP]",
            unk_token="[UNK]",
        )

    def tokenize(self, text):
        return tokenize_text(self.tokenizer, text, 512, "pieces")


@pytest.mark.parametrize(
    "text",
    [
        "a " * 27 + "playing a",  # cut within a word
        "a " * 26 + "playings",
        "a " * 27 + "Café a a",  # letters that the normalizer changes
        "a " * 27 + "zebra a",  # an unknown word
        "a " * 28,
        "a " * 12 + "playing  playings " * 9,
    ],
)
def test_a_cut_text_has_the_ids_of_the_cut_tokens(text):
    pieces = WordPieces()
    ids = pieces.tokenizer(text, truncation=True, max_length=MAX_TOKENS)["input_ids"]
    assert pieces.tokenize(cut_text(pieces, text)).ids == tuple(ids)
