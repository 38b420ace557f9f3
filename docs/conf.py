"""Configuration of Sphinx; `make docs` (scripts/make_docs.py) writes the pages under docs/reference first."""

import re

import ascendsim

STAR = re.compile(r"(?<!\\)\*(?=(?:[^`]*`[^`]*`)*[^`]*$)")  # outside of `code`

project = "ascendsim"
author = "the ascendsim authors"
copyright = author
release = version = ascendsim.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
include_patterns = [
    "index.md",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/**",
    "notebooks/*.ipynb",
    "examples/**/README.md",
]
exclude_patterns = ["docs/conf.py"]

html_theme = "furo"
html_title = f"ascendsim {release}"
html_extra_path = ["reference/site"]  # sample reports
html_copy_source = False
html_show_sphinx = False

myst_heading_anchors = 4
myst_links_external_new_tab = False
# The outputs that are committed: a test runs every notebook and compares, so they need not run here again.
nb_execution_mode = "off"

napoleon_use_ivar = True  # attributes of dataclasses are documented once
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autoclass_content = "class"
maximum_signature_line_length = 90
python_display_short_literal_types = True
default_role = "code"  # docstrings write `name`, as Markdown does


def read_as_markdown(app, what, name, obj, options, lines):
    """Docstrings are prose that means no emphasis by "*", and indented lines of a module's are code."""
    found, last = [], ""
    for line in lines:
        code = what == "module" and line.startswith("    ")
        if code and not last.startswith("    "):
            found += ["::", ""]
        found.append(line if code or line.lstrip().startswith(">>>") else STAR.sub(r"\\*", line))
        last = line or last
    lines[:] = found


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", read_as_markdown)
