"""Scalar and vector values of IR expressions.

Inside a vectorized loop every expression is a scalar (the same in all iterations) or a vector with one lane for each
iteration. Loop variables of unrolled loops are Python ints, so conditions on them are decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir.affine import linear_form
from ...ir.expr import COMPARISONS, Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var, dtype_of
from ...ir.printer import format_expr
from ...ir.types import DType
from ...ir.visit import walk_expr
from .arithmetic import comparison, compute, convert, extremum, floor_divide, memory_suffix
from .errors import LoweringError
from .functions import call_function
from .machine import CpuTarget
from .quantized import call_quantized
from .storage import Storage
from .text import Block, Value, constant, memory_type, type_text

MAXIMUM_STRIDE = 4
"""Distance in elements between lanes up to which whole loads and shuffles take the place of a gather."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorLoop:
    """The vectorized loop around: its variable, iterations, and lanes (iterations rounded up to a power of two)."""

    name: str
    count: int
    lanes: int


class ExpressionEmitter:
    """Emits expressions into a block; statements set what is around them.

    `variables` maps loop variables to ints (unrolled) or scalar values, outermost first. `mask` says which lanes
    count (None: all); `guarded` that they depend on a condition, so that perhaps none does.
    """

    def __init__(self, block: Block, target: CpuTarget) -> None:
        self.block = block
        self.target = target
        self.storages: dict[str, Storage] = {}
        self.variables: dict[str, int | Value] = {}
        self.vector: VectorLoop | None = None
        self.mask: Value | None = None
        self.guarded = False
        self.declarations: set[str] = set()

    # Values

    def known(self, expr: Expr) -> int | float | None:
        """The value of an expression of ints and bools if it is decided already."""
        match expr:
            case Const(value=value):
                return value
            case Var(name=name):
                held = self.variables.get(name)
                return held if isinstance(held, int) else None
            case Binary(op="and" | "or" as op, a=a, b=b):
                x, y = self.known(a), self.known(b)
                decisive = op == "or"
                if (x is not None and bool(x) is decisive) or (y is not None and bool(y) is decisive):
                    return decisive
                return None if x is None or y is None else not decisive
            case Binary(op=op, a=a, b=b) if dtype_of(a) is not DType.FLOAT32:
                x, y = self.known(a), self.known(b)
                return None if x is None or y is None else compute(op, x, y, dtype_of(a))
            case Select(condition=condition, then=then, otherwise=otherwise):
                chosen = self.known(condition)
                return None if chosen is None else self.known(then if chosen else otherwise)
        return None

    def expr(self, expr: Expr) -> Value:
        """The value of an expression: a scalar, or a vector where it differs between lanes."""
        dtype = dtype_of(expr)
        if not isinstance(expr, Load | Call | Cast) and (value := self.known(expr)) is not None:
            return constant(value, dtype)
        match expr:
            case Var(name=name):
                return self.variable(name)
            case Binary(op="and" | "or" as op, a=a, b=b):
                if _loads(b):
                    # The right side may rely on the left one, so it is evaluated as a Select's side is.
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
            case Load(buffer=buffer, indices=indices):
                return self.load(buffer, indices)
            case Cast(value=value):
                return convert(self.block, self.declarations, self.expr(value), dtype)
            case Select():
                return self.select(expr)
            case Call(function=function, arguments=arguments):
                values = [self.expr(a) for a in arguments]
                known = [self.known(a) for a in arguments]
                quantized = call_quantized(
                    self.block, self.declarations, self.target, function, values, known
                )
                if quantized is not None:
                    return quantized
                return call_function(self.block, self.declarations, function, values, dtype)
        raise LoweringError(f"no code for {format_expr(expr)}")

    def variable(self, name: str) -> Value:
        """A loop variable: a scalar, or one lane an iteration of the vectorized loop."""
        if self.vector is not None and name == self.vector.name:
            lanes = ", ".join(f"i64 {i}" for i in range(self.vector.lanes))
            return Value(f"<{lanes}>", DType.INT64, self.vector.lanes)
        held = self.variables[name]
        return constant(held, DType.INT64) if isinstance(held, int) else held

    def index(self, expr: Expr) -> Value:
        """An int64 sum of products."""
        terms, offset = self.terms({expr: 1})
        return self.sum(terms, offset)

    def terms(self, weighted: Mapping[Expr, int]) -> tuple[dict[Expr, int], int]:
        """A weighted sum of index expressions as atoms with coefficients, and a constant; known atoms folded."""
        total: dict[Expr, int] = {}
        offset = 0
        for expr, weight in weighted.items():
            form = linear_form(expr)
            offset += weight * form.constant
            for atom, coefficient in form.terms.items():
                value = self.known(atom)
                if value is not None:
                    offset += weight * coefficient * int(value)
                else:
                    total[atom] = total.get(atom, 0) + weight * coefficient
        for atom in [a for a in total if isinstance(a, Binary) and a.op == "%"]:
            # a // k * k + a % k is a: what has been counted in rows lies in memory in one piece.
            rows, weight = Binary("//", atom.a, atom.b), total[atom]
            if isinstance(atom.b, Const) and weight and total.get(rows) == weight * int(atom.b.value):
                del total[atom], total[rows]
                whole, rest = self.terms({atom.a: weight})
                offset += rest
                for inner, c in whole.items():
                    total[inner] = total.get(inner, 0) + c
        return {atom: c for atom, c in total.items() if c}, offset

    def sum(self, terms: Mapping[Expr, int], offset: int) -> Value:
        """The value of such a sum, variables of outer loops first, so that what does not change is computed early."""
        order = {name: depth for depth, name in enumerate(self.variables)}
        deep = len(order)
        total: Value | None = None
        for atom in sorted(terms, key=lambda a: order.get(a.name, deep) if isinstance(a, Var) else deep):
            coefficient = terms[atom]
            value = self.variable(atom.name) if isinstance(atom, Var) else self.atom(atom)
            if coefficient != 1:
                value = self.block.binary("mul nsw", value, constant(coefficient, DType.INT64))
            total = value if total is None else self.block.binary("add nsw", total, value)
        if total is None:
            return constant(offset, DType.INT64)
        return self.block.binary("add nsw", total, constant(offset, DType.INT64)) if offset else total

    def atom(self, atom: Expr) -> Value:
        """An index expression that is not a sum."""
        match atom:
            case Binary(op="*", a=a, b=b):
                return self.block.binary("mul", self.expr(a), self.expr(b))
        return self.expr(atom)

    def arithmetic(self, op: str, a: Expr, b: Expr) -> Value:
        """A binary operator other than "and" and "or"; integers wrap."""
        dtype = dtype_of(a)
        if op in ("//", "%"):
            return self.divide(op, a, b, dtype)
        x, y = self.expr(a), self.expr(b)
        if op in COMPARISONS:
            return self.block.binary(comparison(op, dtype), x, y, DType.BOOL)
        if op in ("min", "max"):
            return extremum(self.block, op, x, y, isinstance(b, Const))
        name = {"+": "add", "-": "sub", "*": "mul"}[op]
        return self.block.binary(f"f{name}" if dtype is DType.FLOAT32 else name, x, y)

    def divide(self, op: str, a: Expr, b: Expr, dtype: DType) -> Value:
        """Flooring division by a positive constant: any other divisor could be zero at run time."""
        divisor = self.known(b)
        if not isinstance(divisor, int) or divisor <= 0 or dtype is DType.FLOAT32:
            text = format_expr(Binary(op, a, b))  # type: ignore[arg-type]
            raise LoweringError(
                f"{text}: only division of integers by positive constants has code on this target"
            )
        return floor_divide(self.block, op, self.expr(a), divisor)

    def select(self, expr: Select) -> Value:
        """A decision; a side that loads is evaluated only where it is chosen."""
        chosen = self.known(expr.condition)
        if chosen is not None:
            return self.expr(expr.then if chosen else expr.otherwise)
        condition = self.expr(expr.condition)
        if not _loads(expr.then) and not _loads(expr.otherwise):
            return self.block.select(condition, self.expr(expr.then), self.expr(expr.otherwise))
        if condition.lanes > 1:
            then = self.under(condition, expr.then)
            negated = self.block.binary("xor", condition, constant(True, DType.BOOL))
            return self.block.select(condition, then, self.under(negated, expr.otherwise))
        # Under a condition on lanes, loads are in vectors even where all lanes read the same.
        varies = self.guarded or self.varies(expr.then) or self.varies(expr.otherwise)
        lanes = self.vector.lanes if self.vector is not None and varies else 1
        labels = [self.block.name("L") for _ in range(3)]
        self.block.branch(condition, labels[0], labels[1])
        incoming: list[str] = []
        for label, side in zip(labels, (expr.then, expr.otherwise), strict=False):
            self.block.begin(label)
            value = self.block.splat(self.expr(side), lanes)
            incoming.append(f"[ {value.text}, %{self.block.label} ]")
            self.block.jump(labels[2])
        self.block.begin(labels[2])
        dtype = dtype_of(expr)
        return self.block.define(f"phi {type_text(dtype, lanes)} {', '.join(incoming)}", dtype, lanes)

    def under(self, condition: Value, expr: Expr) -> Value:
        """`expr` with memory touched only in the lanes where `condition` holds."""
        mask, guarded = self.mask, self.guarded
        self.mask = condition if mask is None else self.block.binary("and", mask, condition)
        self.guarded = True
        value = self.expr(expr)
        self.mask, self.guarded = mask, guarded
        return value

    # Memory

    def load(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Value:
        """One element, or one a lane."""
        storage = self.storages[buffer.name]
        dtype, memory = buffer.dtype, memory_type(buffer.dtype)
        pointer, stride, offsets = self.address(storage, indices)
        align = dtype.bits // 8
        if stride == 0 and offsets is None and not self.guarded:
            loaded = self.block.assign(f"load {memory}, ptr {pointer}, align {align}")
            return self.from_memory(Value(loaded, dtype))
        assert self.vector is not None
        lanes = self.vector.lanes
        wide = memory_type(dtype, lanes)
        if stride == 1 and offsets is None:
            if self.mask is None or storage.on_stack:
                loaded = self.block.assign(f"load {wide}, ptr {pointer}, align {align}")
            else:
                loaded = self.masked_load(pointer, wide, memory_suffix(dtype, lanes), align)
        elif 1 < stride <= MAXIMUM_STRIDE and offsets is None:
            loaded = self.strided_load(pointer, stride, dtype)
        else:
            loaded = self.gather(pointer, stride, offsets, dtype)
        return self.from_memory(Value(loaded, dtype, lanes))

    def from_memory(self, value: Value) -> Value:
        """What a load gave, as a value: any byte but 0 is a true bool."""
        if value.dtype is not DType.BOOL:
            return value
        zero = "0" if value.lanes == 1 else "zeroinitializer"
        memory = memory_type(DType.BOOL, value.lanes)
        return self.block.define(f"icmp ne {memory} {value.text}, {zero}", DType.BOOL, value.lanes)

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], value: Value) -> None:
        """Writes one element, or one in each lane that counts."""
        storage = self.storages[buffer.name]
        dtype = buffer.dtype
        pointer, stride, offsets = self.address(storage, indices)
        align = dtype.bits // 8
        if self.vector is None:
            text = self.to_memory(value)
            self.block.do(f"store {memory_type(dtype)} {text}, ptr {pointer}, align {align}")
            return
        lanes = self.vector.lanes
        value = self.block.splat(value, lanes)
        wide, suffix = memory_type(dtype, lanes), memory_suffix(dtype, lanes)
        if stride == 1 and offsets is None:
            if self.mask is not None and storage.on_stack:
                # Whole registers: LLVM keeps a slot in registers only if no access to it is masked.
                old = self.block.assign(f"load {wide}, ptr {pointer}, align {align}")
                value = self.block.select(self.mask, value, self.from_memory(Value(old, dtype, lanes)))
            text = self.to_memory(value)
            if self.mask is None or storage.on_stack:
                self.block.do(f"store {wide} {text}, ptr {pointer}, align {align}")
                return
            name = f"@llvm.masked.store.{suffix}.p0"
            self.declarations.add(f"declare void {name}({wide}, ptr, <{lanes} x i1>)")
            self.block.do(f"call void {name}({wide} {text}, ptr align {align} {pointer}, {self.mask.typed})")
            return
        if stride in (2, 4, 8) and offsets is None and self.mask is None:
            self.strided_store(pointer, stride, value)
            return
        pointers = self.pointers(pointer, stride, offsets, dtype)
        name = f"@llvm.masked.scatter.{suffix}.v{lanes}p0"
        self.declarations.add(f"declare void {name}({wide}, <{lanes} x ptr>, <{lanes} x i1>)")
        mask = self.mask or constant(True, DType.BOOL, lanes)
        text = self.to_memory(value)
        self.block.do(
            f"call void {name}({wide} {text}, <{lanes} x ptr> align {align} {pointers}, {mask.typed})"
        )

    def to_memory(self, value: Value) -> str:
        """The text of a value as it is stored."""
        if value.dtype is not DType.BOOL:
            return value.text
        return self.block.assign(f"zext {value.typed} to {memory_type(DType.BOOL, value.lanes)}")

    def masked_load(self, pointer: str, wide: str, suffix: str, align: int) -> str:
        """Lanes that count from consecutive elements; zero in the others."""
        assert self.mask is not None
        name = f"@llvm.masked.load.{suffix}.p0"
        self.declarations.add(f"declare {wide} {name}(ptr, {self.mask.type}, {wide})")
        return self.block.assign(
            f"call {wide} {name}(ptr align {align} {pointer}, {self.mask.typed}, {wide} zeroinitializer)"
        )

    def strided_load(self, pointer: str, stride: int, dtype: DType) -> str:
        """Lanes that count from every `stride`th element, by whole loads and shuffles, many times faster than a gather.

        Pieces overlap so that none reaches beyond the last lane's element.
        """
        assert self.vector is not None
        lanes = self.vector.lanes
        wide, suffix, align = memory_type(dtype, lanes), memory_suffix(dtype, lanes), dtype.bits // 8
        reach = (lanes - 1) * stride + 1
        result, taken = "poison", 0
        while taken < lanes:
            start = min(taken * stride, reach - lanes)
            at = self.block.assign(f"getelementptr inbounds {memory_type(dtype)}, ptr {pointer}, i64 {start}")
            if self.mask is None:
                piece = self.block.assign(f"load {wide}, ptr {at}, align {align}")
            else:
                # Lane i of the piece is element start + i, in use where that is an element of a lane that counts.
                sources = [divmod(start + i, stride) for i in range(lanes)]
                order = ", ".join(f"i32 {lanes if rest else lane}" for lane, rest in sources)
                spread = self.block.define(
                    f"shufflevector {self.mask.typed}, {self.mask.type} zeroinitializer, <{lanes} x i32> <{order}>",
                    DType.BOOL,
                    lanes,
                )
                mask, self.mask = self.mask, spread
                piece = self.masked_load(at, wide, suffix, align)
                self.mask = mask
            end = min(lanes, (start + lanes - 1) // stride + 1)
            chosen = [i if i < taken else lanes + i * stride - start if i < end else -1 for i in range(lanes)]
            order = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in chosen)
            result = self.block.assign(
                f"shufflevector {wide} {result}, {wide} {piece}, <{lanes} x i32> <{order}>"
            )
            taken = end
        return result

    def strided_store(self, pointer: str, stride: int, value: Value) -> None:
        """All lanes to every `stride`th element: one store of what they span, in which only theirs count.

        Many times faster than a scatter where stores have masks, and no slower elsewhere: a power of two, so that LLVM
        cuts it into whole registers.
        """
        lanes, dtype = value.lanes, value.dtype
        span = lanes * stride
        text = self.to_memory(value)
        narrow, wide = memory_type(dtype, lanes), memory_type(dtype, span)
        order = ", ".join(f"i32 {'poison' if i % stride else i // stride}" for i in range(span))
        spread = self.block.assign(
            f"shufflevector {narrow} {text}, {narrow} poison, <{span} x i32> <{order}>"
        )
        mask = ", ".join(f"i1 {'false' if i % stride else 'true'}" for i in range(span))
        name = f"@llvm.masked.store.{memory_suffix(dtype, span)}.p0"
        self.declarations.add(f"declare void {name}({wide}, ptr, <{span} x i1>)")
        self.block.do(
            f"call void {name}({wide} {spread}, ptr align {dtype.bits // 8} {pointer}, <{span} x i1> <{mask}>)"
        )

    def gather(self, pointer: str, stride: int, offsets: Value | None, dtype: DType) -> str:
        """Lanes that count from elements anywhere; zero in the others."""
        assert self.vector is not None
        lanes = self.vector.lanes
        wide, suffix = memory_type(dtype, lanes), memory_suffix(dtype, lanes)
        pointers = self.pointers(pointer, stride, offsets, dtype)
        name = f"@llvm.masked.gather.{suffix}.v{lanes}p0"
        self.declarations.add(f"declare {wide} {name}(<{lanes} x ptr>, <{lanes} x i1>, {wide})")
        mask = self.mask or constant(True, DType.BOOL, lanes)
        return self.block.assign(
            f"call {wide} {name}(<{lanes} x ptr> align {dtype.bits // 8} {pointers}, {mask.typed}, "
            f"{wide} zeroinitializer)"
        )

    def pointers(self, pointer: str, stride: int, offsets: Value | None, dtype: DType) -> str:
        """One address a lane: `pointer`, plus `stride` elements a lane, plus `offsets` elements."""
        assert self.vector is not None
        lanes = self.vector.lanes
        steps = Value("<" + ", ".join(f"i64 {stride * i}" for i in range(lanes)) + ">", DType.INT64, lanes)
        if offsets is not None:
            steps = self.block.binary("add nsw", steps, offsets)
        return self.block.assign(f"getelementptr {memory_type(dtype)}, ptr {pointer}, {steps.typed}")

    def address(self, storage: Storage, indices: tuple[Expr, ...]) -> tuple[str, int, Value | None]:
        """Where an access starts, its elements from lane to lane, and what lanes add beyond that (None: nothing)."""
        weighted: dict[Expr, int] = {}
        for index, stride in zip(indices, storage.strides, strict=True):
            weighted[index] = weighted.get(index, 0) + stride
        terms, offset = self.terms(weighted)
        stride, varying = 0, {}
        if self.vector is not None:
            stride = terms.pop(Var(self.vector.name), 0)
            varying = {a: c for a, c in terms.items() if self.varies(a)}
            terms = {a: c for a, c in terms.items() if a not in varying}
        memory, pointer = memory_type(storage.buffer.dtype), storage.pointer
        if terms:
            start = self.sum(terms, 0)
            pointer = self.block.assign(f"getelementptr inbounds {memory}, ptr {pointer}, {start.typed}")
        if offset:
            pointer = self.block.assign(f"getelementptr inbounds {memory}, ptr {pointer}, i64 {offset}")
        return pointer, stride, self.sum(varying, 0) if varying else None

    def varies(self, expr: Expr) -> bool:
        """Whether an expression differs between lanes."""
        vector = self.vector
        if vector is None or isinstance(expr, Var):
            return vector is not None and expr == Var(vector.name)
        return any(isinstance(e, Var) and e.name == vector.name for e in walk_expr(expr))


def _loads(expr: Expr) -> bool:
    return any(isinstance(e, Load) for e in walk_expr(expr))
