"""Which models run on which data sets, with which files, and which numbers they give."""


def weight_files(spec):
    """Files of a model that lie here, or the place of those that are fetched."""
    return [spec.weights] if spec.weights in FETCHED else weights.weight_files(spec)


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
    """Files of a model that lie here or are fetched: its weights, detector, regions and answers."""
    spec = MODELS[model]
    own = [
        path
        for path in (spec.regions, spec.answers, spec.config)
        if path and (path in FETCHED or Path(path).exists())
    ]
    detector = (
        [spec.detector] if spec.detector in FETCHED else list_detector_files(spec)
    )
    return [*weight_files(spec), *detector, *own]


def memory_mb(model):
    """Main memory that a job with a model asks of a scheduler: its weights as they are loaded, and what works on them."""
    spec = MODELS[model]
    size = 4 if spec.dtype == "float32" else 2
    return 8000 + round(1.2 * size * spec.parameters / 1e6)


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


def probes_in(runs):
    """CV-Probes, where they are among the data sets of some runs, as a list of one or none."""
    return [name for name in PROBE_SETS if name in {dataset for _, dataset in runs}]


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
    """Names of the parts whose numbers a table shows: of its kinds of models, on data sets that it has.

    A table that print does not have shows all of its kinds.
    """
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
            or not declaration.published
        )
    ]


def records_of(kind, runs):
    """Run records of the models behind one kind of numbers."""
    if kind == "consistency":
        return [
            f"<results>/consistency/{model}/{part}/{dataset}.run.json"
            for part in (
                "tests",
                *(["cc-shap"] if study("consistency.cc_shap") else []),
            )
            for model, dataset in runs
        ]
    folder = {"evaluation": "evaluation", "shares": "attribution"}[kind]
    return [f"<results>/{folder}/{model}/{dataset}.run.json" for model, dataset in runs]


def cc_parts(model):
    """What stage consistency leaves of a model's contributions."""
    return [*CC_PARTS, *(EDIT_PARTS if model in CC_EDITED else [])]


def edited_among(runs):
    """Runs of models whose contributions are computed before and after edits."""
    return [(model, dataset) for model, dataset in runs if model in CC_EDITED]
