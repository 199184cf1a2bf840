"""Emits the scalar and vector values of IR expressions.

Inside a vectorized loop, the value of an expression is a scalar if it is equal in all iterations, else a vector with
one lane for each iteration. Variables of unrolled loops are Python ints, so conditions on them are decided during
emission.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...ir.affine import LinearForm, linear_form
from ...ir.expr import COMPARISONS, Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var, dtype_of
from ...ir.expression_printer import format_expr
from ...ir.quick_init import quick_init
from ...ir.types import DType
from ...ir.visit import walk_expr
from .arithmetic import call_quantized, comparison, convert, floor_divide
from .constant_folding import FoldingFunction, folding_function, unfoldable
from .errors import LoweringError
from .functions import call_function
from .half_floats import HALF_FLOATS, narrow, round_tf32, widen
from .machine import CpuTarget
from .memory import Storage
from .selects import selected
from .strided_memory import spread_store, strided_load
from .text import Block, Value, constant, memory_type
from .vector_memory import from_memory, gather, masked_load, masked_store, pointers, scatter, to_memory

SPREAD_STRIDES = (2, 4, 8)
"""Distances, in elements, between the elements that neighbouring lanes write. At these distances one masked store to
the whole range of elements replaces a scatter.
"""
MAXIMUM_STRIDE = 4
"""Largest distance between lanes, in elements, for which contiguous loads and shuffles replace a gather."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class VectorLoop:
    """The enclosing vectorized loop: its variable, iterations, and lanes (iterations rounded up to a power of two)."""

    name: str
    count: int
    lanes: int


@quick_init
@dataclass(frozen=True, slots=True)
class PreparedForm:
    """A linear index expression prepared for evaluation. It is the sum of a constant and of atoms times coefficients.
    An atom is a variable or another subexpression that is not a sum. Each atom has its folding function
    (`folding_function`).
    """

    atoms: tuple[tuple[Expr, int, FoldingFunction], ...]
    constant: int


