"""Items whose texts spell a control token: each stage excludes them with the reason, and computes
the others.
"""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from conftest import build_network
from stand_ins.models import tiny_decoders
from stand_ins.models.tiny_models import classifier_model, masked_model
from stand_ins.records import build_items
from waltz.attribution.companions import compute_companion_measures
from waltz.attribution.decoder_rows import (
    AnswerAttribution,
    attribute_answers_about_items,
)
from waltz.attribution.encoder_rows import attribute_texts_of_items
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.benchmark.audit import audit_blind_judges, score_blindly
from waltz.benchmark.cv_probes import select_contextual_captions
from waltz.consistency.cc_shap.rows import (
    CCShapSettings,
    build_setup,
    compute_cc_shap_records,
    compute_edit_records,
)
from waltz.consistency.edit_tests.runner import build_runner
from waltz.consistency.edit_tests.steps import GenerationRequest
from waltz.consistency.edit_tests.tests import build_settings, build_test_records
from waltz.core.errors import CONTROL_TOKEN, ItemError, UserError
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.jobs.devices import Device
from waltz.core.records import to_row
from waltz.core.schema import (
    ATTRIBUTION,
    CC_SHAP,
    CONSISTENCY,
    EDITED,
    EVALUATION,
    CandidateRecord,
    ConsistencyRecord,
    ProbeCaptionRecord,
)
from waltz.evaluation.alignment import score_items
from waltz.evaluation.decoder_rows import GenerationSettings
from waltz.evaluation.decoder_tasks import (
    build_template,
    evaluate_open_questions,
    evaluate_pairs,
)
from waltz.evaluation.perplexity import score_pairs
from waltz.evaluation.prompting.decoder_outputs import DecoderSession
from waltz.evaluation.prompting.questions import Question
from waltz.evaluation.vqa import VqaItem
from waltz.fidelity import EQUATIONS, get_fidelity
from waltz.filters.pipeline import FilterModels, filter_candidates, score_grammaticality
from waltz.foils import action_replacement, cv_probes, plurality, relations
from waltz.foils.candidates import Candidate, MakerOptions
from waltz.foils.masked_proposals import ProposalSettings, load_proposer
from waltz.model_registry import ModelSpec
from waltz.models.decoders.language_model import reply_to
from waltz.models.encoders import load_encoder
from waltz.models.encoders.vqa import tokenize_answers
from waltz.models.text.causal import wrap_causal_model
from waltz.sources.records import CaptionRecord, FrameRecord

RESAMPLING = Resampling(resamples=20, confidence=0.95, seed=0)
PROFILES = ["equations", "published"]


def spoil_items(token: str) -> list[dict]:
    """Two items, of which the second spells a token in its caption."""
    texts = [
        ("a man and a dog", "a dog and a cat"),
        (f"two cars {token} four", "four cars"),
    ]
    return build_items(
        {
            "item_id": f"own:{number}",
            "image": f"{number}.png",
            "caption": caption,
            "foil": foil,
        }
        for number, (caption, foil) in enumerate(texts)
    )


ORDERS = {"own:0": True, "own:1": False}


def open_picture(name: str) -> Image.Image:
    return Image.fromarray(
        np.random.default_rng(3).integers(0, 256, (40, 61, 3), dtype=np.uint8)
    )


def check_rows(rows, excluded="own:1"):
    """Check that the rows of one item alone have an error, which names the token."""
    errors = {item_id: set() for item_id in {row["item_id"] for row in rows}}
    for row in rows:
        errors[row["item_id"]].add(row.get("error"))
    assert all("control token in a text" in error for error in errors.pop(excluded))
    assert errors
    assert set().union(*errors.values()) == {None}


@pytest.fixture(scope="module")
def llava():
    decoder = tiny_decoders.llava()
    decoder.processor.chat_template = (
        "{% for message in messages %}{% for part in message.content %}"
        "{% if part.type == 'image' %}<image>{% else %}{{ part.text }} {% endif %}{% endfor %}{% endfor %}"
    )
    return replace(
        decoder, spec=replace(decoder.spec, kind="vision", family="bakllava")
    )


@pytest.fixture(scope="module")
def language_model():
    decoder = tiny_decoders.causal("llama")
    return replace(decoder, spec=replace(decoder.spec, kind="text", family="gpt2"))


@pytest.fixture(scope="module")
def clip():
    folder = "resources/scenes/models/clip"
    return load_encoder(
        ModelSpec("clip", "clip", folder, "local"), Device("cpu", 1, "")
    )


