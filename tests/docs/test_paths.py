"""Every file that a page names by its path is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|md|toml|json|cpp|sh|csv|ipynb))(?:::\w+)?`")
MADE = ("build/",)
"""Folders that commands of the pages make."""


def pages() -> list[str]:
    """All pages but the history, which names files of its time."""
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*.md"))
    others = {"build", "vdla"}
    listed = [path for path in found if path.parts[0] not in others and not path.parts[0].startswith(".")]
    return sorted(path.as_posix() for path in listed if path.name != "CHANGELOG.md")


@pytest.mark.parametrize("page", pages())
def test_paths_exist(page: str) -> None:
    """Paths begin at the repository's root, at the page, or at the compiler or codesign."""
    text = (ROOT / page).read_text(encoding="utf-8")
    bases = (ROOT, (ROOT / page).parent, ROOT / "compiler", ROOT / "codesign")
    named = {path for path in PATH.findall(text) if not path.startswith(MADE)}
    absent = sorted(path for path in named if not any((base / path).exists() for base in bases))
    assert not absent, f"{page} names files that are not there: {', '.join(absent)}"