class ExpressionEmitter:
    """Emits the instructions of expressions into a block. The emitter of statements first sets the fields below.

    `variables`: values of the loop variables, outermost loop first: an int in an unrolled loop, else a scalar register.
    `mask`: the lanes that are active (None: all). `guarded`: whether the mask depends on a condition, so that possibly
    no lane is active.
    """

    def __init__(self, block: Block, target: CpuTarget) -> None:
        self.block = block
        self.target = target
        self.storages: dict[str, Storage] = {}
        self.variables: dict[str, int | Value] = {}
        self.vector: VectorLoop | None = None
        self.mask: Value | None = None
        self.guarded = False
        self.forms: dict[tuple[int, str], _Access] = {}
        self.functions: dict[int, tuple[Expr, tuple[DType, FoldingFunction]]] = {}

    # Values

    def known(self, expr: Expr) -> int | float | None:
        """The value of an int or bool expression if variables of unrolled loops determine the value, else None."""
        return self.folding_function(expr)[1](self.variables)

    def folding_function(self, expr: Expr) -> tuple[DType, FoldingFunction]:
        """The type of an expression, and its folding function, which computes the value from known loop variables
        (`constant_folding.folding_function`).
        """
        # Cached by id; the cache holds the expression, so that its id stays unique.
        held = self.functions.get(id(expr))
        if held is None:
            held = self.functions[id(expr)] = (expr, (dtype_of(expr), folding_function(expr)))
        return held[1]

    def expr(self, expr: Expr) -> Value:
        """The value of an expression: a scalar, or a vector if it differs between lanes."""
        if isinstance(expr, Load):
            return self.load(expr.buffer, expr.indices)
        dtype, value_of = self.folding_function(expr)
        if value_of is not unfoldable and (value := value_of(self.variables)) is not None:
            return constant(value, dtype)
        match expr:
            case Var(name=name):
                return self.variable(name)
            case Binary(op="and" | "or" as op, a=a, b=b):
                if _loads(b):
                    # The right side may rely on the left side, so it is evaluated like a side of a Select.
                    side = (
                        Select(a, b, Const(False, DType.BOOL))
                        if op == "and"
                        else Select(a, Const(True, DType.BOOL), b)
                    )
                    return self.expr(side)
                return self.block.binary(op, self.expr(a), self.expr(b))
            case Binary(op="+" | "-" | "*") if dtype is DType.INT64:
                return self.index(expr)
            case Binary(op=op, a=a, b=b):
                return self.arithmetic(op, a, b)
            case Cast(value=value):
                return convert(self.block, self.expr(value), dtype)
            case Select():
                chosen = self.known(expr.condition)
                if chosen is not None:
                    return self.expr(expr.then if chosen else expr.otherwise)
                return selected(self, expr)
            case Call(
                function="erf", arguments=(Call(function="divide", arguments=(a, Const(value=by))),)
            ) if by:
                # Division takes as long as the rest of GELU, and the rounding of a reciprocal is within erf's error.
                return call_function(self.block, "erf", [self.expr(a * Const(1 / by, dtype))], dtype)
            case Call(function=function, arguments=arguments):
                values = [self.expr(a) for a in arguments]
                known = [self.known(a) for a in arguments]
                quantized = call_quantized(self.block, self.target, function, values, known)
                if quantized is not None:
                    return quantized
                if function == "round_tf32":
                    return round_tf32(self.block, values[0])
                return call_function(self.block, function, values, dtype)
        raise LoweringError(f"processors have no code for {type(expr).__name__}: {format_expr(expr)}")

    def variable(self, name: str) -> Value:
        """A loop variable: a scalar, or for the vectorized loop a vector of its iterations."""
        if self.vector is not None and name == self.vector.name:
            lanes = ", ".join(f"i64 {i}" for i in range(self.vector.lanes))
            return Value(f"<{lanes}>", DType.INT64, self.vector.lanes)
        held = self.variables[name]
        return constant(held, DType.INT64) if isinstance(held, int) else held

    def index(self, expr: Expr) -> Value:
        """The value of an index expression, int64, emitted as a sum of products."""
        terms, offset = self.terms({expr: 1})
        return self.sum(terms, offset)

    def terms(self, weighted: Mapping[Expr, int]) -> tuple[dict[Expr, int], int]:
        """Flattens a weighted sum of index expressions. Returns the coefficient of each atom (subexpression that is
        not a sum) whose value is unknown, and a constant that includes the atoms with known values.
        """
        return self.folded(self.prepared(weighted_sum(weighted)))

    def prepared(self, form: LinearForm) -> PreparedForm:
        """Prepares a linear form for repeated evaluation: returns its atoms (subexpressions except sums) with
        their folding functions (functions from known loop variables to the atom's value).
        """
        atoms = [(atom, weight, self.folding_function(atom)[1]) for atom, weight in form.terms.items()]
        return PreparedForm(tuple(atoms), form.constant)

    def folded(self, form: PreparedForm) -> tuple[dict[Expr, int], int]:
        """Evaluates a linear form (sum of coefficients times atoms) as far as loop variables are known. Returns the
        atoms without a known value, with their coefficients, and the sum of all other terms.
        """
        total: dict[Expr, int] = {}
        offset = form.constant
        split = False
        variables = self.variables
        for atom, coefficient, value_of in form.atoms:
            value = value_of(variables)
            if value is not None:
                offset += coefficient * int(value)
            else:
                total[atom] = coefficient
                split = split or (type(atom) is Binary and atom.op == "%")
        if not split:
            return total, offset
        for atom in [a for a in total if isinstance(a, Binary) and a.op == "%"]:
            # a // k * k + a % k is a: elements counted in rows are contiguous in memory.
            rows, weight = Binary("//", atom.a, atom.b), total[atom]
            if isinstance(atom.b, Const) and weight and total.get(rows) == weight * int(atom.b.value):
                del total[atom], total[rows]
                whole, rest = self.terms({atom.a: weight})
                offset += rest
                for inner, c in whole.items():
                    total[inner] = total.get(inner, 0) + c
        return {atom: c for atom, c in total.items() if c}, offset

    def sum(self, terms: Mapping[Expr, int], offset: int) -> Value:
        """Emits the int64 value of a sum of `terms` (atom: coefficient) and `offset`. Variables of outer loops are
        added first, so that loop-invariant parts can be hoisted.
        """
        atoms: Iterable[Expr] = terms
        if len(terms) > 1:
            order = {name: depth for depth, name in enumerate(self.variables)}
            deep = len(order)
            atoms = sorted(terms, key=lambda a: order.get(a.name, deep) if isinstance(a, Var) else deep)
        # Sums of loop variables do not overflow; loaded values may be any number, and wrap.
        within = "" if any(type(atom) is not Var and _loads(atom) for atom in terms) else " nsw"
        total: Value | None = None
        for atom in atoms:
            coefficient = terms[atom]
            value = self.variable(atom.name) if isinstance(atom, Var) else self.atom(atom)
            if coefficient != 1:
                value = self.block.binary(f"mul{within}", value, constant(coefficient, DType.INT64))
            total = value if total is None else self.block.binary(f"add{within}", total, value)
        if total is None:
            return constant(offset, DType.INT64)
        return self.block.binary(f"add{within}", total, constant(offset, DType.INT64)) if offset else total

    def atom(self, atom: Expr) -> Value:
        """Emits the value of an index expression that is not a sum, such as a variable, quotient or load."""
        match atom:
            case Binary(op="*", a=a, b=b):
                return self.block.binary("mul", self.expr(a), self.expr(b))
        return self.expr(atom)

    def arithmetic(self, op: str, a: Expr, b: Expr) -> Value:
        """The value of `a op b`, for a binary operator `op` other than "and" and "or"; integers wrap."""
        dtype, _ = self.folding_function(a)
        if op in ("//", "%"):
            return self.divide(op, a, b, dtype)
        x, y = self.expr(a), self.expr(b)
        if dtype in HALF_FLOATS:
            x, y = widen(self.block, x), widen(self.block, y)
            if op not in COMPARISONS:
                return narrow(self.block, self.computed(op, x, y, DType.FLOAT32, b), dtype)
            dtype = DType.FLOAT32
        return self.computed(op, x, y, dtype, b)

    def computed(self, op: str, x: Value, y: Value, dtype: DType, b: Expr) -> Value:
        """The value of operator `op` (not `//` or `%`) on x and y of type `dtype`; y is the value of expression `b`."""
        if op in COMPARISONS:
            return self.block.binary(comparison(op, dtype), x, y, DType.BOOL)
        if op in ("min", "max"):
            return self.block.extremum(op, x, y, isinstance(b, Const))
        name = {"+": "add", "-": "sub", "*": "mul"}[op]
        return self.block.binary(f"f{name}" if dtype.is_float else name, x, y)

    def divide(self, op: str, a: Expr, b: Expr, dtype: DType) -> Value:
        """The value of `a // b`, rounded down, or of the remainder `a % b`, according to `op`, in the integer type
        `dtype`. Raises LoweringError unless `b` is a positive constant: another divisor could be zero at run time.
        """
        divisor = self.known(b)
        if not isinstance(divisor, int) or divisor <= 0 or dtype.is_float:
            text = format_expr(Binary(op, a, b))  # type: ignore[arg-type]
            raise LoweringError(f"{text}: on this target integers can be divided by positive constants only")
        return floor_divide(self.block, op, self.expr(a), divisor)

    # Memory

    def load(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Value:
        """The value of a load: one element or, if the index may differ between lanes, one element for each lane."""
        storage = self.storages[buffer.name]
        return self.load_from(storage, self.address_of(storage, indices))

    def load_from(self, storage: Storage, address: Address) -> Value:
        """Loads from `address` in `storage`: one element, or one for each lane if the address may vary by lane."""
        block, dtype = self.block, storage.buffer.dtype
        if storage.on_stack and (lanes := self.slot_lanes(address)):
            text = block.slots.get(storage.pointer, dtype, lanes, address.offset)
            return from_memory(block, Value(text, dtype, lanes))
        pointer, stride, offsets = self.point(storage, address)
        origin = storage.pointer
        block.slots.save(origin)
        if stride == 0 and offsets is None and not self.guarded:
            text = block.load(origin, pointer, lambda: block.load_at(pointer, dtype))
            return from_memory(block, Value(text, dtype))
        assert self.vector is not None
        lanes = self.vector.lanes
        mask = None if storage.on_stack and stride == 1 and offsets is None else self.mask

        def emit() -> str:
            if stride == 1 and offsets is None:
                return masked_load(block, pointer, dtype, lanes, mask)
            if 1 < stride <= MAXIMUM_STRIDE and offsets is None:
                return strided_load(block, pointer, stride, dtype, lanes, mask)
            places = pointers(block, pointer, stride, offsets, dtype, lanes)
            return gather(block, places, dtype, lanes, mask)

        loaded = block.load(origin, (pointer, stride, offsets, lanes, mask), emit)
        return from_memory(block, Value(loaded, dtype, lanes))

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], value: Value) -> None:
        """Writes `value` to one element. In a vectorized loop, each active lane writes to its own element."""
        storage = self.storages[buffer.name]
        self.store_at(storage, self.address_of(storage, indices), value)

    def store_at(self, storage: Storage, address: Address, value: Value) -> None:
        """Stores `value` at `address` in `storage`. In a vectorized loop, each active lane stores one element."""
        block, dtype = self.block, storage.buffer.dtype
        vector = self.vector
        if vector is not None:
            value = block.splat(value, vector.lanes)
        if storage.on_stack and (lanes := self.slot_lanes(address)) and lanes == value.lanes:
            if self.mask is not None:
                # Whole registers: LLVM keeps a slot in registers only if no access to it is masked.
                old = block.slots.get(storage.pointer, dtype, lanes, address.offset)
                value = block.select(self.mask, value, from_memory(block, Value(old, dtype, lanes)))
            block.slots.put(storage.pointer, dtype, lanes, address.offset, to_memory(block, value))
            return
        pointer, stride, offsets = self.point(storage, address)
        block.slots.save(storage.pointer)
        block.written(storage.pointer)
        if vector is None:
            block.store_at(to_memory(block, value), pointer, dtype)
            return
        lanes = vector.lanes
        if stride == 1 and offsets is None:
            mask = self.mask
            if mask is not None and storage.on_stack:
                # As above, at a place that is not known here.
                old = masked_load(block, pointer, dtype, lanes, None)
                value = block.select(mask, value, from_memory(block, Value(old, dtype, lanes)))
                mask = None
            text = to_memory(block, value)
            masked_store(block, pointer, text, dtype, lanes, mask)
            return
        if stride in SPREAD_STRIDES and offsets is None and self.mask is None:
            spread_store(block, pointer, stride, value)
            return
        places = pointers(block, pointer, stride, offsets, dtype, lanes)
        scatter(block, places, value, dtype, self.mask)

    def slot_lanes(self, address: Address) -> int:
        """The number of elements that an access to a stack slot touches: one, or a whole vector. 0 if the access is
        partial, not aligned, or not at a constant position; then `Slots` cannot forward stored values to loads.
        """
        if address.variables or address.terms or address.varying:
            return 0
        if address.stride == 0 and not self.guarded:
            return 1
        if address.stride != 1 or self.vector is None or address.offset % self.vector.lanes:
            return 0
        return self.vector.lanes

    def address_of(self, storage: Storage, indices: tuple[Expr, ...]) -> Address:
        """The elements of `storage` that an access with `indices` touches; known variables count as constants."""
        # Unrolled bodies repeat an access many times. Forms are cached by the id of the indices, which the cache holds.
        key = (id(indices), storage.pointer)
        form = self.forms.get(key)
        if form is None:
            weighted: dict[Expr, int] = {}
            for index, stride in zip(indices, storage.strides, strict=True):
                weighted[index] = weighted.get(index, 0) + stride
            form = self.forms[key] = self.access(indices, weighted_sum(weighted))
        vector = self.vector
        lane = None if vector is None else vector.name
        if form.whole is None:
            offset, stride, left = form.constant, 0, ()
            held = self.variables
            for name, coefficient in form.variables:
                if name == lane:
                    stride = coefficient
                    continue
                value = held[name]
                if value.__class__ is int:
                    offset += coefficient * value  # type: ignore[operator]
                else:
                    left = (*left, (name, coefficient))
            return Address(offset, stride, left, _NOTHING, _NOTHING)
        terms, offset = self.folded(form.whole)
        if vector is None:
            return Address(offset, 0, (), terms, _NOTHING)
        stride = terms.pop(Var(vector.name), 0)
        varying = {a: c for a, c in terms.items() if self.varies(a)}
        return Address(offset, stride, (), {a: c for a, c in terms.items() if a not in varying}, varying)

    def access(self, indices: tuple[Expr, ...], form: LinearForm) -> _Access:
        """Prepares an access for repeated emission. `form`: the offset of the accessed element. If `form` is a sum of
        loop variables and a constant, the result lists them. Otherwise the result has the form's folding functions.
        """
        if not all(type(atom) is Var for atom in form.terms):
            return _Access(indices, (), 0, self.prepared(form))
        variables = tuple([(atom.name, c) for atom, c in form.terms.items() if isinstance(atom, Var)])
        return _Access(indices, variables, form.constant, None)

    def address(self, storage: Storage, indices: tuple[Expr, ...]) -> str:
        """The pointer to an access's first element."""
        return self.point(storage, self.address_of(storage, indices))[0]

    def point(self, storage: Storage, address: Address) -> tuple[str, int, Value | None]:
        """Returns the pointer to an access's first element, the stride in elements from lane to lane, and a vector of
        additional offsets, one for each lane (None: no additional offsets).
        """
        block, dtype, pointer = self.block, storage.buffer.dtype, storage.pointer
        offsets = self.sum(address.varying, 0) if address.varying else None
        terms = address.terms
        if address.variables:
            held = self.variables
            key = (pointer, *[(held[name].text, c) for name, c in address.variables])  # type: ignore[union-attr]
            start = block.noted(key)
            if start is None:
                start = self._started(pointer, dtype, self.sum({Var(n): c for n, c in address.variables}, 0))
                block.note(key, start)
            pointer = start
        elif terms:
            start = self.sum(terms, 0)
            if start.lanes > 1:
                # An index that is loaded under a condition on lanes: equal in all active lanes.
                offsets = start if offsets is None else block.binary("add nsw", start, offsets)
            else:
                pointer = self._started(pointer, dtype, start)
        return block.element(pointer, dtype, address.offset), address.stride, offsets

    def _started(self, pointer: str, dtype: DType, start: Value) -> str:
        return self.block.assign(f"getelementptr inbounds {memory_type(dtype)}, ptr {pointer}, {start.typed}")

    def varies(self, expr: Expr) -> bool:
        """Whether the value of an expression may differ between the lanes of the enclosing vectorized loop."""
        vector = self.vector
        if vector is None:
            return False
        if isinstance(expr, Var):
            return expr.name == vector.name
        return any(isinstance(e, Var) and e.name == vector.name for e in walk_expr(expr))


