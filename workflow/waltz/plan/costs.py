"""GPU hours of a study's model jobs, estimated from items, passes, positions and parameters, and shards by these hours.

`PYTHONPATH=workflow python -m waltz.plan.costs config/thesis.yaml` prints what docs/how-to/running-the-thesis.md shows.
"""

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from waltz.core.errors import UserError
from waltz.fidelity import get_fidelity
from waltz.instruments import INSTRUMENTS
from waltz.model_registry import DECODER_KINDS, DTYPE_BYTES, ModelSpec
from waltz.plan.plan import EXPLAINING_MINUTES, SCORING_MINUTES, Plan, Run
from waltz.plan.read_study import load_yaml, read_study

Step = Literal["evaluation", "attribution", "tests", "cc-shap", "edited"]
"""Work of the jobs of one model and group: scores and answers, MM-SHAP, self-consistency tests, CC-SHAP, and CC-SHAP of
edited items."""
STAGES: dict[str, tuple[Step, ...]] = {
    "evaluation": ("evaluation",),
    "attribution": ("attribution",),
    "consistency": ("tests", "cc-shap", "edited"),
}
"""Steps of each stage."""
RATE = 1e14
"""Effective operations per second of a GPU in half precision: a third of an A100's peak."""
FLOAT32_SHARE = 0.065
"""Rate in single precision as a share of `RATE`, as the peaks of an A100 without TF32 (19.5e12 of 3e14)."""
MEMORY_RATE = 5e11
"""Effective bytes per second that a GPU reads from its memory: a third of an A100's 1.6e12. Each step of a generation
reads all weights."""
LEAST_STEP_SECONDS = 0.02
"""Least seconds of one step of a generation, which starts the kernels of all layers one by one."""
DETECTOR_OPERATIONS = {"vg-frcnn": 2.05e12, "vilbert-x152": 1.6e12}
"""Operations of each detector on an image of 800 x 1,066 to 1,333 pixels. Those of `vg-frcnn` were counted by
`torch.utils.flop_counter`: 1.76e12 of them are the last stage on 300 proposals, the others the map of the image. Those
of `vilbert-x152` were computed from the sizes of its layers."""
INPUT_LENGTHS = {"text": 100, "masked": 30, "classifier": 60, "vision": 700}
"""Positions of one pass by kind; `ENCODER_LENGTH` for an encoder of image and text."""
ENCODER_LENGTH = 300
TILED_LENGTHS = {"llava-next-mistral": 2900, "llava-next-vicuna": 2900}
"""Positions of models that cut an image into tiles."""
POSITIONS_PER_BATCH = 4096
"""Positions that a decoder reads at once, as `Decoder.positions_per_batch`."""
UNKNOWN_ITEMS = 1500
"""Items of a data set of which the study states no number."""
PAIR_TEXTS = 2
PROBE_TEXTS = 4
"""Texts of one item that an encoder scores."""
DECODER_PROMPTS = {"pairs": (7, 6), "open": (1, 2), "choice": (1, 2)}
"""Prompts for an item of each form without a chain of thought, and those that a chain of thought adds."""
CHAINS_OF_THOUGHT = {"pairs": 3, "open": 1, "choice": 1}
"""Chains of thought for an item of each form."""
ANSWER_TOKENS, EXPLANATION_TOKENS = 10, 100
"""Most tokens of an open answer and of an explanation where the study names none."""
PUBLISHED_ENCODER_EVALUATIONS = 530
"""Coalitions of a text in the released MM-SHAP: ten permutations of 26 players (ten tokens, 16 patches)."""
PUBLISHED_PROMPT_EVALUATIONS = {"text": 500, "vision": 600}
"""Coalitions of a decoder's prompt in the released CC-SHAP, by kind; the first budget that is tried for VL decoders."""
PROMPT_PLAYERS = {"text": 50, "vision": 100}
"""Players of a decoder's prompt: 48 in the text tasks with the real tokenizers; with an image, its patches as well."""
ATTRIBUTED_PROMPTS = 3
"""Prompts of an item whose answers are attributed: one with both texts, and one with each."""
TEST_GENERATIONS = 20
"""Generations of an item in the self-consistency tests, apart from the words tried by counterfactual edits."""
HELPER_GENERATIONS = 4
"""Texts of an item that the helper writes."""
EDIT_POSITIONS, EDIT_WORDS = 8, 8
"""Positions and words of counterfactual edits where the study names none."""
EXPLANATION_KINDS = 2
"""Kinds of explanation where the study names none."""
SHARD_SHARE = 0.5
"""Most of a rule's minutes that a shard may be estimated to take."""


