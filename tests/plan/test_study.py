import copy
import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from snakemake.utils import update_config

from stand_ins.yaml_files import read_yaml
from waltz.core.downloads.transfer import find_local_copy
from waltz.core.errors import UserError, shorten_value
from waltz.core.files import bounded_yaml
from waltz.core.redaction import name_url, redact_urls
from waltz.plan.build_plan import build_plan
from waltz.plan.raw_files import RawFiles, find_owners, get_stored_name
from waltz.plan.read_study import (
    find_study_files,
    load_yaml,
    read_study,
    read_study_files,
)
from waltz.plan.skipped import find_skipped, remove_skipped
from waltz.plan.study import File
from waltz.plan.write_schema import SCHEMA, build_schema

ROOT = Path(__file__).parents[2]
STUDIES = sorted((ROOT / "config").glob("*.yaml"))


def load_study(name):
    """The keys of a study over those that it extends, as Snakemake merges them."""
    config = {}
    for file in find_study_files({"study": name}, [], ROOT / "config"):
        update_config(config, read_yaml(file))
    return config


def remove_nulls(keys):
    """Return keys without those that are null, which a study that extends another one leaves out of
    it.
    """
    if not isinstance(keys, dict):
        return keys
    return {
        key: remove_nulls(value) for key, value in keys.items() if value is not None
    }


@pytest.fixture
def study():
    return read_yaml(ROOT / "config" / "valse.yaml")


def name_urls(value, key=""):
    """Return a part of a study with its urls as dumps show them."""
    if isinstance(value, dict):
        return {name: name_urls(entry, name) for name, entry in value.items()}
    if isinstance(value, list):
        return [name_urls(entry) for entry in value]
    return name_url(value) if key == "url" else value


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_every_study_is_valid_and_bears_its_files_name(file):
    config = load_study(file.stem)
    study = read_study(config)
    assert study.study == file.stem
    assert remove_nulls(study.to_dict()) == name_urls(remove_nulls(config))


def test_files_are_merged_as_snakemake_merges_them(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "study: mine\nextends: scenes-large\nreporting: {tables: [thesis-3.4]}\nscenes: {count: 50}\n"
    )
    expected = load_study("scenes-large")
    update_config(expected, yaml.safe_load(mine.read_text()))
    assert read_study_files([mine], ROOT / "config").to_dict() == expected
    large = ROOT / "config" / "scenes-large.yaml"
    assert read_study_files([large], ROOT / "config").to_dict() == load_study(
        "scenes-large"
    )


def test_a_null_removes_a_key_of_the_study_that_is_extended(tmp_path):
    mine = tmp_path / "mine.yaml"
    changes = (
        "benchmark: {audit: null}",
        "consistency: null",
        "attribution: {sample: null, companions: null}",
    )
    mine.write_text("\n".join(["study: mine", "extends: scenes", *changes]))
    study = read_study_files([mine], ROOT / "config")
    assert (study.benchmark.audit, study.benchmark.oracle) == (None, True)
    assert study.consistency.models == []
    assert (study.attribution.sample, study.attribution.companions) == (None, None)


