"""Table of docs/reference/models.md: each registered model, the paper tables it fills, and its
score.

`PYTHONPATH=workflow python tests/docs/model_table.py` prints it; a test compares the page with it.
"""

import importlib

from waltz.core.downloads.checksums import LOCK_ON_DOWNLOAD
from waltz.core.downloads.urls import is_url
from waltz.core.files.resources import RESOURCES
from waltz.model_registry import (
    PACKAGE_PREFIX,
    ModelSpec,
    estimate_gpu_memory,
    get_encoder_module,
    is_packaged,
    list_packages,
    load_registry,
)
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.paper_values import read_paper_values

PAPER_TABLES = RESOURCES / "published"
MATCH_PROBABILITY = "p(match)"
"""Score of kinds with a matching head of two outputs, whose module says as MATCH which stands for a
match.
"""
HEADER = (
    "model",
    "fills",
    "checkpoint",
    "class",
    "tokenizer",
    "score",
    "match",
    "precision",
    "GPU (GB)",
    "licence",
)
BERT_KINDS = (
    *(
        "blip",
        "blip-2",
        "flava",
        "lxmert",
        "lxmert-answering",
        "visual-bert",
        "albef",
        "albef-answering",
    ),
    *("vilbert", "vilbert-12in1", "vilbert-12in1-itm"),
)
TOKENIZERS = {
    "llama2": "Llama 2",
    "llama2-chat": "Llama 2",
    "llava-vicuna": "Llama 2",
    "mistral": "Mistral",
    "mistral-chat": "Mistral",
    "bakllava": "Mistral",
    "llava-mistral": "Mistral",
    "falcon": "Falcon",
    "falcon-chat": "Falcon",
    "gpt2": "GPT-2",
    "mplug-owl3": "Qwen2",
    "clip": "CLIP",
    **dict.fromkeys(BERT_KINDS, "BERT, uncased"),
    "detector": "-",
    "vilbert-detector": "-",
}
"""Real tokenizer that a model was tested with (tests/real_tokenizers), by prompt family, or by kind
without one.
"""
OUTPUTS = {
    "text": ("`AutoModelForCausalLM`", "log-probability"),
    "vision": ("`AutoModelForImageTextToText`", "log-probability of the label"),
    "masked": ("`AutoModelForMaskedLM`", "logit of a masked word"),
    "classifier": ("`AutoModelForSequenceClassification`", "logits of its classes"),
    "detector": ("own: `models/networks/detector`", "regions"),
    "vilbert-detector": ("own: `models/networks/vilbert_detector`", "regions"),
    "clip": ("`CLIPModel`", "scaled cosine"),
    "composed": ("own: `models/networks/efficientnet_lite`, `BertModel`", "cosine"),
    "metaclip-2": ("`MetaClip2Model`", "scaled cosine"),
    "open-clip": ("`CLIPModel`", "scaled cosine"),
    "align": ("`AlignModel`", "scaled cosine"),
    "siglip": ("`SiglipModel`", "p(match), sigmoid"),
    "siglip2": ("`Siglip2Model`", "p(match), sigmoid"),
    "flava": ("`FlavaForPreTraining`", MATCH_PROBABILITY),
    "blip": ("`BlipForImageTextRetrieval`", MATCH_PROBABILITY),
    "blip-2": ("`Blip2ForImageTextRetrieval`", MATCH_PROBABILITY),
    "lxmert": ("`LxmertForPreTraining`", MATCH_PROBABILITY),
    "lxmert-answering": ("`LxmertForQuestionAnswering`", "p(answer)"),
    "visual-bert": ("`VisualBertForPreTraining`", MATCH_PROBABILITY),
    "albef": ("own: `models/networks/albef`", MATCH_PROBABILITY),
    "albef-answering": ("own: `models/networks/albef`", "p(answer)"),
    "vilbert": ("own: `models/networks/vilbert`", MATCH_PROBABILITY),
    "vilbert-12in1": ("own: `models/networks/vilbert`", "retrieval logit"),
    "vilbert-12in1-itm": ("own: `models/networks/vilbert`", MATCH_PROBABILITY),
}
"""Class and score by kind of model."""
OWN_DECODERS = {"mplug-owl3": "own: `models/networks/mplug_owl3`"}
"""Decoders whose network transformers lacks."""
USES = {
    "spanbert": "proposes relations",
    "bert-base-cased": "proposes actions, GRUEN",
    "albert-xxlarge-nli": "filter",
    "gruen-cola": "GRUEN",
    "vg-frcnn": "regions of LXMERT, VisualBERT",
    "vilbert-x152": "regions of ViLBERT",
}
"""Uses of models that are not evaluated."""
DOCUMENT_TITLES = {
    "thesis-": "",
    "cv-probes-": "CV-Probes ",
    "decoders-paper-": "decoders paper ",
}
HELPER, HELPER_USE = "llama2-13b-chat", "helper"


