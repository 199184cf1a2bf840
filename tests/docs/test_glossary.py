"""The glossary: its modules and pages exist, and its terms are sorted."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def test_every_place_exists() -> None:
    modules = set(re.findall(r"`(vdla\.[a-z_.]+)`", PAGE))
    assert len(modules) > 30
    assert [name for name in sorted(modules) if find_spec(name) is None] == []
    pages = set(re.findall(r"`([a-zA-Z_/]+\.md)`", PAGE))
    assert [name for name in sorted(pages) if not (ROOT / name).is_file()] == []


def test_terms_are_in_order_and_defined_once() -> None:
    sections = PAGE.split("\n## ")[1:]
    terms = [re.findall(r"^(\S.*)\n: ", section, re.MULTILINE) for section in sections]
    assert sum(map(len, terms)) > 60
    for found in terms:
        assert found == sorted(found, key=str.lower)
    every = [term for found in terms for term in found]
    assert len(every) == len(set(every))
