"""Draw the frequencies of words and pronouns in captions and foils."""

from waltz.core.jobs.records import log_job
from waltz.core.records import read_frame
from waltz.core.schema import FrequencyRecord
from waltz.reporting.figures.charts import draw_frequencies
from waltz.reporting.figures.figure_files import save_figure

params, output = snakemake.params, snakemake.output

with log_job(snakemake.log[0]):
    counts = read_frame(snakemake.input.frequencies, FrequencyRecord)
    for (dataset, kind, title), *files in zip(
        params.figures, output.svg, output.png, strict=True
    ):
        shown = counts[(counts.dataset == dataset) & (counts.kind == kind)]
        save_figure(draw_frequencies(shown, f"{dataset}: {title}"), files)
