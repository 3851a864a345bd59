"""What stage consistency says together."""


def consistency_files(kind):
    """The files of one kind, a model and data set each."""
    return [
        f"<results>/consistency/{model}/{kind}/{dataset}.parquet"
        for model, dataset in TESTED
    ]


rule consistency_metrics:
    """Every number of the self-consistency tests and of CC-SHAP, and the correlations between them."""
    input:
        tests=consistency_files("tests"),
        cc_shap=consistency_files("cc-shap") if study("consistency.cc_shap") else [],
        edited=(
            consistency_files("edited") if study("consistency.cc_shap.edits") else []
        ),
    output:
        metrics="<results>/consistency/metrics.parquet",
        correlations="<results>/consistency/correlations.parquet",
    log:
        "<logs>/consistency_metrics.log",
    conda:
        "../envs/report.yaml"
    params:
        runs=TESTED,
        resamples=study("reporting.resamples"),
        confidence=study("reporting.confidence"),
        seed=study("seed"),
        code=code("consistency_metrics.py"),
    script:
        "../workflow/scripts/consistency_metrics.py"
