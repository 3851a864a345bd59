"""The report of a study."""

from pathlib import Path

import pyarrow.parquet as pq

from waltz.core.files import parquet
from waltz.core.job_log import log_job
from waltz.core.schema import SCENE_SCORES
from waltz.evaluation.vqa_items import select_questions
from waltz.reporting.page.construction_tables import ConstructionFiles, make_construction_tables
from waltz.reporting.page.cv_probes_tables import CvProbesFiles, read_cv_probes_table
from waltz.reporting.page.example_files import RunFiles, open_thumbnails, read_examples
from waltz.reporting.page.examples import make_browser_data
from waltz.reporting.page.modality_tables import ModalityFiles, make_modality_tables
from waltz.reporting.page.report import FigureSection, ReportInputs, list_example_figures, write_report
from waltz.reporting.page.resolved_revisions import resolve_checksums, resolve_revisions
from waltz.reporting.page.run_facts import list_cropping_models, read_image_faults, read_records
from waltz.reporting.tables.cells import parse_csv

given, params = snakemake.input, snakemake.params
page = Path(snakemake.output.page)


def by_run(kind):
    """Files of one kind by model and data set."""
    return {(model, dataset): file for model, dataset, file in params.get(f"{kind}_runs") or []}


with log_job(snakemake.log[0]):
    construction, models = [], []
    if given.get("funnel"):
        files = (given.get(name) or None for name in ("oracle", "audit"))
        construction += make_construction_tables(
            ConstructionFiles(given.funnel, given.statistics, given.printed, *files)
        )
    if given.get("probes"):
        construction.append(
            read_cv_probes_table(CvProbesFiles(given.probes, given.probe_captions, given.get("probe_oracle") or None))
        )
    if given.get("metrics"):
        more = (given.get(name) or None for name in ("shares", "attributed", "edits"))
        models = make_modality_tables(ModalityFiles(given.metrics, given.comparisons, *more))
    items = {name: pq.read_table(file).to_pylist() for name, file in zip(params.datasets, given.pairs, strict=True)}
    items |= {
        name: select_questions(name, pq.read_table(file).to_pylist(), entry["size"], params.seed, entry.get("choice"))[
            0
        ]
        for (name, entry), file in zip(params.asked.items(), given.questions, strict=True)
    }
    runs = RunFiles(*map(by_run, ("evaluation", "attribution", "consistency", "cc_shap")))
    shown, made = read_examples(items, runs, params.samples, params.seed)
    lock = Path(params.lock)
    records = resolve_revisions(read_records(given.records, page.parent.parent), params.locked, lock)
    with open_thumbnails(dict(zip(params.pictured, given.images, strict=True))) as picture:
        browser = make_browser_data(
            shown, made, picture, {name: len(rows) for name, rows in items.items()}, list_cropping_models(records)
        )
    report = ReportInputs(
        params.study,
        resolve_checksums(params.sources, lock),
        records,
        [cell for file in given.cells for cell in parse_csv(Path(file).read_text(encoding="utf-8"))],
        [
            *(FigureSection(Path(file).stem, file, *params.figures[Path(file).stem]) for file in given.figures),
            *list_example_figures(given.get("samples") or [], params.sample_figures),
        ],
        models,
        construction,
        [row for file in given.scores for row in parquet.read(file, SCENE_SCORES).to_pylist()],
        read_image_faults(given.faults),
        browser,
    )
    write_report(page, report)