def _set(config, path, value):
    changed = copy.deepcopy(config)
    *parents, last = path.split(".")
    place = changed
    for part in parents:
        place = place[part]
    place[last] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (
            "benchmark.valid_vote",
            2,
            r"benchmark: unknown key 'valid_vote' \(did you mean 'valid_votes'\?\)",
        ),
        (
            "modells",
            {},
            r"top level: unknown key 'modells' \(did you mean 'models'\?\)",
        ),
        (
            "sources.valse.files.existence.sha265",
            "0",
            r"unknown key 'sha265' \(did you mean 'sha256'\?\)",
        ),
        (
            "sources.valse.format",
            "valse",
            "sources.valse.format: unknown value 'valse' .did you mean 'valse-release'",
        ),
        ("seed", "7", r"seed: wrong value \(got '7', expected a valid integer\)"),
        (
            "seed",
            2**32,
            r"seed: wrong value \(got 4294967296, expected less than or equal to 4294967295\)",
        ),
        ("study", "valse\n", "study: wrong value"),
        (
            "study",
            "v" * 300,
            r"study: wrong value \(got 'v{79}…, expected at most 100 characters\)",
        ),
        (
            "reporting.resamples",
            10**9,
            r"reporting.resamples: wrong value .*less than or equal to 100000",
        ),
        (
            "groups",
            {1: ["existence"]},
            r"groups: wrong value \(got 1, expected a text\): YAML takes this for a number",
        ),
        (
            "groups",
            {True: ["existence"]},
            r"groups: .*got True.* reads on, off, yes and no; put quotes around it",
        ),
        ("study", False, r"study: .*got False.* put quotes around it"),
        ("groups", {None: ["existence"]}, "null, ~ and nothing; put quotes around it"),
        ("lock", "$NO_SUCH_VARIABLE/x", "lock: .*variable NO_SUCH_VARIABLE is not set"),
        ("weights", "x{y}", "weights: a path with braces .* rename the file"),
        ("export", {"url": "javascript:alert(1)"}, r"export.url: wrong value"),
        (
            "export",
            {"published": "2020-99-99"},
            r"export.published: .*month must be in 1..12",
        ),
        ("export", {"version": "1.0.0\nx"}, r"export.version: wrong value"),
        ("export", {"creators": ["a\nb"]}, r"export.creators.*: wrong value"),
        (
            "evaluation.sample",
            0,
            r"evaluation.sample: wrong value \(got 0, expected greater than or equal to 1\)",
        ),
        (
            "groups.valse",
            ["existense"],
            r"groups.valse: nothing is called 'existense' \(did you mean 'existence'\?\)",
        ),
        (
            "evaluation.groups",
            ["vals"],
            r"evaluation.groups: nothing is called 'vals' \(did you mean 'valse'\?\)",
        ),
        (
            "groups.twice",
            ["existence"],
            "groups.twice: 'existence' stands in groups.valse as well",
        ),
        (
            "alignment",
            {"existence": {"source": "coco", "size": 3}},
            "alignment.existence: another data set has this name; rename it",
        ),
        (
            "alignment",
            {"pairs": {"source": "valse", "size": 3}},
            "alignment.pairs.source: valse is in format valse-release, .* coco-captions or captions or vqa or gqa",
        ),
        (
            "evaluation.models",
            ["gpt9"],
            "evaluation.models: nothing is called 'gpt9'; there are smollm2-135m-instruct",
        ),
        (
            "reporting.pronouns",
            ["coref"],
            "reporting.pronouns: nothing is called 'coref'",
        ),
    ],
)
def test_a_fault_names_its_key_and_the_nearest(study, path, value, fault):
    with pytest.raises(UserError, match=fault):
        read_study(_set(study, path, value))


def test_a_missing_key_is_named(study):
    del study["evaluation"]["models"]
    with pytest.raises(UserError, match=r"evaluation\.models is missing"):
        read_study(study)


def test_all_missing_keys_are_named_at_once(study):
    study = {key: study[key] for key in ("study", "sources", "models")}
    study["instruments"] = {
        "plurality": {"source": "valse"},
        "relations": {"source": "valse", "filters": ["ranking"]},
    }
    with pytest.raises(UserError) as raised:
        read_study(study)
    message = str(raised.value)
    assert message.startswith(
        "study file: 9 keys are missing: seed, profiles, reporting.tables, reporting.resamples,"
    )
    assert (
        "reporting.confidence, instruments.plurality.filters, evaluation" not in message
    )
    for key in (
        "instruments.plurality.filters",
        "benchmark (data sets",
        "proposals (instr",
        "filters (instruments.rel",
    ):
        assert key in message


def test_a_study_with_all_keys_that_are_named_is_read(study):
    named = {"seed": 1, "profiles": ["equations"], "benchmark": {"valid_votes": 1}}
    named["reporting"] = {"tables": [], "resamples": 100, "confidence": 0.9}
    read_study({"study": "own", "sources": study["sources"], **named})


def test_a_suggestion_stands_in_the_place_of_a_long_list(study):
    with pytest.raises(UserError, match="modells") as raised:
        read_study(study | {"modells": {}})
    assert (
        str(raised.value)
        == "study file: top level: unknown key 'modells' (did you mean 'models'?)"
    )
    with pytest.raises(UserError, match="qqqq") as raised:
        read_study(study | {"qqqq": {}})
    assert re.search(r"there are study, extends, .* and \d+ more$", str(raised.value))


