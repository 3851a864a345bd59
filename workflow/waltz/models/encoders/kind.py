"""Which kind of encoder a checkpoint is."""

from pathlib import Path

import transformers

from waltz.core.errors import UserError
from waltz.models.registry import encoder_kinds


def kind_of(weights: str, revision: str) -> str:
    """The kind of a checkpoint, as its own config tells: the `model_type`, or the answering head of an LXMERT.

    Args:
        weights: Hub id or folder in transformers format.
        revision: Full commit hash of a hub id, empty for its newest state; not used for a folder.
    Raises:
        UserError: There is no config, or no adapter for what it says.
    """
    options = {"revision": revision} if revision and not Path(weights).is_dir() else {}
    try:
        config = transformers.AutoConfig.from_pretrained(weights, **options)
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise UserError(f"{weights}: no config of a model can be read: {first_line}; check the name") from None
    heads = config.architectures or []
    kind = "lxmert-answering" if "LxmertForQuestionAnswering" in heads else config.model_type.replace("_", "-")
    if kind not in encoder_kinds():
        raise UserError(
            f"{weights}: {kind!r} is no kind of encoder; known are {', '.join(encoder_kinds())};"
            " see docs/how-to/adding-a-model.md"
        )
    return kind
