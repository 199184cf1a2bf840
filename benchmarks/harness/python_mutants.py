"""One-line mutants of Python sources: changes of an operator, a comparison, a constant or a condition."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("util", "isa", "sim", "compiler", "verify", "codesign")
"""Folders of the sources that are mutated. The RTL in hw/ has a separate campaign (benchmarks/mutations.py)."""

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.In: ("in", "not in"),
}
OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one line of `path` (relative to the repository): columns `start` to `end` become `text`.

    `line` counts from 1, columns count characters from 0. `statement` is the first line of the statement.
    """

    path: str
    line: int
    start: int
    end: int
    text: str
    statement: int

    def apply(self, source: str) -> str:
        """The file's text `source` with this change."""
        lines = source.splitlines(keepends=True)
        old = lines[self.line - 1]
        lines[self.line - 1] = old[: self.start] + self.text + old[self.end :]
        return "".join(lines)

    def describe(self, source: str) -> str:
        """The place of the mutant, and the line before and after the mutation, as text."""
        before = source.splitlines()[self.line - 1].strip()
        after = self.apply(source).splitlines()[self.line - 1].strip()
        return f"{self.path}:{self.line}: {before}  ->  {after}"


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Every mutant of the file at `path` (relative to the repository) with the text `source`, in the order of its
    lines.

    These are never mutated: annotations, docstrings and imports; code that only other tools read (`if TYPE_CHECKING`);
    checks of assumptions (`assert`, `strict=True` of `zip`); the 1 of `reshape(-1)`, since any negative number works.
    """
    lines = source.splitlines()
    found: list[Mutant] = []
    for statement, node in _expressions(ast.parse(source)):
        for line, start, end, text in _changes(node, lines):
            found.append(Mutant(path, line, start, end, text, statement))
    return sorted(set(found), key=lambda mutant: (mutant.line, mutant.start, mutant.text))


def draw(root: Path, count: int, seed: int, folders: Sequence[str] = FOLDERS) -> list[Mutant]:
    """`count` mutants of the sources in these folders of `root`, each on another line, drawn uniformly from all lines
    with mutants. Raises ValueError if there are fewer lines.

    The same seed draws the same lines from the same sources.
    """
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            for mutant in mutants_of(name, path.read_text(encoding="utf-8")):
                by_line.setdefault((name, mutant.line), []).append(mutant)
    rng = random.Random(seed)
    chosen = rng.sample(sorted(by_line), count)
    return [rng.choice(by_line[place]) for place in chosen]


def _expressions(tree: ast.Module) -> Iterator[tuple[int, ast.AST]]:
    """All AST nodes that are executed when the module is used, each with the first line of its statement."""

    def walk(node: ast.AST, statement: int) -> Iterator[tuple[int, ast.AST]]:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_comment"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST) or _is_redundant(child):
                    continue
                first = child.lineno if isinstance(child, ast.stmt) else statement
                yield first, child
                yield from walk(child, first)

    return walk(tree, 1)


def _is_redundant(node: ast.AST) -> bool:
    """Whether the AST node `node` (such as an assertion) can be removed or changed without an effect on a correct
    program.
    """
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.keyword(arg="strict"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Call(func=ast.Attribute(attr="reshape"), args=[ast.UnaryOp(op=ast.USub())]):
            return True
        case _:
            return False


def readers_of(source: str, statement: int) -> list[int]:
    """Numbers, from 1, of the lines of the text `source` that read a name set by the statement at line `statement`;
    empty if no assignment begins there.
    """
    tree = ast.parse(source)
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno == statement:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {
                part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)
            }
    return sorted(
        {
            node.lineno
            for node in ast.walk(tree)
            if (isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load))
            or (isinstance(node, ast.Attribute) and node.attr in names)
        }
    )


def _changes(node: ast.AST, lines: Sequence[str]) -> Iterator[tuple[int, int, int, str]]:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in COMPARISONS:
            yield from _between(left, right, *COMPARISONS[type(operator)], lines)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
            yield from _between(left, right, *OPERATORS[type(operator)], lines)
        case ast.BoolOp(op=operator, values=[left, right, *_]):
            old, new = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
            yield from _between(left, right, old, new, lines)
        case ast.UnaryOp(op=ast.Not(), operand=operand) if operand.lineno == node.lineno:
            yield node.lineno, *_columns(lines, node.lineno, node.col_offset, operand.col_offset), ""
        case ast.Constant(value=bool(value)):
            yield _replaced(node, lines, str(not value))
        case ast.Constant(value=int(value)) if value < 1 << 31:
            yield _replaced(node, lines, str(value + 1))
        case ast.Call(func=ast.Name(id=name) as function) if name in CALLS:
            yield _replaced(function, lines, CALLS[name])
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if (
            test.lineno == test.end_lineno
        ):
            if not isinstance(test, ast.UnaryOp | ast.NamedExpr):
                assert test.end_col_offset is not None
                start, end = _columns(lines, test.lineno, test.col_offset, test.end_col_offset)
                yield test.lineno, start, end, f"not ({lines[test.lineno - 1][start:end]})"


def _replaced(node: ast.expr, lines: Sequence[str], text: str) -> tuple[int, int, int, str]:
    assert node.end_col_offset is not None
    return node.lineno, *_columns(lines, node.lineno, node.col_offset, node.end_col_offset), text


def _between(
    left: ast.expr, right: ast.expr, old: str, new: str, lines: Sequence[str]
) -> Iterator[tuple[int, int, int, str]]:
    """Yields the mutation that replaces the operator `old` between two operands on one line by `new`: (line, start
    column, end column, `new`).
    """
    if left.end_lineno != right.lineno or left.end_col_offset is None:
        return
    start, end = _columns(lines, right.lineno, left.end_col_offset, right.col_offset)
    column = lines[right.lineno - 1][:end].find(old, start)
    if column >= 0:
        yield right.lineno, column, column + len(old), new


def _columns(lines: Sequence[str], line: int, start: int, end: int) -> tuple[int, int]:
    """Converts start and end columns of line number `line`, from 1, from bytes as `ast` counts them to characters."""
    data = lines[line - 1].encode()
    return len(data[:start].decode()), len(data[:end].decode())
