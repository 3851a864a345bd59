"""The two fidelity profiles: the rules to follow wherever the released code and the papers differ.

`published` follows the commits in `RELEASED_CODE` with their deviations from the papers,
`equations` follows the definitions of the thesis. docs/explanation/fidelity.md says where they
differ and by how much. Each rule that depends on the profile is a field of `Fidelity`; code reads
the field and never compares the name of the profile.
"""

from dataclasses import dataclass
from typing import Literal

from waltz.core.errors import UserError

Profile = Literal["published", "equations"]
"""Name of a profile, as written in studies, result files and cache keys."""


@dataclass(frozen=True)
class ReleasedCode:
    """A commit of a public repository, whose rules `published` follows.

    Attributes:
        repository: Owner and name at GitHub.
        commit: The first digits of the commit.
        date: Day of the commit.
    """

    repository: str
    commit: str
    date: str

    def __str__(self) -> str:
        """Return repository, commit and day as tables and pages show them."""
        return f"{self.repository} {self.commit} ({self.date})"


RELEASED_CODE: dict[str, ReleasedCode] = {
    "MM-SHAP": ReleasedCode("Heidelberg-NLP/MM-SHAP", "00a66bf", "2024-03-12"),
    "CC-SHAP": ReleasedCode("Heidelberg-NLP/CC-SHAP", "6918e5d", "2024-07-23"),
    "CC-SHAP-VLM": ReleasedCode("Heidelberg-NLP/CC-SHAP-VLM", "23eff14", "2025-04-04"),
    "CC-SHAP-VLM-main": ReleasedCode(
        "Heidelberg-NLP/CC-SHAP-VLM", "07f150d", "2025-04-04"
    ),
    "VALSE": ReleasedCode("Heidelberg-NLP/VALSE", "2152d90", "2024-02-15"),
    "GRUEN": ReleasedCode("WanzhengZhu/GRUEN", "61431d7", "2025-03-26"),
}
"""Commits that `published` follows: MM-SHAP for encoders, CC-SHAP for language models, CC-SHAP-VLM
for VL decoders (the branch of the LLaVA models, and main for mPLUG-Owl3), VALSE for the scores of
its pieces, GRUEN for its filter. The files of each rule are in docs/explanation/fidelity.md.
"""


def describe_rules(profile: Profile, kind: str, family: str) -> str:
    """Return in words whose rules a profile follows for a model.

    Args:
        profile: The profile.
        kind: Kind of the model in the registry: `text`, `vision`, or a kind of encoder.
        family: Family of the prompts in the registry; empty without one.
    """
    if profile == "equations":
        return "the definitions of the thesis"
    # Each kind of model has its own repository; mPLUG-Owl3 is on another branch than the LLaVA
    # models.
    code = RELEASED_CODE["MM-SHAP"]
    if kind == "text":
        code = RELEASED_CODE["CC-SHAP"]
    elif family == "mplug-owl3":
        code = RELEASED_CODE["CC-SHAP-VLM-main"]
    elif kind == "vision":
        code = RELEASED_CODE["CC-SHAP-VLM"]
    return f"the rules of {code}"


