"""Emits vectorized loops of a thread. One memory access reads or writes the adjacent elements of all iterations; the
arithmetic is emitted as an unrolled loop.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from ...ir.affine import LinearForm
from ...ir.bounds import Interval
from ...ir.expr import Binary, Buffer, Const, Expr, Load, Select, Var
from ...ir.simplify import simplify
from ...ir.stmt import Alloc, Assign, For, Reduce, Seq, Stmt
from ...ir.types import DType
from ...ir.visit import (
    free_vars,
    loads_in,
    map_expr,
    map_expressions,
    map_stmt,
    operands,
)
from .loops import emit_loop
from .storage import Storage

if TYPE_CHECKING:
    from .statements import KernelEmitter


def vectorized(kernel: KernelEmitter, loop: For) -> bool:
    """Emits a vectorized loop of one thread, with one memory access for all iterations where possible.

    The number of iterations must be constant and at least 2, and the body must consist of assignments, sums and maxima.
    Then an access becomes one access to a vector of all iterations' elements, on four conditions: the elements are in
    device or shared memory, they are adjacent, the first element is at a multiple of the number of iterations, and no
    condition guards the access.

    Returns True if an access became a vector. Otherwise emits nothing and returns False.
    """
    extent = simplify(loop.extent, kernel.values.ranges)
    leaves = _straight(loop.body)
    if leaves is None or not isinstance(extent, Const) or extent.value < 2:
        return False
    count = int(extent.value)
    vectors = _Vectors(kernel, loop.var, count, leaves)
    with kernel.scope():
        kernel.values.ranges[loop.name] = Interval(0, count - 1)
        found = vectors.find()
    if not found:
        return False
    vectors.load()
    body = map_stmt(loop.body, vectors.rewritten)
    emit_loop(kernel, For(var=loop.var, extent=loop.extent, body=body, kind="unroll"), kernel.thread_level)
    vectors.store()
    return True


def _straight(statement: Stmt) -> list[Assign | Reduce] | None:
    """The assignments, sums and maxima of a body without loops, in order; None if it has other statements."""
    match statement:
        case Assign() | Reduce():
            return [statement]
        case Alloc(body=body):
            return _straight(body)
        case Seq(statements=statements):
            parts = [_straight(s) for s in statements]
            return None if None in parts else [leaf for part in parts for leaf in part or ()]
    return None


class _Vectors:
    """The memory accesses of one vectorized loop that become vector loads and stores."""

    def __init__(self, kernel: KernelEmitter, var: Var, count: int, leaves: list[Assign | Reduce]) -> None:
        self.kernel, self.values = kernel, kernel.values
        self.var, self.count, self.leaves = var, count, leaves
        self.loads: dict[tuple[str, tuple[Expr, ...]], tuple[Load, Buffer]] = {}
        self.stores: dict[str, tuple[Assign, Buffer]] = {}

    def find(self) -> bool:
        """Finds the accesses that can be vectors; returns whether there is one."""
        written = [leaf.buffer.name for leaf in self.leaves]
        read: set[str] = set()
        for leaf in self.leaves:
            for expr in (*leaf.indices, leaf.value):
                self.find_loads(expr, set(written))
                read |= {load.buffer.name for load in loads_in(expr)}
        for leaf in self.leaves:
            name = leaf.buffer.name
            # A vector is stored at the end, so no earlier statement may read its elements or write to them.
            alone = written.count(name) == 1 and name not in read
            if isinstance(leaf, Assign) and alone and self.neighbours(leaf.buffer, leaf.indices):
                self.stores[name] = leaf, self.vector_of(leaf.buffer)
        return bool(self.loads or self.stores)

    def find_loads(self, expr: Expr, written: set[str]) -> None:
        """Finds the loads in `expr` that are always evaluated, except loads from the buffers in `written`."""
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
        """Whether one vector instruction can make the accesses of all iterations to `buffer`. This requires that the
        iterations access adjacent elements, that the first of these elements is at a multiple of the number of
        iterations, and that the GPU has vectors of this size.
        """
        storage = self.values.storages.get(buffer.name)
        # Buffers of the body itself belong to the thread.
        if storage is None or storage.space == "register" or buffer.dtype is DType.BOOL:
            return False
        if not self.values.dialect.vector:
            return False
        form = self.values.offset(buffer, indices)
        if form.terms.get(self.var) != 1:
            return False
        rest = form.without(next(a for a in form.terms if a == self.var))
        if any(self.var.name in free_vars(atom) or loads_in(atom) for atom in rest.terms):
            return False
        aligned = gcd(rest.constant, *rest.terms.values()) % self.count == 0
        return aligned and storage.vector_elements(LinearForm({}, 0), self.count) == self.count

    def vector_of(self, buffer: Buffer) -> Buffer:
        """A register buffer for the elements of one access that becomes a vector."""
        name = self.kernel.fresh(buffer.name)
        return Buffer(name=name, shape=(self.count,), dtype=buffer.dtype, scope="register")

    def load(self) -> None:
        """Emits the loads of all vectors that the loop reads, and the declarations of the vectors that the
        loop writes.
        """
        for load, own in self.loads.values():
            vector, name = self.declare(load.buffer, own)
            pointer = self.first(load.buffer, load.indices)
            self.kernel.source.line(
                f"const {vector} {name} = *({self.pointer(load.buffer, vector, const=True)}){pointer};"
            )
        for assign, own in self.stores.values():
            vector, name = self.declare(assign.buffer, own)
            self.kernel.source.line(f"{vector} {name};")

    def store(self) -> None:
        """Emits the code behind the loop, which stores the vectors that the loop wrote."""
        for assign, own in self.stores.values():
            vector = self.type_of(own)
            name = self.values.storages[own.name].name.removesuffix(".at")
            pointer = f"({self.pointer(assign.buffer, vector)}){self.first(assign.buffer, assign.indices)}"
            self.kernel.source.line(f"*{pointer} = {name};")

    def declare(self, buffer: Buffer, own: Buffer) -> tuple[str, str]:
        """The C type and name of a vector for one access to `buffer`. Records the vector's array as the storage of
        `own`, the register buffer that replaces `buffer` in the loop's body.
        """
        name = self.kernel.names.make(f"{buffer.name}.vector")
        self.values.storages[own.name] = Storage(
            buffer=own,
            name=f"{name}.at",
            strides=(1,),
            elements=self.count,
            space="register",
            alignment=self.count * own.dtype.bits // 8,
        )
        return self.type_of(own), name

    def type_of(self, own: Buffer) -> str:
        return self.values.vector(own.dtype, self.count)

    def pointer(self, buffer: Buffer, vector: str, *, const: bool = False) -> str:
        """The type of a pointer to a vector in the memory of a buffer; `const`: the pointer is for reading only."""
        return self.values.dialect.pointer(vector, self.values.storages[buffer.name].space, const=const)

    def first(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """The address of the element that the first iteration accesses."""
        with self.kernel.scope():
            self.values.ranges[self.var.name] = Interval(0, 0)
            return self.values.pointer(buffer, self.values.offset(buffer, indices))

    def rewritten(self, statement: Stmt) -> Stmt:
        """The statement with its accesses to memory replaced by the elements of vectors."""

        def swap(expr: Expr) -> Expr:
            if isinstance(expr, Load) and (found := self.loads.get((expr.buffer.name, expr.indices))):
                return Load(found[1], (self.var,))
            return expr

        if not isinstance(statement, Assign | Reduce):
            return statement
        result = map_expressions(statement, lambda e: map_expr(e, swap))
        held = self.stores.get(statement.buffer.name)
        if held is None or not isinstance(result, Assign):
            return result
        return Assign(name=result.name, buffer=held[1], indices=(self.var,), value=result.value)
