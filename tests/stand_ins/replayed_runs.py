"""A decoder and its helper that answer each prompt with what was recorded, so that a recorded run
can be run again.
"""

import re
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

from stand_ins.models.scripted_decoders import START, Scripted, ScriptedNetwork
from waltz.consistency.edit_tests.edits import Edit, insert_word
from waltz.evaluation.prompting.questions import Question, list_letters
from waltz.fidelity import PUBLISHED
from waltz.foils.english.parsing import parse
from waltz.model_registry import ModelSpec
from waltz.sources.formats.cc_shap_results import (
    SUGGESTION,
    ResultItem,
    find_edited_input,
    find_inserted_word,
    find_reasoning,
    read_chain_of_thought_note,
    split_notes,
)

FAMILY = "mistral-chat"
STEPS = "Let's think step by step:"
LABELS = {"comve": 2, "esnli": 3}
FORMS = {
    "comve": re.compile(
        r'Which .*\? Sentence \(A\): "(?P<first>.*)" , Sentence \(B\): "(?P<second>.*)" \.',
        re.DOTALL,
    ),
    "esnli": re.compile(
        r'Suppose "(?P<premise>.*)"\. Can we infer that "(?P<hypothesis>.*)"\? \(A\) Yes\..*',
        re.DOTALL,
    ),
}
BIASING = (
    "ask_for_final_answer",
    "to_explain",
    "explanation",
    "input_biased",
    "generated_cot",
    "predicted_label",
)
BIASED_LABELS = ("predicted_label_biased", "predicted_label == predicted_label_biased")
MENTIONED = '"suggested" in explanation:'
UNRECORDED = "?"
FIRST_GENERATED = sys.maxunicode + 1
"""Id of the first generated text; smaller ids are characters of prompts."""


@dataclass
class RecordedReplies:
    """Replies to the prompts of one item.

    Attributes:
        labels: Label by prompt.
        texts: Generated text by prompt.
        mistake: The helper's text with a mistake, whose prompt is not recorded.
        paraphrase: The helper's paraphrase, likewise.
        edit: The counterfactual edit that changed the answer; None where none did.
        suggestion: The suggested answer, where it is recorded.
    """

    labels: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    mistake: str = ""
    paraphrase: str = ""
    edit: Edit | None = None
    suggestion: str | None = None


def build_question(item: ResultItem, form: str, wrong: str) -> Question:
    """Return the question of a recorded item, with the fields that its words are made of."""
    match = FORMS[form].fullmatch(item.fields["input"])
    assert match is not None, item.fields["input"]
    gold = str(item.fields["correct_answer"])
    labels = list_letters(LABELS[form])
    return Question(
        f"{form}:{item.number}",
        form,
        form,
        None,
        match.groupdict(),
        labels,
        (gold,),
        wrong,
    )


def collect_replies(item: ResultItem) -> RecordedReplies:
    """Return all prompts of an item with their replies."""
    fields, notes, replies = item.fields, item.notes, RecordedReplies()
    replies.labels[fields["model_input"]] = fields["model_prediction"]
    after_cot = fields["model_input_cot"]
    replies.labels[after_cot] = fields["model_prediction_cot"]
    replies.texts[after_cot[: after_cot.index(STEPS) + len(STEPS)]] = find_reasoning(
        after_cot
    )
    _add_edit(item, notes["atanasova_counterfact"], replies)
    if notes["atanasova_input_from_expl"].strip():
        names = (
            "chosen_sentence",
            "prompt_explanation",
            "explanation",
            "new_round_input",
            "new_round_label",
        )
        texts = split_notes(
            notes["atanasova_input_from_expl"], (*names, "sent0", "sent1")
        )
        replies.texts[texts["prompt_explanation"]] = texts["explanation"]
        replies.labels[texts["new_round_input"]] = texts["new_round_label"]
    if MENTIONED in notes["turpin"]:
        # neither the prompt nor the suggestion is recorded
        replies.texts[UNRECORDED] = split_notes(
            notes["turpin"].split(MENTIONED)[0], ("explanation",)
        )["explanation"]
    else:
        texts = split_notes(notes["turpin"], (*BIASING, *BIASED_LABELS))
        replies.suggestion = SUGGESTION.search(texts["to_explain"])[1]
        replies.texts[texts["to_explain"]] = texts["explanation"]
        replies.labels[texts["ask_for_final_answer"]] = texts["predicted_label_biased"]
    texts = read_chain_of_thought_note(notes["lanham_etal"])
    replies.mistake, replies.paraphrase = texts["added_mistake"], texts["praphrased"]
    ask = after_cot[
        after_cot.rindex("\n", 0, after_cot.rindex("The best answer is:")) :
    ]
    cot_prompt = after_cot[: after_cot.index(STEPS) + len(STEPS)]
    replies.labels[texts["get_final_answer(truncated_cot)"]] = texts[
        "predicted_label_early_answering"
    ]
    replies.labels[texts["filled_filler_tokens"]] = texts[
        "predicted_label_filler_tokens"
    ]
    replies.labels[f"{cot_prompt} {texts['added_mistake']}{ask}"] = texts[
        "predicted_label_mistake"
    ]
    begun = f"{cot_prompt} {texts['praphrased']}"
    if texts["new_generated_cot"].startswith(begun):
        replies.texts[begun] = texts["new_generated_cot"][len(begun) :]
    replies.labels[texts["new_generated_cot"] + ask] = texts[
        "predicted_label_paraphrasing"
    ]
    return replies


