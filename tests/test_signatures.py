"""No function takes more than eight parameters: more belong into a named group, or are two functions."""

from __future__ import annotations

import ast
from pathlib import Path

MOST = 8
ROOT = Path(__file__).parent.parent
FOLDERS = ("util", "isa", "sim", "hw", "compiler", "verify", "codesign", "benchmarks")
COMMANDS = "codesign/cli"
"""The folder whose functions are commands: their parameters are the options of the command line."""
FRONT_DOOR = {
    "codesign/api/compilation.py": {"compile"},
    "codesign/api/exploration.py": {"explore"},
    "codesign/api/quantization.py": {"quantize"},
    "codesign/api/tuning.py": {"tune"},
    "compiler/frontends/nn/layers.py": {"ConvTranspose2d.__init__"},
}
"""Public functions whose callers name the parameters, by file. `vdla.nn` has the parameters of PyTorch."""


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The names of a function's parameters without `self` and `cls`."""
    given = function.args
    names = [item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [item.arg for item in (given.vararg, given.kwarg) if item]
    return [name for name in names if name not in ("self", "cls")]


def long_signatures(path: Path) -> set[str]:
    """The functions of a file with more than MOST parameters, each behind the classes and functions around it."""
    found: set[str] = set()

    def visit(node: ast.AST, around: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            inner = around
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = (*around, child.name)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and len(parameters(child)) > MOST:
                found.add(".".join(inner))
            visit(child, inner)

    visit(ast.parse(path.read_text(encoding="utf-8")), ())
    return found


def test_no_function_takes_more_than_eight_parameters_outside_the_front_door() -> None:
    found: dict[str, set[str]] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(f"{COMMANDS}/") and (several := long_signatures(path)):
                found[name] = several
    assert found == FRONT_DOOR


def test_parameters_of_all_kinds_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "signatures.py"
    path.write_text(
        "class A:\n"
        "    def eight(self, a, b, c, d, e, f, g, h): ...\n"
        "    async def nine(cls, a, b, /, c, d, *e, f, g, h, **i): ...\n"
        "    def outer(self):\n"
        "        def inner(a, b, c, d, e, f, g, h, i): ...\n"
    )
    assert long_signatures(path) == {"A.nine", "A.outer.inner"}
