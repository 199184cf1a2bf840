"""Reads the nodes of a program's JSON document (format: `program_json`), each checked against the nodes before it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import ml_dtypes

from vdla.util.errors import UserError

from .expr import OPERATORS, Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var
from .stmt import LOOP_KINDS, Alloc, Assign, Copy, For, Reduce, Region, Seq, Stmt
from .types import DType

MOST_NODES = 1 << 14
"""Largest number of nodes in a document, and in the program's tree, where a node counts once for each use."""
MOST_DEPTH = 96
"""Largest depth of a tree that is read; analyses recurse a few calls for each level, and Python allows a thousand."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}")
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_GREATEST = {d: float(ml_dtypes.finfo(d.numpy).max) for d in DType if d.is_float}
_OPS = ("add", "max")


class ProgramFormatError(UserError):
    """Raised for a document that is no program; the message names the node."""


def read_nodes(buffers: Sequence[Buffer], described: Sequence[Any]) -> list[Expr | Region | Stmt]:
    """The nodes made from their descriptions `described`, in the same order. `buffers`: the buffers to which the
    descriptions refer by index. Raises ProgramFormatError.
    """
    reader = _Reader(buffers)
    for node in described:
        reader.read(node)
    return reader.nodes


class _Reader:
    """Makes nodes from their descriptions, each checked against the nodes read before."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = buffers
        self.nodes: list[Expr | Region | Stmt] = []
        self.sizes: list[int] = []
        self.depths: list[int] = []
        self.used: list[int] = []

    def read(self, described: Any) -> None:
        """Makes the next node from its description and adds it to `nodes`. Raises ProgramFormatError."""
        if type(described) is not list or not described or type(described[0]) is not str:
            raise self.wrong("must be a list that begins with a word")
        word, *rest = described
        make = _NODES.get(word)
        if make is None and word not in OPERATORS:
            raise self.wrong(f"there is no node {short(word)}")
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
        """The arguments `rest` of a node, after a check of their number: `least` names the required arguments; `more`
        allows further ones. Raises ProgramFormatError for a wrong number.
        """
        if len(rest) < len(least) or (len(rest) > len(least) and not more):
            raise self.wrong(
                f"must have {', '.join(least)}{' and more' if more else ''} after its first word"
            )
        return rest

    def word(self, value: Any, words: Sequence[str]) -> Any:
        if type(value) is not str or value not in words:
            raise self.wrong(f"{short(value)} must be one of {', '.join(words)}")
        return value

    def name(self, value: Any) -> str:
        return checked_name(f"nodes[{len(self.nodes)}]: a name", value)

    def dtype(self, value: Any) -> DType:
        return DType(self.word(value, list(DType)))

    def buffer(self, value: Any) -> Buffer:
        if type(value) is not int or not 0 <= value < len(self.buffers):
            raise self.wrong(
                f"{short(value)} is not the number of a buffer; it must be 0 to {len(self.buffers) - 1}"
            )
        return self.buffers[value]

    def child(self, value: Any, kinds: tuple[type, ...], description: str) -> Any:
        if type(value) is not int or not 0 <= value < len(self.nodes):
            raise self.wrong(f"{short(value)} is not the number of an earlier node")
        if not isinstance(self.nodes[value], kinds):
            raise self.wrong(f"node {value} must be {description}")
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
            raise self.wrong(f"{short(value)} is not a value of {dtype}")
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
            raise self.wrong(f"a region of {buffer.name} must have {rank} starts and {rank} extents")
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


def checked_name(where: str, value: Any) -> str:
    """`value`, if it is a valid name (letters, digits, `_` and `.`). Raises ProgramFormatError; `where` is the place in
    messages.
    """
    if type(value) is not str or _NAME.fullmatch(value) is None:
        raise ProgramFormatError(f"{where} is {short(value)}, but must consist of letters, digits, _ and .")
    return value


def short(value: Any) -> str:
    """The `repr` of a value for a message, cut to 60 characters."""
    try:
        text = repr(value)
    except RecursionError:
        return "nested too deeply"
    return text if len(text) <= 60 else f"{text[:57]}..."
