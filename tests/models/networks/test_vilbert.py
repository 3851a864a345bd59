"""Scores of prepared inputs against the specification, written down again over the weights by their
names.
"""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from scipy.special import erf
from typer.testing import CliRunner

from stand_ins.models.tiny_encoders import REGIONS, WIDTH
from stand_ins.models.tiny_vilbert import (
    VILBERT,
    VILBERT_TASKS,
    vilbert_layout,
    vilbert_weights,
)
from waltz.cli.app import app
from waltz.core.errors import UserError
from waltz.models.networks.array_inputs import compute_logits
from waltz.models.networks.vilbert import (
    TwoStreams,
    VilbertConfig,
    is_unused,
    load_two_streams,
)

ITM = "cls.bi_seq_relationship"


@pytest.fixture(scope="session")
def inputs() -> dict[str, np.ndarray]:
    """Five rows; texts and images of unequal lengths, padded."""
    draw = np.random.default_rng(8)
    lengths, counts = np.array([7, 4, 9, 5, 9]), np.array([6, 6, 3, 5, 2])
    words = np.arange(9) < lengths[:, None]
    seen = np.arange(REGIONS + 1) < counts[:, None]
    features = draw.normal(size=(5, REGIONS + 1, WIDTH)) * seen[..., None]
    return {
        "input_ids": draw.integers(5, VILBERT["vocab_size"], (5, 9)) * words,
        "attention_mask": words.astype(np.int64),
        "token_type_ids": draw.integers(0, 2, (5, 9)),
        "features": features.astype(np.float32),
        "boxes": (draw.random((5, REGIONS + 1, 5)) * seen[..., None]).astype(
            np.float32
        ),
        "image_mask": seen.astype(np.int64),
        "task_ids": draw.integers(0, VILBERT_TASKS, (5, 1)),
    }


class Restated:
    """The specification in float64, one row at a time, every step by its formula."""

    def __init__(self, weights, config):
        self.weights = {key: value.double().numpy() for key, value in weights.items()}
        self.config = config

    def linear(self, name, states):
        return states @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name, states):
        centred = states - states.mean(axis=-1, keepdims=True)
        unit = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return unit * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    @staticmethod
    def attention(queries, keys, values, heads, mask):
        size = queries.shape[-1] // heads
        contexts = []
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            scores = queries[:, part] @ keys[:, part].T / np.sqrt(size) - 10000 * (
                1 - mask
            )
            shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
            contexts.append(
                shares / shares.sum(axis=-1, keepdims=True) @ values[:, part]
            )
        return np.concatenate(contexts, axis=-1)

    def perceptron(self, before, after, states):
        inner = self.linear(f"{before}.dense", states)
        inner = inner * 0.5 * (1 + erf(inner / np.sqrt(2)))
        return self.norm(
            f"{after}.LayerNorm", states + self.linear(f"{after}.dense", inner)
        )

    def alone(self, name, states, heads, mask):
        parts = (
            self.linear(f"{name}.attention.self.{part}", states)
            for part in ("query", "key", "value")
        )
        context = self.linear(
            f"{name}.attention.output.dense", self.attention(*parts, heads, mask)
        )
        states = self.norm(f"{name}.attention.output.LayerNorm", states + context)
        return self.perceptron(f"{name}.intermediate", f"{name}.output", states)

    def together(self, name, image, text, image_mask, text_mask):
        q1, k1, v1 = (
            self.linear(f"{name}.biattention.{part}1", image)
            for part in ("query", "key", "value")
        )
        q2, k2, v2 = (
            self.linear(f"{name}.biattention.{part}2", text)
            for part in ("query", "key", "value")
        )
        heads = self.config["bi_num_attention_heads"]
        new_text = self.attention(q2, k1, v1, heads, image_mask)
        new_image = self.attention(q1, k2, v2, heads, text_mask)
        image = self.norm(
            f"{name}.biOutput.LayerNorm1",
            image + self.linear(f"{name}.biOutput.dense1", new_image),
        )
        text = self.norm(
            f"{name}.biOutput.LayerNorm2",
            text + self.linear(f"{name}.biOutput.dense2", new_text),
        )
        return (
            self.perceptron(f"{name}.v_intermediate", f"{name}.v_output", image),
            self.perceptron(f"{name}.t_intermediate", f"{name}.t_output", text),
        )

    def fuse(self, ids, segments, text_mask, features, boxes, image_mask, task):
        tables = {
            kind: self.weights[f"bert.embeddings.{kind}_embeddings.weight"]
            for kind in ("word", "position")
        }
        text = tables["word"][ids] + tables["position"][np.arange(len(ids))]
        text = (
            text
            + self.weights["bert.embeddings.token_type_embeddings.weight"][segments]
        )
        if task is not None:
            text = np.insert(
                text,
                1,
                self.weights["bert.embeddings.task_embeddings.weight"][task],
                axis=0,
            )
            text_mask = np.insert(text_mask, 1, 1)
        text = self.norm("bert.embeddings.LayerNorm", text)
        image = self.linear("bert.v_embeddings.image_embeddings", features)
        image = image + self.linear(
            "bert.v_embeddings.image_location_embeddings", boxes
        )
        image = self.norm("bert.v_embeddings.LayerNorm", image)
        done = {"layer": 0, "v_layer": 0}

        def until(stack, end, states, heads, mask):
            while done[stack] < end:
                states = self.alone(
                    f"bert.encoder.{stack}.{done[stack]}", states, heads, mask
                )
                done[stack] += 1
            return states

        heads = self.config["num_attention_heads"], self.config["v_num_attention_heads"]
        meetings = zip(
            self.config["v_biattention_id"],
            self.config["t_biattention_id"],
            strict=True,
        )
        for number, (v, t) in enumerate(meetings):
            text = until("layer", t, text, heads[0], text_mask)
            image = until("v_layer", v, image, heads[1], image_mask)
            image, text = self.together(
                f"bert.encoder.c_layer.{number}", image, text, image_mask, text_mask
            )
        text = until(
            "layer", self.config["num_hidden_layers"], text, heads[0], text_mask
        )
        image = until(
            "v_layer", self.config["v_num_hidden_layers"], image, heads[1], image_mask
        )
        pooled = np.maximum(self.linear("bert.t_pooler.dense", text[0]), 0)
        return pooled * np.maximum(self.linear("bert.v_pooler.dense", image[0]), 0)

    def rows(self, inputs, multitask):
        """ITM logits and the retrieval logit of every row."""
        order = (
            "input_ids",
            "token_type_ids",
            "attention_mask",
            "features",
            "boxes",
            "image_mask",
        )
        tasks = (
            inputs["task_ids"][:, 0] if multitask else [None] * len(inputs["input_ids"])
        )
        joints = [
            self.fuse(*(inputs[name][row] for name in order), task)
            for row, task in enumerate(tasks)
        ]
        match = np.stack([self.linear(ITM, joint) for joint in joints])
        return match, np.stack(
            [self.linear("vil_logit", joint) for joint in joints]
        ) if multitask else None


