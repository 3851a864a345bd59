"""The index page of a study."""

from waltz.core.job import job
from waltz.reporting.construction import Construction, construction_tables
from waltz.reporting.multimodality import Multimodality, multimodality_tables
from waltz.reporting.page import write_page
from waltz.reporting.probes import Probes, probe_table

given = snakemake.input

with job(snakemake.log[0]):
    construction = []
    if given.get("funnel"):
        files = (given.get(name) or None for name in ("oracle", "audit"))
        construction += construction_tables(Construction(given.funnel, given.statistics, given.printed, *files))
    if given.get("probes"):
        construction.append(probe_table(Probes(given.probes, given.probe_captions, given.get("probe_oracle") or None)))
    models = []
    if given.get("metrics"):
        shares, attributed = (given.get(name) or None for name in ("shares", "attributed"))
        models = multimodality_tables(Multimodality(given.metrics, given.comparisons, shares, attributed))
    write_page(
        snakemake.output.page,
        snakemake.params.study,
        snakemake.params.sources,
        snakemake.input.tables,
        snakemake.input.figures,
        snakemake.input.records,
        snakemake.input.read,
        snakemake.input.faults,
        snakemake.input.scores,
        construction,
        models,
    )
