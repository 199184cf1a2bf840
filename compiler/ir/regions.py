"""Boxes (rectangles of elements) of buffers that statements touch, affine in the loops around the statements.

Legality, cache placement, DMA, tokens and race checks all use this analysis. Boxes are conservative (they contain every
touched element), and exact if an affine index touches contiguous elements: 2*y + k with y < 4, k < 3 gives start 0,
extent 9. Boxes are not clamped to the buffer: a guarded or padded read may start below 0 (see `clamp`).
"""

from __future__ import annotations

from collections.abc import Callable

from .affine import LinearForm, constant_difference, form_to_expr, linear_form
from .bounds import Interval, Ranges, loop_range
from .expr import Buffer, Const, Expr, Var, binary, maximum, minimum
from .extremes import extreme
from .simplify import simplify
from .stmt import Alloc, Assign, Copy, For, Intrinsic, IntrinsicDeclaration, Node, Reduce, Region, Seq
from .visit import children, expressions, free_vars, loads_in, walk

NO_RANGES: dict[str, Interval | Expr] = {}
_ONE = Const(1)

Box = tuple[list[Expr], list[Expr]]
"""A box (rectangle of elements): first and last index in each dimension, both included."""


def read_regions(
    node: Node,
    over: Ranges = NO_RANGES,
    ranges: Ranges = NO_RANGES,
    *,
    targets: bool = True,
    only: str | None = None,
) -> dict[Buffer, Region]:
    """The box (rectangle of elements) of every buffer that `node` reads, in all iterations of the loops inside `node`
    and of the loops in `over`.

    The result is in terms of the other loops around `node`; `ranges` are the ranges of these loops and only make the
    result more precise. Buffers allocated inside `node` are left out. A Reduce reads its target too, unless `targets`
    is False. `only` restricts the analysis to one buffer, by name.
    """
    return _collect(node, over, ranges, reads=True, targets=targets, only=only)


def write_regions(node: Node, over: Ranges = NO_RANGES, ranges: Ranges = NO_RANGES) -> dict[Buffer, Region]:
    """The box (rectangle of elements) of every buffer that `node` writes while the loops in `node` and in `over` run.
    Boxes are in terms of the other loops around `node`; `ranges`: the ranges of these other loops.
    """
    return _collect(node, over, ranges, reads=False, targets=True)


def operand_access(declaration: IntrinsicDeclaration) -> tuple[tuple[bool, bool], ...]:
    """For each formal buffer of an intrinsic: whether the body reads it, and whether the body writes it."""
    reads, writes = read_buffers(declaration.body), write_buffers(declaration.body)
    return tuple((p in reads, p in writes) for p in declaration.parameters)


def read_buffers(node: Node) -> frozenset[Buffer]:
    """All buffers that `node` reads: the keys of `read_regions`."""
    return _touched(node, reads=True)


def write_buffers(node: Node) -> frozenset[Buffer]:
    """All buffers that `node` writes: the keys of `write_regions`."""
    return _touched(node, reads=False)


def _touched(node: Node, *, reads: bool) -> frozenset[Buffer]:
    found: set[Buffer] = set()
    hidden: set[str] = set()
    for s in walk(node):
        if reads:
            found.update(e.buffer for expr in expressions(s) for e in loads_in(expr))
        match s:
            case Alloc(buffer=buffer):
                hidden.add(buffer.name)
            case Assign(buffer=buffer) if not reads:
                found.add(buffer)
            case Reduce(buffer=buffer):
                found.add(buffer)
            case Copy(destination=destination, source=source):
                found.add(source.buffer if reads else destination.buffer)
            case Intrinsic(declaration=declaration, operands=operands):
                for access, region in zip(operand_access(declaration), operands, strict=True):
                    if access[0 if reads else 1]:
                        found.add(region.buffer)
    return frozenset([buffer for buffer in found if buffer.name not in hidden])


def expr_bounds(expr: Expr, over: Ranges, ranges: Ranges = NO_RANGES) -> tuple[Expr, Expr] | None:
    """Least and greatest value of an index over the loops `over`, in terms of the other variables, whose ranges are
    `ranges`. None if they are unknown (an index read from memory).
    """
    if isinstance(expr, Const) or (isinstance(expr, Var) and expr.name not in over):
        return expr, expr
    form = linear_form(expr)
    low, high = form.constant, form.constant
    terms: dict[Expr, int] = {}
    for atom, coefficient in form.terms.items():
        held = over.get(atom.name) if isinstance(atom, Var) else None
        if held is None and isinstance(atom, Var):
            terms[atom] = coefficient
        elif isinstance(held, Interval) and held.low is not None and held.high is not None:
            ends = (held.low, held.high) if coefficient > 0 else (held.high, held.low)
            low, high = low + coefficient * ends[0], high + coefficient * ends[1]
        elif not isinstance(atom, Var) and _loads(atom):
            return None
        elif held is None and not free_vars(atom) & over.keys():
            terms[atom] = coefficient
        else:
            below, above = extreme(form, over, ranges, up=False), extreme(form, over, ranges, up=True)
            if below is None or above is None:
                return None
            return simplify(below, ranges), simplify(above, ranges)
    rest = form_to_expr(LinearForm(terms, low))
    return rest, rest if low == high else form_to_expr(LinearForm(terms, high))


