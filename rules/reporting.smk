"""Stage reporting: tables and figures with our values next to those of the papers, and the page that shows all."""

STYLE = locate_in_package("reporting/figures/waltz.mplstyle")


localrules:  # a second each
    check_runs,
    table,
    reproduction,


rule check_runs:
    """Whether the runs behind numbers belong together: profiles, dtypes, data."""
    input:
        records=lambda w: REPORT.list_part_records(w.kind, w.part),
    output:
        runs="<results>/reporting/runs/{kind}/{part}.json",
    log:
        "<logs>/check_runs/{kind}/{part}.log",
    wildcard_constraints:
        kind="evaluation|shares|consistency",
        part="[^/]+",
    conda:
        "../envs/environment.yaml"
    params:
        profiles=STUDY.profiles,
        stored_versions=STUDY.stored_versions,
        code=code("check_runs.py"),
    script:
        "../workflow/scripts/check_runs.py"


rule table:
    """One table as CSV, Markdown, LaTeX and HTML."""
    input:
        unpack(lambda w: REPORT.get_table_inputs(w.table)),
    output:
        csv=report(
            "<results>/reporting/tables/{table}.csv",
            caption="../workflow/report/table.rst",
            category="Tables",
            labels=lambda w: REPORT.get_table_labels(w.table),
        ),
        md="<results>/reporting/tables/{table}.md",
        tex="<results>/reporting/tables/{table}.tex",
        html="<results>/reporting/tables/{table}.html",
    log:
        "<logs>/table/{table}.log",
    wildcard_constraints:
        table=PLAN.build_pattern(REPORT.declarations),
    conda:
        "../envs/environment.yaml"
    params:
        kinds=lambda w: list(REPORT.get_number_files(w.table)),
        study=REPORT.study_facts,
        profiles=STUDY.profiles,
        code=code("table.py"),
    script:
        "../workflow/scripts/table.py"


# So that `snakemake table_3_4` makes one table.
for TABLE in REPORT.declarations.values():

    rule:
        name:
            TABLE.rule_name
        input:
            f"<results>/reporting/tables/{TABLE.id}.csv",


rule reproduction:
    """All cells of all tables, and how many of the paper values are reproduced."""
    input:
        tables=expand("<results>/reporting/tables/{table}.csv", table=REPORT.tables),
    output:
        cells="<results>/reporting/tables/reproduction.csv",
        counts=report(
            "<results>/reporting/tables/reproduction_summary.csv",
            caption="../workflow/report/reproduction.rst",
            category="Tables",
            labels={"table": "all", "what": "how many paper values are reproduced"},
        ),
        md="<results>/reporting/tables/reproduction_summary.md",
    log:
        "<logs>/reproduction.log",
    conda:
        "../envs/environment.yaml"
    params:
        code=code("reproduction.py"),
    script:
        "../workflow/scripts/reproduction.py"


rule paper_audit:
    """What the papers' own numbers are worth: their findings, cell by cell, without any run."""
    input:
        published=REPORT.published_tables,
    output:
        cells="<results>/reporting/paper-audit.csv",
    log:
        "<logs>/paper_audit.log",
    conda:
        "../envs/environment.yaml"
    params:
        code=code("paper_audit.py"),
    script:
        "../workflow/scripts/paper_audit.py"


rule frequency_figures:
    """Words exchanged and pronouns, before and after validation (thesis figures 3.1, A.1, A.3, A.4; VALSE paper 1, 3, 4)."""
    input:
        frequencies=rules.validation_statistics.output.frequencies,
        style=STYLE,
    output:
        svg=[
            report(
                file,
                caption="../workflow/report/frequencies.rst",
                category="Figures",
                labels=labels,
            )
            for file, labels in zip(
                REPORT.list_frequency_files("svg"), REPORT.list_frequency_labels()
            )
        ],
        png=REPORT.list_frequency_files("png"),
    log:
        "<logs>/frequency_figures.log",
    conda:
        "../envs/environment.yaml"
    params:
        figures=REPORT.frequency_figures,
        code=code("frequency_figures.py"),
    script:
        "../workflow/scripts/frequency_figures.py"


