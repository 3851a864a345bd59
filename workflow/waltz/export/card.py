"""The data set card: a README with the header that the Hugging Face hub reads.

The header and the card are built by `huggingface_hub`; its template for the text below has no place
for the counts, columns, checksums, losses and faults that are stated here, so that the text is
rendered by this module.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow.compute as pc
from huggingface_hub import DatasetCard, DatasetCardData

from waltz.core.schema import BENCHMARK
from waltz.export.facts import UNKNOWN, BenchmarkFacts, SourceFacts, get_hub_name
from waltz.export.parts import (
    DatasetPart,
    WrittenPart,
    build_export_schema,
    get_column_descriptions,
)
from waltz.export.statements import Statements, count_validity

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
SIZE_NAMES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M")
CODE_OR_SPECIAL = re.compile(r"(`[\w.:\[\]-]+`)|([\\`*_\[\]|#~])")
BIBTEX_ESCAPES = str.maketrans(
    {
        **{letter: f"\\{letter}" for letter in "&%_#${}"},
        "\\": r"\textbackslash{}",
        "~": r"\~{}",
        "^": r"\^{}",
    }
)
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def render_card(
    facts: BenchmarkFacts,
    written_parts: Sequence[WrittenPart],
    statements: Statements,
    version: str,
) -> str:
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


def _build_header(
    facts: BenchmarkFacts, written_parts: Sequence[WrittenPart], statements: Statements
) -> DatasetCardData:
    """Return the header that the Hugging Face hub reads."""
    total = sum(written_part.part.items.num_rows for written_part in written_parts)
    # The number of limits that are reached is the index of the size.
    n_reached_sizes = sum(total >= size for size in SIZES)
    hub_names = []
    further_names = []
    for license in statements.licenses:
        hub_name = get_hub_name(license)
        hub_names.append(hub_name)
        if hub_name == "other":
            further_names.append(license)
    licenses: list[str] | str = list(dict.fromkeys(hub_names))
    if len(licenses) == 1:
        licenses = licenses[0]
    annotators: set[str] = set()
    configs = []
    for written_part in written_parts:
        annotators |= _list_annotators(written_part)
        data_files = [
            {"split": split, "path": paths}
            for split, paths in written_part.splits.items()
        ]
        configs.append(
            {"config_name": written_part.part.name, "data_files": data_files}
        )
    return DatasetCardData(
        pretty_name=facts.study,
        license=licenses,
        license_name="; ".join(further_names) or None,
        language=list(statements.languages),
        task_categories=["image-text-to-text", "zero-shot-image-classification"],
        size_categories=[SIZE_NAMES[n_reached_sizes]],
        annotations_creators=sorted(annotators) or ["no-annotation"],
        tags=[*statements.tags, "croissant"],
        configs=configs,
    )


def _list_annotators(written_part: WrittenPart) -> set[str]:
    """Return the kinds of voters of a part, in the hub's words.

    Votes with a null `voter` were given by the release's workers or by unknown people.
    """
    if written_part.part.layout is not BENCHMARK:
        return set()
    hub_words = {"oracle": "machine-generated", "people": "other", None: "other"}
    if written_part.part.form == "valse-release":
        hub_words[None] = "crowdsourced"
    # Items without votes have no annotator.
    items = written_part.part.items.filter(pc.field("votes_caption").is_valid())
    return {hub_words[voter] for voter in items.column("voter").unique().to_pylist()}


def _render_parts(written_parts: Sequence[WrittenPart], statements: Statements) -> str:
    parts = [written_part.part for written_part in written_parts]
    rows = []
    for part in parts:
        counts = count_validity(part)
        # CV-Probes have no votes.
        votes = ["–"] * 3
        if counts is not None:
            votes = [
                f"{number:,}"
                for number in (counts.valid, counts.invalid, counts.unvoted)
            ]
        embedded = "names only" if part.images is None else "embedded"
        rows.append([f"`{part.name}`", f"{part.items.num_rows:,}", *votes, embedded])
    table = _render_table(
        ["configuration", "items", "valid", "not valid", "no votes", "images"], rows
    )
    splits = "The split `test` has all items of a configuration, `valid` those that were not voted invalid."
    descriptions = "\n".join(
        f"- `{name}`: {escape_markdown(text)}"
        for name, text in statements.parts.items()
    )
    return f"## Configurations\n\n{splits}\n\n{table}\n\n{descriptions}{_render_omitted_images(parts)}"


def _render_omitted_images(parts: Sequence[DatasetPart]) -> str:
    """Return the reasons why images are not included, by source; empty if all are."""
    reasons = {
        part.source: part.no_images_reason
        for part in parts
        if part.no_images_reason is not None
    }
    if not reasons:
        return ""
    lines = "\n".join(
        f"- `{source}`: {escape_markdown(reason)}."
        for source, reason in reasons.items()
    )
    return f"\n\nImages that are not included, by source, with the reason:\n\n{lines}"


def _render_columns(written_parts: Sequence[WrittenPart]) -> str:
    parts_by_layout: dict[str, list[DatasetPart]] = {}
    for written_part in written_parts:
        # Parts of one layout share a table of columns.
        parts_by_layout.setdefault(written_part.part.layout.name, []).append(
            written_part.part
        )
    sections = ["## Columns"]
    for parts in parts_by_layout.values():
        layout = parts[0].layout
        descriptions = get_column_descriptions(layout)
        has_images = any(part.images is not None for part in parts)
        schema = build_export_schema(layout, has_images)
        rows = [
            [f"`{name}`", escape_markdown(descriptions[name])] for name in schema.names
        ]
        part_names = ", ".join(f"`{part.name}`" for part in parts)
        sections.append(
            f"Of {part_names}:\n\n{_render_table(['column', 'meaning'], rows)}"
        )
    return "\n\n".join(sections)


def _render_labels(facts: BenchmarkFacts) -> str:
    return (
        "## Labels\n\nThere is no label column: `caption` is the right text and `foil` the wrong one. A model is"
        " right on an item where it scores the caption above the foil, and half right where the two are tied. Usually"
        " only the split `valid` is scored: the column `valid` is true with at least"
        f" {facts.valid_votes} votes for the caption and fewer for the foil."
        " It is null, not false, where nobody voted; such items are in the split `valid`."
    )


def _render_example(written_parts: Sequence[WrittenPart]) -> str:
    part = written_parts[0].part
    row = part.items.slice(0, 1).to_pylist()[0]
    values = {}
    for name in build_export_schema(part.layout, embedded=False).names:
        column = "image" if name == "image_file" else name
        values[name] = row[column]
    return f"An item of `{part.name}`:\n\n```json\n{json.dumps(values, indent=1)}\n```"


def _render_provenance(
    facts: BenchmarkFacts, written_parts: Sequence[WrittenPart]
) -> str:
    source_rows, raw_rows = [], []
    for source in facts.sources.values():
        source_rows.append(_render_source(source))
        for raw_file in source.files:
            origin = escape_markdown(raw_file.origin)
            raw_rows.append(
                [
                    f"`{source.name}`",
                    f"`{raw_file.name}`",
                    origin,
                    f"`{raw_file.sha256}`",
                ]
            )
    data_rows = []
    for written_part in written_parts:
        for data_file in written_part.files:
            data_rows.append(
                [f"`{data_file.path}`", f"{data_file.size:,}", f"`{data_file.sha256}`"]
            )
    columns = ["source", "format", "license of texts", "license of images", "citation"]
    sections = [
        "## Provenance",
        f"Sources:\n\n{_render_table(columns, source_rows)}",
        f"Raw files of the sources:\n\n{_render_table(['source', 'file', 'origin', 'SHA-256'], raw_rows)}",
        f"Files of this data set:\n\n{_render_table(['file', 'bytes', 'SHA-256'], data_rows)}",
    ]
    return "\n\n".join(sections)


def _render_source(source: SourceFacts) -> list[str]:
    """Return the cells of a source: name, format, licenses of texts and images, citation."""
    terms = source.terms
    form = escape_markdown(source.form)
    if source.is_drawn:
        form += ", drawn by waltz"
    return [
        f"`{source.name}`",
        form,
        escape_markdown(terms.texts or UNKNOWN),
        escape_markdown(terms.images or UNKNOWN),
        escape_markdown(terms.citation or "none stated"),
    ]


def _render_construction(facts: BenchmarkFacts) -> str:
    """Return the section about the candidates that remain and are lost at each step; empty without
    instruments.
    """
    if not facts.funnel:
        return ""
    steps = list(dict.fromkeys(record.step for record in facts.funnel))
    # A row for each instrument and a column for each step; then a row for each reason.
    counts_by_instrument: dict[str, dict[str, int]] = {}
    losses = []
    for record in facts.funnel:
        counts_by_instrument.setdefault(record.instrument, {})[record.step] = (
            record.count
        )
        for lost in record.lost:
            losses.append(
                [
                    f"`{record.instrument}`",
                    record.step,
                    escape_markdown(lost.reason),
                    f"{lost.count:,}",
                ]
            )
    count_rows = []
    for name, counts in counts_by_instrument.items():
        count_rows.append([f"`{name}`", *(f"{counts[step]:,}" for step in steps)])
    setting_rows = []
    for name, entry in facts.instruments.items():
        text = "; ".join(
            f"{key}: {_render_value(value)}" for key, value in entry.items()
        )
        setting_rows.append([f"`{name}`", escape_markdown(text)])

    # Foils of some instruments are derived by rules alone.
    models = "No models were used."
    if facts.models:
        roles = (
            f"{escape_markdown(role)}: {escape_markdown(model)}"
            for role, model in facts.models.items()
        )
        models = f"Models: {'; '.join(roles)}."
    sections = [
        f"## Construction\n\nSeed {facts.seed}. {models}",
        "Candidates that remain after each step (`funnel.parquet`):",
        _render_table(["instrument", *steps], count_rows),
    ]
    if losses:
        sections += [
            "Reasons for the losses:",
            _render_table(["instrument", "step", "reason", "candidates"], losses),
        ]
    sections += [
        "Settings of the study:",
        _render_table(["instrument", "settings"], setting_rows),
    ]
    return "\n\n".join(sections)


def _render_value(value: Any) -> str:
    """Return the text of a setting, in the form that a study has."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _render_faults(statements: Statements) -> str:
    lines = _render_list(statements.common_faults)
    for name, faults in statements.faults.items():
        if faults:
            lines.append(f"- `{name}`:")
            lines += [f"  {line}" for line in _render_list(faults)]
    biases = _render_list(statements.responsible.get("dataBiases", []))
    if biases:
        lines += ["", "Biases found by judges that do not see the image:", "", *biases]
    return "## Known faults\n\n" + "\n".join(lines)


