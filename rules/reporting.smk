"""Stage reporting: tables and figures with our values next to those of the papers, and the page that shows all."""

# Runs of one model whose items are drawn as figures.
DRAWN_RUNS = ask(REPORT.select_drawn_runs, "{decoder}")
DRAWN_DATASETS = ask(list_datasets_of, DRAWN_RUNS)
SAMPLED_RUNS = ask(REPORT.select_attributed_runs, "{encoder}")
SAMPLED_DATASETS = ask(list_datasets_of, SAMPLED_RUNS)
# Runs whose rows a comparison compares, by step.
COMPARED_RUNS = {
    step: ask(REPORT.select_compared_runs, "{comparison}", step)
    for step in ("cc-shap", "tests", "attribution")
}


localrules:  # a second each
    check_runs,
    paired_differences,
    table,
    reproduction,


# Numbers of one table must not come from runs with different profiles, dtypes or library versions.
rule check_runs:
    """Check that the runs behind numbers have the same profiles, dtypes and data."""
    input:
        records=ask(REPORT.list_part_records, "{kind}", "{part}"),
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


rule paired_differences:
    """Paired differences: explanations less answers, chat models less base models, or captions less foils."""
    input:
        cc_shap=expand(
            "<results>/consistency/{file.model}/cc-shap/{file.name}.parquet",
            file=files_of("cc-shap", COMPARED_RUNS["cc-shap"]),
        ),
        tests=expand(
            "<results>/consistency/{file.model}/tests/{file.name}.parquet",
            file=files_of("tests", COMPARED_RUNS["tests"]),
        ),
        attributions=expand(
            "<results>/attribution/{file.model}/{file.name}.parquet",
            file=files_of("attribution", COMPARED_RUNS["attribution"]),
        ),
    output:
        differences="<results>/reporting/differences/{comparison}.parquet",
    log:
        "<logs>/paired_differences/{comparison}.log",
    wildcard_constraints:
        comparison=PLAN.build_pattern(COMPARED_STEPS),
    conda:
        "../envs/environment.yaml"
    params:
        comparison="{comparison}",
        bases=REPORT.base_models,
        resampling=settings("resampling"),
        code=code("differences.py"),
    script:
        "../workflow/scripts/differences.py"


