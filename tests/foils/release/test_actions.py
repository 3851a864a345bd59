"""Released action items through the instruments, and their captions and foils against the oracle of the scenes."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from waltz.core.text_diff import slice_span
from waltz.foils.actant_swap import build_swaps
from waltz.foils.action_replacement import list_replacement_verbs
from waltz.foils.candidates import Refusal, replace_span
from waltz.foils.english.wordnet import read_verbs
from waltz.foils.swig.captions import ActionCaption, build_action_captions, read_action_caption
from waltz.scenes.oracle.truth import decide_truth
from waltz.scenes.world.graph import Graph
from waltz.scenes.world.lexicon import read_verbs as scene_verbs
from waltz.scenes.world.sampling import draw_scenes
from waltz.scenes.writers import swig as written
from waltz.sources.formats.swig import read_frames, read_situation_space

VERBS = read_verbs()
SEED = 2026


def test_the_verb_of_every_released_caption_is_found(shared_data: Path) -> None:
    items = json.loads((shared_data / "valse" / "action-replacement.json").read_text()).values()
    for item in items:
        caption = read_action_caption(item["caption"], VERBS)
        assert isinstance(caption, ActionCaption), item["caption"]
        assert slice_span(caption.text, caption.verb_span) == item["classes"]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Graph, ActionCaption]]:
    """Captions of the frames of the first scenes, once each, with their scenes."""
    folder = tmp_path_factory.mktemp("swig")
    graphs = draw_scenes(160, SEED)
    space = folder / "space.json"
    space.write_text(json.dumps(written.build_verb_space()))
    results: dict[tuple[int, str], tuple[Graph, ActionCaption]] = {}
    for split in written.SPLITS:
        path = folder / f"{split}.json"
        path.write_text(json.dumps(written.build_annotations(graphs, SEED, split, True)))
        for frame in read_frames(path, read_situation_space(space), "swig", split):
            number = int(frame["image"].rsplit("_", 1)[1].removesuffix(".png")) - 1
            for caption in build_action_captions(frame, VERBS):
                if not isinstance(caption, Refusal):
                    results[number, caption.text] = (graphs[number], caption)
    return list(results.values())


def test_every_caption_of_a_scene_is_true(drawn: list[tuple[Graph, ActionCaption]]) -> None:
    assert len(drawn) > 90
    assert [caption.text for graph, caption in drawn if decide_truth(graph, caption.text) != "true"] == []


def verdicts(pairs: Iterator[tuple[Graph, str]]) -> Counter[str]:
    return Counter(decide_truth(graph, foil) for graph, foil in pairs)


def test_foils_of_scenes_are_false(drawn: list[tuple[Graph, ActionCaption]]) -> None:
    swaps = verdicts(
        (graph, candidate.foil)
        for graph, caption in drawn
        for candidate in build_swaps(caption, VERBS[caption.verb].base)
        if candidate.rejected is None
    )
    replacements = verdicts(
        (graph, replace_span(caption.text, caption.verb_span, form)[0])
        for graph, caption in drawn
        for form, name in list_replacement_verbs(caption, VERBS).items()
        if name in scene_verbs()
    )
    for results in (swaps, replacements):
        assert results["false"] > 1000
        assert results["false"] / (results["false"] + results["true"]) >= 0.99
