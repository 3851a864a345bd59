"""Add votes to the selected items of one instrument."""

from waltz.benchmark.items import build_items
from waltz.benchmark.votes import count_votes, read_annotations
from waltz.core.files import parquet
from waltz.core.job_records import log_job
from waltz.core.schema import ANNOTATIONS, BENCHMARK, FILTERED
from waltz.scenes.oracle import VOTER, cast_votes
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers.files import find_scene

params = snakemake.params

with log_job(snakemake.log[0]):
    candidates = [
        row
        for row in parquet.read_rows(snakemake.input.balanced, FILTERED)
        if row["kept"]
    ]
    answers, votes, voter = [], {}, None
    if snakemake.input.annotations:
        answers = read_annotations(
            snakemake.input.annotations, (row["item_id"] for row in candidates)
        )
        votes, voter = count_votes(answers, params.valid_votes), "people"
    elif params.scenes:
        graphs = draw_scenes(**params.scenes)
        voted_rows = cast_votes(
            candidates,
            {row["image"]: find_scene(row["image"], graphs) for row in candidates},
        )
        votes = {
            row["item_id"]: {**row, "valid": row["votes_caption"] >= params.valid_votes}
            for row in voted_rows
        }
        voter = VOTER
    rows = build_items(candidates, votes, voter)
    parquet.write_rows(snakemake.output.pairs, rows, BENCHMARK)
    parquet.write_rows(snakemake.output.annotations, answers, ANNOTATIONS)
