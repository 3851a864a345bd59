"""The data set card: a README with the header that the Hugging Face hub reads."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from huggingface_hub import DatasetCard, DatasetCardData

from waltz.core.schema import BENCHMARK
from waltz.export.facts import UNKNOWN, StudyFacts, get_hub_name
from waltz.export.parts import WrittenPart, build_export_schema, get_column_descriptions
from waltz.export.statements import Statements, count_validity

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
SIZE_NAMES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M")
CODE_OR_SPECIAL = re.compile(r"(`[\w.:\[\]-]+`)|([\\`*_\[\]|#~])")
BIBTEX_ESCAPES = str.maketrans(
    {**{letter: f"\\{letter}" for letter in "&%_#${}"}, "\\": r"\textbackslash{}", "~": r"\~{}", "^": r"\^{}"}
)
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def render_card(facts: StudyFacts, written_parts: Sequence[WrittenPart], statements: Statements, version: str) -> str:
    """Render the data set card as Markdown with a YAML header."""
    sections = [
        f"# {escape_markdown(facts.study)}\n\n{escape_markdown(statements.summary)}\n\nVersion {version}."
        " Machine-readable description: `croissant.json` (Croissant 1.0 with responsible-AI fields).",
        _render_parts(written_parts, statements),
        _render_columns(written_parts),
        _render_labels(facts),
        _render_example(written_parts),
        _render_provenance(facts, written_parts),
        _render_construction(facts),
        _render_faults(statements),
        _render_citations(facts, statements, version),
    ]
    header = _build_header(facts, written_parts, statements).to_yaml()
    body = "\n\n".join(section for section in sections if section)
    return str(DatasetCard(f"---\n{header}\n---\n\n{body}\n"))


def _build_header(facts: StudyFacts, written_parts: Sequence[WrittenPart], statements: Statements) -> DatasetCardData:
    """Return the header that the Hugging Face hub reads."""
    total = sum(written_part.part.items.num_rows for written_part in written_parts)
    hub_names = {licence: get_hub_name(None if licence == UNKNOWN else licence) for licence in statements.licences}
    licences = list(dict.fromkeys(hub_names.values()))
    other_licences = "; ".join(licence for licence, name in hub_names.items() if name == "other")
    annotators = {kind for written_part in written_parts for kind in _list_annotators(written_part)}
    return DatasetCardData(
        pretty_name=facts.study,
        license=licences[0] if len(licences) == 1 else licences,
        license_name=other_licences or None,
        language=list(statements.languages),
        task_categories=["image-text-to-text", "zero-shot-image-classification"],
        size_categories=[SIZE_NAMES[sum(total >= size for size in SIZES)]],
        annotations_creators=sorted(annotators) or ["no-annotation"],
        tags=[*statements.tags, "croissant"],
        configs=[
            {
                "config_name": written_part.part.name,
                "data_files": [{"split": split, "path": paths} for split, paths in written_part.splits.items()],
            }
            for written_part in written_parts
        ],
    )


def _list_annotators(written_part: WrittenPart) -> set[str]:
    """Return the kinds of voters of a part, in the hub's words.

    Where `voter` is null although there are votes, they are those of the release's workers or of others.
    """
    if written_part.part.layout is not BENCHMARK:
        return set()
    rows = written_part.part.items.select(["voter", "votes_caption"]).to_pylist()
    unnamed = "crowdsourced" if written_part.part.form == "valse-release" else "other"
    hub_words = {"oracle": "machine-generated", "people": "other", None: unnamed}
    return {hub_words[row["voter"]] for row in rows if row["votes_caption"] is not None}


def _render_parts(written_parts: Sequence[WrittenPart], statements: Statements) -> str:
    rows = []
    for part in (written_part.part for written_part in written_parts):
        counts = count_validity(part)
        numbers = () if counts is None else (counts.valid, counts.invalid, counts.unvoted)
        votes = [f"{number:,}" for number in numbers] or ["–"] * 3
        embedded = "embedded" if part.images is not None else "names only"
        rows.append([f"`{part.name}`", f"{part.items.num_rows:,}", *votes, embedded])
    descriptions = "\n".join(f"- `{name}`: {escape_markdown(text)}" for name, text in statements.parts.items())
    table = _render_table(["configuration", "items", "valid", "not valid", "no votes", "images"], rows)
    parts = [written_part.part for written_part in written_parts]
    reasons = {part.source: part.no_images_reason for part in parts if part.no_images_reason is not None}
    reason_list = "\n".join(f"- `{source}`: {escape_markdown(reason)}." for source, reason in reasons.items())
    excluded = f"\n\nImages that are not included, by source, with the reason:\n\n{reason_list}" if reasons else ""
    splits = "The split `test` has all items of a configuration, `valid` those that were not voted invalid."
    return f"## Configurations\n\n{splits}\n\n{table}\n\n{descriptions}{excluded}"


def _render_columns(written_parts: Sequence[WrittenPart]) -> str:
    sections = []
    for layout in dict.fromkeys(written_part.part.layout.name for written_part in written_parts):
        parts = [written_part.part for written_part in written_parts if written_part.part.layout.name == layout]
        descriptions = get_column_descriptions(parts[0].layout)
        schema = build_export_schema(parts[0].layout, any(part.images is not None for part in parts))
        rows = [[f"`{name}`", escape_markdown(descriptions[name])] for name in schema.names]
        part_names = ", ".join(f"`{part.name}`" for part in parts)
        sections.append(f"Of {part_names}:\n\n{_render_table(['column', 'meaning'], rows)}")
    return "## Columns\n\n" + "\n\n".join(sections)


def _render_labels(facts: StudyFacts) -> str:
    return (
        "## Labels\n\nThere is no label column: `caption` is the right text and `foil` the wrong one. A model is"
        " right on an item where it scores the caption above the foil. Usually only the split `valid` is scored: the"
        f" column `valid` is true with at least {facts.valid_votes} votes for the caption and fewer for the foil."
        " It is null, not false, where nobody voted; such items are in the split `valid`."
    )


def _render_example(written_parts: Sequence[WrittenPart]) -> str:
    part = written_parts[0].part
    row = part.items.slice(0, 1).to_pylist()[0]
    values = {
        name: row["image" if name == "image_file" else name] for name in build_export_schema(part.layout, False).names
    }
    return f"An item of `{part.name}`:\n\n```json\n{json.dumps(values, indent=1)}\n```"


def _render_provenance(facts: StudyFacts, written_parts: Sequence[WrittenPart]) -> str:
    sources = [
        [
            f"`{source.name}`",
            escape_markdown(source.form) + (", drawn by waltz" if source.drawn else ""),
            escape_markdown(source.terms.texts or UNKNOWN),
            escape_markdown(source.terms.images or UNKNOWN),
            escape_markdown(source.terms.citation or "none stated"),
        ]
        for source in facts.sources.values()
    ]
    raw_files = [
        [f"`{source.name}`", f"`{file.name}`", escape_markdown(file.origin), f"`{file.sha256}`"]
        for source in facts.sources.values()
        for file in source.files
    ]
    data_files = [
        [f"`{file.path}`", f"{file.size:,}", f"`{file.sha256}`"]
        for written_part in written_parts
        for file in written_part.files
    ]
    columns = ["source", "format", "licence of texts", "licence of images", "citation"]
    return "\n\n".join(
        [
            "## Provenance",
            f"Sources:\n\n{_render_table(columns, sources)}",
            f"Raw files of the sources:\n\n{_render_table(['source', 'file', 'origin', 'SHA-256'], raw_files)}",
            f"Files of this data set:\n\n{_render_table(['file', 'bytes', 'SHA-256'], data_files)}",
        ]
    )


def _render_construction(facts: StudyFacts) -> str:
    if not facts.funnel:
        return ""
    steps = list(dict.fromkeys(row["step"] for row in facts.funnel))
    by_instrument: dict[str, dict[str, int]] = {}
    for row in facts.funnel:
        by_instrument.setdefault(row["instrument"], {})[row["step"]] = row["count"]
    table = _render_table(
        ["instrument", *steps],
        [[f"`{name}`", *(f"{counts[step]:,}" for step in steps)] for name, counts in by_instrument.items()],
    )
    losses = [
        [f"`{row['instrument']}`", row["step"], escape_markdown(reason["reason"]), f"{reason['count']:,}"]
        for row in facts.funnel
        for reason in row["lost"]
    ]
    models = "; ".join(f"{escape_markdown(role)}: {escape_markdown(model)}" for role, model in facts.models.items())
    settings = [
        [f"`{name}`", escape_markdown("; ".join(f"{key}: {_render_value(value)}" for key, value in entry.items()))]
        for name, entry in facts.instruments.items()
    ]
    return "\n\n".join(
        [
            f"## Construction\n\nSeed {facts.seed}. " + (f"Models: {models}." if models else "No models were used."),
            f"Candidates that remain after each step (`funnel.parquet`):\n\n{table}",
            f"Reasons for the losses:\n\n{_render_table(['instrument', 'step', 'reason', 'candidates'], losses)}"
            if losses
            else "",
            f"Settings of the study:\n\n{_render_table(['instrument', 'settings'], settings)}",
        ]
    ).replace("\n\n\n\n", "\n\n")


def _render_value(value: Any) -> str:
    """Return a setting as it is written_part in a study."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _render_faults(statements: Statements) -> str:
    lines = [f"- {escape_markdown(fault)}" for fault in statements.common_faults]
    for name, faults in statements.faults.items():
        lines += [f"- `{name}`:"] * bool(faults) + [f"  - {escape_markdown(fault)}" for fault in faults]
    biases = [f"- {escape_markdown(bias)}" for bias in statements.responsible.get("dataBiases", [])]
    if biases:
        lines += ["", "Biases found by judges that do not see the image:", "", *biases]
    return "## Known faults\n\n" + "\n".join(lines)


