"""The data set card: header, provenance, funnel and known faults; no text can break it."""

import json

import pytest
import yaml
from huggingface_hub import DatasetCard

from stand_ins.benchmark_rows import (
    NAUGHTY,
    facts,
    item,
    part,
    released_item,
    unvoted,
    write_release,
)
from waltz.core.records import to_row
from waltz.core.schema import FunnelRecord, ReasonCount
from waltz.export.card import escape_markdown
from waltz.export.facts import RawFile, SourceFacts, Terms, build_source_facts
from waltz.export.folder import write_dataset
from waltz.export.parts import write_part
from waltz.export.statements import list_common_faults, list_part_faults
from waltz.export.valse_layout import get_file_name
from waltz.sources.formats.pairs import read_release
from waltz.valse_release import RELEASE


def read(folder):
    header, text = (
        (folder / "README.md").read_text().removeprefix("---\n").split("\n---\n", 1)
    )
    return yaml.safe_load(header), text


def list_faults(rows, folder, **more):
    return list_part_faults(write_part(part(rows, **more), folder))


def test_the_header_is_what_the_hub_asks_for(dataset):
    header, _ = read(dataset)
    assert header["license"] == ["mit", "unknown"]
    assert header["language"] == ["en"]
    assert header["size_categories"] == ["n<1K"]
    assert header["annotations_creators"] == ["other"]
    assert header["configs"][0] == {
        "config_name": "existence",
        "data_files": [
            {
                "split": "test",
                "path": ["existence/valid-*.parquet", "existence/invalid-*.parquet"],
            },
            {"split": "valid", "path": ["existence/valid-*.parquet"]},
        ],
    }


def test_the_hub_library_reads_the_header(dataset):
    data = DatasetCard.load(dataset / "README.md").data
    assert [config["config_name"] for config in data.configs] == [
        "existence",
        "cv-probes",
        "relations",
    ]
    assert data.pretty_name == "small"


def test_a_license_that_the_hub_does_not_know_is_named(tmp_path):
    own = SourceFacts("own", "pairs", False, Terms("Open: <all>", None, None, None), ())
    write_dataset(tmp_path / "x", [part([item()])], facts(sources={"own": own}))
    header, _ = read(tmp_path / "x")
    assert (header["license"], header["license_name"]) == ("other", "Open: <all>")


def test_items_are_counted_by_their_votes(dataset):
    _, text = read(dataset)
    assert "| `existence` | 4 | 2 | 1 | 1 | embedded |" in text
    assert "| `relations` | 4 | 2 | 1 | 1 | names only |" in text
    assert "- `own`: their licenses are &lt;i&gt;not&lt;/i&gt; known." in text


def test_markup_in_the_data_is_escaped(dataset):
    _, text = read(dataset)
    assert "<script" not in "".join(text.split("```")[::2])
    assert r"A paper \| &lt;b&gt;1999&lt;/b&gt;" in text


def test_the_data_set_and_its_sources_are_cited_in_bibtex(tmp_path):
    about = {
        "url": "https://example.org/a_b",
        "creators": ["Our group", "R&D"],
        "published": "2030-01-31",
    }
    write_dataset(
        tmp_path / "x", [part([item()])], facts(about=about | {"version": "1.0.0"})
    )
    _, text = read(tmp_path / "x")
    assert text.split("```bibtex\n")[1].split("```")[0].splitlines() == [
        "@misc{small,",
        "  title = {The benchmark of the study small, made with waltz},",
        r"  author = {{Our group} and {R\&D}},",
        "  year = {2030},",
        "  version = {1.0.0},",
        "  url = {https://example.org/a_b},",
        "}",
        "@misc{small-source-1,",
        "  note = {A paper | <b>1999</b>},",
        "}",
    ]


def test_a_naughty_example_stays_inside_its_block(tmp_path):
    naughty = "```\n</code> # head | " + NAUGHTY
    write_dataset(
        tmp_path / "x", [part([item(caption=naughty, foil=naughty)])], facts()
    )
    _, text = read(tmp_path / "x")
    fences = [line for line in text.splitlines() if line.lstrip().startswith("```")]
    assert fences == ["```json", "```", "```bibtex", "```"]


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("a | b", r"a \| b"),
        ("[x](y)", r"\[x\](y)"),
        ("two\nlines\x00", "two lines\N{REPLACEMENT CHARACTER}"),
        ("`dataset_idx` is", "`dataset_idx` is"),
        ("`<b>`", r"\`&lt;b&gt;\`"),
        ("a_b*c", r"a\_b\*c"),
    ],
)
def test_markdown_is_escaped(text, rendered):
    assert escape_markdown(text) == rendered


