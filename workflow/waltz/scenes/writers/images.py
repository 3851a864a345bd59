"""Names of images as each data set forms them, and the images themselves."""

import re
from collections.abc import Sequence
from pathlib import Path

from waltz.scenes.drawing import render_png
from waltz.scenes.graph import Graph
from waltz.scenes.sampling import remove_action
from waltz.scenes.writers.annotations import name_coco_2014, name_coco_2017, name_still, name_swig
from waltz.scenes.writers.tasks import name_gqa, name_visdial, name_visual7w


def find_scene(image: str, graphs: Sequence[Graph]) -> Graph:
    """Return the scene that an image shows, by the number in its name; a still shows it without its action.

    Raises:
        ValueError: The name has no number of a scene.
    """
    match = re.search(r"(\d+)(_still)?\.[a-z]+$", image)
    if match is None or not 0 < int(match[1]) <= len(graphs):
        raise ValueError(f"{image} is no image of the {len(graphs)} scenes")
    graph = graphs[int(match[1]) - 1]
    return remove_action(graph) if match[2] else graph


def write_images(directory: Path, graphs: Sequence[Graph]) -> int:
    """Draw every scene once and write it under each data set's name; scene i has the number i + 1.

    Returns:
        Number of files written.
    """
    count = 0
    for number, graph in enumerate(graphs, 1):
        picture = render_png(graph)
        paths = [
            f"coco/val2017/{name_coco_2017(number)}",
            f"coco/val2014/{name_coco_2014(number, 'val2014')}",
            f"visual7w/images/{name_visual7w(number)}",
            f"gqa/images/{name_gqa(number)}",
            f"visdial/images/{name_visdial(number, 'train')}",
            f"visdial/images/{name_visdial(number, 'val2018')}",
        ]
        if graph.action is not None:
            paths.append(f"swig/images_512/{name_swig(graph.action.verb, number)}")
            _write(
                directory / f"swig/images_512/{name_still(graph.action.verb, number)}", render_png(remove_action(graph))
            )
            count += 1
        for path in paths:
            _write(directory / path, picture)
        count += len(paths)
    return count


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
