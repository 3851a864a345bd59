"""The study that `waltz build` writes, which builds a benchmark from captions."""

from collections.abc import Collection, Mapping, Sequence
from itertools import filterfalse

from waltz.core.errors import UserError, build_name_error
from waltz.instruments import (
    FILTER_MODELS,
    INSTRUMENTS,
    RANKER,
    SHORT_NAMES,
    TEXT_INPUTS,
)
from waltz.plan.study import Settings

CAPTIONS = "captions"
"""Name of the source of captions."""
PREFIX = "build-"
"""Start of the names of studies that `waltz build` writes."""
CAPTION_INSTRUMENTS = tuple(
    name
    for name, entry in INSTRUMENTS.items()
    if "coco-captions" in (entry.source_format, entry.other_format)
)
"""Instruments that can be built from captions."""
FILTERS = ("grammaticality", "contradiction")
"""Filters whose models judge the candidates."""
FEW_CAPTIONS = 300
"""Number of captions below which items are not balanced unless a distance is named."""
DEFAULT_JS = 0.3
"""Largest distance between the exchanged words of captions and of foils."""
PROPOSALS: Settings = {"spans": RANKER, "verbs": RANKER, "longest": 3, "best": 10}


def choose_instruments(names: Sequence[str]) -> list[str]:
    """Return instruments by their names or short names, each once, in the given order.

    Raises:
        UserError: A name is unknown, or the instrument needs more than captions.
    """
    known_names = list(CAPTION_INSTRUMENTS)
    for name, instrument in SHORT_NAMES.items():
        if instrument in CAPTION_INSTRUMENTS:
            known_names.append(name)
    chosen: list[str] = []
    for name in map(str.lower, names):
        instrument = SHORT_NAMES.get(name, name)
        if instrument in CAPTION_INSTRUMENTS:
            chosen.append(instrument)
        elif instrument in INSTRUMENTS:
            needs = TEXT_INPUTS.get(instrument, INSTRUMENTS[instrument].source_format)
            raise UserError(
                f"--instruments: {name} is not built from captions (it needs {needs}); name some of"
                f" {', '.join(CAPTION_INSTRUMENTS)}"
            )
        else:
            raise build_name_error("--instruments", "instrument", name, known_names)
    return list(dict.fromkeys(chosen))


def build_caption_study(
    name: str,
    source: Settings,
    instruments: Sequence[str],
    *,
    size: int,
    js: float,
    seed: int,
    judges: Settings | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Settings:
    """Return a study that builds instruments from captions.

    Args:
        name: Name of the study.
        source: Entry of the source of captions.
        instruments: The instruments.
        size: Largest number of items of an instrument.
        js: Largest distance between the exchanged words of captions and of foils, 0 to 1.
        seed: Seed of all draws.
        judges: The sections `filters` and `models` of a study whose models judge the candidates;
            None builds without filters.
        annotations: Files with the answers of people by instrument.
    """
    filters = FILTERS if judges else ()
    entry = {"source": CAPTIONS, "size": size, "js": js}
    models: Settings = {}
    study: Settings = {
        "study": name,
        "seed": seed,
        "profiles": ["equations"],
        "sources": {CAPTIONS: source},
        # A list of its own for each, because YAML writes a shared one as an alias.
        "instruments": {
            instrument: {**entry, "filters": list(filters)}
            for instrument in instruments
        },
        "benchmark": {"valid_votes": 1},
        "groups": {"pairs": list(instruments)},
        "reporting": {"tables": [], "resamples": 1000, "confidence": 0.95},
    }
    if any(INSTRUMENTS[instrument].proposal_key for instrument in instruments):
        study["proposals"] = PROPOSALS
        models[RANKER] = {}
    if judges:
        study["filters"] = judges["filters"]
        for key in ("likelihood", "acceptability", "nli", "ranking"):
            models[judges["filters"][key]] = {}
    if annotations:
        study["benchmark"]["annotations"] = dict(annotations)
    study["models"] = models
    return study


def omit_filters(study: Settings, filters: Collection[str]) -> Settings:
    """Return a study that `build_caption_study` built, without some filters of its instruments."""
    instruments: Settings = {}
    for name, entry in study["instruments"].items():
        left = filterfalse(filters.__contains__, entry["filters"])
        instruments[name] = {**entry, "filters": list(left)}
    return {**study, "instruments": instruments}


def list_judges(study: Settings, filters: Collection[str]) -> list[str]:
    """Return the models of a study that some filters load."""
    # A filter may load several models, such as a parser and a language model.
    judges: list[str] = []
    for name in filters:
        judges += map(study["filters"].get, FILTER_MODELS[name])
    return judges


def leave_out(study: Settings, instruments: Collection[str]) -> Settings:
    """Return a study that `build_caption_study` built, without some of its instruments."""
    names = [name for name in study["instruments"] if name not in instruments]
    left = dict(study)
    left["instruments"] = _select(study["instruments"], names)
    left["groups"] = {"pairs": names}
    left["benchmark"] = dict(study["benchmark"])
    answers = _select(study["benchmark"].get("annotations", {}), names)
    # A study without answers has no key for them, as when it was first written.
    if answers:
        left["benchmark"]["annotations"] = answers
    else:
        left["benchmark"].pop("annotations", None)
    return left


def _select(settings: Settings, names: Collection[str]) -> Settings:
    """Return the settings of some names."""
    return {name: settings[name] for name in settings if name in names}
