"""The study, validated, and what several stages ask of it."""

import re
import sys

from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.study import PROBES as CV_PROBES
from waltz.core.study import (
    FILTER_MODELS,
    IMAGES,
    PROPOSED,
    absent,
    datasets,
    file_name,
    files,
    grouped,
    image_parts,
    instruments,
    needed_models,
    owners,
    raw_sources,
    runnable,
    study_file,
    validate,
)
from waltz.core.urls import file_of, is_url, member_of
from waltz.foils.instruments import MAKERS
from waltz.reporting.chart_declarations import CHARTS
from waltz.models import registry
from waltz.reporting.published import read_published
from waltz.models.registry import (
    DECODER_KINDS,
    DETECTOR,
    decisive,
    downloads,
    encoder_kinds,
    encoder_module,
    on_hub,
    placed,
    registered,
    resolve,
)


def chosen_study():
    """Load the named or default study unless --configfile gave one, then validate what holds."""
    try:
        file = study_file(config, workflow.overwrite_configfiles, HERE / "config")
        if file:
            workflow.configfile(str(file))
        validate(config, HERE / "workflow/schemas/study.schema.yaml")
        models = {
            name: resolve(name, entry)
            for name, entry in config.get("models", {}).items()
        }
        for name in {spec.detector for spec in models.values()} & registered().keys():
            models.setdefault(name, resolve(name, {}))
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
    name: placed(spec, WEIGHTS, {}).weights
    for name, spec in RESOLVED.items()
    if spec.kind == DETECTOR
}
MODELS = {name: placed(spec, WEIGHTS, DETECTORS) for name, spec in RESOLVED.items()}
"""Models with the places where what is fetched for them lies."""
WEB = {
    place: (url, spec.sha256 if url == spec.weights else "lock")
    for spec in RESOLVED.values()
    for url, place in downloads(spec, WEIGHTS).items()
}
"""Url and checksum of each file of weights that is fetched, by its place."""
SNAPSHOTS = {
    MODELS[name].weights: spec.weights for name, spec in RESOLVED.items() if on_hub(spec)
}
"""Repositories of the hub that are fetched as a whole, by their place."""
UNPACKED = {MODELS[name].weights: spec for name, spec in RESOLVED.items() if spec.unpack}
"""Models whose weights come in archives, by their place."""
MEMBERS = {
    MODELS[name].answers: spec.answers
    for name, spec in RESOLVED.items()
    if member_of(spec.answers)
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
    if MODELS[name].kind in encoder_kinds() and name not in ANSWERERS
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


def raw_file(source, name):
    """Where a raw file is: drawn, in a folder of the user's, or fetched, by the first entry that names its url."""
    if name == IMAGES and len(image_parts(config, source)) > 1:
        return f"<results>/sources/raw/{source}/images.txt"
    entry = FILES[source, name]
    if "drawn" in entry:
        return f"<results>/sources/drawn/{entry['drawn']}"
    if name.partition("-")[0] == IMAGES and "path" in entry:
        return entry["path"]
    if is_url(entry.get("url", "")) and not member_of(entry["url"]):
        source, name = OWNERS[entry["url"], "file"]
    return f"<results>/sources/raw/{source}/{name}/{file_name(FILES[source, name])}"


def archive_file(source, name):
    """The fetched archive that a raw file is a part of; none where it is a file of its own, or lies here."""
    url = FILES[source, name].get("url", "")
    if not member_of(url):
        return []
    origin = url.partition("#")[0]
    source, name = OWNERS[origin, "archive"]
    return f"<results>/sources/archives/{source}/{name}/{file_of(origin)}"


def weight_files(spec):
    """Files of a model that lie here, or the place of those that are fetched."""
    return [spec.weights] if spec.weights in FETCHED else registry.weight_files(spec)


def images_of(dataset):
    """The folder or archive of a data set's images."""
    entry = (INSTRUMENTS | DATASETS | ALIGNED | ASKED).get(dataset, PROBES)
    source = entry["source"]
    if not image_parts(config, source):
        raise WorkflowError(
            f"study file: sources.{source}.images is missing: encoders look at the images of {dataset}"
        )
    return raw_file(source, IMAGES)


def has_images(dataset):
    """Whether the study has the images of a data set."""
    entry = (INSTRUMENTS | DATASETS | ALIGNED | ASKED).get(dataset, PROBES)
    return bool(image_parts(config, entry.get("source")))


def images_where(encoders, names):
    """Images of some data sets, where an encoder looks at them."""
    return [images_of(name) for name in names] if encoders else []


def pairs_among(names):
    """The data sets that hold pairs of caption and foil."""
    return [name for name in names if name not in [*PROBE_SETS, *ASKED, *TASKS]]


def scorable_among(names):
    """The data sets that encoders score: pairs, and CV-Probes."""
    return [name for name in names if name not in [*ASKED, *TASKS]]


def posed_among(model, names):
    """The data sets of questions that a decoder can be asked: with images where it sees, else text tasks."""
    if model in SEEING:
        return [name for name in names if name not in [*PROBE_SETS, *TASKS]]
    return [name for name in names if name in TASKS]


def posed_file(dataset):
    """The rows that a data set's questions are made of."""
    if dataset in [*ASKED, *TASKS]:
        return f"<results>/sources/{(ASKED | TASKS)[dataset]['source']}.parquet"
    return f"<results>/benchmark/{dataset}.parquet"


def posing(names):
    """What each data set is (pairs, open, choice), and its entry where it has one."""
    return {
        name: (
            {"form": "open", **ASKED[name]}
            if name in ASKED
            else (
                {"form": "choice", **TASKS[name]}
                if name in TASKS
                else {"form": "pairs"}
            )
        )
        for name in names
    }


def prompts_of(model):
    """The prompt files of a decoder."""
    return [
        *(f"resources/prompts/{profile}.yaml" for profile in study("profiles")),
        *filter(None, [MODELS[model].prompts, MODELS[model].chat_template]),
    ]


def files_of(model):
    """Files of a model that lie here: its weights, regions and answers."""
    spec = MODELS[model]
    own = [
        path
        for path in (spec.regions, spec.detector, spec.answers, spec.config)
        if path and (path in FETCHED or Path(path).exists())
    ]
    return [*weight_files(spec), *own]


def weight_files_of(names):
    """Files of several models that lie in local folders."""
    return sorted({file for name in names for file in weight_files(MODELS[name])})


def proposing_model(instrument):
    """The model that proposes an instrument's foils or counts its tokens, as a list of one or none."""
    if instrument in PROPOSED:
        return [study(f"proposals.{PROPOSED[instrument]}")]
    return (
        [study("proposals.spans")] if "most_tokens" in INSTRUMENTS[instrument] else []
    )


def released_files(wildcards):
    """The released files, and the rows of the captions that plurality and relations were made from."""
    given = {name: raw_file(DATASETS[name]["source"], name) for name in RELEASED}
    captions = [
        f"<results>/sources/{name}.parquet"
        for name, entry in RAW_SOURCES.items()
        if entry["format"] == "coco-captions"
    ]
    return given | {"captions": captions}


def cc_shards(part, names, ending="parquet"):
    """Files of one part of a group's results, for one model and one shard."""
    return [
        f"<results>/consistency/{{decoder}}/{part}/shards/{name}.{{shard}}.{ending}"
        for name in names
    ]


def takes(model, group):
    """Whether a model is run on a group, in any stage: on all, unless the study names its own."""
    return group in study("evaluation.only").get(model, [group])


GROUP_OF = {
    name: group for group, names in config.get("groups", {}).items() for name in names
}


def taken(runs):
    """Those pairs of model and data set that the study runs."""
    return [
        (model, dataset)
        for model, dataset in runs
        if takes(model, GROUP_OF.get(dataset))
    ]


def taken_by(model, groups):
    """The data sets of some groups that a model is run on."""
    return [
        name for group, names in groups.items() if takes(model, group) for name in names
    ]


def asked_in(runs):
    """The data sets of questions among some runs, with their entries."""
    return {name: ASKED[name] for _, name in runs if name in ASKED}


def kind_of(model):
    """What a model is to the tables: language, vision or encoder."""
    return {"text": "language", "vision": "vision"}.get(MODELS[model].kind, "encoder")


def part_of(model, dataset):
    """The part of a stage's numbers that those of a model on a data set are in, so that a table waits for few.

    All groups with data sets of captions and foils are one part, and so are all text tasks: averages are over them.
    """
    if dataset in TASKS:
        return f"{kind_of(model)}.tasks"
    group = GROUP_OF.get(dataset, dataset)
    averaged = {*DATASETS, *INSTRUMENTS}.intersection(config["groups"].get(group, []))
    return f"{kind_of(model)}.{'benchmark' if averaged else group}"


def parted(runs):
    """Pairs of model and data set by their parts, in order."""
    parts = {}
    for model, dataset in runs:
        parts.setdefault(part_of(model, dataset), []).append((model, dataset))
    return parts


def companions_of(part):
    """Files of the companions of a part's encoders."""
    return [
        f"<results>/attribution/{model}/companions/{group}.parquet"
        for model, group in dict.fromkeys(
            (model, GROUP_OF[dataset]) for model, dataset in ATTRIBUTED_PARTS[part]
        )
        if COMPANIONS and model in ATTRIBUTING and group in ATTRIBUTED
    ]


def shown_in(declaration, kind):
    """Names of the parts whose numbers a table shows: of its kinds of models, on data sets that it has."""
    shown = set()
    for number in declaration.published:
        for _, _, dataset, setting in read_published(
            HERE / f"resources/published/{number}.csv"
        ):
            own = declaration.datasets.get(
                (dataset, setting), declaration.datasets.get(dataset, ())
            )
            shown |= {dataset.partition(":")[0], *own}
    kinds = declaration.kinds or ("encoder", "language", "vision")
    return [
        part
        for part, runs in PARTS[kind][1].items()
        if part.partition(".")[0] in kinds
        and (
            declaration.own
            and part.endswith(".benchmark")
            or shown & {dataset for _, dataset in runs}
            or "" in shown
        )
    ]


def records_of(kind, runs):
    """Run records of the models behind one kind of numbers."""
    if kind == "consistency":
        return [
            f"<results>/consistency/{model}/{part}/{dataset}.run.json"
            for part in ("tests", *(["cc-shap"] if study("consistency.cc_shap") else []))
            for model, dataset in runs
        ]
    folder = {"evaluation": "evaluation", "shares": "attribution"}[kind]
    return [f"<results>/{folder}/{model}/{dataset}.run.json" for model, dataset in runs]


def built_file(instrument):
    """Items of an instrument that is built, apart from the released ones where these have its name."""
    beside = "built/" if instrument in DATASETS else ""
    return f"<results>/benchmark/{beside}{instrument}.parquet"


DRAWN_FILES = sorted(
    {
        raw_file(*key)
        for key, entry in FILES.items()
        if "drawn" in entry and key[1].partition("-")[0] != IMAGES
    }
    | {
        f"<results>/sources/drawn/{path}"
        for path in PROBES.get("descriptions", {}).values()
    }
)
DRAWN_IMAGES = sorted(
    {
        raw_file(*key)
        for key, entry in FILES.items()
        if "drawn" in entry and key[1].partition("-")[0] == IMAGES
    }
)


def item_files(wildcards):
    """The raw file of a data set, and its single annotations where the study names them."""
    entry = DATASETS[wildcards.dataset]
    named = {"raw": raw_file(entry["source"], wildcards.dataset)}
    return (
        named | {"annotations": entry["annotations"]}
        if "annotations" in entry
        else named
    )


def source_files(wildcards):
    """The raw files of a source, in the order of the study."""
    return [
        raw_file(wildcards.source, name)
        for name in RAW_SOURCES[wildcards.source]["files"]
    ]


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
