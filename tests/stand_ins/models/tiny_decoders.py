"""Tiny random language models with and without an image tower, of the real classes, built from
their configs.
"""

import types
from typing import Any

import torch
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from conftest import WORDS
from waltz.model_registry import ModelSpec
from waltz.models.decoders import language_model, vision_language_model, vision_loading

EXTRA = [
    "what",
    "is",
    "this",
    "?",
    "answer",
    "A",
    "B",
    "C",
    "D",
    "because",
    "(",
    ")",
    "_",
    "USER",
    ":",
    "ASSISTANT",
    "sentence",
    "1",
    "2",
    "best",
    "image",
]
MARKS = [
    "<image>",
    "<fake_token_around_image>",
    "<global-img>",
    "<end_of_utterance>",
    "<|image_pad|>",
]
MARKS += [
    f"<row_{row}_col_{column}>" for row in (1, 2, 3, 4) for column in (1, 2, 3, 4)
]


def tokenizer(
    start: bool = True, image: str = "<image>", **special: str
) -> PreTrainedTokenizerFast:
    """A word tokenizer that knows marks of images as special, more of them by name, with or without
    a start token.
    """
    marks = list(dict.fromkeys([*MARKS, *special.values()]))
    names = list(dict.fromkeys(["<unk>", "<s>", "</s>", *marks, *WORDS, *EXTRA, "Ġ"]))
    core = Tokenizer(
        models.WordLevel(
            {name: place for place, name in enumerate(names)}, unk_token="<unk>"
        )
    )
    core.pre_tokenizer = pre_tokenizers.Split(
        Regex(r"\w+|[^\w\s]"), behavior="removed", invert=True
    )
    core.add_special_tokens(
        [
            AddedToken(mark, special=True, normalized=False)
            for mark in ["<s>", "</s>", *marks]
        ]
    )
    if start:
        core.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 1)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
        extra_special_tokens={
            "image_token": image,
            "image_boundary_token": "<fake_token_around_image>",
            "end_of_utterance_token": "<end_of_utterance>",
            **special,
        },
        model_max_length=4096,
    )


TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "pad_token_id": 2,
    "eos_token_id": 2,
    "bos_token_id": 1,
}
TOWER = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}


def spec(name: str) -> ModelSpec:
    return ModelSpec(f"tiny-{name}", weights="tiny", revision="local")


def random(network, seed: int = 0):
    """Weights of a seed, wide enough that logits differ by more than rounding."""
    draws = torch.Generator().manual_seed(seed)
    for name, parameter in network.named_parameters():
        if parameter.ndim > 1:
            parameter.data.copy_(
                torch.randn(parameter.shape, generator=draws)
                * (0.4 if "embed" in name else 0.2)
            )
    return network.eval()


def causal(
    kind: str = "llama", words: PreTrainedTokenizerFast | None = None, seed: int = 0
) -> language_model.LanguageModel:
    """A language model: `llama`, `gpt2`, `openai-gpt`, `bloom`, `falcon` or `mistral` with a
    sliding window.
    """
    words = words or tokenizer()
    size = len(words)
    ends = {"eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 2}
    small = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 256}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = {
        "llama": lambda: transformers.LlamaConfig(vocab_size=size, **TEXT),
        "mistral": lambda: transformers.MistralConfig(
            vocab_size=size, sliding_window=6, **TEXT
        ),
        "gpt2": lambda: transformers.GPT2Config(vocab_size=size, **small, **ends),
        "openai-gpt": lambda: transformers.OpenAIGPTConfig(
            vocab_size=size, **small, **ends
        ),
        "bloom": lambda: transformers.BloomConfig(
            vocab_size=size, hidden_size=32, n_layer=2, n_head=2, **ends
        ),
        "falcon": lambda: transformers.FalconConfig(
            vocab_size=size, alibi=True, **sizes, **ends
        ),
    }[kind]()
    network = random(
        transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32), seed
    )
    return language_model.wrap_language_model(spec(kind), network, words, "cpu")


