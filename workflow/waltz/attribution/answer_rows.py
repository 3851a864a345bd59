"""Items whose answers by a decoder are attributed one after the other, each kept as soon as it is done."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from waltz.attribution.answers import LOG_PROBABILITY, Contributed, Said, contributed, fields, of_players
from waltz.attribution.settings import Settings
from waltz.attribution.stored_coalitions import StoredCoalitions
from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.files import result_cache
from waltz.core.sampling import rank
from waltz.evaluation.decoders import sampling_of
from waltz.evaluation.prompting.generation_cache import Load
from waltz.evaluation.prompting.image_questions import pairwise_questions, single_questions
from waltz.evaluation.prompting.label_tokens import label_of
from waltz.evaluation.prompting.prompts import Asked, Voice, render
from waltz.evaluation.prompting.questions import Question
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.decoders.generation import generate_texts
from waltz.models.decoders.outcomes import FIRST_STEP
from waltz.models.registry import select_decisive_fields
from waltz.models.weights import compute_fingerprint

Row = dict[str, Any]
KIND = "answer-attributed"
"""Kind of prompt."""


@dataclass(frozen=True)
class Answering:
    """A decoder, how it is spoken to, and how its answers are attributed.

    Attributes:
        decoder: A loaded decoder that sees.
        voice: How it is spoken to, in the profile of the settings.
        settings: How Shapley values are estimated.
        value: For `equations`, what is explained of a token: one of `outcomes.VALUES`.
        stored: Folder of finished work.
    """

    decoder: Decoder
    voice: Voice
    settings: Settings
    value: str = LOG_PROBABILITY
    stored: Path = Path(".store")

    @property
    def explained(self) -> str:
        """What is explained of a token."""
        return self.value if self.settings.profile == "equations" else FIRST_STEP


def attributed_answers(
    answering: Answering,
    items: Iterable[Mapping[str, Any]],
    dataset: str,
    orders: Mapping[str, bool],
    load: Load,
    done: Callable[[int], object],
) -> list[Row]:
    """Rows of the attribution layout of captions and foils.

    Setting `pairwise`, role `caption`, is of the answer which of both is right (T-SHAP_r); setting `single`, of the
    answers whether one text describes the image (T-SHAP_c, T-SHAP_f).

    In `equations` the label is explained that the model is taken to choose, in `published` a token that it says: drawn
    by the checkpoint's own settings of generation, label or not.

    Args:
        answering: Who answers, and how that is attributed.
        items: Rows of the benchmark layout.
        dataset: Name of the data set in the study.
        orders: Whether each item's caption is (A) in the pairwise question, by item.
        load: Opens images.
        done: Told 1 after each item, for a progress bar.
    Source:
        Thesis 4.3; CC-SHAP-VLM's released scripts (`published`).
    """
    rows: list[Row] = []
    for item in items:
        questions = [*pairwise_questions([item], dataset, orders), *single_questions([item], dataset)]
        common = [
            {
                "item_id": question.item_id,
                "role": question.role or "caption",
                "profile": answering.settings.profile,
                "setting": question.form,
                "image": question.image,
                "text": render(KIND, question, answering.voice).text,
                "explained": answering.explained,
            }
            for question in questions
        ]
        try:
            found = _item(answering, questions, load)
        except UserError as error:
            found = [{"error": str(error)}] * len(questions)
        rows += [{**row, **columns} for row, columns in zip(common, found, strict=True)]
        done(1)
    return rows


def _item(answering: Answering, questions: list[Question], load: Load) -> list[Row]:
    """Columns of each question of one item, computed or found again.

    Values of coalitions are found again whatever the number of evaluations, so that a larger one begins where a smaller
    one ended.
    """
    decoder, settings = answering.decoder, answering.settings
    image = load(str(questions[0].image))
    asked = [render(KIND, question, answering.voice) for question in questions]
    content = {
        "texts": [one.text for one in asked],
        "labels": [[question.item_id, question.role, question.labels] for question in questions],
        "image": result_cache.compute_array_key(image.tobytes(), image.size),
        "model": compute_fingerprint(decoder.spec),
        "entry": select_decisive_fields(decoder.spec),
        "device": decoder.device.partition(":")[0],
        "code": digest(__file__, type(decoder).__module__),
        "value": answering.explained,
    }

    def compute() -> list[Row]:
        picture = decoder.image(image)
        tried = [_said(answering, question, one, picture) for question, one in zip(questions, asked, strict=True)]
        said = [one for one in tried if isinstance(one, Said)]
        coalitions = StoredCoalitions(
            answering.stored,
            {**content, "profile": settings.profile, "estimator": settings.estimator, "seed": settings.seed},
        )
        known = coalitions.load(len(said))
        made = iter(contributed(decoder, picture, said, settings, answering.value, known) if said else [])
        rows = [
            _columns(decoder, one, next(made), settings.seed) if isinstance(one, Said) else {"error": one}
            for one in tried
        ]
        coalitions.save(known)
        return rows

    rows: list[Row] = result_cache.load_or_compute_json(
        answering.stored, {**content, "settings": asdict(settings)}, compute
    )
    return rows


def _said(answering: Answering, question: Question, asked: Asked, picture: PreparedImage) -> Said | str:
    """The prompt and the token that is explained, or why there is none."""
    decoder, settings = answering.decoder, answering.settings
    try:
        prompt = decoder.prompt(asked.text)
        if settings.profile == "equations":
            return Said(prompt, (label_of(decoder, prompt, picture, question, answering.voice)[1],))
        sampling = sampling_of(decoder, settings.profile)
        seed = rank(f"{question.item_id}:{question.form}:{question.role}:{KIND}", settings.seed) >> 1
        (said,) = generate_texts(decoder, [prompt], [picture], 1, sampling, [seed], least=1)
        return Said(prompt, said)
    except UserError as error:
        return str(error)


def _columns(decoder: Decoder, said: Said, found: Contributed, seed: int) -> Row:
    return {
        **fields(
            found.estimate,
            found.players.text,
            found.t_shap,
            **of_players(found.players),
            outputs=[decoder.said([token]) for token in said.targets],
            estimator=found.estimator,
            seed=seed,
        ),
        "evaluated": found.evaluated,
        "without_text": found.without_text.tolist(),
        "without_image": found.without_image.tolist(),
    }
