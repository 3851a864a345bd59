"""Croissant 1.0 metadata of an exported data set, with its responsible-AI fields (MLCommons' specifications)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from waltz.core.schema import SPAN
from waltz.export.columns import IMAGE, build_export_schema, get_column_descriptions, get_croissant_type
from waltz.export.facts import StudyFacts
from waltz.export.licences import find_licence
from waltz.export.parts import DataFile, WrittenPart
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
    facts: StudyFacts, parts: Sequence[WrittenPart], others: Sequence[DataFile], said: Statements, version: str
) -> str:
    """The metadata as JSON-LD.

    Args:
        facts: What the study says.
        parts: The configurations and their files; each becomes a record set.
        others: Further Parquet files, without a record set.
        said: What the card says in sentences.
        version: Version of the data set, `MAJOR.MINOR.PATCH` and what semantic versioning lets follow.
    """
    about = facts.about
    licences = [known.url if (known := find_licence(stated)) else stated for stated in said.licences]
    given = {
        "url": about.get("url"),
        "creator": [{"@type": "Organization", "name": name} for name in about.get("creators", [])],
        "datePublished": str(about.get("published", "")),
    }
    document = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": facts.study,
        "description": said.summary,
        "inLanguage": list(said.languages),
        "keywords": list(said.tags),
        "license": licences,
        "citeAs": " ".join(said.citations),
        "version": version,
        **{key: value for key, value in given.items() if value},
        **{f"rai:{name}": value for name, value in said.responsible.items() if value},
        "distribution": [entry for part in parts for entry in _distribution(part)] + [_file_object(f) for f in others],
        "recordSet": [_record_set(part, said) for part in parts],
    }
    return json.dumps({key: value for key, value in document.items() if value != []}, indent=1) + "\n"


def _distribution(written: WrittenPart) -> list[Json]:
    """The files of a part; where there are several, also their set, which the fields are read from."""
    files = [_file_object(file) for file in written.files]
    if len(files) == 1:
        return files
    name = written.part.name
    parts = {
        "@type": "cr:FileSet",
        "@id": f"{name}-files",
        "name": f"{name}-files",
        "encodingFormat": PARQUET,
        "includes": f"{name}/*.parquet",
    }
    return [*files, parts]


def _file_object(file: DataFile) -> Json:
    return {
        "@type": "cr:FileObject",
        "@id": file.path,
        "name": file.path,
        "contentUrl": file.path,
        "contentSize": f"{file.size} B",
        "encodingFormat": PARQUET,
        "sha256": file.sha256,
    }


def _record_set(written: WrittenPart, said: Statements) -> Json:
    part = written.part
    if len(written.files) == 1:
        origin = {"fileObject": {"@id": written.files[0].path}}
    else:
        origin = {"fileSet": {"@id": f"{part.name}-files"}}
    told = get_column_descriptions(part.layout)
    schema = build_export_schema(part.layout, part.images is not None)
    return {
        "@type": "cr:RecordSet",
        "@id": part.name,
        "name": part.name,
        "description": said.parts[part.name],
        "key": {"@id": f"{part.name}/item_id"},
        "field": [_field(f"{part.name}/{column.name}", column, told[column.name], origin) for column in schema],
    }


def _field(name: str, column: pa.Field, meaning: str, origin: Mapping[str, Any]) -> Json:
    found = {"@type": "cr:Field", "@id": name, "name": name, "description": meaning}
    source = {**origin, "extract": {"column": column.name}}
    kind = column.type
    if kind == SPAN:
        ends = [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{end.name}",
                "name": f"{name}/{end.name}",
                "dataType": get_croissant_type(end.type),
                "source": {**source, "transform": {"jsonPath": end.name}},
            }
            for end in kind
        ]
        return {**found, "subField": ends}
    if kind == IMAGE:
        return {**found, "dataType": get_croissant_type(kind), "source": {**source, "transform": {"jsonPath": "bytes"}}}
    if pa.types.is_list(kind):
        return {**found, "dataType": get_croissant_type(kind.value_type), "repeated": True, "source": source}
    return {**found, "dataType": get_croissant_type(kind), "source": source}
