"""The one printed form of the IR, for goldens, pass dumps and error messages.

def conv(A: int8[8, 8] @ dram, C: int32[6, 6] @ dram):
    alloc T: int8[3, 8] @ inp
    for y in range(6):
        for k in unroll(3):
            load: copy T[0:3, 0:8] = A[y:y + 3, 0:8] pad 0 async
            sum: C[y, 0] += int32(T[k, 0]) first k == 0
"""

from __future__ import annotations

from vdla.util.printable import printable

from .expr import Binary, Buffer, Const, Expr, binary
from .expression_printer import format_access, format_expr
from .stmt import (
    Alloc,
    Assign,
    Barrier,
    Commit,
    Copy,
    For,
    Intrinsic,
    IntrinsicDeclaration,
    Node,
    Program,
    Reduce,
    Region,
    Seq,
    Wait,
)

_INDENT = "    "


def format_buffer(buffer: Buffer) -> str:
    """A buffer's declaration, `A: int8[8, 8] @ dram`."""
    return f"{buffer.name}: {buffer.dtype}[{', '.join(map(str, buffer.shape))}] @ {buffer.scope}"


def format_region(region: Region) -> str:
    """A region, `A[i:i + 4, 0:16, j]`: a plain index where the extent is 1."""
    parts: list[str] = []
    for start, extent in zip(region.starts, region.extents, strict=True):
        if isinstance(extent, Const) and extent.value == 1:
            parts.append(format_expr(start))
        else:
            parts.append(f"{format_expr(start)}:{format_expr(_end(start, extent))}")
    return f"{region.buffer.name}[{', '.join(parts)}]"


def format_node(node: Node | IntrinsicDeclaration) -> str:
    """A program, statement or intrinsic declaration, one line a statement, with a final newline."""
    return "".join(f"{line}\n" for line, _, _ in _lines(node))


def summarize(node: Node) -> str:
    """The first line of a statement or program, for messages."""
    match node:
        case For(var=var, extent=extent, kind=kind):
            # Without the body, which is not needed to name a loop.
            node = For(var=var, extent=extent, body=Seq(statements=()), kind=kind)
        case Alloc(buffer=buffer):
            return f"alloc {format_buffer(buffer)}"
    return _lines(node)[0][0].strip().rstrip(":")


def underline(node: Node, name: str) -> str:
    """The text of `node`, with ^^^ below the name of every loop or statement called `name`."""
    out: list[str] = []
    for line, owner, column in _lines(node):
        out.append(line)
        if owner == name:
            width = len(name) if line[column : column + len(name)] == name else len(line) - column
            out.append(" " * column + "^" * width)
    return "".join(f"{line}\n" for line in out)


def _end(start: Expr, extent: Expr) -> Expr:
    """start + extent as an expression in which constants are added up: the printed region is then `y - 1:y + 2`, not `y
    - 1:y - 1 + 3`.
    """
    if isinstance(extent, Const):
        match start:
            case Binary(op="+", a=a, b=Const(value=value)):
                return binary("+", a, int(value + extent.value))
            case Binary(op="-", a=a, b=Const(value=value)):
                rest = int(extent.value - value)
                return binary("+", a, rest) if rest >= 0 else binary("-", a, -rest)
    return binary("+", start, extent)


def _lines(node: Node | IntrinsicDeclaration) -> list[tuple[str, str, int]]:
    """For every printed line: (text, name of the loop or statement, column of this name)."""
    lines: list[tuple[str, str, int]] = []

    def put(depth: int, text: str, owner: str = "", column: int = 0) -> None:
        lines.append((_INDENT * depth + printable(text, None), owner, len(_INDENT) * depth + column))

    def visit(statement: Node, depth: int) -> None:
        match statement:
            case For(var=var, extent=extent, body=body, kind=kind):
                head = "range" if kind == "serial" else kind
                put(depth, f"for {var.name} in {head}({format_expr(extent)}):", var.name, len("for "))
                visit(body, depth + 1)
            case Seq(statements=statements):
                for inner in statements:
                    visit(inner, depth)
                if not statements:
                    put(depth, "pass")
            case Alloc(buffer=buffer, body=body):
                put(depth, f"alloc {format_buffer(buffer)}")
                visit(body, depth)
            case Assign(name=name, buffer=buffer, indices=indices, value=value):
                put(depth, f"{name}: {format_access(buffer, indices)} = {format_expr(value)}", name)
            case Reduce(name=name, op=op, buffer=buffer, indices=indices, value=value, first=first):
                symbol = "+=" if op == "add" else "max="
                text = f"{name}: {format_access(buffer, indices)} {symbol} {format_expr(value)}"
                put(depth, text + _first(first), name)
            case Copy(name=name, destination=destination, source=source, pad=pad, asynchronous=asynchronous):
                text = f"{name}: copy {format_region(destination)} = {format_region(source)}"
                text += "" if pad is None else f" pad {pad.value}"
                put(depth, text + (" async" if asynchronous else ""), name)
            case Intrinsic(
                name=name, declaration=declaration, operands=operands, first=first, attributes=attributes
            ):
                text = f"{name}: {declaration.name}({', '.join(map(format_region, operands))})" + _first(
                    first
                )
                text += "" if statement.pad is None else f" pad {statement.pad.value}"
                text += "".join(f" {key}={value}" for key, value in attributes)
                put(depth, text, name)
            case Commit():
                put(depth, "commit")
            case Wait(pending=pending):
                put(depth, f"wait {pending}")
            case Barrier():
                put(depth, "barrier")
            case Program():
                declare("def", statement.name, statement.parameters, depth)
                visit(statement.body, depth + 1)

    def declare(word: str, name: str, parameters: tuple[Buffer, ...], depth: int) -> None:
        put(depth, f"{word} {name}({', '.join(map(format_buffer, parameters))}):")

    if isinstance(node, IntrinsicDeclaration):
        declare("intrinsic", node.name, node.parameters, 0)
        visit(node.body, 1)
    else:
        visit(node, 0)
    return lines


def _first(first: Expr | None) -> str:
    return "" if first is None else f" first {format_expr(first)}"
