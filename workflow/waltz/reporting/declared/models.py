"""Models of print: which of ours they mean, and which cannot be run."""

CLIP = {"clip": ("clip", "clip-vit-base-patch32")}
ENCODERS = {
    **CLIP,
    "blip": ("blip", "blip-itm-base-coco"),
    "blip2": ("blip2", "blip2-itm-vit-g"),
}
ANSWERING = {"lxmert": ("lxmert-vqa", "lxmert-gqa")}
"""LXMERT's checkpoints that answer questions, beside the one that aligns."""
LANGUAGE = {"gpt1": ("gpt1",), "gpt2": ("gpt2-large",)}
"""GPT1 and GPT2 of the VALSE tables; the GPT2 of Table 5.2 is the small one."""

NO_WEIGHTS = "not reproducible: its weights fit no class of transformers"
NOT_REPRODUCIBLE = {
    "vilbert": NO_WEIGHTS,
    "vilbert-12in1": NO_WEIGHTS,
    "albef-mscoco": NO_WEIGHTS,
    "albef-flickr": NO_WEIGHTS,
    "albef-refcoco": NO_WEIGHTS,
    "albef-vqa": NO_WEIGHTS,
    "albef": NO_WEIGHTS,
}
