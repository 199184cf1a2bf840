"""Translates IR expressions to source text in the language that a `Dialect` describes.

Arithmetic rounds as the IR does. Only the addition of a Reduce is fused with a multiplication (`fmaf`). 16-bit floats
are rounded after every operation.
"""

from __future__ import annotations

from collections import Counter

from ...ir.affine import LinearForm, linear_form
from ...ir.bounds import Interval, interval
from ...ir.expr import COMPARISONS, Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var, dtype_of
from ...ir.expression_printer import format_expr
from ...ir.lane_elements import SUMS, lane_register
from ...ir.simplify import simplify, simplify_form
from ...ir.types import DType
from .dialect import Dialect
from .errors import LoweringError
from .functions import call_function
from .indices import Index, comparison, index
from .storage import Storage
from .text import AND, EQUALITY, OR, PRODUCT, RELATION, SUM, Text, call

_PRECEDENCE = {
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "<": RELATION,
    "<=": RELATION,
    "==": EQUALITY,
    "!=": EQUALITY,
}


class ExpressionEmitter:
    """Emits expressions. The emitter of statements sets the fields, which describe the enclosing loops and the buffers.

    `ranges`: ranges of the enclosing loops, outermost first. `variables`: C identifiers of the loops' variables, "0"
    for a loop that runs at most once. `storages`: memory of the buffers. `used`: collects the names of called device
    functions. `defined`: texts of functions that instructions define, by name. `divisions`: how often each quotient or
    remainder was emitted. `named`: maps each quotient or remainder that a C variable holds to this variable.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.ranges: dict[str, Interval | Expr] = {}
        self.variables: dict[str, str] = {}
        self.storages: dict[str, Storage] = {}
        self.used: set[str] = set()
        self.defined: dict[str, str] = {}
        self.divisions: Counter[Binary] = Counter()
        self.named: dict[Binary, Index] = {}

    # Values

    def value(self, expr: Expr) -> Text:
        """The text of an expression, simplified under the loops around it."""
        return self.emit(simplify(expr, self.ranges))

    def emit(self, expr: Expr) -> Text:
        """The text of an expression that is already simplified."""
        dtype = dtype_of(expr)
        match expr:
            case Const(value=value) if dtype in (DType.FLOAT16, DType.BFLOAT16):
                return self.narrowed(self.dialect.literal(value, DType.FLOAT32), dtype)
            case Const(value=value):
                return (
                    self.dialect.literal(value, dtype)
                    if dtype is not DType.INT64
                    else index(self, linear_form(expr)).text
                )
            case Load(buffer=buffer, indices=indices):
                return self.element(buffer, indices)
            case Var(name=name) if dtype is not DType.INT64:
                return Text(self.variables[name])
            case Call(dtype=DType.INT8):
                from .quantized import call_quantized

                return call_quantized(self, expr)
            case Call(function=function, arguments=arguments):
                return call_function(self, function, [self.as_float(a) for a in arguments], dtype)
        if dtype is DType.INT64:
            return index(self, linear_form(expr)).text
        match expr:
            case Binary(op="and" | "or" as op, a=a, b=b):
                own = AND if op == "and" else OR
                return self.dialect.operated("&&" if op == "and" else "||", own, self.emit(a), self.emit(b))
            case Binary(op=op, a=a, b=b) if op in COMPARISONS:
                return self.compare(op, a, b)
            case Binary():
                return self.arithmetic(expr, dtype)
            case Cast(value=value):
                return self.cast(value, dtype)
            case Select(condition=condition, then=then, otherwise=otherwise):
                return self.dialect.chosen(self.emit(condition), self.emit(then), self.emit(otherwise))
        raise LoweringError(f"GPUs have no code for {type(expr).__name__}: {format_expr(expr)}")

    def compare(self, op: str, a: Expr, b: Expr) -> Text:
        """The text of the comparison `a op b` of two values; it is false if one side is NaN (`!=`: true)."""
        own = _PRECEDENCE[op]
        if dtype_of(a) is DType.INT64:
            return comparison(self, op, own, linear_form(a), linear_form(b))
        return self.dialect.compared(op, own, self.as_float(a), self.as_float(b), dtype_of(a))

    def arithmetic(self, expr: Binary, dtype: DType) -> Text:
        """The C text of a binary operation on numbers other than indices, with operands and result of type `dtype`."""
        op = expr.op
        a, b = self.as_float(expr.a), self.as_float(expr.b)
        if dtype.is_float:
            if op in ("min", "max"):
                name = f"{op}imum"
                self.used.add(name)
                return self.narrowed(call(name, a, b), dtype)
            if op not in _PRECEDENCE:
                raise LoweringError(f"no code can be generated for {format_expr(expr)}: {op} is for integers")
            return self.narrowed(self.dialect.operated(op, _PRECEDENCE[op], a, b), dtype)
        narrow = dtype is not DType.INT32
        if op in ("min", "max"):
            # Arguments have one type, for overloads.
            x, y = (self.dialect.converted(DType.INT32, t) if narrow else t for t in (a, b))
            result = call(op, x, y)
        elif op in ("//", "%"):
            result = self.divide(expr, a, b)
        elif narrow or _fits(interval(expr, self.ranges)):
            result = self.dialect.operated(op, _PRECEDENCE[op], a, b)
        else:
            # Sums wrap; in C only unsigned sums do.
            x, y = (self.dialect.as_unsigned(t, wide=False) for t in (a, b))
            result = self.dialect.converted(DType.INT32, self.dialect.operated(op, _PRECEDENCE[op], x, y))
        return self.dialect.converted(dtype, result) if narrow else result

    def divide(self, expr: Binary, a: Text, b: Text) -> Text:
        """The C text of `expr`, a quotient `a // b` or remainder `a % b` of integers of at most 32 bits. `a`, `b`: the
        texts of its operands.
        """
        x, y = interval(expr.a, self.ranges), interval(expr.b, self.ranges)
        if x.low is not None and x.low >= 0 and y.low is not None and y.low > 0:
            return self.dialect.operated("/" if expr.op == "//" else "%", PRODUCT, a, b)
        name = "floor_divide" if expr.op == "//" else "floor_modulo"
        self.used.add(name)
        return call(name, *(self.dialect.converted(DType.INT32, t) for t in (a, b)))

    def as_float(self, expr: Expr) -> Text:
        """The C text of a value as arithmetic needs it: a 16-bit float is converted to float, all other values are
        unchanged.
        """
        dtype = dtype_of(expr)
        if dtype not in (DType.FLOAT16, DType.BFLOAT16):
            return self.emit(expr)
        if isinstance(expr, Const):
            return self.dialect.literal(expr.value, DType.FLOAT32)
        self.used.add(dtype.value)
        return call("to_float", self.emit(expr))

    def narrowed(self, text: Text, dtype: DType) -> Text:
        """The text of a float rounded to the float type `dtype`."""
        if dtype is DType.FLOAT32:
            return text
        self.used.add(dtype.value)
        return call(f"to_{dtype.value}", text)

    def cast(self, value: Expr, dtype: DType) -> Text:
        """The text of a value converted to `dtype`, which is not int64."""
        source = dtype_of(value)
        if source is dtype:
            return self.emit(value)
        if source is DType.INT64:
            held = index(self, linear_form(value))
            if dtype is DType.INT32 and not held.wide:
                return held.text
            text = held.text
        else:
            text = self.as_float(value)
        if dtype is DType.BOOL:
            kind = DType.FLOAT32 if source.is_float else DType.INT32
            return self.dialect.compared("!=", EQUALITY, text, self.dialect.literal(0, kind), kind)
        if dtype.is_float:
            return self.narrowed(
                text if source.is_float else self.dialect.converted(DType.FLOAT32, text), dtype
            )
        if source.is_float and dtype is not DType.INT32:
            text = self.dialect.converted(DType.INT32, text)
        return self.dialect.converted(dtype, text)

    # Types

    def type_of(self, dtype: DType) -> str:
        """The name of an element type. Raises LoweringError if the language has no such type."""
        return self.dialect.type_of(dtype)

    def vector(self, dtype: DType, count: int) -> str:
        """The name of the C type of a vector of `count` adjacent elements, which one memory access reads or writes."""
        given = {"type": self.type_of(dtype), "count": count}
        name = self.dialect.vector.format(**given)
        if self.dialect.vector_definition:
            self.defined[name] = self.dialect.vector_definition.format(vector=name, **given)
        else:
            self.used.add("Vector")
        return name

    # Memory

    def element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Text:
        """The text of the expression that reads one element of a buffer."""
        return self.dialect.element(self.storages[buffer.name], self.at(buffer, indices))

    def offset(self, buffer: Buffer, indices: tuple[Expr, ...]) -> LinearForm:
        """The offset of an element from the first element of the buffer, in the unit of the storage's strides."""
        storage = self.storages[buffer.name]
        total = LinearForm({}, 0)
        for at, stride in zip(indices, storage.strides, strict=True):
            if stride:
                total = total.plus(linear_form(at), stride)
        # Elements indexed by rows may be contiguous in memory.
        return simplify_form(_sum(total), self.ranges)

    def offset_text(self, form: LinearForm) -> str:
        """The text of a linear form that is an offset."""
        return index(self, form).text.text

    def pointer(self, buffer: Buffer, form: LinearForm) -> str:
        """The text of the address of an element at the offset `form`."""
        storage = self.storages[buffer.name]
        return self.dialect.address(storage, "" if storage.scalar else self.offset_text(form))

    def at(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """The text of an element's offset from the first element of its buffer. For sums that a warp holds, the text is
        the element's index in the lane's registers. For a buffer that is stored as a single variable, the text is "".
        """
        if buffer.scope == SUMS:
            return self.offset_text(self.register(buffer, indices))
        scalar = self.storages[buffer.name].scalar
        return "" if scalar else self.offset_text(self.offset(buffer, indices))

    def register(self, buffer: Buffer, indices: tuple[Expr, ...]) -> LinearForm:
        """The index, within a lane's registers, of an element of the sums that a warp holds. Raises LoweringError if
        the element is in a register of another lane.
        """
        found = lane_register(indices)
        if found is None:
            at = ", ".join(format_expr(index) for index in indices)
            raise LoweringError(f"{buffer.name}[{at}] is not in a register of the lane that accesses it")
        return simplify_form(_sum(self.offset(buffer, indices).plus(found[1])), self.ranges)


def _sum(form: LinearForm) -> Expr:
    """An expression for a linear form; the order of its terms is arbitrary."""
    result: Expr = Const(form.constant)
    for atom, coefficient in form.terms.items():
        result = Binary("+", result, Binary("*", atom, Const(coefficient)))
    return result


def _fits(held: Interval) -> bool:
    low, high = DType.INT32.limits
    return held.low is not None and held.high is not None and low <= held.low and held.high <= high