@pytest.fixture(scope="module")
def judges(tokenizer):
    spec = ModelSpec("tiny-gpt2", "text", weights="none", revision="0")
    return FilterModels(
        likelihood=masked_model(),
        acceptability=classifier_model("unacceptable", "acceptable"),
        nli=classifier_model("entailment", "neutral", "contradiction"),
        ranking=wrap_causal_model(spec, build_network("gpt2"), tokenizer, "cpu"),
    )


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("token", ["</s>", "<image>"])
def test_decoders_answers(llava, profile, token):
    items = spoil_items(token)
    template = build_template(llava, get_fidelity(profile))
    template = replace(
        template, prompt_file=template.prompt_file.model_copy(update={"affirms": "is"})
    )
    session = DecoderSession(llava, open_picture)
    settings = GenerationSettings(0, None, cot_tokens=3)
    records = evaluate_pairs(session, items, "own", template, ORDERS, settings)
    rows = list(map(to_row, records))
    parquet.build_table(rows, EVALUATION)
    spoiled = [
        row for row in rows if row["item_id"] == "own:1" and row["role"] != "foil"
    ]
    check_rows([*spoiled, *(row for row in rows if row["item_id"] == "own:0")])
    alone = evaluate_pairs(session, items[:1], "own", template, ORDERS, settings)
    assert [record for record in records if record.item_id == "own:0"] == alone


def test_open_questions(llava):
    questions = [
        VqaItem(f"own:{number}", "0.png", text, "dog", [])
        for number, text in enumerate(["what is this ?", "what is <image> this ?"])
    ]
    template = build_template(llava, EQUATIONS)
    settings = GenerationSettings(0, None, cot_tokens=3)
    records = evaluate_open_questions(
        DecoderSession(llava, open_picture), questions, "own", template, settings
    )
    check_rows(list(map(to_row, records)))


@pytest.mark.parametrize("profile", PROFILES)
def test_attributed_answers(llava, tmp_path, profile):
    settings = AttributionSettings(
        get_fidelity(profile),
        seed=0,
        evaluations=None if profile == "published" else 300,
    )
    attribution = AnswerAttribution(
        llava,
        build_template(llava, get_fidelity(profile)),
        settings,
        tmp_path / "cache.sqlite",
    )
    done: list[int] = []
    records = attribute_answers_about_items(
        attribution, spoil_items("</s>"), "own", ORDERS, open_picture, done.append
    )
    rows = list(map(to_row, records))
    assert done == [1, 1]
    assert parquet.build_table(rows, ATTRIBUTION).num_rows == 6
    check_rows(rows)


def comve(token: str) -> list[Question]:
    texts = [
        ("the man throws a ball", "the ball throws a man"),
        (f"the cat {token} sits", "a car sits"),
    ]
    return [
        Question(
            f"own:{number}",
            "own",
            "comve",
            None,
            {"first": first, "second": second},
            ("A", "B"),
            ("A",),
            "B",
        )
        for number, (first, second) in enumerate(texts)
    ]


@pytest.mark.parametrize("profile", PROFILES)
def test_cc_shap_and_its_edits(language_model, tmp_path, profile):
    study = CCShapSettings(permutations=1, kinds=("post-hoc",))
    template = build_template(language_model, get_fidelity(profile))
    setup = build_setup(
        language_model,
        template,
        0,
        study,
        {"explanation": 2},
        tmp_path / "cache.sqlite",
    )
    setup = replace(setup, settings=replace(setup.settings, partition_rows=8))
    questions = comve("</s>")
    records, contributions = compute_cc_shap_records(
        setup, questions, open_picture, lambda _: None
    )
    rows = list(map(to_row, records))
    parquet.build_table(rows, CC_SHAP)
    parquet.build_table(list(map(to_row, contributions)), ATTRIBUTION)
    check_rows(rows)
    edits = [
        ConsistencyRecord(
            item_id=question.item_id,
            test="counterfactual_edits",
            profile=profile,
            setting="choice",
            seed=0,
            text="",
            edited_input=f"the {word} man throws a ball",
            inserted=word,
            flipped=False,
        )
        for question, word in zip(comve("red"), ("red", "</s>"), strict=True)
    ]
    edited, _ = compute_edit_records(
        setup, comve("red"), open_picture, lambda _: None, edits
    )
    parquet.build_table(list(map(to_row, edited)), EDITED)
    # A tiny model may have nothing to say to the other edit, which is another error.
    assert ["control token in a text" in str(record.error) for record in edited] == [
        False,
        True,
    ]


@pytest.mark.parametrize("profile", PROFILES)
def test_self_consistency(language_model, profile):
    limits = {"explanation": 3, "answer": 2, "mistake": 3, "paraphrase": 2}
    runs = build_settings(
        get_fidelity(profile),
        [0],
        limits,
        {"positions": 1, "words": 1},
        False,
        pair=("a cat sits", "a dog sits"),
    )
    runner = build_runner(
        DecoderSession(language_model, open_picture),
        language_model,
        get_fidelity(profile),
    )
    records = build_test_records(comve("</s>"), None, runs, runner)
    rows = list(map(to_row, records))
    parquet.build_table(rows, CONSISTENCY)
    check_rows(rows)