def _add_edit(item: ResultItem, note: str, replies: RecordedReplies) -> None:
    """Add the edit that changed the answer, made by our own code from the recorded word and its
    place.
    """
    texts = split_notes(note, ("prompt_explanation", "explanation"))
    if "prompt_explanation" not in texts:
        return
    prompt, words = texts["prompt_explanation"], item.fields["input"]
    edited, label = find_edited_input(item, prompt)
    inserted = find_inserted_word(words, edited)
    (doc,) = parse([words])
    edits = [insert_word(doc, place, inserted, PUBLISHED) for place in range(len(doc))]
    replies.edit = next((edit for edit in edits if edit.text == edited), None)
    replies.texts[prompt] = texts["explanation"]
    replies.labels[item.fields["model_input"].replace(words, edited)] = label


@dataclass
class Replayed(Scripted):
    """A decoder that answers with recorded replies, and lists the prompts that have none."""

    replies: RecordedReplies = field(default_factory=RecordedReplies)
    generated: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def generate(self, prompts, images, most, sampling, seeds, min_tokens=0):
        return [(self._number(self._say(prompt.text)),) for prompt in prompts]

    def decode_text(self, ids, kept_position=None):
        texts = []
        for number in ids:
            if number < FIRST_GENERATED:
                texts.append(super().decode_text([number]))
            else:
                texts.append(self.generated[number - FIRST_GENERATED])
        return "".join(texts)

    def _number(self, text):
        self.generated.append(text)
        return FIRST_GENERATED + len(self.generated) - 1

    def _say(self, prompt):
        if prompt in self.replies.texts:
            return self.replies.texts[prompt]
        if UNRECORDED in self.replies.texts and SUGGESTION.search(prompt):
            return self.replies.texts[UNRECORDED]
        self.missing.append(prompt)
        return ""


@dataclass
class ReplayedHelper(Replayed):
    """The helper, whose prompts are not recorded."""

    def _say(self, prompt):
        self.missing.append(prompt)
        return (
            self.replies.mistake
            if prompt.startswith("[INST] Here is a text: ")
            else self.replies.paraphrase
        )


def replay(
    item: ResultItem, replies: RecordedReplies
) -> tuple[Replayed, ReplayedHelper]:
    """Return a decoder and a helper that answer the prompts of one item.

    A counterfactual edit without a record leaves the answer as it is: the released code records the
    first one that changes it.
    """
    missing: list[str] = []

    def choose(prompt: str) -> dict[str, float]:
        label = replies.labels.get(prompt)
        if label is None:
            missing.append(prompt)
            label = item.fields["model_prediction"]
        return {label: 1.0}

    network = ScriptedNetwork(choose)
    network.model = SimpleNamespace(generation_config=SimpleNamespace(do_sample=False))
    spec = ModelSpec("replayed", weights="record", revision="0", family=FAMILY)
    common = {
        "spec": spec,
        "window": 100_000,
        "reads_images": False,
        "replies": replies,
    }
    return Replayed(network, missing=missing, **common), ReplayedHelper(
        network, **common
    )


assert START  # published label tokens are the second of a start token and a letter
