"""Configuration of Sphinx. The source folder is the repository's root, so that every Markdown page is built from the
place where the repository has it.

Therefore a link between two pages works both on the site and in the repository. `make docs` builds the site into
build/docs.
"""

import inspect
import re
from importlib import import_module
from importlib.metadata import version as installed_version

from sphinx.application import Sphinx

project = "vdla"
author = "the vdla authors"
version = release = installed_version("vdla")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/*/*.md",
    "isa/README.md",
    "hw/*.md",
    "compiler/*.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
]
# Folders of Markdown that is not ours, or that a build wrote.
exclude_patterns = [".*", "build", "dist", "*.egg-info", "**/.*", "**/build"]

# Docstrings write `name` for code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 100

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "vdla"
html_extra_path = ["site"]
html_static_path = ["static"]
html_css_files = ["wide.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
templates_path: list[str] = []

_IMPLEMENTED = re.compile(r"\(`(\w+\.\w+)`\)")


def _primitive(lines: list[str]) -> list[str]:
    """The lines of a `Schedule` method's docstring, followed by the docstring of the function that implements the
    primitive, which the method's docstring names in parentheses: (`module.function`). Other docstrings stay unchanged.
    """
    found = _IMPLEMENTED.search("\n".join(lines))
    if found is None:
        return lines
    module, function = found[1].split(".")
    described = inspect.getdoc(getattr(import_module(f"vdla.compiler.schedule.{module}"), function))
    return [*lines, "", *(described or "").split("\n")]


def _literal_blocks(lines: list[str]) -> list[str]:
    """The lines of a docstring, with indented lines after a line that ends in ":" marked as literal blocks of
    reStructuredText ("::").
    """
    result: list[str] = []
    inside = False
    for line in lines:
        indented = line.startswith("    ")
        if inside and line and not indented:
            inside = False
            result.append("")
        if not inside and indented and result and result[-1].endswith(":"):
            inside = True
            result[-1] += "" if result[-1].endswith("::") else ":"
            result.append("")
        result.append(line)
    return [*result, ""]


def _docstring(
    _app: Sphinx, what: str, name: str, _object: object, _options: object, lines: list[str]
) -> None:
    of_schedule = what == "method" and name.startswith("vdla.Schedule.")
    lines[:] = _literal_blocks(_primitive(lines) if of_schedule else lines)


def setup(app: Sphinx) -> None:
    """Sphinx calls this function to load the extension; it connects the function that rewrites docstrings."""
    app.connect("autodoc-process-docstring", _docstring)
