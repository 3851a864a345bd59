"""Prompts of decoders as token ids, and their chat templates."""

import copy
import dataclasses
import logging
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import transformers
from PIL import Image

from stand_ins.models import tiny_decoders
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec, load_registry
from waltz.models.decoders import (
    language_model,
    load_decoder,
    template_limits,
    vision_language_model,
    vision_loading,
)
from waltz.models.decoders.decoder import ChatTurn
from waltz.models.decoders.language_model import (
    add_chat_template,
    build_loading_arguments,
)
from waltz.models.decoders.own_forward import OwnForwardModel
from waltz.models.forward_checks import TOLERANCE, measure_difference

SCENES = Path(__file__).parents[3] / "resources" / "scenes" / "models" / "llava"
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "{{ m.role.upper() }} : {{ m.content | trim }} {% endfor %}{% if add_generation_prompt %}ASSISTANT :{% endif %}"
)


def test_tokens_of_a_prompt_know_their_characters_and_whether_they_are_special():
    decoder = tiny_decoders.llava()
    prompt = decoder.build_prompt("USER : <image> what ?")
    assert prompt.tokens == ("<s>", "USER", ":", "<image>", "what", "?")
    assert prompt.special == (True, False, False, True, False, False)
    assert prompt.image_position == 3
    assert [prompt.text[span["start"] : span["end"]] for span in prompt.spans] == [
        "",
        "USER",
        ":",
        "<image>",
        "what",
        "?",
    ]
    # Spelt, so not added again.
    assert decoder.build_prompt("<s> USER").tokens == (
        "<s>",
        "USER",
    )


def test_a_conversation_is_gone_on_with_as_it_is():
    decoder = tiny_decoders.causal()
    with pytest.raises(UserError, match="no chat template"):
        decoder.render_chat([ChatTurn("user", "what ?")])
    decoder.tokenizer.chat_template = TEMPLATE
    turns = [ChatTurn("user", "what ? ")]
    assert decoder.render_chat(turns) == "USER : what ? ASSISTANT :"
    assert (
        decoder.render_chat([*turns, ChatTurn("assistant", " because ( ")])
        == "USER : what ? ASSISTANT : because ( "
    )
    with pytest.raises(UserError, match="no system role"):
        decoder.render_chat([ChatTurn("system", "be brief"), *turns])


def test_a_reply_goes_on_with_a_text_or_answers_a_turn():
    decoder = tiny_decoders.causal()
    prompt = decoder.build_prompt("a man rides")
    plain = decoder.decode_text(decoder.generate([prompt], [None], 5, None, [0])[0])
    assert language_model.reply_to(decoder, "a man rides", 5) == plain
    decoder.tokenizer.chat_template = TEMPLATE
    prompt = decoder.build_prompt("USER : a man rides ASSISTANT :")
    turn = decoder.decode_text(decoder.generate([prompt], [None], 5, None, [0])[0])
    assert language_model.reply_to(decoder, "a man rides", 5) == turn != plain


def test_a_label_is_the_token_that_really_follows():
    decoder = tiny_decoders.causal()
    prompt = decoder.build_prompt("the best answer is : (")
    assert decoder.find_label_id(
        prompt, "A"
    ) == decoder.tokenizer.convert_tokens_to_ids("A")
    assert decoder.find_label_id(
        prompt, "B )"
    ) == decoder.tokenizer.convert_tokens_to_ids("B")
    for ending, label in (("answer", "s"), ("answer", ""), ("answer", "</s>")):
        with pytest.raises(UserError, match="does not begin with a token of its own"):
            decoder.find_label_id(decoder.build_prompt(ending), label)