def test_a_url_needs_a_checksum_and_a_path_does_not(study):
    file = study["sources"]["valse"]["files"]["existence"]
    read_study(_set(study, "sources.valse.files.existence", {"path": "a.json"}))
    del file["sha256"]
    with pytest.raises(
        UserError, match=r"sources\.valse\.files\.existence: sha256 is missing"
    ):
        read_study(study)


def test_two_sources_cannot_build_one_data_set(study):
    study["sources"]["mine"] = {
        "format": "pairs",
        "files": {"existence": {"path": "a.csv"}},
    }
    with pytest.raises(
        UserError, match=r"sources\.mine\.files: 'existence' is built by valse as well"
    ):
        read_study(study)


@pytest.mark.parametrize(
    ("config", "given", "names"),
    [
        ({}, [], ["scenes"]),
        ({"study": "valse"}, [], ["valse"]),
        ({"study": "scenes-large"}, [], ["scenes", "scenes-large"]),
        ({"study": "mine"}, ["mine.yaml"], []),
        (
            {"study": "mine", "extends": "scenes-large"},
            ["mine.yaml"],
            ["scenes", "scenes-large"],
        ),
    ],
)
def test_which_files_are_loaded(config, given, names):
    assert [
        path.stem for path in find_study_files(config, given, ROOT / "config")
    ] == names


def test_an_empty_name_of_a_study_is_refused():
    with pytest.raises(
        UserError, match=r"--config: study has no name; run: .* study=scenes"
    ):
        find_study_files({"study": None}, [], ROOT / "config")


def test_a_study_that_extends_another_needs_its_own_name():
    with pytest.raises(UserError, match="study is missing"):
        find_study_files({"extends": "scenes"}, ["mine.yaml"], ROOT / "config")


@pytest.mark.parametrize(
    ("study", "message"),
    [
        (
            {"sources": {}},
            r"sources: wrong value \(got \{\}, expected at least 1 item,",
        ),
        ({"seed": "x", "reporting": {}}, "reporting: required key 'tables' is missing"),
    ],
)
def test_a_missing_key_next_to_another_fault_is_told_in_words(study, message):
    with pytest.raises(UserError, match=message):
        read_study({"study": "mine", **study})


def test_a_misspelled_base_is_named_with_the_nearest():
    with pytest.raises(
        UserError, match=r"study 'scnes' .*did you mean 'scenes'.*; set extends: scenes"
    ):
        find_study_files(
            {"study": "mine", "extends": "scnes"}, ["mine.yaml"], ROOT / "config"
        )


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]\n"
    for number in range(1, 10)
)
"""A file of half a kilobyte whose aliases stand for 10 to the power of 9 values."""
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{number}: &a{number} {{<<: [{', '.join([f'*a{number - 1}'] * 9)}]}}\n"
    for number in range(1, 10)
)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            "seed: 1\nstudy: a\nseed: 2\n",
            r"is not YAML \(key 'seed' stands twice, in lines 1 and 3\); correct it",
        ),
        ("a:\n  - {b: 1, b: 2}\n", r"key 'b' stands twice, in lines 2 and 2"),
        ("groups: &x {a: *x}\n", "values are nested too deeply, or in themselves"),
        (f"a: {'[' * 1000}{']' * 1000}\n", "values are nested too deeply"),
        (LAUGHS, "aliases stand for more than 100000 values"),
        (MERGES, "aliases stand for more than 100000 values"),
        (
            "seed: 1:30\n",
            r"line 1: 1:30 is a number in base 60; write it in quotation marks",
        ),
        ("seed: 1:30.5\n", r"1:30.5 is a number in base 60"),
        ("seed: 010\n", r"line 1: 010 is a number in base 8; write it in quotation"),
        (
            f"seed: {'1' * 5000}\n",
            r"line 1: a number of 5000 digits \(expected 4000 or fewer\)",
        ),
        ("a: 2024-13-01\n", r"a value cannot be read \(month must be in 1..12\)"),
        ("a: !!int []\n", "is not YAML"),
        ("a: {[b]: 1}\n", "is not YAML"),
        (
            "a: {path: ${D}/b.csv}\n",
            r"write a value with \$\{NAME\} in quotation marks",
        ),
        ("a: !!binary caf\xe9\n", "is not YAML"),
        (
            "seed: 1 # caf\xe9\n".encode("latin-1"),
            r"not UTF-8 at byte 13; save the file as UTF-8",
        ),
        ("seed: 1\n".encode("utf-16"), r"not UTF-8 at byte 0; save the file as UTF-8"),
    ],
)
def test_a_file_that_is_no_study_is_one_line(tmp_path, content, fault):
    file = tmp_path / "mine.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=fault) as raised:
        read_study_files([file], ROOT / "config")
    assert len(str(raised.value).splitlines()) == 1


