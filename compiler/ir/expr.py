"""Scalar expressions: immutable nodes, operators that build them, light constant folding.

`==` between nodes is structural equality, as of any dataclass; use `equal` to build the expression "a == b". Operators
and the helper functions fold constants and neutral elements; the classes themselves never fold.
"""

from __future__ import annotations

import math
import reprlib
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np

from vdla.util.errors import CodeError

from .quick_init import quick_init
from .types import DType


class OperandError(CodeError, TypeError, ValueError):
    """Raised for a value that no expression can contain: not a number or expression, or beyond its type's range."""


Operator: TypeAlias = Literal["+", "-", "*", "//", "%", "min", "max", "<", "<=", "==", "!=", "and", "or"]
OPERATORS: tuple[str, ...] = get_args(Operator)
COMPARISONS = ("<", "<=", "==", "!=")


class Operand:
    """Base class of all nodes: Python's operators build expressions (ints get the other operand's dtype).

    Nodes never change, so each has a cache of results of analyses: `kept_form` (`affine.linear_form`), `kept_loads`
    (`visit.loads_in`) and `kept_variables` (`visit.variables_in`), unset at first. They are not dataclass fields, so
    equality, hashes, copies and pickles ignore them.
    """

    __slots__ = ("kept_form", "kept_loads", "kept_variables")

    called: ClassVar[str] = "an expression (of a tensor A an element, as A[i, j])"
    """Description of an object of this class in error messages about arguments. The part in parentheses tells users to
    pass an element, such as A[i, j], instead of the whole tensor A.
    """

    def __add__(self, other: ExprLike) -> Expr:
        return binary("+", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return binary("+", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return binary("-", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return binary("-", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return binary("*", self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return binary("*", other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return binary("//", self, other)

    def __mod__(self, other: ExprLike) -> Expr:
        return binary("%", self, other)

    def __lt__(self, other: ExprLike) -> Expr:
        return binary("<", self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return binary("<=", self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return binary("<", other, self)

    def __ge__(self, other: ExprLike) -> Expr:
        return binary("<=", other, self)

    def __and__(self, other: ExprLike) -> Expr:
        return _bits("and", self, other) if _is_integer(self) else binary("and", self, other)

    def __or__(self, other: ExprLike) -> Expr:
        return _bits("or", self, other) if _is_integer(self) else binary("or", self, other)

    def __xor__(self, other: ExprLike) -> Expr:
        return _bits("xor", self, other)

    def __lshift__(self, other: ExprLike) -> Expr:
        return _bits("lshift", self, other)

    def __rshift__(self, other: ExprLike) -> Expr:
        return _bits("rshift", self, other)

    def __bool__(self) -> bool:
        raise TypeError("an IR expression has no truth value; compare with `is None`, or match on Const")


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A dense row-major array in one memory.

    `shape` in elements, fixed; `scope` names the memory ("dram", "inp", "chain", "wgt", "acc", "par",
    "local", "shared", "register"). Names are unique in a program. `buffer[i, j]` builds a Load.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    scope: str = "dram"

    def __hash__(self) -> int:
        return hash(self.name)

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Load:
        return Load(self, tuple(index(i) for i in (indices if isinstance(indices, tuple) else (indices,))))


@quick_init
@dataclass(frozen=True, slots=True)
class Const(Operand):
    """A literal; bools are stored as Python bools, integers as ints within the limits of `dtype`."""

    value: int | float
    dtype: DType = DType.INT64

    def __hash__(self) -> int:
        return hash(self.value)


@quick_init
@dataclass(frozen=True, slots=True)
class Var(Operand):
    """A loop variable, or a formal scalar of an intrinsic's body (`FIRST`)."""

    name: str
    dtype: DType = DType.INT64

    def __hash__(self) -> int:
        return hash(self.name)


@quick_init
@dataclass(frozen=True, slots=True)
class Binary(Operand):
    """`a op b`. // and % floor as in Python; + - * wrap; comparisons give bool; "and", "or" short-circuit."""

    op: Operator
    a: Expr
    b: Expr


@quick_init
@dataclass(frozen=True, slots=True)
class Cast(Operand):
    """`value` converted to `dtype`: integers wrap, float to integer truncates toward zero, to float32 rounds to
    nearest, ties to even.
    """

    value: Expr
    dtype: DType


@quick_init
@dataclass(frozen=True, slots=True)
class Select(Operand):
    """`then` if `condition` else `otherwise`; only the chosen side is evaluated, so it can guard a load."""

    condition: Expr
    then: Expr
    otherwise: Expr


@quick_init
@dataclass(frozen=True, slots=True)
class Load(Operand):
    """The element of `buffer` at `indices`."""

    buffer: Buffer
    indices: tuple[Expr, ...]


@quick_init
@dataclass(frozen=True, slots=True)
class Call(Operand):
    """A call of a pure scalar function by name; the interpreter and the code emitters have its implementation."""

    function: str
    arguments: tuple[Expr, ...]
    dtype: DType


Expr: TypeAlias = Const | Var | Binary | Cast | Select | Load | Call
ExprLike: TypeAlias = Expr | Operand | int | float | bool

TRUE = Const(True, DType.BOOL)
FALSE = Const(False, DType.BOOL)
FIRST = Var("first", DType.BOOL)
"""Formal parameter in intrinsic bodies: whether this call overwrites its target instead of accumulating into it."""


def dtype_of(expr: Expr) -> DType:
    """An expression's dtype; operands are assumed to agree (verify checks it). Raises OperandError for other values."""
    while True:
        match expr:
            case Const() | Var() | Cast() | Call():
                return expr.dtype
            case Load(buffer=buffer):
                return buffer.dtype
            case Binary(op=op, a=a):
                if op in COMPARISONS or op == "and" or op == "or":
                    return DType.BOOL
                expr = b if isinstance(a, Const) and not isinstance(b := expr.b, Const) else a
            case Select(then=then):
                expr = then
            case _:
                raise _no_operand(expr)


def index(value: ExprLike) -> Expr:
    """`value` as an index expression (ints become int64 constants)."""
    return Const(value) if isinstance(value, int) else wrap(value, DType.INT64)


def wrap(value: ExprLike, dtype: DType) -> Expr:
    """`value` as an expression: a number becomes a constant of `dtype`. Raises OperandError if this is impossible."""
    if isinstance(value, Const | Var | Binary | Cast | Select | Load | Call):
        return value
    if isinstance(value, bool | int | float):
        return Const(_represent(value, dtype), dtype)
    raise _no_operand(value)


def _no_operand(value: object) -> OperandError:
    if isinstance(value, Buffer):
        places = ", ".join("ijklmnop"[: len(value.shape)])
        return OperandError(
            f"{value.name} is a whole tensor; use one of its elements in an expression, such as {value.name}[{places}]"
        )
    return OperandError(
        f"cannot use {reprlib.repr(value)} ({type(value).__name__}) in an expression; give an expression or a number"
    )


def binary(op: Operator, left: ExprLike, right: ExprLike) -> Expr:
    """`left op right` with constants and neutral elements folded; a Python number gets the other operand's dtype."""
    if isinstance(left, int | float):
        b = wrap(right, DType.INT64)
        a = Const(left) if type(b) is Var and type(left) is int else wrap(left, dtype_of(b))
    else:
        a = wrap(left, DType.INT64)
        b = wrap(right, dtype_of(a)) if isinstance(right, int | float) else wrap(right, DType.INT64)
    if isinstance(b, Const):
        if isinstance(a, Const):
            return _fold(op, a, b)
        if op in ("and", "or"):
            return b if bool(b.value) is (op == "or") else a
        if not b.dtype.is_float:
            if b.value == 0 and op in ("+", "-"):
                return a
            if b.value == 1 and op in ("*", "//"):
                return a
            if (b.value == 0 and op == "*") or (b.value == 1 and op == "%"):
                return Const(0, b.dtype)
    elif isinstance(a, Const):
        if op in ("and", "or"):
            return a if bool(a.value) is (op == "or") else b
        if not a.dtype.is_float:
            if a.value == 0 and op == "+":
                return b
            if a.value == 1 and op == "*":
                return b
            if a.value == 0 and op == "*":
                return a
    return Binary(op, a, b)


def _is_integer(value: Operand) -> bool:
    return dtype_of(value).is_integer  # pyright: ignore[reportArgumentType]


def _bits(operator: str, left: ExprLike, right: ExprLike) -> Expr:
    from .bitwise import bitwise

    return bitwise(operator, left, right)


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """The lesser of two values, as an expression."""
    return binary("min", a, b)


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """The greater of two values, as an expression."""
    return binary("max", a, b)


def equal(a: ExprLike, b: ExprLike) -> Expr:
    """The expression `a == b`."""
    return binary("==", a, b)


def all_of(*conditions: Expr) -> Expr:
    """The conjunction of conditions (TRUE if there are none)."""
    result: Expr = TRUE
    for condition in conditions:
        result = binary("and", result, condition)
    return result


def cast(value: Expr, dtype: DType) -> Expr:
    """`value` as `dtype`: unchanged if it has that type, folded if it is an integer constant that fits, else a Cast."""
    if dtype_of(value) is dtype:
        return value
    if isinstance(value, Const) and isinstance(value.value, int) and _holds(dtype, value.value):
        return Const(_represent(value.value, dtype), dtype)
    return Cast(value, dtype)


def select(condition: Expr, then: ExprLike, otherwise: ExprLike) -> Expr:
    """The expression `then if condition else otherwise`; if the condition is a constant, the chosen side itself."""
    a = wrap(then, dtype_of(otherwise) if isinstance(otherwise, Operand) else DType.INT64)  # type: ignore[arg-type]
    b = wrap(otherwise, dtype_of(a))
    if isinstance(condition, Const):
        return a if condition.value else b
    return Select(condition, a, b)


def _holds(dtype: DType, value: int) -> bool:
    """True if a cast of integer `value` to `dtype` folds: `dtype` is a float type, or its range includes `value`."""
    if dtype is DType.BOOL or dtype.is_code:
        return False
    return dtype.is_float or dtype.limits[0] <= value <= dtype.limits[1]


def _represent(value: int | float, dtype: DType) -> int | float:
    """A Python number as the value of a constant of `dtype`; raises OperandError if it does not fit."""
    if dtype.is_float:
        return _rounded(value, dtype)
    if dtype is DType.BOOL:
        return bool(value)
    if dtype.is_code:
        raise OperandError(f"{value} is not a value of {dtype}, which has codes instead of numbers")
    low, high = dtype.limits
    if not math.isfinite(value) or value != int(value) or not low <= value <= high:
        raise OperandError(f"{value} is not a value of {dtype}")
    return int(value)


def _rounded(value: int | float, dtype: DType) -> float:
    """The nearest value of a float type to `value`; infinite if that is beyond the type's greatest finite number."""
    try:
        number = float(value)
    except OverflowError:
        number = math.copysign(math.inf, value)
    with np.errstate(over="ignore"):
        return float(dtype.numpy.type(number))


def _fold(op: Operator, a: Const, b: Const) -> Expr:
    """An operator's result on two constants; float arithmetic and division by zero stay a Binary for run time."""
    x, y = a.value, b.value
    match op:
        case "<":
            return TRUE if x < y else FALSE
        case "<=":
            return TRUE if x <= y else FALSE
        case "==":
            return TRUE if x == y else FALSE
        case "!=":
            return TRUE if x != y else FALSE
        case "and":
            return TRUE if x and y else FALSE
        case "or":
            return TRUE if x or y else FALSE
    if a.dtype.is_float or not isinstance(x, int) or not isinstance(y, int):
        return Binary(op, a, b)
    match op:
        case "+":
            result = x + y
        case "-":
            result = x - y
        case "*":
            result = x * y
        case "//" | "%":
            if y == 0:
                return Binary(op, a, b)
            result = x // y if op == "//" else x % y
        case "min":
            result = min(x, y)
        case "max":
            result = max(x, y)
    return Const(a.dtype.wrap(result), a.dtype)