def format_model_table() -> str:
    """Return the table in Markdown; a model that is in no paper fills no table."""
    tables_by_model = list_tables_by_model()
    rows = [
        _describe_model(spec, tables_by_model.get(spec.name, ()))
        for spec in load_registry().values()
        if spec.kind != "ruler"
    ]
    lines = [HEADER, tuple("---" for _ in HEADER), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def list_tables_by_model() -> dict[str, tuple[str, ...]]:
    """Return the ids of the paper tables that contain a model, by our name of the model."""
    tables_by_model: dict[str, list[str]] = {}
    for table in TABLES.values():
        if table.paper_differences is not None:
            continue  # compared with differences of other tables' cells, so no table of a paper
        names = {
            key[1]
            for number in table.paper_tables
            for key in read_paper_values(PAPER_TABLES / f"{number}.csv")
        }
        for name in names - {"", "random"}:
            for our_model in (
                *table.model_aliases.get(name, (name,)),
                *table.extra_models.get(name, ()),
            ):
                tables_by_model.setdefault(our_model, []).append(table.id)
    return {
        name: tuple(table for table in TABLES if table in tables)
        for name, tables in tables_by_model.items()
    }


def get_match_index(kind: str) -> int | None:
    """Return the index of the matching head's output for a match; None for a kind without such a
    head.
    """
    if OUTPUTS[kind][1] != MATCH_PROBABILITY:
        return None
    index: int = importlib.import_module(get_encoder_module(kind)).MATCH
    return index


def _describe_model(spec: ModelSpec, tables: tuple[str, ...]) -> tuple[str, ...]:
    """Return the row of a model."""
    network, score = OUTPUTS[spec.kind]
    index = get_match_index(spec.kind)
    uses = [USES[spec.name]] if spec.name in USES else []
    uses += [_shorten_ids(tables)] if tables else []
    uses += [HELPER_USE] if spec.name == HELPER else []
    licence = f"{spec.licence}, gated" if spec.gated else spec.licence
    precision = f"{spec.dtype}, 4 bits" if spec.four_bit else spec.dtype
    return (
        f"`{spec.name}`",
        "; ".join(uses) or "-",
        _describe_checkpoint(spec),
        OWN_DECODERS.get(spec.name, network),
        _describe_tokenizer(spec),
        score,
        "-" if index is None else str(index),
        precision,
        f"{estimate_gpu_memory(spec)} on {spec.gpus} GPUs"
        if spec.gpus > 1
        else str(estimate_gpu_memory(spec)),
        licence,
    )


def _describe_tokenizer(spec: ModelSpec) -> str:
    """Return the real tokenizer that a model was tested with, or that it was a stand-in."""
    if is_packaged(spec):
        return "its own"
    if spec.name.startswith("gpt2"):  # the larger ones are in no prompt family
        return TOKENIZERS["gpt2"]
    return TOKENIZERS.get(spec.family or spec.kind, "stand-in")


def _describe_checkpoint(spec: ModelSpec) -> str:
    """Return the weights of a model with their revision."""
    if is_url(spec.weights):
        return f"[url]({spec.weights}), {spec.sha256[:7]}"
    if is_packaged(spec):
        return ", ".join(
            f"{PACKAGE_PREFIX}{package.name} @ {package.version}"
            for package in list_packages(spec)
        )
    revision = (
        LOCK_ON_DOWNLOAD if spec.revision == LOCK_ON_DOWNLOAD else spec.revision[:7]
    )
    return f"{spec.weights} @ {revision}"


def _shorten_ids(tables: tuple[str, ...]) -> str:
    """Return table numbers by document: `3.4, A.1; CV-Probes 3, 4`."""
    numbers_by_document: dict[str, list[str]] = {}
    for table in tables:
        document = next(
            (name for name in DOCUMENT_TITLES if table.startswith(name)), ""
        )
        numbers_by_document.setdefault(DOCUMENT_TITLES.get(document, ""), []).append(
            table.removeprefix(document).replace("-", " ")
        )
    return "; ".join(
        f"{document}{', '.join(numbers)}"
        for document, numbers in numbers_by_document.items()
    )


if __name__ == "__main__":
    print(format_model_table(), end="")
