"""A decoder's answers and explanations, as prompts with the tokens that are explained (thesis 5.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from waltz.attribution.prompt_attribution import PromptGame, PromptSettings
from waltz.core.errors import UserError
from waltz.core.sampling import rank
from waltz.evaluation.prompting.decoded_texts import decode_generation
from waltz.evaluation.prompting.decoder_outputs import (
    choose_label,
    choose_sampling,
    select_sampling,
)
from waltz.evaluation.prompting.prompts import (
    PromptTemplate,
    RenderedPrompt,
    render_prompt,
)
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import Fidelity
from waltz.models.decoders.continuations import generate_texts
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt

POST_HOC, COT = "post-hoc", "cot"
EXPLANATION_KINDS = (POST_HOC, COT)
"""Kinds of explanation: an explanation after the answer, or a chain of thought before it."""
PROMPT_KINDS = {
    POST_HOC: ("answer-attributed", "post-hoc"),
    COT: ("answer-attributed-cot", "cot-attributed"),
}
"""Kinds of prompt for the answer and for the explanation, for each kind of explanation."""
MAX_EXPLANATION_TOKENS = 100
"""Maximum number of tokens of an explanation, as published."""
MAX_ANSWER_TOKENS = 10
"""Maximum number of tokens of an open answer, as published."""
FAMILIES_WITHOUT_OFFSETS = ("llama2", "llama2-chat", "mistral", "mistral-chat", "gpt2")
"""Families whose tokenizers the released code loads without offsets, so that shap joins their
tokens by spaces.
"""


@dataclass(frozen=True)
class Dialogue:
    """Hold a decoder, its prompts, and the maximum lengths of its texts.

    Attributes:
        max_explanation: Maximum number of tokens of an explanation.
        max_answer: Maximum number of tokens of an open answer.
        of_study: Whether questions are items of a study. For an item of a study, each text is
            sampled with a seed that depends on the item and the kind of text, and all explanations
            share the answer to the prompt for a post-hoc explanation. A single question of `waltz
            explain` is sampled with the seed itself, is answered with the prompt for its kind of
            explanation, and an open answer is repeated without the spaces around it.
        samples_explanations: Whether explanations are sampled, as in the thesis's runs, if the
            model samples; else they are sampled only if the profile samples answers, too.
    """

    decoder: Decoder
    template: PromptTemplate
    seed: int
    max_explanation: int = MAX_EXPLANATION_TOKENS
    max_answer: int = MAX_ANSWER_TOKENS
    of_study: bool = True
    samples_explanations: bool = True

    @property
    def fidelity(self) -> Fidelity:
        """Return the rules of the profile of the prompts."""
        return self.template.prompt_file.fidelity

    def draw_seed(self, question: Question, kind: str) -> int:
        """Return the seed with which a text of one kind is sampled for a question."""
        if not self.of_study:
            return self.seed
        return (
            rank(
                f"{question.item_id}:cc-shap\n{kind}\n{question.role or ''}", self.seed
            )
            >> 1
        )


@dataclass(frozen=True)
class GeneratedPairs:
    """Hold a generated answer with its explanations.

    Attributes:
        answer: The label, or the open answer that the prompt for a post-hoc explanation repeats.
        pairs: For each kind of explanation, the games of answer and explanation, or the error that
            prevented them.
    """

    answer: str
    pairs: Mapping[str, tuple[PromptGame, PromptGame] | UserError]


def generate_pairs(
    dialogue: Dialogue,
    question: Question,
    picture: PreparedImage | None,
    kinds: tuple[str, ...] = EXPLANATION_KINDS,
    item_text: str | None = None,
) -> GeneratedPairs:
    """Let a decoder answer a question and explain its answer.

    If the question has labels, `equations` explains the label that the model chooses. `published`
    explains a token that the model generates, while the prompt for the explanation names the chosen
    label. For an open answer, `equations` explains all tokens, `published` the first token.

    Args:
        picture: The prepared image of the question; None for text.
        kinds: Kinds of explanation.
        item_text: The edited text of the item; None if the item is not edited.
    Raises:
        UserError: There is no answer, so that nothing can be explained.
    """
    fields = {} if item_text is None else {"input": item_text}
    # In a study all explanations are of one answer, which the post-hoc prompt repeats.
    answered_kind = POST_HOC if dialogue.of_study else kinds[0]
    answer_prompt = render_prompt(
        PROMPT_KINDS[answered_kind][0], question, dialogue.template, fields
    )
    answer, targets = _generate_answer(dialogue, question, picture, answer_prompt)
    pairs: dict[str, tuple[PromptGame, PromptGame] | UserError] = {}
    for kind in kinds:
        # The answer's prompt differs from kind to kind, but the explained tokens are the same.
        answer_kind, explanation_kind = PROMPT_KINDS[kind]
        answer_prompt = render_prompt(answer_kind, question, dialogue.template, fields)
        explanation_fields = dict(fields)
        # A chain of thought comes before the answer, so that only a post-hoc prompt repeats the
        # answer.
        if kind == POST_HOC:
            explanation_fields["answer"] = answer
        try:
            explanation_prompt = render_prompt(
                explanation_kind, question, dialogue.template, explanation_fields
            )
            explanation = _generate(
                dialogue,
                question,
                picture,
                explanation_prompt,
                kind,
                dialogue.max_explanation,
            )
        except UserError as error:
            pairs[kind] = error
            continue
        pairs[kind] = (
            PromptGame(answer_prompt.text, answer_prompt.counted_suffix, targets),
            PromptGame(
                explanation_prompt.text, explanation_prompt.counted_suffix, explanation
            ),
        )
    return GeneratedPairs(answer, pairs)


def generate_targets(
    decoder: Decoder,
    prompt: Prompt,
    picture: PreparedImage | None,
    max_tokens: int,
    fidelity: Fidelity,
    seed: int = 0,
    greedy: bool = False,
    kind: str = "answer",
) -> tuple[int, ...]:
    """Return the tokens that a model generates after a prompt; each is an output that is explained.

    `equations` skips the end token. In `published` the first token never ends the text. For models
    that read images, a later end token is an output too. For language models, a special token at
    the beginning is cut off, and one at the end of several tokens, as in
    `shap.models.TextGeneration`.

    Args:
        max_tokens: Maximum number of tokens; the released code has 1 for an answer, 100 for an
            explanation.
        seed: Seed of the sampling, if the model samples.
        greedy: Whether the most probable tokens are taken in any profile.
        kind: Kind of the text; `equations` does not sample an `answer`.
    Returns:
        At least one token id.
    Raises:
        UserError: The model generates no token that could be explained.
    Source:
        CC-SHAP's and CC-SHAP-VLM's released scripts.
    """
    sampling = None
    if not greedy:
        sampling = select_sampling(choose_sampling(decoder), kind, fidelity)
    if fidelity.keeps_end_token:
        (tokens,) = generate_texts(
            decoder,
            [prompt],
            [picture],
            max_tokens,
            sampling,
            [seed],
            min_tokens=1,
            keep_end=True,
        )
        if not decoder.reads_images:
            tokens = _cut_special(decoder, tokens)
    else:
        (tokens,) = decoder.generate([prompt], [picture], max_tokens, sampling, [seed])
    if not tokens:
        raise UserError(
            f"models.{decoder.spec.name}: generates nothing after {prompt.text[-40:]!r}, so there is nothing to"
            " explain; change the prompt"
        )
    return tokens


def apply_family_rules(
    settings: PromptSettings, decoder: Decoder, template: PromptTemplate
) -> PromptSettings:
    """Return settings with the rules that the released code has for the family of the prompts.

    Prompts without a family leave the settings as they are.
    """
    if template.family is None:
        return settings
    joins_tokens = (
        not decoder.reads_images and template.family in FAMILIES_WITHOUT_OFFSETS
    )
    return replace(
        settings, suffix_rule=template.suffix_rule, joins_tokens=joins_tokens
    )


def _generate_answer(
    dialogue: Dialogue,
    question: Question,
    picture: PreparedImage | None,
    rendered: RenderedPrompt,
) -> tuple[str, tuple[int, ...]]:
    """Return the answer as text, and the tokens of the answer that are explained."""
    decoder, fidelity = dialogue.decoder, dialogue.fidelity
    if question.labels:
        prompt = decoder.build_prompt(rendered.text)
        label, token = choose_label(
            decoder, prompt, picture, question, dialogue.template
        )
        # `equations` explains the token of the chosen label, `published` the token that the model
        # generates.
        if fidelity.decoder_target == "label":
            return label, (token,)
        return label, _generate(dialogue, question, picture, rendered, "answer", 1)
    tokens = _generate(
        dialogue, question, picture, rendered, "answer", dialogue.max_answer
    )
    if dialogue.of_study:
        text = decode_generation(
            decoder, tokens, dialogue.max_answer, dialogue.template
        )
    else:
        text = decoder.decode_text(tokens).strip()
    return text, tokens[: fidelity.open_answer_targets]


def _generate(
    dialogue: Dialogue,
    question: Question,
    picture: PreparedImage | None,
    rendered: RenderedPrompt,
    kind: str,
    max_tokens: int,
) -> tuple[int, ...]:
    """Return the tokens that the decoder generates after a rendered prompt, with the seed of this
    kind of text.
    """
    decoder, fidelity = dialogue.decoder, dialogue.fidelity
    prompt = decoder.build_prompt(rendered.text)
    seed = dialogue.draw_seed(question, kind)
    sampled_kind = kind if dialogue.samples_explanations else "answer"
    return generate_targets(
        decoder, prompt, picture, max_tokens, fidelity, seed, kind=sampled_kind
    )


def _cut_special(decoder: Decoder, tokens: Sequence[int]) -> tuple[int, ...]:
    """Cut off a special token at the beginning, and a special token at the end of several tokens."""
    # shap compares the spelling of a token with the spellings of the tokenizer's special tokens.
    tokenizer = decoder.tokenizer
    special_tokens = {
        token
        for token in tokenizer.special_tokens_map.values()
        if isinstance(token, str)
    }
    special = [
        tokenizer.convert_ids_to_tokens(token) in special_tokens for token in tokens
    ]
    start, stop = 0, len(tokens)
    if special and special[0]:
        start = 1
    if len(tokens) > 1 and special[-1]:
        stop -= 1
    return tuple(tokens[start:stop])
