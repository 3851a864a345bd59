"""Draw the scenes of a seed and write them in the formats of the real data sets."""

from pathlib import Path

from waltz.core.jobs.records import log_job
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers.files import draw_contact_sheet, write_sources

output, scenes = snakemake.output, snakemake.params.scenes

with log_job(snakemake.log[0]):
    graphs = draw_scenes(**scenes)
    folder = Path(output.sheet).parents[2] / "sources" / "drawn"
    write_sources(folder, graphs, scenes["seed"])
    draw_contact_sheet(graphs, scenes["seed"]).save(output.sheet)
