"""The study, validated, and what several stages ask of it."""

import re

from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.study import datasets, file_name, study_file, validate
from waltz.models.registry import decisive, resolve, weight_files


def chosen_study():
    """Load the named or default study unless --configfile gave one, then validate what holds."""
    try:
        file = study_file(config, workflow.overwrite_configfiles, HERE / "config")
        if file:
            workflow.configfile(str(file))
        validate(config, HERE / "workflow/schemas/study.schema.yaml")
        models = {
            name: resolve(name, entry) for name, entry in config["models"].items()
        }
        return datasets(config), models
    except UserError as error:
        raise WorkflowError(str(error)) from None


DATASETS, MODELS = chosen_study()
SCORED = config["evaluation"]["datasets"]
SCORING_MODELS = config["evaluation"]["models"]


def code(script):
    """Digest of a rule's script and of all in waltz that it imports."""
    return digest(HERE / "workflow/scripts" / script)


def study(key):
    """One slice of the study, `a.b` for a key below a key."""
    value = config
    for part in key.split("."):
        value = value[part]
    return value


def raw_file(dataset):
    """Where the raw file of a data set is kept."""
    entry = DATASETS[dataset]
    return f"<results>/sources/raw/{entry['source']}/{dataset}/{file_name(entry)}"


def item_files(wildcards):
    """The raw file of a data set, and its single annotations where the study names them."""
    files = {"raw": raw_file(wildcards.dataset)}
    annotations = DATASETS[wildcards.dataset].get("annotations")
    return files | {"annotations": annotations} if annotations else files


pathvars:
    results=f"results/{config['study']}",
    logs=f"logs/{config['study']}",


wildcard_constraints:
    source="|".join(map(re.escape, config["sources"])),
    dataset="|".join(map(re.escape, DATASETS)),
    model="|".join(map(re.escape, MODELS)) or "none",
