"""One-line mutants of Python sources: drawn repeatably, each another program of the same lines."""

import ast
from pathlib import Path

import pytest

from vdla.benchmarks.harness.python_mutants import draw, mutants_of
from vdla.benchmarks.python_mutants import tests_of as covering_tests

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("line", "mutated"),
    [
        ("if a < b:", {"if a <= b:", "if not (a < b):"}),
        ("x = a - b * 2", {"x = a + b * 2", "x = a - b + 2", "x = a - b * 3"}),
        ("return a and not b", {"return a or not b", "return a and b"}),
        ("ü = min(a, key=len) if a else True", {
            "ü = max(a, key=len) if a else True",
            "ü = min(a, key=len) if not (a) else True",
            "ü = min(a, key=len) if a else False",
        }),
        ("a: Literal[3] = b in c", {"a: Literal[3] = b not in c"}),
        ("from .a import b", set()),
        ('"""Says 3 < 4."""', set()),
    ],
)  # fmt: skip
def test_changes_of_a_line(line: str, mutated: set[str]) -> None:
    source = f"def f(a, b, c):\n    {line}" + ("\n        return c\n" if line.endswith(":") else "\n")
    found = mutants_of("f.py", source)
    assert {mutant.apply(source).splitlines()[1].strip() for mutant in found} == mutated


def test_drawn_mutants_are_other_programs_and_the_same_again() -> None:
    drawn = draw(ROOT, 40, 7, ["util"])
    assert drawn == draw(ROOT, 40, 7, ["util"]) != draw(ROOT, 40, 8, ["util"])
    for mutant in drawn:
        source = (ROOT / mutant.path).read_text(encoding="utf-8")
        changed = mutant.apply(source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
        differing = [a for a, b in zip(source.splitlines(), changed.splitlines(), strict=True) if a != b]
        assert len(differing) == 1


def test_tests_that_execute_the_statement_come_first() -> None:
    mutant = draw(ROOT, 1, 3, ["isa"])[0]
    covering = {mutant.path: {str(mutant.line): ["tests/a.py::fast", "tests/a.py::slow"]}}
    assert covering_tests(mutant, covering) == ["tests/a.py::fast", "tests/a.py::slow"]
    assert covering_tests(mutant, {})[0].startswith("tests")
