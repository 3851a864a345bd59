"""YAML files of this project, read by libyaml, which is several times faster than PyYAML's own parser."""

from pathlib import Path
from typing import Any

import yaml


def read_yaml(file: Path) -> Any:
    return yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
