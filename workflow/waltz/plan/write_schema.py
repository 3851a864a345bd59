"""Write workflow/waltz/resources/study.schema.yaml anew: `python -m waltz.plan.write_schema`."""

from waltz.core.files.resources import RESOURCES
from waltz.plan.read_study import build_schema

SCHEMA = RESOURCES / "study.schema.yaml"

if __name__ == "__main__":
    SCHEMA.write_text(build_schema(), encoding="utf-8")