_NOTHING: Mapping[Expr, int] = {}


@quick_init
@dataclass(frozen=True, slots=True)
class Address:
    """The elements of a buffer that an access touches, one for each lane. The index of lane 0's element is `offset`
    plus a weighted sum of terms that are unknown at compile time. `stride`: elements from each lane to the next.

    `variables`: the terms and their weights, if all terms are loop variables. Otherwise `terms` has the terms that are
    equal in all lanes, and `varying` the terms that differ between lanes.
    """

    offset: int
    stride: int
    variables: tuple[tuple[str, int], ...]
    terms: Mapping[Expr, int]
    varying: Mapping[Expr, int]


@quick_init
@dataclass(frozen=True, slots=True)
class _Access:
    """The prepared offset of the element that an access touches. Usually the offset is `constant` plus the loop
    `variables` times their coefficients, and `whole` is None. If the offset has other terms, `whole` is the offset as a
    general linear form. `indices`: the indices of the access.
    """

    indices: tuple[Expr, ...]
    variables: tuple[tuple[str, int], ...]
    constant: int
    whole: PreparedForm | None


def _loads(expr: Expr) -> bool:
    return any(isinstance(e, Load) for e in walk_expr(expr))


def weighted_sum(weighted: Mapping[Expr, int]) -> LinearForm:
    """A weighted sum of index expressions as one linear form."""
    total = LinearForm({}, 0)
    for expr, weight in weighted.items():
        total = total.plus(linear_form(expr), weight)
    return total
