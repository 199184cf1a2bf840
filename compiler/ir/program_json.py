"""Programs as JSON and back, so that a workload may be a program. Documents are checked strictly when they are read,
since they may come from elsewhere.

    {"name": "scale", "parameters": 2, "buffers": [["X", "float32", "dram", 8], ["Y", "float32", "dram", 8]],
     "nodes": [["const", "int64", 8], ["var", "i"], ["load", 0, 1], ["const", "float32", 2.0], ["*", 2, 3],
               ["assign", "scale", 1, 4, 1], ["for", "i", "serial", 0, 5]]}

A node is a word and its arguments: names, indices in `buffers`, indices of earlier nodes. Equal expressions are one
node, the last node is the body. A document is therefore flat, however deep the program is, and each program has exactly
one document. A program with intrinsics or asynchronous copies, which no tensor expression has, cannot be written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from .expr import Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var
from .node_reader import MOST_NODES, ProgramFormatError, checked_name, read_nodes, short
from .stmt import Alloc, Assign, Copy, For, Program, Reduce, Region, Seq, Stmt
from .types import DType
from .verify import VerifyError, verify

MOST_BUFFERS, MOST_RANK = 256, 16
MOST_SIZE, MOST_ELEMENTS = 1 << 24, 1 << 31
"""Largest number of elements along one dimension, and in all, of a buffer in a JSON document."""


def program_to_dict(program: Program) -> dict[str, Any]:
    """The program as a JSON object, from which `program_from_dict` makes an equal program.

    Raises ValueError for statements that no tensor expression has.
    """
    return _Writer(program).document


def program_from_dict(values: Any) -> Program:
    """The program of a JSON object, verified. Raises ProgramFormatError, which names the node at fault, for an invalid
    object.
    """
    document = _fields(values)
    buffers = _buffers(document["buffers"])
    count = document["parameters"]
    if type(count) is not int or not 0 < count <= len(buffers):
        raise ProgramFormatError(
            f"parameters is {short(count)}, but must be 1 to {len(buffers)} (there are {len(buffers)} buffers)"
        )
    nodes = document["nodes"]
    if type(nodes) is not list or not 0 < len(nodes) <= MOST_NODES:
        raise ProgramFormatError(f"nodes is {_length(nodes)}, but must be a list of 1 to {MOST_NODES} nodes")
    match read_nodes(buffers, nodes)[-1]:
        case Const() | Var() | Binary() | Cast() | Select() | Load() | Call() | Region():
            raise ProgramFormatError(
                f"the last node is {short(nodes[-1])}, but must be a statement, the program's body"
            )
        case body:
            pass
    program = Program(
        name=checked_name("name", document["name"]), parameters=tuple(buffers[:count]), body=body
    )
    try:
        verify(program)
    except VerifyError as error:
        raise ProgramFormatError(f"is not a valid program: {error}") from None
    # Unused nodes, repeated equal nodes or another order of buffers are refused: a program has exactly one document.
    written = program_to_dict(program)
    for field in ("buffers", "nodes"):
        pairs = zip_longest(document[field], written[field], fillvalue=_NOTHING)
        for k, (found, expected) in enumerate(pairs):
            if repr(found) != repr(expected):
                raise ProgramFormatError(
                    f"{field}[{k}] is {short(found)}, but `program_to_dict` writes {short(expected)} there for the "
                    "same program; write the program with it"
                )
    return program


class _Nothing:
    """The element that a list lacks, for error messages."""

    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


_FIELDS = ("name", "parameters", "buffers", "nodes")


class _Writer:
    """Encodes a program as a JSON document: numbers buffers and nodes in the order of a walk over the program, children
    first.
    """

    def __init__(self, program: Program) -> None:
        self.nodes: list[list[Any]] = []
        self.known: dict[str, int] = {}
        self.buffers: dict[str, int] = {}
        self.shapes: list[list[Any]] = []
        for parameter in program.parameters:
            self.declare(parameter)
        self.statement(program.body)
        self.document: dict[str, Any] = {
            "name": program.name,
            "parameters": len(program.parameters),
            "buffers": self.shapes,
            "nodes": self.nodes,
        }

    def declare(self, buffer: Buffer) -> int:
        number = self.buffers[buffer.name] = len(self.shapes)
        self.shapes.append([buffer.name, buffer.dtype.value, buffer.scope, *buffer.shape])
        return number

    def node(self, *encoded: Any) -> int:
        self.nodes.append(list(encoded))
        return len(self.nodes) - 1

    def shared(self, *encoded: Any) -> int:
        """The number of an expression's node in the document; equal expressions have one node (1, 1.0, True and -0.0
        are not equal).
        """
        key = repr(encoded)
        if key not in self.known:
            self.known[key] = self.node(*encoded)
        return self.known[key]

    def expression(self, e: Expr) -> int:
        match e:
            case Const(value=value, dtype=dtype):
                finite = isinstance(value, int) or math.isfinite(value)
                return self.shared("const", dtype.value, value if finite else str(value))
            case Var(name=name, dtype=DType.INT64):
                return self.shared("var", name)
            case Var():
                raise ValueError(f"{e.name} is not the variable of a loop around it")
            case Binary(op=op, a=a, b=b):
                return self.shared(op, self.expression(a), self.expression(b))
            case Cast(value=value, dtype=dtype):
                return self.shared("cast", dtype.value, self.expression(value))
            case Select(condition=condition, then=then, otherwise=otherwise):
                return self.shared("select", *map(self.expression, (condition, then, otherwise)))
            case Load(buffer=buffer, indices=indices):
                return self.shared("load", self.buffers[buffer.name], *map(self.expression, indices))
            case Call(function=function, arguments=arguments, dtype=dtype):
                return self.shared("call", function, dtype.value, *map(self.expression, arguments))

    def region(self, r: Region) -> int:
        ends = [*map(self.expression, r.starts), *map(self.expression, r.extents)]
        return self.shared("region", self.buffers[r.buffer.name], *ends)

    def statement(self, s: Stmt) -> int:
        match s:
            case For(var=var, extent=extent, body=body, kind=kind):
                return self.node("for", var.name, kind, self.expression(extent), self.statement(body))
            case Seq(statements=statements):
                return self.node("seq", *map(self.statement, statements))
            case Alloc(buffer=buffer, body=body):
                return self.node("alloc", self.declare(buffer), self.statement(body))
            case Assign(name=name, buffer=buffer, indices=indices, value=value):
                of = self.buffers[buffer.name]
                return self.node("assign", name, of, self.expression(value), *map(self.expression, indices))
            case Reduce(name=name, op=op, buffer=buffer, indices=indices, value=value, first=first):
                of, made = self.buffers[buffer.name], self.expression(value)
                begins = None if first is None else self.expression(first)
                return self.node("reduce", name, op, of, made, begins, *map(self.expression, indices))
            case Copy(name=name, destination=to, source=source, pad=pad, asynchronous=False):
                around = None if pad is None else self.expression(pad)
                return self.node("copy", name, self.region(to), self.region(source), around)
        raise ValueError(
            f"{type(s).__name__} cannot be written as JSON: programs of tensor expressions do not contain it"
        )


def _fields(values: Any) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise ProgramFormatError(f"is {short(values)}, but must be an object")
    if wrong := sorted(values.keys() ^ set(_FIELDS), key=str):
        field = short(wrong[0])
        raise ProgramFormatError(
            f"field {field} is missing" if wrong[0] in _FIELDS else f"{field} is not one of its fields"
        )
    return values


def _length(values: Any) -> str:
    return f"a list of {len(values)}" if type(values) is list else short(values)


def _buffers(values: Any) -> list[Buffer]:
    if type(values) is not list or not 0 < len(values) <= MOST_BUFFERS:
        raise ProgramFormatError(
            f"buffers is {_length(values)}, but must be a list of 1 to {MOST_BUFFERS} buffers"
        )
    found: list[Buffer] = []
    for k, value in enumerate(values):
        where = f"buffers[{k}]"
        if type(value) is not list or not 3 <= len(value) <= 3 + MOST_RANK:
            raise ProgramFormatError(
                f"{where} is {short(value)}, but must be a list: name, type, memory and at most {MOST_RANK} sizes"
            )
        name, dtype, scope, *shape = value
        if type(dtype) is not str or dtype not in list(DType):
            raise ProgramFormatError(f"{where}: {short(dtype)} must be one of {', '.join(DType)}")
        for size in shape:
            if type(size) is not int or not 1 <= size <= MOST_SIZE:
                raise ProgramFormatError(f"{where}: size {short(size)} must be 1 to {MOST_SIZE}")
        if math.prod(shape) > MOST_ELEMENTS:
            raise ProgramFormatError(f"{where} has more than {MOST_ELEMENTS} elements")
        found.append(
            Buffer(
                name=checked_name(f"{where}: a name", name),
                shape=tuple(shape),
                dtype=DType(dtype),
                scope=checked_name(f"{where}: a memory", scope),
            )
        )
    return found
