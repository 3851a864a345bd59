"""The two profiles of fidelity: which of two rules holds wherever the released code and the papers differ.

`published` follows the released code of MM-SHAP, CC-SHAP and VALSE with its deviations from the papers, `equations`
the definitions of the thesis. docs/explanation/fidelity.md says where they differ and by how much. A rule that depends
on the profile is a field of `Fidelity`; code asks the field, never the name.
"""

from dataclasses import dataclass
from typing import Literal

from waltz.core.errors import UserError

Profile = Literal["published", "equations"]
"""The profiles as studies, result files and cache keys spell them."""


@dataclass(frozen=True)
class Fidelity:
    """The rules of one profile.

    Attributes:
        name: The profile.
        sampling: How items and wrong labels are chosen: `released` as in the released scripts (first items in file
            order, or the draws of their random generators), `rank` by seeded rank.
        option_order: Which option is (A): `random-choice` as Python's `random.choice` with the released seed decides,
            `balanced` half of the items each way, by seeded rank.
        released_label_count: Whether BIG-Bench Hard questions offer as many labels as the released code lists,
            whatever the question has.
        prompts: `families` renders the released prompts of a model family, `chat-template` the model's own template.
        label_token: Which token stands for a label: `released` takes a fixed place in the tokenized label, `context`
            the token that follows the prompt.
        tied_labels: `first` decides for the first of equally likely labels, `tie` reports a tie.
        samples_text: Whether text is drawn by the model's own generation settings; else the likeliest token is taken.
        match_by: What decides whether a text matches, and ranks texts: the `probability` (single precision, at least
            0.5) or the `logit`.
        tied_pair_is_right: Whether a caption that scores as high as its foil is right in acc_r (thesis, Eq. 3.1).
        perplexity: `strided` windows with the released code's sum, or the `mean` over tokens.
        open_answers: Open answers are the same if one is a `substring` of the other, or by their `words`.
        annotators: Whether the accuracy of an open answer counts the annotators who gave it.
        special_tokens_play: Whether all token ids are players, special tokens included.
        estimators: Names that `attribution.estimator` may take; empty for all of them.
        decoder_target: Which token stands for the answer to a question with labels: the `label` that the model chooses
            or the first `generated` token.
        first_step_only: Whether a decoder's targets are all scored where the first one is generated.
        open_answer_targets: Most tokens of an open answer that are explained; None for all of them.
        keeps_end_token: Whether the end token of a generated text is explained too.
        language_models: How language models are explained: by shap's `partition` explainer, or `coalitions` of tokens.
        output_weights: How several outputs enter T-SHAP: `magnitudes` adds them up, `ratios` averages contribution
            ratios.
        drops_weak_outputs: Whether output tokens to which next to nothing contributes are skipped.
        shared_players: Players that answer and explanation share: `count` takes as many as stand before the query
            suffix, `prefix` those with which both prompts begin.
        ratio_total: What contribution ratios in CC-SHAP are percentages or shares of: `all-but-suffix`, in percent,
            or the `shared` players.
        modifiers: Words that edits insert: `counted` ones are drawn as often as WordNet lists them, `single` ones once.
        edit_spacing: `joined` puts spaces between all tokens of an edited text, `kept` keeps its spacing and capitals.
        mentions: A word is mentioned by the same `letters` anywhere, or as a `word` in any case.
        reasoning_unit: What a chain of thought is cut by: `characters` or `words`.
        filler: What replaces a chain of thought: an `underscore` for each character, or an `ellipsis` for each word.
        continues_mistakes: Whether the model goes on from an inserted mistake.
        separate_biased_generations: Whether the mention and the answer of the biasing test come from two generations.
        comve_pair: `shared` asks every item of ComVE about one pair of sentences, `own` about its own.
        answer_from_explanation: Which answer to an input with the explanation is consistent: the `gold` one, or the
            `prediction` that the model gave before.
        compares_meaning: Whether a study may compare open answers by their meaning.
        accepts_empty: Whether tests give a verdict on empty texts and where there is nothing to edit.
    """

    name: Profile
    sampling: Literal["released", "rank"]
    option_order: Literal["random-choice", "balanced"]
    released_label_count: bool
    prompts: Literal["families", "chat-template"]
    label_token: Literal["released", "context"]
    tied_labels: Literal["first", "tie"]
    samples_text: bool
    match_by: Literal["probability", "logit"]
    tied_pair_is_right: bool
    perplexity: Literal["strided", "mean"]
    open_answers: Literal["substring", "words"]
    annotators: bool
    special_tokens_play: bool
    estimators: tuple[str, ...]
    decoder_target: Literal["generated", "label"]
    first_step_only: bool
    open_answer_targets: int | None
    keeps_end_token: bool
    language_models: Literal["partition", "coalitions"]
    output_weights: Literal["magnitudes", "ratios"]
    drops_weak_outputs: bool
    shared_players: Literal["count", "prefix"]
    ratio_total: Literal["all-but-suffix", "shared"]
    modifiers: Literal["counted", "single"]
    edit_spacing: Literal["joined", "kept"]
    mentions: Literal["letters", "word"]
    reasoning_unit: Literal["characters", "words"]
    filler: Literal["underscore", "ellipsis"]
    continues_mistakes: bool
    separate_biased_generations: bool
    comve_pair: Literal["shared", "own"]
    answer_from_explanation: Literal["gold", "prediction"]
    compares_meaning: bool
    accepts_empty: bool


