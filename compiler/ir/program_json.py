"""Programs as JSON and back, so that a workload may be a program: read strictly, since documents come from elsewhere.

    {"name": "scale", "parameters": 2, "buffers": [["X", "float32", "dram", 8], ["Y", "float32", "dram", 8]],
     "nodes": [["const", "int64", 8], ["var", "i"], ["load", 0, 1], ["const", "float32", 2.0], ["*", 2, 3],
               ["assign", "scale", 1, 4, 1], ["for", "i", "serial", 0, 5]]}

A node is a word and what it needs: names, positions in `buffers`, positions of earlier nodes. Equal expressions are one
node, the last node is the body. So a document is flat, however deep the program is, and a program has one document.
Only what tensor expressions are made of has a form; intrinsics and asynchronous copies have none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, get_args

import ml_dtypes
from vdla.isa.errors import UserError

from .expr import OPERATORS, Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var
from .stmt import LOOP_KINDS, Alloc, Assign, Copy, For, Program, Reduce, Region, Seq, Stmt
from .types import DType
from .verify import VerifyError, verify

MOST_NODES = 1 << 14
"""Of a document, and of the program's tree, in which a node counts as often as it is used."""
MOST_DEPTH = 96
"""Of the tree; analyses recurse a few calls for each level, and Python allows a thousand."""
MOST_BUFFERS, MOST_RANK = 256, 16
MOST_SIZE, MOST_ELEMENTS = 1 << 24, 1 << 31
"""Of a dimension and of a buffer."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}")
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_GREATEST = {d: float(ml_dtypes.finfo(d.numpy).max) for d in DType if d.is_float}
_OPS = ("add", "max")


class ProgramFormatError(UserError):
    """A document that is no program; the message says at which node."""


def program_to_dict(program: Program) -> dict[str, Any]:
    """The program as a JSON object, from which `program_from_dict` makes an equal one.

    ValueError for statements that no tensor expression has.
    """
    return _Writer(program).document


def program_from_dict(values: Any) -> Program:
    """The program of a JSON object, verified. ProgramFormatError says where it is none."""
    document = _fields(values)
    buffers = _buffers(document["buffers"])
    count = document["parameters"]
    if type(count) is not int or not 0 < count <= len(buffers):
        raise ProgramFormatError(f"parameters is {_short(count)}, must be 1 to {len(buffers)}, the buffers")
    nodes = document["nodes"]
    if type(nodes) is not list or not 0 < len(nodes) <= MOST_NODES:
        raise ProgramFormatError(f"nodes must be a list of 1 to {MOST_NODES} nodes")
    reader = _Reader(buffers)
    for node in nodes:
        reader.read(node)
    match reader.nodes[-1]:
        case Const() | Var() | Binary() | Cast() | Select() | Load() | Call() | Region():
            raise ProgramFormatError("the last node must be a statement, the program's body")
        case body:
            pass
    program = Program(name=_name("name", document["name"]), parameters=tuple(buffers[:count]), body=body)
    try:
        verify(program)
    except VerifyError as error:
        raise ProgramFormatError(f"is no valid program: {error}") from None
    # Nodes that nothing uses, equal ones, buffers in another order: a program has one document.
    if repr(program_to_dict(program)) != repr({name: document[name] for name in _FIELDS}):
        raise ProgramFormatError("is not in the form in which programs are written")
    return program


_FIELDS = ("name", "parameters", "buffers", "nodes")
_Encoded: TypeAlias = tuple[Any, ...]


class _Writer:
    """Numbers buffers and nodes in the order in which they are met, children first."""

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
        """The node of an expression: one for all that are equal (1, 1.0, True and -0.0 are not)."""
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
                raise ValueError(f"{e.name} is the variable of no loop")
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
        raise ValueError(f"{type(s).__name__} has no form in JSON: no tensor expression has such a statement")


class _Reader:
    """Makes nodes of their descriptions, each checked against what was read before."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = buffers
        self.nodes: list[Expr | Region | Stmt] = []
        self.sizes: list[int] = []
        self.depths: list[int] = []
        self.used: list[int] = []

    def read(self, described: Any) -> None:
        """Reads the next node. Raises ProgramFormatError."""
        if type(described) is not list or not described or type(described[0]) is not str:
            raise self.wrong("must be a list that begins with a word")
        word, *rest = described
        make = _NODES.get(word)
        if make is None and word not in OPERATORS:
            raise self.wrong(f"there is no node {_short(word)}")
        self.used = []
        node = self.binary(word, rest) if make is None else make(self, rest)
        size = 1 + sum(self.sizes[k] for k in self.used)
        depth = 1 + max((self.depths[k] for k in self.used), default=0)
        if size > MOST_NODES:
            raise self.wrong(f"the tree has more than {MOST_NODES} nodes")
        if depth > MOST_DEPTH:
            raise self.wrong(f"the tree is more than {MOST_DEPTH} levels deep")
        self.nodes.append(node)
        self.sizes.append(size)
        self.depths.append(depth)

    def wrong(self, reason: str) -> ProgramFormatError:
        return ProgramFormatError(f"nodes[{len(self.nodes)}]: {reason}")

    def take(self, rest: list[Any], *least: str, more: bool = False) -> list[Any]:
        """The items of a node, of which `least` are named and more may follow."""
        if len(rest) < len(least) or (len(rest) > len(least) and not more):
            raise self.wrong(f"must have {', '.join(least)}{' and more' if more else ''} behind its word")
        return rest

    def word(self, value: Any, words: Sequence[str]) -> Any:
        if type(value) is not str or value not in words:
            raise self.wrong(f"{_short(value)} must be one of {', '.join(words)}")
        return value

    def name(self, value: Any) -> str:
        return _name(f"nodes[{len(self.nodes)}]: a name", value)

    def dtype(self, value: Any) -> DType:
        return DType(self.word(value, list(DType)))

    def buffer(self, value: Any) -> Buffer:
        if type(value) is not int or not 0 <= value < len(self.buffers):
            raise self.wrong(f"{_short(value)} is no buffer, must be 0 to {len(self.buffers) - 1}")
        return self.buffers[value]

    def child(self, value: Any, kinds: tuple[type, ...], what: str) -> Any:
        if type(value) is not int or not 0 <= value < len(self.nodes):
            raise self.wrong(f"{_short(value)} is no earlier node")
        if not isinstance(self.nodes[value], kinds):
            raise self.wrong(f"node {value} must be {what}")
        self.used.append(value)
        return self.nodes[value]

    def expression(self, value: Any) -> Any:
        return self.child(value, get_args(Expr), "an expression")

    def expressions(self, values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([self.expression(value) for value in values])

    def statement(self, value: Any) -> Any:
        return self.child(value, get_args(Stmt), "a statement")

    def const(self, rest: list[Any]) -> Const:
        kind, value = self.take(rest, "a type", "a value")
        dtype = self.dtype(kind)
        if dtype.is_float:
            if type(value) is str and value in _SPECIAL:
                return Const(_SPECIAL[value], dtype)
            fits = type(value) is float and abs(value) <= _GREATEST[dtype]
            fits = fits and float(dtype.numpy.type(value)) == value
        elif dtype is DType.BOOL:
            fits = type(value) is bool
        else:
            fits = type(value) is int and dtype.limits[0] <= value <= dtype.limits[1]
        if not fits or isinstance(value, str):
            raise self.wrong(f"{_short(value)} is no value of {dtype}")
        return Const(value, dtype)

    def variable(self, rest: list[Any]) -> Var:
        (name,) = self.take(rest, "a name")
        return Var(self.name(name))

    def binary(self, word: Any, rest: list[Any]) -> Binary:
        a, b = self.take(rest, "two operands", "both nodes")
        return Binary(word, self.expression(a), self.expression(b))

    def cast(self, rest: list[Any]) -> Cast:
        kind, value = self.take(rest, "a type", "a value")
        return Cast(self.expression(value), self.dtype(kind))

    def select(self, rest: list[Any]) -> Select:
        self.take(rest, "a condition", "a value", "another one")
        return Select(*self.expressions(rest))

    def load(self, rest: list[Any]) -> Load:
        buffer, *indices = self.take(rest, "a buffer", more=True)
        return Load(self.buffer(buffer), self.expressions(indices))

    def call(self, rest: list[Any]) -> Call:
        function, kind, *arguments = self.take(rest, "a function", "a type", more=True)
        return Call(self.name(function), self.expressions(arguments), self.dtype(kind))

    def region(self, rest: list[Any]) -> Region:
        of, *ends = self.take(rest, "a buffer", more=True)
        buffer = self.buffer(of)
        rank = len(buffer.shape)
        if len(ends) != 2 * rank:
            raise self.wrong(f"a box of {buffer.name} has {rank} starts and {rank} extents")
        found = self.expressions(ends)
        return Region(buffer=buffer, starts=found[:rank], extents=found[rank:])

    def loop(self, rest: list[Any]) -> For:
        name, kind, extent, body = self.take(rest, "a name", "a kind", "an extent", "a body")
        return For(
            var=Var(self.name(name)),
            kind=self.word(kind, LOOP_KINDS),
            extent=self.expression(extent),
            body=self.statement(body),
        )

    def sequence(self, rest: list[Any]) -> Seq:
        return Seq(statements=tuple([self.statement(value) for value in rest]))

    def allocation(self, rest: list[Any]) -> Alloc:
        buffer, body = self.take(rest, "a buffer", "a body")
        return Alloc(buffer=self.buffer(buffer), body=self.statement(body))

    def assignment(self, rest: list[Any]) -> Assign:
        name, buffer, value, *indices = self.take(rest, "a name", "a buffer", "a value", more=True)
        return Assign(
            name=self.name(name),
            buffer=self.buffer(buffer),
            value=self.expression(value),
            indices=self.expressions(indices),
        )

    def reduction(self, rest: list[Any]) -> Reduce:
        named = ("a name", "an operator", "a buffer", "a value", "a condition or null")
        name, op, buffer, value, first, *indices = self.take(rest, *named, more=True)
        return Reduce(
            name=self.name(name),
            op=self.word(op, _OPS),
            buffer=self.buffer(buffer),
            value=self.expression(value),
            first=None if first is None else self.expression(first),
            indices=self.expressions(indices),
        )

    def copy(self, rest: list[Any]) -> Copy:
        name, to, source, pad = self.take(rest, "a name", "a box", "another one", "a constant or null")
        return Copy(
            name=self.name(name),
            destination=self.child(to, (Region,), "a box"),
            source=self.child(source, (Region,), "a box"),
            pad=None if pad is None else self.child(pad, (Const,), "a constant"),
        )


_NODES: Mapping[str, Callable[[_Reader, list[Any]], Expr | Region | Stmt]] = {
    "const": _Reader.const,
    "var": _Reader.variable,
    "cast": _Reader.cast,
    "select": _Reader.select,
    "load": _Reader.load,
    "call": _Reader.call,
    "region": _Reader.region,
    "for": _Reader.loop,
    "seq": _Reader.sequence,
    "alloc": _Reader.allocation,
    "assign": _Reader.assignment,
    "reduce": _Reader.reduction,
    "copy": _Reader.copy,
}


def _fields(values: Any) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise ProgramFormatError(f"is {_short(values)}, must be an object")
    if wrong := sorted(values.keys() ^ set(_FIELDS), key=str):
        what = "is missing" if wrong[0] in _FIELDS else "is none of its fields"
        raise ProgramFormatError(f"{_short(wrong[0])} {what}")
    return values


def _buffers(values: Any) -> list[Buffer]:
    if type(values) is not list or not 0 < len(values) <= MOST_BUFFERS:
        raise ProgramFormatError(f"buffers must be a list of 1 to {MOST_BUFFERS} buffers")
    found: list[Buffer] = []
    for k, value in enumerate(values):
        where = f"buffers[{k}]"
        if type(value) is not list or not 3 <= len(value) <= 3 + MOST_RANK:
            raise ProgramFormatError(
                f"{where} must be a list: name, type, memory and at most {MOST_RANK} sizes"
            )
        name, dtype, scope, *shape = value
        if type(dtype) is not str or dtype not in list(DType):
            raise ProgramFormatError(f"{where}: {_short(dtype)} must be one of {', '.join(DType)}")
        for size in shape:
            if type(size) is not int or not 1 <= size <= MOST_SIZE:
                raise ProgramFormatError(f"{where}: size {_short(size)} must be 1 to {MOST_SIZE}")
        if math.prod(shape) > MOST_ELEMENTS:
            raise ProgramFormatError(f"{where} has more than {MOST_ELEMENTS} elements")
        found.append(
            Buffer(
                name=_name(f"{where}: a name", name),
                shape=tuple(shape),
                dtype=DType(dtype),
                scope=_name(f"{where}: a memory", scope),
            )
        )
    return found


def _name(where: str, value: Any) -> str:
    if type(value) is not str or _NAME.fullmatch(value) is None:
        raise ProgramFormatError(f"{where} is {_short(value)}, must be letters, digits, _ and .")
    return value


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except RecursionError:
        return "nested too deeply"
    return text if len(text) <= 60 else f"{text[:57]}..."
