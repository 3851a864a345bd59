"""The container and the environment of `--sdm conda`; neither was built here, so that their text is
checked.
"""

import re
import tomllib
from pathlib import Path

from stand_ins.yaml_files import read_yaml

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_container_and_the_environment_have_one_python_that_the_package_allows():
    environment = read_yaml(ROOT / "envs/environment.yaml")
    version = re.search(r"^FROM python:([\d.]+)-slim$", DOCKERFILE, re.MULTILINE)[1]
    assert f"python={version}" in environment["dependencies"]
    assert PROJECT["requires-python"] == f">={version}"


def test_the_container_installs_declared_extras_and_starts_files_of_the_checkout():
    extras = re.search(r'-e "/opt/waltz\[([\w,]+)\]"', DOCKERFILE)[1].split(",")
    assert set(extras) <= set(PROJECT["optional-dependencies"])
    files = re.findall(r"/opt/waltz/([\w./]+)", DOCKERFILE)
    assert files
    assert all((ROOT / file).is_file() for file in files)


def test_every_script_runs_in_the_environment():
    for file in sorted((ROOT / "rules").glob("*.smk")):
        text = file.read_text()
        assert text.count("    script:\n") == text.count("    conda:\n"), file.name