def _render_citations(
    facts: BenchmarkFacts, statements: Statements, version: str
) -> str:
    sections = ["## Citation"]
    if statements.citations:
        sections += [
            "Please cite the sources:",
            "\n".join(_render_list(statements.citations)),
        ]
    sections.append(f"```bibtex\n{render_bibtex(facts, statements, version)}```")
    return "\n\n".join(sections)


def render_bibtex(facts: BenchmarkFacts, statements: Statements, version: str) -> str:
    """Render BibTeX entries of the data set and of the citations of its sources, which are one line
    of text each.
    """
    about = facts.about
    # Braces keep BibTeX from splitting the name of an organization.
    authors = " and ".join(
        f"{{{escape_bibtex(name)}}}" for name in about.get("creators", [])
    )
    entries = {
        facts.study: {
            "title": escape_bibtex(
                f"The benchmark of the study {facts.study}, made with waltz"
            ),
            "author": authors,
            "year": escape_bibtex(str(about.get("published", ""))[:4]),
            "version": escape_bibtex(version),
            "url": about.get("url", ""),
        }
    }
    # Citations are one line of text each, so that they become notes.
    for number, citation in enumerate(statements.citations, start=1):
        entries[f"{facts.study}-source-{number}"] = {"note": escape_bibtex(citation)}
    lines = []
    for key, fields in entries.items():
        lines.append(f"@misc{{{key},")
        # Fields without a value are left out.
        lines += [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
        lines.append("}")
    return "\n".join(lines) + "\n"


def escape_bibtex(text: str) -> str:
    """Return a text on one line that LaTeX shows unchanged."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split())).translate(
        BIBTEX_ESCAPES
    )


def _render_list(texts: Iterable[str]) -> list[str]:
    """Return the lines of a list in Markdown."""
    return [f"- {escape_markdown(text)}" for text in texts]


def _render_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape_markdown(text: str) -> str:
    """Return a text on one line that Markdown shows unchanged; plain names between backticks stay
    code.
    """
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # Names in backticks match first and stay; any other special character gets a backslash.
    literal = CODE_OR_SPECIAL.sub(lambda match: match[1] or f"\\{match[2]}", escaped)
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", " ".join(literal.split()))
