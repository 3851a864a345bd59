"""The table of docs/reference/models.md: every registered model, the tables it fills, and what is read off it.

`PYTHONPATH=workflow python -m waltz.reporting.model_table` prints it; a test holds the page to it.
"""

import importlib
from pathlib import Path

from waltz.core.files.download_lock import LOCK_ON_DOWNLOAD
from waltz.core.files.urls import is_url
from waltz.models.registry import ModelSpec, estimate_gpu_memory, get_encoder_module, list_encoder_kinds, load_registry
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.paper_values import read_paper_values

PUBLISHED = Path(__file__).parents[3] / "resources" / "published"
HEADER = ("model", "fills", "checkpoint", "class", "score", "match", "precision", "GPU (GB)", "licence")
READ = {
    "text": ("`AutoModelForCausalLM`", "log-probability"),
    "vision": ("`AutoModelForImageTextToText`", "log-probability of the label"),
    "masked": ("`AutoModelForMaskedLM`", "logit of a masked word"),
    "classifier": ("`AutoModelForSequenceClassification`", "logits of its classes"),
    "detector": ("own: `models/detector`", "regions"),
    "clip": ("`CLIPModel`", "scaled cosine"),
    "align": ("`AlignModel`", "scaled cosine"),
    "siglip": ("`SiglipModel`", "p(match), sigmoid"),
    "flava": ("`FlavaForPreTraining`", "p(match)"),
    "blip": ("`BlipForImageTextRetrieval`", "p(match)"),
    "blip-2": ("`Blip2ForImageTextRetrieval`", "p(match)"),
    "lxmert": ("`LxmertForPreTraining`", "p(match)"),
    "lxmert-answering": ("`LxmertForQuestionAnswering`", "p(answer)"),
    "visual-bert": ("`VisualBertForPreTraining`", "p(match)"),
    "albef": ("own: `models/albef`", "p(match)"),
    "albef-answering": ("own: `models/albef`", "p(answer)"),
    "vilbert": ("own: `models/vilbert`", "p(match)"),
    "vilbert-12in1": ("own: `models/vilbert`", "retrieval logit"),
    "vilbert-12in1-itm": ("own: `models/vilbert`", "p(match)"),
}
"""Class, and what is made of its output, by kind."""
BUILDING = {
    "spanbert": "proposes relations",
    "bert-base-cased": "proposes actions, GRUEN",
    "albert-xxlarge-nli": "filter",
    "gruen-cola": "GRUEN",
    "vg-frcnn": "regions of LXMERT, VisualBERT",
}
"""What models do that score nothing."""
DOCUMENTS = {"thesis-": "", "cv-probes-": "CV-Probes ", "decoders-paper-": "decoders paper "}
SHARED = {"vilbert-12in1-itm": "vilbert"}
"""Kinds whose head is that of another kind's module."""
HELPER, HELPS = "llama2-13b-chat", "helper"


def format_model_table() -> str:
    """The table in Markdown; models of other data sets and the synthetic ones, which print has not, fill no table."""
    fills = list_tables_by_model()
    rows = [
        _describe_model(spec, fills.get(spec.name, ())) for spec in load_registry().values() if spec.kind != "ruler"
    ]
    lines = [HEADER, tuple("---" for _ in HEADER), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def list_tables_by_model() -> dict[str, tuple[str, ...]]:
    """Ids of the tables in which print has a model, by our name of it."""
    found: dict[str, list[str]] = {}
    for table in TABLES.values():
        names = {key[1] for number in table.paper_tables for key in read_paper_values(PUBLISHED / f"{number}.csv")}
        for name in names - {"", "random"}:
            for ours in (*table.model_aliases.get(name, (name,)), *table.extra_models.get(name, ())):
                found.setdefault(ours, []).append(table.id)
    return {name: tuple(table for table in TABLES if table in tables) for name, tables in found.items()}


def get_match_index(kind: str) -> int | None:
    """Which output of a kind's matching head says match, as its module has it; None where there is no such head."""
    if SHARED.get(kind, kind) not in list_encoder_kinds():
        return None
    index: int | None = getattr(importlib.import_module(get_encoder_module(SHARED.get(kind, kind))), "MATCH", None)
    return index


def _describe_model(spec: ModelSpec, tables: tuple[str, ...]) -> tuple[str, ...]:
    network, score = READ[spec.kind]
    index = get_match_index(spec.kind)
    used = [BUILDING[spec.name]] if spec.name in BUILDING else []
    used += [_shorten_ids(tables)] if tables else []
    used += [HELPS] if spec.name == HELPER else []
    licence = f"{spec.licence}, gated" if spec.gated else spec.licence
    precision = f"{spec.dtype}, 4 bits" if spec.four_bit else spec.dtype
    return (
        f"`{spec.name}`",
        "; ".join(used) or "-",
        _describe_checkpoint(spec),
        network,
        score,
        "-" if index is None else str(index),
        precision,
        str(estimate_gpu_memory(spec)),
        licence,
    )


def _describe_checkpoint(spec: ModelSpec) -> str:
    if is_url(spec.weights):
        return f"[url]({spec.weights}), {spec.sha256[:7]}"
    revision = LOCK_ON_DOWNLOAD if spec.revision == LOCK_ON_DOWNLOAD else spec.revision[:7]
    return f"{spec.weights} @ {revision}"


def _shorten_ids(tables: tuple[str, ...]) -> str:
    """`3.4, A.1; CV-Probes 3, 4`: numbers by document."""
    found: dict[str, list[str]] = {}
    for table in tables:
        document = next((name for name in DOCUMENTS if table.startswith(name)), "")
        found.setdefault(DOCUMENTS.get(document, ""), []).append(table.removeprefix(document).replace("-", " "))
    return "; ".join(f"{document}{', '.join(numbers)}" for document, numbers in found.items())


if __name__ == "__main__":
    print(format_model_table(), end="")