def test_the_card_has_provenance_funnel_and_settings(tmp_path):
    own = SourceFacts(
        "own",
        "visual7w",
        True,
        Terms("MIT", "CC-BY-4.0", "Cite me", None),
        (RawFile("f", "f.json", "ab" * 32),),
    )
    funnel = [
        FunnelRecord(instrument="existence", step="candidates", count=1234, lost=[]),
        FunnelRecord(
            instrument="existence",
            step="valid",
            count=5,
            lost=[ReasonCount("a|b", 1229)],
        ),
    ]
    study_facts = facts(
        sources={"own": own},
        funnel=funnel,
        models={"filters: nli": "some-model"},
        seed=77,
    )
    write_dataset(tmp_path / "x", [part([item(voter="oracle")])], study_facts)
    header, text = read(tmp_path / "x")
    assert header["annotations_creators"] == ["machine-generated"]
    assert f"| `own` | `f` | f.json | `{'ab' * 32}` |" in text
    assert "| `own` | visual7w, drawn by waltz | MIT | CC-BY-4.0 | Cite me |" in text
    assert "| `existence` | 1,234 | 5 |" in text
    assert r"| `existence` | valid | a\|b | 1,229 |" in text
    assert "Seed 77. Models: filters: nli: some-model." in text
    assert "| `existence` | source: own; filters: contradiction |" in text
    assert "- Cite me" in text


def test_checksums_are_those_of_the_files_and_paths_stay_private(tmp_path):
    (tmp_path / "mine.csv").write_bytes(b"abc")
    entry = {"format": "pairs", "files": {"mine": {"path": "/counts/mine.csv"}}}
    source_facts = build_source_facts("own", entry, iter([str(tmp_path / "mine.csv")]))
    assert source_facts.files == (
        RawFile(
            "mine",
            "mine.csv",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
    )


def test_faults_are_counted(tmp_path, images):
    rows = [
        item(item_id="1"),
        item(item_id="2"),
        item(item_id="3", foil="There are dogs.", image="grey.jpg"),
        unvoted(item_id="4", caption="There  are cats.", image="broken.png"),
        item(item_id="5", valid=False, caption="No.", image="grey.jpg"),
    ]
    assert list_faults(rows, tmp_path, images=str(images)) == [
        "Caption and foil are the same text in 1 of 5 items, 1 of them valid.",
        "Image, caption and foil repeat those of an earlier item in 1 of 5 items.",
        "Nobody voted on 1 of 5 items, so their validity is unknown.",
        "Not valid: 1 of 5 items. They are included, so that you can choose.",
        "A text has a double space, a line break or another control character in 1 of 5 items.",
        "In more than one item, at most in 2: 2 images of 3.",
        "Null because they could not be opened: 1 image (broken.png is not an image of a known format).",
    ]


def test_ids_of_several_parts_are_counted():
    parts = [
        part([item(item_id="1"), item(item_id="2")]),
        part([item("relations", item_id="1")], "relations"),
    ]
    assert (
        list_common_faults(parts, facts())[-1]
        == "In more than one part: 1 id. Name an item by its part and its id."
    )


def test_the_known_faults_of_the_release_are_listed(tmp_path):
    path = write_release(tmp_path / "r.json", {"1": released_item()})
    release_part = part(
        list(map(to_row, read_release(path, "relations", 2))),
        "relations",
        "valse-release",
        no_images_reason="no images",
    )
    write_dataset(tmp_path / "x", [release_part], facts())
    header, text = read(tmp_path / "x")
    assert header["annotations_creators"] == ["crowdsourced"]
    assert "Every item has three votes." in text


def test_the_known_faults_of_the_release_are_true(shared_data):
    items = {
        name: json.loads((shared_data / "valse" / get_file_name(name)).read_text())
        for name in RELEASE
    }
    assert {
        sum(record["mturk"].values())
        for records in items.values()
        for record in records.values()
    } == {3}
    assert items["plurality"]["plurals:coco2017:215792"]["classes_foil"] is False
    counts = {
        name: sum(
            record["classes_foil"].lower() not in record["foil"].lower()
            for record in items[name].values()
        )
        for name in ("action-replacement", "actant-swap")
    }
    assert counts == {"action-replacement": 22, "actant-swap": 4}
    standard = items["coreference-standard"].values()
    assert {record["original_split"] for record in standard} == {"train"}
    assert (
        sum(record["image_file"].startswith("COCO_val2014") for record in standard)
        == 283
    )
    assert sum("’" in record["caption"] for record in standard) == 2
    actions = [
        record
        for name in ("action-replacement", "actant-swap")
        for record in items[name].values()
    ]
    assert sum(record["mturk"]["caption"] >= 2 for record in actions) == 1597
