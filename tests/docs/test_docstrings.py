"""Rules for docstrings (CONTRIBUTING.md, "Words"): they begin with the thing that they describe, and every file has
one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "util",
    "isa",
    "sim",
    "hw",
    "compiler",
    "verify",
    "codesign",
    "benchmarks",
    "examples",
    "notebooks",
)
STANDS_FOR_A_NOUN = ("What", "Those", "Of", "In the", "That", "These", "Such")
"""First words that stand for a noun given elsewhere, with which a docstring must not begin."""
Node = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def docstrings(path: Path) -> tuple[str | None, tuple[tuple[int, str], ...]]:
    """The module's docstring, and (line, text) of every docstring in a file: of modules, classes, functions and
    assigned names. Each file is parsed once for all tests.
    """
    module = ast.parse(path.read_text(encoding="utf-8"))
    return ast.get_docstring(module), tuple(_docstrings(module))


def _docstrings(module: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module):
        if not isinstance(node, Node):
            continue
        for number, statement in enumerate(node.body):
            text = statement.value if isinstance(statement, ast.Expr) else None
            first_or_behind_a_name = number == 0 or isinstance(
                node.body[number - 1], ast.Assign | ast.AnnAssign
            )
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and first_or_behind_a_name:
                yield statement.lineno, text.value


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def offenders(paths: list[Path]) -> list[str]:
    """A line of text for each docstring that begins with one of STANDS_FOR_A_NOUN; questions are allowed."""
    return [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in paths
        for line, text in docstrings(path)[1]
        if text.startswith(tuple(f"{words} " for words in STANDS_FOR_A_NOUN))
        and not text.splitlines()[0].endswith("?")
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_begin_with_the_thing(folder: str) -> None:
    assert not offenders(sources(folder))


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_says_its_purpose(folder: str) -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sources(folder)
        if path.name != "__init__.py" and not docstrings(path)[0]
    ]
    assert not silent