def _render_citations(facts: StudyFacts, statements: Statements, version: str) -> str:
    citations = [f"- {escape_markdown(text)}" for text in statements.citations]
    sources = ["Please cite the sources:", "\n".join(citations)] if citations else []
    return "\n\n".join(["## Citation", *sources, f"```bibtex\n{render_bibtex(facts, statements, version)}```"])


def render_bibtex(facts: StudyFacts, statements: Statements, version: str) -> str:
    """Render BibTeX entries of the data set and of the citations of its sources, which are one line of text each."""
    about = facts.about
    entries = {
        facts.study: {
            "title": f"The benchmark of the study {facts.study}, made with waltz",
            "author": " and ".join(f"{{{escape_bibtex(name)}}}" for name in about.get("creators", [])),
            "year": str(about.get("published", ""))[:4],
            "version": version,
            "url": about.get("url", ""),
        },
        **{f"{facts.study}-source-{number}": {"note": text} for number, text in enumerate(statements.citations, 1)},
    }
    lines = []
    for key, fields in entries.items():
        lines.append(f"@misc{{{key},")
        for name, value in fields.items():
            text = value if name in ("author", "url") else escape_bibtex(value)
            lines += [f"  {name} = {{{text}}},"] if value else []
        lines.append("}")
    return "\n".join(lines) + "\n"


def escape_bibtex(text: str) -> str:
    """Return a text on one line that LaTeX shows unchanged."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split())).translate(BIBTEX_ESCAPES)


def _render_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape_markdown(text: str) -> str:
    """Return a text on one line that Markdown shows unchanged; plain names between backticks stay code."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    literal = CODE_OR_SPECIAL.sub(lambda match: match[1] or f"\\{match[2]}", escaped)
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", " ".join(literal.split()))
