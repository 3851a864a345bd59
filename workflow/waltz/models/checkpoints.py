"""Networks, tokenizers and processors in transformers format, refused where weights are missing."""

import contextlib
import io
from pathlib import Path
from typing import Any

import torch
import transformers

from waltz.core.errors import UserError
from waltz.models.registry import ModelSpec, package_gguf

NAMED = 8
"""Most missing weights that an error names."""


def load(
    spec: ModelSpec, network_class: Any, head: str = "", reader: Any = transformers.AutoTokenizer
) -> tuple[Any, Any]:
    """A network, at the precision of its entry, and its tokenizer or processor.

    Args:
        spec: A model by hub id, folder or package.
        network_class: One of the transformers `AutoModelFor...` classes.
        head: What the class adds to a network, for the error about a checkpoint without it. Transformers
            itself fills in random weights there, and warns at most.
        reader: The transformers `Auto...` class of what prepares inputs.
    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    transformers.utils.logging.disable_progress_bar()
    source, options = _source(spec)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # bars of GGUF loading, which no setting stops
            words = reader.from_pretrained(source, **options)
            network, report = network_class.from_pretrained(
                source, dtype=getattr(torch, spec.dtype), output_loading_info=True, **options
            )
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise UserError(
            f"models.{spec.name}: cannot load {spec.weights} at {spec.revision}: {first_line}; check the network,"
            " or put the files into the hub cache"
        ) from error
    missing = sorted(report["missing_keys"])
    if missing:
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        advice = f"; name a checkpoint that was trained with its {head}" if head else ""
        raise UserError(
            f"models.{spec.name}: {spec.weights} lacks the weights of {', '.join(missing[:NAMED])}{more}{advice}"
        )
    return network, words


def reading_window(network: Any, tokenizer: Any) -> int:
    """Most positions that an encoder reads, special tokens included."""
    return int(min(tokenizer.model_max_length, getattr(network.config, "max_position_embeddings", None) or 512))


def _source(spec: ModelSpec) -> tuple[str, dict[str, Any]]:
    """Where transformers shall load from, with the options that say what."""
    if spec.weights.startswith("package:"):
        file = package_gguf(spec)
        return str(file.parent), {"gguf_file": file.name}
    if Path(spec.weights).is_dir():
        return spec.weights, {}
    return spec.weights, {"revision": spec.revision}
