"""What is said to transformers about large models: 4 bits, several devices, a repository's own code."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import torch
import transformers

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.models.registry import ModelSpec

COMMIT = re.compile(r"[0-9a-f]{40}")


def arguments(spec: ModelSpec) -> dict[str, Any]:
    """Keyword arguments of `from_pretrained` beside those of every model.

    Raises:
        UserError: A package that is needed is not installed, or remote code is asked for without one revision.
    """
    found: dict[str, Any] = {}
    if spec.four_bit:
        _need("bitsandbytes", "four_bit", spec)
        _need("accelerate", "four_bit", spec)
        found["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=getattr(torch, spec.dtype)
        )
    if spec.device_map:
        _need("accelerate", "device_map", spec)
        found["device_map"] = spec.device_map
    if spec.trust_remote_code:
        if not (COMMIT.fullmatch(spec.revision) or Path(spec.weights).is_dir()):
            raise UserError(
                f"models.{spec.name}.trust_remote_code: {spec.revision!r} is no full commit hash, so the code that runs"
                " could change; name one under revision"
            )
        found["trust_remote_code"] = True
    return found


def with_template(reader: Any, has_template: bool, spec: ModelSpec) -> None:
    """Give a tokenizer or processor without a chat template the one that its entry names.

    Raises:
        UserError: There is no such file.
    """
    if has_template or not spec.chat_template:
        return
    path = Path(spec.chat_template)
    if not path.is_file():
        raise UserError(f"models.{spec.name}.chat_template: {path}: no such file; correct it")
    reader.chat_template = path.read_text(encoding="utf-8").rstrip("\n")


def placed(model: Any, device: Device, spec: ModelSpec) -> Any:
    """The network on the job's device, or where accelerate and bitsandbytes have put it."""
    return model if spec.four_bit or spec.device_map else model.to(device.name)


def _need(package: str, option: str, spec: ModelSpec) -> None:
    if importlib.util.find_spec(package) is None:
        raise UserError(
            f"models.{spec.name}.{option}: the package {package!r} is not installed; run: pip install {package}"
        )
