"""`waltz explain` on a tiny CLIP that transformers saved, against the published pattern written out
here.
"""

import json
import logging
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from typer.testing import CliRunner

from stand_ins.models import tiny_clip
from waltz import Explainer
from waltz.cli.app import app

SCENES = Path(__file__).parents[3] / "resources" / "scenes" / "models" / "clip"
SHORT = "a dog sees"
LONG = "there is a big red ball beside the dog on the box"


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return tiny_clip.save_clip(tmp_path_factory.mktemp("models") / "clip")


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    path = tmp_path_factory.mktemp("images") / "odd.png"
    Image.fromarray(
        np.random.default_rng(5).integers(0, 256, (47, 61, 3), dtype=np.uint8)
    ).save(path)
    return path


def waltz(*arguments):
    return CliRunner().invoke(app, ["explain", *map(str, arguments)])


def explained(folder, image, text, out, *more):
    result = waltz(
        "--model", folder, "--image", image, "--text", text, "--json", out, *more
    )
    assert result.exit_code == 0, result.output
    return json.loads(out.read_text(encoding="utf-8"))


def published_values(folder, path, text, seed):
    """Row by row: ten random orders, each walked up and down again; id 0 and 0 after normalisation
    mask.
    """
    network = transformers.CLIPModel.from_pretrained(folder).eval()
    ids = torch.tensor(
        [transformers.CLIPTokenizerFast.from_pretrained(folder)(text)["input_ids"]]
    )
    processor = transformers.CLIPImageProcessorPil.from_pretrained(folder)
    image = processor(Image.open(path).convert("RGB"), return_tensors="pt")[
        "pixel_values"
    ]
    words = ids.shape[1]
    grid = math.ceil(math.sqrt(words))
    width = image.shape[-1] // grid
    calls = []

    def value(present):
        masked, seen = ids.clone(), image.clone()
        for word in range(1, words - 1):
            if not present[word]:
                masked[0, word] = 0
        for patch in range(grid * grid):
            if not present[words + patch]:
                top, left = patch // grid * width, patch % grid * width
                seen[:, :, top : top + width, left : left + width] = 0
        with torch.no_grad():
            calls.append(
                network(input_ids=masked, pixel_values=seen).logits_per_image.item()
            )
        return calls[-1]

    np.random.seed(seed)
    players = words + grid * grid
    order, phi = np.arange(players), np.zeros(players)
    for _ in range(10):
        np.random.shuffle(order)
        present = np.zeros(players, dtype=bool)
        before = value(present)
        for here in (True, False):
            for player in order:
                present[player] = here
                now = value(present)
                phi[player] += (now - before if here else before - now) / 20
                before = now
    share = np.abs(phi[:words]).sum() / np.abs(phi).sum()
    return (
        phi,
        share,
        value(np.ones(players, dtype=bool)),
        value(np.zeros(players, dtype=bool)),
        len(calls) - 2,
    )


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (SHORT, {}),
        (LONG, {}),
        (SHORT, {"first": "a</w>"}),  # id 0 is a word of the text itself
        (LONG, {"side": 28, "first": tiny_clip.START}),
    ],
    ids=["3 words", "12 words", "id 0 is a word", "id 0 is special"],
)
def test_published_profile_gives_the_values_of_the_published_code(
    text, changes, clip, picture, tmp_path
):
    folder = tiny_clip.save_clip(tmp_path / "clip", **changes) if changes else clip
    record = explained(
        folder,
        picture,
        text,
        tmp_path / "x.json",
        "--profile",
        "published",
        "--seed",
        7,
    )
    phi, share, score, base, evaluations = published_values(folder, picture, text, 7)
    assert np.abs(phi).max() > 0.05  # not all nothing
    np.testing.assert_allclose(
        [player["phi"] for player in record["players"]], phi, atol=1e-5
    )
    assert record["t_shap"] == pytest.approx(share, abs=1e-5)
    assert record["score"] == pytest.approx(score, abs=1e-4)
    assert record["base_value"] == pytest.approx(base, abs=1e-4)
    assert record["requested"] == evaluations == 10 * (2 * len(phi) + 1)
    assert record["residual"] < 1e-4


