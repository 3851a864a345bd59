"""Draw the frequencies of words and pronouns in captions and foils."""

from waltz.core.files import parquet
from waltz.core.job_records import log_job
from waltz.core.schema import FREQUENCIES
from waltz.reporting.figures.charts import draw_frequencies
from waltz.reporting.figures.figure_files import save_figure

params, output = snakemake.params, snakemake.output

with log_job(snakemake.log[0]):
    counts = parquet.read_rows(snakemake.input.frequencies, FREQUENCIES)
    for (dataset, kind, title), *files in zip(
        params.figures, output.svg, output.png, strict=True
    ):
        part = [
            row for row in counts if row["dataset"] == dataset and row["kind"] == kind
        ]
        save_figure(draw_frequencies(part, f"{dataset}: {title}"), files)
