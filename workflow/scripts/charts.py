"""Draw the charts of a study's tables, in each profile."""

from waltz.core.jobs.records import log_job
from waltz.reporting.figures.chart_declarations import CHARTS
from waltz.reporting.figures.charts import draw_chart
from waltz.reporting.figures.figure_files import save_figure
from waltz.reporting.tables.cells import read_cells

params, output = snakemake.params, snakemake.output

with log_job(snakemake.log[0]):
    cells = read_cells(snakemake.input.tables)
    for (name, profile), *files in zip(
        params.charts, output.svg, output.png, strict=True
    ):
        save_figure(draw_chart(CHARTS[name], cells, profile, params.sizes), files)
