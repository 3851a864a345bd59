"""The tutorial's notebooks, executed in a kernel of Jupyter."""

from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.ipynb"))


@pytest.mark.notebook
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_and_shows_pictures(path):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(path, as_version=4)
    stored = [list_types(cell) for cell in notebook.cells]
    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    shown = [list_types(cell) for cell in notebook.cells]
    assert shown == stored  # the outputs on the page are those of this code
    assert sum("image/png" in types for types in shown) >= 4
    assert sum("text/html" in types for types in shown) >= 3


def list_types(cell) -> list[str]:
    """Return which of the types that show pictures and tables a cell's outputs have."""
    outputs = [
        output
        for output in cell.get("outputs", ())
        if output.output_type in ("display_data", "execute_result")
    ]
    return sorted(
        {"image/png", "text/html"}
        & {name for output in outputs for name in output.data}
    )
