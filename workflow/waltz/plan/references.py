"""Checks of the names in a study: each names something that exists, and no two keys contradict each
other.
"""

from collections.abc import Collection, Iterable, Iterator

from waltz.core.errors import UserError, suggest_name, suggest_or_list
from waltz.instruments import INSTRUMENTS
from waltz.model_registry import FUNCTION_KIND
from waltz.plan.datasets import list_datasets, list_recorded_datasets
from waltz.plan.raw_files import find_owners
from waltz.plan.study import (
    ALIGNMENT_FORMATS,
    CV_PROBES,
    QUESTION_FORMATS,
    RECORDED_FORMATS,
    TASK_FORMATS,
    CvProbes,
    EditShifts,
    Study,
)

Reference = tuple[str, Iterable[str], Collection[str]]
"""Key of a study that names something, the names in it, and all names that exist."""


def check_references(study: Study) -> None:
    """Refuse a study in which a key names something that does not exist, or two keys contradict
    each other.

    Raises:
        UserError: The study has such a fault; the error is about the first one.
    """
    # Names are checked first, because the other checks look them up.
    datasets = {*list_datasets(study), *study.instruments}
    _check_names(study, datasets)
    find_owners(study)
    for name, entry in study.models.items():
        if entry.recorded is not None:
            _check_source(
                study,
                f"study file: models.{name}",
                entry.recorded,
                *RECORDED_FORMATS,
                key="recorded",
            )
        if entry.kind == FUNCTION_KIND and "published" in study.profiles:
            raise UserError(
                f"study file: models.{name}.kind: profile published is about released models, not functions; set"
                " profiles: [equations]"
            )
    _check_instruments(study)
    _check_groups(study)
    if study.cv_probes:
        _check_probes(study, study.cv_probes)


def _check_names(study: Study, datasets: Collection[str]) -> None:
    """Refuse a study with a key that names something that does not exist.

    Args:
        study: The study.
        datasets: Data sets of finished items and instruments of the study.
    """
    for key, names, options in _list_references(study, datasets):
        for name in names:
            if name not in options:
                advice = suggest_or_list(name, sorted(options))
                raise UserError(
                    f"study file: {key}: nothing is called {name!r}{advice}"
                )


def _list_references(study: Study, datasets: Collection[str]) -> Iterator[Reference]:
    """Yield each key of a study that names something, with the names in it and all names that
    exist.
    """
    # Groups may contain every data set that models can be run on.
    groupable = {
        *datasets,
        *study.alignment,
        *study.answering,
        *study.texts,
        *list_recorded_datasets(study),
    }
    if study.cv_probes:
        groupable.add(CV_PROBES)
    for group, names in study.groups.items():
        yield f"groups.{group}", names, groupable
    # Stages that run models on groups.
    for stage in ("evaluation", "attribution", "consistency"):
        section = getattr(study, stage)
        yield f"{stage}.models", section.models, study.models
        yield f"{stage}.groups", section.groups, study.groups

    yield from _list_references_of_runs(study, groupable)
    yield from _list_references_of_items(study, datasets)


def _list_references_of_runs(
    study: Study, groupable: Collection[str]
) -> Iterator[Reference]:
    """Yield the keys that limit a stage to some models, groups or data sets, and the helper of the
    tests.
    """
    models, consistency, only = study.models, study.consistency, study.evaluation.only
    yield "evaluation.only", only, models
    for name, groups in only.items():
        yield f"evaluation.only.{name}", groups, study.evaluation.groups
    yield "consistency.untested", consistency.untested, consistency.models
    if consistency.cc_shap and isinstance(consistency.cc_shap.edits, EditShifts):
        edits, key = consistency.cc_shap.edits, "consistency.cc_shap.edits"
        # Edits are made by the tests.
        tested = set(consistency.models).difference(consistency.untested)
        yield f"{key}.models", edits.models or [], tested
        yield f"{key}.datasets", edits.datasets or [], groupable
    if consistency.repeated:
        yield "consistency.repeated", consistency.repeated, groupable
    if consistency.helper is not None:
        yield "consistency.helper", [consistency.helper], models
    yield "skipped", study.skipped, models


