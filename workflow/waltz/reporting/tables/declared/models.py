"""Models of the papers: their names in waltz, and those that cannot be run."""

CLIP = {"clip": ("clip", "clip-vit-base-patch32")}
ENCODERS = {
    **CLIP,
    "blip": ("blip", "blip-itm-base-coco"),
    "blip2": ("blip2", "blip2-itm-vit-g"),
    "albef": ("albef", "albef-mscoco"),
}
"""Encoders of CV-Probes, which does not say which checkpoint of ALBEF it took."""
ANSWERING = {"lxmert": ("lxmert-vqa", "lxmert-gqa")}
"""LXMERT's checkpoints that answer questions, in addition to the one that aligns."""
LANGUAGE = {"gpt1": ("gpt1",), "gpt2": ("gpt2-large",)}
"""GPT1 and GPT2 of the VALSE tables; the GPT2 of Table 5.2 is the small one."""

NOT_REPRODUCIBLE = {"albef-vqa": "not reproducible: the checkpoint has no ITM head"}