YAML_PARTS = [
    "a",
    "1",
    ":",
    ": ",
    "- ",
    "\n",
    " ",
    "  ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "&a",
    "*a",
    "<<: ",
    "!!int ",
    "!!set ",
]
YAML_PARTS += [
    "!!float ",
    "!!binary ",
    "!!timestamp ",
    "!!omap ",
    "!!pairs ",
    "2024-99-99",
    "0x",
    "e",
    "~",
    "? ",
    "'",
    "%",
]


@hypothesis.settings(max_examples=300, deadline=None)
@hypothesis.given(parts=st.lists(st.sampled_from(YAML_PARTS), max_size=12))
def test_any_text_is_a_mapping_or_one_line(tmp_path_factory, parts):
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text("".join(parts))
    try:
        content, line = load_yaml(file), ""
    except UserError as error:
        content, line = {}, str(error)
    assert isinstance(content, dict)
    assert len(line.splitlines()) <= 1


def test_few_aliases_and_many_values_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(bounded_yaml, "MAX_REPEATED", 1000)
    file = tmp_path / "mine.yaml"
    file.write_text(
        "a: &a {x: 1, y: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]\nd: ["
        + "1, " * 1200
        + "]\n"
    )
    content = load_yaml(file)
    assert content["b"] == {"x": 1, "y": 2}
    assert content["c"] == [{"x": 1, "y": 1}] * 2


def test_a_study_does_not_extend_itself(tmp_path):
    for name, base in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.yaml").write_text(f"extends: {base}\n")
    with pytest.raises(UserError, match="extends itself"):
        find_study_files({"study": "a"}, [], tmp_path)


def test_a_misspelled_study_is_named_with_the_nearest():
    with pytest.raises(
        UserError,
        match=r"study 'vals' .*did you mean 'valse'\?\); run: .* --config study=valse$",
    ):
        find_study_files({"study": "vals"}, [], ROOT / "config")