def test_transformers_says_nothing_about_a_prompt_that_is_too_long(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(SCENES)
    with pytest.raises(UserError, match="1 to 256 are read"):
        dataclasses.replace(
            tiny_decoders.causal(), tokenizer=tokenizer, window=256
        ).build_prompt("dog " * 300)
    assert not [
        record for record in caplog.records if record.name.startswith("transformers")
    ]


def test_prompts_that_cannot_be_read_are_refused():
    decoder = tiny_decoders.llava()
    with pytest.raises(UserError, match="2 images in one prompt"):
        decoder.build_prompt("<image> <image>")
    with pytest.raises(UserError, match=r"1 to 2048 are read: 'dog( dog)*…$"):
        decoder.build_prompt("dog " * 2048)
    picture = decoder.prepare_image(Image.new("RGB", (30, 30), (9, 90, 200)))
    with pytest.raises(UserError, match="2055 positions with the image"):
        decoder.build_layout(decoder.build_prompt("<image>" + " a" * 2045), picture)
    with pytest.raises(UserError, match="has a placeholder but no image"):
        decoder.build_layout(decoder.build_prompt("<image>"), None)
    with pytest.raises(UserError, match="has no placeholder"):
        decoder.build_layout(decoder.build_prompt("a"), picture)
    with pytest.raises(UserError, match="reads no images"):
        tiny_decoders.causal().prepare_image(picture.image)


def test_a_masked_token_is_the_entrys_or_an_underscore():
    decoder = tiny_decoders.causal()

    def masked_id(token):
        return dataclasses.replace(
            decoder, spec=dataclasses.replace(decoder.spec, masked_token=token)
        ).masked_id

    assert decoder.masked_id == decoder.tokenizer.convert_tokens_to_ids("_")
    assert masked_id("?") == decoder.tokenizer.convert_tokens_to_ids("?")
    for wrong in ("nowhere", "</s>"):
        with pytest.raises(UserError, match="masked_token"):
            masked_id(wrong)


def test_large_models_are_loaded_as_the_study_says(monkeypatch):
    entry = ModelSpec("large", weights="some/model", revision="a" * 40, dtype="float16")
    assert build_loading_arguments(entry) == {}
    assert build_loading_arguments(dataclasses.replace(entry, device_map="auto")) == {
        "device_map": "auto"
    }
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda name: None if name == "bitsandbytes" else object(),
    )
    with pytest.raises(UserError, match="'bitsandbytes' is not installed"):
        build_loading_arguments(dataclasses.replace(entry, four_bit=True))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr(
        transformers.BitsAndBytesConfig, "post_init", lambda config: None
    )
    quantization = build_loading_arguments(dataclasses.replace(entry, four_bit=True))[
        "quantization_config"
    ]
    assert (
        quantization.load_in_4bit,
        quantization.bnb_4bit_quant_type,
        quantization.bnb_4bit_compute_dtype,
    ) == (
        True,
        "nf4",
        torch.float16,
    )