def written(folder, weights, config=VILBERT):
    """A checkpoint with its JSON."""
    torch.save(weights, folder / "tiny.bin")
    (folder / "tiny.json").write_text(json.dumps(config))
    return folder / "tiny.bin"


@pytest.mark.parametrize("multitask", [False, True])
@pytest.mark.parametrize(
    "changed",
    [
        {},
        # At once, twice in one place, at the very end.
        {
            "v_biattention_id": [0, 0, 3],
            "t_biattention_id": [0, 4, 4],
        },
        {
            "num_hidden_layers": 1,
            "v_num_hidden_layers": 1,
            "v_biattention_id": [1],
            "t_biattention_id": [0],
        },
    ],
)
def test_logits_are_those_of_the_specification(tmp_path, inputs, multitask, changed):
    config = VILBERT | changed
    weights = vilbert_weights(config, multitask)
    logits = compute_logits(
        written(tmp_path, weights),
        config,
        inputs,
        "vilbert-12in1" if multitask else "vilbert",
    )
    match, ranks = Restated(weights, config).rows(inputs, multitask)
    assert match.std() > 0.1
    assert logits["match_logits"].dtype == np.float32
    np.testing.assert_allclose(logits["match_logits"], match, rtol=1e-5, atol=1e-5)
    assert ("retrieval_logit" in logits) == multitask
    if multitask:
        assert logits["retrieval_logit"].shape == (5, 1)
        np.testing.assert_allclose(
            logits["retrieval_logit"], ranks, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("kind", ["vilbert", "vilbert-12in1"])
def test_no_row_depends_on_how_many_there_are(vilbert_file, inputs, kind):
    complete = compute_logits(vilbert_file(kind != "vilbert"), None, inputs, kind)
    # The original's fourth output changes where the batch is odd.
    for rows in (
        slice(0, 1),
        slice(1, 3),
        slice(2, 5),
    ):
        part = compute_logits(
            vilbert_file(kind != "vilbert"),
            None,
            {name: some[rows] for name, some in inputs.items()},
            kind,
        )
        for name, values in part.items():
            assert (values == complete[name][rows]).all()
    empty = compute_logits(
        vilbert_file(kind != "vilbert"),
        None,
        {name: some[:0] for name, some in inputs.items()},
        kind,
    )
    assert empty["match_logits"].shape == (0, 2)


def test_padding_changes_nothing(vilbert_file, inputs):
    padded = compute_logits(vilbert_file(True), None, inputs, "vilbert-12in1")
    words, regions = inputs["attention_mask"][3].sum(), inputs["image_mask"][3].sum()
    cut = {
        name: some[
            3:4, : regions if name in ("features", "boxes", "image_mask") else words
        ]
        for name, some in inputs.items()
    }
    alone = compute_logits(vilbert_file(True), None, cut, "vilbert-12in1")
    for name, values in alone.items():
        np.testing.assert_allclose(values, padded[name][3:4], rtol=0, atol=1e-5)


def test_masks_and_types_that_are_not_given_are_ones_and_zeros(vilbert_file, inputs):
    plain = {name: inputs[name] for name in ("input_ids", "features", "boxes")}
    ones = {
        "attention_mask": np.ones((5, 9), dtype=bool),
        "image_mask": np.ones((5, 6), dtype=np.float32),
    }
    complete = plain | ones | {"token_type_ids": np.zeros((5, 9), dtype=np.int32)}
    assert np.array_equal(
        *(
            compute_logits(vilbert_file(False), None, given, "vilbert")["match_logits"]
            for given in (plain, complete)
        )
    )


def test_the_command_writes_what_the_library_says(vilbert_file, inputs, tmp_path):
    np.savez(tmp_path / "in.npz", **inputs)
    expected = compute_logits(vilbert_file(True), None, inputs, "vilbert-12in1")
    words = [
        "score",
        "--kind",
        "vilbert-12in1",
        "--inputs",
        str(tmp_path / "in.npz"),
        "--out",
        str(tmp_path / "out.npz"),
    ]
    for model in (vilbert_file(True), vilbert_file(True).parent):
        done = CliRunner().invoke(
            app,
            [
                *words,
                "--model",
                str(model),
                "--config",
                str(vilbert_file(True).parent / "config.json"),
            ],
        )
        assert done.exit_code == 0, done.output
        outputs = dict(np.load(tmp_path / "out.npz"))
        assert outputs.keys() == expected.keys()
        assert all((outputs[name] == expected[name]).all() for name in outputs)


def test_a_task_is_inserted_for_12_in_1_alone(vilbert_file, inputs):
    other = inputs | {"task_ids": (inputs["task_ids"] + 1) % 20}
    first, second = (
        compute_logits(vilbert_file(True), None, given, "vilbert-12in1")
        for given in (inputs, other)
    )
    assert (np.abs(first["retrieval_logit"] - second["retrieval_logit"]) > 1e-4).all()
    flat = inputs | {"task_ids": inputs["task_ids"][:, 0]}
    assert (
        compute_logits(vilbert_file(True), None, flat, "vilbert-12in1")["match_logits"]
        == first["match_logits"]
    ).all()
    without = {name: some for name, some in inputs.items() if name != "task_ids"}
    assert np.array_equal(
        *(
            compute_logits(vilbert_file(False), None, given, "vilbert")["match_logits"]
            for given in (inputs, without)
        )
    )


def test_a_checkpoint_that_prefers_a_match_does_so_at_index_0(tmp_path, inputs):
    weights = vilbert_weights(VILBERT, True)
    weights[f"{ITM}.weight"].zero_()
    weights[f"{ITM}.bias"] = torch.tensor([3.0, -1.0])
    weights["vil_logit.weight"].zero_()
    weights["vil_logit.bias"] = torch.tensor([7.0])
    logits = compute_logits(written(tmp_path, weights), None, inputs, "vilbert-12in1")
    assert (logits["match_logits"] == [3, -1]).all()
    assert (logits["retrieval_logit"] == 7).all()


def test_layouts_of_older_files_are_read(tmp_path, vilbert_file, inputs):
    new = compute_logits(vilbert_file(False), None, inputs, "vilbert")["match_logits"]
    names = {"weight": "gamma", "bias": "beta"}
    old = {}
    for key, value in vilbert_weights(VILBERT, False).items():
        stem, _, last = key.rpartition(".")
        old[
            f"module.{stem}.{names[last]}" if "LayerNorm" in stem else f"module.{key}"
        ] = value
    path = written(tmp_path, {"model_state_dict": old, "epoch_id": 3})
    assert (compute_logits(path, None, inputs, "vilbert")["match_logits"] == new).all()


@pytest.mark.parametrize(("multitask", "keys"), [(False, 533), (True, 560)])
def test_every_key_of_the_released_files_has_its_role(multitask, keys):
    layout = vilbert_layout(
        asdict(VilbertConfig()) | {"v_target_size": 1601}, multitask
    )
    assert len(layout) == keys
    with torch.device("meta"):
        network = TwoStreams(VilbertConfig(tasks=20 if multitask else 0))
    own = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    left = layout.keys() - own.keys()
    assert own == {key: shape for key, shape in layout.items() if key not in left}
    assert all(map(is_unused, left))
    assert {key for key in own if is_unused(key)} <= {
        "vil_logit.weight",
        "vil_logit.bias",
    }


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (f"{ITM}.weight", "vilbert"),
        (f"{ITM}.bias", "vilbert-12in1"),
        ("vil_logit.weight", "vilbert-12in1"),
        ("bert.encoder.c_layer.1.biOutput.LayerNorm2.bias", "vilbert"),
        ("bert.embeddings.word_embeddings.weight", "vilbert"),
        ("bert.embeddings.task_embeddings.weight", "vilbert-12in1"),
    ],
)
def test_a_missing_key_is_named(tmp_path, inputs, key, kind):
    weights = vilbert_weights(VILBERT, kind != "vilbert")
    del weights[key]
    with pytest.raises(UserError, match=key.replace(".", r"\.")):
        compute_logits(written(tmp_path, weights), None, inputs, kind)


