"""Stage benchmark: items with votes, and what validation says about them."""

SETS = list(dict.fromkeys([*DATASETS, *INSTRUMENTS]))
AUDITING = (
    {key: study("filters")[key] for key in sorted(FILTER_KEYS)}
    if study("benchmark.audit")
    else {}
)


rule items:
    """One raw file that holds finished items, as a benchmark."""
    input:
        unpack(item_files),
    output:
        pairs="<results>/benchmark/{dataset}.parquet",
        annotations="<results>/benchmark/annotations/{dataset}.parquet",
    log:
        "<logs>/items/{dataset}.log",
    conda:
        "../envs/data.yaml"
    params:
        format=lambda wildcards: DATASETS[wildcards.dataset]["format"],
        source=lambda wildcards: DATASETS[wildcards.dataset]["source"],
        valid_votes=study("benchmark.valid_votes"),
        code=code("items.py"),
    script:
        "../workflow/scripts/items.py"


rule choose:
    """The items of one instrument among its candidates, so that the words exchanged betray no foil."""
    input:
        filtered="<results>/filters/{instrument}.parquet",
    output:
        chosen="<results>/benchmark/chosen/{instrument}.parquet",
    log:
        "<logs>/choose/{instrument}.log",
    conda:
        "../envs/data.yaml"
    params:
        settings=lambda wildcards: {
            key: INSTRUMENTS[wildcards.instrument][key]
            for key in ("size", "js", "cap", "foil_cap", "halves")
            if key in INSTRUMENTS[wildcards.instrument]
        },
        seed=study("seed"),
        code=code("choose.py"),
    script:
        "../workflow/scripts/choose.py"


rule vote:
    """The chosen items of one instrument with the votes of people, of the scenes' oracle, or without any."""
    input:
        chosen="<results>/benchmark/chosen/{instrument}.parquet",
        annotations=lambda wildcards: study("benchmark.annotations").get(
            wildcards.instrument, []
        ),
        world=WORLD if study("benchmark.oracle") else [],
    output:
        pairs="<results>/benchmark/{instrument}.parquet",
        annotations="<results>/benchmark/annotations/{instrument}.parquet",
    log:
        "<logs>/vote/{instrument}.log",
    wildcard_constraints:
        instrument="|".join(
            re.escape(name) for name in INSTRUMENTS if name not in DATASETS
        )
        or "none",
    conda:
        "../envs/data.yaml"
    params:
        valid_votes=study("benchmark.valid_votes"),
        scenes=study("scenes") if study("benchmark.oracle") else None,
        code=code("vote.py"),
    script:
        "../workflow/scripts/vote.py"


use rule vote as vote_beside_released with:
    output:
        pairs="<results>/benchmark/built/{instrument}.parquet",
        annotations="<results>/benchmark/built/annotations/{instrument}.parquet",
    wildcard_constraints:
        instrument="|".join(map(re.escape, sorted(set(INSTRUMENTS) & set(DATASETS))))
        or "none",


rule funnel:
    """How many candidates of each instrument each step leaves, and why the others go."""
    input:
        chosen=expand(
            "<results>/benchmark/chosen/{instrument}.parquet", instrument=INSTRUMENTS
        ),
        pairs=[built_file(instrument) for instrument in INSTRUMENTS],
    output:
        funnel="<results>/benchmark/funnel.parquet",
    log:
        "<logs>/funnel.log",
    conda:
        "../envs/data.yaml"
    params:
        instruments=list(INSTRUMENTS),
        code=code("funnel.py"),
    script:
        "../workflow/scripts/funnel.py"


rule oracle:
    """What the scenes' oracle says of candidates before and after each filter, and of the items."""
    input:
        chosen=expand(
            "<results>/benchmark/chosen/{instrument}.parquet", instrument=INSTRUMENTS
        ),
        world=WORLD,
    output:
        shares="<results>/benchmark/oracle.parquet",
    log:
        "<logs>/oracle.log",
    conda:
        "../envs/data.yaml"
    params:
        instruments=list(INSTRUMENTS),
        scenes=study("scenes"),
        grammaticality=study("filters").get("grammaticality"),
        resamples=study("reporting.resamples"),
        confidence=study("reporting.confidence"),
        seed=study("seed"),
        code=code("oracle.py"),
    script:
        "../workflow/scripts/oracle.py"


rule audit:
    """How well judges that see no image tell captions from foils."""
    input:
        pairs=[built_file(instrument) for instrument in INSTRUMENTS],
        weights=weight_files_of(AUDITING.values()),
    output:
        audit="<results>/benchmark/audit.parquet",
    log:
        "<logs>/audit.log",
    conda:
        "../envs/foils.yaml"
    resources:
        gpu=1,
        mem_mb=6000,
        runtime=SCORING_MINUTES,
    params:
        instruments=list(INSTRUMENTS),
        models={
            key: select_decisive_fields(MODELS[name]) for key, name in AUDITING.items()
        },
        threshold=study("benchmark.audit"),
        resamples=study("reporting.resamples"),
        confidence=study("reporting.confidence"),
        seed=study("seed"),
        code=code("audit.py"),
    script:
        "../workflow/scripts/audit.py"


rule validation_statistics:
    """Votes, lexical items, divergence and agreement of every data set (thesis A.2)."""
    input:
        pairs=expand("<results>/benchmark/{dataset}.parquet", dataset=SETS),
        annotations=expand(
            "<results>/benchmark/annotations/{dataset}.parquet", dataset=SETS
        ),
    output:
        statistics="<results>/benchmark/validation/statistics.parquet",
        frequencies="<results>/benchmark/validation/frequencies.parquet",
    log:
        "<logs>/validation_statistics.log",
    conda:
        "../envs/data.yaml"
    params:
        datasets=SETS,
        resamples=study("reporting.resamples"),
        confidence=study("reporting.confidence"),
        seed=study("seed"),
        code=code("validation_statistics.py"),
    script:
        "../workflow/scripts/validation_statistics.py"
