"""One-line mutants of Python sources: the draw is repeatable, and every mutant changes the program."""

import ast
from pathlib import Path

import pytest

from vdla.benchmarks.harness.python_mutants import Mutant, draw, mutants_of, readers_of
from vdla.benchmarks.python_mutants import NETWORKS, Covering, seconds_of, try_mutant
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


SOURCE = """from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import a
MOST = 3


def few(x):
    return x < MOST


def both(a, b):
    assert len(a) == len(b)
    return list(zip(a.reshape(-1), b, strict=True))
"""


def test_what_a_right_program_does_not_need_has_no_mutants() -> None:
    assert {mutant.line for mutant in mutants_of("isa/f.py", SOURCE)} == {5, 9}


def mutant_at(line: int) -> Mutant:
    return next(mutant for mutant in mutants_of("isa/f.py", SOURCE) if mutant.line == line)


def test_tests_that_execute_the_statement_come_first() -> None:
    seconds = {
        "tests/isa/a.py::own": 3.0,
        "tests/b.py::slow": 1.0,
        "tests/b.py::fast": 0.1,
        "tests/isa/a.py::other": 9.0,
    }
    executed = {"9": list(seconds)[:3], "13": ["tests/isa/a.py::other"]}
    covering = Covering(lines={"isa/f.py": executed}, seconds=seconds)
    chosen = ["tests/b.py::fast", "tests/isa/a.py::own", "tests/b.py::slow"]
    assert covering_tests(mutant_at(9), SOURCE, covering) == chosen
    # A constant is tried where it is read.
    assert readers_of(SOURCE, 5) == [9] and covering_tests(mutant_at(5), SOURCE, covering) == chosen
    assert covering_tests(mutant_at(9), SOURCE, covering, limit=3.2) == chosen[:2]
    assert covering_tests(mutant_at(9), SOURCE, covering, limit=0) == chosen[:1]
    # Tests of the folder, and of networks, where none is known to execute the file.
    unseen = Covering(lines={}, seconds=seconds | {f"{NETWORKS[0]}::a": 2.0})
    assert covering_tests(mutant_at(9), SOURCE, unseen) == [
        "tests/isa/a.py::own",
        f"{NETWORKS[0]}::a",
        "tests/isa/a.py::other",
    ]


def test_seconds_of_tests_that_pass(tmp_path: Path) -> None:
    path = tmp_path / "times.xml"
    path.write_text(
        '<testsuites><testsuite><testcase file="tests/a.py" name="x[1]" time="0.5"/>'
        '<testcase file="tests/a.py" name="y" time="1"><failure/></testcase></testsuite></testsuites>'
    )
    assert seconds_of(path) == {"tests/a.py::x[1]": 0.5}


def test_a_mutant_is_tried_and_taken_back(tmp_path: Path) -> None:
    """A mutant of a file is reported as noticed, survived or untried, as the covering test fails, passes or does not
    exist; afterwards the file is as before. A plain folder takes the place of a clone.
    """
    (tmp_path / "made_up").mkdir()
    (tmp_path / "made_up" / "f.py").write_text("def less(a):\n    return a < 3\n")
    tests = "def test_it():\n    assert less(2) and not less(3)\n\n\ndef test_no():\n    pass\n"
    (tmp_path / "test_f.py").write_text(f"from made_up.f import less\n\n\n{tests}")
    source = (tmp_path / "made_up" / "f.py").read_text()
    found = {mutant.text: mutant for mutant in mutants_of("made_up/f.py", source)}

    def ended(text: str, test: str) -> str:
        covering = Covering(lines={"made_up/f.py": {"2": [test]}}, seconds={test: 0.1})
        return try_mutant(tmp_path, found[text], covering, 10).ended

    assert ended("<=", "test_f.py::test_it") == "noticed"
    assert ended("<=", "test_f.py::test_no") == "survived"
    assert ended("<=", "test_f.py::test_gone") == "untried"
    assert (tmp_path / "made_up" / "f.py").read_text() == source
