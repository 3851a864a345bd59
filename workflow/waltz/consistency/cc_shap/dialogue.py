"""A decoder's answers and explanations of them, as prompts with the tokens that are explained (thesis 5.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from waltz.attribution.prompt_attribution import PromptGame, PromptSettings
from waltz.core.errors import UserError
from waltz.core.sampling import rank
from waltz.evaluation.decoder_tasks import choose_sampling
from waltz.evaluation.prompting.decoder_outputs import choose_label, decode_generation
from waltz.evaluation.prompting.prompts import PromptTemplate, RenderedPrompt, render_prompt
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import Fidelity, Profile, get_fidelity
from waltz.models.decoders.continuations import generate_texts
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt, Sampling

POST_HOC, COT = "post-hoc", "cot"
EXPLANATION_KINDS = (POST_HOC, COT)
"""Kinds of explanation: of an answer that was given, and a chain of thought before one."""
PROMPT_KINDS = {POST_HOC: ("answer-attributed", "post-hoc"), COT: ("answer-attributed-cot", "cot-attributed")}
"""Kinds of prompt for the answer and for the explanation of each kind."""
MAX_EXPLANATION_TOKENS = 100
"""Most tokens of an explanation, as published."""
MAX_ANSWER_TOKENS = 10
"""Most tokens of an open answer, as published."""
FAMILIES_WITHOUT_OFFSETS = ("llama2", "llama2-chat", "mistral", "mistral-chat", "gpt2")
"""Families whose tokenizers the released code loads without offsets, so that shap joins their tokens by spaces."""


@dataclass(frozen=True)
class Dialogue:
    """A decoder, its prompts, and how much it generates.

    Attributes:
        of_study: Whether questions are items of a study, whose draws have seeds of their own and whose answer is that
            to the prompt for a post-hoc explanation. A single question of `waltz explain` is drawn with the seed as it
            is, answered for its own kind of explanation, and an open answer is repeated without space around it.
    """

    decoder: Decoder
    template: PromptTemplate
    seed: int
    max_explanation: int = MAX_EXPLANATION_TOKENS
    max_answer: int = MAX_ANSWER_TOKENS
    of_study: bool = True

    @property
    def fidelity(self) -> Fidelity:
        """Rules of the prompts' profile."""
        return get_fidelity(self.template.prompt_file.profile)

    def draw_seed(self, question: Question, kind: str) -> int:
        """Return the seed with which a text of one kind is drawn for a question."""
        if not self.of_study:
            return self.seed
        return rank(f"{question.item_id}:cc-shap\n{kind}\n{question.role or ''}", self.seed) >> 1


@dataclass(frozen=True)
class GeneratedPairs:
    """An answer with its explanations.

    Attributes:
        answer: The label, or the open answer, as the prompt for a post-hoc explanation repeats it.
        pairs: By kind of explanation, the games of answer and explanation, or why there are none.
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

    Where the question has labels, `equations` explains the label that the model chooses; `published` explains a token
    that the model generates, while the prompt for the explanation names the chosen label. Of an open answer
    `equations` explains all tokens, `published` the first.

    Args:
        picture: Its prepared image; None for text.
        item_text: The item's text where it was edited.
    Raises:
        UserError: There is no answer, so that nothing can be explained.
    """
    fields = {} if item_text is None else {"input": item_text}
    answered_kind = POST_HOC if dialogue.of_study else kinds[0]
    answer_prompt = render_prompt(PROMPT_KINDS[answered_kind][0], question, dialogue.template, fields)
    answer, targets = _generate_answer(dialogue, question, picture, answer_prompt)
    pairs: dict[str, tuple[PromptGame, PromptGame] | UserError] = {}
    for kind in kinds:
        answer_kind, explanation_kind = PROMPT_KINDS[kind]
        answer_prompt = render_prompt(answer_kind, question, dialogue.template, fields)
        try:
            repeated = {"answer": answer} if kind == POST_HOC else {}
            explanation_prompt = render_prompt(explanation_kind, question, dialogue.template, fields | repeated)
            explanation = _generate(dialogue, question, picture, explanation_prompt, kind, dialogue.max_explanation)
        except UserError as error:
            pairs[kind] = error
            continue
        pairs[kind] = (
            PromptGame(answer_prompt.text, answer_prompt.counted_suffix, targets),
            PromptGame(explanation_prompt.text, explanation_prompt.counted_suffix, explanation),
        )
    return GeneratedPairs(answer, pairs)


