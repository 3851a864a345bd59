"""Estimated GPU hours of a study, from items, passes, positions and parameters, and the number of
shards of each job.

`PYTHONPATH=workflow python -m waltz.plan.costs config/thesis.yaml` prints the tables in
docs/how-to/running-the-thesis.md.
"""

import argparse
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from waltz.core.errors import UserError
from waltz.fidelity import Fidelity, get_fidelity
from waltz.model_registry import DECODER_KINDS, DTYPE_BYTES, ModelSpec
from waltz.plan.build_plan import build_plan
from waltz.plan.datasets import OPEN, PAIRS, PROBES
from waltz.plan.plan import EXPLAINING_MINUTES, SCORING_MINUTES, Plan
from waltz.plan.read_study import read_study_files
from waltz.plan.run_table import STAGE_OF_STEP, STAGES, Run, Step, group_runs
from waltz.plan.step_settings import get_consistency_seeds, get_decoder_sample
from waltz.valse_release import PUBLISHED_VALID_ITEMS

RATE = 1e14
"""Effective operations per second of a GPU in half precision: a third of the peak of an A100."""
RATE_SHARES = {"float32": 0.065, "tf32": 0.5}
"""Rate in single precision, and with TF32, as a share of `RATE`: the ratios of an A100's peaks
(19.5e12 and 1.56e14 of 3e14).
"""
MEMORY_RATE = 5e11
"""Effective bytes per second that a GPU reads from its memory: a third of the 1.6e12 of an A100.
Each step of a generation reads all weights.
"""
LEAST_STEP_SECONDS = 0.02
"""Smallest duration of one step of a generation in seconds; a step starts the kernels of all layers
one by one.
"""
DETECTOR_OPERATIONS = {"vg-frcnn": 2.05e12, "vilbert-x152": 1.6e12}
"""Operations of each detector on an image of 800 x 1,066 to 1,333 pixels.
`torch.utils.flop_counter` counted the operations of `vg-frcnn`: 1.76e12 for the last stage on 300
proposals, the rest for the feature map of the image. The number for `vilbert-x152` was computed
from the sizes of its layers.
"""
INPUT_LENGTHS = {"text": 100, "masked": 30, "classifier": 60, "vision": 700}
"""Positions (tokens and patches) of one pass by kind of model."""
ENCODER_LENGTH = 300
"""Positions of one pass of an encoder of image and text."""
TILED_LENGTHS = {"llava-next-mistral": 2900, "llava-next-vicuna": 2900}
"""Positions of one pass of models that cut an image into tiles, by name."""
POSITIONS_PER_BATCH = 4096
"""Positions that a decoder reads in one batch, as in `Decoder.positions_per_batch`."""
UNKNOWN_ITEMS = 1500
"""Assumed number of items of a data set if the study does not state it."""
TEXTS_OF_FORM = {"pairs": 2, "probes": 4}
"""Number of texts of one item that an encoder scores, by the form of the data set; 1 for other
forms.
"""
DECODER_PROMPTS = {"pairs": (7, 6), "open": (1, 2), "choice": (1, 2)}
"""Number of prompts for one item by form: without chains of thought, and the further prompts with
them.
"""
CHAINS_OF_THOUGHT = {"pairs": 3, "open": 1, "choice": 1}
"""Number of chains of thought for one item by form."""
ANSWER_TOKENS, EXPLANATION_TOKENS = 10, 100
"""Largest number of tokens of an open answer and of an explanation if the study sets none."""
PUBLISHED_ENCODER_EVALUATIONS = 530
"""Coalitions for one text in the released code of MM-SHAP: ten permutations of 26 players (10
tokens, 16 patches).
"""
PUBLISHED_PROMPT_EVALUATIONS = {"text": 500, "vision": 600}
"""Coalitions for one prompt of a decoder in the released code of CC-SHAP, by kind; for VL decoders
the first budget that the code tries.
"""
PROMPT_PLAYERS = {"text": 50, "vision": 100}
"""Assumed players of a decoder's prompt by kind. Text tasks have 48 with the real tokenizers; an
image adds patches.
"""
ATTRIBUTED_PROMPTS = 3
"""Prompts of one item whose answers are attributed: a prompt with both texts, and a prompt with
each text.
"""
TEST_GENERATIONS = 20
"""Generated texts of one item in the self-consistency tests, not counting the words that
counterfactual edits try.
"""
HELPER_GENERATIONS = 4
"""Number of texts that the helper generates for one item."""
EDIT_POSITIONS, EDIT_WORDS = 8, 8
"""Positions and words of counterfactual edits if the study sets none."""
EXPLANATION_KINDS = 2
"""Number of kinds of explanation if the study sets none."""
SHARD_SHARE = 0.5
"""Largest share of a rule's time limit that a shard may take by the estimate."""


