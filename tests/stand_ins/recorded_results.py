"""Files in the formats of recorded runs: results of the released CC-SHAP code in its three forms,
and JSON lines.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Item = dict[str, Any]
TESTS = (
    "atanasova_counterfact",
    "turpin",
    "lanham_early",
    "lanham_mistake",
    "lanham_paraphrase",
    "lanham_filler",
)
ENDING = " Please stick to this format. [/INST] Let's think step by step:{cot}\n [INST] The best answer is: [/INST] ("


def build_item(
    text: str,
    gold: str,
    labels: tuple[str, str],
    cot: str,
    verdicts: Mapping[str, int],
    ratios: Sequence[Sequence[float]],
) -> Item:
    """Return an item in the fields of the release for language models, without running totals.

    Args:
        labels: Answer at once, and after the chain of thought.
        verdicts: By field, 0 or 1.
        ratios: Of answer and explanation post-hoc, of answer and explanation with a chain of
            thought.
    """
    tokens = [f" w{place}" for place in range(len(ratios[0]))]
    plots = [
        {
            "ratios_prediction": [f"{ratio:.2f}" for ratio in answer],
            "ratios_explanation": [f"{ratio:.2f}" for ratio in explanation],
            "input_tokens": [*tokens, " The", " best", " ("],
            "expl_input_tokens": [*tokens, " Why", " ?"],
            "len_marg_pred": 3,
            "len_marg_expl": 2,
        }
        for answer, explanation in (ratios[:2], ratios[2:])
    ]
    return {
        "input": text,
        "correct_answer": gold,
        "model_input": f"[INST] {text} [/INST] The best answer is: (",
        "model_prediction": labels[0],
        "model_input_cot": f"[INST] {text}{ENDING.format(cot=cot)}",
        "model_prediction_cot": labels[1],
        **{name: verdicts[name] for name in TESTS},
        "cc_shap-posthoc": "0.10",
        "cc_shap-cot": "-0.20",
        "shap_plot_info_post_hoc": plots[0],
        "shap_plot_info_cot": plots[1],
    }


def write_language_json(
    task: str, items: Sequence[Item], from_explanation: Sequence[int] | None = None
) -> str:
    """Return items as the release for language models writes them, with running totals."""
    return json.dumps(
        {
            f"{task}_mistral-7b-chat_{k}": item
            for k, item in enumerate(_add_totals(items, from_explanation))
        }
    )


def write_markdown(
    task: str, items: Sequence[Item], from_explanation: Sequence[int] | None = None
) -> str:
    """Return items as the fork writes them."""
    order = (
        *(
            "input",
            "correct_answer",
            "model_input",
            "model_prediction",
            "model_input_cot",
            "model_prediction_cot",
        ),
        *(
            "accuracy",
            "accuracy_cot",
            "atanasova_counterfact",
            "atanasova_input_from_expl",
            "cc_shap-posthoc",
        ),
        *(
            "turpin",
            "lanham_early",
            "lanham_mistake",
            "lanham_paraphrase",
            "lanham_filler",
            "cc_shap-cot",
        ),
        *("shap_plot_info_post_hoc", "shap_plot_info_cot"),
    )
    return "".join(
        f"### {task}_mistral-7b-chat_{k} \n"
        + "".join(f"{name}: \n{item[name]} \n\n" for name in order)
        for k, item in enumerate(_add_totals(items, from_explanation))
    )


def write_vision_json(task: str, items: Sequence[Item], grid: int = 1) -> str:
    """Return items as the release for VL decoders writes them; the first grid x grid ratios are
    those of patches.
    """
    return json.dumps(
        {f"{task}_bakllava_{k}": _nest(item, k, grid) for k, item in enumerate(items)}
    )


def _add_totals(
    items: Sequence[Item], from_explanation: Sequence[int] | None
) -> list[Item]:
    totals = {"accuracy": 0, "accuracy_cot": 0, "atanasova_input_from_expl": 0}
    written = []
    for place, item in enumerate(items):
        totals["accuracy"] += item["model_prediction"] == item["correct_answer"]
        totals["accuracy_cot"] += item["model_prediction_cot"] == item["correct_answer"]
        totals["atanasova_input_from_expl"] += (
            0 if from_explanation is None else from_explanation[place]
        )
        written.append({**item, **totals})
    return written


def _nest(item: Item, number: int, grid: int) -> Item:
    plots = []
    for name in ("shap_plot_info_post_hoc", "shap_plot_info_cot"):
        plot = item[name]
        words = len(plot["ratios_prediction"]) - grid**2
        plots.append(
            {
                "input_tokens": [f"w{place}" for place in range(words)]
                + ["The", "best"],
                "ratios_prediction": [
                    float(ratio) for ratio in plot["ratios_prediction"]
                ],
                "expl_input_tokens": [f"w{place}" for place in range(words)] + ["Why"],
                "ratios_explanation": [
                    float(ratio) for ratio in plot["ratios_explanation"]
                ],
                "num_patches_x": grid,
            }
        )
    return {
        "image_path": f"images/{number}.jpg",
        "sample": item["input"],
        "correct_answer": item["correct_answer"],
        "post-hoc": {
            "prediction": item["model_prediction"],
            "accuracy": int(item["model_prediction"] == item["correct_answer"]),
            "shap_plot_info_post_hoc": plots[0],
            "cc_shap-posthoc": item["cc_shap-posthoc"],
            "t-shap_post_hoc": "81",
            "t-shap_expl_post_hoc": "64",
            "atanasova_counterfact": 0,
            "atanasova_counterfact_info": 0,
        },
        "cot": {
            "inp_cot_askpred": item["model_input_cot"],
            "pred_cot": item["model_prediction_cot"],
            "accuracy_cot": int(item["model_prediction_cot"] == item["correct_answer"]),
            "shap_plot_info_cot": plots[1],
            "turpin": item["turpin"],
            "turpin_info": ["biased answer", "a prompt", "A"],
            "lanham_early": item["lanham_early"],
            "lanham_early_info": ["a prompt", "B"],
            "lanham_mistake": item["lanham_mistake"],
            "lanham_paraphrase": item["lanham_paraphrase"],
            "lanham_filler": item["lanham_filler"],
            "cc_shap-cot": item["cc_shap-cot"],
            "t-shap_cot": "81",
            "t-shap_expl_cot": "60",
        },
    }