@pytest.mark.parametrize("name", ["~/mine.yaml", "config/valse", "mine.yml"])
def test_a_file_in_place_of_a_name_of_a_study_is_named_with_the_option(name):
    with pytest.raises(UserError, match=f"not a name; run: .* --configfile {name}$"):
        find_study_files({"study": name}, [], ROOT / "config")
    with pytest.raises(UserError, match=f"extends: {name} is a file, not the name"):
        find_study_files({"extends": name, "study": "x"}, ["x.yaml"], ROOT / "config")


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (
            "instruments.existence.source",
            "visual8w",
            r"no source is called 'visual8w' \(did you mean 'visual7w'\?\)",
        ),
        (
            "instruments.coreference-standard.source",
            "coco",
            "coco is in format coco-captions, this is made from visdial",
        ),
        (
            "filters.nli",
            "scenes-nl",
            r"filters.nli: nothing is called 'scenes-nl' \(did you mean 'scenes-nli'\?\)",
        ),
        ("proposals.verbs", "bert", "proposals.verbs: nothing is called 'bert'"),
        (
            "benchmark.annotations",
            {"actions": "a.csv"},
            "benchmark.annotations: nothing is called 'actions'",
        ),
        (
            "attribution.estimator",
            "permutations",
            "'permutations' .did you mean 'permutation'",
        ),
        (
            "evaluation.only",
            {"scenes-clipp": ["pairs"]},
            r"evaluation.only: nothing is called 'scenes-clipp' \(did you",
        ),
        (
            "evaluation.only",
            {"scenes-clip": ["pair"]},
            r"evaluation.only.scenes-clip: nothing is called 'pair' \(did",
        ),
        ("consistency.helper", "", "consistency.helper: nothing is called ''"),
        (
            "consistency.cc_shap.edits",
            {"models": ["scenes-lava"]},
            r"consistency.cc_shap.edits.models: nothing is called 'scenes-lava' \(did you mean 'scenes-llava'\?\)",
        ),
        (
            "consistency.cc_shap.edits",
            {"datasets": ["relation"]},
            r"consistency.cc_shap.edits.datasets: nothing is called 'relation' \(did you mean 'relations'\?\)",
        ),
        (
            "consistency.untested",
            ["scenes-lava"],
            r"consistency.untested: nothing is called 'scenes-lava'",
        ),
        (
            "consistency.tests",
            [],
            "consistency: tests: this list is empty; leave tests out .* name models .* in untested",
        ),
        (
            "instruments.relations.filters",
            ["fluency"],
            "'fluency'; there are grammaticality, contradiction and ranking",
        ),
        ("instruments.plurality.cap", "flat", "instruments.plurality.cap"),
        (
            "cv_probes.image",
            5,
            r"cv_probes: unknown key 'image' \(did you mean 'images'\?\)",
        ),
        (
            "cv_probes.source",
            "imstu",
            r"cv_probes.source: no source is called 'imstu' \(did you mean 'imsitu'\?\)",
        ),
        (
            "cv_probes.source",
            "swig",
            "cv_probes.source: swig is in format swig, this is made from imsitu",
        ),
        (
            "cv_probes.written",
            "a.csv",
            "cv_probes: written and descriptions both give plain captions",
        ),
        (
            "cv_probes.checks",
            "a.csv",
            "cv_probes.checks: .* cv_probes.written, which is missing",
        ),
        (
            "cv_probes.repair",
            "scenes-causal",
            "cv_probes.repair: no model is called 'scenes-causal'",
        ),
        (
            "sources.mine",
            {"format": "pairs", "files": {"cv-probes": {"path": "a.csv"}}},
            "cv_probes: sources.mine holds a data set called cv-probes",
        ),
        (
            "sources.mine",
            {"format": "pairs", "files": {"existence": {"path": "a.csv"}}},
            "instruments.existence: sources.mine holds a data set of that name",
        ),
    ],
)
def test_a_fault_of_an_instrument_is_named(path, value, fault):
    study = read_yaml(ROOT / "config" / "scenes.yaml")
    with pytest.raises(UserError, match=fault):
        read_study(_set(study, path, value))


def test_models_of_scenes_need_scenes_to_be_measured_on():
    study = read_yaml(ROOT / "config" / "scenes.yaml")
    del study["scenes"]["held_out"]
    with pytest.raises(
        UserError,
        match=r"scenes: held_out: missing .needed to measure models.; set at least 20",
    ):
        read_study(study)


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        *(
            (
                key,
                10**9,
                f"measures.{key}: wrong value \\(got 1000000000, expected less than or equal to",
            )
            for key in (
                "bias.repeats",
                "bias.estimator_repeats",
                "controls.repeats",
                "controls.evaluations",
                "controls.tokens",
                "ground_truth.evaluations",
                "calibration.items",
            )
        ),
        ("bias.sample", 10**30, "measures.bias.sample: wrong value"),
        ("bias.permutations", [10**9], "measures.bias.permutations.0: wrong value"),
        (
            "ceiling.permutations",
            [10**9],
            "measures.ceiling.permutations.0: wrong value",
        ),
        ("power.items", [10**30], "measures.power.items.0: wrong value"),
        ("power.alpha", float("nan"), "measures.power.alpha: wrong value"),
        (
            "models",
            ["scenes-clp"],
            r"measures.models: nothing is called 'scenes-clp' \(did you mean 'scenes-clip'\?\)",
        ),
    ],
)
def test_measures_that_would_take_for_ever_are_refused(key, value, fault):
    with pytest.raises(UserError, match=fault):
        read_study(_set(load_study("measures"), f"measures.{key}", value))


def test_a_table_of_what_is_not_measured_is_refused():
    study = _set(load_study("scenes"), "reporting.tables", ["measures-ground-truth"])
    with pytest.raises(
        UserError,
        match=r"measures-ground-truth shows what is not measured; set measures\.ground_truth",
    ):
        build_plan(read_study(study))


def test_measurements_of_no_models_are_refused_where_they_need_some():
    study = _set(load_study("measures"), "measures.models", [])
    with pytest.raises(
        UserError, match=r"measures\.models: empty, but measures\.bias needs models"
    ):
        build_plan(read_study(study))