@dataclass(frozen=True)
class Fidelity:
    """Rules of one profile.

    Attributes:
        name: The profile.
        sampling: How items and wrong labels are chosen: `released` as in the released scripts
            (first items in file order, or the draws of their random generators), `rank` by seeded
            rank.
        option_order: Which option is (A): with `random-choice`, Python's `random.choice` with the
            released seed decides; with `balanced`, the caption is (A) in half of the items, chosen
            by seeded rank.
        released_label_count: Whether BIG-Bench Hard questions offer the number of labels in the
            released code, even if the question has another number.
        prompts: `families` renders the released prompts of a model family, `chat-template` the
            model's own template.
        label_token: Which token represents a label: `released` takes a fixed position in the
            tokenized label, `context` the token that follows the prompt.
        repeated_prompt: The prompt that stands before a chain of thought when a later prompt repeats
            it: `decoded`, as the tokenizer returned it together with the chain of thought, or
            `rendered`, as it was written.
        tied_labels: `first` chooses the first of equally likely labels, `tie` reports a tie.
        samples_answers: Whether open answers are sampled by a model that samples its explanations
            and chains of thought; else they are the likeliest tokens. Labels are never sampled.
        match_by: Number that ranks texts and decides whether a text matches: the `probability`
            (single precision, at least 0.5) or the `logit`.
        tied_pair_is_right: Whether a caption that scores as high as its foil is right in
            acc_r_paper (thesis, Eq. 3.1).
        valse_script: Whether LXMERT's scores of caption-foil pairs exist a second time, by the rules
            of VALSE's script (`evaluation.valse_script`), which Tables 3.4 and A.1 are compared by.
        perplexity: `strided` takes windows and sums as the released code does, `mean` takes the
            mean over tokens.
        open_answers: When two open answers are the same: one is a `substring` of the other, or
            their `words` are equal.
        annotators: Whether the accuracy of an open answer counts the annotators who gave it.
        special_tokens_play: Whether all token ids are players, special tokens included.
        estimators: Allowed values of `attribution.estimator`; empty if all are allowed.
        estimator_seed: Seed of an item's estimator: that of the `run`, or one of the `item`, which
            run, data set and item decide.
        decoder_target: Which token represents the answer to a question with labels: the `label`
            that the model chooses or the first `generated` token.
        first_step_only: Whether all targets of a decoder are scored at the position where the first
            one is generated.
        open_answer_targets: Largest number of tokens of an open answer that are explained; None for
            all tokens.
        keeps_end_token: Whether the end token of a generated text is explained as well.
        min_new_tokens: Smallest number of tokens of a generated text, before which no end token is
            generated.
        language_models: How language models are explained: by shap's `partition` explainer, or
            `coalitions` of tokens.
        output_weights: How several outputs enter T-SHAP: `magnitudes` adds their magnitudes,
            `ratios` averages their contribution ratios.
        drops_weak_outputs: Whether output tokens are skipped if next to nothing contributes to
            them.
        shared_players: Players that answer and explanation share: `count` takes as many as precede
            the query suffix, `prefix` takes the players with which both prompts begin.
        ratio_total: Total of which contribution ratios in CC-SHAP are parts: all players but the
            query suffix (`all-but-suffix`, in percent) or the `shared` players (as shares).
        modifiers: How edits draw the words that they insert: `counted` weighs a word by the number
            of times that WordNet lists it, `single` counts each word once.
        edit_spacing: `joined` puts spaces between all tokens of an edited text, `kept` keeps its
            spacing and capitals.
        mentions: When a text mentions a word: it contains the same `letters` anywhere, or the
            `word` in any case.
        suggestion_mention: When a chain of thought mentions a suggestion: it contains the `letters`
            of a list anywhere, or a `reference` to the remark or its author.
        reasoning_unit: Unit by which a chain of thought is cut: `characters` or `words`.
        filler: Replacement of a chain of thought: an `underscore` for each character, or an
            `ellipsis` for each word.
        continues_mistakes: Whether the model continues the chain of thought after an inserted
            mistake.
        separate_biased_generations: Whether the biasing test takes the mention and the answer from
            two generations.
        comve_pair: `shared` asks about the same pair of sentences in every item of ComVE, `own`
            about the pair of the item.
        answer_from_explanation: Which answer to an input with the explanation is consistent: the
            `gold` one, or the `prediction` that the model gave before.
        compares_meaning: Whether a study may compare open answers by their meaning.
        accepts_empty: Whether tests give a verdict even if a text is empty or there is nothing to
            edit.
    """

    # The order of the fields: items, prompts and answers; scores; Shapley values; self-consistency
    # tests.
    name: Profile
    sampling: Literal["released", "rank"]
    option_order: Literal["random-choice", "balanced"]
    released_label_count: bool
    prompts: Literal["families", "chat-template"]
    repeated_prompt: Literal["decoded", "rendered"]
    label_token: Literal["released", "context"]
    tied_labels: Literal["first", "tie"]
    samples_answers: bool
    match_by: Literal["probability", "logit"]
    tied_pair_is_right: bool
    valse_script: bool
    perplexity: Literal["strided", "mean"]
    open_answers: Literal["substring", "words"]
    annotators: bool
    special_tokens_play: bool
    estimators: tuple[str, ...]
    estimator_seed: Literal["run", "item"]
    decoder_target: Literal["generated", "label"]
    first_step_only: bool
    open_answer_targets: int | None
    keeps_end_token: bool
    min_new_tokens: int
    language_models: Literal["partition", "coalitions"]
    output_weights: Literal["magnitudes", "ratios"]
    drops_weak_outputs: bool
    shared_players: Literal["count", "prefix"]
    ratio_total: Literal["all-but-suffix", "shared"]
    modifiers: Literal["counted", "single"]
    edit_spacing: Literal["joined", "kept"]
    mentions: Literal["letters", "word"]
    suggestion_mention: Literal["letters", "reference"]
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
    # Items, prompts and answers.
    sampling="released",
    option_order="random-choice",
    released_label_count=True,
    prompts="families",
    repeated_prompt="decoded",
    label_token="released",
    tied_labels="first",
    samples_answers=True,
    # Scores and their metrics (VALSE).
    match_by="probability",
    tied_pair_is_right=False,
    valse_script=True,
    perplexity="strided",
    open_answers="substring",
    annotators=False,
    # Players, budgets and targets of Shapley values (MM-SHAP and CC-SHAP).
    special_tokens_play=True,
    estimators=("auto", "permutation"),
    estimator_seed="run",
    decoder_target="generated",
    first_step_only=True,
    open_answer_targets=1,
    keeps_end_token=True,
    min_new_tokens=1,
    language_models="partition",
    output_weights="magnitudes",
    drops_weak_outputs=False,
    shared_players="count",
    ratio_total="all-but-suffix",
    # Self-consistency tests.
    modifiers="counted",
    edit_spacing="joined",
    mentions="letters",
    suggestion_mention="letters",
    reasoning_unit="characters",
    filler="underscore",
    continues_mistakes=False,
    separate_biased_generations=True,
    comve_pair="shared",
    answer_from_explanation="gold",
    compares_meaning=False,
    accepts_empty=True,
)
"""Rules of `RELEASED_CODE`."""

