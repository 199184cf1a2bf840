"""Vectorized loops of a thread: neighbouring elements of memory in one access, the arithmetic an unrolled loop."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from ...ir.affine import LinearForm
from ...ir.bounds import Interval
from ...ir.expr import Binary, Buffer, Expr, Load, Select, Var
from ...ir.stmt import Assign, For, Seq, Stmt
from ...ir.types import DType
from ...ir.visit import free_vars, loads_in, map_expr, map_expressions, operands
from .storage import Storage
from .text import TYPES

if TYPE_CHECKING:
    from .statements import KernelEmitter


def vectorized(kernel: KernelEmitter, loop: For, count: int) -> bool:
    """Emits a vectorized loop of `count` iterations, with one access for all iterations where that is possible.

    That is: the body is a sequence of assignments, the access is to device or shared memory, its elements are
    neighbours that begin at a multiple of `count`, and no condition guards it. False, and nothing emitted, where no
    access is so.
    """
    body = loop.body.statements if isinstance(loop.body, Seq) else (loop.body,)
    assigns = [s for s in body if isinstance(s, Assign)]
    if len(assigns) < len(body) or count < 2:
        return False
    values = kernel.values
    saved = dict(values.ranges), dict(values.variables)
    values.ranges[loop.name] = Interval(0, count - 1)
    vectors = _Vectors(kernel, loop.var, count, assigns)
    found = vectors.find()
    values.ranges, values.variables = saved
    if not found:
        return False
    with kernel.source.block():
        vectors.load()
        statements: list[Stmt] = [vectors.rewritten(s) for s in assigns]
        inside = Seq(statements=tuple(statements)) if len(statements) > 1 else statements[0]
        kernel.loop(For(var=loop.var, extent=loop.extent, body=inside, kind="unroll"), kernel.thread_level)
        vectors.store()
    return True


class _Vectors:
    """The accesses of one loop that become vectors."""

    def __init__(self, kernel: KernelEmitter, var: Var, count: int, assigns: list[Assign]) -> None:
        self.kernel, self.values = kernel, kernel.values
        self.var, self.count, self.assigns = var, count, assigns
        self.loads: dict[tuple[str, tuple[Expr, ...]], tuple[Load, Buffer]] = {}
        self.stores: dict[int, tuple[Assign, Buffer]] = {}

    def find(self) -> bool:
        """Which accesses may be vectors; whether any is."""
        written = [s.buffer.name for s in self.assigns]
        for assign in self.assigns:
            for expr in (*assign.indices, assign.value):
                self.find_loads(expr, set(written))
            if written.count(assign.buffer.name) == 1 and self.neighbours(assign.buffer, assign.indices):
                self.stores[id(assign)] = assign, self.vector_of(assign.buffer)
        # What a vector would hold until the end must not be read before.
        read = {load.buffer.name for s in self.assigns for e in (*s.indices, s.value) for load in loads_in(e)}
        self.stores = {
            key: (assign, own) for key, (assign, own) in self.stores.items() if assign.buffer.name not in read
        }
        return bool(self.loads or self.stores)

    def find_loads(self, expr: Expr, written: set[str]) -> None:
        """The loads of an expression that run in any case."""
        match expr:
            case Select(condition=condition):
                self.find_loads(condition, written)
                return
            case Binary(op="and" | "or", a=a):
                self.find_loads(a, written)
                return
            case Load(buffer=buffer, indices=indices):
                key = (buffer.name, indices)
                if key not in self.loads and buffer.name not in written and self.neighbours(buffer, indices):
                    self.loads[key] = expr, self.vector_of(buffer)
        for operand in operands(expr):
            self.find_loads(operand, written)

    def neighbours(self, buffer: Buffer, indices: tuple[Expr, ...]) -> bool:
        """Whether an access takes elements side by side from a multiple of `count` on, as many as the hardware does."""
        storage = self.values.storages[buffer.name]
        if storage.space == "register" or buffer.dtype is DType.BOOL:
            return False
        form = self.values.offset(buffer, indices)
        if form.terms.get(self.var) != 1:
            return False
        rest = form.without(next(a for a in form.terms if a == self.var))
        if any(self.var.name in free_vars(atom) for atom in rest.terms):
            return False
        aligned = gcd(rest.constant, *rest.terms.values()) % self.count == 0
        return aligned and storage.vector_elements(LinearForm({}, 0), self.count) == self.count

    def vector_of(self, buffer: Buffer) -> Buffer:
        name = self.kernel.fresh(buffer.name)
        return Buffer(name=name, shape=(self.count,), dtype=buffer.dtype, scope="register")

    def load(self) -> None:
        """Loads all vectors, and makes room for those to store."""
        for load, own in self.loads.values():
            vector = self.declare(own)
            pointer = self.first(load.buffer, load.indices)
            name = self.values.storages[own.name].name.removesuffix(".at")
            self.kernel.source.line(f"const {vector} {name} = *(const {vector}*){pointer};")
        for _, own in self.stores.values():
            vector = self.declare(own)
            name = self.values.storages[own.name].name.removesuffix(".at")
            self.kernel.source.line(f"{vector} {name};")

    def store(self) -> None:
        """Stores the vectors."""
        for assign, own in self.stores.values():
            vector = f"Vector<{TYPES[own.dtype]}, {self.count}>"
            name = self.values.storages[own.name].name.removesuffix(".at")
            self.kernel.source.line(f"*({vector}*){self.first(assign.buffer, assign.indices)} = {name};")

    def declare(self, own: Buffer) -> str:
        name = self.kernel.names.make(f"{own.name.partition(chr(39))[0]}.vector")
        self.values.used.add("Vector")
        self.values.storages[own.name] = Storage(
            buffer=own, name=f"{name}.at", strides=(1,), elements=self.count, space="register", alignment=16
        )
        return f"Vector<{TYPES[own.dtype]}, {self.count}>"

    def first(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """The address of the first iteration's element."""
        saved = dict(self.values.ranges)
        self.values.ranges[self.var.name] = Interval(0, 0)
        pointer = self.values.pointer(buffer, self.values.offset(buffer, indices))
        self.values.ranges = saved
        return pointer

    def rewritten(self, assign: Assign) -> Stmt:
        """An assignment from and to vectors."""

        def swap(expr: Expr) -> Expr:
            if isinstance(expr, Load) and (found := self.loads.get((expr.buffer.name, expr.indices))):
                return Load(found[1], (self.var,))
            return expr

        held = self.stores.get(id(assign))
        result = map_expressions(assign, lambda e: map_expr(e, swap))
        if held is None or not isinstance(result, Assign):
            return result
        return Assign(name=result.name, buffer=held[1], indices=(self.var,), value=result.value)
