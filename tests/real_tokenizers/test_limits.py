"""Real tokenizers at the limits of models: the longest sentences of VALSE, and whole dialogues of
VisDial.
"""

import pytest
from PIL import Image

from real_tokenizers import build
from rehearsal import hub
from stand_ins.records import build_items
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.evaluation.prompting.prompts import build_published_template, render_prompt
from waltz.evaluation.prompting.questions import build_pairwise_questions
from waltz.model_registry import ModelSpec
from waltz.models.decoders.decoder import expand_prompt
from waltz.models.encoders.encoder import tokenize_text
from waltz.models.text.causal import compute_mean_log_likelihoods, load_causal_model
from waltz.models.text.masked import load_masked_model

pytestmark = pytest.mark.usefixtures("real_vocabularies")

ENCODERS = {"clip": (build.build_clip, 77, 45), "bert": (build.build_bert, 512, 45)}
"""What builds each tokenizer, the tokens that its models read, and those of the longest sentence of
VALSE.
"""
GRIDS = [(1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (1, 3)]


def load(model, load_model, folder):
    """Load a tiny model with a real tokenizer."""
    hub.build({model: "0" * 40}, folder)
    return load_model(
        ModelSpec("mine", weights=str(folder / model), revision="local"),
        Device("cpu", 1, ""),
    )


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_read_each_sentence_of_valse_whole(valid_sentences, name):
    build_tokenizer, limit, longest = ENCODERS[name]
    tokenizer = build_tokenizer()
    texts = {
        text: tokenize_text(tokenizer, text, limit, name)
        for text in sorted(valid_sentences, key=len)[-500:]
    }
    assert max(len(text.ids) for text in texts.values()) == longest
    assert all(
        text.rstrip().endswith(text[span["start"] : span["end"]])
        for text, tokens in texts.items()
        for span in [tokens.spans[-2]]
    )


def test_clip_refuses_a_dialogue_and_bert_reads_it_whole(dialogues):
    clip, bert = build.build_clip(), build.build_bert()
    assert len(dialogues) == 97
    for dialogue in dialogues:
        with pytest.raises(
            UserError, match=r"models.clip: \d+ tokens, at most 77 are read"
        ):
            tokenize_text(clip, dialogue, 77, "clip")
    lengths = [
        len(tokenize_text(bert, dialogue, 512, "bert").ids) for dialogue in dialogues
    ]
    assert (min(lengths), max(lengths)) == (81, 236)


def test_a_masked_model_cuts_a_text_at_its_limit_and_keeps_the_end_token(
    dialogues, tmp_path
):
    model = load("google-bert/bert-base-uncased", load_masked_model, tmp_path)
    text = " ".join(dialogues[:5])
    whole, cut = model.tokenizer(text, verbose=False)["input_ids"], model.tokenize(text)
    assert len(whole) > 512 == len(cut)
    assert cut == (*whole[:511], model.tokenizer.sep_token_id)


def test_a_language_model_gives_a_reason_for_a_text_beyond_its_limit(
    dialogues, valid_sentences, tmp_path
):
    model = load("openai-community/gpt2", load_causal_model, tmp_path / "hub")
    texts = [max(valid_sentences, key=len), dialogues[0], " ".join(dialogues[:5])]
    sentence, dialogue, long = compute_mean_log_likelihoods(
        texts, model, 4096, tmp_path / "cache", lambda _: None
    ).values()
    assert sentence.value < 0
    assert dialogue.value < 0
    assert long.value is None
    assert (
        long.error == f"{long.tokens} tokens do not fit into a window of {model.window}"
    )


@pytest.mark.families
def test_llava_next_reads_the_longest_captions_with_an_image_of_any_shape(
    valid_sentences, llava_next
):
    caption, foil = sorted(valid_sentences, key=len)[-2:]
    items = build_items(
        [{"item_id": "long", "caption": caption, "foil": foil, "image": "long.jpg"}]
    )
    (question,) = build_pairwise_questions(items, "valse", {"long": True})
    template = build_published_template("llava-mistral")
    prompt = llava_next.build_prompt(render_prompt("cot", question, template).text)
    lengths = []
    for rows, columns in GRIDS:
        picture = llava_next.prepare_image(
            Image.new("RGB", (336 * columns, 336 * rows))
        )
        lengths.append(
            len(expand_prompt(prompt, llava_next.build_layout(prompt, picture))[0])
        )
    assert max(lengths) < llava_next.window == 4096
    # a tile and its overview of 24 x 24 patches, and a line break for each row of patches of the
    # tiles
    assert lengths[GRIDS.index((2, 2))] == len(prompt.ids) - 1 + 576 + 48 * 48 + 48


@pytest.mark.families
def test_llava_next_refuses_a_prompt_that_does_not_fit_with_its_image(
    dialogues, llava_next
):
    prompt = llava_next.build_prompt("[INST] <image>\n" + " ".join(dialogues[:15]))
    assert len(prompt.ids) < llava_next.window
    with pytest.raises(
        UserError, match=r"\d+ positions with the image, at most 4096 are read"
    ):
        llava_next.build_layout(
            prompt, llava_next.prepare_image(Image.new("RGB", (672, 672)))
        )