def test_a_foil_is_explained_with_the_same_seed(clip, picture, tmp_path):
    both = explained(
        clip, picture, SHORT, tmp_path / "x.json", "--foil", "a cat sees", "--seed", 3
    )
    alone = explained(clip, picture, "a cat sees", tmp_path / "y.json", "--seed", 3)
    assert both["text"] == SHORT
    assert {name: both["foil"][name] for name in ("text", "seed", "requested")} == {
        name: alone[name] for name in ("text", "seed", "requested")
    }
    np.testing.assert_allclose(
        [player["phi"] for player in both["foil"]["players"]],
        [player["phi"] for player in alone["players"]],
        atol=1e-5,
    )


@pytest.mark.parametrize("foil", ["{}", " {} ", "{}\u200b", "\ufeff{}"])
def test_a_foil_that_is_the_text_itself_is_refused(clip, picture, foil):
    result = waltz(
        "--model",
        clip,
        "--image",
        picture,
        "--text",
        SHORT,
        "--foil",
        foil.format(SHORT),
    )
    assert result.exit_code == 1
    assert result.output.startswith(
        "waltz: --foil: the same text as the caption up to whitespace and Unicode form (got "
    )
    assert len(result.output.splitlines()) == 1


def test_the_file_names_what_was_done(clip, picture, tmp_path):
    record = explained(
        clip, picture, SHORT, tmp_path / "x.json", "--profile", "published", "--seed", 5
    )
    assert record["model"] == str(clip)
    assert (record["profile"], record["seed"], record["revision"]) == (
        "published",
        5,
        "local",
    )
    assert [player["text"] for player in record["players"]] == [
        *("<|startoftext|>", "a", "dog", "sees", "<|endoftext|>"),
        *(f"patch {row},{column}" for row in range(3) for column in range(3)),
    ]
    assert [player["modality"] for player in record["players"]] == ["text"] * 5 + [
        "image"
    ] * 9
    assert 0 < record["t_shap_se"] < 1
    assert abs(record["t_shap_corrected"] - record["t_shap"]) < 2 * record["t_shap_se"]
    needed = record["requested"] * (196 * record["t_shap_se"]) ** 2
    assert record["evaluations_for_1_point"] == pytest.approx(needed)
    assert record["probability"] is None  # CLIP has none


def test_equations_profile_lets_special_tokens_be(clip, picture, tmp_path):
    record = explained(
        clip, picture, SHORT, tmp_path / "x.json", "--profile", "equations"
    )
    assert [
        player["text"] for player in record["players"] if player["modality"] == "text"
    ] == ["a", "dog", "sees"]
    assert sum(player["phi"] for player in record["players"]) == pytest.approx(
        record["value"] - record["base_value"], abs=1e-4
    )


def test_figures_are_written_by_their_suffix(clip, picture, tmp_path):
    result = waltz(
        "--model",
        clip,
        "--image",
        picture,
        "--text",
        SHORT,
        "--foil",
        LONG,
        "--figure",
        tmp_path / "both",
    )
    assert result.exit_code == 0, result.output
    assert Image.open(tmp_path / "both.png").width > 1000
    svg = (tmp_path / "both.svg").read_text(encoding="utf-8")
    assert "attention relevance" in svg
    assert "beside" in svg


def test_a_notebook_gets_the_same(clip, picture, tmp_path):
    explainer = Explainer(str(clip), profile="published", seed=7)
    explanation = explainer.explain(Image.open(picture), SHORT, foil=LONG)
    assert explanation.foil.caption == LONG
    assert explanation.view.shape == (35, 35, 3)
    assert explanation.record()["players"] == explained(
        clip, picture, SHORT, tmp_path / "x.json", "--foil", LONG, "--profile", "published", "--seed", 7
    )["players"]  # fmt: skip
    shown = explanation._repr_html_()
    assert shown.count("<span") == 5 + 14
    assert "&lt;|startoftext|&gt;" in shown
    assert "<script" not in shown


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        ({}, "profile equations: the definitions of the thesis"),
        (
            {"profile": "published"},
            "profile published: the rules of Heidelberg-NLP/MM-SHAP 00a66bf (2024-03-12)",
        ),
    ],
)
def test_command_and_python_give_one_value_and_say_by_which_rules(
    options, rules, clip, picture, tmp_path
):
    more = [text for name, value in options.items() for text in (f"--{name}", value)]
    out = tmp_path / "x.json"
    result = waltz(
        "--model", clip, "--image", picture, "--text", SHORT, "--json", out, *more
    )
    expected = Explainer(str(clip), **options).explain(picture, SHORT)
    assert json.loads(out.read_text(encoding="utf-8")) == expected.record()
    assert result.stdout.splitlines()[0].endswith(rules)


