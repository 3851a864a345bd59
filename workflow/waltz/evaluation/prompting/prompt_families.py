"""In whose words a decoder is spoken to: what its entry in the study says, checked before anything is loaded."""

import functools
from collections.abc import Sequence

from waltz.core.errors import UserError
from waltz.evaluation.prompting.prompt_files import Wording, read_wording
from waltz.models.registry import ModelSpec


def family_of(spec: ModelSpec) -> str:
    """A decoder's family in the published prompts, which decides its turn markers and system prompt.

    Raises:
        UserError: The entry names none, or none of models of its kind.
    """
    families = _wording("published").families
    sees = spec.kind == "vision"
    known = [name for name, family in families.items() if bool(family.markers["begin_image"]) == sees]
    if spec.family in known:
        return spec.family
    fault = f"{spec.family!r} is none that {'sees' if sees else 'reads text alone'}" if spec.family else "is missing"
    raise UserError(
        f"models.{spec.name}.family: {fault}; profile published has the turn markers of {', '.join(known)}: name one of"
        " them, or take published out of profiles"
    )


def check(spec: ModelSpec, profiles: Sequence[str]) -> None:
    """Refuse a decoder that cannot be spoken to in one of the profiles, or whose prompt file is at fault.

    Raises:
        UserError: As `family_of` and `wording.read_wording`.
    """
    if "published" in profiles:
        family_of(spec)
    if "equations" in profiles:
        _wording("equations", spec.prompts)


@functools.cache
def _wording(profile: str, prompts: str = "") -> Wording:
    """Prompts, read once for all models of a study."""
    return read_wording(profile, prompts or None)
