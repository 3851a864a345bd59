"""A tiny random LLaVA with a byte-level tokenizer and a chat template of turn markers, as a folder."""

from pathlib import Path

import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from stand_ins.models.tiny_decoders import TEXT, TOWER, random
from stand_ins.models.tiny_gguf import MERGES, SPECIAL, VOCABULARY

IMAGE, MASKED = "<image>", "<|masked|>"
CHAT = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{{ '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SIDE = 24
MEAN = (0.4, 0.6, 0.2)
"""Mean colour, which is one of whole levels."""


def write_llava(folder: Path, seed: int = 0) -> Path:
    """Write network and processor; images of 24 times 24 pixels keep their size."""
    names = [*VOCABULARY, IMAGE, MASKED]
    merges = [(left, right) for left, right in (merge.split() for merge in MERGES)]
    core = Tokenizer(
        models.BPE({name: place for place, name in enumerate(names)}, merges)
    )
    core.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=True
    )
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(
        [
            AddedToken(mark, special=True, normalized=False)
            for mark in [*SPECIAL, IMAGE, MASKED]
        ]
    )
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        mask_token=MASKED,
        extra_special_tokens={"image_token": IMAGE},
        model_max_length=1024,
    )
    images = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": SIDE},
        crop_size={"height": SIDE, "width": SIDE},
        image_mean=MEAN,
    )
    processor = transformers.LlavaProcessor(
        images,
        words,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT,
    )
    text = TEXT | {
        "pad_token_id": words.pad_token_id,
        "eos_token_id": words.eos_token_id,
        "bos_token_id": None,
    }
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(
            image_size=SIDE, patch_size=8, **TOWER
        ),
        text_config=transformers.LlamaConfig(vocab_size=len(words), **text),
        image_token_index=words.convert_tokens_to_ids(IMAGE),
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
    )
    network = random(transformers.LlavaForConditionalGeneration(config), seed)
    # a chat can say neither half a character nor a second image, so such tokens are unlikely
    others = [
        place
        for place, name in enumerate(VOCABULARY[:256])
        if not (name.isascii() or name in "\u0120\u010a")
    ]
    network.lm_head.weight.data[[*others, names.index(IMAGE), names.index(MASKED)]] = 0
    network.generation_config.eos_token_id = words.eos_token_id
    for part in (network, processor):
        part.save_pretrained(folder)
    return folder