def generate_targets(
    decoder: Decoder,
    prompt: Prompt,
    picture: PreparedImage | None,
    most: int,
    profile: Profile,
    sampling: Sampling | None = None,
    seed: int = 0,
) -> tuple[int, ...]:
    """Return the tokens that a model generates after a prompt, each an output to be explained.

    `equations` skips the end token. In `published` the first token never ends the text; of models that read images a
    later end token is an output too; of language models a special token at the beginning, or at the end of several, is
    cut off, as `shap.models.TextGeneration` does.

    Args:
        most: Most tokens; the released code has 1 for an answer, 100 for an explanation.
        sampling: How tokens are drawn (`decoder_tasks.choose_sampling`); None takes the likeliest.
    Returns:
        At least one token id.
    Raises:
        UserError: Nothing is left that could be explained.
    Source:
        CC-SHAP's and CC-SHAP-VLM's released scripts.
    """
    if get_fidelity(profile).keeps_end_token:
        (tokens,) = generate_texts(decoder, [prompt], [picture], most, sampling, [seed], min_tokens=1, keep_end=True)
        if not decoder.reads_images:
            tokens = _cut_special(decoder, tokens)
    else:
        (tokens,) = decoder.generate([prompt], [picture], most, sampling, [seed])
    if not tokens:
        raise UserError(
            f"models.{decoder.spec.name}: generates nothing after {prompt.text[-40:]!r}, so there is nothing to"
            " explain; change the prompt"
        )
    return tokens


def apply_family_rules(settings: PromptSettings, decoder: Decoder, template: PromptTemplate) -> PromptSettings:
    """Return settings with the rules that the released code has for the family of the prompts, if they are of one."""
    if template.family is None:
        return settings
    joins_tokens = not decoder.reads_images and template.family in FAMILIES_WITHOUT_OFFSETS
    return replace(settings, suffix_rule=template.suffix_rule, joins_tokens=joins_tokens)


def _generate_answer(
    dialogue: Dialogue, question: Question, picture: PreparedImage | None, rendered: RenderedPrompt
) -> tuple[str, tuple[int, ...]]:
    """Return the answer as text, and the tokens of it that are explained."""
    decoder, fidelity = dialogue.decoder, dialogue.fidelity
    if question.labels:
        label, token = choose_label(decoder, decoder.build_prompt(rendered.text), picture, question, dialogue.template)
        if fidelity.decoder_target == "label":
            return label, (token,)
        return label, _generate(dialogue, question, picture, rendered, "answer", 1)
    tokens = _generate(dialogue, question, picture, rendered, "answer", dialogue.max_answer)
    if dialogue.of_study:
        text = decode_generation(decoder, tokens, dialogue.max_answer, dialogue.template)
    else:
        text = decoder.decode_text(tokens).strip()
    return text, tokens[: fidelity.open_answer_targets]


def _generate(
    dialogue: Dialogue,
    question: Question,
    picture: PreparedImage | None,
    rendered: RenderedPrompt,
    kind: str,
    most: int,
) -> tuple[int, ...]:
    """Return the tokens that are generated after a prompt."""
    decoder, profile = dialogue.decoder, dialogue.fidelity.name
    prompt, seed = decoder.build_prompt(rendered.text), dialogue.draw_seed(question, kind)
    return generate_targets(decoder, prompt, picture, most, profile, choose_sampling(decoder, profile), seed)


def _cut_special(decoder: Decoder, tokens: Sequence[int]) -> tuple[int, ...]:
    """Return tokens without a special first one, and without a special last one where there are several."""
    tokenizer = decoder.tokenizer
    special_tokens = {token for token in tokenizer.special_tokens_map.values() if isinstance(token, str)}
    special = [tokenizer.convert_ids_to_tokens(token) in special_tokens for token in tokens]
    start = int(bool(special) and special[0])
    return tuple(tokens[start : len(tokens) - int(len(tokens) > 1 and special[-1])])
