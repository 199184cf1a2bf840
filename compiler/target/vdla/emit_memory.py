"""Loads and stores: copies, patches and post-processing stores become memory instructions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.expr import Const
from ...ir.stmt import Assign, Copy, Intrinsic, Region
from ...passes.split_copies import ELEMENT_DIMENSIONS
from .access import Access
from .machine import Span

if TYPE_CHECKING:
    from .emit import Chain, LayerEmitter

_MAX_PAD = 15
_FLAGS = ("combine", "operand", "multiply", "swap", "unsigned")


def _iterate(chain: Chain, environment: dict[str, int], skip: frozenset[str] = frozenset()):
    """Every combination of the chain's loops but `skip` (those at 0), as an environment."""
    inner = dict(environment)

    def visit(depth: int):
        if depth == len(chain.loops):
            yield inner
            return
        name, extent = chain.loops[depth]
        if name in skip:
            inner[name] = 0
            yield from visit(depth + 1)
            return
        for value in range(extent(inner)):
            inner[name] = value
            yield from visit(depth + 1)

    yield from visit(0)


# --- copies ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Axis:
    """One dimension of a copy in elements: extent (pads included), strides, clipped source start, pads."""

    extent: int
    to: int
    origin: int
    before: int
    after: int

    @property
    def data(self) -> int:
        return self.extent - self.before - self.after


def emit_copy(emitter: LayerEmitter, chain: Chain, leaf: Copy, environment: dict[str, int]) -> None:
    """DRAM to scratchpad: LOAD.INP, LOAD.WGT, LOAD.ACC8 or LOAD.PAR, two-dimensional and padded."""
    for inner in _iterate(chain, environment):
        _emit_box(emitter, leaf, inner)