def test_a_family_that_reads_images_in_another_way_is_read_by_its_own_forward_pass(
    monkeypatch, caplog
):
    decoder = tiny_decoders.llava()
    body = type(decoder.network.model.base_model)
    features = body.get_image_features

    def doubled(model, *rest, **named):  # what another family may add on the way
        features_of_image = features(model, *rest, **named)
        features_of_image.pooler_output = [
            2 * one for one in features_of_image.pooler_output
        ]
        return features_of_image

    monkeypatch.setattr(body, "get_image_features", doubled)
    vision_loading.wrap_vision_language_model(
        decoder.spec, decoder.network.model, decoder.processor, "cpu"
    )  # both paths see it
    monkeypatch.setattr(
        vision_language_model.VisionLanguageModel,
        "_encode_image",
        lambda self, picture, pixels: torch.zeros(len(pixels), 9, 32),
    )
    other = vision_loading.wrap_vision_language_model(
        decoder.spec, decoder.network.model, decoder.processor, "cpu"
    )
    assert isinstance(other, OwnForwardModel)
    assert "tiny-llava: llava is read by its own forward pass" in caplog.text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_network_that_looks_ahead_is_refused(dtype):
    decoder = tiny_decoders.causal()
    model = decoder.network.model.to(dtype)
    for layer in model.base_model.layers:
        layer.self_attn.is_causal = False
    with pytest.raises(UserError, match="see those behind them"):
        language_model.wrap_language_model(
            decoder.spec, model, decoder.tokenizer, "cpu"
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_in_half_precision_is_no_fault_of_a_network(dtype):
    decoder = tiny_decoders.causal()
    config = copy.deepcopy(decoder.network.model.config)
    config.num_hidden_layers = 24
    transformers.set_seed(0)
    model = type(decoder.network.model)(config).to(dtype)

    def round_otherwise(
        layer, inputs, output
    ):  # as kernels of a GPU do for other lengths
        return output * (
            1 + torch.finfo(output.dtype).eps * (2 * torch.rand_like(output) - 1)
        )

    for layer in model.base_model.layers:
        layer.register_forward_hook(round_otherwise)
    ids = torch.tensor([(30, 50, 40, 60, 30, 50)])
    with torch.inference_mode():
        first, second = (model.eval()(input_ids=ids).logits for _ in range(2))
    assert measure_difference(second, first) > TOLERANCE
    wrapped = language_model.wrap_language_model(
        decoder.spec, model, decoder.tokenizer, "cpu"
    )
    assert wrapped.network.reuses_prefixes


def test_images_are_resized_with_pil_whatever_is_installed(monkeypatch):
    load_images, loaded = transformers.AutoImageProcessor.from_pretrained, []

    def record(source, **options):
        loaded.append((options.get("backend"), load_images(source, **options)))
        return loaded[-1][1]

    monkeypatch.setattr(transformers.AutoImageProcessor, "from_pretrained", record)
    decoder = load_decoder(
        ModelSpec("llava", "vision", str(SCENES), "local"), Device("cpu", 1, "test")
    )
    assert loaded[-1] == ("pil", decoder.processor.image_processor.processor)


def test_models_load_from_folders(tmp_path):
    small = tiny_decoders.causal("gpt2")
    small.network.model.save_pretrained(tmp_path)
    small.tokenizer.save_pretrained(tmp_path)
    spec = ModelSpec("small", weights=str(tmp_path), revision="local")
    loaded = load_decoder(spec, Device("cpu", 1, "test"))
    prompt = loaded.build_prompt("a man rides a horse")
    with pytest.raises(UserError, match="is not a decoder"):
        load_decoder(dataclasses.replace(spec, kind="clip"), Device("cpu", 1, "test"))
    assert loaded.generate([prompt], [None], 5, None, [0]) == small.generate(
        [prompt], [None], 5, None, [0]
    )


def test_options_of_large_models_reach_the_network(tmp_path):
    small = tiny_decoders.causal("gpt2")
    small.network.model.save_pretrained(tmp_path)
    small.tokenizer.save_pretrained(tmp_path)
    spec = ModelSpec(
        "small",
        weights=str(tmp_path),
        revision="local",
        device_map="cpu",
        trust_remote_code=True,
    )
    loaded = load_decoder(spec, Device("cpu", 1, "test"))
    prompt = loaded.build_prompt("a man rides a horse")
    assert loaded.generate([prompt], [None], 5, None, [0]) == small.generate(
        [prompt], [None], 5, None, [0]
    )


def test_the_scenes_llava_is_loaded_and_answers_about_an_image():
    spec = ModelSpec(
        "scene-llava", kind="vision", weights=str(SCENES), revision="local"
    )
    decoder = load_decoder(spec, Device("cpu", 1, "test"))
    assert decoder.reads_images
    text = decoder.render_chat(
        [
            ChatTurn("user", "How many dogs are there?", image=True),
            ChatTurn("assistant", " There"),
        ]
    )
    assert text.endswith("ASSISTANT: There")
    prompt = decoder.build_prompt(text)
    assert prompt.tokens[prompt.image_position] == "<image>"
    picture = decoder.prepare_image(Image.new("RGB", (128, 128), (90, 200, 90)))
    (answer,) = decoder.generate([prompt], [picture], 8, None, [0])
    assert decoder.decode_text(answer)
    given = decoder._process(text, picture.image)
    expected = decoder.network.model.generate(
        **given, do_sample=False, max_new_tokens=8
    )[0, given["input_ids"].shape[1] :]
    assert answer == tuple(
        token for token in expected.tolist() if token not in decoder.ends
    )


def test_a_model_without_a_token_for_masked_ones_can_still_be_read():
    words = tiny_decoders.tokenizer()
    decoder = tiny_decoders.causal("llama", words)
    object.__setattr__(
        decoder, "spec", dataclasses.replace(decoder.spec, masked_token="</s>")
    )
    assert decoder.build_prompt("what is this ?").ids
    with pytest.raises(UserError, match="can stand for a masked one"):
        _ = decoder.masked_id


TURNS = [
    ChatTurn("user", "what is this ?"),
    ChatTurn("assistant", "a dog ."),
    ChatTurn("user", "why ?"),
]


def spec(template: str) -> ModelSpec:
    return ModelSpec("mine", weights="tiny", chat_template=template)


@pytest.mark.parametrize(
    "name", [name for name, spec in load_registry().items() if spec.chat_template]
)
def test_every_registered_template_keeps_all_turns_in_order(name):
    known = load_registry()[name]
    decoder = (
        tiny_decoders.llava() if known.kind == "vision" else tiny_decoders.causal()
    )
    reader = decoder.processor if known.kind == "vision" else decoder.tokenizer
    reader.chat_template = None
    add_chat_template(reader, False, spec(known.chat_template))
    turns = (
        [ChatTurn("user", TURNS[0].text, True), *TURNS[1:]]
        if known.kind == "vision"
        else TURNS
    )
    text = decoder.render_chat(turns)
    places = [text.index(turn.text) for turn in TURNS]
    assert places == sorted(places)
    assert text.count("<image>") == (known.kind == "vision")
    begun = decoder.render_chat([*turns, ChatTurn("assistant", "because ")])
    assert begun == text + "because "


MISTRAL_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] +"
    " ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token }}{% else %}"
    "{{ raise_exception('only user and assistant roles') }}{% endif %}{% endfor %}"
)
"""As in the tokenizer's settings of Mistral Instruct, which reads contents as text."""