def test_the_image_shown_is_the_one_that_the_model_sees(clip, tmp_path):
    half = Image.new("RGB", (70, 70), "black")
    half.paste("white", (0, 0, 35, 70))
    explanation = Explainer(str(clip)).explain(half, SHORT)
    assert explanation.view[:, 5].min() == pytest.approx(1, abs=1e-5)
    assert explanation.view[:, -5].max() == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("size", [(80, 1), (1, 1)], ids=["1 pixel high", "1 pixel"])
def test_odd_images_have_values(clip, size, tmp_path):
    Image.new("L", size, 90).save(tmp_path / "x.png")
    record = explained(
        clip,
        tmp_path / "x.png",
        "dog",
        tmp_path / "x.json",
        "--figure",
        tmp_path / "x.svg",
    )
    assert len(record["players"]) == 1 + 1


def test_players_of_ones_own_are_those_of_the_explainer(clip, picture, tmp_path):
    text = "dogs a big dog"
    record = explained(
        clip,
        picture,
        text,
        tmp_path / "x.json",
        "--profile",
        "equations",
        "--players",
        "word",
        "--grid",
        "2x3",
    )
    expected = Explainer(str(clip)).explain(picture, text, players="word", grid=(2, 3))
    np.testing.assert_allclose(
        [player["phi"] for player in record["players"]],
        np.concatenate([expected.text, expected.image]),
        atol=1e-9,
    )
    assert [player["text"] for player in record["players"][:2]] == ["dogs", "a"]


def test_interactions_are_those_of_the_explainer(clip, picture, tmp_path):
    out, figure = tmp_path / "x.json", tmp_path / "x.svg"
    options = (
        "--players",
        "word",
        "--grid",
        "2x2",
        "--foil",
        "a cat",
        "--interactions",
        "--figure",
        figure,
    )
    result = waltz(
        "--model", clip, "--image", picture, "--text", SHORT, *options, "--json", out
    )
    assert result.exit_code == 0, result.output
    record = json.loads(out.read_text(encoding="utf-8"))
    expected = Explainer(str(clip)).explain(
        picture, SHORT, players="word", grid=(2, 2), interactions=True
    )
    assert record["profile"] == "equations"
    np.testing.assert_allclose(record["interactions"], expected.interactions, atol=1e-9)
    assert record["joint_share"] == pytest.approx(expected.joint_share)
    assert np.shape(record["foil"]["interactions"]) == (2, 4)
    word, patch = np.unravel_index(np.abs(expected.interactions).argmax(), (3, 4))
    place = f"patch {patch // 2},{patch % 2}"
    strongest = f"strongest pairs: {SHORT.split()[word]} × {place} {expected.interactions[word, patch]:+.3g},"
    assert strongest in result.stdout
    assert f"used together {100 * expected.joint_share:.2f} %" in result.stdout
    for name in ("x", "x-interactions", "x-foil-interactions"):
        assert (tmp_path / f"{name}.svg").is_file()
    assert "interactions" not in explained(clip, picture, SHORT, out)
    refused = waltz(
        "--model",
        clip,
        "--image",
        picture,
        "--text",
        SHORT,
        "--profile",
        "published",
        "--interactions",
    )
    assert (
        refused.stderr
        == "waltz: --interactions: profile published defines none; take --profile equations\n"
    )


def test_a_text_that_fills_the_network(clip, picture, tmp_path):
    record = explained(
        clip,
        picture,
        " ".join(["dog"] * 75),
        tmp_path / "x.json",
        "--profile",
        "equations",
        "--evaluations",
        317,
    )
    assert len(record["players"]) == 75 + 81
    assert record["t_shap_se"] is None
    assert "fewer than two pairs" in record["reason"]


