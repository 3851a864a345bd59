"""Building of the plan of a study, with the checks that need resolved models: each stage can run
models of these kinds.
"""

from pathlib import Path

from waltz.core.errors import UserError
from waltz.fidelity import get_fidelity
from waltz.model_registry import DECODER_KINDS
from waltz.plan.models import Models
from waltz.plan.plan import Plan
from waltz.plan.skipped import find_skipped, remove_skipped
from waltz.plan.study import Study

MEASURED_WITHOUT_MODELS = ("calibration", "validity", "plausibility", "power")
"""Measurements that can be made without any model under `measures.models`."""


def build_plan(study: Study) -> Plan:
    """Return the plan of a checked study.

    Raises:
        UserError: A model cannot be resolved, or its stage cannot run models of its kind.
    """
    skipped = find_skipped(study)
    plan = Plan(remove_skipped(study, skipped), Models.from_study(study), skipped)
    # Kinds of models are known only now, after the registry was read.
    check_plan(plan)
    return plan


def check_plan(plan: Plan) -> None:
    """Refuse models and tables that do not fit the stages that name them.

    Raises:
        UserError: The study has such a model or table; the error names the key of the first one.
    """
    # The order of the checks decides which fault a user sees first.
    _check_user_files(plan)
    _check_decoders(plan)
    _check_question_sets(plan)
    _check_measures(plan)
    _check_tables(plan)
    _check_attributed(plan)
    _check_filters(plan)
    _check_perplexities(plan)
    _check_explained(plan)


def _check_user_files(plan: Plan) -> None:
    """Refuse folders where the study must name files; only images may lie in a folder."""
    for source, entry in plan.study.sources.items():
        for name, file in entry.files.items():
            if file.path and Path(file.path).is_dir():
                raise UserError(
                    f"study file: sources.{source}.files.{name}.path: is a folder (got {file.path!r}, expected a file);"
                    " name a file in it"
                )


def _check_decoders(plan: Plan) -> None:
    """Refuse models in stage consistency that do not generate text."""
    for name in plan.study.consistency.models:
        kind = plan.models[name].kind
        if kind not in DECODER_KINDS:
            raise UserError(
                f"study file: consistency.models: {name!r} is not a decoder (got kind {kind}, expected"
                f" {' or '.join(DECODER_KINDS)}); leave it out"
            )


def _check_question_sets(plan: Plan) -> None:
    """Refuse a question set that is in no group while a group of other data sets has its name."""
    # A question set outside of all groups becomes a group of the same name.
    if not plan.answerers:
        return
    for name in plan.study.answering:
        if name not in plan.group_of:
            raise UserError(
                f"study file: groups.{name}: the question set answering.{name} has the same name and is in no group; "
                "name it in a group, or rename one of the two"
            )


def _check_measures(plan: Plan) -> None:
    """Refuse models in stage measures that read no images; refuse measurements that need models if
    none is named.
    """
    measures = plan.study.measures
    readers = plan.select_measured_models("encoder", "vision")
    for name in measures.models:
        if name not in readers:
            raise UserError(
                f"study file: measures.models: {name!r} reads no images (got kind {plan.models[name].kind}, expected an"
                " encoder or vision); leave it out"
            )
    # Without models, only measurements that need none can be made.
    if measures.models:
        return
    for measurement in measures.list_measurements():
        if measurement not in MEASURED_WITHOUT_MODELS:
            raise UserError(
                f"study file: measures.models: empty, but measures.{measurement} needs models; name some"
            )


def _check_tables(plan: Plan) -> None:
    """Refuse tables that show measurements which the study does not make."""
    measured = plan.study.measures.list_measurements()
    tables = plan.study.reporting.tables
    if tables == "all":
        return
    for table in tables:
        if not table.startswith("measures-"):
            continue
        # A table is named like its measurement, with hyphens: measures-ground-truth shows
        # `ground_truth`.
        measurement = table.removeprefix("measures-").replace("-", "_")
        if measurement not in measured:
            raise UserError(
                f"study file: reporting.tables: {table} shows what is not measured; set measures.{measurement}, or"
                " leave it out"
            )


def _check_attributed(plan: Plan) -> None:
    """Refuse recorded models in stage attribution, which would have to run them."""
    for name in plan.study.attribution.models:
        if name in plan.recorded_models:
            raise UserError(
                f"study file: attribution.models: {name!r} is recorded (models.{name}.recorded), so its scores cannot"
                " be attributed; leave it out"
            )


def _check_filters(plan: Plan) -> None:
    """Refuse filters that use a model behind a server, since servers return no perplexities."""
    filters = plan.study.filters
    if filters is None:
        return
    for key, name in filters.models.items():
        if plan.models[name].server:
            raise UserError(
                f"study file: filters.{key}: {name!r} is behind a server; name a model with weights"
            )


def _check_perplexities(plan: Plan) -> None:
    """Refuse perplexities of a model behind a server, which can only be prompted."""
    # Runs in stage evaluation that are not prompts compute perplexities.
    # A server answers prompts, but scores no given text.
    prompted = set(plan.decoded)
    for run in plan.scored:
        if plan.models[run.model].server and run not in prompted:
            raise UserError(
                f"study file: evaluation.models: perplexities of {run.dataset} cannot be computed by the server of"
                f" {run.model}; name its other groups under evaluation.only.{run.model}, or its weights"
            )


def _check_explained(plan: Plan) -> None:
    """Refuse attributions of logits in all stages, if a model is behind a server."""
    attribution, consistency = plan.study.attribution, plan.study.consistency
    _check_logits(plan, "attribution", attribution.models, attribution.value)
    if consistency.cc_shap:
        _check_logits(
            plan, "consistency.cc_shap", consistency.models, consistency.cc_shap.value
        )


def _check_logits(
    plan: Plan, section: str, names: list[str], value: str | None
) -> None:
    """Refuse attributions of logits in one section, if a model is behind a server, which returns no
    logits.

    Args:
        plan: The plan.
        section: Section of the study with the key `value`.
        names: Models that the section attributes.
        value: Value of an output token that is attributed in profile `equations`; profile
            `published` always takes logits.
    """
    stage = section.partition(".")[0]
    for name in names:
        if not plan.models[name].server:
            continue
        # Profile `equations` attributes the value that the study chooses.
        if value == "logit":
            raise UserError(
                f"study file: {section}.value: a server returns no logits (models.{name}.server); take probability"
            )
        if plan.models.get_kind(name) != "vision":
            continue
        # Profile `published` attributes the logits of VL decoders, whatever the study chooses.
        for profile in plan.study.profiles:
            if get_fidelity(profile).first_step_only:
                raise UserError(
                    f"study file: profiles: {profile} explains logits, which the server of {name} does not return;"
                    f" leave {name} out of {stage}.models, or take profile equations"
                )
