"""Write the report page of a study."""

from pathlib import Path

import pyarrow.parquet as pq

from waltz.core.files import parquet
from waltz.core.job_records import log_job
from waltz.core.schema import SCENE_SCORES
from waltz.evaluation.vqa import select_questions
from waltz.reporting.page.construction_tables import (
    ConstructionFiles,
    CvProbesFiles,
    make_construction_tables,
    read_cv_probes_table,
)
from waltz.reporting.page.examples import RunFiles, make_browser_data, open_thumbnails, read_examples
from waltz.reporting.page.model_tables import ModalityFiles, make_modality_tables
from waltz.reporting.page.report import FigureSection, ReportInputs, list_example_figures, write_report
from waltz.reporting.run_records import (
    list_cropping_models,
    read_image_faults,
    read_records,
    resolve_checksums,
    resolve_revisions,
)
from waltz.reporting.tables.cells import read_cells

inputs, params = snakemake.input, snakemake.params
page = Path(snakemake.output.page)


def index_by_run(kind):
    """Return the files of one kind by model and data set."""
    return {(model, dataset): file for model, dataset, file in params.get(f"{kind}_runs") or []}


with log_job(snakemake.log[0]):
    construction, models = [], []
    if inputs.get("funnel"):
        files = (inputs.get(name) or None for name in ("oracle", "audit"))
        construction += make_construction_tables(
            ConstructionFiles(inputs.funnel, inputs.statistics, inputs.printed, *files)
        )
    if inputs.get("probes"):
        construction.append(
            read_cv_probes_table(
                CvProbesFiles(inputs.probes, inputs.probe_captions, inputs.get("probe_oracle") or None)
            )
        )
    if inputs.get("metrics"):
        optional_files = (inputs.get(name) or None for name in ("shares", "attributed", "edits"))
        models = make_modality_tables(ModalityFiles(inputs.metrics, inputs.comparisons, *optional_files))
    items = {name: pq.read_table(file).to_pylist() for name, file in zip(params.datasets, inputs.pairs, strict=True)}
    items |= {
        name: select_questions(name, pq.read_table(file).to_pylist(), entry["size"], params.seed, entry.get("choice"))[
            0
        ]
        for (name, entry), file in zip(params.asked.items(), inputs.questions, strict=True)
    }
    runs = RunFiles(*map(index_by_run, ("evaluation", "attribution", "consistency", "cc_shap")))
    examples, results = read_examples(items, runs, params.samples, params.seed)
    lock = Path(params.lock)
    records = resolve_revisions(read_records(inputs.records, page.parent.parent), params.locked, lock)
    with open_thumbnails(dict(zip(params.pictured, inputs.images, strict=True))) as load_thumbnail:
        browser = make_browser_data(
            examples,
            results,
            load_thumbnail,
            {name: len(rows) for name, rows in items.items()},
            list_cropping_models(records),
        )
    report = ReportInputs(
        params.study,
        resolve_checksums(params.sources, lock),
        records,
        read_cells(inputs.cells),
        [
            *(FigureSection(Path(file).stem, file, *params.figures[Path(file).stem]) for file in inputs.figures),
            *list_example_figures(inputs.get("samples") or [], params.sample_figures),
        ],
        models,
        construction,
        [row for file in inputs.scores for row in parquet.read_rows(file, SCENE_SCORES)],
        read_image_faults(inputs.faults),
        browser,
    )
    write_report(page, report)
