"""How far the profiles lie apart on real items, and why: T-SHAP of answer and explanation, and
CC-SHAP.

    python benchmarks/profiles.py images RESULTS/scenes --records records.jsonl
    python benchmarks/profiles.py text $WALTZ_DATA/comve --records records.jsonl [--rows 500]

`images`: the scenes' LLaVA on pairwise questions of the finished study `scenes`; `text`: SmolLM2 on
ComVE. Prompts, answer and explanation are the same in both profiles (the likeliest tokens), so that
the rules alone differ. Explained with an image is the model's own description of it, after its
answer. Items in `--records` are not computed again.

The difference published - equations is taken apart, one thing after the other:
  arithmetic  published sums on the values of equations (ratios, tokens left out)
  value       then the published value: the first step's logit, log-odds for text
  players     then the published players, masks, patches and estimator, T-SHAP over the players that both prompts share
  tail        then T-SHAP over all players; CC-SHAP drops the tail in both
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))

import numpy as np
import torch
from fidelity_differences import (
    Difference,
    ExplainedItem,
    FidelityComparison,
    compare_profiles,
    compute_mean_difference,
)

from waltz.attribution.prompt_attribution import PromptGame, PromptSettings
from waltz.consistency.cc_shap.dialogue import POST_HOC, Dialogue, generate_pairs
from waltz.consistency.cc_shap.pair_attribution import (
    PairAttribution,
    SideAttribution,
    attribute_pairs,
)
from waltz.consistency.item_selection import select_questions
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.jobs.devices import Device
from waltz.core.measure import Measure
from waltz.core.records import to_row
from waltz.core.schema import BENCHMARK
from waltz.evaluation.decoder_tasks import build_template
from waltz.evaluation.prompting.prompts import (
    PromptTemplate,
    build_equations_template,
    join_turns,
)
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import EQUATIONS, PUBLISHED
from waltz.model_registry import ModelSpec, resolve_model
from waltz.models.decoders import load_decoder
from waltz.models.decoders.decoder import ChatTurn, Decoder, PreparedImage
from waltz.sources.formats import text_tasks
from waltz.sources.images import load_image, open_images

ROOT = Path(__file__).resolve().parent.parent
SEED = 1520
IMAGES = {
    "existence": "visual7w/images",
    "counting-small": "visual7w/images",
    "foil-it": "coco/val2014",
    "relations": "coco/val2017",
    "plurality": "coco/val2017",
}
NUMBERS = ("t_shap_answer", "t_shap_explanation", "cc_shap")
STEPS = ("arithmetic", "value", "players", "tail")


def format_interval(measure: Measure) -> str:
    """Return the interval that follows a difference; an empty text without one."""
    if measure.ci_low is None or measure.ci_high is None:
        return ""
    return f" [{measure.ci_low:+.3f}, {measure.ci_high:+.3f}]"


def of_images(
    results: Path, items: int
) -> Iterator[tuple[Question, Decoder, PromptTemplate, PreparedImage]]:
    """Questions of the scenes' instruments, as many of each."""
    llava, prompts = (
        ROOT / "resources/scenes/models/llava",
        ROOT / "workflow/waltz/resources/prompts/scenes.yaml",
    )
    spec = ModelSpec(
        "scenes-llava", "vision", str(llava), "local", prompts=str(prompts)
    )
    decoder = load_decoder(spec, Device("cpu", 1, "benchmark"))
    template = build_template(decoder, EQUATIONS)
    for name, folder in IMAGES.items():
        rows = parquet.read_rows(results / f"benchmark/{name}.parquet", BENCHMARK)
        with open_images(results / "sources/drawn" / folder) as source:
            questions = select_questions(
                rows,
                name,
                {"form": "pairs"},
                EQUATIONS,
                -(-items // len(IMAGES)),
                SEED,
            )
            for question in questions.questions:
                yield (
                    question,
                    decoder,
                    template,
                    decoder.prepare_image(partial(load_image, source)(question.image)),
                )


def of_text(
    data: Path, items: int
) -> Iterator[tuple[Question, Decoder, PromptTemplate, None]]:
    """Questions of ComVE, put without turn markers."""
    rows = list(
        map(
            to_row,
            text_tasks.read_comve(
                data / "subtaskA_test_data.csv",
                data / "subtaskA_gold_answers.csv",
                "comve",
                "test",
            ),
        )
    )
    decoder = load_decoder(
        resolve_model("smollm2-135m-instruct", {}), Device("cpu", 1, "benchmark")
    )
    for question in select_questions(
        rows, "comve", {"form": "choice"}, EQUATIONS, items, SEED
    ).questions:
        yield question, decoder, build_equations_template(join_turns), None


def pair_of(
    question: Question,
    decoder: Decoder,
    template: PromptTemplate,
    picture: PreparedImage | None,
    new: int,
) -> tuple[PromptGame, PromptGame]:
    """Answer and explanation; with an image the explanation is the model's own description of it."""
    parts = generate_pairs(
        Dialogue(decoder, template, SEED, new), question, picture, (POST_HOC,)
    ).pairs[POST_HOC]
    if isinstance(parts, Exception):
        raise parts
    if picture is None:
        return parts
    prompt = decoder.build_prompt(
        decoder.render_chat([ChatTurn("user", "Describe the image.", True)])
    )
    (description,) = decoder.generate([prompt], [picture], new, None, [SEED])
    return parts[0], replace(parts[1], targets=description)


def game(attribution: PairAttribution) -> ExplainedItem:
    """A pair as profiles are compared."""
    one, other = attribution.answer, attribution.explanation
    return ExplainedItem(
        one.shared_estimate,
        other.shared_estimate,
        one.attribution.text_slice,
        other.attribution.text_slice,
    )


def of_shared(side: SideAttribution) -> float:
    """T-SHAP by published sums over the shared players alone."""
    weight = np.abs(side.attribution.estimate.phi[side.shared]).sum(axis=1)
    text = np.isin(
        side.shared,
        np.arange(len(side.attribution.estimate.phi))[side.attribution.text_slice],
    )
    return float(weight[text].sum() / weight.sum())


def steps(
    comparison: FidelityComparison,
    valued: FidelityComparison,
    published: PairAttribution,
) -> dict[str, dict[str, float]]:
    """What of each difference comes from which rule."""
    record = {}
    for name in NUMBERS:
        one, other = getattr(comparison, name), getattr(valued, name)
        if one.value is None or other.published is None:
            continue
        shared = (
            one.published
            if name == "cc_shap"
            else of_shared(getattr(published, name.removeprefix("t_shap_")))
        )
        by = one.by_arithmetic
        parts = (
            by,
            other.published - one.equations - by,
            shared - other.published,
            one.published - shared,
        )
        record[name] = dict(zip(STEPS, parts, strict=True))
    return record


def compute(
    question: Question,
    decoder: Decoder,
    template: PromptTemplate,
    picture: PreparedImage | None,
    given,
) -> dict:
    """One item in both profiles."""
    begin = time.process_time()
    pair = pair_of(question, decoder, template, picture, given.new)
    rules = PromptSettings(
        EQUATIONS, SEED, estimator="permutation", permutations=given.permutations
    )
    value = "log-odds" if picture is None else "first-step-logit"
    ours, valued, theirs = (
        attribute_pairs(decoder, picture, [pair], one)[0]
        for one in (
            rules,
            replace(rules, value=value),
            PromptSettings(PUBLISHED, SEED, partition_rows=given.rows),
        )
    )
    comparison, crossed = (
        compare_profiles(game(theirs), game(ours)),
        compare_profiles(game(valued), game(ours)),
    )
    return {
        "item": question.item_id,
        "image": question.image,
        "outputs": len(pair[1].targets),
        "differences": {name: asdict(getattr(comparison, name)) for name in NUMBERS},
        "steps": steps(comparison, crossed, theirs),
        "seconds": time.process_time() - begin,
    }


def table(records: list[dict]) -> None:
    """Means over items with 95 % intervals over images."""
    how = Resampling(4000, 0.95, SEED)
    mean = np.mean([[one["outputs"], one["seconds"]] for one in records], axis=0)
    print(
        f"{len(records)} items, {mean[0]:.1f} tokens explained, {mean[1]:.0f} seconds of the processor each"
    )
    for name in NUMBERS:
        known = [one for one in records if name in one["steps"]]
        if not known:
            continue
        differences = [Difference(**one["differences"][name]) for one in known]
        clusters = [one["image"] or one["item"] for one in known]
        mean_difference = compute_mean_difference(differences, clusters, name, how)
        errors = [
            one.beyond_error for one in differences if one.beyond_error is not None
        ]
        pair = np.mean([[one.published, one.equations] for one in differences], axis=0)
        apart = np.mean([abs(one.value) for one in differences])
        print(
            f"{name}: published {pair[0]:.3f}, equations {pair[1]:.3f}, n {len(differences)}, "
            f"mean |difference| {apart:.3f}"
        )
        print(
            f"  difference {mean_difference.value:+.3f}{format_interval(mean_difference)}"
        )
        print(f"  beyond 1.96 standard errors: {sum(errors)} of {len(errors)}")
        for step in STEPS:
            parts = [
                replace(one, value=of["steps"][name][step])
                for one, of in zip(differences, known, strict=True)
            ]
            by = compute_mean_difference(parts, clusters, name, how)
            print(f"  {step:10} {by.value:+.3f}{format_interval(by)}")


def main() -> None:
    """Compute the items that are not in the file yet, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["images", "text"])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--records", type=Path, required=True, help="JSON lines of finished items"
    )
    parser.add_argument("--items", type=int, default=20)
    parser.add_argument(
        "--new", type=int, default=8, help="most tokens of an explanation"
    )
    parser.add_argument(
        "--permutations",
        type=int,
        default=4,
        help="of equations, each with its reverse",
    )
    parser.add_argument(
        "--rows", type=int, default=500, help="of the partition explainer"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    records = (
        [json.loads(line) for line in given.records.read_text().splitlines()]
        if given.records.exists()
        else []
    )
    done = {one["item"] for one in records}
    items = (of_images if given.what == "images" else of_text)(
        given.folder, given.items
    )
    for question, decoder, template, picture in items:
        if question.item_id not in done:
            records.append(compute(question, decoder, template, picture, given))
            with given.records.open("a") as file:
                file.write(json.dumps(records[-1]) + "\n")
    table(records)


if __name__ == "__main__":
    main()