def test_what_is_not_a_number_is_null_with_its_reason(clip, picture, tmp_path):
    folder = tmp_path / "broken"
    network = transformers.CLIPModel.from_pretrained(clip)
    with torch.no_grad():
        network.logit_scale.fill_(math.nan)
    network.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"):
        (folder / name).write_bytes((clip / name).read_bytes())
    out = tmp_path / "x.json"
    result = waltz(
        "--model",
        folder,
        "--image",
        picture,
        "--text",
        SHORT,
        "--json",
        out,
        "--figure",
        tmp_path / "x.svg",
    )
    assert result.exit_code == 0, result.output
    record = json.loads(out.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert record["score"] is record["t_shap"] is record["players"][1]["phi"] is None
    assert record["reason"] == "the model's score is not finite"


ERRORS = {
    "no image": (["--image", "nowhere.png"], "nowhere.png: no such file"),
    "an address": (
        ["--image", "https://a.example/b.png"],
        "b.png: no such file; an address is not fetched: download the file",
    ),
    "no image in it": (
        ["--image", __file__],
        f"{__file__}: is not an image of a known format; name an image (BMP, GIF,",
    ),
    "broken image": (["--image", "BROKEN"], "broken.png: cannot be decoded"),
    "a device": (
        ["--image", "/dev/zero"],
        "/dev/zero: is a folder or device, not a file; name an image",
    ),
    "empty model": (
        ["--model", ""],
        "model: empty (got '', expected a registered name, folder or hub id)",
    ),
    "no such file": (
        ["--model", "none.gguf"],
        "none.gguf: no such file or folder;",
    ),
    "no such folder": (
        ["--model", "~no-one/model"],
        "~no-one/model: no registered model and no path (Could not",
    ),
    "a long name": (
        ["--model", "a" * 5000],
        "a: no registered model and no path ([Errno 36] File name too long",
    ),
    "a text file": (
        ["--model", __file__],
        "test_explain.py: is a file (expected a folder in transformers format",
    ),
    "no such model": (
        ["--model", "rulr-50"],
        "rulr-50: no registered model (did you mean 'ruler-50'?)",
    ),
    "no such hub id": (
        ["--model", "nobody/nothing"],
        "nobody/nothing: no config of a model can be read: ",
    ),
    "language model": (
        ["--model", "gpt2"],
        "gpt2: a language model sees no images; leave the image out",
    ),
    "empty folder": (["--model", "EMPTY"], "no config of a model can be read"),
    "another architecture": (["--model", "BERT"], "'bert' is not a kind of encoder"),
    "no weights": (["--model", "BARE"], "waltz: cannot load"),
    "empty text": (
        ["--text", " "],
        "text: empty (got ' ', expected words); write a text",
    ),
    "invisible text": (
        ["--text", "\u200b"],
        "text: empty (got '\\u200b', expected words); write a text",
    ),
    "too long": (["--text", "dog " * 90], "92 tokens, at most 77 are read"),
    "figure": (
        ["--figure", "x.gif"],
        "--figure x.gif: unknown format (got '.gif', expected .svg or .png)",
    ),
    "profile": (["--profile", "publshed"], "did you mean 'published'?"),
    "seed": (["--seed", "-1"], "seed: out of range (got -1, expected 0 to"),
    "estimator": (["--estimator", "permutaton"], "did you mean 'permutation'?"),
    "estimator of a profile": (
        ["--estimator", "exact", "--profile", "published"],
        "profile published draws permutations",
    ),
    "evaluations": (
        ["--evaluations", "3", "--profile", "equations"],
        "--evaluations: too small for regressions",
    ),
    "a grid": (["--grid", "9" * 5000 + "x1"], "--grid: no rows and columns"),
    "one number": (
        ["--grid", "3"],
        "--grid: no rows and columns (got '3', expected such as 3x4)",
    ),
    "too many rows": (
        ["--grid", "900x1"],
        "--grid: got 900 x 1 patches, expected 1 to 47 rows",
    ),
    "players": (["--players", "words"], "did you mean 'word'?"),
    "a folder to write to": (
        ["--json", "TAKEN", "--model", "nowhere"],
        "empty: is a folder; name a file in it",
    ),
    "a file as folder": (
        ["--json", "BROKEN/x.json", "--model", "nowhere"],
        "broken.png is a file, not a folder",
    ),
    "a folder as figure": (
        ["--figure", "TAKEN.svg", "--model", "nowhere"],
        "empty.svg: is a folder",
    ),
}


@pytest.mark.parametrize("given", ERRORS)
def test_what_cannot_be_done_is_one_line(given, clip, picture, tmp_path):
    changes, expected = ERRORS[given]
    broken, empty, bert, bare = (
        tmp_path / name for name in ("broken.png", "empty", "bert", "bare")
    )
    broken.write_bytes(picture.read_bytes()[:900])
    empty.mkdir()
    (tmp_path / "empty.svg").mkdir()
    transformers.BertConfig().save_pretrained(bert)
    transformers.CLIPTokenizerFast.from_pretrained(clip).save_pretrained(bert)
    bare.mkdir()
    for name in (
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "preprocessor_config.json",
    ):
        (bare / name).write_bytes((clip / name).read_bytes())
    places = {
        "BROKEN": broken,
        "EMPTY": empty,
        "BERT": bert,
        "BARE": bare,
        "TAKEN": empty,
        "TAKEN.svg": tmp_path / "empty.svg",
    }
    places["BROKEN/x.json"] = broken / "x.json"
    arguments = {"--model": clip, "--image": picture, "--text": SHORT}
    arguments |= {
        changes[place]: changes[place + 1] for place in range(0, len(changes), 2)
    }
    result = waltz(
        *(places.get(part, part) for pair in arguments.items() for part in pair)
    )
    assert result.exit_code == 1, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("waltz: ")
    assert expected in line


def test_no_evaluations_are_refused():
    result = waltz("--model", SCENES, "--evaluations", 0)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert (
        "'--evaluations': Input should be greater than or equal to 1" in result.stderr
    )


def test_transformers_says_nothing_about_a_text_that_is_too_long(
    picture, caplog, monkeypatch
):
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    result = waltz("--model", SCENES, "--image", picture, "--text", "dog " * 90)
    assert result.exit_code == 1
    assert "92 tokens, at most 64 are read" in result.stderr
    assert not caplog.messages


def test_importing_waltz_stays_cheap():
    heavy = "{'torch', 'transformers', 'numpy', 'typer'}"
    code = f"import sys, waltz; print(sorted({heavy} & set(sys.modules)), waltz.__version__)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.startswith("[] 0.")


FAULTS_FOUND_EARLY = [
    (
        ["explain", "--model", "no/model", "--image", "nope.jpg", "--text", "a"],
        "nope.jpg: no such file",
    ),
    (["explain", "--model", "no/model", "--text", "a"], "--image is missing"),
    (
        ["explain", "--model", "no/model", "--image", "nope.jpg"],
        "--text is missing",
    ),
    (["eval", "--model", "no/model", "--on", "{file}"], "'foil' is missing"),
    (
        ["eval", "--model", "rulr-50", "--on", "scenes"],
        "rulr-50: no registered model (did you mean 'ruler-50'?)",
    ),
    (
        ["explain", "--model", "nope", "--question", "a"],
        "nope: no registered model, folder or hub id",
    ),
    (
        ["regions", "--model", "no.pkl", "--image", "{file}", "--out", "r.npz"],
        "no.pkl: no such file",
    ),
    (
        ["regions", "--model", "{file}", "--image", "no.jpg", "--out", "r.npz"],
        "no.jpg: no such file",
    ),
    (
        [
            "score",
            "--model",
            "no.pt",
            "--kind",
            "text",
            "--inputs",
            "{file}",
            "--out",
            "l.npz",
        ],
        "no.pt: no such file",
    ),
    (
        ["eval", "--model", "no/model", "--on", "scenes", "--images", "nope"],
        "--images nope: no such folder",
    ),
]
"""Commands, each with the fault that it names."""


def test_files_columns_and_options_are_checked_before_torch_is_imported(tmp_path):
    (tmp_path / "pairs.csv").write_text("image,caption\na.png,a dog\n")
    commands = [
        [word.format(file=tmp_path / "pairs.csv") for word in command]
        for command, _ in FAULTS_FOUND_EARLY
    ]
    program = f"""
import json, sys
from typer.testing import CliRunner
from waltz.cli.app import app
rows = []
for command in {commands!r}:
    result = CliRunner().invoke(app, command)
    heavy = [name for name in ("torch", "transformers") if name in sys.modules]
    rows.append([result.exit_code, result.stderr, result.stdout, heavy])
print(json.dumps(rows))
"""
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    rows = json.loads(output.stdout)
    for (command, fault), row in zip(FAULTS_FOUND_EARLY, rows, strict=True):
        code, stderr, stdout, heavy = row
        assert (code, stdout, heavy) == (1, "", []), command
        assert fault in stderr
        assert len(stderr.splitlines()) == 1
