"""Names for the rules that do not ask the plan directly yet."""

from waltz.models.registry import get_encoder_module, select_decisive_fields

SCORED, EXPLAINED, ATTRIBUTED_GROUPS = (
    {group: PLAN.groups[group] for group in stage.groups}
    for stage in (STUDY.evaluation, STUDY.consistency, STUDY.attribution)
)
THREADS, SETS, TASKS = STUDY.threads, PLAN.built_or_finished, PLAN.tasks
ASKED = {name: entry.given() for name, entry in STUDY.answering.items()}
ALIGNED = {name: entry.given() for name, entry in STUDY.alignment.items()}
READERS, ENCODERS, ANSWERERS = PLAN.language_models, PLAN.encoders, PLAN.answerers
SEEING, SPEAKING = PLAN.vl_decoders, PLAN.decoders
SCORING_MODELS, EXPLAINING = STUDY.evaluation.models, STUDY.consistency.models
PROBE_SETS = ["cv-probes"] if STUDY.cv_probes else []
GROUP_OF = PLAN.group_of
takes, posing, posed_file = PLAN.runs_on, PLAN.settings, PLAN.rows_file
prompts_of, files_of = MODELS.prompt_files, MODELS.local_files
memory_mb, raw_file, parted = MODELS.memory_mb, RAW.path, PLAN.parts
asked_in, probes_in, edited_among = (
    PLAN.questions_among,
    PLAN.probes_among,
    PLAN.edited,
)
WITH_SCORES, ANSWERED, DECODED = PLAN.scored, [], []


def grouped(config, stage):
    return {group: PLAN.groups[group] for group in getattr(STUDY, stage).groups}


def study(key):
    value = STUDY.given()
    for part in key.split("."):
        value = value.get(part, {})
    return value


def weight_files(spec):
    return MODELS.weight_files(spec.name)


def pairs_among(names):
    return PLAN.select(names, "pairs")


def scorable_among(names):
    return PLAN.select(names, "pairs", "probes")


def posed_among(model, names):
    forms = ("pairs", "open") if model in SEEING else ("choice",)
    return PLAN.select(names, *forms)


def images_where(looked_at, names):
    return PLAN.image_files(names) if looked_at else []


def companions_of(part):
    return PLAN.companion_files(PLAN.attributed_parts[part])


def cc_shards(part, names, ending="parquet"):
    return [
        f"<results>/consistency/{{decoder}}/{part}/shards/{name}.{{shard}}.{ending}"
        for name in names
    ]


wildcard_constraints:
    reader=PLAN.pattern(READERS),
    asked=PLAN.pattern(ASKED),