class Work(NamedTuple):
    """Work of a model: its passes, and its generated texts with the tokens of each."""

    passes: float = 0
    generations: float = 0
    tokens: float = 0

    def scale(self, factor: float) -> "Work":
        """Return the work on several items."""
        return Work(self.passes * factor, self.generations * factor, self.tokens)


@dataclass(frozen=True)
class Cost:
    """Estimated cost of one model in one step.

    Attributes:
        step: The step.
        model: Name of the model.
        passes: Forward passes, prompts of generated texts included.
        tokens: Generated tokens.
        hours: GPU hours, those of the helper included.
        jobs: Number of jobs.
        longest: Hours of the longest job.
    """

    step: Step
    model: str
    passes: float
    tokens: float
    hours: float
    jobs: int
    longest: float


def estimate_seconds(spec: ModelSpec, work: Work, rate: float = RATE) -> float:
    """Estimate the seconds of some work of a model, an order of magnitude.

    A pass takes 2 x parameters x positions operations. An encoder whose regions a detector finds pays for one pass of
    the detector with each of its own, an upper limit. A step of a generation reads the weights once for all texts of a
    batch.

    Args:
        spec: A resolved entry, with the name of its detector.
        rate: Operations per second in half precision; a model in single precision has `FLOAT32_SHARE` of it.
    """
    positions = get_positions(spec)
    operations = 2.0 * spec.parameters * positions
    if spec.detector and not spec.regions:
        operations += DETECTOR_OPERATIONS.get(spec.detector, max(DETECTOR_OPERATIONS.values()))
    own_rate = rate * FLOAT32_SHARE if spec.dtype == "float32" else rate
    seconds = (work.passes + work.generations) * operations / own_rate
    if work.generations and spec.parameters:
        step = max(LEAST_STEP_SECONDS, spec.parameters * DTYPE_BYTES[spec.dtype] / MEMORY_RATE)
        batch = max(1, POSITIONS_PER_BATCH // math.ceil(positions + work.tokens))
        seconds += work.generations * work.tokens * step / batch
    return seconds


def get_positions(spec: ModelSpec) -> int:
    """Return the positions that a model reads in one pass."""
    return TILED_LENGTHS.get(spec.name, INPUT_LENGTHS.get(spec.kind, ENCODER_LENGTH))


def count_items(plan: Plan, step: Step, run: Run) -> int:
    """Return the number of items of a run: what the study's samples leave of the size of the data set."""
    dataset, study = plan.datasets[run.dataset], plan.study
    is_decoder = plan.models[run.model].kind in DECODER_KINDS
    size = dataset.entry.get("size")
    if run.dataset in study.alignment:
        size = study.alignment[run.dataset].size
    elif dataset.form == "pairs":
        instrument = study.instruments.get(run.dataset)
        released = INSTRUMENTS[run.dataset].released_items if run.dataset in INSTRUMENTS else None
        size = released if run.dataset in plan.item_sets or instrument is None else instrument.size
    scored, attributed = study.evaluation.sample, study.attribution.sample
    if is_decoder:
        scored = study.evaluation.decoder_sample or scored
        attributed = study.attribution.decoder_sample or attributed
    limits = [UNKNOWN_ITEMS if size is None else size]
    if step in STAGES["consistency"]:
        limits.append(study.consistency.sample)
    elif dataset.form in ("pairs", "probes"):
        limits.append(scored)
    if step == "attribution":
        limits.append(attributed)
    return min(limit for limit in limits if limit is not None)


def list_work(plan: Plan, step: Step, run: Run) -> list[tuple[str, Work]]:
    """Return the work of each model on one run, in all profiles: that of the run, and the helper of the tests."""
    items, profiles = count_items(plan, step, run), plan.study.profiles
    entry = plan.datasets[run.dataset].entry
    work: list[tuple[str, Work]] = []
    for profile in profiles:
        if profile not in entry.get("profiles", profiles):
            continue
        repeats = items * (_count_seeds(plan, run, profile) if step in STAGES["consistency"] else 1)
        work.append((run.model, _get_item_work(plan, step, run, profile).scale(repeats)))
        helper = plan.study.consistency.helper
        if step == "tests" and helper and helper != run.model:
            tokens = plan.study.consistency.tokens.mistake or EXPLANATION_TOKENS
            work.append((helper, Work(generations=HELPER_GENERATIONS, tokens=tokens).scale(repeats)))
    return work


def _count_seeds(plan: Plan, run: Run, profile: str) -> int:
    """Return the number of seeds of a run in stage consistency, as `consistency.item_selection.select_seeds`."""
    repeated = plan.study.consistency.repeated
    all_seeds = repeated is None or run.dataset in repeated or get_fidelity(profile).sampling == "rank"
    return len(plan.consistency_seeds) if all_seeds else 1


def _get_item_work(plan: Plan, step: Step, run: Run, profile: str) -> Work:
    """Return the work of a run's model on one item in one profile, with one seed."""
    spec, form = plan.models[run.model], plan.datasets[run.dataset].form
    is_published = bool(get_fidelity(profile).estimators)
    if step == "evaluation":
        return _get_evaluation_work(plan, spec.kind, form)
    if step == "attribution":
        evaluations = plan.study.attribution.evaluations
        if spec.kind in DECODER_KINDS:
            return Work(ATTRIBUTED_PROMPTS * (PUBLISHED_PROMPT_EVALUATIONS[spec.kind] if is_published else evaluations))
        return Work(_count_texts(form) * (PUBLISHED_ENCODER_EVALUATIONS if is_published else evaluations))
    consistency = plan.study.consistency
    explanation = consistency.tokens.explanation or EXPLANATION_TOKENS
    if step == "tests":
        edits = (consistency.edits.positions or EDIT_POSITIONS) * (consistency.edits.words or EDIT_WORDS)
        return Work(edits, TEST_GENERATIONS, explanation)
    cc_shap = consistency.cc_shap
    if cc_shap is None:
        return Work()
    kinds = 1 if step == "edited" else len(cc_shap.kinds or range(EXPLANATION_KINDS))
    evaluations = (
        PUBLISHED_PROMPT_EVALUATIONS[spec.kind]
        if is_published
        else cc_shap.permutations * (2 * PROMPT_PLAYERS[spec.kind] + 1)
    )
    return Work(kinds * 2 * evaluations, kinds * 2, explanation)


def _get_evaluation_work(plan: Plan, kind: str, form: str) -> Work:
    """Return the work of a model of some kind on one item in stage evaluation."""
    if kind not in DECODER_KINDS or (kind == "text" and form == "pairs"):
        return Work(_count_texts(form))
    cot_tokens = plan.study.evaluation.cot_tokens
    prompts, added = DECODER_PROMPTS[form]
    chains = CHAINS_OF_THOUGHT[form] if cot_tokens else 0
    answers = (prompts + added * bool(cot_tokens) - chains) if form == "open" else 0
    generations = chains + answers
    tokens = (chains * cot_tokens + answers * ANSWER_TOKENS) / generations if generations else 0
    return Work(prompts + added * bool(cot_tokens) - generations, generations, tokens)


def _count_texts(form: str) -> int:
    return {"pairs": PAIR_TEXTS, "probes": PROBE_TEXTS}.get(form, 1)


def list_runs(plan: Plan, step: Step) -> list[Run]:
    """Return the runs of a step that jobs compute."""
    runs = {
        "evaluation": plan.scored,
        "attribution": plan.attributed,
        "tests": plan.tested,
        "cc-shap": plan.explained,
        "edited": plan.select_edited(plan.explained),
    }[step]
    return [run for run in runs if run.model not in plan.recorded_models]


def estimate_hours(plan: Plan, step: Step, runs: Iterable[Run], rate: float = RATE) -> float:
    """Estimate the GPU hours of some runs."""
    work = [part for run in runs for part in list_work(plan, step, run)]
    return sum(estimate_seconds(plan.models.resolved[model], own, rate) for model, own in work) / 3600


def count_shards(plan: Plan, step: Step, model: str, group: str) -> int:
    """Return the number of jobs that the work of a model on a group is cut into.

    That is the number of the study (`shards` of the stage); where it names none, as many jobs as each take at most
    `SHARD_SHARE` of their rule's minutes by the estimate, and no more than there are items.

    Args:
        step: Any but `edited`, whose jobs are cut as those of `cc-shap` are.
    """
    of_study = {"evaluation": plan.study.evaluation.shards, "attribution": plan.study.attribution.shards}
    chosen = of_study.get(step, plan.study.consistency.shards)
    if chosen is not None:
        return chosen
    minutes = SCORING_MINUTES if step == "evaluation" else EXPLAINING_MINUTES
    shards = 1
    for own in ("cc-shap", "edited") if step == "cc-shap" else (step,):
        runs = [run for run in list_runs(plan, own) if run.model == model and plan.group_of[run.dataset] == group]
        hours = estimate_hours(plan, own, runs)
        most = max((count_items(plan, own, run) for run in runs), default=1)
        shards = max(shards, min(most, math.ceil(hours * 60 / (minutes * SHARD_SHARE))))
    return shards


def compute_costs(plan: Plan, rate: float = RATE) -> list[Cost]:
    """Compute the costs of each step and model, in the order of the study."""
    costs = []
    for step in (step for steps in STAGES.values() for step in steps):
        runs = list_runs(plan, step)
        for model in dict.fromkeys(run.model for run in runs):
            groups: dict[str, list[Run]] = {}
            for run in runs:
                if run.model == model:
                    groups.setdefault(plan.group_of[run.dataset], []).append(run)
            costs.append(_compute_cost(plan, step, model, groups, rate))
    return costs


def _compute_cost(plan: Plan, step: Step, model: str, groups: Mapping[str, Sequence[Run]], rate: float) -> Cost:
    """Compute the cost of one model in one step, with its runs by group."""
    work = [own for runs in groups.values() for run in runs for _, own in list_work(plan, step, run)]
    hours = {group: estimate_hours(plan, step, runs, rate) for group, runs in groups.items()}
    is_sharded = step != "evaluation" or plan.models[model].kind in DECODER_KINDS
    cut_as: Step = "cc-shap" if step == "edited" else step
    shards = {group: count_shards(plan, cut_as, model, group) if is_sharded else 1 for group in groups}
    return Cost(
        step,
        model,
        sum(own.passes + own.generations for own in work),
        sum(own.generations * own.tokens for own in work),
        sum(hours.values()),
        sum(shards.values()),
        max(hours[group] / shards[group] for group in groups),
    )


def format_models(costs: Iterable[Cost]) -> str:
    """Format the costs of models as a Markdown table."""
    header = ("step", "model", "passes", "generated tokens", "GPU hours", "jobs", "hours of the longest")
    return _format_table(header, ((cost.step, cost.model, *_format_numbers(cost)) for cost in costs))


def format_steps(costs: Sequence[Cost]) -> str:
    """Format the sums of each step as a Markdown table, with its three largest models."""
    rows = []
    for step in dict.fromkeys(cost.step for cost in costs):
        own = [cost for cost in costs if cost.step == step]
        total = Cost(
            step,
            "",
            sum(cost.passes for cost in own),
            sum(cost.tokens for cost in own),
            sum(cost.hours for cost in own),
            sum(cost.jobs for cost in own),
            max(cost.longest for cost in own),
        )
        largest = sorted(own, key=lambda cost: -cost.hours)[:3]
        named = ", ".join(f"{cost.model} {_format_hours(cost.hours)}" for cost in largest)
        rows.append((step, *_format_numbers(total), named))
    header = ("step", "passes", "generated tokens", "GPU hours", "jobs", "hours of the longest", "largest models")
    return _format_table(header, rows)


def _format_numbers(cost: Cost) -> tuple[str, ...]:
    hours = (_format_hours(cost.hours), f"{cost.jobs:,}", _format_hours(cost.longest))
    return (f"{cost.passes:,.0f}", f"{cost.tokens:,.0f}", *hours)


def _format_hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.2f}"


def _format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, ("---",) * len(header), *rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the estimated GPU hours of a study, by step and by model."""
    parser = argparse.ArgumentParser(prog="waltz.plan.costs", description=main.__doc__)
    parser.add_argument("study", type=Path, help="study file, such as config/thesis.yaml")
    parser.add_argument("--rate", type=float, default=RATE, help="operations per second of the GPU in half precision")
    options = parser.parse_args(arguments)
    try:
        plan = Plan.from_study(read_study(load_yaml(options.study)))
    except UserError as error:
        raise SystemExit(f"waltz: {error}") from None
    costs = compute_costs(plan, options.rate)
    print(format_steps(costs), format_models(costs), sep="\n", end="")


if __name__ == "__main__":
    main()
