"""Paired differences over the same items: explanations less answers, chat models less base models,
or captions less foils.
"""

from waltz.attribution.differences import build_foil_differences
from waltz.attribution.summary import SHARE_COLUMNS
from waltz.consistency.differences import (
    build_chat_differences,
    build_explanation_differences,
)
from waltz.consistency.metrics import ConsistencyRows
from waltz.core.files.group_files import read_run_records, read_runs
from waltz.core.intervals import Resampling
from waltz.core.jobs.records import log_job
from waltz.core.records import build_frame, write_records
from waltz.core.schema import (
    ATTRIBUTION,
    CcShapRecord,
    ConsistencyRecord,
    DifferenceRecord,
)

params, inputs = snakemake.params, snakemake.input

with log_job(snakemake.log[0]):
    resampling = Resampling(**params.resampling)
    tests = read_run_records(inputs.get("tests") or [], ConsistencyRecord)
    cc_shap = read_run_records(inputs.get("cc_shap") or [], CcShapRecord)
    runs = {
        run: ConsistencyRows(tests.get(run, []), cc_shap.get(run, []))
        for run in {**tests, **cc_shap}
    }
    if params.comparison == "explanations":
        records = build_explanation_differences(runs, resampling)
    elif params.comparison == "chat":
        records = build_chat_differences(runs, params.bases, resampling)
    else:
        # One file at a time: attributions of all models would not fit into memory.
        attributions = {}
        for file in inputs.get("attributions") or []:
            for run, table in read_runs([file], ATTRIBUTION).items():
                attributions[run] = build_frame(table.select(SHARE_COLUMNS))
        records = build_foil_differences(attributions, resampling)
    write_records(snakemake.output.differences, records, DifferenceRecord)
