"""Balancing attested but unfiltered candidates of real captions reaches the published distances."""

import importlib.util
import sys

import pytest

from conftest import ROOT
from waltz.core.sampling import sample
from waltz.sources.formats.coco import read_captions

SIZES = {"plurality": 120, "relations": 100}


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("balance_coco", ROOT / "benchmarks" / "balance_coco.py")
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


@pytest.fixture(scope="module")
def candidates(shared_data, script):
    rows = list(read_captions(shared_data / "coco_captions" / "captions_val2017.json", "coco", None))
    sampled_ids = set(sample([row["source_id"] for row in rows], 600, 5))
    return script.candidates([row for row in rows if row["source_id"] in sampled_ids], 400, 4, 5)


@pytest.mark.parametrize("instrument", SIZES)
def test_the_published_distance_is_reached_at_a_tenth_of_the_size(script, candidates, instrument):
    rows, (_, printed) = candidates[instrument], script.PRINTED[instrument]
    count, distance, _ = script.measured(rows, SIZES[instrument], printed, 5)
    assert count == SIZES[instrument]
    assert distance <= printed
    images = {row["image"] for row in rows}
    assert len(images) > SIZES[instrument]
    assert len({row["item_id"] for row in rows}) == len(rows)


def test_relations_come_from_the_captions(candidates):
    assert all(row["caption_phrases"] != row["foil_phrases"] for row in candidates["relations"])
    counts = {phrase: 0 for row in candidates["relations"] for phrase in row["foil_phrases"]}
    for row in candidates["relations"]:
        counts[row["foil_phrases"][0]] += 1
    assert max(counts, key=counts.get) in {"of", "on", "in", "with"}
