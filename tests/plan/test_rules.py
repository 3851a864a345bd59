"""Rules show their paths: what varies is asked by the functions of rules/common.smk, not by
functions in rules.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = sorted((ROOT / "rules").glob("*.smk"))
COMMON = ROOT / "rules" / "common.smk"
PRIVATE = re.compile(
    r"workflow\.(?!current_basedir|is_main_process|local_exec|rules|name\b)\w+|import .*PythonScript|job_rate_limiter"
)
"""Attributes of Snakemake's object that are no documented ones; waltz.snakemake_compat reads them.
"""


@pytest.mark.parametrize(
    "file", [file for file in RULES if file != COMMON], ids=lambda file: file.name
)
def test_rules_have_no_functions_of_their_own(file):
    text = file.read_text(encoding="utf-8")
    assert not re.findall(r"\blambda\b|^\s*def ", text, flags=re.M)
    assert "locate_in_package(" not in text  # instead "<package>/..."


@pytest.mark.parametrize(
    "file", [ROOT / "Snakefile", *RULES], ids=lambda file: file.name
)
def test_private_parts_of_snakemake_are_read_by_one_module(file):
    assert not PRIVATE.findall(file.read_text(encoding="utf-8"))


def test_every_question_stands_at_the_head_of_the_common_rules():
    text = COMMON.read_text(encoding="utf-8")
    head, _, body = text.partition('"""\n\nimport')
    questions = re.findall(
        r"^def (\w+)\(", body.partition("# The questions of the rules")[2], flags=re.M
    )
    inner = {"fill_in", "list_names", "count_shards", "per_attempt"}
    assert [
        name
        for name in questions
        if name not in inner and f"{name}(" not in head and name not in head
    ] == []
