"""The data set card: a README with the header that the Hugging Face hub reads."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from waltz.core.schema import BENCHMARK
from waltz.export.columns import build_export_schema, get_column_descriptions
from waltz.export.facts import StudyFacts
from waltz.export.licences import UNKNOWN, get_hub_name
from waltz.export.parts import WrittenPart
from waltz.export.statements import Statements, count_validity

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
SIZE_NAMES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M")
CODE_OR_SPECIAL = re.compile(r"(`[\w.:\[\]-]+`)|([\\`*_\[\]|#~])")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def render_card(facts: StudyFacts, written: Sequence[WrittenPart], said: Statements, version: str) -> str:
    """The card as Markdown.

    Args:
        facts: What the study says.
        written: The parts and their files.
        said: What is said in sentences.
        version: Version of the data set.
    """
    header = yaml.safe_dump(_header(facts, written, said), sort_keys=False, allow_unicode=True, width=120)
    sections = [
        f"# {_safe(facts.study)}\n\n{_safe(said.summary)}\n\nVersion {version}. Machine-readable description:"
        " `croissant.json` (Croissant 1.0 with responsible-AI fields).",
        _parts(written, said),
        _columns(written),
        _labels(facts),
        _example(written),
        _provenance(facts, written),
        _construction(facts),
        _faults(said),
        _citations(facts, said),
    ]
    return f"---\n{header}---\n\n" + "\n\n".join(section for section in sections if section) + "\n"


def _header(facts: StudyFacts, written: Sequence[WrittenPart], said: Statements) -> dict[str, Any]:
    total = sum(entry.part.items.num_rows for entry in written)
    names = {stated: get_hub_name(None if stated == UNKNOWN else stated) for stated in said.licences}
    licences = list(dict.fromkeys(names.values()))
    others = "; ".join(stated for stated, name in names.items() if name == "other")
    kinds = {kind for entry in written for kind in _annotators(entry)}
    return {
        "pretty_name": facts.study,
        "license": licences[0] if len(licences) == 1 else licences,
        **({"license_name": others} if others else {}),
        "language": list(said.languages),
        "task_categories": ["image-text-to-text", "zero-shot-image-classification"],
        "size_categories": [SIZE_NAMES[sum(total >= size for size in SIZES)]],
        "annotations_creators": sorted(kinds) or ["no-annotation"],
        "tags": [*said.tags, "croissant"],
        "configs": [
            {"config_name": part.name, "data_files": [{"split": "test", "path": f"{part.name}/test-*.parquet"}]}
            for part in (entry.part for entry in written)
        ],
    }


def _annotators(entry: WrittenPart) -> set[str]:
    """Who voted on a part, in the hub's words; where `voter` says nothing of votes, the release's workers or others."""
    if entry.part.layout is not BENCHMARK:
        return set()
    rows = entry.part.items.select(["voter", "votes_caption"]).to_pylist()
    unnamed = "crowdsourced" if entry.part.form == "valse-release" else "other"
    words = {"oracle": "machine-generated", "people": "other", None: unnamed}
    return {words[row["voter"]] for row in rows if row["votes_caption"] is not None}


def _parts(written: Sequence[WrittenPart], said: Statements) -> str:
    rows = []
    for entry in written:
        found = count_validity(entry.part)
        votes = ["–"] * 3 if found is None else [f"{number:,}" for number in (found.valid, found.invalid, found.silent)]
        embedded = "embedded" if entry.part.images is not None else "names only"
        rows.append([f"`{entry.part.name}`", f"{entry.part.items.num_rows:,}", *votes, embedded])
    told = "\n".join(f"- `{name}`: {_safe(text)}" for name, text in said.parts.items())
    table = _table(["configuration", "items", "valid", "not valid", "no votes", "images"], rows)
    reasons = {entry.part.source: entry.part.kept_out for entry in written if entry.part.kept_out is not None}
    absent = "\n".join(f"- `{source}`: {_safe(reason)}." for source, reason in reasons.items())
    why = f"\n\nImages that are named only, by source, and why:\n\n{absent}" if reasons else ""
    return f"## Configurations\n\nEach has one split, `test`.\n\n{table}\n\n{told}{why}"


def _columns(written: Sequence[WrittenPart]) -> str:
    sections = []
    for layout in dict.fromkeys(entry.part.layout.name for entry in written):
        parts = [entry.part for entry in written if entry.part.layout.name == layout]
        told = get_column_descriptions(parts[0].layout)
        schema = build_export_schema(parts[0].layout, any(part.images is not None for part in parts))
        rows = [[f"`{name}`", _safe(told[name])] for name in schema.names]
        named = ", ".join(f"`{part.name}`" for part in parts)
        sections.append(f"Of {named}:\n\n{_table(['column', 'meaning'], rows)}")
    return "## Columns\n\n" + "\n\n".join(sections)


def _labels(facts: StudyFacts) -> str:
    return (
        "## Labels\n\nThere is no label column: `caption` is the right text and `foil` the wrong one. A model is"
        " right on an item where it scores the caption above the foil. Usually only items with `valid` true are scored:"
        f" those with at least {facts.valid_votes} votes for the caption and fewer for the foil."
        " `valid` is null, not false, where nobody voted."
    )


def _example(written: Sequence[WrittenPart]) -> str:
    part = written[0].part
    row = part.items.slice(0, 1).to_pylist()[0]
    shown = {
        name: row["image" if name == "image_file" else name] for name in build_export_schema(part.layout, False).names
    }
    return f"An item of `{part.name}`:\n\n```json\n{json.dumps(shown, indent=1)}\n```"


def _provenance(facts: StudyFacts, written: Sequence[WrittenPart]) -> str:
    sources = [
        [
            f"`{source.name}`",
            _safe(source.form) + (", drawn by waltz" if source.drawn else ""),
            _safe(source.terms.texts or UNKNOWN),
            _safe(source.terms.images or UNKNOWN),
            _safe(source.terms.citation or "none stated"),
        ]
        for source in facts.sources.values()
    ]
    raw = [
        [f"`{source.name}`", f"`{file.name}`", _safe(file.origin), f"`{file.sha256}`"]
        for source in facts.sources.values()
        for file in source.files
    ]
    ours = [[f"`{file.path}`", f"{file.size:,}", f"`{file.sha256}`"] for entry in written for file in entry.files]
    heads = ["source", "format", "licence of texts", "licence of images", "citation"]
    return "\n\n".join(
        [
            "## Provenance",
            f"Sources:\n\n{_table(heads, sources)}",
            f"Their files, as they were read:\n\n{_table(['source', 'file', 'origin', 'SHA-256'], raw)}",
            f"Files of this data set:\n\n{_table(['file', 'bytes', 'SHA-256'], ours)}",
        ]
    )


def _construction(facts: StudyFacts) -> str:
    if not facts.funnel:
        return ""
    steps = list(dict.fromkeys(row["step"] for row in facts.funnel))
    by_instrument: dict[str, dict[str, int]] = {}
    for row in facts.funnel:
        by_instrument.setdefault(row["instrument"], {})[row["step"]] = row["count"]
    table = _table(
        ["instrument", *steps],
        [[f"`{name}`", *(f"{found[step]:,}" for step in steps)] for name, found in by_instrument.items()],
    )
    lost = [
        [f"`{row['instrument']}`", row["step"], _safe(reason["reason"]), f"{reason['count']:,}"]
        for row in facts.funnel
        for reason in row["lost"]
    ]
    models = "; ".join(f"{_safe(role)}: {_safe(model)}" for role, model in facts.models.items())
    settings = [
        [f"`{name}`", _safe("; ".join(f"{key}: {_plain(value)}" for key, value in entry.items()))]
        for name, entry in facts.instruments.items()
    ]
    return "\n\n".join(
        [
            f"## Construction\n\nSeed {facts.seed}. " + (f"Models: {models}." if models else "No model took part."),
            f"Candidates that are left after each step (`funnel.parquet`):\n\n{table}",
            f"Why the others are not:\n\n{_table(['instrument', 'step', 'reason', 'candidates'], lost)}"
            if lost
            else "",
            f"What the study asked for:\n\n{_table(['instrument', 'settings'], settings)}",
        ]
    ).replace("\n\n\n\n", "\n\n")


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _faults(said: Statements) -> str:
    lines = [f"- {_safe(fault)}" for fault in said.common]
    for name, found in said.faults.items():
        lines += [f"- `{name}`:"] * bool(found) + [f"  - {_safe(fault)}" for fault in found]
    biases = [f"- {_safe(bias)}" for bias in said.responsible.get("dataBiases", [])]
    told = "\n\nWhat judges that see no image make of caption and foil:\n\n" + "\n".join(biases) if biases else ""
    return "## Known faults\n\n" + "\n".join(lines) + told


def _citations(facts: StudyFacts, said: Statements) -> str:
    if not said.citations:
        return ""
    return "## Citation\n\nPlease cite the sources:\n\n" + "\n".join(f"- {_safe(text)}" for text in said.citations)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _safe(text: str) -> str:
    """A text on one line that Markdown shows as it is, but for plain names between backticks, which stay code."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    quiet = CODE_OR_SPECIAL.sub(lambda found: found[1] or f"\\{found[2]}", escaped)
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", " ".join(quiet.split()))
