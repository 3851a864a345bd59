"""Stage export: the built benchmark as others use it. No part of `all`: `snakemake export`."""

from waltz.export.licences import read_terms

EXPORTED = {
    **{name: (entry["source"], entry["format"]) for name, entry in DATASETS.items()},
    **{
        name: (entry["source"], "instrument")
        for name, entry in INSTRUMENTS.items()
        if name not in DATASETS
    },
    **{name: (PROBES["source"], CV_PROBES) for name in PROBE_SETS},
}
EXPORTED_SOURCES = {
    source: config["sources"][source] for source, _ in EXPORTED.values()
}
EMBEDDED = [
    source
    for source, entry in EXPORTED_SOURCES.items()
    if read_terms(entry).kept_out is None
]
ORIGINALS = sorted(
    {
        entry["source"]
        for name, entry in INSTRUMENTS.items()
        if REGISTRY[name].needs_source_row and name not in DATASETS
    }
)
MADE_WITH = {
    f"{stage}: {key}": study(f"{stage}.{key}")
    for stage, keys in (
        ("proposals", sorted(set(PROPOSED.values()))),
        ("filters", sorted(FILTER_KEYS)),
    )
    for key in keys
    if INSTRUMENTS and key in study(stage)
}


localrules:
    export,


rule export_benchmark:
    """A data set folder for the Hugging Face hub with Croissant metadata, and files in VALSE's layout."""
    input:
        benchmark=expand("<results>/benchmark/{name}.parquet", name=EXPORTED),
        rows=expand("<results>/sources/{source}.parquet", source=ORIGINALS),
        raw=[
            raw_file(source, name)
            for source, entry in EXPORTED_SOURCES.items()
            for name in entry["files"]
        ],
        images=[raw_file(source, IMAGES) for source in EMBEDDED],
        funnel="<results>/benchmark/funnel.parquet" if INSTRUMENTS else [],
        audit=(
            "<results>/benchmark/audit.parquet"
            if INSTRUMENTS and study("benchmark.audit")
            else []
        ),
        tables=expand(
            "workflow/waltz/export/{table}.yaml", table=["licences", "faults"]
        ),
    output:
        dataset=directory("<results>/export/dataset"),
        valse=directory("<results>/export/valse"),
        run="<results>/export/export.run.json",
    log:
        "<logs>/export_benchmark.log",
    conda:
        "../envs/export.yaml"
    params:
        study=config["study"],
        seed=study("seed"),
        valid_votes=study("benchmark.valid_votes"),
        parts=EXPORTED,
        sources=EXPORTED_SOURCES,
        rows=ORIGINALS,
        images=EMBEDDED,
        instruments=INSTRUMENTS,
        models=MADE_WITH,
        span_method=(
            f"span prediction by {study('proposals.spans')} (max span={study('proposals.longest')}, topk={study('proposals.best')})"
            if "relations" in INSTRUMENTS
            else ""
        ),
        about=study("export"),
        code=code("export.py"),
    script:
        "../workflow/scripts/export.py"


rule export:
    """The export alone."""
    input:
        rules.export_benchmark.output,
