"""The study, validated, and what several stages ask of it."""

import re
import sys

from waltz.core import run_lock
from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.left_out import absent, runnable
from waltz.core.files.download_lock import LOCK_ON_DOWNLOAD
from waltz.core.study import PROBES as CV_PROBES
from waltz.core.raw_files import IMAGES, file_name, files, image_parts, owners
from waltz.core.study import (
    FILTER_KEYS,
    PROPOSED,
    datasets,
    grouped,
    instruments,
    needed_models,
    raw_sources,
    study_file,
    validate,
)
from waltz.core.files.urls import get_file_name, is_url, get_archive_member
from waltz.instruments import INSTRUMENTS as REGISTRY
from waltz.reporting.figures.chart_declarations import CHARTS
from waltz.models import weights
from waltz.reporting.tables.paper_values import read_published
from waltz.models.registry import (
    DECODER_KINDS,
    DETECTOR_KIND,
    select_decisive_fields,
    list_encoder_kinds,
    get_encoder_module,
    load_registry,
    resolve_model,
)
from waltz.models.weights import (
    list_detector_files,
    list_downloads,
    is_hub_snapshot,
    set_local_paths,
)


def chosen_study():
    """Load the named or default study unless --configfile gave one, then validate what holds."""
    try:
        file = study_file(config, workflow.overwrite_configfiles, HERE / "config")
        if file:
            workflow.configfile(str(file))
        validate(config, HERE / "workflow/schemas/study.schema.yaml")
        models = {
            name: resolve_model(name, entry)
            for name, entry in config.get("models", {}).items()
        }
        for name in {
            spec.detector for spec in models.values()
        } & load_registry().keys():
            models.setdefault(name, resolve_model(name, {}))
        reasons = absent(config)
        left = runnable(config, reasons)
        config.clear()
        config.update(left)
        return datasets(config), models, reasons
    except UserError as error:
        raise WorkflowError(str(error)) from None


DATASETS, RESOLVED, LEFT_OUT = chosen_study()
WEIGHTS = config.get("weights", "resources/weights")
LOCK_FILE = config.get("lock", f"config/locks/{config['study']}.yaml")
DETECTORS = {
    name: set_local_paths(spec, WEIGHTS, {}).weights
    for name, spec in RESOLVED.items()
    if spec.kind == DETECTOR_KIND
}
MODELS = {
    name: set_local_paths(spec, WEIGHTS, DETECTORS) for name, spec in RESOLVED.items()
}
"""Models with the places where what is fetched for them lies."""
WEB = {
    place: (url, spec.sha256 if url == spec.weights else LOCK_ON_DOWNLOAD)
    for spec in RESOLVED.values()
    for url, place in list_downloads(spec, WEIGHTS).items()
}
"""Url and checksum of each file of weights that is fetched, by its place."""
SNAPSHOTS = {
    MODELS[name].weights: spec.weights
    for name, spec in RESOLVED.items()
    if is_hub_snapshot(spec)
}
"""Repositories of the hub that are fetched as a whole, by their place."""
LOCKED = {
    name: spec.weights
    for name, spec in RESOLVED.items()
    if spec.revision == LOCK_ON_DOWNLOAD
}
"""Where the weights come from of each model whose revision only the lock file knows."""
UNPACKED = {
    MODELS[name].weights: spec for name, spec in RESOLVED.items() if spec.unpack
}
"""Models whose weights come in archives, by their place."""
MEMBERS = {
    MODELS[name].answers: spec.answers
    for name, spec in RESOLVED.items()
    if get_archive_member(spec.answers)
}
"""Urls of answers that lie in archives, by their place."""
FETCHED = {*WEB, *SNAPSHOTS, *UNPACKED, *MEMBERS}
if workflow.is_main_process:
    for NAME, REASON in LEFT_OUT.items():
        print(f"waltz: {NAME}: {REASON}", file=sys.stderr)
INSTRUMENTS = instruments(config)
PROBES = config.get("cv_probes", {})
FILES = files(config)
OWNERS = owners(config)
RAW_SOURCES = raw_sources(config)
WITH_IMAGES = [source for source, entry in config["sources"].items() if IMAGES in entry]
ALIGNED = config.get("alignment", {})
ASKED = config.get("answering", {})
TASKS = config.get("texts", {})
THREADS = config.get("threads", 8)
SCORING_MINUTES, EXPLAINING_MINUTES = 240, 1440
"""What a scheduler is asked for jobs that load a model: for scores and answers, and for what asks many times over."""
SCORED = grouped(config, "evaluation")
EXPLAINED = grouped(config, "consistency")
EXPLAINING = config.get("consistency", {}).get("models", [])
SCORING_MODELS = config.get("evaluation", {}).get("models", [])
PROBE_SETS = [CV_PROBES] if PROBES else []
READERS = [name for name in SCORING_MODELS if MODELS[name].kind == "text"]
ANSWERERS = [
    name for name in SCORING_MODELS if MODELS[name].kind.endswith("-answering")
]
ENCODERS = [
    name
    for name in SCORING_MODELS
    if MODELS[name].kind in list_encoder_kinds() and name not in ANSWERERS
]
SEEING = [name for name, spec in MODELS.items() if spec.kind == "vision"]
SPEAKING = [name for name, spec in MODELS.items() if spec.kind in DECODER_KINDS]


def code(script, *modules):
    """Digest of a rule's script and of all in waltz that it imports, or that is named."""
    return digest(HERE / "workflow/scripts" / script, *modules)


def study(key):
    """One slice of the study, `a.b` for a key below a key."""
    value = config
    for part in key.split("."):
        value = value.get(part, {})
    return value


pathvars:
    results=f"results/{config['study']}",
    logs=f"logs/{config['study']}",


wildcard_constraints:
    source="|".join(map(re.escape, config["sources"])),
    part="|".join({re.escape(name) for _, name in sorted(FILES)}),
    dataset="|".join(map(re.escape, DATASETS)) or "none",
    instrument="|".join(map(re.escape, INSTRUMENTS)) or "none",
    model="|".join(map(re.escape, MODELS)) or "none",
    reader="|".join(map(re.escape, READERS)) or "none",
    encoder="|".join(map(re.escape, ENCODERS)) or "none",
    answerer="|".join(map(re.escape, ANSWERERS)) or "none",
    decoder="|".join(map(re.escape, SPEAKING)) or "none",
    asked="|".join(map(re.escape, ASKED)) or "none",
    aligned="|".join(map(re.escape, ALIGNED)) or "none",
    scored="|".join(map(re.escape, sum(config.get("groups", {}).values(), [])))
    or "none",
