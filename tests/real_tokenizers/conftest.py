"""Fixtures for tests of the real tokenizers: texts of the released data, and a LLaVA-NeXT with real
sizes of tiles.
"""

import pytest

from waltz.sources.formats.pairs import read_release
from waltz.sources.formats.questions import read_visdial
from waltz.valse_release import RELEASE


@pytest.fixture(scope="session")
def valid_sentences(shared_data) -> list[str]:
    """Captions and foils of all valid items of the released VALSE, each sentence once."""
    rows = [
        row
        for name, instrument in RELEASE.items()
        for row in read_release(
            shared_data / "valse" / f"{instrument.file}.json", name, 2
        )
        if row.valid
    ]
    sentences = [text for row in rows for text in (row.caption, row.foil)]
    assert len(sentences) == 15404
    return list(dict.fromkeys(sentences))


@pytest.fixture(scope="session")
def dialogues(shared_data) -> list[str]:
    """Whole dialogues of VisDial: a caption, then ten questions with their answers."""
    texts: dict[str, str] = {}
    for row in read_visdial(
        shared_data / "visdial" / "visdial_1.0_val_visdialconv.json", "visdial"
    ):
        texts.setdefault(row.image, row.caption)
        texts[row.image] += f" {row.question}? {row.answer}."
    return list(texts.values())


@pytest.fixture(scope="session")
def llava_next(tmp_path_factory, real_vocabularies):
    """Return a tiny LLaVA-NeXT on Mistral with the release's tokenizer, tiles and patches."""
    from rehearsal.checkpoints import vision
    from waltz.core.jobs.devices import Device
    from waltz.model_registry import ModelSpec
    from waltz.models.decoders.vision_loading import load_vision_decoder

    folder = tmp_path_factory.mktemp("llava-next")
    vision.llava_next("mine", folder, vicuna=False, side=336)
    return load_vision_decoder(
        ModelSpec("mine", "vision", str(folder), "local"), Device("cpu", 1, "")
    )