def test_a_helper_that_spells_control_tokens_ends_its_test_alone(
    language_model, monkeypatch
):
    runner = build_runner(
        DecoderSession(language_model, open_picture), language_model, EQUATIONS
    )
    question, _ = comve("</s>")
    requests = [
        GenerationRequest("add-mistake", question, {"text": "a man </s> sits"}, 3, 0),
        GenerationRequest(
            "answer-after-given-cot", question, {"reasoning": "a man </s> sits"}, 1, 0
        ),
        GenerationRequest(
            "answer-after-given-cot", question, {"reasoning": "a man < sits"}, 1, 0
        ),
    ]
    mistake, spoiled, plain = runner.generate(requests)
    assert "control token" in str(mistake)
    assert "control token" in str(spoiled)
    assert isinstance(plain, str)


def test_meanings_by_a_judge(language_model):
    judge = classifier_model("entailment", "neutral", "contradiction")
    runner = build_runner(
        DecoderSession(language_model, open_picture), language_model, EQUATIONS, judge
    )
    question, _ = comve("</s>")
    given = [
        {"text": "a dog", "other": "a cat"},
        {"text": "a [SEP] dog", "other": "a cat"},
    ]
    plain, spoiled = runner.generate(
        [GenerationRequest("same-meaning", question, texts, 1, 0) for texts in given]
    )
    assert plain in ("yes", "no")
    assert isinstance(spoiled, ItemError)
    assert "own:0: control token in a text" in str(spoiled)


def test_encoders(clip, tmp_path):
    (tmp_path / "images").mkdir()
    items = spoil_items("<|endoftext|>")
    for item in items:
        open_picture("").save(tmp_path / "images" / item.image)
    from waltz.sources.images import open_images

    with open_images(tmp_path / "images") as images:
        rows = list(map(to_row, score_items(clip, items, images, PROFILES)))
        check_rows(
            [row for row in rows if (row["item_id"], row["role"]) != ("own:1", "foil")]
        )
        settings = AttributionSettings(EQUATIONS, seed=0)
        records = attribute_texts_of_items(
            clip,
            tmp_path / "cache.sqlite",
            "own",
            settings,
            items,
            images,
            lambda _: None,
        )
        check_rows(list(map(to_row, records)))


def test_companions(clip):
    items = [
        *spoil_items("<|endoftext|>"),
        replace(spoil_items("")[1], item_id="own:2"),
    ]
    measures = compute_companion_measures(clip, items, open_picture, 2, RESAMPLING)
    alone = compute_companion_measures(
        clip, [items[0], items[2]], open_picture, 2, RESAMPLING
    )
    assert measures == alone
    assert {measure.n for measure in measures.values()} == {2}
    undefined = compute_companion_measures(
        clip, items[1:2], open_picture, 2, RESAMPLING
    )
    assert {measure.reason for measure in undefined.values()} == {
        "no item has texts that the encoder reads"
    }


@pytest.mark.parametrize("profile", PROFILES)
def test_perplexities(judges, tmp_path, profile):
    records = score_pairs(
        spoil_items("<s>"),
        judges.ranking,
        [profile],
        64,
        tmp_path / "cache.sqlite",
        lambda _: None,
    )
    rows = list(map(to_row, records))
    check_rows(
        [row for row in rows if (row["item_id"], row["role"]) != ("own:1", "foil")]
    )
    assert {row["prediction"] for row in rows if row["item_id"] == "own:1"} == {None}


FILTERS = ["grammaticality", "contradiction", "ranking"]


@pytest.mark.parametrize("chosen", [FILTERS, *([name] for name in FILTERS)])
def test_filters(judges, tmp_path, chosen):
    candidates = [
        CandidateRecord(
            item_id=item.item_id,
            instrument="x",
            piece="x",
            source="toy",
            image=item.image,
            caption=item.caption,
            foil=item.foil,
            caption_phrases=["on"],
            foil_phrases=["in"],
        )
        for item in spoil_items("[MASK]")
    ]
    records, _ = filter_candidates(
        candidates, judges, chosen, None, tmp_path / "cache.sqlite", lambda _: None
    )
    assert [record.rejected == CONTROL_TOKEN for record in records] == [False, True]
    assert not records[1].kept


def test_blind_judges(judges, tmp_path):
    items = spoil_items("[SEP]")
    scores, contradictions = score_blindly(
        items, judges, tmp_path / "cache.sqlite", lambda _: None
    )
    rows = audit_blind_judges(
        "own", items, scores, contradictions, threshold=70, resampling=RESAMPLING
    )
    # The language model's vocabulary lacks [SEP]; the number of words needs no model.
    assert {row.judge: row.measure.n for row in rows} == {
        "causal LM": 2,
        "GRUEN": 1,
        "masked LM": 1,
        "nli": 1,
        "length": 2,
    }


