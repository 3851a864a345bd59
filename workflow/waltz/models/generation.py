"""What an instruct model writes after a prompt, greedily, one prompt at a time."""

import torch
from transformers import GenerationConfig

from waltz.models.text import TextModel

GREEDY = {"do_sample": False, "num_beams": 1, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0}
"""Said in full, because a checkpoint's own settings stand wherever nothing is said."""


@torch.inference_mode()
def greedy(model: TextModel, prompt: str, most: int = 64) -> str:
    """The most likely continuation of a prompt, token by token.

    A model with a chat template gets the prompt as a user's message. Nothing is drawn, and prompts are never batched,
    so that an answer does not depend on the others.

    Args:
        model: A loaded causal language model.
        prompt: What to continue or to answer.
        most: Most tokens of the answer; it ends before at an end token, or where the model can read no more.
    Returns:
        The answer without special tokens; empty where the prompt fills the model's window.
    """
    ids = _prompt_ids(model, prompt)
    room = min(most, model.window - len(ids))
    if room < 1:
        return ""
    end = model.network.generation_config.eos_token_id
    end = model.tokenizer.eos_token_id if end is None else end
    settings = GenerationConfig(max_new_tokens=room, eos_token_id=end, pad_token_id=0, **GREEDY)
    given = torch.tensor([ids], device=model.device)
    written = model.network.generate(given, attention_mask=torch.ones_like(given), generation_config=settings)
    return str(model.tokenizer.decode(written[0, len(ids) :], skip_special_tokens=True))


def _prompt_ids(model: TextModel, prompt: str) -> list[int]:
    if getattr(model.tokenizer, "chat_template", None):
        message = [{"role": "user", "content": prompt}]
        text = model.tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        return list(model.tokens(text))
    start = [] if model.start is None else [model.start]
    return [*start, *model.tokens(prompt)]
