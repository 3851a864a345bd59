"""The main verb of a caption, on the paper's captions and on VALSE's, whose verb the foil shows."""

import json
from pathlib import Path

import pytest

from waltz.foils.english.parsing import parse
from waltz.foils.english.verbs import find_main_verb


def find_verb(caption: str) -> str | None:
    verb = find_main_verb(next(parse([caption])))
    return None if verb is None else verb.text


@pytest.mark.parametrize(
    ("caption", "verb"),
    [
        # CV-Probes, figure 1 and table 8
        ("A woman holds a cup.", "holds"),
        ("A woman sits with a glass in her hand.", "sits"),
        ("A woman holds out a cup.", "holds"),
        ("A woman beggs for money.", "beggs"),
        ("A woman is holding a cup.", "holding"),
        ("The man is being held by two officers.", "held"),
        ("A boy is in the snow.", "is"),
        ("There is a boy in the snow.", "is"),
        ("A man riding a wave on a surfboard.", "riding"),
        # The parser takes these verbs for nouns.
        ("A girl wrings fabric.", "wrings"),
        ("A woman types paperwork.", "types"),
        ("A puppy tugs at a knot.", "tugs"),
        ("The people board by train.", "board"),
        ("A few dogs in a red car.", None),
        ("a big crowd", None),
        ("", None),
    ],
)
def test_the_main_verb(caption: str, verb: str | None) -> None:
    assert find_verb(caption) == verb


def test_the_verb_of_the_releases_captions(shared_data: Path) -> None:
    items = json.loads(
        (shared_data / "valse" / "action-replacement.json").read_text()
    ).values()
    verbs = {}
    for item in items:
        words = list(
            zip(
                item["caption"].rstrip(".").split(),
                item["foil"].rstrip(".").split(),
                strict=False,
            )
        )
        changed = next((pair for pair in words if pair[0] != pair[1]), None)
        if changed is not None:
            verbs |= {item["caption"]: changed[0], item["foil"]: changed[1]}
    found = [find_main_verb(doc) for doc in parse(verbs)]
    hits = sum(
        token is not None and token.text == verb
        for token, verb in zip(found, verbs.values(), strict=True)
    )
    assert len(verbs) == 1522
    assert hits / len(verbs) > 0.995
