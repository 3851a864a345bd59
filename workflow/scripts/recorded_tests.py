"""Test verdicts, CC-SHAP and attributions of one recorded model on the data sets of a group."""

from waltz.consistency.recorded_tests import import_attributions, import_tests
from waltz.core.files.group_files import write_results
from waltz.core.jobs.records import log_job
from waltz.core.schema import ATTRIBUTION, CC_SHAP, CONSISTENCY
from waltz.model_registry import ModelSpec

params, output = snakemake.params, snakemake.output

with log_job(snakemake.log[0]):
    model = ModelSpec(**params.model)
    source = (snakemake.input.records, model, params.datasets, params.profiles)
    facts = {"model": params.model, "profiles": params.profiles}
    write_results(
        {"rows": (output.tests, CONSISTENCY)},
        output.tests_run,
        import_tests(*source),
        **facts,
    )
    outputs = {
        "rows": (output.cc_shap, CC_SHAP),
        "contributions": (output.contributions, ATTRIBUTION),
    }
    write_results(outputs, output.cc_shap_run, import_attributions(*source), **facts)
