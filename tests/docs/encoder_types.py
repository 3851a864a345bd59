"""The table of encoder types in docs/how-to/adding-a-model.md, generated from transformers.

Run `python tests/docs/encoder_types.py` after a kind was added or transformers was updated.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import transformers
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_VISUAL_QUESTION_ANSWERING_MAPPING_NAMES,
    MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES,
    MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)

from waltz.core.errors import UserError
from waltz.models.resolve_name import (
    DECODER_CLASSES,
    TOWER_FUNCTIONS,
    detect_encoder_kind,
)

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "adding-a-model.md"
START, END = "<!-- encoder types -->", "<!-- end of encoder types -->"
NAMED_CLASSES = (
    ("xclip", "XCLIPModel"),
    ("lxmert", "LxmertForPreTraining"),
    ("lxmert", "LxmertForQuestionAnswering"),
    ("flava", "FlavaForPreTraining"),
    ("flava", "FlavaModel"),
    ("visual_bert", "VisualBertForPreTraining"),
    ("bridgetower", "BridgeTowerForImageAndTextRetrieval"),
    ("vilt", "ViltForImageAndTextRetrieval"),
    ("blip", "BlipForImageTextRetrieval"),
    ("bridgetower", "BridgeTowerForContrastiveLearning"),
    ("bridgetower", "BridgeTowerForMaskedLM"),
    ("colmodernvbert", "ColModernVBertForRetrieval"),
    ("colpali", "ColPaliForRetrieval"),
    ("colqwen2", "ColQwen2ForRetrieval"),
    ("neomme", "NeoMMEForRetrieval"),
    ("vilt", "ViltForImagesAndTextClassification"),
    ("vilt", "ViltForMaskedLM"),
    ("visual_bert", "VisualBertForMultipleChoice"),
    ("visual_bert", "VisualBertForQuestionAnswering"),
    ("visual_bert", "VisualBertForRegionToPhraseAlignment"),
    ("visual_bert", "VisualBertForVisualReasoning"),
)
"""Classes with a head over a text and an image that no auto class lists, and one of videos."""
READ_BY_HEAD = ("blip-2", "flava")
"""Types with two towers whose networks are read with a head."""
PARTS = {
    "vision-text-dual-encoder": {
        "text_config": {"model_type": "bert"},
        "vision_config": {"model_type": "vit"},
    }
}
"""Parts without which the config of a type cannot be read."""


def list_classes() -> list[tuple[str, str]]:
    """Return the types and classes of networks that relate a text to an image."""
    classes = [
        *MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES.items(),
        *MODEL_FOR_VISUAL_QUESTION_ANSWERING_MAPPING_NAMES.items(),
        *MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES.items(),
        *NAMED_CLASSES,
    ]
    return sorted({*classes, *find_two_towers()})


def find_two_towers() -> Iterator[tuple[str, str]]:
    """Yield the types and classes of `AutoModel` that encode a text, and an image, to one vector
    each; their code is read, since importing all modules takes minutes.
    """
    for file in Path(transformers.__file__).parent.glob("models/*/modeling_*.py"):
        code = file.read_text(encoding="utf-8")
        if not all(f"def {name}(" in code for name in TOWER_FUNCTIONS):
            continue
        for model_type, class_name in MODEL_MAPPING_NAMES.items():
            _, _, rest = code.partition(f"class {class_name}(")
            body = rest.partition("\nclass ")[0]
            has_towers = all(f"def {name}(" in body for name in TOWER_FUNCTIONS)
            if has_towers and model_type not in READ_BY_HEAD:
                yield model_type, class_name


def find_path(model_type: str, class_name: str) -> tuple[str, str]:
    """Return the kind that reads a class, or an empty text and the reason why none does."""
    if class_name == DECODER_CLASSES["vision"].get(model_type):
        return "`vision`", "a VL decoder"
    with tempfile.TemporaryDirectory() as folder:
        config = {"model_type": model_type, "architectures": [class_name]}
        text = json.dumps(config | PARTS.get(model_type, {}))
        (Path(folder) / "config.json").write_text(text, encoding="utf-8")
        try:
            return f"`{detect_encoder_kind(folder, '')}`", "read"
        except UserError as error:
            reason = str(error).partition("explained: ")[2].partition(";")[0]
            return "", f"refused: {reason}"


def render_table() -> Iterator[str]:
    """Yield the lines of the table as Markdown."""
    yield f"Types of transformers {transformers.__version__}:\n"
    yield "| type | class | kind | |\n|---|---|---|---|"
    for model_type, class_name in list_classes():
        kind, status = find_path(model_type, class_name)
        yield f"| `{model_type}` | `{class_name}` | {kind} | {status} |"


def replace_table(page: str) -> str:
    """Return the page with a new table between its two markers."""
    head, _, rest = page.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}\n" + "\n".join(render_table()) + f"\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(replace_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