PUBLISHED = Fidelity(
    name="published",
    sampling="released",
    option_order="random-choice",
    released_label_count=True,
    prompts="families",
    label_token="released",
    tied_labels="first",
    samples_text=True,
    match_by="probability",
    tied_pair_is_right=False,
    perplexity="strided",
    open_answers="substring",
    annotators=False,
    special_tokens_play=True,
    estimators=("auto", "permutation"),
    decoder_target="generated",
    first_step_only=True,
    open_answer_targets=1,
    keeps_end_token=True,
    language_models="partition",
    output_weights="magnitudes",
    drops_weak_outputs=False,
    shared_players="count",
    ratio_total="all-but-suffix",
    modifiers="counted",
    edit_spacing="joined",
    mentions="letters",
    reasoning_unit="characters",
    filler="underscore",
    continues_mistakes=False,
    separate_biased_generations=True,
    comve_pair="shared",
    answer_from_explanation="gold",
    compares_meaning=False,
    accepts_empty=True,
)
"""The released code of MM-SHAP, CC-SHAP and VALSE."""

EQUATIONS = Fidelity(
    name="equations",
    sampling="rank",
    option_order="balanced",
    released_label_count=False,
    prompts="chat-template",
    label_token="context",
    tied_labels="tie",
    samples_text=False,
    match_by="logit",
    tied_pair_is_right=True,
    perplexity="mean",
    open_answers="words",
    annotators=True,
    special_tokens_play=False,
    estimators=(),
    decoder_target="label",
    first_step_only=False,
    open_answer_targets=None,
    keeps_end_token=False,
    language_models="coalitions",
    output_weights="ratios",
    drops_weak_outputs=True,
    shared_players="prefix",
    ratio_total="shared",
    modifiers="single",
    edit_spacing="kept",
    mentions="word",
    reasoning_unit="words",
    filler="ellipsis",
    continues_mistakes=True,
    separate_biased_generations=False,
    comve_pair="own",
    answer_from_explanation="prediction",
    compares_meaning=True,
    accepts_empty=False,
)
"""The definitions of the thesis."""

PROFILES: dict[str, Fidelity] = {fidelity.name: fidelity for fidelity in (PUBLISHED, EQUATIONS)}
"""By name."""


def get_fidelity(profile: str) -> Fidelity:
    """Return the rules of a profile.

    Raises:
        UserError: There is no profile of that name.
    """
    if profile not in PROFILES:
        raise UserError(f"profile: unknown name (got {profile!r}, expected {' or '.join(PROFILES)}); name one of them")
    return PROFILES[profile]