def test_an_unknown_key_is_named_and_another_shape_too(tmp_path, inputs):
    weights = vilbert_weights(VILBERT, False)
    with pytest.raises(UserError, match=r"unexpected bert\.dyLinear\.weight"):
        compute_logits(
            written(tmp_path, weights | {"bert.dyLinear.weight": torch.zeros(2)}),
            None,
            inputs,
            "vilbert",
        )
    weights["bert.encoder.v_layer.2.output.dense.bias"] = torch.zeros(3)
    with pytest.raises(UserError, match=r"v_layer\.2\.output\.dense\.bias 3 for 16"):
        compute_logits(written(tmp_path, weights), None, inputs, "vilbert")


def test_a_head_that_scores_nothing_may_lack(tmp_path, vilbert_file, inputs):
    weights = {
        key: value
        for key, value in vilbert_weights(VILBERT, False).items()
        if not is_unused(key)
    }
    assert len(weights) < len(vilbert_layout(VILBERT, False))
    logits = compute_logits(written(tmp_path, weights), None, inputs, "vilbert")[
        "match_logits"
    ]
    assert (
        logits
        == compute_logits(vilbert_file(False), None, inputs, "vilbert")["match_logits"]
    ).all()


def test_a_12_in_1_is_no_vilbert(vilbert_file, inputs):
    with pytest.raises(UserError, match=r"reads task tokens .* vilbert-12in1"):
        compute_logits(vilbert_file(True), None, inputs, "vilbert")
    with pytest.raises(UserError, match=r"lacks .*task_embeddings\.weight"):
        compute_logits(vilbert_file(False), None, inputs, "vilbert-12in1")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"hidden_size": 25}, "hidden_size is 25, its weights have 24"),
        ({"v_num_hidden_layers": 4}, "v_num_hidden_layers is 4, its weights have 3"),
        (
            {"num_attention_heads": None},
            "num_attention_heads is None, a whole number above 0",
        ),
        (
            {"bi_num_attention_heads": 5},
            "bi_hidden_size 32 is not a multiple of bi_num_attention_heads 5",
        ),
        ({"t_biattention_id": [3, 2]}, "ascending whole numbers"),
        ({"t_biattention_id": "6"}, "ascending whole numbers"),
        (
            {"v_biattention_id": [0, 4]},
            "does not fit 2 co-attention layers over 3 layers",
        ),
        ({"v_biattention_id": [0]}, "does not fit 2 co-attention"),
        (
            {"hidden_act": "swish"},
            "hidden_act is 'swish'; only 'gelu', 'relu' can be computed",
        ),
        ({"dynamic_attention": True}, "dynamic_attention is True"),
    ],
)
def test_a_json_that_does_not_fit_is_refused(vilbert_file, inputs, changed, message):
    with pytest.raises(UserError, match=message):
        compute_logits(vilbert_file(False), VILBERT | changed, inputs, "vilbert")


