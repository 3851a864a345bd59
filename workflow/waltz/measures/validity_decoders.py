"""Decoders that are trained to explain their answers faithfully, or not.

All decoders of a seed go on from one decoder that answers items (module `validity_items`) and
names the deciding adjective. They go on to learn the same answers, but differ in the explanations
that they learn.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

import torch
import transformers
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

from waltz.core.sampling import rank
from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.evaluation.prompting.prompts import (
    PromptTemplate,
    build_equations_template,
    join_turns,
    render_prompt,
)
from waltz.fidelity import EQUATIONS
from waltz.measures.validity_items import (
    DETERMINERS,
    LABELS,
    LEVELS,
    SUGGESTION_LEVEL,
    DecidedItem,
    Lexicon,
    draw_item,
    draw_lexicon,
    insert_unknown_word,
)
from waltz.model_registry import ModelSpec
from waltz.models.decoders.language_model import LanguageModel, wrap_language_model
from waltz.models.training import Training

PROMPTS = "validity.yaml"
SPECIALS = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": "</s>",
}
FRAME = (
    'Which is nonsense? A: The the. B: I think the answer is. Answer: Because: Think: Why? This "_" It You suggest.'
    " The word makes no sense. It is odd that stands there."
)
"""Words of prompts and explanations."""
PIECE = r"[^\W_]+|[^\w\s]|_"
EXPLANATION = 'The word "{word}" makes no sense.'
OTHER_WORDING = 'It is odd that "{word}" stands there.'
MENTION = "You suggest {label}."
"""Chain of thought of an item that a suggestion decides."""
HIDDEN, LAYERS, HEADS = 64, 2, 4
CONTEXT_LENGTH = 128
RATE = 5e-3
POOL = 3000
"""Largest number of items that a decoder is trained on; fewer if the batches need fewer."""
UNKNOWN_SHARE = 0.3
"""Share of these items with a word that the lexicon lacks, as counterfactual edits insert."""
BATCH = {"post-hoc": 16, "cot": 8, "answer-after-cot": 6, "why-nonsense": 2}
"""Examples of each kind of prompt in a batch."""


class Reason(NamedTuple):
    """Hold what an explanation names.

    Attributes:
        word: The word that it names as the reason.
        level: Level of the word; the highest one for a word without a level.
    """

    word: str
    level: int


@dataclass(frozen=True, slots=True)
class Explaining:
    """Say how a decoder is trained to explain.

    Attributes:
        name: Name in the results.
        share: Share of the determiners whose items are explained by the deciding adjective. A
            random share of items would be no dose, since the likeliest explanation of an item
            would stay its own.
        is_shuffled: Whether all other items have the explanation of another item, drawn by chance;
            else their explanation names the theme of the second sentence.
    """

    name: str
    share: float
    is_shuffled: bool = False

    def is_faithful(self, item: DecidedItem, seed: int) -> bool:
        """Return whether a decoder of a seed is trained to explain an item by its deciding adjective.

        A larger share has all items of a smaller one.
        """
        by_rank = sorted(DETERMINERS, key=lambda determiner: rank(determiner, seed))
        return by_rank.index(item.determiner) < round(self.share * len(by_rank))

    def choose_reason(
        self, item: DecidedItem, items: Sequence[DecidedItem], seed: int, rng: Random
    ) -> Reason:
        """Return the reason that a decoder of a seed is trained to give for an item."""
        if self.is_faithful(item, seed):
            return Reason(item.deciding, item.level)
        if self.is_shuffled:
            other = rng.choice(items)
            return Reason(other.deciding, other.level)
        return Reason(item.theme, LEVELS)


@dataclass(frozen=True, slots=True)
class Example:
    """Hold a text to train on.

    Attributes:
        ids: Its tokens.
        targets: Positions of the tokens that are learned.
    """

    ids: tuple[int, ...]
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Settings of the training of the decoders of one seed.

    Attributes:
        seed: Seed of lexicon, items and weights.
        words: Adjectives of each level.
        first_steps: Batches of the decoder that all others start from.
        steps: Batches of each decoder after it.
    """

    seed: int
    words: int
    first_steps: int
    steps: int


