"""Add votes to the selected items of one instrument."""

from waltz.benchmark.items import build_items
from waltz.benchmark.votes import count_votes, read_annotations
from waltz.core.files import parquet
from waltz.core.job_records import log_job
from waltz.core.records import read_records, to_row, write_records
from waltz.core.schema import ANNOTATIONS, FilteredRecord, ItemRecord
from waltz.scenes.oracle import VOTER, cast_votes
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers.files import find_scene

params = snakemake.params

with log_job(snakemake.log[0]):
    candidates = []
    for candidate in read_records(snakemake.input.balanced, FilteredRecord):
        if candidate.kept:
            candidates.append(candidate)
    answers, votes, voter = [], {}, None
    if snakemake.input.annotations:
        answers = read_annotations(
            snakemake.input.annotations, (candidate.item_id for candidate in candidates)
        )
        votes, voter = count_votes(answers, params.valid_votes), "people"
    elif params.scenes:
        graphs = draw_scenes(**params.scenes)
        scenes = {row.image: find_scene(row.image, graphs) for row in candidates}
        voted_rows = cast_votes(map(to_row, candidates), scenes)
        votes = {
            row["item_id"]: {**row, "valid": row["votes_caption"] >= params.valid_votes}
            for row in voted_rows
        }
        voter = VOTER
    items = build_items(candidates, votes, voter)
    write_records(snakemake.output.pairs, items, ItemRecord)
    parquet.write_rows(snakemake.output.annotations, answers, ANNOTATIONS)