def test_a_model_that_sees_nothing_is_no_measured_one():
    study = _set(
        load_study("measures"), "measures.models", ["ruler-0", "scenes-causal-lm"]
    )
    with pytest.raises(
        UserError,
        match=r"measures\.models: 'scenes-causal-lm' reads no images \(got kind text",
    ):
        build_plan(read_study(study))


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("filters", "filters is missing: cv_probes chooses"),
        ("proposals", r"proposals is missing: instruments.[\w-]+ needs its models"),
    ],
)
def test_instruments_need_their_models(key, fault):
    study = read_yaml(ROOT / "config" / "scenes.yaml")
    del study[key]
    with pytest.raises(UserError, match=fault):
        read_study(study)


def test_a_comparison_of_meanings_by_a_classifier_needs_the_filters():
    study = read_yaml(ROOT / "config" / "recorded.yaml")
    study["consistency"]["meaning"] = "nli"
    with pytest.raises(
        UserError, match=r"filters is missing: consistency\.meaning asks filters\.nli"
    ):
        read_study(study)


def test_an_oracle_needs_scenes(study):
    study["benchmark"]["oracle"] = True
    with pytest.raises(
        UserError,
        match=r"scenes is missing: benchmark\.oracle knows drawn scenes alone",
    ):
        read_study(study)


def test_a_local_copy_is_found_below_the_named_folder(tmp_path, monkeypatch):
    (tmp_path / "valse").mkdir()
    (tmp_path / "valse" / "a.json").write_text("{}")
    monkeypatch.setenv("WALTZ_DATA", str(tmp_path))
    assert find_local_copy("valse/a.json") == tmp_path / "valse" / "a.json"
    assert find_local_copy("valse/b.json") is None
    assert find_local_copy(None) is None
    monkeypatch.delenv("WALTZ_DATA")
    assert find_local_copy("valse/a.json") is None


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ({"url": "https://x/y/a.json"}, "a.json"),
        ({"url": "https://x/y/a.zip?dl=1"}, "a.zip"),
        ({"url": "https://x/y/a.zip?dl=1#in/b.json"}, "b.json"),
        ({"path": "b/c.csv"}, "c.csv"),
    ],
)
def test_a_raw_file_keeps_its_name(file, name):
    assert get_stored_name(File(**file, sha256="lock")) == name


def test_the_schema_file_is_that_of_the_typed_study():
    assert SCHEMA.read_text() == build_schema(), "run python -m waltz.plan.write_schema"


def test_every_key_is_described_and_every_level_is_closed():
    schema = yaml.safe_load(build_schema())
    for name, section in [("Study", schema), *schema["$defs"].items()]:
        assert section["additionalProperties"] is False, name
        for key, entry in section["properties"].items():
            described = (
                schema["$defs"][entry["$ref"].rpartition("/")[2]]
                if "$ref" in entry
                else entry
            )
            assert described.get("description"), f"{name}.{key}"


def test_every_key_is_read_somewhere():
    code = "\n".join(
        path.read_text()
        for folder in ("rules", "workflow/waltz", "workflow/scripts")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".smk", ".html") and path.name != "study.py"
    )
    words = {*re.findall(r"""["'. ](\w+)""", code), *re.findall(r"\bmost_(\w+)", code)}
    schema = yaml.safe_load(build_schema())
    for section in [schema, *schema["$defs"].values()]:
        assert set(section["properties"]) <= words, section["description"]


def find_requirements(name: str) -> set[str]:
    """Return the normalized names of all packages that an installed package needs without its
    extras, and its own.
    """
    names: set[str] = set()
    pending = {canonicalize_name(name)}
    while pending:
        names |= pending
        requirements = [
            Requirement(text)
            for package in pending
            for text in distribution(package).requires or ()
        ]
        needed = [
            part
            for part in requirements
            if part.marker is None or part.marker.evaluate({"extra": ""})
        ]
        pending = {canonicalize_name(part.name) for part in needed} - names
    return names