def _list_references_of_items(
    study: Study, datasets: Collection[str]
) -> Iterator[Reference]:
    """Yield the keys of stage measures, of counts and annotations, and of the models that build and
    judge foils.
    """
    models = study.models
    # Stage measures names data sets and not groups.
    yield "measures.models", study.measures.models, models
    yield "measures.datasets", study.measures.datasets, {*datasets, *study.alignment}
    if study.measures.plausibility:
        language_model = study.measures.plausibility.language_model
        yield (
            "measures.plausibility.language_model",
            [language_model],
            study.evaluation.models,
        )

    yield "reporting.pronouns", study.reporting.pronouns, datasets
    yield "benchmark.annotations", study.benchmark.annotations, study.instruments
    if study.filters:
        for key, name in study.filters.models.items():
            yield f"filters.{key}", [name], models
    if study.proposals:
        yield "proposals.spans", [study.proposals.spans], models
        yield "proposals.verbs", [study.proposals.verbs], models


def _check_instruments(study: Study) -> None:
    """Refuse instruments whose source, models or name do not fit the rest of the study."""
    datasets = list_datasets(study)
    for name, entry in study.instruments.items():
        location = f"study file: instruments.{name}"
        # Some instruments can be built from two formats of sources.
        formats = [INSTRUMENTS[name].source_format]
        if INSTRUMENTS[name].other_format:
            formats.append(INSTRUMENTS[name].other_format)
        # Both formats give captions with their images.
        if "coco-captions" in formats:
            formats.append("captions")
        _check_source(study, location, entry.source, *formats)
        # An instrument may be rebuilt next to the released data set of the same name, but not next
        # to another data set.
        if name in datasets and study.sources[datasets[name]].format != "valse-release":
            raise UserError(
                f"{location}: sources.{datasets[name]} holds a data set of that name; leave one out"
            )


def _check_groups(study: Study) -> None:
    """Refuse a data set that is in two groups, has a source of an unfit format, or has the name of
    another data set.
    """
    group_of: dict[str, str] = {}
    for group, names in study.groups.items():
        for name in names:
            if name in group_of:
                raise UserError(
                    f"study file: groups.{group}: {name!r} stands in groups.{group_of[name]} as well; remove one"
                )
            group_of[name] = group

    # Data sets that are made from a source must have new names.
    used_names = {*list_datasets(study), *study.instruments, CV_PROBES}
    for key, source, formats in _list_made_datasets(study):
        _check_source(study, f"study file: {key}", source, *formats)
        name = key.partition(".")[2]
        if name in used_names:
            raise UserError(
                f"study file: {key}: another data set has this name; rename it"
            )
        used_names.add(name)


def _list_made_datasets(study: Study) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield for each data set that is made from a source: its key, the source, and the formats that
    fit.
    """
    for name, alignment in study.alignment.items():
        yield f"alignment.{name}", alignment.source, ALIGNMENT_FORMATS[alignment.choice]
    for name, questions in study.answering.items():
        yield f"answering.{name}", questions.source, QUESTION_FORMATS
    for name, task in study.texts.items():
        yield f"texts.{name}", task.source, TASK_FORMATS


def _check_source(
    study: Study, location: str, source: str, *formats: str, key: str = "source"
) -> None:
    """Refuse a source that does not exist or has a format that is not expected."""
    if source not in study.sources:
        raise UserError(
            f"{location}.{key}: no source is called {source!r}{suggest_name(source, study.sources)}"
        )
    form = study.sources[source].format
    if form not in formats:
        raise UserError(
            f"{location}.{key}: {source} is in format {form}, this is made from {' or '.join(formats)}; name another"
            " source"
        )


def _check_probes(study: Study, entry: CvProbes) -> None:
    """Refuse CV-Probes if their source, captions, models or name do not fit the rest of the study."""
    datasets, location = list_datasets(study), "study file: cv_probes"
    _check_source(study, location, entry.source, "imsitu")
    if CV_PROBES in datasets:
        raise UserError(
            f"{location}: sources.{datasets[CV_PROBES]} holds a data set called {CV_PROBES}; rename it"
        )
    # Plain captions come either from people or from the drawn scenes.
    if entry.descriptions and entry.written:
        raise UserError(
            f"{location}: written and descriptions both give plain captions; leave one out"
        )
    if entry.checks and not entry.written:
        raise UserError(
            f"{location}.checks: people checked the captions of cv_probes.written, which is missing; name that file, or"
            " leave checks out"
        )
    if entry.repair is not None and entry.repair not in study.models:
        closest = suggest_name(entry.repair, study.models)
        raise UserError(
            f"{location}.repair: no model is called {entry.repair!r}{closest}; name it under models"
        )