def test_sizes_are_read_from_the_weights(vilbert_file, inputs):
    untold = ("num_attention_heads", "v_num_attention_heads", "bi_num_attention_heads")
    least = {
        key: VILBERT[key] for key in (*untold, "v_biattention_id", "t_biattention_id")
    }
    read, configured = (
        compute_logits(vilbert_file(False), config, inputs, "vilbert")["match_logits"]
        for config in (least, VILBERT)
    )
    assert (read == configured).all()


def test_options_that_decide_numbers_are_followed(vilbert_file, inputs):
    logits = [
        compute_logits(vilbert_file(False), VILBERT | changed, inputs, "vilbert")[
            "match_logits"
        ]
        for changed in (
            {},
            {"fusion_method": "sum"},
            {"hidden_act": "relu"},
            {"v_hidden_act": "relu"},
        )
    ]
    assert all(np.abs(logits[0] - other).max() > 1e-4 for other in logits[1:])


def test_sizes_come_from_a_json_next_to_the_file_or_are_the_released_ones(
    tmp_path, inputs
):
    path = written(tmp_path, vilbert_weights(VILBERT, False))
    assert compute_logits(path, None, inputs, "vilbert")["match_logits"].shape == (5, 2)
    (tmp_path / "tiny.json").write_text("[")
    with pytest.raises(UserError, match=r"tiny\.json: cannot be read as JSON"):
        load_two_streams(path, None, False)
    (tmp_path / "tiny.json").write_text('{"vocab_size": 17, "vocab_size": 18}')
    with pytest.raises(
        UserError,
        match=r"tiny\.json: cannot be read as JSON \(key 'vocab_size' stands twice\)",
    ):
        load_two_streams(path, None, False)
    (tmp_path / "tiny.json").unlink()
    with pytest.raises(
        UserError,
        match=r"without a JSON, and the released vocab_size is 30522, its weights have 17",
    ):
        load_two_streams(path, None, False)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"task_ids": None},
            "task_ids missing; this model needs input_ids, features, boxes, task_ids",
        ),
        ({"features": None, "boxes": None}, "features, boxes missing"),
        (
            {"input_ids": np.zeros(9, int)},
            r"input_ids is of shape \(9,\), \(n, 1 to 20 tokens\)",
        ),
        (
            {"features": np.zeros((5, 6, 11))},
            r"features is of shape \(5, 6, 11\), \(5, 6, 12\) is needed",
        ),
        (
            {"boxes": np.zeros((5, 6, 4))},
            r"boxes is of shape \(5, 6, 4\), \(5, 6, 5\) is needed",
        ),
        ({"image_mask": np.ones((5, 5))}, "image_mask is of shape"),
        ({"token_type_ids": np.zeros((5, 8), int)}, "token_type_ids is of shape"),
        (
            {"task_ids": np.zeros((5, 2), int)},
            r"task_ids is of shape \(5, 2\), \(5,\) is needed",
        ),
        (
            {"task_ids": np.full(5, 20)},
            "task_ids holds other than whole numbers from 0 to 19",
        ),
        (
            {"input_ids": np.full((5, 9), -1)},
            "input_ids holds other than whole numbers from 0 to 16",
        ),
        (
            {"token_type_ids": np.zeros((5, 9))},
            "token_type_ids holds other than whole numbers",
        ),
        (
            {"attention_mask": np.full((5, 9), 2)},
            "attention_mask holds other than 0 and 1",
        ),
        (
            {"features": np.full((5, 6, 12), np.nan)},
            "features holds other than finite numbers",
        ),
        ({"boxes": np.full((5, 6, 5), "a")}, "boxes holds other than finite numbers"),
        (
            {
                "features": np.zeros((5, 0, 12)),
                "boxes": np.zeros((5, 0, 5)),
                "image_mask": np.ones((5, 0)),
            },
            r"features is of shape \(5, 0, 12\)",
        ),
        (
            {
                name: np.zeros((5, 21), int)
                for name in ("input_ids", "attention_mask", "token_type_ids")
            },
            r"input_ids is of shape \(5, 21\), \(n, 1 to 20 tokens\) is needed",
        ),
    ],
)
def test_inputs_that_are_not_as_they_should_be_are_refused(
    vilbert_file, inputs, changed, message
):
    given = {
        name: values
        for name, values in (inputs | changed).items()
        if values is not None
    }
    with pytest.raises(UserError, match=message) as raised:
        compute_logits(vilbert_file(True), None, given, "vilbert-12in1")
    assert "\n" not in str(raised.value)
