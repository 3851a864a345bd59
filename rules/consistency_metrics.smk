"""What stage consistency says together."""

CONSISTENCY_FILES = {
    kind: [
        f"<results>/consistency/{model}/{kind}/{dataset}.parquet"
        for model, dataset in TESTED
    ]
    for kind in ("tests", "cc-shap", "edited")
}


rule consistency_metrics:
    """Every number of the self-consistency tests and of CC-SHAP, and the correlations between them."""
    input:
        tests=CONSISTENCY_FILES["tests"],
        cc_shap=CONSISTENCY_FILES["cc-shap"] if study("consistency.cc_shap") else [],
        edited=(
            CONSISTENCY_FILES["edited"] if study("consistency.cc_shap.edits") else []
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
