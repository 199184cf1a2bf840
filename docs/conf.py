"""Sphinx: the site is built from Markdown where it stands, with the repository's root as the source folder.

So a link between two pages works on the site and in the repository alike. `make docs` builds it into build/docs.
"""

from importlib.metadata import version as installed_version

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
    "compiler/README.md",
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
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
templates_path: list[str] = []