rule charts:
    """The charts of the study's tables, in each profile."""
    input:
        tables=expand("<results>/reporting/tables/{table}.csv", table=REPORT.tables),
        style=STYLE,
    output:
        svg=[
            report(
                file,
                caption="../workflow/report/chart.rst",
                category="Figures",
                labels=labels,
            )
            for file, labels in zip(
                REPORT.list_chart_files("svg"), REPORT.list_chart_labels()
            )
        ],
        png=REPORT.list_chart_files("png"),
    log:
        "<logs>/charts.log",
    conda:
        "../envs/environment.yaml"
    params:
        charts=[(chart.id, profile) for chart, profile in REPORT.charts],
        sizes=REPORT.language_model_sizes,
        code=code("charts.py"),
    script:
        "../workflow/scripts/charts.py"


rule sample_figures:
    """A few attributed items of one encoder, captions next to foils."""
    input:
        rows=lambda w: PLAN.list_run_files(
            "attribution", REPORT.select_attributed_runs(w.encoder)
        ),
        images=lambda w: PLAN.list_image_files(
            run.dataset for run in REPORT.select_attributed_runs(w.encoder)
        ),
        weights=lambda w: MODELS.list_files(w.encoder),
        style=STYLE,
    output:
        figures=report(
            directory("<results>/reporting/figures/samples/{encoder}"),
            patterns=["{name}.svg"],
            caption="../workflow/report/sample.rst",
            category="Samples",
            subcategory="{encoder}",
            labels=lambda w: REPORT.get_sample_labels("samples", w.encoder),
        ),
    log:
        "<logs>/sample_figures/{encoder}.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **request_resources(lambda w: [w.encoder]),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        own_images=OWN_IMAGES,
        model=lambda w: MODELS.get_settings(w.encoder),
        datasets=lambda w: [
            run.dataset for run in REPORT.select_attributed_runs(w.encoder)
        ],
        profiles=STUDY.profiles,
        most=STUDY.reporting.samples,
        seed=STUDY.seed,
        code=lambda w: code("samples.py", MODELS.get_module(w.encoder)),
    script:
        "../workflow/scripts/samples.py"


rule explanation_figures:
    """A few answers of one decoder with their explanations."""
    input:
        contributions=lambda w: PLAN.list_run_files(
            "contributions", REPORT.select_drawn_runs(w.decoder)
        ),
        cc_shap=lambda w: PLAN.list_run_files(
            "cc-shap", REPORT.select_drawn_runs(w.decoder)
        ),
        images=lambda w: PLAN.list_images_for(
            w.decoder, REPORT.list_drawn_datasets(w.decoder)
        ),
        weights=lambda w: MODELS.list_weight_files(w.decoder),
        style=STYLE,
    output:
        figures=report(
            directory("<results>/reporting/figures/explanations/{decoder}"),
            patterns=["{name}.svg"],
            caption="../workflow/report/sample.rst",
            category="Samples",
            subcategory="{decoder}",
            labels=lambda w: REPORT.get_sample_labels("explanations", w.decoder),
        ),
    log:
        "<logs>/explanation_figures/{decoder}.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **request_resources(
            lambda w: [w.decoder] if w.decoder in PLAN.vl_decoders else []
        ),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        own_images=OWN_IMAGES,
        model=lambda w: MODELS.get_settings(w.decoder),
        datasets=lambda w: REPORT.list_drawn_datasets(w.decoder),
        profiles=STUDY.profiles,
        most=STUDY.reporting.explained_examples,
        seed=STUDY.seed,
        code=code("explanation_figures.py"),
    script:
        "../workflow/scripts/explanation_figures.py"


