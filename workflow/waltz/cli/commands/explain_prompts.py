"""The command `waltz explain-prompts`: a decoder's answer and explanation to ready prompts."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from waltz.cli.explanations import (
    FigureOption,
    GridOption,
    ImageOption,
    InteractionsOption,
    JsonOption,
    PlayersOption,
    TokenizerOption,
    announce_packages,
    check_interactions,
    check_players,
    check_profile,
    list_figure_files,
    read_grid,
    read_text_option,
    report_options,
    show_explanation,
)
from waltz.cli.output import check_outputs
from waltz.core.errors import UserError, check_name
from waltz.core.jobs.memory import check_address_space

if TYPE_CHECKING:
    from waltz.attribution.prompt_attribution import PromptSettings

app = typer.Typer(add_completion=False, rich_markup_mode=None)
OPTION_PROFILES = {
    "max_evals": "published",
    "mask_id": "published",
    "keep_ids": "published",
    "family": "published",
    "estimator": "equations",
    "evaluations": "equations",
    "value": "equations",
}
"""Profile of each option in `ProfileOptions`."""


@dataclass(frozen=True)
class ProfileOptions:
    """Options that exist in only one profile, as the command line holds them; None if absent.

    Attributes:
        max_evals: Budgets, such as 600,700.
        mask_id: Id of a masked token.
        keep_ids: Ids that are never masked, such as 1,32000.
        family: Family of prompts whose rules hold.
        estimator: Estimator of the Shapley values.
        evaluations: Largest number of coalitions per prompt.
        value: What is explained of a token.
    """

    max_evals: str | None
    mask_id: int | None
    keep_ids: str | None
    family: str | None
    estimator: str | None
    evaluations: int | None
    value: str | None

    def check(self, profile: str) -> None:
        """Refuse options that belong to the other profile.

        Raises:
            UserError: Such an option is present.
        """
        for name, option_profile in OPTION_PROFILES.items():
            if getattr(self, name) is not None and option_profile != profile:
                raise UserError(
                    f"--{name.replace('_', '-')}: belongs to --profile {option_profile} (got {profile}); leave it out"
                )


# Typer declares options as parameters.
@app.command()
def explain_prompts_command(
    model: Annotated[
        str,
        typer.Option(
            help="Registered decoder, folder in transformers format, .gguf file, hub id[@revision], or url of a server."
        ),
    ],
    prompt_answer: Annotated[
        str,
        typer.Option(
            help="Prompt for the answer, or @FILE; <image> stands for the image."
        ),
    ],
    suffix_answer: Annotated[
        str, typer.Option(help="The end of it that asks for the answer.")
    ],
    prompt_explanation: Annotated[
        str, typer.Option(help="Prompt for the explanation, or @FILE.")
    ],
    suffix_explanation: Annotated[
        str, typer.Option(help="The end of it that asks for the explanation.")
    ],
    tokenizer: TokenizerOption = "",
    image: ImageOption = None,
    profile: Annotated[
        str, typer.Option(help="Fidelity profile: equations or published.")
    ] = "equations",
    family: Annotated[
        str | None,
        typer.Option(
            help="Family of prompts whose rules hold, such as llama2-chat (published)."
        ),
    ] = None,
    greedy_target: Annotated[
        bool,
        typer.Option(
            "--greedy-target",
            help="Explain the likeliest tokens, where the released code draws them (published).",
        ),
    ] = False,
    max_evals: Annotated[
        str | None,
        typer.Option(
            help="Most evaluations for a prompt with an image: the first of these that is large enough (published).",
            show_default="600,700,800,900",
        ),
    ] = None,
    mask_id: Annotated[
        int | None,
        typer.Option(
            help="Id of a masked token in a prompt with an image (published)."
        ),
    ] = None,
    keep_ids: Annotated[
        str | None,
        typer.Option(
            help="Ids never masked with an image, such as 1,32000 (published)."
        ),
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(help="Estimator of the Shapley values; auto chooses (equations)."),
    ] = None,
    evaluations: Annotated[
        int | None, typer.Option(help="Most coalitions per prompt (equations).", min=1)
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(
            help="What is explained of a token: probability, log-probability, logit, log-odds (equations).",
            show_default="probability",
        ),
    ] = None,
    max_new_tokens: Annotated[
        int, typer.Option(help="Most tokens of the explanation.", min=1)
    ] = 40,
    seed: Annotated[
        int, typer.Option(help="Seed of what is drawn, the same for each prompt.")
    ] = 0,
    players: PlayersOption = "token",
    grid: GridOption = None,
    interactions: InteractionsOption = False,
    as_json: JsonOption = None,
    figure: FigureOption = None,
) -> None:
    """Explain a decoder's answer and explanation to two prompts that are given as the model reads
    them.

    The profile published has the switches of the released code of CC-SHAP. A question without
    prompts of one's own is for: waltz explain.
    """
    check_address_space()
    figure_files = list_figure_files(figure)
    # Everything that needs no model is checked before torch is imported and a model is loaded.
    check_outputs(json=as_json, figure=next(iter(figure_files), None))
    check_profile(profile)
    check_interactions(interactions, profile)
    # Options of the other profile would be ignored silently.
    options = ProfileOptions(
        max_evals, mask_id, keep_ids, family, estimator, evaluations, value
    )
    options.check(profile)
    answer_text = read_text_option("prompt-answer", prompt_answer)
    explanation_text = read_text_option("prompt-explanation", prompt_explanation)
    text_players, patch_grid = check_players(players), read_grid(grid)
    # Torch and transformers take seconds to import.
    from waltz.models.resolve_name import resolve_decoder

    # Only decoders read prompts.
    spec = resolve_decoder(model, tokenizer)
    if spec is None:
        raise UserError(
            f"--model: {model} is not a decoder (expected a model that generates text); name another"
        )
    announce_packages(spec)
    settings = _build_settings(profile, seed, interactions, options)

    import torch

    from waltz.core.jobs.devices import lease_device
    from waltz.explainer.explainer import Explainer
    from waltz.explainer.queries import ReadyPrompts

    query = ReadyPrompts(
        answer_text,
        suffix_answer,
        explanation_text,
        suffix_explanation,
        greedy=greedy_target,
        family=family,
    )
    with (
        lease_device(spec.gpus, torch.get_num_threads()) as device,
        report_options(),
    ):
        result = Explainer(spec, device=device.name).explain_query(
            query,
            settings,
            image=image,
            max_new_tokens=max_new_tokens,
            players=text_players,
            grid=patch_grid,
        )
    show_explanation(result, as_json, figure_files)


def _build_settings(
    profile: str, seed: int, interactions: bool, options: ProfileOptions
) -> "PromptSettings":
    """Return the settings of the attribution; an absent option keeps the default of
    `PromptSettings`.

    Raises:
        UserError: The seed is out of range, or an option names an unknown estimator or value, or
            holds no numbers.
    """
    from waltz.attribution.prompt_attribution import PromptSettings
    from waltz.attribution.shapley.estimators import COALITION_ESTIMATORS
    from waltz.fidelity import get_fidelity
    from waltz.models.decoders.continuations import OUTCOMES

    if not 0 <= seed < 2**32:
        raise UserError(
            f"--seed: out of range (got {seed}, expected 0 to {2**32 - 1}); choose another"
        )
    # Names are checked here: the error shall name the option, not the argument.
    if options.estimator is not None:
        estimators = ("auto", *COALITION_ESTIMATORS)
        check_name("--estimator", "estimator", options.estimator, estimators)
    if options.value is not None:
        check_name("--value", "value", options.value, tuple(OUTCOMES))
    settings: dict[str, Any] = {
        "estimator": options.estimator,
        "evaluations": options.evaluations,
        "value": options.value,
        "masked_id": options.mask_id,
        "budgets": _read_numbers("max-evals", options.max_evals),
        "unmasked_ids": _read_numbers("keep-ids", options.keep_ids),
    }
    # Absent options are left out, so that the defaults of the dataclass hold.
    named_settings = {
        name: setting for name, setting in settings.items() if setting is not None
    }
    return PromptSettings(
        get_fidelity(profile), seed, interactions=interactions, **named_settings
    )


def _read_numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    """Return the numbers in an option such as 600,700; None if the option is absent."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise UserError(
            f"--{option}: no numbers (got {text!r}, expected such as 600,700); correct it"
        ) from None
