"""One image with a text, or a caption and a foil, explained: the entry point of `waltz explain` and notebooks."""

from pathlib import Path

import torch
from PIL import Image

from waltz.attribution.attention_relevance import compute_clip_relevance
from waltz.attribution.mm_shap import Attribution, attribute_texts
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.shapley.estimators import ESTIMATORS
from waltz.core.devices import Device, lease_device
from waltz.core.errors import UserError
from waltz.explainer.encoder_explanation import AttributedText, Explanation
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.encoders.encoder import Encoder
from waltz.models.encoders.players import PROFILES
from waltz.models.resolve_name import resolve_encoder, suggest_name
from waltz.models.visible_image import render_encoder_view
from waltz.reporting.figures.heatmaps import Heatmap
from waltz.sources.images import ImageSource, load_image


def explain(
    model: str,
    image: str | Path | Image.Image,
    text: str,
    foil: str | None = None,
    *,
    profile: str = "published",
    estimator: str = "auto",
    evaluations: int | None = None,
    seed: int = 0,
) -> Explanation:
    """Compute the contribution of each text token and each image patch to a model's score.

    Args:
        model: A registered model, a folder in transformers format, or a hub id, `owner/name` or `owner/name@revision`.
        image: A file, or an image.
        text: The text, or the caption of a pair.
        foil: The second text of a pair.
        profile: `published` or `equations`.
        estimator: `auto`, or one of `shapley.estimators`.
        evaluations: Largest number of coalitions per text; None for the estimator's default.
        seed: Seed of the permutations, the same for each text.
    Raises:
        UserError: The model, image or settings cannot be used, or a text is longer than the model reads.
    """
    if profile not in PROFILES:
        raise UserError(f"profile {profile!r}{suggest_name(profile, PROFILES)}; there are {', '.join(PROFILES)}")
    if not 0 <= seed < 2**32:
        raise UserError(f"seed {seed}: give a number from 0 to {2**32 - 1}")
    if estimator not in ESTIMATORS:
        hint = suggest_name(estimator, ESTIMATORS)
        raise UserError(f"estimator {estimator!r}: there is none of that name{hint}; take {', '.join(ESTIMATORS)}")
    if profile == "published" and estimator not in ("auto", "permutation"):
        raise UserError(f"estimator {estimator}: profile published draws permutations; take profile equations")
    settings = AttributionSettings(profile, estimator, evaluations, seed)
    picture = image.convert("RGB") if isinstance(image, Image.Image) else read_image_file(Path(image))
    spec = resolve_encoder(model)
    with lease_device(1, torch.get_num_threads()) as device:
        encoder = _load_encoder(spec, device)
        texts = [text] if foil is None else [text, foil]
        attributions = attribute_texts(encoder, picture, texts, settings)
        parts = [
            _explain_text(encoder, picture, part, attribution, profile)
            for part, attribution in zip(texts, attributions, strict=True)
        ]
        return Explanation(
            spec, settings, render_encoder_view(encoder, picture), parts[0], parts[1] if foil is not None else None
        )


def read_image_file(path: Path) -> Image.Image:
    """Read an image file as RGB, upright.

    Raises:
        UserError: There is no such file, or it is no image that can be read.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; name an image")
    source = ImageSource(
        path.parent, {path.stem: (path.name,)}, lambda _: path.stat().st_size, lambda _: path.read_bytes()
    )
    return load_image(source, path.name)


def _load_encoder(spec: ModelSpec, device: Device) -> Encoder:
    try:
        return load_encoder(spec, device)
    except UserError:
        raise
    except Exception as error:  # transformers raises various errors for malformed checkpoints
        first_line = (str(error).strip().splitlines() or [""])[0]
        raise UserError(f"{spec.name}: cannot be loaded: {type(error).__name__}: {first_line}") from error


def _explain_text(
    encoder: Encoder, image: Image.Image, text: str, attribution: Attribution, profile: str
) -> AttributedText:
    prepared = encoder.prepare_image(image)
    tokenized = encoder.tokenize(text)
    players = PROFILES[profile](encoder, tokenized, prepared)
    relevance = None
    if encoder.spec.kind == "clip":
        clip_relevance = compute_clip_relevance(getattr(encoder, "network"), torch.tensor(tokenized.ids), prepared)  # noqa: B009
        relevance = Heatmap(clip_relevance.tokens[list(players.positions)], clip_relevance.patches)
    return AttributedText(
        text, attribution, players.cells.cpu().numpy(), _compute_probability(encoder, attribution.score), relevance
    )


def _compute_probability(encoder: Encoder, score: float) -> float | None:
    """Return the model's own probability of a match: the explained value, except for encoders of late fusion."""
    if not encoder.probability:
        return None
    return float(torch.sigmoid(torch.tensor(score, dtype=torch.float64))) if encoder.late else score
