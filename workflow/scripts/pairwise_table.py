"""Table 3.4: pairwise ranking accuracy beside the printed one."""

from waltz.core import parquet
from waltz.core.job import job
from waltz.core.model_schema import EVALUATION
from waltz.evaluation.metrics import Resampling
from waltz.reporting.declarations import PAIRWISE
from waltz.reporting.output import write_table
from waltz.reporting.published import read_published
from waltz.reporting.tables import join, pairwise_cells

params = snakemake.params

with job(snakemake.log[0]):
    printed = read_published(snakemake.input.printed)
    how = Resampling(params.resamples, params.confidence, params.seed)
    scores = {
        (model, dataset): parquet.read(file, EVALUATION).to_pylist()
        for (model, dataset), file in zip(params.runs, snakemake.input.scores, strict=True)
    }
    cells = []
    for profile in params.profiles:
        measured = pairwise_cells(scores, params.models, printed, PAIRWISE.aliases, profile, how)
        cells += join(PAIRWISE, profile, measured, printed, "not run in this study", params.confidence)
    write_table(PAIRWISE, cells, snakemake.output)
