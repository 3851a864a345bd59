"""Stage export: the built benchmark as others use it. No part of `all`: `snakemake export`."""


localrules:
    export,


rule export_benchmark:
    """A data set folder for the Hugging Face hub with Croissant metadata and tasks, and files in VALSE's layout."""
    input:
        **EXPORT.summaries,
        benchmark=expand("<results>/benchmark/{name}.parquet", name=EXPORT.parts),
        rows=expand("<results>/sources/{source}.parquet", source=EXPORT.originals),
        raw=EXPORT.raw_files,
        images=EXPORT.images,
    output:
        dataset=directory("<results>/export/dataset"),
        valse=directory("<results>/export/valse"),
        run="<results>/export/export.run.json",
    log:
        "<logs>/export_benchmark.log",
    conda:
        "../envs/environment.yaml"
    params:
        tables=tables("export/licenses.yaml", "export/faults.yaml"),
        prompts=tables("resources/prompts/equations.yaml"),
        settings=dict(
            study=STUDY.study,
            seed=STUDY.seed,
            valid_votes=STUDY.benchmark.valid_votes,
            parts=EXPORT.parts,
            sources=EXPORT.sources,
            rows=EXPORT.originals,
            images=EXPORT.embedded,
            instruments=EXPORT.instruments,
            models=EXPORT.models,
            span_method=EXPORT.span_method,
            about=STUDY.export.to_dict(),
        ),
        version=__version__,
        code=code("export.py"),
    script:
        "../workflow/scripts/export.py"


rule export:
    """The export alone."""
    input:
        rules.export_benchmark.output,


# Metrics alone, in the format of a public collection of evaluations.
rule export_results:
    """The metrics of all models as JSON of Every Eval Ever."""
    input:
        metrics="<results>/evaluation/metrics.parquet",
        records=REPORT.list_records("evaluation", PLAN.scored),
    output:
        results=directory("<results>/export/results"),
        run="<results>/export/results.run.json",
    log:
        "<logs>/export_results.log",
    conda:
        "../envs/environment.yaml"
    params:
        settings=dict(
            **settings("resampling"),
            study=STUDY.study,
            parts=list(EXPORT.parts),
            weights={name: MODELS[name].weights for name in MODELS},
            locked=MODELS.locked,
            lock=STUDY.lock_file,
            about=STUDY.export.to_dict(),
        ),
        code=code("export_results.py"),
    script:
        "../workflow/scripts/export_results.py"
