"""Croissant 1.0 metadata of an exported data set, with its responsible-AI fields (MLCommons' specifications)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from waltz.core.schema import SPAN
from waltz.export.facts import StudyFacts, find_licence
from waltz.export.parts import (
    IMAGE,
    DataFile,
    WrittenPart,
    build_export_schema,
    get_column_descriptions,
    get_croissant_type,
)
from waltz.export.statements import Statements

CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{
        name: f"cr:{name}"
        for name in (
            *("citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty", "fileSet"),
            *("format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet"),
            *("references", "regex", "repeated", "replace", "samplingRate", "separator", "source", "subField"),
            "transform",
        )
    },
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}
PARQUET = "application/x-parquet"
Json = dict[str, Any]


def render_croissant(
    facts: StudyFacts,
    written_parts: Sequence[WrittenPart],
    further_files: Sequence[DataFile],
    statements: Statements,
    version: str,
) -> str:
    """Render the metadata as JSON-LD.

    Args:
        written_parts: The configurations and their files; each becomes a record set.
        further_files: Further Parquet files, without a record set.
        version: Version of the data set, in the form of semantic versioning.
    """
    about = facts.about
    licences = [known_licence.url if (known_licence := find_licence(name)) else name for name in statements.licences]
    optional_fields = {
        "url": about.get("url"),
        "creator": [{"@type": "Organization", "name": name} for name in about.get("creators", [])],
        "datePublished": str(about.get("published", "")),
    }
    document = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": facts.study,
        "description": statements.summary,
        "inLanguage": list(statements.languages),
        "keywords": list(statements.tags),
        "license": licences,
        "citeAs": " ".join(statements.citations),
        "version": version,
        **{key: value for key, value in optional_fields.items() if value},
        **{f"rai:{name}": value for name, value in statements.responsible.items() if value},
        "distribution": [
            *(entry for written_part in written_parts for entry in _build_distribution(written_part)),
            *map(_build_file_object, further_files),
        ],
        "recordSet": [_build_record_set(written_part, statements) for written_part in written_parts],
    }
    return json.dumps({key: value for key, value in document.items() if value != []}, indent=1) + "\n"


def _build_distribution(written_part: WrittenPart) -> list[Json]:
    """Return the files of a part, and their set if there are several, from which the fields are read."""
    files = [_build_file_object(file) for file in written_part.files]
    if len(files) == 1:
        return files
    name = written_part.part.name
    file_set = {
        "@type": "cr:FileSet",
        "@id": f"{name}-files",
        "name": f"{name}-files",
        "encodingFormat": PARQUET,
        "includes": f"{name}/*.parquet",
    }
    return [*files, file_set]


def _build_file_object(file: DataFile) -> Json:
    return {
        "@type": "cr:FileObject",
        "@id": file.path,
        "name": file.path,
        "contentUrl": file.path,
        "contentSize": f"{file.size} B",
        "encodingFormat": PARQUET,
        "sha256": file.sha256,
    }


def _build_record_set(written_part: WrittenPart, statements: Statements) -> Json:
    part = written_part.part
    if len(written_part.files) == 1:
        origin = {"fileObject": {"@id": written_part.files[0].path}}
    else:
        origin = {"fileSet": {"@id": f"{part.name}-files"}}
    descriptions = get_column_descriptions(part.layout)
    schema = build_export_schema(part.layout, part.images is not None)
    return {
        "@type": "cr:RecordSet",
        "@id": part.name,
        "name": part.name,
        "description": statements.parts[part.name],
        "key": {"@id": f"{part.name}/item_id"},
        "field": [
            _build_field(f"{part.name}/{column.name}", column, descriptions[column.name], origin) for column in schema
        ],
    }


def _build_field(name: str, column: pa.Field, meaning: str, origin: Mapping[str, Any]) -> Json:
    field = {"@type": "cr:Field", "@id": name, "name": name, "description": meaning}
    source = {**origin, "extract": {"column": column.name}}
    kind = column.type
    if kind == SPAN:
        subfields = [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{end.name}",
                "name": f"{name}/{end.name}",
                "dataType": get_croissant_type(end.type),
                "source": {**source, "transform": {"jsonPath": end.name}},
            }
            for end in kind
        ]
        return {**field, "subField": subfields}
    if kind == IMAGE:
        return {**field, "dataType": get_croissant_type(kind), "source": {**source, "transform": {"jsonPath": "bytes"}}}
    if pa.types.is_list(kind):
        return {**field, "dataType": get_croissant_type(kind.value_type), "repeated": True, "source": source}
    return {**field, "dataType": get_croissant_type(kind), "source": source}