def _emit_box(emitter: LayerEmitter, leaf: Copy, environment: dict[str, int]) -> None:
    destination, source = emitter.access(leaf.destination), emitter.access(leaf.source)
    target = destination.base(environment) + destination.offset(environment)
    scope = leaf.destination.buffer.scope
    kind = {"inp": "INP", "wgt": "WGT", "acc": "ACC8", "par": "PAR"}[scope]
    moving_to = [(e(environment), s) for e, s in zip(destination.extents, destination.strides, strict=True)]
    if any(extent <= 0 for extent, _ in moving_to):
        return
    moving_to = [pair for pair in moving_to if pair[0] != 1]
    moving_from = []
    origin = 0
    for start, extent, stride, size in zip(
        source.starts, source.extents, source.strides, source.sizes, strict=True
    ):
        first, count = start(environment), extent(environment)
        before = min(max(0, -first), count)
        after = min(max(0, first + count - size), count - before)
        origin += min(max(first, 0), size - 1) * stride
        if count != 1 or before or after:
            moving_from.append((count, stride, before, after))
    # A dimension of one padded element has no partner of extent above 1: give it one.
    axes = _match(moving_to, moving_from)
    if scope in ("inp", "acc"):
        value = int(leaf.pad.value) if isinstance(leaf.pad, Const) else 0
        if any(axis.before or axis.after for axis in axes):
            emitter.set_register("LOAD_PAD" if scope == "inp" else "COMPUTE_PAD", pad_value=value)
    dram = emitter.dram(leaf.source.buffer)
    element = emitter.config.element_bytes(kind.lower())
    _emit_axes(emitter, kind, scope, target, dram.address // element + origin, _merge(axes))


def _match(moving_to: list[tuple[int, int]], moving_from: list[tuple[int, int, int, int]]) -> list[_Axis]:
    axes: list[_Axis] = []
    left = list(moving_to)
    for count, stride, before, after in moving_from:
        if count == 1:
            axes.append(_Axis(1, 0, stride, before, after))
            continue
        extent, to = left.pop(0)
        if extent != count:
            raise ValueError(f"copy extents differ: {extent} and {count}")
        axes.append(_Axis(count, to, stride, before, after))
    if left:
        raise ValueError("copy dimensions differ")
    return axes


def _merge(axes: list[_Axis]) -> list[_Axis]:
    """Neighbours that are contiguous on both sides and unpadded, as one."""
    merged: list[_Axis] = []
    for axis in axes:
        if merged:
            outer = merged[-1]
            dense = outer.to == axis.extent * axis.to and outer.origin == axis.extent * axis.origin
            if dense and not (outer.before or outer.after or axis.before or axis.after):
                merged[-1] = _Axis(outer.extent * axis.extent, axis.to, axis.origin, 0, 0)
                continue
        merged.append(axis)
    return merged


def _emit_axes(
    emitter: LayerEmitter, kind: str, scope: str, target: int, origin: int, axes: list[_Axis]
) -> None:
    # x must be dense on both sides; y's rows must be dense in the scratchpad; all else is unrolled.
    x = _Axis(1, 1, 1, 0, 0)
    rest = list(axes)
    if rest and rest[-1].origin == 1 and rest[-1].to in (0, 1):
        x = rest.pop()
    elif rest and rest[-1].extent == 1:
        pass
    y = _Axis(1, x.extent, 1, 0, 0)
    if rest and (rest[-1].to == x.extent or rest[-1].extent == 1) and rest[-1].origin < 1 << 16:
        y = rest.pop()
    positions = [(target, origin, True)]
    for axis in rest:
        new = []
        for base, start, real in positions:
            for i in range(axis.extent):
                inside = axis.before <= i < axis.extent - axis.after
                moved = start + max(0, i - axis.before) * axis.origin
                new.append((base + i * axis.to, moved if inside else start, real and inside))
        positions = new
    for base, start, real in positions:
        if not real:
            _emit_pads(emitter, kind, scope, base, start, y.extent, x.extent)
        else:
            _emit_load(emitter, kind, scope, base, start, y, x)


def _emit_pads(
    emitter: LayerEmitter, kind: str, scope: str, target: int, origin: int, rows: int, width: int
) -> None:
    """`rows` rows of pad elements: loads without data rows."""
    while rows > 0:
        count = min(rows, 2 * _MAX_PAD)
        first = min(count, _MAX_PAD)
        emitter.add(
            f"LOAD.{kind}",
            writes=((scope, target, target + count * width),),
            sram_base=target,
            dram_base=origin,
            y_size=0,
            x_size=width,
            x_stride=width,
            y_pad_0=first,
            y_pad_1=count - first,
        )
        target += count * width
        rows -= count


def _emit_load(
    emitter: LayerEmitter, kind: str, scope: str, target: int, origin: int, y: _Axis, x: _Axis
) -> None:
    width = x.extent
    if y.data <= 0 or x.data <= 0:
        _emit_pads(emitter, kind, scope, target, origin, y.extent, width)
        return
    if x.before > _MAX_PAD or x.after > _MAX_PAD:
        _emit_wide_pads(emitter, kind, scope, target, origin, y, x)
        return
    above = min(y.before, _MAX_PAD)
    below = min(y.after, _MAX_PAD)
    if y.before > above:
        _emit_pads(emitter, kind, scope, target, origin, y.before - above, width)
        target += (y.before - above) * width
    rows, columns = y.data, x.data
    stride = y.origin if rows > 1 else columns
    element = emitter.config.element_bytes(kind.lower())
    reads = emitter.emission.dram_span(origin * element, ((rows - 1) * stride + columns) * element)
    height = above + rows + below
    emitter.add(
        f"LOAD.{kind}",
        reads=reads,
        writes=((scope, target, target + height * width),),
        sram_base=target,
        dram_base=origin,
        y_size=rows,
        x_size=columns,
        x_stride=stride,
        y_pad_0=above,
        y_pad_1=below,
        x_pad_0=x.before,
        x_pad_1=x.after,
    )
    if y.after > below:
        _emit_pads(emitter, kind, scope, target + height * width, origin, y.after - below, width)


def _emit_wide_pads(
    emitter: LayerEmitter, kind: str, scope: str, target: int, origin: int, y: _Axis, x: _Axis
) -> None:
    """Rows with more columns of pads than one load has: row by row, what lies between two rows on its own."""
    left, right = min(x.before, _MAX_PAD), min(x.after, _MAX_PAD)
    before, after = x.before - left, x.after - right
    row = _Axis(left + x.data + right, 1, 1, left, right)
    line = _Axis(1, 0, 1, 0, 0)

    def pads(count: int) -> None:
        nonlocal target
        if count > 0:
            _emit_pads(emitter, kind, scope, target, origin, 1, count)
            target += count

    pads(y.before * x.extent + before)
    for number in range(y.data):
        if number > 0:
            pads(after + before)
        _emit_load(emitter, kind, scope, target, origin + number * y.origin, line, row)
        target += row.extent
    pads(after + y.after * x.extent)


def emit_fill(emitter: LayerEmitter, chain: Chain, leaf: Assign, environment: dict[str, int]) -> None:
    """A constant in accumulators: loads of nothing but pads; a dense innermost loop becomes one instruction."""
    if leaf.buffer.scope != "acc" or not isinstance(leaf.value, Const):
        raise ValueError(f"{leaf.name}: only constants can be assigned, and only to accumulators")
    lanes = chain.loops[-2:]
    outer = chain.loops[:-2]
    region = Region(buffer=leaf.buffer, starts=leaf.indices, extents=(Const(1),) * len(leaf.indices))
    access = Access(region, emitter.slots, ELEMENT_DIMENSIONS)
    zero = {**environment, **{name: 0 for name, _ in chain.loops}}
    dense = outer[-1][0] if outer and _steps(access, zero, outer[-1][0]) == [1] else None
    skip = frozenset([name for name, _ in lanes] + ([dense] if dense else []))
    for inner in _iterate(chain, environment, skip):
        width = outer[-1][1](inner) if dense else 1
        if width > 0:
            emitter.set_register("COMPUTE_PAD", pad_value=int(leaf.value.value))
            _emit_pads(emitter, "ACC", "acc", access.base(inner) + access.offset(inner), 0, 1, width)


# --- patches --------------------------------------------------------------------------------------------


def emit_patch(emitter: LayerEmitter, chain: Chain, leaf: Intrinsic, environment: dict[str, int]) -> None:
    """One LOAD.PATCH for each row of output positions: the innermost loop runs over patches of a row."""
    to = emitter.access(leaf.operands[0])
    batch_row = emitter.evaluator(leaf.operands[0].starts[-2])
    origin = emitter.access(leaf.operands[1], element_dimensions=0)
    pad = int(leaf.pad.value) if leaf.pad is not None else 0
    patches_loop, patches = chain.loops[-1]
    dram = emitter.dram(leaf.operands[1].buffer)
    image_rows, row_bytes = origin.sizes[1], origin.sizes[2]
    for inner in _iterate(chain, environment, frozenset({patches_loop})):
        count = patches(inner)
        if count <= 0:
            continue
        following = {**inner, patches_loop: 1}
        target = to.base(inner) + to.offset(inner)
        pitch = to.offset(following) - to.offset(inner) if count > 1 else 0
        vectors = to.extents[-1](inner)
        image, row, column = (start(inner) for start in origin.starts)
        rows, run = origin.extents[1](inner), origin.extents[2](inner)
        step = origin.starts[2](following) - column if count > 1 else 0
        above = min(max(0, -row), rows)
        below = min(max(0, row + rows - image_rows), rows - above)
        skipped = max(column, 0)
        emitter.set_register("LOAD_PAD", pad_value=pad)
        emitter.set_register(
            "PATCH",
            run=run,
            step=step,
            pitch=pitch,
            pad_left=max(0, -column),
            row_bytes=max(0, row_bytes - skipped),
            batch_row=batch_row(inner),
        )
        data_rows = rows - above - below
        address = dram.address + (image * image_rows + max(row, 0)) * row_bytes + skipped
        emitter.add(
            "LOAD.PATCH",
            reads=emitter.emission.dram_span(address, max(data_rows * row_bytes, 1)),
            writes=(("inp", target, target + (count - 1) * pitch + vectors),),
            sram_base=target,
            dram_base=address,
            y_size=data_rows,
            x_size=count,
            x_stride=row_bytes,
            y_pad_0=above,
            y_pad_1=below,
        )


# --- post-processing stores -----------------------------------------------------------------------------


def emit_post(emitter: LayerEmitter, chain: Chain, leaf: Intrinsic, environment: dict[str, int]) -> None:
    """STORE.POST: two of the loops become its rows and columns, the others are unrolled."""
    attributes = {name: int(value) for name, value in leaf.attributes}
    out, accumulators, parameters, operand = _operands(emitter, leaf)
    accumulator = accumulators[0]
    x_loop, y_loop = _rows_and_columns(chain, environment, out, accumulator, parameters)
    folded = frozenset(name for name in (x_loop, y_loop) if name is not None)
    extents = dict(chain.loops)
    config = emitter.config
    element = config.out_bytes
    dram = emitter.dram(out.buffer)
    _set_stages(emitter, attributes)
    for inner in _iterate(chain, environment, folded):
        columns = extents[x_loop](inner) if x_loop is not None else 1
        rows = extents[y_loop](inner) if y_loop is not None else 1
        if rows <= 0 or columns <= 0:
            continue
        first, start = accumulator.base(inner) + accumulator.offset(inner), out.offset(inner)
        steps = _steps(accumulator, inner, y_loop, x_loop)
        stride = _steps(out, inner, y_loop, x_loop)[0] if rows > 1 else columns
        window_rows, window_columns = _window(accumulator, inner)
        row_stride, column_stride = _window_strides(accumulator)
        corners = [first]
        if len(accumulators) > 1:
            window_rows = len(accumulators)
            corners = [row.base(inner) + row.offset(inner) for row in accumulators]
            row_stride = (corners[1] - first) % config.acc_depth
            if any((corner - first - r * row_stride) % config.acc_depth for r, corner in enumerate(corners)):
                raise ValueError("the rows of a window must lie at one distance from each other")
        emitter.set_register("ADDRESS", y_stride=steps[0], x_stride=steps[1])
        emitter.set_register(
            "WINDOW",
            rows_minus_1=window_rows - 1,
            columns_minus_1=window_columns - 1,
            row_stride=row_stride if window_rows > 1 else 0,
            column_stride=column_stride if window_columns > 1 else 0,
            sum=attributes["sum"] if window_rows * window_columns > 1 else 0,
        )
        base = dram.address // element + start
        size = ((rows - 1) * stride + columns) * element
        reach = (rows - 1) * steps[0] + (columns - 1) * steps[1] + (window_columns - 1) * column_stride
        if len(accumulators) == 1:
            reach += (window_rows - 1) * row_stride
        reads: list[Span] = [("acc", corner, corner + reach + 1) for corner in corners]
        entry = parameters.base(inner) + parameters.offset(inner)
        reads.append(("par", entry, entry + 1))
        fields = {name: attributes[name] for name in _FLAGS if attributes.get(name)}
        if operand is not None:
            other = emitter.dram(operand.buffer).address // element + operand.offset(inner)
            emitter.set_register("OPERAND", delta=other - base)
            reads.extend(emitter.emission.dram_span(other * element, size))
        emitter.add(
            "STORE.POST",
            reads=tuple(reads),
            writes=emitter.emission.dram_span(base * element, size),
            sram_base=first,
            dram_base=base,
            par_index=entry,
            y_size=rows,
            x_size=columns,
            x_stride=stride,
            **fields,
        )


def _operands(emitter: LayerEmitter, leaf: Intrinsic) -> tuple[Access, list[Access], Access, Access | None]:
    """Output, accumulator windows (one, or one a row), parameters and operand of a post-processing."""
    by_formal = {
        formal.name: emitter.access(operand)
        for formal, operand in zip(leaf.declaration.parameters, leaf.operands, strict=True)
    }
    accumulators = [access for name, access in by_formal.items() if name.split(".")[0] == "acc"]
    return by_formal["out"], accumulators, by_formal["par"], by_formal.get("operand")


def _set_stages(emitter: LayerEmitter, attributes: dict[str, int]) -> None:
    emitter.set_register(
        "REQUANTIZE",
        zero_point=attributes["zero_point"],
        low=attributes["low"],
        high=attributes["high"],
        operand_zero_point=attributes.get("operand_zero_point", 0),
    )
    if attributes.get("combine"):
        emitter.set_register(
            "RATIO", ratio_self=attributes["ratio_self"], ratio_operand=attributes["ratio_operand"]
        )
        emitter.set_register(
            "COMBINE",
            offset=attributes["offset"],
            low=attributes["combine_low"],
            high=attributes["combine_high"],
            zero_point=attributes["combine_zero_point"],
        )


def _steps(access: Access, environment: dict[str, int], *loops: str | None) -> list[int]:
    origin = access.offset(environment)
    return [
        0 if name is None else access.offset({**environment, name: environment[name] + 1}) - origin
        for name in loops
    ]


def _rows_and_columns(
    chain: Chain, environment: dict[str, int], out: Access, accumulator: Access, parameters: Access
) -> tuple[str | None, str | None]:
    """The loops that become columns (dense in DRAM) and rows; both leave the parameter entry alone."""
    zero = {**environment, **{name: 0 for name, _ in chain.loops}}
    free = []
    for name, extent in chain.loops:
        if extent(zero) > 1 and _steps(parameters, zero, name)[0] == 0:
            free.append((name, _steps(out, zero, name)[0]))
    columns = next((name for name, step in reversed(free) if step == 1), None)
    rest = [(name, step) for name, step in free if name != columns and step < 1 << 16]
    rows = rest[-1][0] if rest else None
    return columns, rows


def _window(accumulator: Access, environment: dict[str, int]) -> tuple[int, int]:
    """Rows and columns of the accumulator window: the operand's last two leading extents."""
    extents = [extent(environment) for extent in accumulator.extents]
    if len(extents) < 2:
        return 1, 1
    return extents[-2], extents[-1]


def _window_strides(accumulator: Access) -> tuple[int, int]:
    if len(accumulator.strides) < 2:
        return 0, 0
    return accumulator.strides[-2], accumulator.strides[-1]