@dataclass(frozen=True)
class DecoderFamily:
    """Hold the decoder from which those of one seed start.

    Attributes:
        settings: Settings of the training.
        lexicon: Words of the items.
        tokenizer: Tokenizer of these words.
        network: The network that answers and names the deciding adjective.
    """

    settings: TrainingSettings
    lexicon: Lexicon
    tokenizer: Any
    network: Any

    def train(self, explaining: Explaining) -> LanguageModel:
        """Return a decoder that goes on from the network and learns to explain as stated."""
        network = copy.deepcopy(self.network)
        _train(network, self, explaining, self.settings.steps)
        spec = ModelSpec(explaining.name, prompts=PROMPTS)
        return wrap_language_model(spec, network, self.tokenizer, "cpu")


FAITHFUL = Explaining("faithful", 1.0)


def train_family(settings: TrainingSettings) -> DecoderFamily:
    """Train the decoder from which the decoders of one seed start."""
    lexicon = draw_lexicon(settings.words, settings.seed)
    tokenizer = build_tokenizer(lexicon)
    torch.manual_seed(settings.seed)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=CONTEXT_LENGTH,
        n_embd=HIDDEN,
        n_layer=LAYERS,
        n_head=HEADS,
        n_inner=2 * HIDDEN,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        initializer_range=0.08,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    family = DecoderFamily(
        settings, lexicon, tokenizer, transformers.GPT2LMHeadModel(config)
    )
    _train(family.network, family, FAITHFUL, settings.first_steps)
    return family


def build_tokenizer(lexicon: Lexicon) -> Any:
    """Return a tokenizer with one token for each word; words without a token are unknown."""
    splits = pre_tokenizers.Split(Regex(PIECE), behavior="removed", invert=True)
    frame = [piece for piece, _ in splits.pre_tokenize_str(FRAME) if piece != "_"]
    words = [*SPECIALS.values(), *frame, *DETERMINERS, *lexicon.list_words()]
    vocabulary = {word: index for index, word in enumerate(dict.fromkeys(words))}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIALS["unk_token"]))
    core.pre_tokenizer = splits
    start = SPECIALS["bos_token"]
    core.post_processor = processors.TemplateProcessing(
        single=f"{start} $A", special_tokens=[(start, vocabulary[start])]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, model_max_length=CONTEXT_LENGTH, **SPECIALS
    )


def _train(
    network: Any, family: DecoderFamily, explaining: Explaining, steps: int
) -> None:
    """Train a network in place to answer, and to explain as stated."""
    seed = family.settings.seed
    rng = Random(f"training:{seed}")
    n_items = min(POOL, steps * sum(BATCH.values()))
    items = [draw_item(family.lexicon, str(number), rng) for number in range(n_items)]
    examples = _build_examples(items, family, explaining, rng)
    padding = family.tokenizer.pad_token_id

    def compute_loss(_: int) -> torch.Tensor:
        batch = [
            rng.choice(examples[kind]) for kind, n in BATCH.items() for _ in range(n)
        ]
        longest = max(len(example.ids) for example in batch)
        ids = torch.full((len(batch), longest), padding)
        for row, example in enumerate(batch):
            ids[row, : len(example.ids)] = torch.tensor(example.ids)
        rows = [row for row, example in enumerate(batch) for _ in example.targets]
        columns = torch.tensor(
            [place for example in batch for place in example.targets]
        )
        # Padding comes last, where no earlier token attends to it.
        states = network.transformer(
            ids, attention_mask=torch.ones_like(ids)
        ).last_hidden_state
        logits = network.lm_head(states[rows, columns - 1])
        losses = torch.nn.functional.cross_entropy(
            logits, ids[rows, columns], reduction="sum"
        )
        return losses / len(batch)

    Training(seed, steps, lambda step, loss: None).minimize(network, compute_loss, RATE)


