"""Croissant 1.0 metadata of an exported data set, with its responsible-AI fields (MLCommons'
specifications).

The builders of `mlcroissant` would replace these dictionaries by as many objects and add `rdflib`,
`networkx` and `requests` to what an export needs; so `mlcroissant` only validates and reads the
result, in the tests.
"""

import json
from collections.abc import Sequence

import pyarrow as pa

from waltz.core.files.json_objects import JsonObject
from waltz.core.schema import SPAN
from waltz.export.facts import BenchmarkFacts, find_license
from waltz.export.parts import (
    IMAGE,
    DataFile,
    WrittenPart,
    build_export_schema,
    get_column_descriptions,
    get_croissant_type,
)
from waltz.export.statements import Statements

CROISSANT_NAMES = (
    *(
        "citeAs",
        "column",
        "equivalentProperty",
        "extract",
        "field",
        "fileObject",
        "fileProperty",
        "fileSet",
    ),
    *(
        "format",
        "includes",
        "isLiveDataset",
        "jsonPath",
        "key",
        "md5",
        "parentField",
        "path",
        "recordSet",
    ),
    *(
        "references",
        "regex",
        "repeated",
        "replace",
        "samplingRate",
        "separator",
        "source",
        "subField",
        "transform",
    ),
)
"""Names that the vocabulary of Croissant defines."""
CONTEXT: JsonObject = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{name: f"cr:{name}" for name in CROISSANT_NAMES},
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


def render_croissant(
    facts: BenchmarkFacts,
    written_parts: Sequence[WrittenPart],
    further_files: Sequence[DataFile],
    statements: Statements,
    version: str,
) -> str:
    """Render the metadata as JSON-LD.

    Args:
        facts: Facts of the study.
        written_parts: The configurations and their files; each becomes a record set.
        further_files: Further Parquet files, without a record set.
        statements: Sentences about the data set.
        version: Version of the data set, in the form of semantic versioning.
    """
    about = facts.about
    # Every file of the data set with its checksum; a part of several files also has their set.
    distribution: list[JsonObject] = []
    for written_part in written_parts:
        distribution += _build_distribution(written_part)
    distribution += map(_build_file_object, further_files)
    creators = [
        {"@type": "Organization", "name": name} for name in about.get("creators", [])
    ]
    # Empty fields are left out: the specification has no null.
    optional_fields = {
        "url": about.get("url"),
        "creator": creators,
        "datePublished": str(about.get("published", "")),
    }
    optional_fields |= {
        f"rai:{name}": value for name, value in statements.responsible.items()
    }
    document = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": [
            "http://mlcommons.org/croissant/1.0",
            "http://mlcommons.org/croissant/RAI/1.0",
        ],
        "name": facts.study,
        "description": statements.summary,
        "inLanguage": list(statements.languages),
        "keywords": list(statements.tags),
        "license": [_get_license_url(name) for name in statements.licenses],
        "citeAs": " ".join(statements.citations),
        "version": version,
        **{key: value for key, value in optional_fields.items() if value},
        "distribution": distribution,
        "recordSet": [
            _build_record_set(written_part, statements)
            for written_part in written_parts
        ],
    }
    return (
        json.dumps(
            {key: value for key, value in document.items() if value != []}, indent=1
        )
        + "\n"
    )


def _get_license_url(name: str) -> str:
    """Return the address of a known license's text, and the name of any other license."""
    license = find_license(name)
    if license is None:
        return name
    return license.url


def _build_distribution(written_part: WrittenPart) -> list[JsonObject]:
    """Return the files of a part, and their set if there are several, from which the fields are
    read.
    """
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


def _build_file_object(file: DataFile) -> JsonObject:
    return {
        "@type": "cr:FileObject",
        "@id": file.path,
        "name": file.path,
        "contentUrl": file.path,
        "contentSize": f"{file.size} B",
        "encodingFormat": PARQUET,
        "sha256": file.sha256,
    }


def _build_record_set(written_part: WrittenPart, statements: Statements) -> JsonObject:
    part = written_part.part
    # Several files of a part are read as a set.
    origin = {"fileSet": {"@id": f"{part.name}-files"}}
    if len(written_part.files) == 1:
        origin = {"fileObject": {"@id": written_part.files[0].path}}
    descriptions = get_column_descriptions(part.layout)
    schema = build_export_schema(part.layout, part.images is not None)
    fields = []
    for column in schema:
        fields.append(
            _build_field(
                f"{part.name}/{column.name}", column, descriptions[column.name], origin
            )
        )
    return {
        "@type": "cr:RecordSet",
        "@id": part.name,
        "name": part.name,
        "description": statements.parts[part.name],
        "key": {"@id": f"{part.name}/item_id"},
        "field": fields,
    }


def _build_field(
    name: str, column: pa.Field, meaning: str, origin: JsonObject
) -> JsonObject:
    """Return the field of a column.

    Args:
        name: Identifier of the field.
        column: The column.
        meaning: Description of the column.
        origin: The file or the set of files that holds the column.
    """
    field = {"@type": "cr:Field", "@id": name, "name": name, "description": meaning}
    source = {**origin, "extract": {"column": column.name}}
    # A struct is a field of fields.
    if column.type == SPAN:
        return {
            **field,
            "subField": [_build_subfield(name, end, source) for end in column.type],
        }
    if column.type == IMAGE:
        # The bytes of the struct of bytes and path.
        source["transform"] = {"jsonPath": "bytes"}
        return {**field, "dataType": get_croissant_type(column.type), "source": source}
    if pa.types.is_list(column.type):
        return {
            **field,
            "dataType": get_croissant_type(column.type.value_type),
            "repeated": True,
            "source": source,
        }
    return {**field, "dataType": get_croissant_type(column.type), "source": source}


def _build_subfield(name: str, member: pa.Field, source: JsonObject) -> JsonObject:
    """Return the field of a member of a struct; `name` and `source` are those of the struct's
    field.
    """
    subfield_name = f"{name}/{member.name}"
    return {
        "@type": "cr:Field",
        "@id": subfield_name,
        "name": subfield_name,
        "dataType": get_croissant_type(member.type),
        "source": {**source, "transform": {"jsonPath": member.name}},
    }
