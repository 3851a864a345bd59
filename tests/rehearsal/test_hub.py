"""The rehearsal's own means: the server as its clients ask it, the tiny checkpoints as transformers
loads them.
"""

import hashlib
from pathlib import Path

import httpx
import huggingface_hub
import pytest
import transformers

from rehearsal import hub
from rehearsal.checkpoints import vision
from rehearsal.server import Repository, World, serving
from stand_ins.family_marks import mark_families
from waltz.core.downloads.transfer import ATTEMPTS, DownloadRequest, download
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder
from waltz.models.decoders.vision_loading import load_vision_decoder
from waltz.models.hub import fetch_snapshot

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def world(tmp_path):
    (tmp_path / "model/deeper").mkdir(parents=True)
    (tmp_path / "model/config.json").write_text("{}")
    (tmp_path / "model/deeper/weights.bin").write_bytes(CONTENT)
    (tmp_path / "raw").write_bytes(CONTENT)
    return World(
        {"host/raw.zip": tmp_path / "raw"},
        {"some/model": Repository(tmp_path / "model", COMMIT)},
    )


@pytest.fixture
def address(world):
    with serving(world) as address:
        yield address


def _fetched(address: str, folder: Path) -> bytes:
    target = folder / "raw.zip"
    expected = hashlib.sha256(CONTENT).hexdigest()
    download(
        DownloadRequest(f"{address}/mirror/host/raw.zip", expected, "put it there"),
        target,
        wait=lambda _: None,
    )
    return target.read_bytes()


@pytest.mark.parametrize(
    ("kind", "times"), [("500", 2), ("cut", 2), ("wrong", 2), ("slow", 1)]
)
def test_a_download_survives_faults_of_each_kind(world, address, tmp_path, kind, times):
    world.misbehave("raw.zip", kind, times)
    assert _fetched(address, tmp_path / "here") == CONTENT
    assert not world.faults[0].times


def test_a_file_that_is_gone_is_requested_once(world, address, tmp_path):
    world.misbehave("raw.zip", "404")
    with pytest.raises(UserError, match="HTTP 404"):
        _fetched(address, tmp_path / "here")
    assert world.request_counts["GET", "/mirror/host/raw.zip"] == 1
    world.behave()
    assert _fetched(address, tmp_path / "here") == CONTENT


def test_a_url_that_nothing_stands_for_is_missing(address):
    assert httpx.get(f"{address}/mirror/host/other").status_code == 404


@pytest.fixture
def online(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)


@pytest.mark.usefixtures("online")
@pytest.mark.parametrize("revision", ["main", COMMIT])
def test_the_hubs_own_client_finds_repository_tree_and_files(
    world, address, tmp_path, revision
):
    api = huggingface_hub.HfApi(endpoint=address)
    assert api.model_info("some/model", revision=revision).sha == COMMIT
    assert set(api.list_repo_files("some/model", revision=revision)) == {
        "config.json",
        "deeper/weights.bin",
    }
    snapshot = api.snapshot_download(
        "some/model", revision=revision, cache_dir=tmp_path / "cache"
    )
    assert Path(snapshot).name == COMMIT
    assert (Path(snapshot) / "deeper/weights.bin").read_bytes() == CONTENT
    with pytest.raises(huggingface_hub.errors.RevisionNotFoundError):
        api.model_info("some/model", revision="f" * 40)
    with pytest.raises(huggingface_hub.errors.RepositoryNotFoundError):
        api.model_info("other/model")
    with pytest.raises(huggingface_hub.errors.EntryNotFoundError):
        api.hf_hub_download("some/model", "absent.json", cache_dir=tmp_path / "cache")


@pytest.mark.usefixtures("online")
def test_the_hubs_own_client_goes_on_after_a_cut(world, address, tmp_path):
    world.misbehave("weights.bin", "cut", times=1)
    api = huggingface_hub.HfApi(endpoint=address)
    path = api.hf_hub_download(
        "some/model", "deeper/weights.bin", cache_dir=tmp_path, revision=COMMIT
    )
    assert Path(path).read_bytes() == CONTENT


@pytest.mark.usefixtures("online")
@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ("/api/models", "500"),
        ("config.json", "404"),
        ("weights.bin", "500"),
        ("weights.bin", "cut"),
        ("weights.bin", "wrong"),
    ],
)
def test_a_complete_model_survives_faults_of_each_kind(
    world, address, tmp_path, monkeypatch, part, kind
):
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(
        huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template
    )
    world.misbehave(part, kind, times=1)
    fetch_snapshot(
        "some/model", tmp_path / "whole", tmp_path / "lock.yaml", wait=lambda _: None
    )
    assert (tmp_path / "whole/deeper/weights.bin").read_bytes() == CONTENT
    assert not world.faults[0].times


