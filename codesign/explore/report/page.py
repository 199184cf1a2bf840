"""Writes a report as one HTML file that contains data, scripts and style, so that it opens without a network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any

SCRIPTS = (
    "dom.js",
    "data.js",
    "front.js",
    "parallel.js",
    "sensitivity.js",
    "history.js",
    "synthesized.js",
    "design.js",
    "layers.js",
    "compare.js",
    "table.js",
    "page.js",
)
"""JavaScript files of the report page, in the order of their execution."""


def html(data: Mapping[str, Any]) -> str:
    """The page for `data`, the result of `data.exploration_data` or `data.comparison_data`."""
    folder = resources.files("vdla.codesign.explore.report.assets")
    text = {name: (folder / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", *SCRIPTS)}
    encoded = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    parts = {
        "TITLE": escape(str(data["title"])),
        "STYLE": text["page.css"],
        # A script element must contain no text like its own end tag or the beginning of a comment.
        "DATA": encoded.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"),
        "SCRIPT": "\n".join(text[name] for name in SCRIPTS),
    }
    head, *rest = text["page.html"].split("{{")
    found = [head]
    for piece in rest:
        name, after = piece.split("}}", 1)
        found += [parts[name], after]
    return "".join(found)
