"""The text tasks that scenes can write: e-SNLI, by truth, and ComVE, by what a verb's agents and themes can be."""

import csv
import io
from collections.abc import Sequence
from random import Random

from waltz.scenes.language.captions import add_article, render_sentence
from waltz.scenes.oracle.entailment import Pair, draw_nli_pairs
from waltz.scenes.world.graph import Graph
from waltz.scenes.world.lexicon import read_kinds, read_verbs

ESNLI_COLUMNS = ("gold_label", "Sentence1", "Sentence2", "Explanation_1", "Explanation_2", "Explanation_3")

SELECTIVE_VERBS = ("eating", "drinking", "reading", "driving", "rowing", "milking", "fueling", "feeding")
"""Verbs whose themes cannot be of another group."""


def _render_csv(rows: Sequence[Sequence[str]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def build_esnli(graphs: Sequence[Graph], seed: int) -> str:
    """Build `esnli_test.csv`: premise and hypothesis with three explanations, at most 3 pairs a scene."""
    rows: list[Sequence[str]] = [ESNLI_COLUMNS]
    for graph in graphs:
        for pair in draw_nli_pairs(graph, Random(f"esnli:{seed}:{graph.id}")):
            rows.append([pair.label, pair.premise, pair.hypothesis, pair.explanation, *_rephrase_explanations(pair)])
    return _render_csv(rows)


def _rephrase_explanations(pair: Pair) -> tuple[str, str]:
    premise, hypothesis = pair.premise[:-1].lower(), pair.hypothesis[:-1].lower()
    if pair.label == "entailment":
        return f"If {premise}, then {hypothesis}.", f"That {hypothesis} follows from the first sentence."
    if pair.label == "contradiction":
        return f"If {premise}, it is not so that {hypothesis}.", "The two sentences cannot both be true of one picture."
    return (
        f"If {premise}, it may or may not be that {hypothesis}.",
        "The second sentence adds what the first leaves open.",
    )


def build_comve(count: int, seed: int) -> tuple[str, str]:
    """Build `subtaskA_test_data.csv` and `subtaskA_gold_answers.csv`, with the index of the nonsense sentence."""
    rng = Random(f"comve:{seed}")
    statements: dict[tuple[str, str], int] = {}
    while len(statements) < count:
        sense, nonsense = _draw_statement_pair(rng)
        if (sense, nonsense) not in statements and (nonsense, sense) not in statements:
            second = rng.random() < 0.5
            statements[(sense, nonsense) if second else (nonsense, sense)] = int(second)
    ids = rng.sample(range(1, 3 * count), count)
    rows = [[str(number), *pair] for number, pair in zip(ids, statements, strict=True)]
    gold = [[str(number), str(answer)] for number, answer in zip(ids, statements.values(), strict=True)]
    return _render_csv([["id", "sent0", "sent1"], *rows]), _render_csv(gold)


def _draw_statement_pair(rng: Random) -> tuple[str, str]:
    verb = rng.choice([verb for verb in read_verbs().values() if verb.themes and verb.name != "crashing"])
    agent = rng.choice(verb.agents)
    theme = rng.choice([name for name in verb.themes if name != agent])

    def words(agent_noun: str, theme_noun: str) -> str:
        return render_sentence(
            f"{add_article(agent_noun)} {verb.third} {verb.preposition} {add_article(theme_noun)}".replace("  ", " ")
        )

    lifeless = [kind.name for kind in read_kinds().values() if kind.group not in ("people", "animals", "vehicles")]
    if verb.name in SELECTIVE_VERBS and rng.random() < 0.6:
        groups = {read_kinds()[name].group for name in verb.themes} | {"people"}
        return words(agent, theme), words(
            agent, rng.choice([kind.name for kind in read_kinds().values() if kind.group not in groups])
        )
    return words(agent, theme), words(rng.choice([name for name in lifeless if name != theme]), theme)
