"""The IR's rules. Passes and schedule primitives must keep them; the pipeline checks them after each pass.

The rules are on scoping, ranks, dtypes, unique names of loops and buffers, and bounds: every access is proven to be
inside its buffer. The proof uses loop ranges, a Select condition that guards the access, or the upper bound of a loop's
variable. Loops over GPU blocks and threads must nest as `grid` says.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.util.errors import CodeError

from .affine import LinearForm, linear_form
from .bounds import Ranges, form_interval, interval, loop_range
from .expr import COMPARISONS, FIRST, Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var, dtype_of
from .expression_printer import format_expr
from .facts import Facts, facts_of, lower_bound
from .printer import format_buffer, format_region, summarize
from .regions import operand_access
from .simplify import provably_equal
from .stmt import (
    AXES,
    LOOP_KINDS,
    Alloc,
    Assign,
    Barrier,
    Commit,
    Copy,
    For,
    Intrinsic,
    IntrinsicDeclaration,
    Program,
    Reduce,
    Region,
    Seq,
    Stmt,
    Wait,
)
from .types import DType


class VerifyError(CodeError):
    """Raised if a program breaks a rule of the IR; the message names the statement and the rule."""


def verify(program: Program) -> None:
    """Checks all rules on a program; raises VerifyError for the first broken rule."""
    verifier = _Verifier(program.name)
    for parameter in program.parameters:
        verifier.declare(parameter)
    verifier.statement(program.body, {}, frozenset())
    if verifier.on_grid:
        from .grid import grid_obstacle

        if (found := grid_obstacle(program)) is not None:
            raise VerifyError(f"{program.name}: {found[0]}")


def verify_declaration(declaration: IntrinsicDeclaration) -> None:
    """Checks the body of an intrinsic, in which FIRST may be used; raises VerifyError for the first broken rule."""
    verifier = _Verifier(f"intrinsic {declaration.name}")
    for parameter in declaration.parameters:
        verifier.declare(parameter)
    verifier.statement(declaration.body, {}, frozenset({FIRST.name}))


class _Verifier:
    """State of one check: the buffers in scope, the names seen, the current statement; `on_grid`: whether the program
    has loops over GPU blocks or threads.
    """

    __slots__ = ("_buffers", "_checked", "_declared", "_entered", "_loops", "_program", "_where", "on_grid")

    def __init__(self, program: str) -> None:
        self._program = program
        self._buffers: dict[str, Buffer] = {}
        self._declared: set[str] = set()
        self._loops: set[str] = set()
        self._checked: dict[str, IntrinsicDeclaration] = {}
        self._where: Stmt | None = None
        self._entered: Facts = ()
        self.on_grid = False

    def fail(self, reason: str) -> VerifyError:
        where = f"at `{summarize(self._where)}`: " if self._where is not None else ""
        return VerifyError(f"{self._program}: {where}{reason}")

    def declare(self, buffer: Buffer) -> None:
        if buffer.name in self._declared:
            raise self.fail(f"buffer {buffer.name} is declared twice")
        if not all(size > 0 for size in buffer.shape):
            raise self.fail(f"buffer {format_buffer(buffer)} has an empty dimension")
        self._declared.add(buffer.name)
        self._buffers[buffer.name] = buffer

    def statement(self, statement: Stmt, ranges: Ranges, scalars: frozenset[str]) -> None:
        if not isinstance(statement, Seq):
            self._where = statement
        match statement:
            case For(var=var, extent=extent, body=body, kind=kind):
                if var.name in self._loops or var.name in ranges:
                    raise self.fail(f"two loops are called {var.name}")
                if var.dtype is not DType.INT64:
                    raise self.fail(f"loop variable {var.name} must be int64, not {var.dtype}")
                if kind not in LOOP_KINDS:
                    raise self.fail(f"unknown loop kind {kind!r}")
                if kind in AXES:
                    self.on_grid = True
                self._loops.add(var.name)
                self.typed(extent, DType.INT64, "extent", ranges, scalars)
                around = self._entered
                if not isinstance(extent, Const):
                    self._entered = (*around, *_facts_in_loop(var, extent))
                self.statement(body, {**ranges, var.name: loop_range(extent)}, scalars)
                self._entered = around
            case Seq(statements=statements):
                for inner in statements:
                    self.statement(inner, ranges, scalars)
            case Alloc(buffer=buffer, body=body):
                self.declare(buffer)
                self.statement(body, ranges, scalars)
                del self._buffers[buffer.name]
            case Assign(buffer=buffer, indices=indices, value=value):
                self.access(buffer, indices, ranges, (), scalars)
                self.typed(value, buffer.dtype, "value", ranges, scalars)
            case Reduce(op=op, buffer=buffer, indices=indices, value=value, first=first):
                if op not in ("add", "max"):
                    raise self.fail(f"unknown reduction {op!r}")
                self.access(buffer, indices, ranges, (), scalars)
                self.typed(value, buffer.dtype, "value", ranges, scalars)
                if first is not None:
                    self.typed(first, DType.BOOL, "first", ranges, scalars)
            case Copy():
                self.copy(statement, ranges, scalars)
            case Intrinsic():
                self.intrinsic(statement, ranges, scalars)
            case Wait(pending=pending):
                if pending < 0:
                    raise self.fail("the number of copy groups that a wait leaves pending cannot be negative")
            case Commit() | Barrier():
                pass

    def copy(self, copy: Copy, ranges: Ranges, scalars: frozenset[str]) -> None:
        destination, source, pad = copy.destination, copy.source, copy.pad
        self.region(destination, ranges, scalars, inside=True)
        self.region(source, ranges, scalars, inside=pad is None)
        if not _widens(source.buffer.dtype, destination.buffer.dtype):
            raise self.fail(f"a copy cannot convert {source.buffer.dtype} to {destination.buffer.dtype}")
        if pad is not None and pad.dtype is not source.buffer.dtype:
            raise self.fail(f"a pad of {source.buffer.dtype} elements cannot have the type {pad.dtype}")
        to, of = wide(destination.extents), wide(source.extents)
        if len(to) != len(of) or not all(provably_equal(a, b, ranges) for a, b in zip(to, of, strict=True)):
            shapes = f"{format_region(destination)} and {format_region(source)}"
            raise self.fail(f"{shapes} do not have the same extents (apart from extents of 1)")

    def intrinsic(self, call: Intrinsic, ranges: Ranges, scalars: frozenset[str]) -> None:
        declaration = call.declaration
        if self._checked.get(declaration.name) is not declaration:
            verify_declaration(declaration)
            self._checked[declaration.name] = declaration
        if len(call.operands) != len(declaration.parameters):
            raise self.fail(
                f"has {len(call.operands)} operands, but {declaration.name} has {len(declaration.parameters)} "
                "parameters"
            )
        access = operand_access(declaration) if call.pad is not None else ()
        for position, (operand, formal) in enumerate(zip(call.operands, declaration.parameters, strict=True)):
            padded = bool(access) and not access[position][1]
            self.region(operand, ranges, scalars, inside=not padded)
            actual = operand.buffer
            if actual.dtype is not formal.dtype or actual.scope != formal.scope:
                raise self.fail(
                    f"operand {actual.name} is {actual.dtype} @ {actual.scope}, but parameter {formal.name} requires "
                    f"{formal.dtype} @ {formal.scope}"
                )
            sizes = [e.value if isinstance(e, Const) else None for e in wide(operand.extents)]
            if sizes != [size for size in formal.shape if size != 1]:
                raise self.fail(
                    f"operand {format_region(operand)} does not have the shape of {format_buffer(formal)}"
                )
        if call.first is not None:
            self.typed(call.first, DType.BOOL, "first", ranges, scalars)

    def region(self, region: Region, ranges: Ranges, scalars: frozenset[str], *, inside: bool) -> None:
        buffer = region.buffer
        self.visible(buffer)
        if not len(buffer.shape) == len(region.starts) == len(region.extents):
            raise self.fail(
                f"a region with {len(region.starts)} starts and {len(region.extents)} extents does not match the "
                f"dimensions of {format_buffer(buffer)}"
            )
        for size, start, extent in zip(buffer.shape, region.starts, region.extents, strict=True):
            self.typed(start, DType.INT64, "start", ranges, scalars)
            self.typed(extent, DType.INT64, "extent", ranges, scalars)
            if inside and not _plainly_inside(start, extent, ranges, size):
                form = linear_form(start)
                self.inside(form, form.plus(linear_form(extent)), ranges, (), size, region, buffer)

    def access(
        self, buffer: Buffer, indices: tuple[Expr, ...], ranges: Ranges, facts: Facts, scalars: frozenset[str]
    ) -> None:
        self.visible(buffer)
        if len(indices) != len(buffer.shape):
            raise self.fail(f"{len(indices)} indices do not match the dimensions of {format_buffer(buffer)}")
        for size, index in zip(buffer.shape, indices, strict=True):
            self.typed(index, DType.INT64, "index", ranges, scalars, facts)
            if not _plainly_inside(index, _ONE, ranges, size):
                form = linear_form(index)
                self.inside(form, form.offset(1), ranges, facts, size, index, buffer)

    def inside(
        self,
        start: LinearForm,
        stop: LinearForm,
        ranges: Ranges,
        facts: Facts,
        size: int,
        source: Region | Expr,
        buffer: Buffer,
    ) -> None:
        """Raises VerifyError (about `source`, `buffer`) unless start .. stop - 1 is provably within 0 .. size - 1."""
        known = (*self._entered, *facts)
        low = lower_bound(start, ranges, known)
        room = lower_bound(stop.times(-1).offset(size), ranges, known)
        end = None if room is None else size - room
        if low is None or low < 0 or end is None or end > size:
            text = format_region(source) if isinstance(source, Region) else f"index {format_expr(source)}"
            reach = f"{'-inf' if low is None else low} .. {'inf' if end is None else end - 1}"
            raise self.fail(f"{text} may reach {reach}, outside 0 .. {size - 1} of {format_buffer(buffer)}")

    def visible(self, buffer: Buffer) -> None:
        if self._buffers.get(buffer.name) != buffer:
            raise self.fail(f"buffer {format_buffer(buffer)} is not in scope")

    def typed(
        self,
        expr: Expr,
        dtype: DType,
        description: str,
        ranges: Ranges,
        scalars: frozenset[str],
        facts: Facts = (),
    ) -> None:
        if dtype_of(expr) is not dtype:
            raise self.fail(f"{description} {format_expr(expr)} is {dtype_of(expr)}, must be {dtype}")
        self.expr(expr, ranges, facts, scalars)

    def expr(self, expr: Expr, ranges: Ranges, facts: Facts, scalars: frozenset[str]) -> None:
        match expr:
            case Var(name=name):
                if name not in ranges and name not in scalars:
                    raise self.fail(f"variable {name} is not bound by a loop around it")
            case Const():
                pass
            case Binary(op=op, a=a, b=b):
                self.expr(a, ranges, facts, scalars)
                # The right side of a short-circuit "and" is evaluated only where the left one holds.
                self.expr(b, ranges, (*facts, *facts_of(a)) if op == "and" else facts, scalars)
                if dtype_of(a) is not dtype_of(b):
                    raise self.fail(f"{format_expr(expr)} mixes {dtype_of(a)} and {dtype_of(b)}")
                if dtype_of(a).is_code:
                    raise self.fail(
                        f"{format_expr(expr)} computes with {dtype_of(a)}, a type for storage only"
                    )
                boolean = dtype_of(a) is DType.BOOL
                if boolean != (op in ("and", "or")) and not (boolean and op in COMPARISONS):
                    raise self.fail(f"{format_expr(expr)}: operator {op} does not apply to {dtype_of(a)}")
            case Load(buffer=buffer, indices=indices):
                self.access(buffer, indices, ranges, facts, scalars)
            case Cast(value=value, dtype=dtype):
                if dtype.is_code or dtype_of(value).is_code:
                    raise self.fail(
                        f"{format_expr(expr)} converts from or to a type for storage only; use the function bitcast"
                    )
                self.expr(value, ranges, facts, scalars)
            case Select(condition=condition, then=then, otherwise=otherwise):
                self.typed(condition, DType.BOOL, "condition", ranges, scalars, facts)
                self.expr(then, ranges, (*facts, *facts_of(condition)), scalars)
                self.expr(otherwise, ranges, facts, scalars)
                if dtype_of(then) is not dtype_of(otherwise):
                    raise self.fail(f"{format_expr(expr)} mixes {dtype_of(then)} and {dtype_of(otherwise)}")
            case Call(arguments=arguments):
                for argument in arguments:
                    self.expr(argument, ranges, facts, scalars)


_ONE = Const(1)


def _plainly_inside(start: Expr, extent: Expr, ranges: Ranges, size: int) -> bool:
    """Fast path: whether ranges alone prove that start .. start + extent - 1 is within a dimension of `size`."""
    if not isinstance(extent, Const):
        return False
    held = interval(start, ranges) if type(start) is Var else form_interval(linear_form(start), ranges)
    return (
        held.low is not None and held.low >= 0 and held.high is not None and held.high + extent.value <= size
    )


def _widens(source: DType, destination: DType) -> bool:
    """Whether a copy between these types is allowed: equal types, or an integer type with all values of the source."""
    if source is destination:
        return True
    if not (source.is_integer and destination.is_integer):
        return False
    (low, high), (least, greatest) = source.limits, destination.limits
    return least <= low and high <= greatest


def wide(extents: Sequence[Expr]) -> list[Expr]:
    """The extents that are not the constant 1, in order; the two regions of a copy must agree in them."""
    return [e for e in extents if not (isinstance(e, Const) and e.value == 1)]


def _facts_in_loop(var: Var, extent: Expr) -> Facts:
    """Facts that hold in a loop's body: linear forms that are at least 0. They follow from var < extent and, for an
    extent a // c, from c * var < c * (a // c) <= a.
    """
    facts = [form.offset(-1).plus(linear_form(var), -1) for form in _least(extent)]
    for fact in tuple(facts):
        for atom, coefficient in fact.terms.items():
            match atom:
                case Binary(op="//", a=a, b=Const(value=int(divisor))) if divisor > 0 and coefficient > 0:
                    facts.append(fact.without(atom).times(divisor).plus(linear_form(a), coefficient))
    return tuple(facts)


def _least(extent: Expr) -> Facts:
    """The linear forms whose minimum is `extent`: several if `extent` is a min, else one."""
    match extent:
        case Binary(op="min", a=a, b=b):
            return *_least(a), *_least(b)
    return (linear_form(extent),)