class Work(NamedTuple):
    """Work of a model: number of passes, number of generated texts, and mean tokens of a generated
    text.
    """

    passes: float = 0
    generations: float = 0
    tokens: float = 0

    def scale(self, factor: float) -> "Work":
        """Return the work on `factor` times as many items."""
        return Work(self.passes * factor, self.generations * factor, self.tokens)


@dataclass(frozen=True)
class Cost:
    """Estimated cost of one model in one step.

    Attributes:
        step: The step.
        model: Name of the model.
        passes: Number of forward passes, including the prompts of generated texts.
        tokens: Number of generated tokens.
        hours: GPU hours, including the hours of the helper.
        jobs: Number of jobs.
        longest: GPU hours of the longest job.
    """

    step: Step
    model: str
    passes: float
    tokens: float
    hours: float
    jobs: int
    longest: float


def estimate_seconds(spec: ModelSpec, work: Work, rate: float = RATE) -> float:
    """Return the estimated GPU seconds of some work of a model; the estimate is an order of
    magnitude.

    A pass takes 2 x parameters x positions operations. An encoder with a detector takes one pass of
    the detector for each pass, which is an upper limit. Each step of a generation reads the weights
    once for all texts of a batch.

    Args:
        spec: A resolved entry, with the name of its detector.
        work: The work.
        rate: Operations per second in half precision; other precisions have `RATE_SHARES` of
            it.
    """
    positions = get_positions(spec)
    # Each parameter takes one multiplication and one addition a position.
    operations = 2.0 * spec.parameters * positions
    # Stored regions need no detector; an unknown detector counts as the slowest one.
    if spec.detector and not spec.regions:
        operations += DETECTOR_OPERATIONS.get(
            spec.detector, max(DETECTOR_OPERATIONS.values())
        )
    rate *= RATE_SHARES.get(spec.dtype, 1.0)
    # The prompt of a generated text takes one pass as well.
    seconds = (work.passes + work.generations) * operations / rate
    if not (work.generations and spec.parameters):
        return seconds

    # Generated tokens come one by one: each step waits for the memory that holds the weights.
    weight_bytes = spec.parameters * DTYPE_BYTES[spec.dtype]
    step_seconds = max(LEAST_STEP_SECONDS, weight_bytes / MEMORY_RATE)
    texts_per_batch = max(1, POSITIONS_PER_BATCH // math.ceil(positions + work.tokens))
    return seconds + work.generations * work.tokens * step_seconds / texts_per_batch


def get_positions(spec: ModelSpec) -> int:
    """Return the number of positions that a model reads in one pass."""
    return TILED_LENGTHS.get(spec.name, INPUT_LENGTHS.get(spec.kind, ENCODER_LENGTH))


def count_items(plan: Plan, step: Step, run: Run) -> int:
    """Return the number of items of a run: the size of the data set, limited by the samples of the
    study.
    """
    study, form = plan.study, plan.datasets[run.dataset].form
    # Decoders may have smaller samples than encoders, since their passes cost more.
    scored, attributed = study.evaluation.sample, study.attribution.sample
    if plan.models[run.model].kind in DECODER_KINDS:
        scored = get_decoder_sample(study)
        attributed = study.attribution.decoder_sample or attributed

    size = _get_size(plan, run.dataset)
    # The smallest limit counts, since each stage samples from the items of the stage before; None
    # means no limit.
    limits: list[int | None] = [UNKNOWN_ITEMS if size is None else size]
    if step in STAGES["consistency"]:
        limits.append(study.consistency.sample)
    elif form in (PAIRS, PROBES):
        limits.append(scored)
    if step == "attribution":
        limits.append(attributed)
    return min(limit for limit in limits if limit is not None)


def _get_size(plan: Plan, dataset: str) -> int | None:
    """Return the number of items of a data set; None if neither the study nor the release states
    it.
    """
    study = plan.study
    # Sizes come from the study; only the released data sets have known sizes otherwise.
    if dataset in study.alignment:
        return study.alignment[dataset].size
    if plan.datasets[dataset].form != PAIRS:
        return plan.datasets[dataset].entry.get("size")
    # A released data set keeps its size even if the study rebuilds its instrument.
    is_built = dataset in study.instruments and dataset not in plan.item_sets
    if is_built:
        return study.instruments[dataset].size
    return PUBLISHED_VALID_ITEMS.get(dataset)


def list_work(plan: Plan, step: Step, run: Run) -> list[tuple[str, Work]]:
    """Return each model that works on a run, with its work in all profiles: the run's model and the
    tests' helper.
    """
    items, consistency = count_items(plan, step, run), plan.study.consistency
    profiles = plan.datasets[run.dataset].select_profiles(plan.study.profiles)
    work: list[tuple[str, Work]] = []
    for profile in profiles:
        # Stage consistency repeats its work for each seed.
        repeats = items
        fidelity = get_fidelity(profile)
        if step in STAGES["consistency"]:
            repeats *= _count_seeds(plan, run)
        item_work = _get_item_work(plan, step, run, fidelity)
        work.append((run.model, item_work.scale(repeats)))
        # If the helper is another model, it generates mistakes and paraphrases for each item.
        if step == "tests" and consistency.helper and consistency.helper != run.model:
            tokens = consistency.tokens.mistake or EXPLANATION_TOKENS
            helper_work = Work(generations=HELPER_GENERATIONS, tokens=tokens)
            work.append((consistency.helper, helper_work.scale(repeats)))
    return work


def _count_seeds(plan: Plan, run: Run) -> int:
    """Return the largest number of seeds of a run in stage consistency, as in
    `consistency.item_selection.select_seeds`.

    Only the checkpoint says whether a language model samples, so that all are counted as if they
    did.
    """
    # The papers repeated their runs on some data sets only; without a list, all are repeated. A
    # model that does not sample takes one seed there, so that the count is an upper limit.
    repeated = plan.study.consistency.repeated
    if repeated is None or run.dataset in repeated:
        return len(get_consistency_seeds(plan.study))
    return 1


def _get_item_work(plan: Plan, step: Step, run: Run, fidelity: Fidelity) -> Work:
    """Return the work of a run's model on one item in one fidelity, with one seed."""
    kind, form = plan.models[run.model].kind, plan.datasets[run.dataset].form
    has_published_budget = bool(fidelity.estimators)
    if step == "evaluation":
        return _get_evaluation_work(plan, kind, form)
    if step == "attribution":
        return _get_attribution_work(plan, kind, form, has_published_budget)
    # Stage consistency: first the seven tests, then CC-SHAP.
    consistency = plan.study.consistency
    explanation = consistency.tokens.explanation or EXPLANATION_TOKENS
    if step == "tests":
        # A counterfactual edit tries each word at each position, a pass for each.
        positions = consistency.edits.positions or EDIT_POSITIONS
        words = consistency.edits.words or EDIT_WORDS
        return Work(positions * words, TEST_GENERATIONS, explanation)

    # CC-SHAP, of the items or of their counterfactual edits (step `edited`, with one explanation
    # each).
    cc_shap = consistency.cc_shap
    if cc_shap is None:
        return Work()
    kinds = 1
    if step == "cc-shap":
        kinds = len(cc_shap.kinds) if cc_shap.kinds else EXPLANATION_KINDS
    if has_published_budget:
        evaluations = PUBLISHED_PROMPT_EVALUATIONS[kind]
    else:
        # A permutation with its reverse takes 2 n + 1 coalitions of n players
        # (`consistency.cc_shap.permutations`).
        evaluations = cc_shap.permutations * (2 * PROMPT_PLAYERS[kind] + 1)
    # An answer and its explanation are generated, and both are attributed.
    return Work(kinds * 2 * evaluations, kinds * 2, explanation)


def _get_attribution_work(
    plan: Plan, kind: str, form: str, has_published_budget: bool
) -> Work:
    """Return the work of a model of a kind on one item in stage attribution."""
    # Decoders explain the answers to some prompts, encoders the score of each text.
    if kind in DECODER_KINDS:
        outputs, published = ATTRIBUTED_PROMPTS, PUBLISHED_PROMPT_EVALUATIONS[kind]
    else:
        outputs, published = _count_texts(form), PUBLISHED_ENCODER_EVALUATIONS
    evaluations = (
        published if has_published_budget else plan.study.attribution.evaluations
    )
    return Work(outputs * evaluations)


def _get_evaluation_work(plan: Plan, kind: str, form: str) -> Work:
    """Return the work of a model of a kind on one item in stage evaluation."""
    scores_texts = kind not in DECODER_KINDS or (kind == "text" and form == PAIRS)
    if scores_texts:
        return Work(_count_texts(form))
    # A decoder reads one prompt for each question with labels, and a further prompt after a chain
    # of thought.
    cot_tokens = plan.study.evaluation.cot_tokens
    prompts, added_by_chain = DECODER_PROMPTS[form]
    chains = 0
    if cot_tokens:
        prompts += added_by_chain
        chains = CHAINS_OF_THOUGHT[form]
    # Other answers are labels, whose tokens one pass scores.
    answers = prompts - chains if form == OPEN else 0
    generations = chains + answers
    if generations == 0:
        return Work(prompts)
    # Mean tokens of a generated text, over chains of thought and open answers.
    tokens = (chains * cot_tokens + answers * ANSWER_TOKENS) / generations
    return Work(prompts - generations, generations, tokens)


def _count_texts(form: str) -> int:
    """Return the number of texts that an encoder scores for one item of a form."""
    return TEXTS_OF_FORM.get(form, 1)


def list_computed_runs(plan: Plan, step: Step) -> list[Run]:
    """Return the runs of a step that jobs compute, without recorded runs."""
    return [
        run
        for run in plan.runs.select(step).runs
        if run.model not in plan.recorded_models
    ]


def estimate_hours(
    plan: Plan, step: Step, runs: Iterable[Run], rate: float = RATE
) -> float:
    """Return the estimated GPU hours of some runs, including the hours of the helper."""
    seconds = 0.0
    for run in runs:
        for model, work in list_work(plan, step, run):
            seconds += estimate_seconds(plan.models.resolved[model], work, rate)
    return seconds / 3600


def count_shards(plan: Plan, step: Step, model: str, group: str) -> int:
    """Return the number of jobs (shards) into which the work of a model on a group is cut.

    The study may set the number (`shards` of the stage). Otherwise each job takes at most
    `SHARD_SHARE` of the time limit of its rule by the estimate, and there are at most as many jobs
    as items.

    Args:
        plan: The plan.
        step: Any step but `edited`, which has the same shards as `cc-shap`.
        model: Name of the model.
        group: Name of the group.
    """
    # The number in the study has precedence over the estimate.
    chosen = getattr(plan.study, STAGE_OF_STEP[step]).shards
    if chosen is not None:
        return int(chosen)
    # A shard may take only a share of its time limit, since the estimate is an order of magnitude.
    minutes = SCORING_MINUTES if step == "evaluation" else EXPLAINING_MINUTES
    minutes_of_shard = minutes * SHARD_SHARE
    steps: tuple[Step, ...] = ("cc-shap", "edited") if step == "cc-shap" else (step,)
    # CC-SHAP of items and of their edits have the same shards: the longer of the two decides.
    shards = 1
    for shared_step in steps:
        runs = _select_runs(plan, shared_step, model, group)
        if not runs:
            continue
        most_items = max(count_items(plan, shared_step, run) for run in runs)
        needed = math.ceil(
            estimate_hours(plan, shared_step, runs) * 60 / minutes_of_shard
        )
        shards = max(shards, min(most_items, needed))
    return shards


def count_jobs(plan: Plan, step: Step, run: Run) -> int:
    """Return the number of jobs that compute the file of a run, one for each shard."""
    # In stage evaluation only the answers of decoders have shards, not the scores of texts.
    if step == "evaluation" and run not in plan.decoded:
        return 1
    sharded_step: Step = "cc-shap" if step == "edited" else step
    return count_shards(plan, sharded_step, run.model, plan.group_of[run.dataset])


def _select_runs(plan: Plan, step: Step, model: str, group: str) -> list[Run]:
    """Return the runs of one model on one group that jobs of a step compute."""
    runs = []
    for row in plan.runs.select(step):
        is_computed = row.model not in plan.recorded_models
        if is_computed and (row.model, row.group) == (model, group):
            runs.append(row.run)
    return runs


def compute_costs(plan: Plan, rate: float = RATE) -> list[Cost]:
    """Return the costs of each step and model, in the order of the study."""
    costs = []
    # One cost for each step and model; its runs are grouped by their file, whose jobs they share.
    for step in STAGE_OF_STEP:
        runs_of_models = group_runs(
            (run.model, run) for run in list_computed_runs(plan, step)
        )
        for model, runs in runs_of_models.items():
            files = group_runs((plan.get_run_file(step, run), run) for run in runs)
            costs.append(_compute_cost(plan, step, model, files.values(), rate))
    return costs


def _compute_cost(
    plan: Plan,
    step: Step,
    model: str,
    files: Iterable[Sequence[Run]],
    rate: float,
) -> Cost:
    """Return the cost of one model in one step; `files` has the runs of each file of results."""
    passes = tokens = hours = longest = 0.0
    jobs = 0
    for runs in files:
        for run in runs:
            for _, work in list_work(plan, step, run):
                passes += work.passes + work.generations
                tokens += work.generations * work.tokens
        # The shards of a file are equal, so each takes an equal part of the hours.
        file_hours = estimate_hours(plan, step, runs, rate)
        file_jobs = count_jobs(plan, step, runs[0])
        hours, jobs = hours + file_hours, jobs + file_jobs
        longest = max(longest, file_hours / file_jobs)
    return Cost(step, model, passes, tokens, hours, jobs, longest)


def format_models(costs: Iterable[Cost]) -> str:
    """Return the costs of models as a Markdown table."""
    header = (
        "step",
        "model",
        "passes",
        "generated tokens",
        "GPU hours",
        "jobs",
        "hours of the longest",
    )
    return _format_table(
        header, ((cost.step, cost.model, *_format_numbers(cost)) for cost in costs)
    )


def format_steps(costs: Sequence[Cost]) -> str:
    """Return the total cost of each step as a Markdown table, with the three models that take most
    hours.
    """
    rows = []
    # The costs of a step follow each other.
    for step, group in groupby(costs, key=attrgetter("step")):
        step_costs = list(group)
        largest = sorted(step_costs, key=lambda cost: -cost.hours)[:3]
        names = ", ".join(
            f"{cost.model} {_format_hours(cost.hours)}" for cost in largest
        )
        rows.append((step, *_format_numbers(_sum_costs(step_costs)), names))
    header = (
        "step",
        "passes",
        "generated tokens",
        "GPU hours",
        "jobs",
        "hours of the longest",
        "largest models",
    )
    return _format_table(header, rows)


def _sum_costs(costs: Sequence[Cost]) -> Cost:
    """Return the total cost of several models in one step; `longest` is the longest job of all."""
    return Cost(
        costs[0].step,
        "",
        sum(cost.passes for cost in costs),
        sum(cost.tokens for cost in costs),
        sum(cost.hours for cost in costs),
        sum(cost.jobs for cost in costs),
        max(cost.longest for cost in costs),
    )


def _format_numbers(cost: Cost) -> tuple[str, ...]:
    """Return the numbers of a cost as the texts of table cells."""
    hours = (_format_hours(cost.hours), f"{cost.jobs:,}", _format_hours(cost.longest))
    return (f"{cost.passes:,.0f}", f"{cost.tokens:,.0f}", *hours)


def _format_hours(hours: float) -> str:
    """Return hours as text: whole numbers from 10 on, else two decimals."""
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.2f}"


def _format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "".join(
        f"| {' | '.join(row)} |\n" for row in (header, ("---",) * len(header), *rows)
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the estimated GPU hours of a study, by step and by model."""
    parser = argparse.ArgumentParser(prog="waltz.plan.costs", description=main.__doc__)
    parser.add_argument(
        "study", type=Path, help="study file, such as config/thesis.yaml"
    )
    parser.add_argument(
        "--rate",
        type=float,
        default=RATE,
        help="operations per second of the GPU in half precision",
    )
    options = parser.parse_args(arguments)
    try:
        plan = build_plan(read_study_files([options.study], options.study.parent))
    except UserError as error:
        raise SystemExit(f"waltz: {error}") from None
    costs = compute_costs(plan, options.rate)
    print(format_steps(costs), format_models(costs), sep="\n", end="")


if __name__ == "__main__":
    main()