def test_a_vl_decoder_whose_tokenizer_alone_has_a_chat_template_uses_it():
    decoder = tiny_decoders.llava_next()
    assert not decoder.has_chat_template
    decoder.tokenizer.chat_template = MISTRAL_TEMPLATE
    assert decoder.has_chat_template
    question = ChatTurn("user", "what is this ?", image=True)
    assert (
        decoder.render_chat([question]) == "<s>[INST] <image>\nwhat is this ? [/INST]"
    )
    text = decoder.render_chat(
        [question, *TURNS[1:], ChatTurn("assistant", "because ")]
    )
    assert (
        text
        == "<s>[INST] <image>\nwhat is this ? [/INST]a dog .</s>[INST] why ? [/INST]because "
    )
    prompt = decoder.build_prompt(text)
    assert prompt.tokens[prompt.image_position] == "<image>"
    assert prompt.tokens.count("<s>") == 1
    with pytest.raises(
        UserError, match="refuses the conversation: only user and assistant roles"
    ):
        decoder.render_chat([ChatTurn("system", "be brief"), question])


def test_several_chat_templates_without_a_default_are_refused_in_one_line():
    decoder = tiny_decoders.causal()
    decoder.tokenizer.chat_template = {"tools": TEMPLATE}
    with pytest.raises(
        UserError, match="the chat template of tiny refuses the conversation"
    ):
        decoder.render_chat(TURNS)


BOMBS = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "long text": "{% set size = 3 * 10**9 %}{{ 'a' * size }}",
    "long constant": "{{ 'a' * 3000000000 }}",
    "format": "{{ '%999999999s' % 'a' }}{{ '%999999999s' % 'a' }}{{ '%999999999s' % 'a' }}",
    "filter": "{{ 'a' | center(10**10) }}",
    "indent": "{{ ('a\n' * 10**5) | indent(10**6) }}",
    "method": "{{ 'a'.ljust(10**10) }}",
    "join": "{{ ([messages[0].content * 10**5] * 10**6) | join }}",
    "batch": "{{ [1] | batch(10**10, 2) | list }}",
    "power": "{% set size = 10**9 %}{{ 9 ** size }}",
    "power of a constant": "{{ (10 ** 300000000) > 0 }}",
    "power in a rounding": "{{ 1 | round(300000000, 'ceil') }}",
    "power in a named filter": "{{ [1] | map('round', 300000000, 'ceil') | list }}",
    "long output": "{{ 'a' * 2000000 }}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "division": "{{ 1 / 0 }}",
    "key": "{{ {}.pop('a') }}",
    "lines": "{{ raise_exception('one\ntwo') }}",
    "long fault": "{{ raise_exception('a' * 100000) }}",
    "brackets": "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
}


@pytest.mark.parametrize("template", BOMBS.values(), ids=BOMBS)
def test_a_template_without_bounds_is_refused_in_one_line(template, monkeypatch):
    # The limits of a second and 256 MB are sooner reached than those of the library.
    monkeypatch.setattr(template_limits, "MAX_SECONDS", 1)
    monkeypatch.setattr(template_limits, "MAX_BYTES", 1 << 28)
    decoder = tiny_decoders.causal()
    decoder.tokenizer.chat_template = template
    limits = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(
        UserError, match="the chat template of tiny refuses the conversation: "
    ) as raised:
        decoder.render_chat([ChatTurn("user", "why ?")])
    assert len(str(raised.value).splitlines()) == 1
    assert len(str(raised.value)) < 400
    assert limits == (
        resource.getrlimit(resource.RLIMIT_AS),
        signal.getsignal(signal.SIGVTALRM),
    )


def test_stars_that_pass_arguments_are_no_power():
    decoder = tiny_decoders.causal()
    decoder.tokenizer.chat_template = (
        "{% set turn = dict(**messages[0]) %}{{ turn.content }} 2 ** 3 rounds"
    )
    assert decoder.render_chat([ChatTurn("user", "why ?")]) == "why ? 2 ** 3 rounds"


def test_a_template_is_bounded_in_another_thread(monkeypatch):
    monkeypatch.setattr(template_limits, "MAX_STEPS", 10**5)
    decoder = tiny_decoders.causal()
    decoder.tokenizer.chat_template = BOMBS["nested loops"]
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(UserError, match="takes more than 100000 steps"),
    ):
        pool.submit(decoder.render_chat, [ChatTurn("user", "why ?")]).result()


def test_a_checkpoints_own_template_stays_and_a_missing_file_is_an_error():
    tokenizer = tiny_decoders.causal().tokenizer
    tokenizer.chat_template = "own"
    add_chat_template(tokenizer, True, spec("plain.jinja"))
    assert tokenizer.chat_template == "own"
    with pytest.raises(
        UserError, match=r"models\.mine\.chat_template: .*absent\.jinja: no such file"
    ):
        add_chat_template(tokenizer, False, spec("absent.jinja"))
