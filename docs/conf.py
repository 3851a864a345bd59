"""Settings of the documentation site: `sphinx-build -W --keep-going -c docs . build/site`, in the
repository's root.

The sources are the Markdown pages that GitHub shows, where they lie, so that each link holds on
both. What they lack is added here: the navigation, and formulas as MathML, which needs no script
from elsewhere.
"""

import shutil
import sys
from pathlib import Path

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

import waltz  # noqa: E402

project = "waltz"
author = "The waltz authors"
copyright = "The waltz authors, MIT license"
release = version = waltz.__version__

root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**"]
exclude_patterns = [".*", "build", "logs", "resources", "results", "tests", "workflow"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]  # as GitHub writes formulas
myst_heading_anchors = 4
nb_execution_mode = "off"  # the notebook is stored with its outputs; a test runs it

default_role = "code"  # docstrings write `names` as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures stay short; docstrings describe the arguments
napoleon_custom_sections = ["Source"]
napoleon_use_rtype = False
napoleon_attr_annotations = False

html_theme = "furo"
html_title = f"waltz {release}"
html_math_renderer = "mathml"
html_static_path = ["site.css"]
html_css_files = ["site.css"]

NAVIGATION = """
```{toctree}
:hidden:
:caption: Tutorials
docs/tutorials/explain-in-python
docs/tutorials/explain
```
```{toctree}
:hidden:
:glob:
:caption: How-to
docs/how-to/*
```
```{toctree}
:hidden:
:glob:
:caption: Reference
docs/reference/api
docs/reference/metrics
docs/reference/metrics/*
docs/reference/*
```
```{toctree}
:hidden:
:glob:
:caption: Explanation
docs/explanation/*
```
```{toctree}
:hidden:
:caption: Project
docs/README
CONTRIBUTING
CHANGELOG
```
"""


def add_navigation(app, docname, source):
    """Append the navigation to the first page."""
    if docname == root_doc:
        source[0] += NAVIGATION


def copy_first_page(app, exception):
    """Serve the first page as `index.html`, too."""
    if exception is None and app.builder.format == "html":
        shutil.copyfile(app.outdir / f"{root_doc}.html", app.outdir / "index.html")


def write_formula(translator, node):
    """Write a formula as MathML."""
    formula = tex2mathml(node.astext(), as_block=node.tagname == "math_block")
    translator.body.append(
        f'<div class="math">{formula}</div>'
        if node.tagname == "math_block"
        else formula
    )
    raise SkipNode


def setup(app):
    """Connect the functions above to Sphinx."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", copy_first_page)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
