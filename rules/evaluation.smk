"""Stage evaluation: one score per item and role."""


rule perplexity:
    """Captions and foils of all data sets by one language model, which sees no image (thesis 3.4)."""
    input:
        pairs=expand("<results>/benchmark/{dataset}.parquet", dataset=SCORED),
        weights=lambda wildcards: weight_files(MODELS[wildcards.model]),
    output:
        scores=expand(
            "<results>/evaluation/{{model}}/{dataset}.parquet", dataset=SCORED
        ),
        runs=expand("<results>/evaluation/{{model}}/{dataset}.run.json", dataset=SCORED),
    log:
        "<logs>/perplexity/{model}.log",
    conda:
        "../envs/models.yaml"
    threads: 8
    resources:
        gpu=1,
        mem_mb=6000,
    params:
        model=lambda wildcards: decisive(MODELS[wildcards.model]),
        profiles=study("profiles"),
        scored=study("evaluation.items"),
        sample=study("evaluation.sample"),
        seed=study("seed"),
        tokens_per_batch=study("evaluation.tokens_per_batch"),
        code=code("perplexity.py"),
    script:
        "../workflow/scripts/perplexity.py"