rule table:
    """One table as CSV, Markdown, LaTeX and HTML."""
    input:
        unpack(ask(REPORT.get_table_inputs, "{table}")),
    output:
        csv=report(
            "<results>/reporting/tables/{table}.csv",
            caption="../workflow/report/table.rst",
            category="Tables",
            labels=ask(REPORT.get_table_labels, "{table}"),
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
        declaration=ask(REPORT.describe_declaration, "{table}"),
        kinds=ask(list, ask(REPORT.get_number_files, "{table}")),
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


rule frequency_figures:
    """Words exchanged and pronouns, before and after validation (thesis figures 3.1, A.1, A.3, A.4; VALSE paper 1, 3, 4)."""
    input:
        frequencies=rules.validation_statistics.output.frequencies,
        style="<package>/reporting/figures/waltz.mplstyle",
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
        style="<package>/reporting/figures/waltz.mplstyle",
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
        declarations=tables("resources/tables.yaml", "resources/charts.yaml"),
        charts=[(chart.id, profile) for chart, profile in REPORT.charts],
        sizes=REPORT.language_model_sizes,
        code=code("charts.py"),
    script:
        "../workflow/scripts/charts.py"


rule sample_figures:
    """A few attributed items of one encoder, captions next to foils."""
    input:
        rows=expand(
            "<results>/attribution/{file.model}/{file.name}.parquet",
            file=files_of("attribution", SAMPLED_RUNS),
        ),
        images=images_of(SAMPLED_DATASETS),
        weights=weights("{encoder}"),
        style="<package>/reporting/figures/waltz.mplstyle",
    output:
        figures=report(
            directory("<results>/reporting/figures/samples/{encoder}"),
            patterns=["{name}.svg"],
            caption="../workflow/report/sample.rst",
            category="Samples",
            subcategory="{encoder}",
            labels=ask(REPORT.get_sample_labels, "samples", "{encoder}"),
        ),
    log:
        "<logs>/sample_figures/{encoder}.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads("{encoder}"),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        user_images=USER_IMAGES,
        model=model("{encoder}"),
        datasets=SAMPLED_DATASETS,
        profiles=STUDY.profiles,
        n_examples=STUDY.reporting.samples,
        seed=STUDY.seed,
        code=code_of("samples.py", "{encoder}"),
    script:
        "../workflow/scripts/samples.py"


rule explanation_figures:
    """A few answers of one decoder with their explanations."""
    input:
        contributions=expand(
            "<results>/consistency/{file.model}/contributions/{file.name}.parquet",
            file=files_of("contributions", DRAWN_RUNS),
        ),
        cc_shap=expand(
            "<results>/consistency/{file.model}/cc-shap/{file.name}.parquet",
            file=files_of("cc-shap", DRAWN_RUNS),
        ),
        images=images_of(DRAWN_DATASETS, prompted="{decoder}"),
        weights=weights("{decoder}"),
        style="<package>/reporting/figures/waltz.mplstyle",
    output:
        figures=report(
            directory("<results>/reporting/figures/explanations/{decoder}"),
            patterns=["{name}.svg"],
            caption="../workflow/report/sample.rst",
            category="Samples",
            subcategory="{decoder}",
            labels=ask(REPORT.get_sample_labels, "explanations", "{decoder}"),
        ),
    log:
        "<logs>/explanation_figures/{decoder}.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads(ask(PLAN.select_vl_decoders, "{decoder}")),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        user_images=USER_IMAGES,
        model=model("{decoder}"),
        datasets=DRAWN_DATASETS,
        profiles=STUDY.profiles,
        n_examples=STUDY.reporting.explained_examples,
        seed=STUDY.seed,
        code=code("explanation_figures.py"),
    script:
        "../workflow/scripts/explanation_figures.py"


# With the files of edits, the same script draws attributions before and after an edit.
use rule explanation_figures as edit_figures with:
    input:
        contributions=expand(
            "<results>/consistency/{file.model}/contributions/{file.name}.parquet",
            file=files_of("contributions", DRAWN_RUNS),
        ),
        cc_shap=expand(
            "<results>/consistency/{file.model}/cc-shap/{file.name}.parquet",
            file=files_of("cc-shap", DRAWN_RUNS),
        ),
        edited=expand(
            "<results>/consistency/{file.model}/edited/{file.name}.parquet",
            file=files_of("edited", ask(PLAN.select_edited, DRAWN_RUNS)),
        ),
        edited_contributions=expand(
            "<results>/consistency/{file.model}/edited-contributions/{file.name}.parquet",
            file=files_of("edited-contributions", ask(PLAN.select_edited, DRAWN_RUNS)),
        ),
        images=images_of(DRAWN_DATASETS, prompted="{decoder}"),
        weights=weights("{decoder}"),
        style="<package>/reporting/figures/waltz.mplstyle",
    output:
        figures=report(
            directory("<results>/reporting/figures/edits/{decoder}"),
            patterns=["{name}.svg"],
            caption="../workflow/report/sample.rst",
            category="Samples",
            subcategory="{decoder}",
            labels=ask(REPORT.get_sample_labels, "edits", "{decoder}"),
        ),
    log:
        "<logs>/edit_figures/{decoder}.log",


rule trace_figures:
    """Traces of the self-consistency tests of a few items of one decoder."""
    input:
        tests=expand(
            "<results>/consistency/{file.model}/tests/{file.name}.parquet",
            file=files_of("tests", DRAWN_RUNS),
        ),
        images=images_of(DRAWN_DATASETS, prompted="{decoder}"),
        style="<package>/reporting/figures/waltz.mplstyle",
    output:
        traces=report(
            directory("<results>/reporting/figures/traces/{decoder}"),
            patterns=["{name}.svg"],
            caption="../workflow/report/sample.rst",
            category="Samples",
            subcategory="{decoder}",
            labels=ask(REPORT.get_sample_labels, "traces", "{decoder}"),
        ),
    log:
        "<logs>/trace_figures/{decoder}.log",
    conda:
        "../envs/environment.yaml"
    params:
        user_images=USER_IMAGES,
        model="{decoder}",
        datasets=DRAWN_DATASETS,
        profiles=STUDY.profiles,
        n_examples=STUDY.reporting.explained_examples,
        seed=STUDY.seed,
        code=code("trace_figures.py"),
    script:
        "../workflow/scripts/trace_figures.py"


rule report:
    """The report page: runs, reproduced paper values, tables, figures and samples."""
    input:
        **REPORT.summaries,
        templates=expand(
            "<package>/reporting/page/templates/{template}",
            template=["report.html", "parts.html", "report.css", "report.js"],
        ),
        cells=expand("<results>/reporting/tables/{table}.csv", table=REPORT.tables),
        figures=REPORT.figure_files,
        pngs=[*REPORT.list_frequency_files("png"), *REPORT.list_chart_files("png")],
        samples=list(REPORT.sample_folders),
        records=REPORT.all_records,
        faults=expand(
            "<results>/sources/images/{source}.parquet",
            source=RAW.list_sources_with_images(),
        ),
        scores=["<results>/scene_models/scores.parquet"] if MEASURED else [],
        pairs=rows_of(REPORT.browsed_items),
        questions=expand(
            "<results>/sources/{source}.parquet",
            source=sources_of(REPORT.browsed_questions),
        ),
        images=images_of(REPORT.browsed_images),
        evaluation=expand(
            "<results>/evaluation/{file.model}/{file.name}.parquet",
            file=files_of("evaluation", REPORT.browsed_runs["evaluation"]),
        ),
        attribution=expand(
            "<results>/attribution/{file.model}/{file.name}.parquet",
            file=files_of("attribution", REPORT.browsed_runs["attribution"]),
        ),
        consistency=expand(
            "<results>/consistency/{file.model}/tests/{file.name}.parquet",
            file=files_of("tests", REPORT.browsed_runs["consistency"]),
        ),
        cc_shap=expand(
            "<results>/consistency/{file.model}/cc-shap/{file.name}.parquet",
            file=files_of("cc-shap", REPORT.browsed_runs["cc_shap"]),
        ),
    output:
        page="<results>/reporting/report.html",
    log:
        "<logs>/report.log",
    conda:
        "../envs/environment.yaml"
    params:
        declarations=tables("resources/tables.yaml"),
        user_images=USER_IMAGES,
        runs=REPORT.browsed_files,
        study=STUDY.study,
        filters=REPORT.filters,
        sources=STUDY.to_dict()["sources"],
        locked=MODELS.locked,
        lock=STUDY.lock_file,
        figures=REPORT.figure_titles,
        sample_figures=REPORT.sample_sections,
        datasets=REPORT.browsed_items,
        averaged=PLAN.averaged_datasets,
        questions=REPORT.browsed_questions,
        images=REPORT.browsed_images,
        samples=STUDY.reporting.browsed,
        confidence=STUDY.reporting.confidence,
        excess_margin=STUDY.reporting.excess_margin,
        seed=STUDY.seed,
        code=code("report.py"),
    script:
        "../workflow/scripts/report.py"