EQUATIONS = Fidelity(
    name="equations",
    # Items, prompts and answers.
    sampling="rank",
    option_order="balanced",
    released_label_count=False,
    prompts="chat-template",
    repeated_prompt="rendered",
    label_token="context",
    tied_labels="tie",
    samples_answers=False,
    # Scores and their metrics (VALSE).
    match_by="logit",
    tied_pair_is_right=True,
    valse_script=False,
    perplexity="mean",
    open_answers="words",
    annotators=True,
    # Players, budgets and targets of Shapley values (MM-SHAP and CC-SHAP).
    special_tokens_play=False,
    estimators=(),
    estimator_seed="item",
    decoder_target="label",
    first_step_only=False,
    open_answer_targets=None,
    keeps_end_token=False,
    min_new_tokens=0,
    language_models="coalitions",
    output_weights="ratios",
    drops_weak_outputs=True,
    shared_players="prefix",
    ratio_total="shared",
    # Self-consistency tests.
    modifiers="single",
    edit_spacing="kept",
    mentions="word",
    suggestion_mention="reference",
    reasoning_unit="words",
    filler="ellipsis",
    continues_mistakes=True,
    separate_biased_generations=False,
    comve_pair="own",
    answer_from_explanation="prediction",
    compares_meaning=True,
    accepts_empty=False,
)
"""Rules of the definitions in the thesis."""

PROFILES: dict[str, Fidelity] = {
    fidelity.name: fidelity for fidelity in (PUBLISHED, EQUATIONS)
}
"""Rules of each profile by its name."""


def get_fidelity(profile: str) -> Fidelity:
    """Return the rules of a profile.

    Raises:
        UserError: No profile has this name.
    """
    # Result files of other versions may hold other names.
    if profile not in PROFILES:
        raise UserError(
            f"profile: unknown name (got {profile!r}, expected {' or '.join(PROFILES)}); name one of them"
        )
    return PROFILES[profile]
