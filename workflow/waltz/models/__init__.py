"""Models: encoders, decoders, language models and the networks that transformers lacks."""

import importlib
from importlib.metadata import version
from importlib.util import find_spec

from waltz.core.errors import UserError, get_first_line

if find_spec("torchvision"):  # transformers imports it with every network
    try:
        importlib.import_module("torchvision")
    except (ImportError, OSError, RuntimeError) as error:
        raise UserError(
            f"torchvision: version {version('torchvision')} does not fit torch {version('torch')}"
            f" ({get_first_line(error)}); install both in the same build, for CPU or GPU, or uninstall torchvision"
        ) from error
