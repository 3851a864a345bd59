"""One image with a text, or a caption and a foil, explained: what `waltz explain` and a notebook call."""

import difflib
import html
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
import transformers
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from waltz.attribution.estimators import BY_MASKS
from waltz.attribution.mm_shap import Attribution, attribute
from waltz.attribution.relevance import clip_relevance
from waltz.attribution.settings import Settings
from waltz.core.devices import lease
from waltz.core.errors import UserError
from waltz.models.encoders import load_encoder
from waltz.models.encoders.encoder import Encoder
from waltz.models.encoders.players import PROFILES
from waltz.models.registry import ModelSpec, encoder_kinds, registered
from waltz.reporting.heatmap import STRENGTH, Relevance, Sample, sample_figure
from waltz.sources.images import ImageSource, load_image

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w.-]+)?")
SIDES = ("caption", "foil")


@dataclass(frozen=True, eq=False)
class Explained:
    """One text of an explanation.

    Attributes:
        text: The text.
        attribution: Its Shapley values.
        cells: Number of the patch that each pixel lies in, as `Players.cells`.
        probability: The model's own probability of a match, or None where it has none.
        relevance: Attention relevance, for CLIP.
    """

    text: str
    attribution: Attribution
    cells: np.ndarray
    probability: float | None
    relevance: Relevance | None


@dataclass(frozen=True, eq=False)
class Explanation:
    """An image with its caption, and its foil where there is one.

    Attributes:
        model: What was asked, with its revision.
        settings: How values were estimated.
        image: What the model sees: RGB in [0, 1], of shape (height, width, 3).
        caption: The text.
        foil: The other text, if any.
    """

    model: ModelSpec
    settings: Settings
    image: np.ndarray
    caption: Explained
    foil: Explained | None

    @property
    def attributions(self) -> list[Attribution]:
        """Of the caption, then of the foil."""
        return [part.attribution for part in self._parts()]

    def record(self) -> dict[str, Any]:
        """What `--json` writes; `docs/explain.md` lists the fields. Plain values, None for what is not a number."""
        common = {"model": self.model.name, "revision": self.model.revision, "profile": self.settings.profile}
        foil = {"foil": _record(self.foil)} if self.foil else {}
        return {**common, **_record(self.caption), **foil}

    def figure(self) -> Figure:
        """The sample's figure: caption beside foil, values as they are and renormalised per modality."""
        samples = []
        for heading, part in zip(SIDES, self._parts(), strict=False):
            found = part.attribution
            samples.append(
                Sample(
                    heading=heading if self.foil else "text",
                    text=part.text,
                    tokens=found.tokens,
                    spans=found.spans,
                    cells=part.cells,
                    phi=found.phi[:, 0],
                    score=found.score,
                    t_shap=found.t_shap,
                    t_shap_se=found.t_shap_se,
                    relevance=part.relevance,
                )
            )
        name = Path(self.model.name).name if self.model.revision == "local" else self.model.name
        return sample_figure(self.image, samples, f"{name}, {self.settings.profile}")

    def _parts(self) -> list[Explained]:
        return [self.caption, self.foil] if self.foil else [self.caption]

    def _repr_html_(self) -> str:
        """Texts with coloured tokens, for a notebook."""
        peak = max(float(np.nan_to_num(np.abs(found.phi)).max(initial=0)) for found in self.attributions)
        lines = []
        for part in self._parts():
            found = part.attribution
            tokens = "".join(
                _coloured(token, value, peak) for token, value in zip(found.tokens, found.phi[:, 0], strict=False)
            )
            lines.append(f"<p>score {found.score:.3g}, T-SHAP {100 * found.t_shap:.1f} %<br>{tokens}</p>")
        return "".join(lines)


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
    """What each text token and each image patch contributes to a model's score.

    Args:
        model: A registered model, a folder in transformers format, or a hub id, `owner/name` or `owner/name@revision`.
        image: A file, or an image.
        text: The text, or the caption of a pair.
        foil: The other text of a pair.
        profile: `published` or `equations`.
        estimator: `auto`, or one of `attribution.estimators`.
        evaluations: Most coalitions a text; None for the estimator's own number.
        seed: Seed of what is drawn, the same for each text.
    Raises:
        UserError: The model, image or settings cannot be used, or a text is longer than the model reads.
    """
    if profile not in PROFILES:
        raise UserError(f"profile {profile!r}{nearest(profile, list(PROFILES))}; there are {', '.join(PROFILES)}")
    if not 0 <= seed < 2**32:
        raise UserError(f"seed {seed}: give a number from 0 to {2**32 - 1}")
    if estimator not in ("auto", *BY_MASKS):
        hint = nearest(estimator, list(BY_MASKS))
        raise UserError(f"estimator {estimator!r}: there is none of that name{hint}; take auto, {', '.join(BY_MASKS)}")
    if profile == "published" and estimator not in ("auto", "permutation"):
        raise UserError(f"estimator {estimator}: profile published draws permutations; take profile equations")
    settings = Settings(profile, estimator, evaluations, seed)
    picture = image.convert("RGB") if isinstance(image, Image.Image) else image_file(Path(image))
    spec = model_named(model)
    with lease(1, torch.get_num_threads()) as device:
        encoder = _loaded(spec, device)
        texts = [text] if foil is None else [text, foil]
        found = attribute(encoder, picture, texts, settings)
        parts = [_explained(encoder, picture, one, made, profile) for one, made in zip(texts, found, strict=True)]
        return Explanation(spec, settings, pixels(encoder, picture), parts[0], parts[1] if foil is not None else None)