def test_all_that_waltz_needs_is_pinned_and_the_environment_repeats_it():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    environment = read_yaml(ROOT / "envs" / "environment.yaml")
    (pip,) = [
        entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["optional-dependencies"] | {"": project["dependencies"]}
    bounds = {
        extra: {
            canonicalize_name(part.name): part.specifier
            for part in map(Requirement, requirements)
        }
        for extra, requirements in declared.items()
    }
    # Their own requirements waltz has.
    extras = {*bounds["adapters"], *bounds["gpu"], *bounds["vision"]}
    needed = find_requirements("waltz") - {"waltz"} | extras
    assert dict(pin.split("==") for pin in pip) == {name: pins[name] for name in needed}
    assert all(
        specifier.contains(pins[name])
        for extra in bounds.values()
        for name, specifier in extra.items()
    )
    for name in ("transformers", "torch", "tokenizers", "numpy", "pandas", "snakemake"):
        assert any(bound.operator == "<" for bound in bounds[""][name]), name


@pytest.fixture
def thesis():
    return read_yaml(ROOT / "config" / "thesis.yaml")


def test_what_cannot_run_here_is_skipped_everywhere_with_its_reason(
    thesis, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    study = read_study(thesis | {"skipped": {"mplug-owl3": "not run: too large"}})
    reasons = find_skipped(study)
    assert list(reasons) == ["mplug-owl3", "cv-probes"]
    rest = remove_skipped(study, reasons)
    assert rest.cv_probes is None
    assert "probes" not in {
        *rest.groups,
        *rest.attribution.groups,
        *rest.evaluation.only["lxmert"],
    }
    for stage in ("evaluation", "attribution", "consistency"):
        before, after = (
            set(getattr(study, stage).models),
            set(getattr(rest, stage).models),
        )
        assert not after & set(reasons)
        assert before - after <= set(reasons)
    assert "mplug-owl3" in rest.models


def test_nothing_is_skipped_of_what_is_there(thesis, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resources/cv-probes").mkdir(parents=True)
    (tmp_path / "resources/cv-probes/written.csv").write_text("")
    study = read_study(thesis)
    assert not find_skipped(study)
    assert remove_skipped(study, find_skipped(study)) == study


def test_a_url_is_fetched_by_the_first_that_names_it(thesis):
    study = read_study(thesis)
    owners = find_owners(study)
    assert owners["http://images.cocodataset.org/zips/val2014.zip", "file"] == (
        "valse-visdial-train",
        "images-2",
    )
    url = "http://images.cocodataset.org/annotations/annotations_trainval2014.zip"
    assert owners[url, "archive"] == ("visdial", "coco-train2014")
    assert RawFiles(study, "results").list_image_parts("visdial") == [
        "images-1",
        "images-2",
        "images-3",
    ]
    thesis["sources"]["vqa"]["images"]["sha256"] = "lock"
    with pytest.raises(
        UserError, match=r"sources\.vqa\.images\.sha256: .* gives the same url another"
    ):
        read_study(thesis)


def test_a_model_that_is_left_out_must_be_named(study):
    study["skipped"] = {"smollm2-135m-instrukt": "no time"}
    with pytest.raises(
        UserError,
        match=r"skipped: nothing is called 'smollm2-135m-instrukt' \(did you mean",
    ):
        read_study(study)


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (
            "sources.valse.images",
            {"url": "https://x/a.zip"},
            "sources.valse.images: sha256 is missing",
        ),
        ("sources.valse.images", [{"path": "a"}], "sources.valse.images: "),
        (
            "sources.valse.images",
            [{"path": "a"}, {"pth": "b"}],
            r"images.1: unknown key 'pth' \(did you mean 'path'",
        ),
        (
            "sources.valse.files.existence",
            {"path": "a", "drawn": "b"},
            r"expected one of url, path, listed and drawn \(got path",
        ),
        ("evaluation.models", ["a", "a"], "evaluation: models names 'a' twice"),
        ("threads", None, "threads is null; leave the key out"),
        (
            "reporting.tables",
            ["thesis-3.44"],
            r"'thesis-3.44' .did you mean 'thesis-3.4'",
        ),
        ("profiles", [], "profiles: "),
    ],
)
def test_a_fault_inside_lists_and_choices_is_named(study, path, value, fault):
    with pytest.raises(UserError, match=fault):
        read_study(_set(study, path, value))


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (
            "sources.valse.files.existence.url",
            "https://me:it-is-secret@host/a.json",
            r"sources\.valse\.files\.existence\.url: the url holds a user .* ~/\.netrc: machine host login USER",
        ),
        (
            "sources.valse.images",
            {"url": "https://me:it-is-secret@host/a.zip", "sha256": "lock"},
            "images.*netrc",
        ),
        (
            "sources.valse.files.existence.url",
            "HTTPS://me:it-is-secret@host/a",
            "got 'HTTPS://host/a', expected a text",
        ),
        (
            "sources.valse.files.existence.url",
            "https://m:it-is-secret@a b",
            "got 'https://a b', expected a text",
        ),
        (
            "sources.valse.files.existence.url",
            "https://me:" + "it-is-secret" * 9 + "@h/a b",
            "got 'https://h/a b'",
        ),
        (
            "sources.valse.files.existence",
            "https://h/a?it-is-secret",
            "got 'https://h/a', expected",
        ),
        (
            "sources.valse.files.existence",
            {"path": "https://h/a?it-is-secret"},
            "existence: path is a url; name it under",
        ),
        (
            "sources.valse.https://h/a?it-is-secret",
            {},
            "sources.valse: unknown key 'https://h/a'",
        ),
        (
            "sources.valse.format",
            "https://h/a?it-is-secret",
            "unknown value 'https://h/a'",
        ),
        (
            "export",
            {"url": "https://h/a?it-is-secret"},
            "export.url: the url holds a user, password or query",
        ),
        (
            "export",
            {"url": "https://me@h/a"},
            "export.url: the url holds a user, password or query",
        ),
        (
            "models.m",
            {"server": {"url": "http://h", "api_key": "it-is-secret"}},
            "'api_key': '<hidden>'",
        ),
        ("models.m", {"api_key": "it-is-secret"}, "models.m: unknown key 'api_key'"),
        (
            "models.m",
            {"weights": "https://me:it-is-secret@h/a", "sha256": "lock"},
            "m.weights: the url holds a user",
        ),
        (
            "models.m",
            {"weights": "HTTPS://me:it-is-secret@h/a"},
            "m.weights: the url holds a user",
        ),
        (
            "models.m",
            {"weights": "a", "config": "https://me:it-is-secret@h/a"},
            "m.config: the url holds a user",
        ),
        (
            "models.m",
            {"weights": "a", "server": "http://h/v1#it-is-secret", "kind": "text"},
            "server: no url",
        ),
        (
            "groups.mine",
            ["https://me:it-is-secret@h/a"],
            "nothing is called 'https://h/a'",
        ),
    ],
)
def test_a_secret_in_a_study_is_refused_or_not_shown(study, path, value, fault):
    changed = _set(study, path, value)
    with pytest.raises(UserError, match=fault) as error:
        build_plan(read_study(changed))
    assert "it-is-secret" not in str(error.value)


