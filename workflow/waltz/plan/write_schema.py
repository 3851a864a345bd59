"""JSON schema of study files; the command `python -m waltz.plan.write_schema` renews
workflow/waltz/resources/study.schema.yaml.
"""

from typing import Any

import yaml

from waltz.core.files.resources import RESOURCES
from waltz.plan.study import Study

SCHEMA = RESOURCES / "study.schema.yaml"
SCHEMA_HEADER = """\
# Generated from waltz.plan.study by `python -m waltz.plan.write_schema`; edit that module.
"""


def build_schema() -> str:
    """Return the JSON schema of study files as YAML, for editors and readers."""
    schema = _simplify(Study.model_json_schema())
    return SCHEMA_HEADER + yaml.safe_dump(
        schema, sort_keys=False, width=120, allow_unicode=True
    )


def _simplify(schema: Any) -> Any:
    """Return a JSON schema without titles, and without null for keys that a study omits instead."""
    if isinstance(schema, list):
        return [_simplify(part) for part in schema]
    if isinstance(schema, str):
        return " ".join(schema.split())
    if not isinstance(schema, dict):
        return schema
    # Titles repeat the names of keys.
    simple = {
        key: _simplify(value)
        for key, value in schema.items()
        if key not in ("title", "nullable")
    }
    is_optional = "anyOf" in simple and simple.get("default", "") is None
    if not is_optional or schema.get("nullable"):
        return simple

    # A study omits such a key instead of setting null, so readers need neither the default nor the
    # type null.
    del simple["default"]
    options = [option for option in simple["anyOf"] if option != {"type": "null"}]
    if len(options) > 1:
        return {**simple, "anyOf": options}
    del simple["anyOf"]
    return {**options[0], **simple}


if __name__ == "__main__":
    SCHEMA.write_text(build_schema(), encoding="utf-8")