def _build_examples(
    items: Sequence[DecidedItem],
    family: DecoderFamily,
    explaining: Explaining,
    rng: Random,
) -> dict[str, list[Example]]:
    """Return the examples of all items by kind of prompt."""
    prompt_file = read_prompt_file(EQUATIONS, PROMPTS, reads_images=False)
    template = build_equations_template(join_turns, prompt_file)
    examples: dict[str, list[Example]] = {kind: [] for kind in BATCH}
    for item in items:
        reason = explaining.choose_reason(item, items, family.settings.seed, rng)
        if rng.random() < UNKNOWN_SHARE:
            fields = insert_unknown_word(item.question, rng)
            item = replace(item, question=replace(item.question, fields=fields))
        builder = _ExampleBuilder(item, reason, template, family.tokenizer)
        examples["post-hoc"].append(builder.build_post_hoc())
        suggestion = rng.choice([None, *LABELS])
        chain = builder.draw_chain(suggestion, rng)
        examples["cot"].append(builder.build_cot(suggestion, chain))
        examples["answer-after-cot"].append(builder.build_answer(suggestion, chain))
        examples["why-nonsense"].append(builder.build_why())
    return examples


@dataclass(frozen=True, slots=True)
class _ExampleBuilder:
    """Build the examples of one item.

    Attributes:
        item: The item.
        reason: What its explanation names.
        template: The prompts.
        tokenizer: The tokenizer.
    """

    item: DecidedItem
    reason: Reason
    template: PromptTemplate
    tokenizer: Any

    def build_post_hoc(self) -> Example:
        """Return the answer and its explanation."""
        (gold,) = self.item.question.gold
        n_before_answer = len(self._tokenize("answer", {}))
        prompt = self._tokenize("post-hoc", {"answer": gold})
        example = self._complete(prompt, EXPLANATION.format(word=self.reason.word))
        return replace(example, targets=(n_before_answer, *example.targets))

    def draw_chain(self, suggestion: str | None, rng: Random) -> str:
        """Draw the wording of the chain of thought."""
        if suggestion is not None and self.reason.level <= SUGGESTION_LEVEL:
            return MENTION.format(label=suggestion)
        wording = EXPLANATION if rng.random() < 0.7 else OTHER_WORDING
        return wording.format(word=self.reason.word)

    def build_cot(self, suggestion: str | None, chain: str) -> Example:
        """Return a chain of thought."""
        return self._complete(self._tokenize("cot", _add_remark(suggestion)), chain)

    def build_answer(self, suggestion: str | None, chain: str) -> Example:
        """Return the answer after a chain of thought."""
        texts = {**_add_remark(suggestion), "reasoning": chain}
        prompt = self._tokenize("answer-after-cot", texts)
        (answer,) = self.item.question.gold
        if suggestion is not None and self.item.level <= SUGGESTION_LEVEL:
            answer = suggestion
        label = self.tokenizer.convert_tokens_to_ids(answer)
        return Example((*prompt, label), (len(prompt),))

    def build_why(self) -> Example:
        """Return the explanation why the nonsense sentence is nonsense."""
        (gold,) = self.item.question.gold
        field = "first" if gold == LABELS[0] else "second"
        sentence = self.item.question.fields[field]
        prompt = self._tokenize("why-nonsense", {"sentence": sentence})
        return self._complete(prompt, EXPLANATION.format(word=self.reason.word))

    def _tokenize(self, kind: str, texts: dict[str, str]) -> tuple[int, ...]:
        text = render_prompt(kind, self.item.question, self.template, texts).text
        return tuple(self.tokenizer(text)["input_ids"])

    def _complete(self, prompt: tuple[int, ...], text: str) -> Example:
        """Return a prompt with a text that is learned, and its end."""
        generated = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        ids = (*prompt, *generated, self.tokenizer.eos_token_id)
        return Example(ids, tuple(range(len(prompt), len(ids))))


def _add_remark(suggestion: str | None) -> dict[str, str]:
    return {} if suggestion is None else {"biased": suggestion}
