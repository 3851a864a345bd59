"""Stage evaluation: what decoders answer, a job for one model and one group of data sets."""

POSED = {
    (group, kind): posed_among(DECODERS[kind][0], names)
    for group, names in SCORED.items()
    for kind in DECODERS
    if posed_among(DECODERS[kind][0], names)
}

for (GROUP, KIND), NAMES in POSED.items():

    rule:
        name:
            f"decode_{GROUP}" if KIND == "vision" else f"decode_texts_{GROUP}"
        input:
            rows=[posed_file(name) for name in NAMES],
            images=images_where(KIND == "vision", NAMES),
            weights=lambda wildcards: weight_files(MODELS[wildcards.decoder]),
            prompts=lambda wildcards: prompts_of(wildcards.decoder),
        output:
            scores=expand(
                "<results>/evaluation/{{decoder}}/{dataset}.parquet", dataset=NAMES
            ),
            runs=expand(
                "<results>/evaluation/{{decoder}}/{dataset}.run.json", dataset=NAMES
            ),
        log:
            f"<logs>/decode/{{decoder}}/{GROUP}.log",
        wildcard_constraints:
            decoder="|".join(map(re.escape, DECODERS[KIND])),
        conda:
            "../envs/models.yaml"
        threads: THREADS
        resources:
            gpu=1,
            mem_mb=lambda wildcards: memory_mb(wildcards.decoder),
            runtime=SCORING_MINUTES,
        params:
            model=lambda wildcards: select_decisive_fields(MODELS[wildcards.decoder]),
            posing=posing(NAMES),
            profiles=study("profiles"),
            scored=study("evaluation.items"),
            sample=study("evaluation.asked") or study("evaluation.sample"),
            seed=study("seed"),
            thought=study("evaluation.thought") or 0,
            code=code("decode.py"),
        script:
            "../workflow/scripts/decode.py"
