"""`waltz explain` on tiny decoders that transformers saved, against the released code in plain
lines.
"""

import json
import math
import re

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from typer.testing import CliRunner

from stand_ins import restated_cc_shap as published_explanations
from stand_ins.models import tiny_decoders
from waltz.attribution.shapley.partition import compute_owen_values
from waltz.cli.app import app

torch.set_num_threads(1)  # tiny batches: threads cost more than they give

QUESTION = "what is this ? a cat"
SUFFIXES = (": the best answer is : (", ": the best answer is : ( A ) USER : because ?")
BUDGETS = "60,80"
"""The first does for nobody, the second for one permutation."""
TEMPLATE = (
    "{% for message in messages %}{{ message['role'].upper() }} : {% if message['content'] is string %}"
    "{{ message['content'] }}{% else %}{% for part in message['content'] %}{% if part['type'] == 'image' %}<image> "
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %} {% endfor %}ASSISTANT : "
)
"""A chat template for texts and for lists of parts."""


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    published_explanations.interpret(monkeypatch)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of a LLaVA, a LLaVA-NeXT and a language model, and an image."""
    home = tmp_path_factory.mktemp("models")
    Image.fromarray(
        np.random.default_rng(3).integers(0, 256, (40, 61, 3), dtype=np.uint8)
    ).save(home / "photo.png")
    for name, decoder in (
        ("llava", tiny_decoders.llava()),
        ("next", tiny_decoders.llava_next()),
    ):
        decoder.network.model.save_pretrained(home / name)
        decoder.processor.chat_template = TEMPLATE
        decoder.processor.image_processor = decoder.processor.image_processor.processor
        decoder.processor.save_pretrained(home / name)
    words = tiny_decoders.tokenizer()
    words.chat_template = TEMPLATE
    tiny_decoders.causal("llama", words, seed=4).network.model.save_pretrained(
        home / "lm"
    )
    words.save_pretrained(home / "lm")
    (home / "question.txt").write_text(f"{QUESTION}\n", encoding="utf-8")
    return home


def waltz(*arguments):
    command = "explain-prompts" if "--prompt-answer" in arguments else "explain"
    return CliRunner().invoke(app, [command, *map(str, arguments)])


def written(out, *arguments):
    result = waltz(*arguments, "--json", out)
    assert result.exit_code == 0, result.output
    return json.loads(
        out.read_text(encoding="utf-8"), parse_constant=pytest.fail
    ), result.stdout


def ready(begin, profile="published"):
    prompts = [f"{begin}{QUESTION} {suffix}" for suffix in SUFFIXES]
    more = (
        ["--max-evals", BUDGETS, "--mask-id", 86, "--keep-ids", "1,3"]
        if profile == "published"
        else []
    )
    more += ["--evaluations", 34] if profile == "equations" else []
    return prompts, [
        *(
            "--prompt-answer",
            prompts[0],
            "--suffix-answer",
            SUFFIXES[0],
            "--prompt-explanation",
            prompts[1],
        ),
        *(
            "--suffix-explanation",
            SUFFIXES[1],
            "--profile",
            profile,
            "--max-new-tokens",
            3,
            "--greedy-target",
        ),
        *("--seed", 11, *more),
    ]


READY = ready("")[1]


def same(record, sides, suffix_lengths):
    ratios_answer, ratios_explanation, value = published_explanations.compared(
        *(one.phi for one in sides), suffix_lengths
    )
    for name, side in zip(("answer", "explanation"), sides, strict=True):
        assert record[name]["target_ids"] == side.target
        np.testing.assert_allclose(record[name]["phi"], side.phi, atol=1e-5)
        assert len(record[name]["players"]) == len(side.phi)
        assert record[name]["t_shap"] == pytest.approx(side.t_shap, abs=1e-4)
    # Percent.
    np.testing.assert_allclose(record["ratios_answer"], ratios_answer, atol=1e-2)
    np.testing.assert_allclose(
        record["ratios_explanation"], ratios_explanation, atol=1e-2
    )
    assert record["cc_shap"] == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize("kind", ["llava", "next"])
def test_ready_prompts_with_an_image_match_the_released_code(kind, folders, tmp_path):
    prompts, options = ready("<image> ")
    record, _ = written(
        tmp_path / "x.json", "--model", folders / kind, "--image", folders / "photo.png", *options, "--figure",
        tmp_path / "x.png",
    )  # fmt: skip
    model = transformers.AutoModelForImageTextToText.from_pretrained(
        folders / kind
    ).eval()
    processor = transformers.AutoProcessor.from_pretrained(folders / kind)
    image, sides = Image.open(folders / "photo.png").convert("RGB"), []
    for prompt, most in zip(prompts, (1, 3), strict=True):
        p = sides[0].p if sides else None
        sides.append(
            published_explanations.of_image(
                model,
                processor,
                image,
                prompt,
                most,
                mask_id=86,
                keep_ids=(1, 3),
                seed=11,
                budgets=(60, 80),
                p=p,
            )
        )
    same(
        record,
        sides,
        [len(processor.tokenizer(suffix)["input_ids"]) - 2 for suffix in SUFFIXES],
    )
    assert [record[name]["requested"] for name in ("answer", "explanation")] == [
        2 * len(one.phi) + 1 for one in sides
    ]
    # A grid of its own would have more patches.
    assert math.ceil(math.sqrt(len(prompts[1].split()) + 1)) > sides[0].p
    assert [player["modality"] for player in record["answer"]["players"][:2]] == [
        "image",
        "image",
    ]
    assert Image.open(tmp_path / "x.png").width > 1000


def test_ready_prompts_of_a_language_model_give_what_the_released_code_gives(
    folders, tmp_path
):
    prompts, options = ready("")
    record, output = written(tmp_path / "x.json", "--model", folders / "lm", *options)
    model = transformers.AutoModelForCausalLM.from_pretrained(folders / "lm").eval()
    words = transformers.AutoTokenizer.from_pretrained(folders / "lm")
    sides = [
        published_explanations.of_text(model, words, prompt, most, seed=11)
        for prompt, most in zip(prompts, (1, 3), strict=True)
    ]
    same(
        record,
        sides,
        [
            len(words(suffix, add_special_tokens=False)["input_ids"])
            for suffix in SUFFIXES
        ],
    )
    assert record["answer"]["t_shap"] == 1
    assert "T-SHAP" not in output
    assert f"CC-SHAP {record['cc_shap']:.3f}" in output


def test_prompts_may_lie_in_files(folders, tmp_path):
    prompts, options = ready("", "equations")
    for place, prompt in enumerate(prompts):
        (tmp_path / f"{place}.txt").write_text(prompt + "\n", encoding="utf-8")
    files = [
        f"@{tmp_path / str(prompts.index(one))}.txt" if one in prompts else one
        for one in options
    ]
    from_files, _ = written(tmp_path / "x.json", "--model", folders / "lm", *files)
    assert (
        from_files
        == written(tmp_path / "y.json", "--model", folders / "lm", *options)[0]
    )
    assert from_files["answer"]["prompt"] == prompts[0]


def test_a_question_with_labels(folders, tmp_path):
    record, output = written(
        tmp_path / "x.json", "--model", folders / "lm", "--question", f"@{folders / 'question.txt'}", "--labels", "A,B",
        "--max-new-tokens", 3, "--evaluations", 34, "--figure", tmp_path / "x",
    )  # fmt: skip
    assert record["profile"] == "equations"
    assert output.splitlines()[0].endswith("equations: the definitions of the thesis")
    assert record["question"] == QUESTION
    assert record["label"] == record["answer"]["generated_text"] in ("A", "B")
    assert f"because ? {record['label']}" not in record["answer"]["prompt"]
    assert (
        record["answer"]["prompt"]
        == f"USER : {QUESTION} ASSISTANT : The best answer is: ("
    )
    assert f"The best answer is: ({record['label']})" in record["explanation"]["prompt"]
    players = [player["text"] for player in record["answer"]["players"]]
    assert players == ["USER", ":", *QUESTION.split()]
    assert [player["text"] for player in record["explanation"]["players"]] == players
    assert len(record["explanation"]["target_ids"]) == 3
    assert np.shape(record["explanation"]["phi"]) == (len(players), 3)
    assert record["answer"]["requested"] == 2 * (2 * len(players) + 1)
    assert record["cc_shap_se"] > 0
    assert f"CC-SHAP {record['cc_shap']:.3f} ± {record['cc_shap_se']:.3f}" in output
    assert (
        (tmp_path / "x.svg").stat().st_size > 1000 < (tmp_path / "x.png").stat().st_size
    )


def test_a_question_in_words_and_a_chain_of_thought(folders, tmp_path):
    options = [
        "--model",
        folders / "llava",
        "--image",
        folders / "photo.png",
        "--question",
        QUESTION,
    ]
    options += ["--max-new-tokens", 3, "--evaluations", 90]
    record, output = written(tmp_path / "x.json", *options, "--explanation", "cot")
    assert record["label"] is None
    assert 1 <= len(record["answer"]["target_ids"]) <= 10
    assert "verbalize" in record["explanation"]["prompt"]
    assert 0 < record["answer"]["t_shap"] < 1
    assert len(re.findall(r"T-SHAP \d", output)) == 2
    post_hoc, _ = written(tmp_path / "y.json", *options)
    np.testing.assert_allclose(
        post_hoc["answer"]["phi"], record["answer"]["phi"], atol=1e-5
    )
    assert record["answer"]["generated_text"] in post_hoc["explanation"]["prompt"]


def test_interactions_of_both_sides(folders, tmp_path):
    options = [
        "--model",
        folders / "llava",
        "--image",
        folders / "photo.png",
        "--question",
        "a cat",
        "--grid",
        "1x2",
    ]
    options += [
        "--max-new-tokens",
        2,
        "--evaluations",
        1024,
        "--interactions",
        "--figure",
        tmp_path / "x.png",
    ]
    record, output = written(tmp_path / "x.json", *options)
    for side in ("answer", "explanation"):
        words = sum(player["modality"] == "text" for player in record[side]["players"])
        assert np.shape(record[side]["interactions"]) == (
            words,
            2,
            len(record[side]["target_ids"]),
        )
        assert 0 <= record[side]["joint_share"] <= 1
    assert (
        len(
            re.findall(
                r"first token: used together [\d.]+ %; strongest pairs: .+ × ", output
            )
        )
        == 2
    )
    assert (tmp_path / "x-interactions.png").is_file()


@pytest.mark.parametrize(
    "more", [("--foil", "a dog"), ()], ids=["with a foil", "alone"]
)
def test_texts_of_an_image_in_the_published_prompts(more, folders, tmp_path):
    record, _ = written(
        tmp_path / "x.json", "--model", folders / "llava", "--image", folders / "photo.png", "--text", "a cat", *more,
        "--profile", "published", "--family", "bakllava", "--max-new-tokens", 2,
    )  # fmt: skip
    assert record["profile"] == "published"
    assert record["label"] in ("A", "B")
    assert record["question"].startswith(
        "Which caption" if more else "Here is a tentative caption"
    )
    assert record["answer"]["prompt"].startswith(
        "USER: <image>\nWhich" if more else "USER: <image>\nHere"
    )
    assert record["answer"]["prompt"].endswith("The best answer is: (")
    assert (
        len(record["ratios_answer"])
        == len(record["ratios_explanation"])
        == len(record["answer"]["shared"])
    )
    suffix_players = len(record["answer"]["players"]) - len(record["answer"]["shared"])
    assert (
        suffix_players
        == len(tiny_decoders.tokenizer()(record["answer"]["query_suffix"])["input_ids"])
        - 2
    )


@pytest.mark.parametrize(
    ("family", "blanks"), [("mistral-chat", True), ("falcon", False)]
)
@pytest.mark.parametrize(
    "query_options",
    [("--question", QUESTION, "--labels", "A,B"), READY],
    ids=["question", "ready"],
)
def test_tokens_are_joined_by_blanks_where_the_released_code_did(
    query_options, family, blanks, folders, tmp_path, monkeypatch
):
    calls = []

    def spied(*arguments, **options):
        calls.append(options)
        return compute_owen_values(*arguments, **{**options, "rows": 10})

    monkeypatch.setattr(
        "waltz.attribution.prompt_attribution.compute_owen_values", spied
    )
    record, _ = written(
        tmp_path / "x.json",
        "--model",
        folders / "lm",
        *query_options,
        "--profile",
        "published",
        "--family",
        family,
    )
    assert [(options["rows"], options["joins_tokens"]) for options in calls] == [
        (500, blanks)
    ] * 2
    assert record["answer"]["estimator"] == "partition"
    assert len(record["answer"]["players"]) == len(
        tiny_decoders.tokenizer()(record["answer"]["prompt"])["input_ids"]
    )


def test_a_model_that_ignores_its_input_is_reported_as_such(folders, tmp_path):
    deaf = tiny_decoders.causal("llama")
    table = deaf.network.model.get_input_embeddings().weight.data
    table.copy_(table[:1].expand_as(table))
    deaf.network.model.save_pretrained(tmp_path / "deaf")
    deaf.tokenizer.save_pretrained(tmp_path / "deaf")
    _, options = ready("", "equations")
    record, output = written(
        tmp_path / "x.json", "--model", tmp_path / "deaf", *options
    )
    assert record["cc_shap"] is None
    assert "no shared player contributes to the answer" in record["cc_shap_reason"]
    assert "CC-SHAP not defined" in output


ERRORS = {
    "an empty question": (
        ["--question", " "],
        "--question: empty (got ' ', expected words); write a text",
    ),
    "no question": (
        [],
        "--text is missing: an encoder scores --image with --text, a decoder answers --question",
    ),
    "a text without an image": (
        ["--text", "a cat"],
        "name one, or ask a language model a --question",
    ),
    "an image": (
        ["--question", "a cat", "--image", "PHOTO"],
        "a language model sees no images; leave the image out",
    ),
    "a lone label": (
        ["--question", "a cat", "--labels", "A"],
        "labels: too few (got A, expected two or more that differ)",
    ),
    "a foil to a question": (
        ["--question", "a", "--foil", "b"],
        "--foil: belongs to a text; leave it out",
    ),
    "a budget of the other": (
        [*READY, "--evaluations", 9],
        "--evaluations: belongs to --profile equations (got publ",
    ),
    "a switch of the other": (
        [*READY, "--profile", "equations"],
        "--max-evals: belongs to --profile published (got equations); leave it out",
    ),
    "no decoder": (
        [*READY, "--model", "ruler-50"],
        "--model: ruler-50 is not a decoder",
    ),
    "a family of the other": (
        ["--question", "a", "--family", "llama2-chat"],
        "--family: belongs to profile published (got equations); take that profile",
    ),
    "no numbers": (
        [*READY, "--max-evals", "9,x"],
        "--max-evals: no numbers (got '9,x'",
    ),
    "profile": (
        ["--question", "a", "--profile", "publised"],
        "did you mean 'published'?",
    ),
    "no family": (
        ["--question", "a", "--profile", "published"],
        "name one of llama2-chat",
    ),
    "family": (
        ["--question", "a", "--profile", "published", "--family", "llama"],
        "no published prompts for this model family: got 'llama'",
    ),
    "family that sees": (
        ["--question", "a", "--profile", "published", "--family", "bakllava"],
        "'bakllava' sees images, unlike this model",
    ),
    "value": (
        [*ready("", "equations")[1], "--value", "odds"],
        "--value: unknown value (got 'odds', expected log-probability",
    ),
    "estimator": (
        ["--question", "a", "--estimator", "exactly"],
        "--estimator: unknown estimator (got 'exactly', expected auto",
    ),
    "explanation": (
        ["--question", "a", "--explanation", "x"],
        "--explanation: unknown kind of explanation (got 'x', expected post-hoc or cot); choose one",
    ),
    "interactions": (
        ["--question", "a", "--interactions"],
        "sees no patches to interact with; leave out --interactions",
    ),
    "few evaluations": (
        ["--question", "a cat", "--evaluations", 3],
        "too small for regression",
    ),
    "no tokens": (
        ["--question", "a", "--max-new-tokens", 0],
        "--max-new-tokens: got 0, expected at least 1",
    ),
    "seed": (
        ["--question", "a", "--seed", "-1"],
        "--seed: out of range (got -1, expected 0 to",
    ),
    "no file": (
        ["--question", "@nowhere.txt"],
        "--question @nowhere.txt: cannot be read",
    ),
    "no prompt file": (
        ["--question", "a", "--prompts", "nowhere.yaml"],
        "nowhere.yaml: no such prompt file",
    ),
    "an image in the prompt": (
        ["--prompt-answer", "<image> a", *READY[2:]],
        "has an <image>, which a language model",
    ),
    "unlike prompts": (
        ["--prompt-answer", "a a a", *READY[2:]],
        "do not end prompts of 4 and 20",
    ),
    "a short suffix": (
        [*READY[:2], "--suffix-answer", "", *READY[4:]],
        "players stand before the query suffix",
    ),
}


def test_a_folder_of_an_unknown_class_is_named_before_its_options(folders, tmp_path):
    settings = json.loads((folders / "lm" / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(
        json.dumps(settings | {"architectures": ["Nonsense"]}), encoding="utf-8"
    )
    result = waltz("--model", tmp_path, "--question", "a")
    assert result.exit_code == 1
    assert "decoders by their class (got Nonsense as architectures)" in result.stderr
    assert len(result.stderr.splitlines()) == 1


SEEING = {
    "no image": (["--question", "a"], "sees images, and none is named"),
    "no image for prompts": (READY, "sees images, and none is named"),
    "no placeholder": ([*READY, "--image", "PHOTO"], "has no <image> for the image"),
    "text and question": (
        ["--question", "a", "--text", "b", "--image", "PHOTO"],
        "needs one of text, question and messages (got text and question)",
    ),
    "labels of a text": (
        ["--labels", "A,B", "--text", "b", "--image", "PHOTO"],
        "--labels: belong to a question; leave them out",
    ),
    "too many players": (
        [
            "--text",
            "a",
            "--profile",
            "published",
            "--family",
            "bakllava",
            "--image",
            "PHOTO",
            "--evaluations",
            60,
        ],
        "more than 60: the published code fails here",
    ),
}


@pytest.mark.parametrize(
    ("model", "options", "expected"),
    [
        *(("lm", *case) for case in ERRORS.values()),
        *(("llava", *case) for case in SEEING.values()),
    ],
    ids=[*ERRORS, *SEEING],
)
def test_wrong_options_are_one_line(model, options, expected, folders):
    options = [folders / "photo.png" if one == "PHOTO" else one for one in options]
    result = waltz("--model", folders / model, *options)
    assert result.exit_code == 1, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("waltz: ")
    assert expected in line


def test_options_of_decoders_are_refused_for_an_encoder(folders, tmp_path):
    transformers.CLIPConfig().save_pretrained(tmp_path)
    for file in ("processor_config.json", "tokenizer.json"):
        (tmp_path / file).write_text("{}")
    for more, expected in (
        (
            ["--question", "a"],
            "is an encoder, which answers no questions; give image and text",
        ),
        (
            ["--image", folders / "photo.png"],
            "--text is missing: an encoder scores --image with --text",
        ),
    ):
        result = waltz("--model", tmp_path, *more)
        assert result.exit_code == 1
        assert expected in result.stderr