def _collect(
    node: Node, over: Ranges, ranges: Ranges, *, reads: bool, targets: bool, only: str | None = None
) -> dict[Buffer, Region]:
    boxes: dict[Buffer, Box] = {}
    hidden: set[str] = set()

    def add(
        buffer: Buffer, starts: tuple[Expr, ...], extents: tuple[Expr, ...] | None, around: Ranges
    ) -> None:
        if only is not None and buffer.name != only:
            return
        box: Box = ([], [])
        for d, start in enumerate(starts):
            low_high = expr_bounds(start, around, ranges)
            if low_high is not None and extents is not None and extents[d] != _ONE:
                last = expr_bounds(_last(start, extents[d]), around, ranges)
                low_high = None if last is None else (low_high[0], last[1])
            low, high = low_high if low_high is not None else (Const(0), Const(buffer.shape[d] - 1))
            box[0].append(low)
            box[1].append(high)
        held = boxes.get(buffer)
        boxes[buffer] = box if held is None else hull(held, box, ranges)

    def loads(exprs: tuple[Expr, ...], around: Ranges) -> None:
        for expr in exprs:
            if type(expr) is not Var and type(expr) is not Const:
                for e in loads_in(expr):
                    add(e.buffer, e.indices, None, around)

    def visit(statement: Node, around: Ranges) -> None:
        if type(statement) is Seq:
            for child in statement.statements:
                visit(child, around)
            return
        if reads:
            loads((statement.extent,) if type(statement) is For else expressions(statement), around)
        match statement:
            case For(var=var, extent=extent, body=body):
                visit(body, {**around, var.name: loop_range(extent)})
            case Alloc(buffer=buffer, body=body):
                hidden.add(buffer.name)
                visit(body, around)
            case Assign(buffer=buffer, indices=indices):
                if not reads:
                    add(buffer, indices, None, around)
            case Reduce(buffer=buffer, indices=indices):
                if not reads or targets:
                    add(buffer, indices, None, around)
            case Copy(destination=destination, source=source):
                region = source if reads else destination
                add(region.buffer, region.starts, region.extents, around)
            case Intrinsic(declaration=declaration, operands=operands):
                formal = _collect(declaration.body, NO_RANGES, NO_RANGES, reads=reads, targets=targets)
                for parameter, region in zip(declaration.parameters, operands, strict=True):
                    if parameter in formal:
                        add(region.buffer, region.starts, region.extents, around)
            case _:
                for child in children(statement):
                    visit(child, around)

    visit(node, over)
    return {b: region_of(b, box, ranges) for b, box in boxes.items() if b.name not in hidden}


def _last(start: Expr, extent: Expr) -> Expr:
    return binary("-", binary("+", start, extent), 1)


def box_of(region: Region) -> Box:
    """The first and the last index of a region along each axis."""
    last = [_last(s, e) for s, e in zip(region.starts, region.extents, strict=True)]
    return list(region.starts), last


def hull(a: Box, b: Box, ranges: Ranges) -> Box:
    """The least box that contains the boxes a and b; `ranges` of the variables in them only simplify the result."""
    low = [_pick(x, y, ranges, minimum, -1) for x, y in zip(a[0], b[0], strict=True)]
    high = [_pick(x, y, ranges, maximum, 1) for x, y in zip(a[1], b[1], strict=True)]
    return low, high


def _pick(x: Expr, y: Expr, ranges: Ranges, combine: Callable[[Expr, Expr], Expr], sign: int) -> Expr:
    """Lesser (`sign` -1) or greater (1) of x and y if their difference is constant, else simplified `combine`(x, y)."""
    difference = constant_difference(x, y)
    if difference is not None:
        return x if difference * sign >= 0 else y
    return simplify(combine(x, y), ranges)


def region_of(buffer: Buffer, box: Box, ranges: Ranges) -> Region:
    """The region of `buffer` with the elements in `box`; `ranges` of its variables only simplify the extents."""
    extents: list[Expr] = []
    for low, high in zip(box[0], box[1], strict=True):
        difference = constant_difference(high, low)
        if difference is not None:
            extents.append(Const(difference + 1))
        else:
            extents.append(simplify(binary("+", binary("-", high, low), 1), ranges))
    return Region(buffer=buffer, starts=tuple(box[0]), extents=tuple(extents))


def _loads(expr: Expr) -> bool:
    return bool(loads_in(expr))