def test_contextual_captions_of_cv_probes(judges, tmp_path):
    captions = {"a dog sits": "1.png", "a [MASK] sits": "2.png"}
    scores = score_grammaticality(
        captions, judges, tmp_path / "cache.sqlite", lambda _: None
    )
    rows = [
        ProbeCaptionRecord(
            caption_id=image,
            kind="contextual",
            verb="sitting",
            image=image,
            writer="rule",
            caption=caption,
        )
        for caption, image in captions.items()
    ]
    assert [row.rejected for row in select_contextual_captions(rows, scores)] == [
        None,
        CONTROL_TOKEN,
    ]


def test_the_repair_of_cv_probes_abstracts(language_model, monkeypatch):
    monkeypatch.setattr(cv_probes, "read_swig_verbs", lambda: {"riding": None})
    filled = cv_probes.FilledAbstract(
        "1", "a man rides a </s>", "A man rides a </s>.", "A man rides."
    )
    monkeypatch.setattr(cv_probes, "fill_abstract", lambda frame: filled)
    frame = FrameRecord(
        source="imsitu",
        source_id="1",
        image="1.png",
        verb="riding",
        annotator=0,
        abstract=None,
        roles=[],
    )

    def repair(request):
        return reply_to(language_model, request)

    rows = cv_probes.build_contextual_captions(
        [frame], {"riding": ["1.png"]}, repair, "m"
    )
    assert [(row.caption, row.rejected) for row in rows] == [(None, CONTROL_TOKEN)]


@pytest.fixture(scope="module")
def proposer(tmp_path_factory):
    model = masked_model()
    folder = tmp_path_factory.mktemp("models") / "masked"
    model.network.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    settings = {
        "name": "tiny",
        "kind": "masked",
        "weights": str(folder),
        "revision": "local",
    }
    return load_proposer(
        ModelSpec(**settings),
        Device("cpu", 1, ""),
        ProposalSettings(longest=1, best=3),
        cache_file=folder / "cache.sqlite",
        on_progress=lambda _: None,
    )


@pytest.mark.parametrize("maker", [relations, plurality])
def test_proposals_for_captions(proposer, maker):
    rows = [
        CaptionRecord(source="coco", source_id="1", image="1.png", caption=caption)
        for caption in ("a cat sits on a table", "a [MASK] sits on a table")
    ]
    outcomes = list(maker.build_candidates(rows, proposer, ""))
    assert {outcome.reason for row, outcome in outcomes if row is rows[1]} == {
        CONTROL_TOKEN
    }
    assert any(
        isinstance(outcome, Candidate) for row, outcome in outcomes if row is rows[0]
    )


def test_proposals_for_the_captions_of_frames(monkeypatch):
    def count(text):
        if "[MASK]" in text:
            raise ItemError("control token")
        return 100

    captions = [
        action_replacement.ActionCaption(
            f"A {agent} rides.", "riding", {"start": 8, "end": 13}, None, None, ""
        )
        for agent in ("man", "[MASK]")
    ]
    monkeypatch.setattr(
        action_replacement,
        "build_action_captions",
        lambda row: [captions[row.annotator]],
    )
    monkeypatch.setattr(action_replacement, "list_replacement_verbs", lambda *_: {})
    monkeypatch.setattr(
        action_replacement, "build_replacements", lambda *_: iter(["a candidate"])
    )
    ranked = []

    def rank(words):
        ranked.extend(words)
        return {slot: [] for slot in words}

    options = MakerOptions(rank_words=rank, count_tokens=count)
    rows = [
        FrameRecord(
            source="swig",
            source_id=str(number),
            image="1.png",
            verb="riding",
            annotator=number,
            abstract=None,
            roles=[],
        )
        for number in range(2)
    ]
    outcomes = list(action_replacement.build_candidates(rows, options, ""))
    assert outcomes[0] == (rows[0], "a candidate")
    assert outcomes[1][1].reason == CONTROL_TOKEN
    assert [slot.text for slot in ranked] == ["A man rides."]


def test_answers_of_encoders():
    fields = {
        "tokenizer": masked_model().tokenizer,
        "spec": ModelSpec("albef", "albef"),
        "max_tokens": 10,
        "device": "cpu",
    }
    (trees,) = tokenize_answers(fields, ["a dog"], 1, 2)
    assert trees.tokens[0] == 1
    with pytest.raises(
        UserError, match=r"models.albef.answers: control token in a text: 'a \[MASK\]'"
    ):
        tokenize_answers(fields, ["a [MASK]"], 1, 2)
