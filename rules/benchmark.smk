"""Stage benchmark: items with votes, CV-Probes' conditions, and validation statistics."""

# Votes of the oracle depend on the tables of the embedded world.
ORACLE_WORLD = WORLD if STUDY.benchmark.oracle else []


localrules:  # a second each
    items,
    balance,
    vote,
    vote_next_to_released,
    funnel,


rule items:
    """One raw file that holds finished items, as a benchmark."""
    input:
        unpack(ask(PLAN.list_item_files, "{dataset}")),
    output:
        pairs="<results>/benchmark/{dataset}.parquet",
        annotations="<results>/benchmark/annotations/{dataset}.parquet",
        run="<results>/benchmark/{dataset}.run.json",
    log:
        "<logs>/items/{dataset}.log",
    conda:
        "../envs/environment.yaml"
    params:
        format=ask(PLAN.get_item_format, "{dataset}"),
        source=ask(PLAN.item_sets.get, "{dataset}"),
        columns=ask(PLAN.get_columns, "{dataset}"),
        valid_votes=STUDY.benchmark.valid_votes,
        code=code("items.py"),
    script:
        "../workflow/scripts/items.py"


rule balance:
    """The items of one instrument among its candidates, so that the words exchanged betray no foil."""
    input:
        filtered="<results>/filters/{instrument}.parquet",
    output:
        balanced="<results>/benchmark/balanced/{instrument}.parquet",
    log:
        "<logs>/balance/{instrument}.log",
    conda:
        "../envs/environment.yaml"
    params:
        settings=entry(
            STUDY.instruments,
            "{instrument}",
            "size",
            "js",
            "cap",
            "foil_cap",
            "halves",
        ),
        seed=STUDY.seed,
        code=code("balance.py"),
    script:
        "../workflow/scripts/balance.py"


rule vote:
    """The balanced items of one instrument with the votes of people, of the scenes' oracle, or without any."""
    input:
        balanced="<results>/benchmark/balanced/{instrument}.parquet",
        annotations=ask(BUILD.get_annotations, "{instrument}"),
    output:
        pairs="<results>/benchmark/{instrument}.parquet",
        annotations="<results>/benchmark/annotations/{instrument}.parquet",
    log:
        "<logs>/vote/{instrument}.log",
    wildcard_constraints:
        instrument=PLAN.build_pattern(set(STUDY.instruments) - set(PLAN.item_sets)),
    conda:
        "../envs/environment.yaml"
    params:
        world=tables(ORACLE_WORLD),
        valid_votes=STUDY.benchmark.valid_votes,
        scenes=SCENES if STUDY.benchmark.oracle else None,
        code=code("vote.py"),
    script:
        "../workflow/scripts/vote.py"


# An instrument that is released as well is rebuilt into a separate folder, to be compared with the release.
use rule vote as vote_next_to_released with:
    output:
        pairs="<results>/benchmark/rebuilt/{instrument}.parquet",
        annotations="<results>/benchmark/rebuilt/annotations/{instrument}.parquet",
    wildcard_constraints:
        instrument=PLAN.build_pattern(set(STUDY.instruments) & set(PLAN.item_sets)),


rule funnel:
    """Number of candidates of each instrument after each step, and the reasons why others are rejected."""
    input:
        balanced=expand(
            "<results>/benchmark/balanced/{instrument}.parquet",
            instrument=STUDY.instruments,
        ),
        pairs=BUILD.built_files,
    output:
        funnel="<results>/benchmark/funnel.parquet",
    log:
        "<logs>/funnel.log",
    conda:
        "../envs/environment.yaml"
    params:
        instruments=list(STUDY.instruments),
        code=code("funnel.py"),
    script:
        "../workflow/scripts/funnel.py"


rule oracle:
    """Shares of candidates, before and after each filter, and of items that the scenes' oracle confirms."""
    input:
        balanced=expand(
            "<results>/benchmark/balanced/{instrument}.parquet",
            instrument=STUDY.instruments,
        ),
    output:
        shares="<results>/benchmark/oracle.parquet",
    log:
        "<logs>/oracle.log",
    conda:
        "../envs/environment.yaml"
    params:
        world=tables(WORLD),
        resampling=settings("resampling"),
        instruments=list(STUDY.instruments),
        scenes=SCENES,
        grammaticality=STUDY.filters.grammaticality if STUDY.filters else None,
        code=code("oracle.py"),
    script:
        "../workflow/scripts/oracle.py"


# The models judge grammaticality, by which the best caption of each image is chosen.
rule cv_probes:
    """The best contextual captions and the reviewed plain ones as the four conditions."""
    input:
        **BUILD.plain_captions,
        contextual="<results>/foils/cv-probes.parquet",
        weights=weights(*BUILD.probe_judges.values()),
    output:
        probes="<results>/benchmark/cv-probes.parquet",
        captions="<results>/benchmark/cv-probes/captions.parquet",
        run="<results>/benchmark/cv-probes.run.json",
    log:
        "<logs>/cv_probes.log",
    priority: NEEDED_ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads(*BUILD.probe_judges.values()),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        world=tables(ORACLE_WORLD),
        tables=tables(SWIG_TABLES),
        models=MODELS.get_settings_by_key(BUILD.probe_judges),
        scenes=SCENES if STUDY.benchmark.oracle else None,
        code=code("cv_probes.py"),
    script:
        "../workflow/scripts/cv_probes.py"


rule cv_oracle:
    """Truth of each condition of CV-Probes by the scenes' oracle."""
    input:
        probes="<results>/benchmark/cv-probes.parquet",
    output:
        shares="<results>/benchmark/cv-probes/oracle.parquet",
    log:
        "<logs>/cv_oracle.log",
    conda:
        "../envs/environment.yaml"
    params:
        world=tables(WORLD),
        resampling=settings("resampling"),
        scenes=SCENES,
        code=code("cv_oracle.py"),
    script:
        "../workflow/scripts/cv_oracle.py"


# An item is worth little if its foil can be told without the image.
rule audit:
    """Accuracy of judges that tell captions from foils without the image."""
    input:
        pairs=BUILD.built_files,
        weights=weights(*BUILD.audit_models.values()),
    output:
        audit="<results>/benchmark/audit.parquet",
    log:
        "<logs>/audit.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads(*BUILD.audit_models.values()),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        resampling=settings("resampling"),
        instruments=list(STUDY.instruments),
        models=MODELS.get_settings_by_key(BUILD.audit_models),
        threshold=STUDY.benchmark.audit,
        code=code("audit.py"),
    script:
        "../workflow/scripts/audit.py"


rule validation_statistics:
    """Votes, lexical items, divergence and agreement of every data set (thesis A.2)."""
    input:
        pairs=expand(
            "<results>/benchmark/{dataset}.parquet", dataset=PLAN.built_or_finished
        ),
        annotations=expand(
            "<results>/benchmark/annotations/{dataset}.parquet",
            dataset=PLAN.built_or_finished,
        ),
    output:
        statistics="<results>/benchmark/validation/statistics.parquet",
        frequencies="<results>/benchmark/validation/frequencies.parquet",
    log:
        "<logs>/validation_statistics.log",
    conda:
        "../envs/environment.yaml"
    params:
        resampling=settings("resampling"),
        datasets=PLAN.built_or_finished,
        code=code("validation_statistics.py"),
    script:
        "../workflow/scripts/validation_statistics.py"