def model_named(name: str) -> ModelSpec:
    """An encoder by its registered name, folder or hub id.

    Raises:
        UserError: There is none of that name, or it is no alignment encoder.
    """
    known = {spec.name: spec for spec in registered().values() if spec.kind in encoder_kinds()}
    if name in known:
        return known[name]
    if name in registered():
        raise UserError(
            f"{name}: is of kind {registered()[name].kind}, no alignment encoder; name one, such as {min(known)}"
        )
    folder = Path(name).expanduser()
    if folder.is_dir():
        weights, revision = str(folder), "local"
    elif HUB_ID.fullmatch(name) and not name.startswith("."):
        weights, _, revision = name.partition("@")
    else:
        raise UserError(
            f"{name}: no registered encoder{nearest(name, list(known))}, folder or hub id; see `waltz models`"
        )
    try:
        config = transformers.AutoConfig.from_pretrained(
            weights, revision=None if revision == "local" else revision or None
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(weights)
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(
            f"{name}: no registered encoder{nearest(name, list(known))}, and cannot be had: {first}"
        ) from None
    kind = config.model_type.replace("_", "-")
    if kind not in encoder_kinds():
        raise UserError(
            f"{name}: is a {config.model_type}, which is no kind of encoder here; kinds: {', '.join(encoder_kinds())}"
        )
    revision = revision if revision == "local" else config._commit_hash or revision or "main"
    return ModelSpec(name, kind, weights, revision, masked_token=_stand_in(tokenizer))


def image_file(path: Path) -> Image.Image:
    """An image file as RGB, upright.

    Raises:
        UserError: There is no such file, or it is no image that can be read.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; name an image")
    alone = ImageSource(
        path.parent, {path.stem: (path.name,)}, lambda _: path.stat().st_size, lambda _: path.read_bytes()
    )
    return load_image(alone, path.name)


def pixels(encoder: Encoder, image: Image.Image) -> np.ndarray:
    """What an encoder sees of an image, before its normalisation: RGB in [0, 1], of shape (height, width, 3).

    Black and white, prepared in the same way, tell what the normalisation is.
    """
    black, white = (encoder.image(Image.new("RGB", image.size, colour)).float() for colour in ("black", "white"))
    span = torch.where(white == black, 1, white - black)
    seen: np.ndarray = ((encoder.image(image).float() - black) / span).clamp(0, 1).permute(1, 2, 0).cpu().numpy()
    return seen


def nearest(given: str, known: list[str]) -> str:
    """A hint at the closest known name, or nothing."""
    close = difflib.get_close_matches(given, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close and close[0] != given else ""


def _loaded(spec: ModelSpec, device: Any) -> Encoder:
    try:
        return load_encoder(spec, device)
    except UserError:
        raise
    except Exception as error:  # a folder of somebody else's: whatever its files make transformers raise
        first = (str(error).strip().splitlines() or [""])[0]
        raise UserError(f"{spec.name}: cannot be loaded: {type(error).__name__}: {first}") from error


def _explained(encoder: Encoder, image: Image.Image, text: str, found: Attribution, profile: str) -> Explained:
    prepared = encoder.image(image)
    read = encoder.text(text)
    players = PROFILES[profile](encoder, read, prepared)
    relevance = None
    if encoder.spec.kind == "clip":
        seen = clip_relevance(getattr(encoder, "network"), torch.tensor(read.ids), prepared)  # noqa: B009
        relevance = Relevance(seen.tokens[list(players.positions)], seen.patches)
    return Explained(text, found, players.cells.cpu().numpy(), _probability(encoder, found.score), relevance)


def _probability(encoder: Encoder, score: float) -> float | None:
    """The model's own probability of a match: what is explained itself, but for encoders of late fusion."""
    if not encoder.probability:
        return None
    return float(torch.sigmoid(torch.tensor(score, dtype=torch.float64))) if encoder.late else score


def _stand_in(tokenizer: Any) -> str:
    """The token that stands for a masked one in the `equations` profile of a model that nobody registered.

    Empty where the tokenizer has a mask token. CLIP's has none, and its unknown token is its end token: there the token
    of id 0, which the published code takes too, or of id 1 where that is the end token.
    """
    if tokenizer.mask_token or (tokenizer.unk_token and tokenizer.unk_token_id != tokenizer.eos_token_id):
        return ""
    return str(tokenizer.convert_ids_to_tokens(1 if tokenizer.eos_token_id == 0 else 0))


def _record(part: Explained) -> dict[str, Any]:
    found = part.attribution
    words = len(found.tokens)
    said = [
        part.text[span["start"] : span["end"]] or token for token, span in zip(found.tokens, found.spans, strict=True)
    ]
    places = [f"patch {row},{column}" for row in range(found.grid) for column in range(found.grid)]
    values = found.phi[:, 0]
    reason = found.reason
    if not all(map(math.isfinite, (found.score, *values))):
        reason = "the model's score is not finite"
    return {
        "text": part.text,
        "estimator": found.estimator,
        "score": _finite(found.score),
        "probability": None if part.probability is None else _finite(part.probability),
        "t_shap": _finite(found.t_shap),
        "t_shap_se": _finite(found.t_shap_se),
        "reason": reason,
        "players": [
            {"text": shown, "modality": "text" if place < words else "image", "phi": _finite(values[place])}
            for place, shown in enumerate([*said, *places])
        ],
        "evaluations": found.asked,
        "evaluated": found.evaluated,
        "base_value": _finite(found.base_value[0]),
        "value": _finite(found.value[0]),
        "residual": _finite(found.residual),
        "seed": found.seed,
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _coloured(token: str, value: float, peak: float) -> str:
    strong = 0.0 if math.isnan(value) or not peak else value / peak
    face = to_hex(matplotlib.colormaps["RdBu"](0.5 + STRENGTH * strong))
    look = f"background:{face};color:#000;padding:1px 4px;margin:1px;display:inline-block"
    return f'<span style="{look}">{html.escape(token)} <small>{value:+.2g}</small></span>'
