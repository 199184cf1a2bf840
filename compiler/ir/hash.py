"""Structural hashes and equality, the same on any machine and in any process.

With `alpha`, names are ignored: loop variables and buffers are numbered by first appearance, and statement
and program names left out. So two candidates that differ only in names have equal hashes.
"""

from __future__ import annotations

from hashlib import blake2b

from .expr import Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var
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


def structural_hash(node: Node, *, alpha: bool = False) -> str:
    """16 hexadecimal digits that depend only on the structure and, without `alpha`, on names."""
    return blake2b(repr(_serialize(node, alpha)).encode(), digest_size=8).hexdigest()


def _serialize(node: Node, alpha: bool) -> list[object]:
    """The tree in prefix order; a node begins with its kind and, for kinds with a varying number of children, that
    number. With `alpha`, names are numbered or left out.
    """
    out: list[object] = []
    variables: dict[str, str] = {}
    buffers: dict[str, str] = {}
    declarations: dict[str, IntrinsicDeclaration] = {}

    def name(text: str) -> str:
        return "" if alpha else text

    def buffer(b: Buffer) -> str:
        return buffers.setdefault(b.name, f"#{len(buffers)}") if alpha else b.name

    def declare(b: Buffer) -> None:
        if alpha:
            buffers[b.name] = f"#{len(buffers)}"
        out.extend((buffer(b), b.shape, b.dtype.value, b.scope))

    def region(r: Region) -> None:
        out.extend((buffer(r.buffer), len(r.starts)))
        exprs(r.starts)
        exprs(r.extents)

    def exprs(items: tuple[Expr, ...]) -> None:
        for e in items:
            expr(e)

    def optional(e: Expr | None) -> None:
        if e is None:
            out.append(None)
        else:
            expr(e)

    def expr(e: Expr) -> None:
        match e:
            case Const(value=value, dtype=dtype):
                out.extend(("const", value, dtype.value))
            case Var():
                out.extend(("var", variables.get(e.name, e.name) if alpha else e.name))
            case Binary(op=op, a=a, b=b):
                out.append(op)
                expr(a)
                expr(b)
            case Load(indices=indices):
                out.extend(("load", buffer(e.buffer), len(indices)))
                exprs(indices)
            case Cast(value=value, dtype=dtype):
                out.extend(("cast", dtype.value))
                expr(value)
            case Select(condition=condition, then=then, otherwise=otherwise):
                out.append("select")
                exprs((condition, then, otherwise))
            case Call(function=function, arguments=arguments, dtype=dtype):
                out.extend(("call", function, dtype.value, len(arguments)))
                exprs(arguments)

    def stmt(s: Node) -> None:
        match s:
            case For(var=var, extent=extent, body=body, kind=kind):
                out.extend(("for", kind))
                expr(extent)
                outer = variables.get(var.name)
                variables[var.name] = f"${len(variables)}" if outer is None else outer + "'"
                out.append(variables[var.name] if alpha else var.name)
                stmt(body)
            case Seq(statements=statements):
                out.extend(("seq", len(statements)))
                for inner in statements:
                    stmt(inner)
            case Alloc(body=body):
                out.append("alloc")
                declare(s.buffer)
                stmt(body)
            case Assign(indices=indices, value=value):
                out.extend(("assign", name(s.name), buffer(s.buffer), len(indices)))
                exprs((*indices, value))
            case Reduce(op=op, indices=indices, value=value, first=first):
                out.extend(("reduce", name(s.name), op, buffer(s.buffer), len(indices)))
                exprs((*indices, value))
                optional(first)
            case Copy(destination=destination, source=source, pad=pad, asynchronous=asynchronous):
                out.extend(("copy", name(s.name), asynchronous))
                region(destination)
                region(source)
                optional(pad)
            case Intrinsic(declaration=declaration, operands=operands, first=first, attributes=attributes):
                out.extend(("intrinsic", name(s.name), declaration.name, len(operands), attributes))
                if declarations.get(declaration.name) is not declaration:
                    declarations[declaration.name] = declaration
                    out.append(_serialize(_as_program(declaration), alpha))
                    out.extend(declaration.code)
                for r in operands:
                    region(r)
                optional(first)
                if s.pad is not None:
                    out.append("pad")
                    expr(s.pad)
            case Commit():
                out.append("commit")
            case Wait(pending=pending):
                out.extend(("wait", pending))
            case Barrier():
                out.append("barrier")
            case Program(parameters=parameters, body=body):
                out.extend(("program", name(s.name), len(parameters)))
                for parameter in parameters:
                    declare(parameter)
                stmt(body)

    stmt(node)
    return out


def _as_program(declaration: IntrinsicDeclaration) -> Program:
    return Program(name=declaration.name, parameters=declaration.parameters, body=declaration.body)
