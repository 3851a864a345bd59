"""File names of images that a format knows only by id."""

from collections.abc import Mapping

from waltz.core.errors import UserError

ImageNames = str | Mapping[str, str]
"""A template of `{id}` and `{split}`, such as `COCO_{split}_{id:012d}.jpg`, or the names by id."""


def image_name(image_id: str, names: ImageNames, split: str | None, place: str) -> str:
    """File name of an image.

    Args:
        image_id: The id; a template may format it as a number where it is one.
        names: Template or names.
        split: Fills `{split}`.
        place: Where the id stands, for errors.
    Raises:
        UserError: The id is not among the names, or the template cannot be filled.
    """
    if isinstance(names, Mapping):
        if image_id not in names:
            raise UserError(f"{place}: image id {image_id} has no image among the {len(names)} named")
        return names[image_id]
    try:
        return names.format(id=int(image_id) if image_id.isdecimal() else image_id, split=split)
    except (ValueError, KeyError, IndexError) as error:
        raise UserError(f"{place}: image id {image_id!r} does not fit the template {names!r} ({error})") from None
