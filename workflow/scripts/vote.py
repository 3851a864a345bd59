"""Add votes to the selected items of one instrument."""

from functools import partial

from waltz.benchmark.items import build_items
from waltz.benchmark.oracle import cast_votes
from waltz.benchmark.votes import count_votes, read_annotations
from waltz.core.jobs.records import log_job
from waltz.core.records import read_records, write_records
from waltz.core.schema import AnnotationRecord, FilteredRecord, ItemRecord
from waltz.scenes.oracle import VOTER
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
        get_graph = partial(find_scene, graphs=draw_scenes(**params.scenes))
        votes, voter = cast_votes(candidates, get_graph, params.valid_votes), VOTER
    items = build_items(candidates, votes, voter)
    write_records(snakemake.output.pairs, items, ItemRecord)
    write_records(snakemake.output.annotations, answers, AnnotationRecord)
