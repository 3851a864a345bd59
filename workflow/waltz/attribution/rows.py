"""Items attributed one after the other, each kept as soon as it is done."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from waltz.attribution import mm_shap
from waltz.attribution.mm_shap import Attribution, attribute, what_is_explained
from waltz.attribution.settings import Settings
from waltz.attribution.shapley.estimate import to_null
from waltz.attribution.stored_coalitions import StoredCoalitions
from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.files import result_cache
from waltz.evaluation.items import list_texts
from waltz.evaluation.metrics.scored_pairs import ALIGNMENT
from waltz.models.encoders.coalitions import Outcome
from waltz.models.encoders.encoder import Encoder
from waltz.models.regions import ImageOrRegions, label_setting, load_image_or_regions
from waltz.models.weights import compute_fingerprint
from waltz.sources.images import ImageSource, load_image

Row = dict[str, Any]


def attributed(
    encoder: Encoder,
    items: Iterable[Mapping[str, Any]],
    images: ImageSource,
    settings: Settings,
    stored: Path,
    done: Callable[[int], object],
) -> list[Row]:
    """Rows of the attribution layout: every text of every item; those whose image cannot be had have an error.

    A finished item is found again by its content, the model and the settings; the values of its coalitions are found
    again whatever the number of evaluations, so that a larger one begins where a smaller one ended.

    Args:
        encoder: A loaded encoder.
        items: Rows of the benchmark or of CV-Probes.
        images: Where their images lie.
        settings: How Shapley values are estimated.
        stored: Folder of finished work.
        done: Told 1 after each item, for a progress bar.
    """
    decisive = deciding(encoder)
    rows: list[Row] = []
    for item in items:
        rows += _item(encoder, item, images, settings, stored, decisive)
        done(1)
    return rows


def _item(
    encoder: Encoder,
    item: Mapping[str, Any],
    images: ImageSource,
    settings: Settings,
    stored: Path,
    decisive: Mapping[str, Any],
) -> list[Row]:
    said = dict(list_texts(item))
    common = [
        {
            "item_id": item["item_id"],
            "role": role,
            "profile": settings.profile,
            "setting": label_setting(encoder, ALIGNMENT),
            "image": item["image"],
            "text": text,
            "explained": what_is_explained(encoder),
        }
        for role, text in said.items()
    ]
    try:
        image = load_image_or_regions(encoder, item["image"], lambda: load_image(images, item["image"]))
        found = kept(encoder, image, list(said.values()), settings, stored, decisive)
    except UserError as error:
        return [{**row, "error": str(error)} for row in common]
    return [{**row, **fields} for row, fields in zip(common, found, strict=True)]


def deciding(encoder: Encoder) -> dict[str, Any]:
    """What decides, beside texts, image and settings, whether finished work is found again."""
    return {"model": compute_fingerprint(encoder.spec), "entry": _entry(encoder), "code": digest(mm_shap.__file__)}


def kept(
    encoder: Encoder,
    image: ImageOrRegions,
    texts: Sequence[str],
    settings: Settings,
    stored: Path,
    decisive: Mapping[str, Any],
    outcome: Outcome | None = None,
) -> list[Row]:
    """Columns of the attribution layout of each text beside one image, computed or found again.

    Args:
        encoder: A loaded encoder.
        image: An RGB image, or the regions of one.
        texts: Texts of the image.
        settings: How Shapley values are estimated.
        stored: Folder of finished work.
        decisive: `deciding`, and what else tells this work from other work.
        outcome: As of `mm_shap.attribute`.
    Raises:
        UserError: They cannot be attributed.
    """
    content = {"texts": list(texts), "image": result_cache.compute_array_key(image.tobytes(), image.size), **decisive}

    def compute() -> list[Row]:
        # Other estimators ask for other coalitions together, and what is computed together can differ in its last
        # digits.
        coalitions = StoredCoalitions(
            stored, {**content, "profile": settings.profile, "estimator": settings.estimator, "seed": settings.seed}
        )
        known = coalitions.load(len(texts))
        attributions = attribute(encoder, image, texts, settings, known, outcome)
        coalitions.save(known)
        return [_fields(attribution) for attribution in attributions]

    rows: list[Row] = result_cache.load_or_compute_json(stored, {**content, "settings": asdict(settings)}, compute)
    return rows


def _entry(encoder: Encoder) -> list[str]:
    return [encoder.spec.kind, encoder.spec.weights, encoder.spec.dtype, encoder.spec.masked_token]


def _fields(attribution: Attribution) -> Row:
    """Columns of one attribution; NaN becomes null, its reason stays."""
    return {
        "score": attribution.score,
        "tokens": list(attribution.tokens),
        "spans": [dict(span) for span in attribution.spans],
        "grid": attribution.grid,
        "phi": attribution.phi.tolist(),
        "base_value": attribution.base_value.tolist(),
        "value": attribution.value.tolist(),
        "t_shap": to_null(attribution.t_shap),
        "t_shap_se": to_null(attribution.t_shap_se),
        "reason": attribution.reason,
        "estimator": attribution.estimator,
        "asked": attribution.asked,
        "evaluated": attribution.evaluated,
        "residual": attribution.residual,
        "without_text": attribution.without_text.tolist(),
        "without_image": attribution.without_image.tolist(),
        "seed": attribution.seed,
    }


def tally(rows: Sequence[Row]) -> dict[str, int]:
    """Evaluations and failures of a data set, for its run record."""
    return {
        "evaluations_asked": sum(row.get("asked") or 0 for row in rows),
        "evaluations": sum(row.get("evaluated") or 0 for row in rows),
        "rows_with_error": sum(row.get("error") is not None for row in rows),
        "rows_without_t_shap": sum(row.get("t_shap") is None for row in rows),
    }