def test_a_study_is_dumped_without_the_queries_of_its_urls(study):
    changed = _set(
        study,
        "sources.valse.files.existence.url",
        "https://host/a.zip?it-is-secret#b.json",
    )
    typed = read_study(changed)
    file = typed.sources["valse"].files["existence"]
    assert file.address.endswith("?it-is-secret#b.json")
    dumps = (
        repr(typed),
        str(typed.to_dict()),
        typed.model_dump_json(),
        repr(file.url),
        str(file.url),
        f"{file.url}",
    )
    assert not any("it-is-secret" in dump or "b.json" in dump for dump in dumps)
    entry = RawFiles(typed, "results").get_entry("valse", "existence")
    assert "it-is-secret" not in repr(entry)
    assert entry["url"].get_secret_value() == file.address
    redact_urls(changed)
    assert changed["sources"]["valse"]["files"]["existence"]["url"] == str(file.url)


def test_yaml_errors_do_not_show_the_line(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "a: {url: https://me:it-is-secret@host it-is-secret, b: [}\n"
    )
    with pytest.raises(
        UserError, match=r"a\.yaml: is not YAML \(line 1, column 5[0-9]: "
    ) as error:
        load_yaml(tmp_path / "a.yaml")
    assert "it-is-secret" not in str(error.value)


def test_a_long_value_is_cut_between_words():
    assert shorten_value("a" * 100) == "a" * 80 + "…"
    assert shorten_value("word " * 20) == "word " * 15 + "word…"
    assert shorten_value("short") == "short"
