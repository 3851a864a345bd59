"""Draw the charts of a study's tables, in each profile."""

from waltz.core.job_records import log_job
from waltz.reporting.figures.chart_declarations import CHARTS
from waltz.reporting.figures.charts import draw_chart
from waltz.reporting.figures.figure_files import save_figure
from waltz.reporting.tables.cells import read_cells
from waltz.reporting.tables.declarations import TABLES

HEADINGS = {metric: heading for table in TABLES.values() for metric, heading in table.metrics.items()}

with log_job(snakemake.log[0]):
    cells = read_cells(snakemake.input.tables)
    charts = {chart.id: chart for chart in CHARTS}
    for (name, profile), svg, png in zip(
        snakemake.params.charts, snakemake.output.svg, snakemake.output.png, strict=True
    ):
        figure = draw_chart(
            charts[name], cells, profile, lambda field, value: HEADINGS.get(value, value.replace("_", " "))
        )
        save_figure(figure, [svg, png])