use rule explanation_figures as edit_figures with:
    input:
        contributions=lambda w: PLAN.list_run_files(
            "contributions", REPORT.select_drawn_runs(w.decoder)
        ),
        cc_shap=lambda w: PLAN.list_run_files(
            "cc-shap", REPORT.select_drawn_runs(w.decoder)
        ),
        edited=lambda w: PLAN.list_run_files(
            "edited", REPORT.select_drawn_runs(w.decoder)
        ),
        edited_contributions=lambda w: PLAN.list_run_files(
            "edited-contributions", REPORT.select_drawn_runs(w.decoder)
        ),
        images=lambda w: PLAN.list_images_for(
            w.decoder, REPORT.list_drawn_datasets(w.decoder)
        ),
        weights=lambda w: MODELS.list_weight_files(w.decoder),
        style=STYLE,
    output:
        figures=report(
            directory("<results>/reporting/figures/edits/{decoder}"),
            patterns=["{name}.svg"],
            caption="../workflow/report/sample.rst",
            category="Samples",
            subcategory="{decoder}",
            labels=lambda w: REPORT.get_sample_labels("edits", w.decoder),
        ),
    log:
        "<logs>/edit_figures/{decoder}.log",


rule trace_figures:
    """Traces of the self-consistency tests of a few items of one decoder."""
    input:
        tests=lambda w: PLAN.list_run_files(
            "tests", REPORT.select_drawn_runs(w.decoder)
        ),
        images=lambda w: PLAN.list_images_for(
            w.decoder, REPORT.list_drawn_datasets(w.decoder)
        ),
        style=STYLE,
    output:
        traces=report(
            directory("<results>/reporting/figures/traces/{decoder}"),
            patterns=["{name}.svg"],
            caption="../workflow/report/sample.rst",
            category="Samples",
            subcategory="{decoder}",
            labels=lambda w: REPORT.get_sample_labels("traces", w.decoder),
        ),
    log:
        "<logs>/trace_figures/{decoder}.log",
    conda:
        "../envs/environment.yaml"
    params:
        own_images=OWN_IMAGES,
        model="{decoder}",
        datasets=lambda w: REPORT.list_drawn_datasets(w.decoder),
        profiles=STUDY.profiles,
        most=STUDY.reporting.explained_examples,
        seed=STUDY.seed,
        code=code("trace_figures.py"),
    script:
        "../workflow/scripts/trace_figures.py"


rule report:
    """What was run, how many paper values it reproduces, and all tables, figures and samples."""
    input:
        **REPORT.summaries,
        templates=[
            locate_in_package(f"reporting/page/templates/{file}")
            for file in ("report.html", "parts.html", "report.css", "report.js")
        ],
        cells=expand("<results>/reporting/tables/{table}.csv", table=REPORT.tables),
        detectable=REPORT.detectable_files,
        figures=REPORT.figure_files,
        pngs=[*REPORT.list_frequency_files("png"), *REPORT.list_chart_files("png")],
        samples=list(REPORT.sample_folders),
        records=REPORT.all_records,
        faults=expand(
            "<results>/sources/images/{source}.parquet",
            source=RAW.list_sources_with_images(),
        ),
        scores=["<results>/scene_models/scores.parquet"] if MEASURED else [],
        pairs=PLAN.list_rows_files(REPORT.browsed_items),
        questions=PLAN.list_rows_files(REPORT.browsed_questions),
        images=PLAN.list_image_files(REPORT.browsed_images),
        evaluation=PLAN.list_run_files("evaluation", REPORT.browsed_runs["evaluation"]),
        attribution=PLAN.list_run_files(
            "attribution", REPORT.browsed_runs["attribution"]
        ),
        consistency=PLAN.list_run_files("tests", REPORT.browsed_runs["consistency"]),
        cc_shap=PLAN.list_run_files("cc-shap", REPORT.browsed_runs["cc_shap"]),
    output:
        page="<results>/reporting/report.html",
    log:
        "<logs>/report.log",
    conda:
        "../envs/environment.yaml"
    params:
        own_images=OWN_IMAGES,
        runs=REPORT.browsed_files,
        study=STUDY.study,
        sources=STUDY.to_dict()["sources"],
        locked=MODELS.locked,
        lock=STUDY.lock_file,
        figures=REPORT.figure_titles,
        sample_figures=REPORT.sample_sections,
        datasets=REPORT.browsed_items,
        questions=REPORT.browsed_questions,
        images=REPORT.browsed_images,
        samples=STUDY.reporting.browsed,
        confidence=STUDY.reporting.confidence,
        seed=STUDY.seed,
        code=code("report.py"),
    script:
        "../workflow/scripts/report.py"
