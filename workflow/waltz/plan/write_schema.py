"""Command `python -m waltz.plan.write_schema`, which renews
workflow/waltz/resources/study.schema.yaml.
"""

from waltz.core.files.resources import RESOURCES
from waltz.plan.read_study import build_schema

SCHEMA = RESOURCES / "study.schema.yaml"

if __name__ == "__main__":
    SCHEMA.write_text(build_schema(), encoding="utf-8")