@pytest.mark.usefixtures("online")
def test_a_hub_that_is_down_is_one_line_and_leaves_nothing_that_looks_complete(
    world, address, tmp_path, monkeypatch
):
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
    world.misbehave("/api/models", "500")
    with pytest.raises(UserError, match="some/model: cannot be had from the hub"):
        fetch_snapshot(
            "some/model",
            tmp_path / "whole",
            tmp_path / "lock.yaml",
            wait=lambda _: None,
        )
    assert world.request_counts["GET", "/api/models/some/model"] == ATTEMPTS
    assert not (tmp_path / "whole").exists()


CLASSES = {
    "openai-community/gpt2": transformers.AutoModelForCausalLM,
    "openai-community/openai-gpt": transformers.AutoModelForCausalLM,
    "meta-llama/Llama-2-13b-chat-hf": transformers.AutoModelForCausalLM,
    "mistralai/Mistral-7B-v0.1": transformers.AutoModelForCausalLM,
    "tiiuae/falcon-7b": transformers.AutoModelForCausalLM,
    "tiiuae/falcon-40b-instruct": transformers.AutoModelForCausalLM,
    "llava-hf/bakLlava-v1-hf": transformers.AutoModelForImageTextToText,
    "llava-hf/llava-v1.6-mistral-7b-hf": transformers.AutoModelForImageTextToText,
    "llava-hf/llava-v1.6-vicuna-7b-hf": transformers.AutoModelForImageTextToText,
    "google-bert/bert-base-cased": transformers.AutoModelForMaskedLM,
    "ynie/albert-xxlarge-v2-snli_mnli_fever_anli_R1_R2_R3-nli": transformers.AutoModelForSequenceClassification,
    "openai/clip-vit-base-patch32": transformers.CLIPModel,
    "Salesforce/blip-itm-base-coco": transformers.BlipForImageTextRetrieval,
    "Salesforce/blip2-itm-vit-g": transformers.Blip2ForImageTextRetrieval,
    "facebook/flava-full": transformers.FlavaForPreTraining,
    "unc-nlp/lxmert-base-uncased": transformers.LxmertForPreTraining,
    "unc-nlp/lxmert-vqa-uncased": transformers.LxmertForQuestionAnswering,
    "uclanlp/visualbert-vqa-coco-pre": transformers.VisualBertForPreTraining,
}


@pytest.mark.usefixtures("real_vocabularies")
@pytest.mark.parametrize(
    "model",
    mark_families(
        CLASSES,
        "openai-community/gpt2",
        "llava-hf/llava-v1.6-vicuna-7b-hf",
        "openai/clip-vit-base-patch32",
    ),
)
def test_a_tiny_checkpoint_loads_completely_and_is_the_same_each_time(tmp_path, model):
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        hub.build({model: COMMIT}, folder)
    first, second = (
        {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        for folder in folders
    )
    assert first == second
    _, report = CLASSES[model].from_pretrained(
        folders[0] / model, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]


@pytest.mark.usefixtures("real_vocabularies")
@pytest.mark.parametrize(
    "model",
    mark_families(
        [model for model in vision.BUILDERS if model.startswith("llava-hf/")],
        "llava-hf/llava-v1.6-vicuna-7b-hf",
    ),
)
def test_a_processor_of_the_published_runs_is_completed_and_its_network_reads_as_its_own(
    tmp_path, model
):
    hub.build({model: COMMIT}, tmp_path)
    processor = transformers.AutoProcessor.from_pretrained(tmp_path / model)
    assert processor.patch_size is None
    loaded = load_vision_decoder(
        ModelSpec("mine", "vision", str(tmp_path / model), "local"),
        Device("cpu", 1, ""),
    )
    assert loaded.processor.patch_size == vision.PATCH


@pytest.mark.families
@pytest.mark.usefixtures("real_vocabularies")
def test_mplug_owl3_is_loaded_completely_without_code_of_its_repository(tmp_path):
    model = "mPLUG/mPLUG-Owl3-7B-240728"
    hub.build({model: COMMIT}, tmp_path)
    loaded = load_decoder(
        ModelSpec("mine", "vision", str(tmp_path / model), "local"),
        Device("cpu", 1, ""),
    )
    assert loaded.image_id == len(loaded.tokenizer) - 1
