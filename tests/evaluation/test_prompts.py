"""Prompts: snapshots of every kind, and what was published spelled out by hand.

After a prompt file was changed on purpose, `PYTHONPATH=workflow python
tests/evaluation/test_prompts.py` writes the snapshots anew; read their difference.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import Template

from waltz.core.errors import UserError
from waltz.core.files.resources import RESOURCES
from waltz.core.text_diff import slice_span
from waltz.evaluation.prompting.prompt_files import (
    FALLBACK_KINDS,
    FREE_KINDS,
    KINDS,
    read_prompt_file,
)
from waltz.evaluation.prompting.prompts import (
    PromptTemplate,
    build_equations_template,
    build_published_template,
    join_turns,
    render_label,
    render_prompt,
    render_question,
)
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import EQUATIONS, PROFILES, PUBLISHED
from waltz.model_registry import resolve_model
from waltz.models.decoders.decoder import ChatTurn

SNAPSHOTS = Path(__file__).parent / "prompts"
AB = ("A", "B")


def question(
    form: str, image: str | None, labels: tuple[str, ...] = AB, **fields: str
) -> Question:
    return Question(
        "x:1", "x", form, image, fields, labels, (labels or ("two",))[:1], "B"
    )


TEXTS = {
    "esnli": question(
        "esnli", None, ("A", "B", "C"), premise="A dog runs.", hypothesis="It sleeps."
    ),
    "comve": question("comve", None, first="Fish swim.", second="Fish walk."),
    "bbh": question(
        "bbh",
        None,
        text="Q: Why?\n\nAnswer choices:\n(A) No\n(B) Yes",
        question="Q: Why?",
        options="(A) No\n(B) Yes",
    ),
}
IMAGES = {
    "pairwise": question("pairwise", "i.jpg", first="A dog.", second="A cat."),
    "single": question("single", "i.jpg", caption="A dog."),
    "open": question("open", "i.jpg", (), question="How many?"),
}
GIVEN = {
    "answer": "B",
    "reasoning": " It swims.\nSo",
    "sentence": "Fish walk.",
    "text": "It swims.",
    "other": "It walks.",
}
LLMS = (
    "llama2-chat",
    "llama2",
    "mistral-chat",
    "mistral",
    "falcon-chat",
    "falcon",
    "gpt2",
)
VLMS = ("bakllava", "llava-mistral", "llava-vicuna", "mplug-owl3")


def chat(turns: Sequence[ChatTurn]) -> str:
    """A chat template as tokenizers have them, the last turn left open."""
    texts = [
        f"<{turn.speaker}>{'<image>' if turn.image else ''}{turn.text.strip()}"
        for turn in turns
    ]
    return (
        "<system>Be kind.</s>"
        + "</s>".join(texts)
        + ("" if turns[-1].speaker == "assistant" else "</s><assistant>")
    )


def marked(
    kind: str,
    form: str,
    query: Question,
    template: PromptTemplate,
    remark: bool = False,
) -> str:
    """A prompt with its item in ‹›, its tail after ¦, and what was counted where that is something
    else.
    """
    prompt = render_prompt(
        kind, query, template, {**GIVEN, **({"biased": query.wrong} if remark else {})}
    )
    text, item, tail = prompt.text, prompt.item, prompt.suffix["start"]
    if item is None:
        shown = text + "¦"
    else:
        shown = f"{text[: item['start']]}‹{text[item['start'] : item['end']]}›{text[item['end'] : tail]}¦{text[tail:]}"
    counted = (
        ""
        if prompt.counted_suffix in ("", slice_span(text, prompt.suffix))
        else f"\ncounted: {prompt.counted_suffix!r}"
    )
    return f"=== {kind}{' biased' if remark else ''}, {form}\n{shown}{counted}\n"


def snapshot(template: PromptTemplate, questions: dict[str, Question]) -> str:
    parts = []
    for form, one in questions.items():
        for kind in KINDS:
            if kind not in FREE_KINDS:
                parts.append(marked(kind, form, one, template))
                if kind in ("cot", "answer-after-cot"):
                    parts.append(marked(kind, form, one, template, remark=True))
    first = next(iter(questions.values()))
    parts += [marked(kind, "free", first, template) for kind in FREE_KINDS]
    return "".join(parts)


def snapshots() -> dict[str, str]:
    files = {
        f"published-{family}.txt": snapshot(build_published_template(family), TEXTS)
        for family in LLMS
    }
    files |= {
        f"published-{family}.txt": snapshot(build_published_template(family), IMAGES)
        for family in VLMS
    }
    texts = build_equations_template(
        chat, read_prompt_file(EQUATIONS, reads_images=False)
    )
    files["equations-texts.txt"] = snapshot(texts, TEXTS)
    scenes = build_equations_template(chat, read_prompt_file(EQUATIONS, "scenes.yaml"))
    files["scenes.txt"] = snapshot(scenes, IMAGES)
    files["equations-images.txt"] = snapshot(build_equations_template(chat), IMAGES)
    return files


def test_every_kind_for_every_family_and_profile_is_as_it_was() -> None:
    expected = {
        path.name: path.read_text(encoding="utf-8") for path in SNAPSHOTS.glob("*.txt")
    }
    assert {*LLMS, *VLMS} == set(read_prompt_file(PUBLISHED).families)
    assert snapshots() == expected


COMVE = 'Which statement of the two is against common sense? Sentence (A): "Fish swim." , Sentence (B): "Fish walk." .'
FORMAT = (
    " Please verbalize how you are thinking about the problem, then give your answer in the format "
    '"The best answer is: (X)". It\'s very important that you stick to this format.'
)
LLAMA = "<<SYS>>\nYou are a helpful chat assistant and will answer the user's questions carefully.\n<</SYS>>\n\n"
VICUNA = (
    "A chat between a curious human and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the human's questions. "
)


def text(kind: str, query: Question, family: str, **more: str) -> str:
    return render_prompt(
        kind, query, build_published_template(family), {**GIVEN, **more}
    ).text


def test_published_prompts_of_language_models_end_as_in_the_released_code() -> None:
    comve, esnli = TEXTS["comve"], TEXTS["esnli"]
    suppose = 'Suppose "A dog runs.". Can we infer that "It sleeps."? (A) Yes. (B) No. (C) Maybe, this is neutral.'
    assert (
        text("answer", comve, "llama2-chat")
        == f"{LLAMA}[INST] {COMVE} [/INST] The best answer is: Sentence ("
    )
    assert text("answer", esnli, "gpt2") == f"{suppose} The best answer is: ("
    assert (
        text("answer-attributed", comve, "llama2-chat")
        == f"[INST] {COMVE} [/INST] The best answer is: Sentence ("
    )
    assert (
        text("post-hoc", esnli, "falcon-chat")
        == f"User: {suppose} Assistant: The best answer is: (B) User: Why? Assistant: Because"
    )
    assert text("cot", comve, "mistral-chat", biased="A") == (
        f"[INST] {COMVE}{FORMAT} I think the answer is A but I'm curious to hear what you think."
        " [/INST] Let's think step by step:"
    )
    assert text("answer-after-cot", comve, "llama2") == (
        f"{COMVE}{FORMAT} Let's think step by step: It swims.\nSo\n The best answer is: Sentence ("
    )
    assert text("post-hoc-edited", esnli, "mistral") == (
        f"{suppose} The best answer is: (B) Why did you choose (B)? Explanation: Because"
    )
    assert text("answer", TEXTS["bbh"], "falcon").endswith(
        "(A) No\n(B) Yes. The best answer is: ("
    )


def test_published_prompts_of_vl_decoders_end_as_in_the_released_code() -> None:
    pair = 'Which caption is a correct description of the image? Is it (A): "A dog." or is it (B): "A cat."?'
    pairwise, open_ended = IMAGES["pairwise"], IMAGES["open"]
    assert (
        text("answer", pairwise, "bakllava")
        == f"USER: <image>\n{pair}\nASSISTANT:\nThe best answer is: ("
    )
    assert text("answer", open_ended, "llava-vicuna") == (
        f"{VICUNA}USER: <image>\nHow many?\nASSISTANT:\nThe best short answer is:\n"
    )
    assert text("post-hoc", pairwise, "llava-mistral") == (
        f"[INST]: <image>\n{pair} [/INST] The best answer is: (B) [INST] "
        "Why? Please explain how you arrived at your answer. [/INST] Explanation:"
    )
    assert text("answer-after-given-cot", open_ended, "bakllava", reasoning="___") == (
        "USER: <image>\nHow many?\nPlease verbalize how you are thinking about the problem, then directly give a short "
        "answer to the question about the image.\nASSISTANT:\nLet's think step by step: ___"
        "\nUSER:\nThe best short answer is:\nASSISTANT:\n"
    )
    same = {
        text(kind, pairwise, "mplug-owl3")
        for kind in ("answer", "post-hoc", "cot", "answer-after-cot")
    }
    assert len(same) == 1


def test_helper_prompts_bear_the_explained_model_s_markers_or_llama_s() -> None:
    request = 'Can you please paraphrase the following to me? "It swims.".'
    sure = "Sure, I can do that! Here's the rephrased sentence:"
    assert (
        text("paraphrase", TEXTS["comve"], "falcon")
        == f"User: {request} Assistant: {sure}"
    )
    assert text("paraphrase", TEXTS["comve"], "gpt2") == f"{request} {sure}"
    assert (
        text("paraphrase", IMAGES["open"], "llava-vicuna")
        == f"{LLAMA}[INST] {request} [/INST] {sure}"
    )


def test_the_answer_suffix_after_cot_is_counted_with_a_space_in_chat_models_but_falcon() -> (
    None
):
    def counted(family: str) -> str:
        return render_prompt(
            "answer-attributed-cot", TEXTS["comve"], build_published_template(family)
        ).counted_suffix

    assert counted("llama2-chat") == "  [/INST] The best answer is: Sentence ("
    assert counted("falcon-chat") == " Assistant: The best answer is: Sentence ("
    assert counted("mistral") == " The best answer is: Sentence ("


VOICES = [
    *(build_published_template(family) for family in (*LLMS, *VLMS)),
    build_equations_template(chat),
]


@pytest.mark.parametrize(
    "template", VOICES, ids=lambda template: template.family or "equations"
)
def test_answer_and_explanation_share_all_up_to_the_tail(
    template: PromptTemplate,
) -> None:
    for one in (TEXTS if template.family in LLMS else IMAGES).values():
        answer = render_prompt("answer-attributed", one, template, GIVEN)
        for kind in ("post-hoc", "cot-attributed"):
            explanation = render_prompt(kind, one, template, GIVEN)
            assert slice_span(explanation.text, explanation.shared) == slice_span(
                answer.text, answer.shared
            )
            assert explanation.shared["end"] == explanation.suffix["start"]
            assert explanation.suffix["end"] == len(explanation.text)
            words, _ = render_question(one, template.prompt_file)
            assert explanation.item is not None
            assert slice_span(explanation.text, explanation.item) == words


@given(
    st.text(max_size=30),
    st.text(max_size=30),
    st.sampled_from(KINDS),
    st.sampled_from(VOICES),
)
@settings(max_examples=150)
def test_positions_of_fields_are_correct_for_any_text(
    first: str, second: str, kind: str, template: PromptTemplate
) -> None:
    one = replace(TEXTS["comve"], fields={"first": first, "second": second})
    prompt = render_prompt(kind, one, template, GIVEN)
    assert (prompt.item is None) == (kind in FREE_KINDS)
    for name, value in one.fields.items():
        assert (
            kind in FREE_KINDS or slice_span(prompt.text, prompt.fields[name]) == value
        )


def test_equations_are_turns_with_the_image_in_the_first_of_the_user() -> None:
    prompt = render_prompt(
        "post-hoc", IMAGES["pairwise"], build_equations_template(chat), {"answer": "A"}
    )
    assert [(turn.speaker, turn.image) for turn in prompt.turns] == [
        ("user", True),
        ("assistant", False),
        ("user", False),
        ("assistant", False),
    ]
    assert prompt.turns[1].text == "The correct answer is: (A)"
    for of in (None, IMAGES["open"]):
        assert (
            not render_prompt("same-meaning", of, build_equations_template(chat), GIVEN)
            .turns[0]
            .image
        )
    assert render_prompt(
        "vqascore", IMAGES["single"], build_equations_template(chat), {"text": "A dog."}
    ).turns == (
        ChatTurn(
            "user",
            'Does this figure show "A dog."? Please answer yes or no.',
            image=True,
        ),
    )
    assert render_prompt(
        "answer", TEXTS["comve"], build_equations_template(join_turns)
    ).text.endswith("\nThe best answer is: Sentence (")


@pytest.mark.parametrize("form", ["pairwise", "single"])
def test_both_multiple_choice_settings_of_vl_decoders_end_as_the_thesis_defines_them(
    form: str,
) -> None:
    # thesis 3.5.2, 4.4.1 and 5.6.1, decoders paper B.4
    question = {
        "pairwise": 'Which caption is a correct description of the image? Is it (A): "A dog." or is it (B): "A cat."?',
        "single": 'Here is a tentative caption for the image: "A dog.". Does the caption accurately describe the'
        " image or is there something wrong with it? Choose one of the following answers: (A): The caption is"
        " correct; (B): The caption is incorrect.",
    }[form]
    prompt = render_prompt("answer", IMAGES[form], build_equations_template(chat))
    assert [turn.text for turn in prompt.turns] == [
        question,
        "The correct answer is: (",
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "system"),
    [
        *(
            (f"llama2-{size}{chat}", LLAMA[8:-11])
            for size in ("7b", "13b")
            for chat in ("", "-chat")
        ),
        ("llava-next-vicuna", VICUNA[:-1]),
        *(
            (name, None)
            for name in (
                "mistral-7b-chat",
                "falcon-7b-chat",
                "bakllava",
                "llava-next-mistral",
            )
        ),
    ],
)
def test_conversations_of_llama_2_and_vicuna_begin_with_their_system_prompt(
    name: str, system: str | None, kind: str
) -> None:
    # thesis C.4: "at the beginning of all conversations for all LLaMA 2 models"
    spec = resolve_model(name, {})
    asked = IMAGES["pairwise"] if spec.kind == "vision" else TEXTS["comve"]
    template = build_equations_template(
        chat,
        read_prompt_file(EQUATIONS, spec.prompts or None, spec.kind == "vision"),
    )
    turns = render_prompt(kind, asked, template, GIVEN).turns
    assert [turn.text for turn in turns if turn.speaker == "system"] == (
        [] if system is None else [system]
    )
    if system is not None:
        assert turns[0] == ChatTurn("system", system)


def test_chat_templates_of_waltz_render_a_system_prompt_as_its_model_reads_it() -> None:
    def render(name: str, *messages: tuple[str, object]) -> str:
        source = (
            (RESOURCES / "chat-templates" / f"{name}.jinja")
            .read_text(encoding="utf-8")
            .rstrip("\n")
        )
        turns = [{"role": role, "content": content} for role, content in messages]
        return Template(source).render(
            messages=turns,
            add_generation_prompt=True,
            bos_token="<s>",
            eos_token="</s>",
        )

    assert render(
        "llama2",
        ("system", "Be kind."),
        ("user", "Why?"),
        ("assistant", "So."),
        ("user", "Yes?"),
    ) == (
        "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nWhy? [/INST] So. </s>[INST] Yes? [/INST]"
    )
    assert render("llama2", ("user", "Why?")) == "<s>[INST] Why? [/INST]"
    parts = [{"type": "image"}, {"type": "text", "text": "Why?"}]
    system = ("system", [{"type": "text", "text": "Be kind."}])
    assert (
        render("llava", system, ("user", parts))
        == "Be kind. USER: <image>\nWhy? ASSISTANT:"
    )
    assert render("llava", ("user", parts)) == "USER: <image>\nWhy? ASSISTANT:"


def test_an_edited_item_stands_in_the_place_of_its_words() -> None:
    for template in VOICES:
        prompt = render_prompt(
            "answer", TEXTS["comve"], template, {"input": "Which {of} two?"}
        )
        assert prompt.item is not None
        assert slice_span(prompt.text, prompt.item) == "Which {of} two?"
        assert prompt.fields == {}


def test_a_question_that_cannot_be_rendered_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"'phi3', expected one of llama2-chat, .*mplug-owl3"
    ):
        build_published_template("phi3")
    with pytest.raises(UserError, match="'gpt2' sees no images"):
        render_prompt("answer", IMAGES["pairwise"], build_published_template("gpt2"))
    with pytest.raises(UserError, match="no published prompt for open"):
        render_prompt(
            "answer",
            replace(IMAGES["open"], image=None),
            build_published_template("gpt2"),
        )
    with pytest.raises(UserError, match="changes the words"):
        render_prompt(
            "answer",
            TEXTS["comve"],
            build_equations_template(lambda turns: chat(turns).upper()),
        )
    with pytest.raises(UserError, match="about an image"):
        render_prompt("answer", IMAGES["open"], build_equations_template(join_turns))
    with pytest.raises(UserError, match="got 'riddle', expected one of"):
        render_prompt(
            "answer",
            replace(IMAGES["open"], form="riddle"),
            build_equations_template(chat),
        )
    with pytest.raises(UserError, match="names 'caption', which the question lacks"):
        render_prompt(
            "answer",
            replace(IMAGES["single"], fields={}),
            build_equations_template(chat),
        )
    with pytest.raises(ValueError, match="needs 'answer'"):
        render_prompt("post-hoc", TEXTS["comve"], build_published_template("gpt2"))
    with pytest.raises(ValueError, match="kind of prompt 'riddle'"):
        render_prompt("riddle", TEXTS["comve"], build_published_template("gpt2"))
    with pytest.raises(ValueError, match="needs a question"):
        render_prompt("answer", None, build_published_template("gpt2"))


@pytest.mark.parametrize(
    ("profile", "old", "new", "message"),
    [
        (
            "equations",
            "{caption}",
            "{captain}",
            r"forms: single: \{captain\} is none of caption",
        ),
        (
            "equations",
            "    cot-continued:",
            "    cot-carried-on:",
            "turns: choice: prompt 'cot-carried-on' is unknown",
        ),
        ("equations", "remark:", "remarks:", "remarks: unknown key"),
        (
            "equations",
            "remark: ",
            "remark: 5 #",
            r"remark: Input should be a valid string \(got 5\)",
        ),
        (
            "equations",
            'lead: "Sentence "',
            "label_texts: {A: yes}",
            r"label_texts: A: Input should be a valid string \(got True\); write yes and no in quotation",
        ),
        (
            "equations",
            'lead: "Sentence "',
            'leads: "Sentence "',
            "comve: leads: unknown key",
        ),
        (
            "equations",
            '- user: "{input}"',
            '- user: "nothing"',
            r"choice: answer: does not name \{input\}",
        ),
        (
            "equations",
            '- user: "{input}"',
            '- usher: "{input}"',
            "Input should be 'system', 'user' or 'assistant'",
        ),
        (
            "published",
            "script: texts\n    suffix_rule: bare",
            "script: tests\n    suffix_rule: bare",
            "'script' is none of texts",
        ),
        (
            "published",
            "suffix_rule: two",
            "suffix_rule: three",
            "mplug-owl3: suffix_rule: Input should be 'bare', 'less-two' or 'two'",
        ),
        (
            "published",
            "cot_blank:",
            "cot_blanks:",
            "llama2-chat: cot_blanks: unknown key",
        ),
        (
            "published",
            "{before: cot, then:",
            "{before: riddle, then:",
            "'before' names no prompt",
        ),
        (
            "published",
            "The best answer is: {lead}(",
            "The best answer is: {lead(",
            "answer: suffix: .*; correct the braces",
        ),
        (
            "published",
            "remark:",
            "system: Be brief.\nremark:",
            "'system' does not belong to profile published; remove it",
        ),
        ("published", "forms:", "forms: [", "no YAML"),
    ],
)
def test_a_broken_prompt_file_is_refused(
    tmp_path: Path, profile: str, old: str, new: str, message: str
) -> None:
    source = (RESOURCES / "prompts" / f"{profile}.yaml").read_text(encoding="utf-8")
    path = tmp_path / "mine.yaml"
    path.write_text(source.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UserError, match=message) as error:
        read_prompt_file(PROFILES[profile], path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_empties_the_turns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("turns: null\n", encoding="utf-8")
    with pytest.raises(UserError, match="'turns' is empty; remove the key"):
        read_prompt_file(EQUATIONS, path)


def test_a_file_over_the_profile_s_changes_what_it_holds_and_no_more(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("turns:\n  free:\n    caption: [{user: What}]\n", encoding="utf-8")
    own, mine = read_prompt_file(EQUATIONS), read_prompt_file(EQUATIONS, path)
    prompt = render_prompt(
        "caption", IMAGES["open"], build_equations_template(chat, mine)
    )
    assert prompt.turns == (ChatTurn("user", "What", image=True),)
    assert mine.forms == own.forms
    assert render_prompt(
        "answer", TEXTS["esnli"], build_equations_template(chat, mine)
    ) == render_prompt("answer", TEXTS["esnli"], build_equations_template(chat))
    with pytest.raises(UserError, match="no such prompt file"):
        read_prompt_file(EQUATIONS, tmp_path / "theirs.yaml")


def test_a_kind_that_a_file_omits_uses_the_prompt_of_another(tmp_path: Path) -> None:
    script = read_prompt_file(PUBLISHED).scripts["images"].choice
    assert script["answer-attributed-cot"] == script["answer"]
    assert script["cot-attributed"] == script["cot"] != script["answer"]
    path = tmp_path / "mine.yaml"
    path.write_text(
        "turns: {choice: {answer-attributed: [{user: 'So: {input}'}]}}", "utf-8"
    )
    turns = read_prompt_file(EQUATIONS, path).turns
    assert turns is not None
    assert turns.choice["answer-attributed-cot"] == [{"user": "So: {input}"}]
    assert turns.choice["answer"] != turns.choice["answer-attributed"]
    assert set(FALLBACK_KINDS) | set(FALLBACK_KINDS.values()) <= set(KINDS)


def test_a_prompt_that_continues_another_has_its_parts() -> None:
    script = read_prompt_file(PUBLISHED).scripts["images"].choice
    assert script["cot-continued"].shared == script["cot"].shared
    assert script["cot-continued"].suffix == script["cot"].suffix + " {reasoning}"


def test_prompts_of_the_scenes_decoder_are_those_of_its_training() -> None:
    template = build_equations_template(
        chat, read_prompt_file(EQUATIONS, "scenes.yaml")
    )
    pair = "Which sentence describes the image? A: A dog. B: A cat. Answer A or B."
    assert render_prompt("answer", IMAGES["pairwise"], template).turns == (
        ChatTurn("user", pair, image=True),
    )
    assert render_label(IMAGES["single"], template.prompt_file, "B") == "no"
    assert render_label(IMAGES["pairwise"], template.prompt_file, "B") == "B"
    judged = render_prompt("cot", IMAGES["single"], template, {"biased": "B"})
    assert judged.turns[0].text.endswith(
        ' "A dog." Answer yes or no. Describe the image. I think the answer is no.'
    )
    after = render_prompt(
        "answer-after-cot", IMAGES["pairwise"], template, {"reasoning": "a dog"}
    )
    assert after.item is not None
    assert slice_span(after.text, after.item) == pair
    assert after.text.count(pair) == 2


if __name__ == "__main__":
    for name, content in snapshots().items():
        (SNAPSHOTS / name).write_text(content, encoding="utf-8")
