"""CV-Probes: its captions (stage foils), and the conditions that are made of them (stage benchmark)."""

if PROBES:

    REPAIRING = [PROBES["repair"]] if "repair" in PROBES else []
    CHOOSING = {key: study("filters")[key] for key in ("acceptability", "likelihood")}
    PLAIN = {key: PROBES[key] for key in ("written", "checks") if key in PROBES}
    if "descriptions" in PROBES:
        PLAIN["descriptions"] = (
            f"<results>/sources/drawn/{PROBES['descriptions']['drawn']}"
        )

    rule contextual_captions:
        """Abstracts of contextual verbs filled with every annotation of the chosen images."""
        input:
            rows=f"<results>/sources/{PROBES['source']}.parquet",
            weights=weight_files_of(REPAIRING),
            tables=SWIG_TABLES,
        output:
            captions="<results>/foils/cv-probes.parquet",
            run="<results>/foils/cv-probes.run.json",
        log:
            "<logs>/contextual_captions.log",
        conda:
            "../envs/foils.yaml"
        resources:
            gpu=int(bool(REPAIRING)),
            mem_mb=6000,
        params:
            settings={key: PROBES[key] for key in ("verbs", "images") if key in PROBES},
            model=[select_decisive_fields(MODELS[name]) for name in REPAIRING],
            seed=study("seed"),
            code=code("contextual_captions.py"),
        script:
            "../workflow/scripts/contextual_captions.py"

    rule cv_probes:
        """The best contextual captions and the reviewed plain ones as the four conditions."""
        input:
            **PLAIN,
            contextual="<results>/foils/cv-probes.parquet",
            weights=weight_files_of(CHOOSING.values()),
            tables=SWIG_TABLES,
            world=WORLD if study("benchmark.oracle") else [],
        output:
            probes="<results>/benchmark/cv-probes.parquet",
            captions="<results>/benchmark/cv-probes/captions.parquet",
            run="<results>/benchmark/cv-probes.run.json",
        log:
            "<logs>/cv_probes.log",
        conda:
            "../envs/foils.yaml"
        resources:
            gpu=1,
            mem_mb=6000,
            runtime=SCORING_MINUTES,
        params:
            models={
                key: select_decisive_fields(MODELS[name])
                for key, name in CHOOSING.items()
            },
            scenes=study("scenes") if study("benchmark.oracle") else None,
            code=code("cv_probes.py"),
        script:
            "../workflow/scripts/cv_probes.py"

    rule cv_oracle:
        """What the scenes' oracle says of each condition."""
        input:
            probes="<results>/benchmark/cv-probes.parquet",
            world=WORLD,
        output:
            shares="<results>/benchmark/cv-probes/oracle.parquet",
        log:
            "<logs>/cv_oracle.log",
        conda:
            "../envs/data.yaml"
        params:
            scenes=study("scenes"),
            resamples=study("reporting.resamples"),
            confidence=study("reporting.confidence"),
            seed=study("seed"),
            code=code("cv_oracle.py"),
        script:
            "../workflow/scripts/cv_oracle.py"
