"""The installed Snakemake is the one that waltz.snakemake_compat was tested with, and its texts are
read.
"""

from importlib.metadata import version
from types import SimpleNamespace

import pytest

from waltz import snakemake_compat as compat

MISSING = """Missing input files for rule fetch:
    output: results/mine/sources/raw/own/images/photos.zip
    wildcards: source=own, part=images, file=photos.zip
    affected files:
        photos.zip
        other file.zip
"""


@pytest.mark.parametrize(("package", "tested"), compat.TESTED_VERSIONS.items())
def test_the_minor_version_is_the_tested_one(package, tested):
    assert version(package).split(".")[:2] == tested.split(".")[:2]


def test_missing_files_and_what_is_fetched_from_them_are_found():
    assert compat.list_missing_files(MISSING) == ["photos.zip", "other file.zip"]
    assert compat.find_fetched_part(MISSING) == ("own", "images")
    assert compat.list_missing_files("nothing") == []
    assert compat.find_fetched_part("nothing") is None


def test_jobs_are_counted_by_rule_without_the_total():
    table = "Job stats:\n rule       count \n ----\n fetch archive     2\n all   1\n total   3\n"
    assert compat.read_job_counts(table) == {"fetch_archive": 2, "all": 1}


LOG = """Job stats:
job            count
-----------  -------
fetch              1
align              2
all                1
total              4

Execute 2 jobs...
[Fri Nov 27 23:40:59 2026]
localrule fetch:
    input: a
    jobid: 3
    reason: Missing output files: a
localrule align:
    jobid: 2
    wildcards: model=clip
[Fri Nov 27 23:41:59 2026]
Finished jobid: 3 (Rule: fetch)
1 of 4 steps (25%) done
rule align:
    jobid: 1
Error in rule align:
    message: None
    jobid: 2
"""


def test_the_jobs_of_a_run_are_read_from_its_log():
    assert compat.read_logged_jobs(LOG) == compat.LoggedJobs(4, 1, 1, ("align",))
    again = "rule align:\n    jobid: 2\n"
    # A job that failed and was started again runs.
    assert compat.read_logged_jobs(LOG + again).failed == 0
    assert compat.read_logged_jobs(LOG + again).running == ("align", "align")
    assert compat.read_logged_jobs("") == compat.LoggedJobs(0, 0, 0, ())


def test_the_error_of_a_function_of_a_rule_keeps_its_text():
    assert (
        compat.find_rule_error(["InputFunctionException:", "  UserError: name it"])
        == "name it"
    )
    assert compat.find_rule_error(["Error:", "  ValueError: no"]) is None


def test_only_a_run_of_many_jobs_starts_the_job_server(monkeypatch):
    started = []
    monkeypatch.setattr(compat, "patch_script_class", started.append)
    few = SimpleNamespace(
        dag=SimpleNamespace(needrun_jobs=lambda: iter(range(compat.LEAST_JOBS - 1)))
    )
    assert not compat.fork_scripts(few).is_set()
    assert not started
    many = SimpleNamespace(
        dag=SimpleNamespace(needrun_jobs=lambda: iter(range(compat.LEAST_JOBS)))
    )
    compat.fork_scripts(many)
    assert [script_class.__name__ for script_class in started] == ["PythonScript"]
