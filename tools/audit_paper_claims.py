"""Audit the claims of the papers' running text that follow from their own tables.

`python -m tools.audit_paper_claims FILE` writes a CSV file or a page (`.md`) with one row for each
claim: whether the printed cells support it, and the numbers that decide. Nothing is measured. A vague word such as
"close" is decided by the number in brackets after the claim.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from waltz.cli.output import write_csv
from waltz.core.files.atomic import write_text
from waltz.reporting.tables.declaration import AVERAGE, PUBLISHED
from waltz.reporting.tables.derived_numbers import derive_paper_averages
from waltz.reporting.tables.paper_values import (
    RANDOM,
    PaperKey,
    PaperValue,
    read_paper_values,
)

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "cannot be said"
COLUMNS = ("document", "section", "claim", "answer", "evidence")
MOST_EXCEPTIONS = 4
"""Largest number of exceptions that the evidence lists."""

THESIS, VALSE, MM_SHAP = "thesis", "VALSE", "MM-SHAP"
DECODERS, CV_PROBES = "VL decoders", "CV-Probes"

ENCODERS = ("clip", "lxmert", "vilbert", "vilbert-12in1", "visualbert")
ALBEF = ("albef-mscoco", "albef-flickr", "albef-refcoco", "albef-vqa")
LLAVA = ("bakllava", "llava-next-mistral", "llava-next-vicuna")
MPLUG = "mplug-owl3"
GENERATIVE = ("vqa", "gqa", "gqa-balanced")
TEXT_TESTS = (
    "counterfactual_edits",
    "input_from_explanation",
    "biasing_features",
    "early_answering",
    "filler_tokens",
    "adding_mistakes",
    "paraphrasing",
)
CHAT_MODELS = {
    "llama2-7b-chat": "llama2-7b",
    "llama2-13b-chat": "llama2-13b",
    "mistral-7b-chat": "mistral-7b",
    "falcon-7b-chat": "falcon-7b",
    "falcon-40b-chat": "falcon-40b",
}
"""Chat model and its base model."""
LARGER_MODELS = {
    "llama2-13b-chat": "llama2-7b-chat",
    "falcon-40b-chat": "falcon-7b-chat",
}
"""Larger chat model and the smaller one of its kind (Figure C.3)."""
TEXT_TASKS = ("thesis-5.2", "thesis-C.2")
LLAVA_TABLES = ("thesis-5.5", "thesis-C.25")
DECODER_TABLES = ("decoders-paper-2", "decoders-paper-3")
KEY_CONDITION = "cv-probes:-img+cap"
HARMONIC_MEAN = "cv-probes:harmonic-mean"


@dataclass(frozen=True)
class Judgement:
    """Answer of the printed cells to a claim, with the numbers that decide it."""

    answer: str
    evidence: str


class PaperTables:
    """Numbers of all published tables."""

    def __init__(self, folder: Path = PUBLISHED) -> None:
        """Read all CSVs of a folder of published tables."""
        self.tables: dict[str, dict[PaperKey, PaperValue]] = {}
        for path in sorted(folder.glob("*.csv")):
            self.tables[path.stem] = read_paper_values(path)

    def get(
        self, table: str, metric: str, model: str, dataset: str, setting: str = ""
    ) -> float:
        """Return the number in one cell."""
        number = self.tables[table][PaperKey(metric, model, dataset, setting)]
        return float(number.value)

    def get_averages(
        self, table: str, metric: str, models: Iterable[str], setting: str = ""
    ) -> dict[str, float]:
        """Return the printed averages of models over data sets."""
        return {
            model: self.get(table, metric, model, AVERAGE, setting) for model in models
        }

    def select(
        self,
        tables: str | Sequence[str],
        metrics: str | Sequence[str],
        models: Sequence[str] = (),
        datasets: Sequence[str] = (),
        setting: str | None = None,
    ) -> dict[str, float]:
        """Return the numbers of cells by a name for people.

        Chance levels, averages and cells without a number are skipped. No models or data sets mean
        all of them, no setting any.
        """
        wanted_tables = [tables] if isinstance(tables, str) else tables
        wanted_metrics = [metrics] if isinstance(metrics, str) else metrics
        numbers = {}
        for table in wanted_tables:
            for key, cell in self.tables[table].items():
                number = cell.parse_number()
                if number is None or key.metric not in wanted_metrics:
                    continue
                if key.model == RANDOM or key.dataset in (AVERAGE, HARMONIC_MEAN):
                    continue
                if models and key.model not in models:
                    continue
                if datasets and key.dataset not in datasets:
                    continue
                if setting is not None and key.setting != setting:
                    continue
                numbers[_name_cell(key, wanted_metrics)] = number
        return numbers


def _name_cell(key: PaperKey, metrics: Sequence[str]) -> str:
    """Return the name of a cell in the evidence; several metrics are told apart."""
    parts = [key.model, key.dataset, key.setting]
    if len(metrics) > 1:
        parts.insert(0, key.metric)
    return " ".join(filter(None, parts))


@dataclass(frozen=True)
class Claim:
    """One claim of a document.

    Attributes:
        document: The document.
        section: Its section.
        text: The claim in our words.
        judge: Function that returns what the printed cells say.
    """

    document: str
    section: str
    text: str
    judge: Callable[[PaperTables], Judgement]


CLAIMS: list[Claim] = []
"""All claims, by document and section."""


def claim(
    document: str, section: str, text: str
) -> Callable[[Callable[[PaperTables], Judgement]], Callable[[PaperTables], Judgement]]:
    """Add a claim, which the decorated function judges, to `CLAIMS`."""

    def add(
        judge: Callable[[PaperTables], Judgement],
    ) -> Callable[[PaperTables], Judgement]:
        CLAIMS.append(Claim(document, section, text, judge))
        return judge

    return add


# Ways to judge


def judge_all(
    numbers: Mapping[str, float], is_met: Callable[[float], bool]
) -> Judgement:
    """Judge a claim about every one of some numbers."""
    if not numbers:
        return Judgement(UNDECIDED, "no such number is printed")
    exceptions = {
        name: number for name, number in numbers.items() if not is_met(number)
    }
    low, high = min(numbers.values()), max(numbers.values())
    evidence = f"{len(numbers)} numbers from {low:g} to {high:g}"
    if len(numbers) == 1:
        evidence = f"one number, {low:g}"
    if not exceptions:
        return Judgement(HOLDS, evidence)
    listed = [
        f"{name} {number:g}"
        for name, number in list(exceptions.items())[:MOST_EXCEPTIONS]
    ]
    rest = len(exceptions) - len(listed)
    if rest:
        listed.append(f"{rest} more")
    return Judgement(
        FAILS, f"{len(exceptions)} of {evidence} are exceptions: {', '.join(listed)}"
    )


def judge_most(
    numbers: Mapping[str, float], is_met: Callable[[float], bool]
) -> Judgement:
    """Judge a claim about more than half of some numbers."""
    count = sum(is_met(number) for number in numbers.values())
    answer = HOLDS if 2 * count > len(numbers) else FAILS
    return Judgement(answer, f"{count} of {len(numbers)} numbers")


def judge_order(numbers: Mapping[str, float]) -> Judgement:
    """Judge a claim that numbers fall in the order in which they are given."""
    values = list(numbers.values())
    falls = all(left > right for left, right in itertools.pairwise(values))
    return Judgement(HOLDS if falls else FAILS, list_numbers(numbers))


def judge_largest(numbers: Mapping[str, float], name: str) -> Judgement:
    """Judge a claim that one number is the largest; an equal number does not contradict it."""
    is_largest = numbers[name] == max(numbers.values())
    return Judgement(HOLDS if is_largest else FAILS, list_numbers(numbers))


def judge_smallest(numbers: Mapping[str, float], name: str) -> Judgement:
    """Judge a claim that one number is the smallest; an equal number does not contradict it."""
    is_smallest = numbers[name] == min(numbers.values())
    return Judgement(HOLDS if is_smallest else FAILS, list_numbers(numbers))


def measure_distances(numbers: Mapping[str, float], target: float) -> dict[str, float]:
    """Return the distance of each number from a target."""
    return {name: abs(number - target) for name, number in numbers.items()}


def judge_values(
    numbers: Mapping[str, float], claimed: Mapping[str, float]
) -> Judgement:
    """Judge a claim that quotes numbers; a rounded quotation agrees."""
    differing = {
        name: number
        for name, number in numbers.items()
        if abs(number - claimed[name]) > 0.5
    }
    if not differing:
        return Judgement(HOLDS, list_numbers(numbers))
    return Judgement(
        FAILS, f"quoted {list_numbers(claimed)}; printed {list_numbers(numbers)}"
    )


def judge_changes(
    before: Mapping[str, float],
    after: Mapping[str, float],
    is_met: Callable[[float], bool],
) -> Judgement:
    """Judge a claim about each difference of two numbers with the same name."""
    changes = {
        name: round(after[name] - before[name], 6) for name in before if name in after
    }
    return judge_all(changes, is_met)


def list_numbers(numbers: Mapping[str, float]) -> str:
    """Return numbers with their names."""
    return ", ".join(f"{name} {number:.4g}" for name, number in numbers.items())


def rename(numbers: Mapping[str, float], old: str, new: str) -> dict[str, float]:
    """Return numbers with a part of their names replaced, to compare two settings or models."""
    return {name.replace(old, new): number for name, number in numbers.items()}


# Thesis chapter 3, and VALSE section 5 with the same text


@claim(
    VALSE, "5.3", "by acc_r, the order is 12-in-1, ViLBERT, LXMERT, CLIP, VisualBERT"
)
def _(tables: PaperTables) -> Judgement:
    order = ("vilbert-12in1", "vilbert", "lxmert", "clip", "visualbert")
    return judge_order(tables.get_averages("thesis-3.4", "acc_r", order))


@claim(
    VALSE, "5.3", "12-in-1 has the highest acc_r of the encoders on every instrument"
)
def _(tables: PaperTables) -> Judgement:
    leads = {}
    for name, number in tables.select(
        "thesis-3.4", "acc_r", ("vilbert-12in1",)
    ).items():
        dataset = name.split()[1]
        rivals = tables.select("thesis-3.4", "acc_r", ENCODERS, (dataset,))
        leads[dataset] = number - max(rivals.values())
    return judge_all(leads, lambda lead: lead >= 0)


@claim(
    VALSE,
    "5.3",
    "GPT1 and GPT2 are close to random on most instruments (10 points of their mean)",
)
def _(tables: PaperTables) -> Judgement:
    means = {}
    for name in tables.select("thesis-3.4", "acc_r", ("gpt1",)):
        dataset = name.split()[1]
        numbers = tables.select("thesis-3.4", "acc_r", ("gpt1", "gpt2"), (dataset,))
        means[dataset] = mean(numbers.values())
    return judge_most(means, lambda number: abs(number - 50) <= 10)


@claim(
    VALSE,
    "5.3",
    "the best language model has 77.2 on relations, 66.8 on replacement, 76.9 on swap",
)
def _(tables: PaperTables) -> Judgement:
    claimed = {"relations": 77.2, "action-replacement": 66.8, "actant-swap": 76.9}
    best = {}
    for dataset in claimed:
        numbers = tables.select("thesis-3.4", "acc_r", ("gpt1", "gpt2"), (dataset,))
        best[dataset] = max(numbers.values())
    return judge_values(best, claimed)


@claim(VALSE, "5.3", "p_c of VisualBERT is very low everywhere (at most 5)")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("thesis-A.1", "p_c", ("visualbert",))
    return judge_all(numbers, lambda number: number <= 5)


@claim(VALSE, "5.3", "p_f of VisualBERT is high everywhere (at least 90)")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("thesis-A.1", "p_f", ("visualbert",))
    return judge_all(numbers, lambda number: number >= 90)


@claim(
    VALSE, "5.3", "12-in-1 almost solves existence and FOIL it! (acc_r of at least 85)"
)
def _(tables: PaperTables) -> Judgement:
    datasets = ("existence", "foil-it")
    numbers = tables.select("thesis-3.4", "acc_r", ("vilbert-12in1",), datasets)
    return judge_all(numbers, lambda number: number >= 85)


@claim(VALSE, "5.3", "12-in-1 almost solves no other instrument (acc_r below 85)")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("thesis-3.4", "acc_r", ("vilbert-12in1",))
    others = {
        name: number
        for name, number in numbers.items()
        if not name.endswith(("existence", "foil-it"))
    }
    return judge_all(others, lambda number: number < 85)


@claim(VALSE, "5.3", "high p_c of ViLBERT goes with low p_f: p_c is larger everywhere")
def _(tables: PaperTables) -> Judgement:
    p_f = tables.select("thesis-A.1", "p_f", ("vilbert",))
    p_c = tables.select("thesis-A.1", "p_c", ("vilbert",))
    return judge_changes(p_f, p_c, lambda change: change > 0)


@claim(VALSE, "5.3", "min(p_c, p_f) of VisualBERT and ViLBERT is below 50 everywhere")
def _(tables: PaperTables) -> Judgement:
    models = ("visualbert", "vilbert")
    numbers = tables.select("thesis-3.4", "min_pc_pf", models)
    return judge_all(numbers, lambda number: number < 50)


@claim(
    VALSE,
    "5.3",
    "min(p_c, p_f) of LXMERT is close to 50 or below it but for FOIL it! (5 points)",
)
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("thesis-3.4", "min_pc_pf", ("lxmert",))
    numbers.pop("lxmert foil-it")
    return judge_all(numbers, lambda number: number <= 55)


@claim(THESIS, "3.4.4", "at least 77.3 % of the instances of each instrument are valid")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("thesis-A.2", "valid_percent")
    numbers.pop("overall")
    return judge_all(numbers, lambda number: number >= 77.3)


@claim(THESIS, "A.3.3", "alpha on the valid instances is between 0.3 and 0.6")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("thesis-A.2", "alpha_valid")
    return judge_all(numbers, lambda number: 0.25 <= number < 0.65)


@claim(THESIS, "A.3.4", "validation hardly changes the JS of an instrument (0.1)")
def _(tables: PaperTables) -> Judgement:
    before = tables.select("thesis-A.2", "js")
    after = tables.select("thesis-A.2", "js_valid")
    return judge_changes(before, after, lambda change: abs(change) <= 0.1)


@claim(
    THESIS,
    "3.4.1",
    "frequencies in captions and foils are about the same (JS below 0.5)",
)
def _(tables: PaperTables) -> Judgement:
    return judge_all(tables.select("thesis-A.2", "js"), lambda number: number < 0.5)


@claim(THESIS, "3.5.5", "by acc_r, the order is LLaVA-NeXT-Mistral, BakLLaVA, Vicuna")
def _(tables: PaperTables) -> Judgement:
    order = ("llava-next-mistral", "bakllava", "llava-next-vicuna")
    return judge_order(tables.get_averages("thesis-3.5", "acc_r", order))


@claim(THESIS, "3.5.5", "counting adversarial has the lowest acc_r of each decoder")
def _(tables: PaperTables) -> Judgement:
    margins = {}
    for model in LLAVA:
        numbers = tables.select("thesis-3.5", "acc_r", (model,))
        adversarial = numbers.pop(f"{model} counting-adversarial")
        margins[model] = min(numbers.values()) - adversarial
    return judge_all(margins, lambda margin: margin > 0)


@claim(THESIS, "3.5.5", "the decoders' acc is near 50 on average (10 points)")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.get_averages("thesis-3.5", "acc", LLAVA)
    return judge_all(numbers, lambda number: abs(number - 50) <= 10)


@claim(
    THESIS,
    "3.5.5",
    "existence and FOIL it! have the highest acc, averaged over decoders",
)
def _(tables: PaperTables) -> Judgement:
    means: dict[str, float] = {}
    for name in tables.select("thesis-3.5", "acc", LLAVA[:1]):
        dataset = name.split()[1]
        numbers = tables.select("thesis-3.5", "acc", LLAVA, (dataset,))
        means[dataset] = mean(numbers.values())
    highest = sorted(means, key=means.__getitem__, reverse=True)[:3]
    agrees = set(highest[:2]) == {"existence", "foil-it"}
    evidence = list_numbers({name: means[name] for name in highest})
    return Judgement(HOLDS if agrees else FAILS, f"the highest three: {evidence}")


@claim(THESIS, "3.5.5", "each decoder's acc_r is above its acc everywhere")
def _(tables: PaperTables) -> Judgement:
    acc = tables.select("thesis-3.5", "acc", LLAVA)
    acc_r = tables.select("thesis-3.5", "acc_r", LLAVA)
    return judge_changes(acc, acc_r, lambda change: change > 0)


@claim(THESIS, "3.5.5", "LLaVA-NeXT-Vicuna tends to call a text correct: p_c above p_f")
def _(tables: PaperTables) -> Judgement:
    p_c = tables.get("thesis-3.5", "p_c", "llava-next-vicuna", AVERAGE)
    p_f = tables.get("thesis-3.5", "p_f", "llava-next-vicuna", AVERAGE)
    return judge_order({"p_c": p_c, "p_f": p_f})


@claim(
    THESIS, "3.5.5", "BakLLaVA and LLaVA-NeXT-Mistral tend to the opposite everywhere"
)
def _(tables: PaperTables) -> Judgement:
    models = ("bakllava", "llava-next-mistral")
    p_c = tables.select("thesis-3.5", "p_c", models)
    p_f = tables.select("thesis-3.5", "p_f", models)
    return judge_changes(p_c, p_f, lambda change: change > 0)


@claim(THESIS, "3.5.5", "every decoder has a higher average acc_r than every encoder")
def _(tables: PaperTables) -> Judgement:
    decoders = tables.get_averages("thesis-3.5", "acc_r", LLAVA)
    encoders = tables.get_averages("thesis-3.4", "acc_r", ENCODERS)
    best = max(encoders.values())
    return judge_all(decoders, lambda number: number > best)


@claim(THESIS, "3.5.5", "by acc, decoders do not generally outperform encoders")
def _(tables: PaperTables) -> Judgement:
    decoders = tables.get_averages("thesis-3.5", "acc", LLAVA)
    encoders = tables.get_averages("thesis-3.4", "acc", ENCODERS[1:])
    best = max(encoders.values())
    return judge_all(decoders, lambda number: number < best)


# Thesis chapter 4, and the MM-SHAP paper


@claim(THESIS, "4.4.4", "acc_r on MSCOCO, VQA, GQA is high but for ALBEF vqa (over 80)")
def _(tables: PaperTables) -> Judgement:
    models = ("clip", "lxmert", *ALBEF[:3])
    numbers = tables.select("thesis-4.1", "acc_r", models, setting="isa")
    return judge_all(numbers, lambda number: number > 80)


@claim(THESIS, "4.4.4", "LXMERT has the highest acc_r on texts of VQA")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("thesis-4.1", "acc_r", datasets=("vqa",), setting="isa")
    return judge_largest(numbers, "lxmert vqa isa")


@claim(THESIS, "4.4.4", "LXMERT has the highest acc_r on texts of GQA")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("thesis-4.1", "acc_r", datasets=("gqa",), setting="isa")
    return judge_largest(numbers, "lxmert gqa isa")


@claim(THESIS, "4.4.4", "on MSCOCO, CLIP's T-SHAP of captions is the nearest to 50")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("thesis-4.1", "t_shap_c", datasets=("mscoco",))
    return judge_smallest(measure_distances(numbers, 50), "clip mscoco isa")


@claim(THESIS, "4.4.4", "on MSCOCO, LXMERT is visual (35.5) and all ALBEF textual")
def _(tables: PaperTables) -> Judgement:
    lxmert = tables.get("thesis-4.1", "t_shap_c", "lxmert", "mscoco", "isa")
    albef = tables.select("thesis-4.1", "t_shap_c", ALBEF, ("mscoco",))
    if lxmert != 35.5:
        return Judgement(FAILS, f"LXMERT {lxmert:g}")
    return judge_all(albef, lambda number: number > 50)


@claim(
    THESIS,
    "4.4.4",
    "from caption to foil, LXMERT moves from 35.5 to 62.8, ALBEF mscoco from 63.4 to 54.3",
)
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select(
        "thesis-4.1", ("t_shap_c", "t_shap_f"), ("lxmert", "albef-mscoco"), ("mscoco",)
    )
    claimed = {
        "t_shap_c lxmert mscoco isa": 35.5,
        "t_shap_f lxmert mscoco isa": 62.8,
        "t_shap_c albef-mscoco mscoco isa": 63.4,
        "t_shap_f albef-mscoco mscoco isa": 54.3,
    }
    return judge_values(numbers, claimed)


@claim(
    THESIS, "4.4.4", "LXMERT's T-SHAP is higher for answering VQA than for its texts"
)
def _(tables: PaperTables) -> Judgement:
    answering = tables.get("thesis-4.1", "t_shap", "lxmert", "vqa", "qa")
    captions = tables.get("thesis-4.1", "t_shap_c", "lxmert", "vqa", "isa")
    return judge_order({"answering": answering, "texts": captions})


@claim(THESIS, "4.4.4", "T-SHAP of the decoders on MSCOCO is 88, 96 and 92")
def _(tables: PaperTables) -> Judgement:
    return _judge_answers(tables, "mscoco", (88, 96, 92))


@claim(THESIS, "4.4.4", "T-SHAP of the decoders on VQA is 87, 97 and 89")
def _(tables: PaperTables) -> Judgement:
    return _judge_answers(tables, "vqa", (87, 97, 89))


@claim(THESIS, "4.4.4", "T-SHAP of the decoders on GQA balanced is 90, 96 and 90")
def _(tables: PaperTables) -> Judgement:
    return _judge_answers(tables, "gqa-balanced", (90, 96, 90))


def _judge_answers(
    tables: PaperTables, dataset: str, quoted: tuple[float, float, float]
) -> Judgement:
    """Judge the T-SHAP of answers that the text quotes for the three LLaVA models."""
    numbers = {}
    for model in LLAVA:
        numbers[model] = tables.get(
            "thesis-5.5", "t_shap_prediction", model, dataset, "post-hoc"
        )
    return judge_values(numbers, dict(zip(LLAVA, quoted, strict=True)))


def _compare_gqa_balanced(tables: PaperTables) -> Judgement:
    """Judge that T-SHAP of answers is higher on GQA balanced than on GQA."""
    metric = "t_shap_prediction"
    gqa = tables.select("thesis-5.5", metric, LLAVA, ("gqa",))
    balanced = tables.select("thesis-5.5", metric, LLAVA, ("gqa-balanced",))
    return judge_changes(
        rename(gqa, " gqa", ""),
        rename(balanced, " gqa-balanced", ""),
        lambda change: change > 0,
    )


@claim(THESIS, "4.4.4", "the decoders' T-SHAP is higher on GQA balanced than on GQA")
def _(tables: PaperTables) -> Judgement:
    return _compare_gqa_balanced(tables)


@claim(
    DECODERS, "4.4", "the LLaVA models' T-SHAP is higher on GQA balanced than on GQA"
)
def _(tables: PaperTables) -> Judgement:
    return _compare_gqa_balanced(tables)


@claim(THESIS, "4.4.4", "T-SHAP of captions of VALSE stays near 50 (15 points)")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("thesis-4.2", "t_shap_c")
    return judge_all(numbers, lambda number: abs(number - 50) <= 15)


@claim(THESIS, "4.4.4", "on VALSE, CLIP's average T-SHAP is the nearest to 50")
def _(tables: PaperTables) -> Judgement:
    models = ("clip", "lxmert", *ALBEF)
    averages = tables.get_averages("thesis-4.2", "t_shap_c", models)
    return judge_smallest(measure_distances(averages, 50), "clip")


@claim(THESIS, "4.4.4", "LXMERT's average T-SHAP on VALSE is below 50, ALBEF's above")
def _(tables: PaperTables) -> Judgement:
    averages = tables.get_averages("thesis-4.2", "t_shap_c", ("lxmert", *ALBEF))
    averages["lxmert"] = 100 - averages["lxmert"]
    return judge_all(averages, lambda number: number > 50)


@claim(THESIS, "4.4.4", "the average T-SHAP of the ALBEF variants is 56 to 62")
def _(tables: PaperTables) -> Judgement:
    averages = tables.get_averages("thesis-4.2", "t_shap_c", ALBEF)
    return judge_all(averages, lambda number: 55.5 <= number < 62.5)


@claim(MM_SHAP, "4.5", "the average T-SHAP of the ALBEF variants is 57 to 62")
def _(tables: PaperTables) -> Judgement:
    averages = tables.get_averages("thesis-4.2", "t_shap_c", ALBEF)
    return judge_all(averages, lambda number: 56.5 <= number < 62.5)


@claim(MM_SHAP, "4.5", "LXMERT relies less on text for GQA balanced than for GQA")
def _(tables: PaperTables) -> Judgement:
    gqa = tables.get("thesis-4.1", "t_shap", "lxmert", "gqa", "qa")
    balanced = tables.get("running-text", "t_shap", "lxmert", "gqa-balanced", "qa")
    return judge_order({"GQA": gqa, "GQA balanced": balanced})


@claim(
    THESIS, "4.4.5", "without the image LXMERT keeps more accuracy than without text"
)
def _(tables: PaperTables) -> Judgement:
    numbers = {
        name: tables.get("running-text", "accuracy", "lxmert", "vqa", name)
        for name in ("without image", "without text")
    }
    return judge_order(numbers)


@claim(THESIS, "4.4.4", "T-SHAP of encoders varies with a deviation of about 12 %")
def _(tables: PaperTables) -> Judgement:
    return Judgement(UNDECIDED, "no table prints deviations over samples")


@claim(THESIS, "4.4.4", "T-SHAP of decoders varies with a deviation of about 3 %")
def _(tables: PaperTables) -> Judgement:
    return Judgement(UNDECIDED, "no table prints deviations over samples")


@claim(THESIS, "4.4.4", "the decoders' average T-SHAP on VALSE is 88, 96 and 91")
def _(tables: PaperTables) -> Judgement:
    averages = tables.get_averages("thesis-4.3", "t_shap_r", LLAVA)
    return judge_values(averages, dict(zip(LLAVA, (88, 96, 91), strict=True)))


@claim(
    THESIS, "4.4.4", "every decoder relies on text more than every encoder on average"
)
def _(tables: PaperTables) -> Judgement:
    decoders = tables.get_averages("thesis-4.3", "t_shap_c", LLAVA)
    encoders = tables.get_averages("thesis-4.2", "t_shap_c", ("clip", "lxmert", *ALBEF))
    most = max(encoders.values())
    return judge_all(decoders, lambda number: number > most)


@claim(
    THESIS, "4.4.4", "T-SHAP of the decoders changes by 0 to 2 points between settings"
)
def _(tables: PaperTables) -> Judgement:
    spans = {}
    for model in LLAVA:
        averages = [
            tables.get("thesis-4.3", metric, model, AVERAGE)
            for metric in ("t_shap_c", "t_shap_f", "t_shap_r")
        ]
        spans[model] = max(averages) - min(averages)
    return judge_all(spans, lambda span: span <= 2)


def _get_deviations(
    tables: PaperTables, table: str, metric: str, models: Iterable[str]
) -> dict[str, float]:
    """Return the printed deviations over data sets."""
    deviations = {}
    for model in models:
        cell = tables.tables[table][PaperKey(metric, model, AVERAGE, "")]
        deviations[model] = float(cell.sd)
    return deviations


@claim(THESIS, "4.4.4", "acc_r of the encoders varies over VALSE by 11 to 15 points")
def _(tables: PaperTables) -> Judgement:
    models = ("clip", "lxmert", *ALBEF)
    deviations = _get_deviations(tables, "thesis-4.2", "acc_r", models)
    return judge_all(deviations, lambda deviation: 11 <= deviation <= 15)


@claim(THESIS, "4.4.4", "T-SHAP of the encoders varies over VALSE by 1 to 5 points")
def _(tables: PaperTables) -> Judgement:
    models = ("clip", "lxmert", *ALBEF)
    deviations = _get_deviations(tables, "thesis-4.2", "t_shap_c", models)
    return judge_all(deviations, lambda deviation: 1 <= deviation <= 5)


@claim(THESIS, "4.4.4", "acc_r of the decoders varies over VALSE by 9 to 10 points")
def _(tables: PaperTables) -> Judgement:
    deviations = _get_deviations(tables, "thesis-4.3", "acc_r", LLAVA)
    return judge_all(deviations, lambda deviation: 9 <= deviation <= 10)


@claim(THESIS, "4.4.4", "T-SHAP of the decoders varies over VALSE by 0 to 2 points")
def _(tables: PaperTables) -> Judgement:
    deviations = {}
    for metric in ("t_shap_c", "t_shap_f", "t_shap_r"):
        for model, deviation in _get_deviations(
            tables, "thesis-4.3", metric, LLAVA
        ).items():
            deviations[f"{metric} {model}"] = deviation
    return judge_all(deviations, lambda deviation: deviation <= 2)


@claim(
    THESIS,
    "4.4.4",
    "from small numbers to counting adversarial, acc_r falls to 42.6 (LXMERT) and 45.7"
    " (ALBEF refcoco)",
)
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select(
        "thesis-4.2", "acc_r", ("lxmert", "albef-refcoco"), ("counting-adversarial",)
    )
    claimed = {
        "lxmert counting-adversarial": 42.6,
        "albef-refcoco counting-adversarial": 45.7,
    }
    return judge_values(numbers, claimed)


@claim(THESIS, "4.4.4", "LXMERT is most visual for plurality, relations and FOIL it!")
def _(tables: PaperTables) -> Judgement:
    named = {"plurality", "relations", "foil-it"}
    numbers = tables.select("thesis-4.2", "t_shap_c", ("lxmert",))
    lowest = sorted(numbers, key=numbers.__getitem__)[:3]
    agrees = {name.split()[1] for name in lowest} == named
    evidence = list_numbers({name: numbers[name] for name in lowest})
    return Judgement(HOLDS if agrees else FAILS, f"the lowest three: {evidence}")


@claim(
    THESIS,
    "4.4.4",
    "LLaVA-NeXT-Mistral (97) and Vicuna (93) are most textual on actions",
)
def _(tables: PaperTables) -> Judgement:
    leads = {}
    for model in LLAVA[1:]:
        numbers = tables.select("thesis-4.3", "t_shap_r", (model,))
        for dataset in ("action-replacement", "actant-swap"):
            own = numbers[f"{model} {dataset}"]
            leads[f"{model} {dataset}"] = own - max(numbers.values())
    return judge_all(leads, lambda lead: lead == 0)


@claim(THESIS, "4.4.4", "acc_r of ALBEF mscoco is 73.6, of vqa 50.7, of refcoco 66.0")
def _(tables: PaperTables) -> Judgement:
    models = ("albef-mscoco", "albef-vqa", "albef-refcoco")
    averages = tables.get_averages("thesis-4.2", "acc_r", models)
    return judge_values(averages, dict(zip(models, (73.6, 50.7, 66.0), strict=True)))


@claim(THESIS, "4.4.4", "ALBEF vqa always predicts the foil for captions (p_c 0)")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select(("thesis-B.1", "thesis-4.1"), "p_c", ("albef-vqa",))
    return judge_all(numbers, lambda number: number == 0)


@claim(MM_SHAP, "4.5", "ALBEF vqa is more textual for answering VQA than for its texts")
def _(tables: PaperTables) -> Judgement:
    answering = tables.get("thesis-4.1", "t_shap", "albef-vqa", "vqa", "qa")
    captions = tables.get("thesis-4.1", "t_shap_c", "albef-vqa", "vqa", "isa")
    return judge_order({"answering": answering, "texts": captions})


@claim(MM_SHAP, "4.5", "CLIP's T-SHAP is the nearest to 50 on texts of GQA, too")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("thesis-4.1", "t_shap_c", datasets=("gqa",), setting="isa")
    return judge_smallest(measure_distances(numbers, 50), "clip gqa isa")


# Thesis chapter 5, language models


@claim(THESIS, "5.5.2", "eleven language models are tested on five tasks")
def _(tables: PaperTables) -> Judgement:
    models, tasks = set(), set()
    for table in TEXT_TASKS:
        for key in tables.tables[table]:
            models.add(key.model)
            tasks.add(key.dataset)
    models.discard(RANDOM)
    counts = {"models": float(len(models)), "tasks": float(len(tasks))}
    return judge_values(counts, {"models": 11, "tasks": 5})


@claim(THESIS, "5.5.2", "eight existing tests are implemented")
def _(tables: PaperTables) -> Judgement:
    metrics = {key.metric for key in tables.tables["thesis-5.2"]}
    tests = metrics.intersection(TEXT_TESTS)
    return judge_values({"tests": float(len(tests))}, {"tests": 8})


@claim(THESIS, "5.5.3", "tests of LLaMA2-7b on e-SNLI range from 1 to 65 %")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("thesis-5.2", TEXT_TESTS, ("llama2-7b",), ("e-snli",))
    extremes = {"lowest": min(numbers.values()), "highest": max(numbers.values())}
    return judge_values(extremes, {"lowest": 1, "highest": 65})


@claim(THESIS, "C.6.1", "tests of LLaMA2-7b on logical deduction range from 2 to 68 %")
def _(tables: PaperTables) -> Judgement:
    datasets = ("logical-deduction",)
    numbers = tables.select("thesis-C.2", TEXT_TESTS, ("llama2-7b",), datasets)
    extremes = {"lowest": min(numbers.values()), "highest": max(numbers.values())}
    return judge_values(extremes, {"lowest": 2, "highest": 68})


def _compare_chat_models(
    tables: PaperTables,
    metrics: Sequence[str],
    bases: Iterable[str],
    tasks: Sequence[str] = (),
) -> Judgement:
    """Judge that chat models have higher numbers than their base models in most cells."""
    changes = {}
    for chat, base in CHAT_MODELS.items():
        if base not in bases:
            continue
        of_chat = tables.select(TEXT_TASKS, metrics, (chat,), tasks)
        of_base = tables.select(TEXT_TASKS, metrics, (base,), tasks)
        of_base = rename(of_base, base, chat)
        for name, number in of_chat.items():
            if name in of_base:
                changes[name] = number - of_base[name]
    return judge_most(changes, lambda change: change > 0)


@claim(THESIS, "5.5.3", "CC-SHAP of LLaMA2 and Mistral chat is above base in general")
def _(tables: PaperTables) -> Judgement:
    metrics = ("cc_shap_posthoc", "cc_shap_cot")
    bases = ("llama2-7b", "llama2-13b", "mistral-7b")
    return _compare_chat_models(tables, metrics, bases)


@claim(
    THESIS,
    "5.5.3",
    "CC-SHAP of LLaMA2 and Mistral base is typically negative but on ComVE",
)
def _(tables: PaperTables) -> Judgement:
    metrics = ("cc_shap_posthoc", "cc_shap_cot")
    models = ("llama2-7b", "llama2-13b", "mistral-7b")
    tasks = ("e-snli", "disambiguation-qa", "causal-judgement", "logical-deduction")
    numbers = tables.select(TEXT_TASKS, metrics, models, tasks)
    return judge_most(numbers, lambda number: number < 0)


def _compare_tests_on_task(task: str) -> Callable[[PaperTables], Judgement]:
    """Return the judge that tests give chat models higher scores on a task in most cells."""

    def judge(tables: PaperTables) -> Judgement:
        bases = tuple(CHAT_MODELS.values())
        return _compare_chat_models(tables, TEXT_TESTS, bases, (task,))

    return judge


for _task in (
    "e-snli",
    "disambiguation-qa",
    "comve",
    "causal-judgement",
    "logical-deduction",
):
    claim(
        THESIS, "5.5.3", f"tests give chat models higher scores than base on {_task}"
    )(_compare_tests_on_task(_task))


@claim(THESIS, "5.5.3", "existing tests give GPT2 0 or 100 % (1 point)")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select(TEXT_TASKS, TEXT_TESTS, ("gpt2",))
    return judge_all(numbers, lambda number: number <= 1 or number >= 99)


def _judge_correlations(tables: PaperTables, sign: int, test: str) -> Judgement:
    """Judge that a test has more correlations of C.3 beyond 10 in one direction than any other.

    Some cells are illegible. The claim is decided only if they could not change the answer.
    """
    counts: dict[str, int] = {}
    illegible: dict[str, int] = {}
    for name in TEXT_TESTS:
        numbers = tables.select("thesis-C.3", name)
        counts[name] = sum(sign * number >= 10 for number in numbers.values())
        illegible[name] = sum(
            key.metric == name and not cell.value
            for key, cell in tables.tables["thesis-C.3"].items()
        )
    rivals = [name for name in TEXT_TESTS if name != test]
    is_ahead = all(counts[test] > counts[name] for name in rivals)
    is_certain = all(counts[test] > counts[name] + illegible[name] for name in rivals)
    is_excluded = any(counts[test] + illegible[test] < counts[name] for name in rivals)
    evidence = ", ".join(
        f"{name} {counts[name]} (and {illegible[name]} illegible cells)"
        for name in TEXT_TESTS
    )
    if is_certain:
        return Judgement(HOLDS, evidence)
    if is_excluded:
        return Judgement(FAILS, evidence)
    word = "ahead" if is_ahead else "not ahead"
    return Judgement(UNDECIDED, f"{word} in the legible cells: {evidence}")


@claim(
    THESIS, "C.6.4", "counterfactual edits have the most positive correlations (≥ 10)"
)
def _(tables: PaperTables) -> Judgement:
    return _judge_correlations(tables, 1, "counterfactual_edits")


@claim(THESIS, "C.6.4", "adding mistakes has the most negative correlations (≤ −10)")
def _(tables: PaperTables) -> Judgement:
    return _judge_correlations(tables, -1, "adding_mistakes")


@claim(
    THESIS, "C.6.4", "GPT2's correlations are undefined where its tests are constant"
)
def _(tables: PaperTables) -> Judgement:
    undefined_but_varying = {}
    for key, cell in tables.tables["thesis-C.3"].items():
        if key.model != "gpt2" or cell.value != "nan":
            continue
        for table in TEXT_TASKS:
            test = tables.tables[table].get(key)
            if test is not None and test.value not in ("0", "100"):
                undefined_but_varying[f"{key.metric} {key.dataset}"] = float(test.value)
    if undefined_but_varying:
        return Judgement(FAILS, f"nan, but {list_numbers(undefined_but_varying)} %")
    return Judgement(HOLDS, "every nan belongs to 0 or 100 %")


def _average_self_consistency(tables: PaperTables) -> dict[str, float]:
    """Return the average of tests and rescaled CC-SHAP over five tasks by model (Figure C.1)."""
    values: dict[PaperKey, PaperValue] = {}
    for table in TEXT_TASKS:
        values |= tables.tables[table]
    averages = {}
    for key, cell in derive_paper_averages(values).items():
        number = cell.parse_number()
        if key.metric == "rescaled_average" and number is not None:
            averages[key.model] = number
    return averages


@claim(
    THESIS, "5.5.3", "LLaMA2-7b or LLaMA2-13b-chat is the most self-consistent model"
)
def _(tables: PaperTables) -> Judgement:
    averages = _average_self_consistency(tables)
    best = max(averages, key=averages.__getitem__)
    answer = HOLDS if best in ("llama2-7b", "llama2-13b-chat") else FAILS
    return Judgement(answer, list_numbers(averages))


@claim(THESIS, "5.5.3", "Falcon-7b is the least self-consistent model")
def _(tables: PaperTables) -> Judgement:
    averages = _average_self_consistency(tables)
    return judge_smallest(averages, "falcon-7b")


@claim(
    THESIS, "5.5.3", "a larger chat model of the same kind has a higher mean accuracy"
)
def _(tables: PaperTables) -> Judgement:
    gains = {}
    for larger, smaller in LARGER_MODELS.items():
        accuracies = [
            mean(tables.select(TEXT_TASKS, "accuracy", (model,)).values())
            for model in (larger, smaller)
        ]
        gains[larger] = accuracies[0] - accuracies[1]
    return judge_all(gains, lambda gain: gain > 0)


# Thesis chapter 5 and the VL decoders paper, VL decoders


@claim(THESIS, "5.6.1", "six edit-based tests are implemented for VL decoders")
def _(tables: PaperTables) -> Judgement:
    metrics = {key.metric for key in tables.tables["thesis-5.5"]}
    tests = metrics.intersection(TEXT_TESTS)
    return judge_values({"tests": float(len(tests))}, {"tests": 6})


@claim(THESIS, "5.6.1", "nine data sets are used in the pairwise setting")
def _(tables: PaperTables) -> Judgement:
    datasets = {key.dataset for key in tables.tables["thesis-C.25"]} - {AVERAGE}
    # MSCOCO stands in Table 5.5; the text lists FOIL it!, MSCOCO and six instruments.
    counts = {"data sets in the tables": float(len(datasets) + 1), "listed": 8.0}
    return judge_all(counts, lambda count: count == 9)


@claim(THESIS, "5.6.2", "T-SHAP of answers is at least 89 %")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select(LLAVA_TABLES, "t_shap_prediction")
    return judge_all(numbers, lambda number: number >= 89)


@claim(DECODERS, "4.4", "T-SHAP of answers is at least 85 %")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select(DECODER_TABLES, "t_shap_prediction")
    return judge_all(numbers, lambda number: number >= 85)


def _compare_answer_and_explanation(
    tables: PaperTables, names: Sequence[str], is_met: Callable[[float], bool]
) -> Judgement:
    """Judge the changes of T-SHAP from the answer to both kinds of explanations."""
    answers = rename(tables.select(names, "t_shap_prediction"), " post-hoc", "")
    changes = {}
    for setting in ("post-hoc", "cot"):
        explanations = tables.select(names, "t_shap_explanation", setting=setting)
        for name, number in rename(explanations, f" {setting}", "").items():
            changes[f"{name} {setting}"] = number - answers[name]
    return judge_all(changes, is_met)


@claim(THESIS, "5.6.2", "from answer to explanation, T-SHAP falls by 4 to 30 points")
def _(tables: PaperTables) -> Judgement:
    return _compare_answer_and_explanation(
        tables, LLAVA_TABLES, lambda change: -30 <= change <= -4
    )


@claim(DECODERS, "4.4", "from answer to explanation, T-SHAP falls by 1 to 30 points")
def _(tables: PaperTables) -> Judgement:
    return _compare_answer_and_explanation(
        tables, DECODER_TABLES, lambda change: -30 <= change <= -1
    )


@claim(DECODERS, "4.4", "the fall of T-SHAP is significant")
def _(tables: PaperTables) -> Judgement:
    return Judgement(UNDECIDED, "no item, interval or test is printed")


@claim(DECODERS, "4.4, 5", "T-SHAP falls more in CoT than in post-hoc explanations")
def _(tables: PaperTables) -> Judgement:
    return _compare_settings(tables, DECODER_TABLES)


@claim(THESIS, "5.6.2, 5.8", "T-SHAP falls more in CoT than in post-hoc explanations")
def _(tables: PaperTables) -> Judgement:
    return _compare_settings(tables, LLAVA_TABLES)


def _compare_settings(tables: PaperTables, names: Sequence[str]) -> Judgement:
    """Judge that T-SHAP of each CoT explanation is below that of the post-hoc one."""
    metric = "t_shap_explanation"
    posthoc = tables.select(names, metric, setting="post-hoc")
    cot = tables.select(names, metric, setting="cot")
    return judge_changes(
        rename(posthoc, " post-hoc", ""),
        rename(cot, " cot", ""),
        lambda change: change < 0,
    )


def _compare_accuracy(
    tables: PaperTables, models: Sequence[str], is_met: Callable[[float], bool]
) -> Judgement:
    """Judge how the mean accuracy of models changes with CoT, in each of both tables."""
    changes = {}
    for table in DECODER_TABLES:
        for model in models:
            without = tables.select(table, ("accuracy", "acc_r"), (model,))
            with_cot = tables.select(table, ("accuracy_cot", "acc_r_cot"), (model,))
            change = mean(with_cot.values()) - mean(without.values())
            changes[f"{model} {table}"] = round(change, 1)
    return judge_all(changes, is_met)


@claim(DECODERS, "4.4", "with CoT the LLaVA models are less accurate on average")
def _(tables: PaperTables) -> Judgement:
    return _compare_accuracy(tables, LLAVA, lambda change: change < 0)


@claim(
    DECODERS, "4.4", "with CoT mPLUG-Owl3 is slightly less accurate (at most 5 points)"
)
def _(tables: PaperTables) -> Judgement:
    return _compare_accuracy(tables, (MPLUG,), lambda change: -5 <= change < 0)


@claim(DECODERS, "4.4", "the loss of accuracy with CoT is significant")
def _(tables: PaperTables) -> Judgement:
    return Judgement(UNDECIDED, "no item, interval or test is printed")


@claim(DECODERS, "4.4", "CC-SHAP of the three LLaVA models is mostly negative on VALSE")
def _(tables: PaperTables) -> Judgement:
    metrics = ("cc_shap_posthoc", "cc_shap_cot")
    numbers = tables.select("decoders-paper-3", metrics, LLAVA)
    return judge_most(numbers, lambda number: number < 0)


@claim(DECODERS, "4.4", "CC-SHAP of mPLUG-Owl3 is positive on VALSE")
def _(tables: PaperTables) -> Judgement:
    metrics = ("cc_shap_posthoc", "cc_shap_cot")
    numbers = tables.select("decoders-paper-3", metrics, (MPLUG,))
    return judge_all(numbers, lambda number: number > 0)


@claim(
    DECODERS,
    "4.4",
    "on VQA, GQA and GQA balanced CC-SHAP is positive but for LLaVA-NeXT-Mistral",
)
def _(tables: PaperTables) -> Judgement:
    metrics = ("cc_shap_posthoc", "cc_shap_cot")
    models = ("bakllava", "llava-next-vicuna", MPLUG)
    numbers = tables.select("decoders-paper-2", metrics, models, GENERATIVE)
    return judge_all(numbers, lambda number: number > 0)


@claim(DECODERS, "4.4", "on generative tasks the CoT tests give 0 or 100 % (1 point)")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select(
        "decoders-paper-2", TEXT_TESTS, datasets=GENERATIVE, setting="cot"
    )
    return judge_all(numbers, lambda number: number <= 1 or number >= 99)


@claim(THESIS, "5.8", "VL decoders have a lower mean CC-SHAP than language models")
def _(tables: PaperTables) -> Judgement:
    metrics = ("cc_shap_posthoc", "cc_shap_cot")
    numbers = {
        "language models": mean(tables.select(TEXT_TASKS, metrics).values()),
        "VL decoders": mean(tables.select(LLAVA_TABLES, metrics).values()),
    }
    return judge_order(numbers)


@claim(DECODERS, "4.3", "by acc_r, the order is mPLUG-Owl3, Mistral, BakLLaVA, Vicuna")
def _(tables: PaperTables) -> Judgement:
    order = (MPLUG, "llava-next-mistral", "bakllava", "llava-next-vicuna")
    return judge_order(tables.get_averages("decoders-paper-1", "acc_r", order))


@claim(DECODERS, "4.3", "acc is near 50 for all models but mPLUG-Owl3 (10 points)")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.get_averages("decoders-paper-1", "acc", LLAVA)
    return judge_all(numbers, lambda number: abs(number - 50) <= 10)


@claim(DECODERS, "4.3", "mPLUG-Owl3 has a higher average p_c than p_f")
def _(tables: PaperTables) -> Judgement:
    p_c = tables.get("decoders-paper-1", "p_c", MPLUG, AVERAGE)
    p_f = tables.get("decoders-paper-1", "p_f", MPLUG, AVERAGE)
    return judge_order({"p_c": p_c, "p_f": p_f})


@claim(
    DECODERS,
    "4.3",
    "counting adversarial leaves acc_r of mPLUG-Owl3 unaffected (5 points)",
)
def _(tables: PaperTables) -> Judgement:
    average = tables.get("decoders-paper-1", "acc_r", MPLUG, AVERAGE)
    number = tables.get("decoders-paper-1", "acc_r", MPLUG, "counting-adversarial")
    return judge_all({"change": number - average}, lambda change: change >= -5)


@claim(
    DECODERS,
    "4.4",
    "mPLUG-Owl3 has the smallest fall of T-SHAP in post-hoc explanations",
)
def _(tables: PaperTables) -> Judgement:
    falls = {}
    for model in (*LLAVA, MPLUG):
        answers = tables.select(DECODER_TABLES, "t_shap_prediction", (model,))
        explanations = tables.select(
            DECODER_TABLES, "t_shap_explanation", (model,), setting="post-hoc"
        )
        falls[model] = mean(explanations.values()) - mean(answers.values())
    return judge_largest(falls, MPLUG)


@claim(
    DECODERS,
    "4.4",
    "LLaVA-NeXT-Mistral's CC-SHAP post-hoc is lowest on relations and actions",
)
def _(tables: PaperTables) -> Judgement:
    margins = {}
    for dataset in ("relations", "action-replacement", "actant-swap"):
        numbers = tables.select(
            "decoders-paper-3", "cc_shap_posthoc", (*LLAVA, MPLUG), (dataset,)
        )
        own = numbers.pop(f"llava-next-mistral {dataset} post-hoc")
        margins[dataset] = round(min(numbers.values()) - own, 6)
    return judge_all(margins, lambda margin: margin >= 0)


# CV-Probes


@claim(CV_PROBES, "3", "27 verbs, 117 and 172 pairs")
def _(tables: PaperTables) -> Judgement:
    pairs = tables.select("cv-probes-2", "image_caption_pairs")
    counts = {"verbs": float(len(tables.tables["cv-probes-1"])), **pairs}
    claimed = dict(zip(counts, (27, 117, 172), strict=True))
    return judge_values(counts, claimed)


def _select_condition(
    tables: PaperTables, table: str, condition: str
) -> dict[str, float]:
    """Return the accuracy of each model in one condition of CV-Probes."""
    numbers = tables.select(table, "accuracy", datasets=(f"cv-probes:{condition}",))
    return {name.split()[0]: number for name, number in numbers.items()}


@claim(CV_PROBES, "4.2", "FLAVA is the most accurate on contextual matching pairs")
def _(tables: PaperTables) -> Judgement:
    return judge_largest(_select_condition(tables, "cv-probes-3", "+img+cap"), "flava")


@claim(
    CV_PROBES,
    "4.2",
    "FLAVA is the most accurate on plain captions of contextual images",
)
def _(tables: PaperTables) -> Judgement:
    return judge_largest(_select_condition(tables, "cv-probes-3", "+img-cap"), "flava")


@claim(CV_PROBES, "4.2", "FLAVA is the most accurate on plain matching pairs")
def _(tables: PaperTables) -> Judgement:
    return judge_largest(_select_condition(tables, "cv-probes-3", "-img-cap"), "flava")


@claim(
    CV_PROBES,
    "4.2",
    "LXMERT, ALBEF and BLIP 2 have 38.46 to 69.77 % on contextual images",
)
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select(
        "cv-probes-3",
        "accuracy",
        ("lxmert", "albef", "blip2"),
        ("cv-probes:+img+cap", "cv-probes:+img-cap"),
    )
    extremes = {"lowest": min(numbers.values()), "highest": max(numbers.values())}
    return judge_values(extremes, {"lowest": 38.46, "highest": 69.77})


@claim(CV_PROBES, "4.2", "FLAVA is below chance on contextual captions of plain images")
def _(tables: PaperTables) -> Judgement:
    numbers = {
        table: tables.get(table, "accuracy", "flava", KEY_CONDITION, setting)
        for table, setting in _CAPTIONS_OF_TABLES.items()
    }
    return judge_all(numbers, lambda number: number < 50)


_CAPTIONS_OF_TABLES = {"cv-probes-3": "original", "cv-probes-4": "simplified"}
"""Setting of each table of accuracies."""


@claim(
    CV_PROBES,
    "4.2",
    "BLIP 2 is the most accurate on contextual captions of plain images",
)
def _(tables: PaperTables) -> Judgement:
    return judge_largest(_select_condition(tables, "cv-probes-3", "-img+cap"), "blip2")


@claim(
    CV_PROBES,
    "4.2",
    "BLIP 2 is in the lower half of the models in the other conditions",
)
def _(tables: PaperTables) -> Judgement:
    better_models = {}
    for condition in ("+img+cap", "+img-cap", "-img-cap"):
        numbers = _select_condition(tables, "cv-probes-3", condition)
        better = [number > numbers["blip2"] for number in numbers.values()]
        better_models[condition] = float(sum(better))
    # Three of the four others lead.
    return judge_all(better_models, lambda count: count >= 3)


@claim(CV_PROBES, "4.2", "simplified captions change FLAVA in the third column only")
def _(tables: PaperTables) -> Judgement:
    original = tables.select("cv-probes-3", "accuracy", ("flava",))
    simplified = tables.select("cv-probes-4", "accuracy", ("flava",))
    before = rename(original, " original", "")
    before.pop(f"flava {KEY_CONDITION}")
    after = rename(simplified, " simplified", "")
    return judge_changes(before, after, lambda change: change == 0)


@claim(
    CV_PROBES,
    "4.2, 5.2",
    "BLIP has the highest harmonic mean with both kinds of captions",
)
def _(tables: PaperTables) -> Judgement:
    leads = {}
    for table, setting in _CAPTIONS_OF_TABLES.items():
        numbers = {
            model: tables.get(table, "accuracy", model, HARMONIC_MEAN, setting)
            for model in ("lxmert", "albef", "blip", "blip2", "flava")
        }
        blip = numbers.pop("blip")
        leads[table] = blip - max(numbers.values())
    return judge_all(leads, lambda lead: lead > 0)


@claim(CV_PROBES, "5.2", "BLIP's T-SHAP is far above 50 everywhere (10 points)")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("cv-probes-5", "t_shap_overall")
    return judge_all(numbers, lambda number: number >= 60)


@claim(
    CV_PROBES,
    "5.2",
    "T-SHAP of BLIP 2 and FLAVA is nearer to 50 than BLIP's on average",
)
def _(tables: PaperTables) -> Judgement:
    distances = {}
    for table, model in (
        ("cv-probes-5", "blip"),
        ("cv-probes-6", "blip2"),
        ("cv-probes-7", "flava"),
    ):
        numbers = tables.select(table, "t_shap_overall").values()
        distances[model] = mean(abs(number - 50) for number in numbers)
    return judge_largest(distances, "blip")


@claim(
    CV_PROBES,
    "5.2",
    "in the key condition BLIP's verbs contribute to wrong matches (0.2288), hardly to"
    " non-matches (0.0186)",
)
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("cv-probes-5", "verb_shap", datasets=(KEY_CONDITION,))
    return judge_order(numbers)


@claim(
    CV_PROBES,
    "5.2",
    "in the key condition BLIP 2's verbs contribute next to nothing (0.06)",
)
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("cv-probes-6", "verb_shap", datasets=(KEY_CONDITION,))
    return judge_all(numbers, lambda number: abs(number) <= 0.06)


@claim(CV_PROBES, "5.2", "FLAVA's verbs contribute most in the key condition")
def _(tables: PaperTables) -> Judgement:
    leads = {}
    for setting in ("match", "non-match"):
        numbers = tables.select("cv-probes-7", "verb_shap", setting=setting)
        key = numbers.pop(f"flava {KEY_CONDITION} {setting}")
        leads[setting] = round(key - max(numbers.values()), 6)
    return judge_all(leads, lambda lead: lead > 0)


@claim(CV_PROBES, "5.2", "in the key condition FLAVA's verbs contribute positively")
def _(tables: PaperTables) -> Judgement:
    numbers = tables.select("cv-probes-7", "verb_shap", datasets=(KEY_CONDITION,))
    return judge_all(numbers, lambda number: number > 0)


def audit_claims(tables: PaperTables) -> list[dict[str, object]]:
    """Return a row for each claim, with the columns `COLUMNS`."""
    rows: list[dict[str, object]] = []
    for entry in CLAIMS:
        judgement = entry.judge(tables)
        rows.append(
            {
                "document": entry.document,
                "section": entry.section,
                "claim": entry.text,
                "answer": judgement.answer,
                "evidence": judgement.evidence,
            }
        )
    return rows


def format_page(rows: Sequence[Mapping[str, object]]) -> str:
    """Return the list of claims as docs/reference/paper-claims.md shows it."""
    counts = [
        f"{answer.capitalize()}: {sum(row['answer'] == answer for row in rows)}"
        for answer in (HOLDS, FAILS, UNDECIDED)
    ]
    lines = [
        PAGE_HEAD,
        f"{len(rows)} claims. {'; '.join(counts)}.\n",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
    ]
    for row in rows:
        lines.append("| " + " | ".join(str(row[column]) for column in COLUMNS) + " |")
    return "\n".join(lines) + "\n"


PAGE_HEAD = """# Claims of the papers

Claims of the running text of the thesis and the papers that follow from their own tables, and what the printed cells
say. `python -m tools.audit_paper_claims docs/reference/paper-claims.md` writes this page, with another suffix than
`.md` a CSV file; the module has the rule of each claim. A claim is in our words; where it has a
vague word, the bound that decides is in brackets. A claim that does not hold may be a slip of the text or of a cell:
the [audit of the paper values](paper-audit.md) looks at the cells.
"""
"""Beginning of the page."""


def main() -> None:
    """Write the claims as the page or as CSV, by the suffix of the file that is named."""
    path = Path(sys.argv[1])
    rows = audit_claims(PaperTables())
    if path.suffix == ".md":
        write_text(path, format_page(rows))
    else:
        write_csv(path, COLUMNS, rows)


if __name__ == "__main__":
    main()
