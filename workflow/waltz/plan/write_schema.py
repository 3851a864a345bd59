"""Write workflow/schemas/study.schema.yaml anew: `python -m waltz.plan.write_schema`."""

from pathlib import Path

from waltz.plan.read_study import build_schema

SCHEMA = Path(__file__).parents[2] / "schemas" / "study.schema.yaml"

if __name__ == "__main__":
    SCHEMA.write_text(build_schema(), encoding="utf-8")
