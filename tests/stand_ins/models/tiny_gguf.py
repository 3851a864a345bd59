"""A tiny random Qwen2 as a GGUF file, with a byte-level tokenizer and a chat template."""

from pathlib import Path

import gguf
import torch
import transformers
from transformers.convert_slow_tokenizer import bytes_to_unicode

from stand_ins.models.tiny_decoders import random

CHAT = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
MERGES = ["Ġ A", "Ġ B", "t h", "Ġ th", "Ġth e", "i s", "Ġ is", "a n", "an s", "_ _"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCABULARY = [
    *bytes_to_unicode().values(),
    *(merge.replace(" ", "") for merge in MERGES),
    *SPECIAL,
]
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
MAX_POSITIONS = 512
LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""Names of a layer's parts in GGUF files."""


def network(seed: int = 0) -> transformers.Qwen2ForCausalLM:
    config = transformers.Qwen2Config(
        vocab_size=len(VOCABULARY),
        **SIZES,
        num_key_value_heads=1,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=False,
    )
    return random(transformers.Qwen2ForCausalLM(config), seed)


def write_gguf(file: Path, model: transformers.Qwen2ForCausalLM) -> Path:
    """Write a network and its tokenizer."""
    config = model.config
    writer = gguf.GGUFWriter(file, "qwen2")
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(VOCABULARY)
    types = [
        gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL
        for token in VOCABULARY
    ]
    writer.add_token_types(types)
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(VOCABULARY.index("<|endoftext|>"))
    writer.add_eos_token_id(VOCABULARY.index("<|im_end|>"))
    writer.add_pad_token_id(VOCABULARY.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT)
    for name, tensor in model.state_dict().items():
        writer.add_tensor(_translate(name), tensor.to(torch.float32).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _translate(name: str) -> str:
    """Return the name of a parameter in GGUF files."""
    whole = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
    }
    part, _, kind = name.rpartition(".")
    if part in whole:
        return f"{whole[part]}.{kind}"
    _, _, number, inner = part.split(".", maxsplit=3)
    return f"blk.{number}.{LAYER[inner]}.{kind}"
