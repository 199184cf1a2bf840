"""Every file that a Markdown page names by its path exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|md|toml|json|cpp|sh|csv|ipynb))(?:::\w+)?`")
MADE = ("build/",)
"""Prefixes of paths that need not exist, because commands of the pages create them."""


def pages() -> list[str]:
    """Paths of all Markdown pages except CHANGELOG.md, which names files that no longer exist."""
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*.md"))
    others = {"build", "vdla"}
    listed = [path for path in found if path.parts[0] not in others and not path.parts[0].startswith(".")]
    return sorted(path.as_posix() for path in listed if path.name != "CHANGELOG.md")


@pytest.mark.parametrize("page", pages())
def test_paths_exist(page: str) -> None:
    """A path may be relative to the repository's root, to the page, to compiler/ or to codesign/."""
    text = (ROOT / page).read_text(encoding="utf-8")
    bases = (ROOT, (ROOT / page).parent, ROOT / "compiler", ROOT / "codesign")
    named = {path for path in PATH.findall(text) if not path.startswith(MADE)}
    absent = sorted(path for path in named if not any((base / path).exists() for base in bases))
    assert not absent, f"{page} names files that are not there: {', '.join(absent)}"
