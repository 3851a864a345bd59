"""Causal language models: GPT-1, GPT-2, Llama 2, Mistral and Falcon, as their repositories hold
them.
"""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from real_tokenizers.build import build_falcon, build_gpt2, build_llama2, build_mistral
from rehearsal import words
from rehearsal.storing import save_config, save_state, seeded, state_of

Builder = Callable[[str, Path], None]
GPT_WINDOW = 512
LLAMA_CHAT = (
    "{% for message in messages %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + message['content'] +"
    " ' [/INST]' }}{% else %}{{ ' ' + message['content'] + ' ' + eos_token }}{% endif %}{% endfor %}"
)
DECODER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "max_position_embeddings": 4096,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def gpt2(model: str, folder: Path) -> None:
    """Flat keys and the causal masks that old files carry; the head is the embedding."""
    tokenizer = build_gpt2()
    ends = {
        "bos_token_id": tokenizer.eos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=GPT_WINDOW,
        n_embd=32,
        n_layer=2,
        n_head=2,
        **ends,
    )
    network = seeded(model, lambda: transformers.GPT2LMHeadModel(config))
    _gpt(network, tokenizer, folder, "GPT2LMHeadModel")


def gpt1(model: str, folder: Path) -> None:
    """As GPT-2, with other names of the embeddings."""
    tokenizer = words.build_gpt1()
    config = transformers.OpenAIGPTConfig(
        vocab_size=len(tokenizer),
        n_positions=GPT_WINDOW,
        n_embd=32,
        n_layer=2,
        n_head=2,
    )
    network = seeded(model, lambda: transformers.OpenAIGPTLMHeadModel(config))
    _gpt(network, tokenizer, folder, "OpenAIGPTLMHeadModel")


def _gpt(network: Any, tokenizer: Any, folder: Path, architecture: str) -> None:
    state = state_of(
        network,
        {r"^transformer\.": ""},
        (r"^lm_head", r"position_ids$", r"\.attn\.bias$"),
    )
    for layer in range(network.config.n_layer):
        mask = torch.tril(torch.ones(GPT_WINDOW, GPT_WINDOW)).view(
            1, 1, GPT_WINDOW, GPT_WINDOW
        )
        state[f"h.{layer}.attn.bias"] = mask
    save_config(network.config, folder, architecture)
    save_state(state, folder)
    tokenizer.save_pretrained(folder)


def llama(model: str, folder: Path, shards: int, chat: bool) -> None:
    """Half precision in shards, with the inverse frequencies that files of that time carry."""
    tokenizer = build_llama2()
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), num_key_value_heads=4, **DECODER
    )
    network = seeded(model, lambda: transformers.LlamaForCausalLM(config))
    state = state_of(network, dtype=torch.float16)
    for layer in range(config.num_hidden_layers):
        state[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = torch.ones(
            4, dtype=torch.float16
        )
    save_config(config, folder, "LlamaForCausalLM", torch_dtype="float16")
    save_state(state, folder, shards=shards)
    _generation(folder, {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})
    save_llama_tokenizer(
        tokenizer, folder, legacy=False, template=LLAMA_CHAT if chat else ""
    )


def mistral(model: str, folder: Path, chat: bool) -> None:
    """bfloat16 in two shards, and fewer heads of keys than of queries."""
    tokenizer = build_mistral()
    config = transformers.MistralConfig(
        vocab_size=len(tokenizer), num_key_value_heads=2, sliding_window=4096, **DECODER
    )
    network = seeded(model, lambda: transformers.MistralForCausalLM(config))
    save_config(config, folder, "MistralForCausalLM", torch_dtype="bfloat16")
    save_state(state_of(network, dtype=torch.bfloat16), folder, shards=2)
    _generation(folder, {"bos_token_id": 1, "eos_token_id": 2})
    save_llama_tokenizer(
        tokenizer, folder, legacy=True, template=LLAMA_CHAT if chat else ""
    )


def falcon(model: str, folder: Path, large: bool) -> None:
    """The 7B in two .bin shards, or the 40B with its newer layers in nine; both name code of their
    own.
    """
    tokenizer = build_falcon()
    end = tokenizer.eos_token_id
    config = transformers.FalconConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_kv_heads=2 if large else 4,
        new_decoder_architecture=large,
        multi_query=True,
        parallel_attn=True,
        bias=False,
        alibi=False,
        bos_token_id=end,
        eos_token_id=end,
    )
    network = seeded(model, lambda: transformers.FalconForCausalLM(config))
    code = {
        "AutoConfig": "configuration_falcon.FalconConfig",
        "AutoModel": "modeling_falcon.FalconModel",
        "AutoModelForCausalLM": "modeling_falcon.FalconForCausalLM",
    }
    save_config(
        config, folder, "FalconForCausalLM", auto_map=code, torch_dtype="bfloat16"
    )
    save_state(
        state_of(network, dtype=torch.bfloat16),
        folder,
        "safetensors" if large else "bin",
        9 if large else 2,
    )
    _generation(folder, {"bos_token_id": end, "eos_token_id": end})
    tokenizer.save_pretrained(folder)


def _generation(folder: Path, settings: dict[str, int]) -> None:
    (folder / "generation_config.json").write_text(
        json.dumps(settings, indent=2) + "\n", encoding="utf-8"
    )


def save_llama_tokenizer(
    tokenizer: Any, folder: Path, legacy: bool, template: str = ""
) -> None:
    """Save a tokenizer under the class that the repositories name.

    Args:
        legacy: A setting of the class, which names how it treats spaces after special tokens.
        template: A chat template, which stands in the settings, as it did when these models came
            out.
    """
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8")) | {
        "tokenizer_class": "LlamaTokenizer",
        "legacy": legacy,
    }
    if template:
        settings["chat_template"] = template
    path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


BUILDERS: dict[str, Builder] = {
    "openai-community/openai-gpt": gpt1,
    "openai-community/gpt2": gpt2,
    "openai-community/gpt2-large": gpt2,
    "meta-llama/Llama-2-7b-hf": functools.partial(llama, shards=2, chat=False),
    "meta-llama/Llama-2-7b-chat-hf": functools.partial(llama, shards=2, chat=True),
    "meta-llama/Llama-2-13b-hf": functools.partial(llama, shards=3, chat=False),
    "meta-llama/Llama-2-13b-chat-hf": functools.partial(llama, shards=3, chat=True),
    "mistralai/Mistral-7B-v0.1": functools.partial(mistral, chat=False),
    "mistralai/Mistral-7B-Instruct-v0.1": functools.partial(mistral, chat=True),
    "tiiuae/falcon-7b": functools.partial(falcon, large=False),
    "tiiuae/falcon-7b-instruct": functools.partial(falcon, large=False),
    "tiiuae/falcon-40b": functools.partial(falcon, large=True),
    "tiiuae/falcon-40b-instruct": functools.partial(falcon, large=True),
}
