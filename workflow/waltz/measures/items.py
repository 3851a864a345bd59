"""Read the items of the measurements: captions and foils with their images."""

from dataclasses import dataclass
from pathlib import PurePath

from PIL import Image

from waltz.core.files.group_files import DatasetFiles
from waltz.core.records import read_records
from waltz.core.schema import ItemRecord
from waltz.evaluation.items import select_items
from waltz.sources.images import load_image, open_images


@dataclass(frozen=True, slots=True)
class Item:
    """Hold a caption and a foil with their image.

    Attributes:
        item_id: Id of the item, unique in its data set.
        dataset: Name of the data set.
        image_name: Name of the image.
        image: The RGB image.
        caption: Text that is true of the image.
        foil: Text that is not true of the image.
    """

    item_id: str
    dataset: str
    image_name: str
    image: Image.Image
    caption: str
    foil: str

    @property
    def scene(self) -> str:
        """Return the scene that the image shows, as its name tells (`identify_scene`)."""
        return identify_scene(self.image_name)


def identify_scene(image_name: str) -> str:
    """Return the scene of an image, the unit that intervals resample: the last number in its name,
    else the name.

    Sources draw one scene under several names, such as `v7w_11.png` and
    `COCO_val2014_000000000011.png`. Photographs of different sources may share a number; their
    items are then resampled together, and intervals stay valid.
    """
    stem = PurePath(image_name).stem
    numbers = [part for part in stem.split("_") if part.isdecimal()]
    if numbers:
        return str(int(numbers[-1]))
    return stem


def read_item_sample(dataset: DatasetFiles, sample: int, seed: int) -> list[Item]:
    """Return a seeded sample of the valid items of a data set of captions and foils; all if there
    are fewer.
    """
    benchmark = list(read_records(dataset.rows, ItemRecord))
    items = []
    with open_images(dataset.images) as images:
        for item in select_items(benchmark, "valid", sample, seed):
            items.append(
                Item(
                    item.item_id,
                    dataset.name,
                    item.image,
                    load_image(images, item.image),
                    item.caption,
                    item.foil,
                )
            )
    return items
