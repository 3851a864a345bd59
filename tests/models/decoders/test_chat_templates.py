"""Chat templates that stand in for those that checkpoints lack."""

import pytest

from stand_ins import tiny_decoders
from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec, load_registry
from waltz.models.decoders.decoder import Turn
from waltz.models.decoders.language_model import add_chat_template
from workflow_runs.checkout import ROOT

TURNS = [Turn("user", "what is this ?"), Turn("assistant", "a dog ."), Turn("user", "why ?")]


def spec(template: str) -> ModelSpec:
    return ModelSpec("mine", weights="tiny", chat_template=template and str(ROOT / template))


@pytest.mark.parametrize("name", [name for name, spec in load_registry().items() if spec.chat_template])
def test_every_registered_template_keeps_all_turns_in_order(name):
    known = load_registry()[name]
    decoder = tiny_decoders.llava() if known.kind == "vision" else tiny_decoders.causal()
    reader = decoder.processor if known.kind == "vision" else decoder.tokenizer
    reader.chat_template = None
    add_chat_template(reader, False, spec(known.chat_template))
    turns = [Turn("user", TURNS[0].text, True), *TURNS[1:]] if known.kind == "vision" else TURNS
    text = decoder.render_chat(turns)
    places = [text.index(turn.text) for turn in TURNS]
    assert places == sorted(places)
    assert text.count("<image>") == (known.kind == "vision")
    begun = decoder.render_chat([*turns, Turn("assistant", "because ")])
    assert begun == text + "because "


def test_a_checkpoints_own_template_stays_and_a_missing_file_is_an_error():
    tokenizer = tiny_decoders.causal().tokenizer
    tokenizer.chat_template = "own"
    add_chat_template(tokenizer, True, spec("resources/chat-templates/plain.jinja"))
    assert tokenizer.chat_template == "own"
    with pytest.raises(UserError, match=r"models\.mine\.chat_template: .*absent\.jinja: no such file"):
        add_chat_template(tokenizer, False, spec("absent.jinja"))
