"""Data, splits and checkpoints of the thesis study, compared with what papers and released configurations state."""

from pathlib import Path
from urllib.parse import urldefrag

import pytest
import yaml

CONFIG = Path(__file__).parents[2] / "config"


@pytest.fixture(scope="module")
def thesis():
    return yaml.safe_load((CONFIG / "thesis.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("source", "file"), [("gqa", "val_all_questions.json"), ("gqa-balanced", "val_balanced_questions.json")]
)
def test_gqa_is_its_validation_split(thesis, source, file):
    """Thesis 4.4.1, MM-SHAP 4.1, and the released configurations of encoders and decoders."""
    files = thesis["sources"][source]["files"]
    assert {name: urldefrag(entry["url"]).fragment for name, entry in files.items()} == {"val": file}