def llava(seed: int = 0) -> vision_language_model.VisionLanguageModel:
    words = tokenizer()
    tower = transformers.CLIPVisionConfig(image_size=24, patch_size=8, **TOWER)
    config = transformers.LlavaConfig(
        vision_config=tower,
        text_config=transformers.LlamaConfig(vocab_size=len(words), **TEXT),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
    )
    images = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 24},
        crop_size={"height": 24, "width": 24},
        do_center_crop=True,
    )
    processor = transformers.LlavaProcessor(
        images,
        words,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    network = random(transformers.LlavaForConditionalGeneration(config), seed)
    return vision_loading.wrap_vision_language_model(
        spec("llava"), network, processor, "cpu"
    )


def llava_next(seed: int = 0) -> vision_language_model.VisionLanguageModel:
    words = tokenizer()
    grids = [[24, 48], [48, 24], [48, 48]]
    config = transformers.LlavaNextConfig(
        vision_config=transformers.CLIPVisionConfig(
            image_size=24, patch_size=8, **TOWER
        ),
        text_config=transformers.MistralConfig(
            vocab_size=len(words), sliding_window=None, **TEXT
        ),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=grids,
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
    )
    images = transformers.LlavaNextImageProcessorPil(
        size={"shortest_edge": 24},
        crop_size={"height": 24, "width": 24},
        image_grid_pinpoints=grids,
    )
    processor = transformers.LlavaNextProcessor(
        images,
        words,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    network = random(transformers.LlavaNextForConditionalGeneration(config), seed)
    return vision_loading.wrap_vision_language_model(
        spec("llava-next"), network, processor, "cpu"
    )


def smolvlm(seed: int = 0) -> vision_language_model.VisionLanguageModel:
    """SmolVLM's network with the processor of Idefics3, which is the same but for videos."""
    words = tokenizer(start=False)
    config = transformers.SmolVLMConfig(
        vision_config=transformers.SmolVLMVisionConfig(
            image_size=24, patch_size=6, **TOWER
        ).to_dict(),
        text_config=transformers.LlamaConfig(vocab_size=len(words), **TEXT).to_dict(),
        image_token_id=words.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        pad_token_id=2,
    )
    images = transformers.Idefics3ImageProcessorPil(
        size={"longest_edge": 48},
        max_image_size={"longest_edge": 24},
        do_image_splitting=True,
    )
    processor = transformers.Idefics3Processor(images, words, image_seq_len=4)
    network = random(transformers.SmolVLMForConditionalGeneration(config), seed)
    return vision_loading.wrap_vision_language_model(
        spec("smolvlm"), network, processor, "cpu"
    )


def idefics2(seed: int = 0) -> vision_language_model.VisionLanguageModel:
    words = tokenizer()
    config = transformers.Idefics2Config(
        vision_config={"image_size": 24, "patch_size": 6, **TOWER},
        perceiver_config={
            "resampler_n_latents": 3,
            "resampler_depth": 1,
            "resampler_n_heads": 2,
            "resampler_head_dim": 8,
            "num_key_value_heads": 1,
            "hidden_size": 32,
        },
        text_config={
            "model_type": "mistral",
            "vocab_size": len(words),
            "sliding_window": None,
            **TEXT,
        },
        image_token_id=words.convert_tokens_to_ids("<image>"),
    )
    images = transformers.Idefics2ImageProcessorPil(
        size={"shortest_edge": 12, "longest_edge": 24}, do_image_splitting=False
    )
    processor = transformers.Idefics2Processor(images, words, image_seq_len=3)
    network = random(transformers.Idefics2ForConditionalGeneration(config), seed)
    return vision_loading.wrap_vision_language_model(
        spec("idefics2"), network, processor, "cpu"
    )


class WithoutVideos:
    """A processor whose video processor, and whatever else torchvision provides, is absent or stood
    in for.
    """

    def check_argument_for_proper_class(
        self, argument_name: str, argument: Any
    ) -> type:
        return type(argument)


class Qwen2VLProcessor(WithoutVideos, transformers.Qwen2VLProcessor):
    """The real one."""


def qwen2_vl(seed: int = 0) -> vision_language_model.VisionLanguageModel:
    words = tokenizer(start=False, image="<|image_pad|>", video_token="<|video_pad|>")
    config = transformers.Qwen2VLConfig(
        vision_config={
            "depth": 2,
            "embed_dim": 16,
            "hidden_size": 32,
            "num_heads": 2,
            "mlp_ratio": 2,
            "patch_size": 4,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
        text_config={
            **TEXT,
            "vocab_size": len(words),
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [1, 1, 2],
            },
        },
        image_token_id=words.convert_tokens_to_ids("<|image_pad|>"),
        video_token_id=words.convert_tokens_to_ids("<|video_pad|>"),
    )
    images = transformers.Qwen2VLImageProcessorPil(
        patch_size=4,
        merge_size=2,
        temporal_patch_size=2,
        min_pixels=16 * 16,
        max_pixels=32 * 32,
    )
    network = random(transformers.Qwen2VLForConditionalGeneration(config), seed)
    return vision_loading.wrap_vision_language_model(
        spec("qwen2-vl"), network, Qwen2VLProcessor(images, words), "cpu"
    )


SEEING = types.MappingProxyType(
    {
        "llava": llava,
        "llava-next": llava_next,
        "smolvlm": smolvlm,
        "idefics2": idefics2,
        "qwen2-vl": qwen2_vl,
    }
)
