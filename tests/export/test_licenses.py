"""Licenses, and which images may be passed on."""

import pytest

from waltz.core.errors import UserError
from waltz.export import facts
from waltz.export.facts import find_license, get_hub_name, read_terms
from waltz.instruments import INSTRUMENTS

DRAWN = {"drawn": "coco/val2017"}


def source(form="pairs", images=None, **more):
    return {
        "format": form,
        "files": {"all": {"path": "x"}},
        **({"images": images} if images else {}),
        **more,
    }


@pytest.mark.parametrize(
    "spelling", ["CC BY 4.0", "cc-by-4.0", "CC-BY 4.0", " cc_by 4.0 "]
)
def test_a_license_is_known_by_any_spelling(spelling):
    assert find_license(spelling).name == "CC-BY-4.0"


@pytest.mark.parametrize(
    "spelling",
    ["CC BY 5.0", "CC BY 4.0, some images NonCommercial", "free for all", ""],
)
def test_an_unlisted_license_is_unknown(spelling):
    assert find_license(spelling) is None
    assert get_hub_name(spelling) == "other"


def test_a_missing_license_is_unknown_on_the_hub():
    assert get_hub_name(None) == "unknown"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (source(images={"path": "i"}, licence="MIT"), None),
        (source(images={"path": "i"}), "no license is stated"),
        (source(images={"path": "i"}, licence=""), "no license is stated"),
        (
            source(images={"path": "i"}, licence="mine"),
            "'mine' is not among the known ones",
        ),
        (
            source(images={"path": "i"}, licence="CC BY-NC 4.0"),
            "CC-BY-NC-4.0 allows it for some uses only",
        ),
        (source(licence="MIT"), "the study names no images"),
        (
            source("coco-captions", {"path": "i"}, licence="CC BY 4.0"),
            "every photograph has its own license",
        ),
        (source("coco-captions", {"path": "i", "licence": "CC BY 2.0"}), None),
        (
            source("pairs", {"path": "i", "licence": "mine"}, licence="MIT"),
            "'mine' is not among the known ones",
        ),
        (
            source("valse-release", {"path": "i"}, licence="MIT"),
            "the release holds no images",
        ),
        (source("coco-captions", DRAWN), None),
    ],
)
def test_images_are_included_where_a_known_license_allows_it(entry, reason):
    terms = read_terms(entry)
    assert (
        (terms.no_images_reason is None)
        if reason is None
        else (reason in terms.no_images_reason)
    )


def test_drawn_scenes_have_licenses_and_a_citation():
    terms = read_terms(
        {"format": "coco-captions", "files": {"val": {"drawn": "x"}}, "images": DRAWN}
    )
    assert (terms.texts, terms.images) == ("MIT", "CC-BY-4.0")
    assert "Twemoji" in terms.citation


def test_every_format_of_a_benchmark_has_an_entry_about_its_images():
    for form in {
        *(entry.source_format for entry in INSTRUMENTS.values()),
        "valse-release",
        "pairs",
        "imsitu",
    }:
        read_terms(source(form, {"path": "i"}))


def test_a_format_without_entry_is_named():
    with pytest.raises(UserError, match="no entry for the format holograms"):
        read_terms(source("holograms", {"path": "i"}))


def test_images_under_restricted_licenses_are_not_included():
    restricted = [
        entry
        for entry in facts._read_licenses().values()
        if "NC" in entry.name or "ND" in entry.name
    ]
    assert restricted
    assert not any(entry.embed for entry in restricted)
