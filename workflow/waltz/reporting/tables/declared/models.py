"""Models of print: which of ours they mean, and which cannot be run."""

CLIP = {"clip": ("clip", "clip-vit-base-patch32")}
ENCODERS = {
    **CLIP,
    "blip": ("blip", "blip-itm-base-coco"),
    "blip2": ("blip2", "blip2-itm-vit-g"),
    "albef": ("albef", "albef-mscoco"),
}
"""CV-Probes does not say which of ALBEF's checkpoints it took."""
ANSWERING = {"lxmert": ("lxmert-vqa", "lxmert-gqa")}
"""LXMERT's checkpoints that answer questions, beside the one that aligns."""
LANGUAGE = {"gpt1": ("gpt1",), "gpt2": ("gpt2-large",)}
"""GPT1 and GPT2 of the VALSE tables; the GPT2 of Table 5.2 is the small one."""

NOT_REPRODUCIBLE = {"albef-vqa": "not reproducible: the checkpoint has no ITM head"}
