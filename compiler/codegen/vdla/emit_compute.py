"""Emits GEMM, DEPTHWISE and TAPS: loops around the matrix intrinsic become two loop counts and a micro-op sequence."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

import vdla.isa.layout as layout
from vdla.isa.array_modes import MODES, ArrayMode
from vdla.isa.registers import registers_of

from ...ir.expr import FIRST, Expr, Var
from ...ir.stmt import Intrinsic
from ...ir.visit import free_vars
from .columns import (
    Column,
    Environment,
    Evaluator,
    Iterations,
    Rows,
    counted_loops,
    evaluator,
    group_rows,
    item,
    pick,
)
from .folds import PartsOfTiles
from .machine import Span
from .sweep import PaddedRows, PartedRows, hold_pads, rows_loops, sweep_order
from .weight_rows import rows_of_weights, whole_rows

if TYPE_CHECKING:
    from .constant_steps import Addresses
    from .emit import Chain, LayerEmitter

_MAX_ITERATIONS = (1 << 14) - 1

_OPERANDS: tuple[str, ...] = ("dst", "src", "wgt")
"""Names of the operands of an array operation in names of fields: accumulator, input, weight."""

_MODE = {mode.name: mode for mode in MODES}
"""The modes of the array by name; the intrinsic of a mode has the same name."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan by which a chain (nest of loops around a matrix intrinsic) becomes instructions; the same for all tiles.

    Each loop, given by its index, has one of three roles. `counted`: at most two data-parallel loops become loop counts
    of the instruction. `unrolled`: each iteration becomes micro-ops. `repeated`: each iteration gets an instruction of
    its own. Reasons are a micro-op sequence that would be too long, and address steps that differ between tiles (ring
    buffer) or between iterations of another loop. `reducing`: names of the loops over which sums run. `first`: the
    condition under which an operation overwrites its sum (None: always). `operands`: accumulator, input, weight.
    `factors`: for each operand the steps of its address along the counted loops. `sweeps`: whether TAPS operations go
    down the input row by row, and each also multiplies the input rows that preceding operations read. Then no loop down
    the rows is counted. `padded`: the rows of padding if each sweep can reuse the pad row that the preceding sweep read
    last, else None. `parts`: the parts into which GEMM divides weight tiles (`fold`).
    """

    operands: tuple[Addresses, ...]
    counted: tuple[int, ...]
    unrolled: tuple[int, ...]
    repeated: tuple[int, ...]
    reducing: frozenset[str]
    first: Evaluator | None
    factors: tuple[tuple[int, ...], ...]
    sweeps: bool = False
    padded: PaddedRows | None = None
    parts: PartsOfTiles | None = None


def emit_matrix(emitter: LayerEmitter, chain: Chain, leaf: Intrinsic, around: Iterations) -> None:
    """Emits instructions for the matrix intrinsic `leaf`, which is inside the loops of `chain`, for all iterations
    `around` of the loops outside `chain`. One iteration of the loops `Plan.repeated` becomes at most two instructions.
    """
    first = {name: item(value, 0) for name, value in around.values.items()}
    plan = _plan(emitter, chain, leaf, first, around)
    inner = around.fixed(chain.names)
    extents: list[Column] = [extent(inner.values) for _, extent in chain.loops]
    runs = np.ones(len(around), dtype=bool)
    for extent in extents:
        runs &= np.asarray(extent) > 0
    if not runs.all():
        inner, extents = inner.chosen(runs), [pick(extent, runs) for extent in extents]
    for i in plan.repeated:
        count, rows = extents[i], np.arange(len(inner))
        inner = inner.expanded(chain.names[i], count, chain.positions[i])
        extents = [pick(extent, np.repeat(rows, count)) for extent in extents]
    if len(inner):
        registers = _registers(plan, leaf)
        for register in registers_of(emitter.config):
            if register.name in registers:
                emitter.set_register(register.name, inner.position, registers[register.name])
        _emit_sums(emitter, plan, chain.names, extents, inner, _MODE[leaf.declaration.name])


def _registers(plan: Plan, leaf: Intrinsic) -> dict[str, dict[str, Column]]:
    """For each configuration register that the array reads while it executes the intrinsic `leaf`: the values of the
    register's fields. Some registers may not exist on the machine; `emit_matrix` skips these.
    """
    mode, given = _MODE[leaf.declaration.name], dict(leaf.attributes)
    registers: dict[str, dict[str, Column]] = {
        "ZERO": {name: int(given.get(name, 0)) for name in ("inp_zero", "wgt_zero")}
    }
    if plan.parts is not None:
        registers["FOLD"] = {"shape": plan.parts.shape}
    for other in MODES:
        if other.instruction == mode.instruction and other.register is not None:
            registers[other.register] = {"on": int(plan.sweeps)}
    return registers


def _emit_sums(
    emitter: LayerEmitter,
    plan: Plan,
    names: list[str],
    extents: list[Column],
    inner: Iterations,
    mode: ArrayMode,
) -> None:
    """Emits at most two instructions for each iteration in `inner`: one overwrites sums, and the other adds to sums.
    The iterations are those of the loops `Plan.repeated`, which no instruction counts or unrolls. `names`, `extents`:
    the variables and the extents of the chain's loops.
    """
    config = emitter.config
    row = mode.tile_weights(config)
    # Programs have whole weight tiles; a machine's tile may be a part of one, with as many rows.
    tiles = config.tile_parts
    beyond = {"inp": mode.vectors(config) - 1}
    bases = [access.base(inner.values) for access in plan.operands]
    starts = [access.offset(inner.values) for access in plan.operands]
    if not mode.by_lane:
        starts[2] = starts[2] * tiles
    # Depthwise weights are relocated by whole tiles; the micro-op gives the row inside the tile.
    tile, inside = divmod(starts[2], row)
    sequences = _sequences(emitter, plan, names, [extents[i] for i in plan.unrolled], inside, inner)

    steps = dict(zip(_OPERANDS, plan.factors, strict=True))
    common, moved = counted_loops([extents[i] for i in plan.counted], steps)
    relocation = [bases[0] + starts[0], bases[1] + starts[1], bases[2] * tiles + tile]
    emitter.set_register(
        "BASE",
        inner.position,
        {"acc_base": relocation[0], "inp_base": relocation[1], "wgt_base": relocation[2]},
    )
    spans: list[Span] = []
    for operand, space, base, far in zip(
        _OPERANDS, ("acc", "inp", "wgt"), relocation, sequences.reach, strict=True
    ):
        last = far + beyond.get(space, 0) + moved[operand]
        if space == "wgt":
            spans.append(Span(space, base // tiles, (base + last // row) // tiles + 1))
        else:
            spans.append(Span(space, base, base + last + 1))
    if plan.padded is not None:
        hold_pads(emitter, inner, common, spans)
    begins = True if plan.first is None else plan.first(inner.values)
    overwriting = sequences.overwriting * np.asarray(begins, dtype=np.int64)
    for low, high, overwrite in ((0 * overwriting, overwriting, 1), (overwriting, sequences.length, 0)):
        rows = np.flatnonzero(low < high)
        if not len(rows):
            continue
        fields = {**common, "uop_bgn": low, "uop_end": high, "overwrite": overwrite}
        acc, inp, wgt = (Span(s.space, pick(s.low, rows), pick(s.high, rows)) for s in spans)
        emitter.add(
            mode.instruction,
            inner.position[rows],
            {key: pick(value, rows) for key, value in fields.items()},
            reads=(inp, wgt),
            writes=(acc,),
            sequence=sequences.number[rows],
        )


def _plan(
    emitter: LayerEmitter, chain: Chain, leaf: Intrinsic, environment: Environment, around: Iterations
) -> Plan:
    accumulator, data, weight = leaf.operands
    mode = _MODE[leaf.declaration.name]
    sweeps = ("sweep", 1) in leaf.attributes
    if sweeps:
        filters = PartedRows(whole_rows(emitter, weight), data, emitter.config)
    elif mode.by_lane:
        filters = rows_of_weights(emitter, weight)
    else:
        filters = emitter.access(weight)
    operands = (emitter.access(accumulator), emitter.access(data), filters)
    names = [name for name, _ in chain.loops]
    parts, each = None, 1
    if mode.folds and emitter.config.tile_parts > 1:
        loops = {*names, *around.values}
        parts = PartsOfTiles(emitter.config, emitter.program, emitter.weights, leaf, loops)
        each = parts.count
    of_parts = frozenset() if parts is None else parts.named
    reducing = free_vars(leaf.first) & set(names) if leaf.first is not None else set()
    factors = {n: _factors(operands, chain, i, around) for i, n in enumerate(names) if n not in reducing}
    varying = [emitter.varying(name) for name in names]
    zero = {**environment, **dict.fromkeys(names, 0)}
    repeated = [i for i in range(len(names)) if _uneven(operands, chain, i, around)]
    down = rows_loops(data, names, reducing) if sweeps else frozenset[str]()
    candidates = [
        i
        for i, name in enumerate(names)
        if name not in reducing | down | of_parts and factors[name] is not None and i not in repeated
    ]
    candidates.sort(key=lambda i: (not varying[i], -chain.loops[i][1](zero), i))
    counted = tuple(sorted(i for i in candidates[:2] if chain.loops[i][1](zero) <= _MAX_ITERATIONS))
    unrolled = [i for i in range(len(names)) if i not in counted and i not in repeated]
    while each * prod(chain.loops[i][1](zero) for i in unrolled) > emitter.config.uop_depth:
        free = [i for i in unrolled if names[i] not in reducing]
        free.sort(key=lambda i: names[i] in down)
        if not free:
            break
        repeated.append(free[0])
        unrolled.remove(free[0])
    return Plan(
        operands=operands,
        counted=counted,
        unrolled=tuple(unrolled),
        repeated=tuple(repeated),
        reducing=frozenset(reducing),
        first=None if leaf.first is None else evaluator(_without(leaf.first)),
        factors=tuple(
            tuple((factors[names[i]] or (0, 0, 0))[k] * (each if k == 2 else 1) for i in counted)
            for k in range(3)
        ),
        sweeps=sweeps,
        padded=PaddedRows.of(dict(leaf.attributes), data, {names[i] for i in unrolled}, down)
        if sweeps
        else None,
        parts=parts,
    )


def _without(first: Expr) -> Expr:
    if isinstance(first, Var) and first == FIRST:
        raise ValueError("only the declaration of an intrinsic can use the variable `first`, not a call")
    return first


def _uneven(operands: tuple[Addresses, ...], chain: Chain, i: int, around: Iterations) -> bool:
    """Whether an operand's address steps in loop `i` differ between iterations of other loops (`chain`, `around`)."""
    name, extent = chain.loops[i]
    for access in operands:
        if access.slope(name) is not None:
            continue
        from .constant_steps import beside

        zero = beside(access, chain, name, around)
        origin = access.offset(zero)
        for k in range(1, int(np.max(extent(zero), initial=0))):
            moved = access.offset({**zero, name: k}) - origin
            if isinstance(moved, np.ndarray) and (moved != moved[:1]).any():
                return True
    return False


def _factors(
    operands: tuple[Addresses, ...], chain: Chain, i: int, around: Iterations
) -> tuple[int, int, int] | None:
    """The step of each operand's address along loop `i` of a chain, in the first iteration of `around` and with the
    chain's other loops at 0. None if a step is negative or varies.
    """
    name, extent = chain.loops[i]
    zero = {loop: item(value, 0) for loop, value in around.fixed(chain.names).values.items()}
    iterations = np.arange(max(3, int(np.max(extent(around.values)))))
    steps: list[int] = []
    for access in operands:
        if (slope := access.slope(name)) is None:
            moves = np.diff(access.offset({**zero, name: iterations}))
            slope = int(moves[0])
            if (moves != slope).any():
                return None
        if slope < 0:
            return None
        steps.append(slope)
    return steps[0], steps[1], steps[2]


@dataclass(frozen=True, slots=True, eq=False)
class _Sequences:
    """The micro-op sequence of each iteration of the repeated loops (loops that instructions neither count nor unroll).
    `number`: number of the sequence in the layer. `length`: number of micro-ops. `overwriting`: number of micro-ops
    that start a sum; these come first.

    `reach`: for each operand the largest index in the sequence.
    """

    number: Rows
    length: Rows
    overwriting: Rows
    reach: tuple[Column, Column, Column]


def _sequences(
    emitter: LayerEmitter,
    plan: Plan,
    names: list[str],
    extents: list[Column],
    inside: Column,
    inner: Iterations,
) -> _Sequences:
    """The micro-op sequence of each iteration in `inner`. `names`: the chain's loops. `inside`: row of a weight tile
    where the iteration's weights begin. Iterations share a sequence if their row, `extents` and (with `fold`) tile are
    equal.
    """
    tile = () if plan.parts is None else plan.parts.tile(inner.values)
    groups = group_rows([*extents, inside, *tile], len(inner))
    unrolled = [names[i] for i in plan.unrolled]
    table: list[tuple[int, ...]] = []
    for first in groups.first.tolist():
        environment = {name: item(value, first) for name, value in inner.values.items()}
        sizes = tuple([item(extent, first) for extent in extents])
        words, overwriting, reach = _unroll(emitter, plan, unrolled, sizes, environment, item(inside, first))
        table.append((emitter.sequence(words), len(words), overwriting, *reach))
    number, length, overwriting, acc, inp, wgt = np.array(table, dtype=np.int64).T[:, groups.of]
    return _Sequences(number, length, overwriting, (acc, inp, wgt))


def _unroll(
    emitter: LayerEmitter,
    plan: Plan,
    names: list[str],
    extents: tuple[int, ...],
    environment: Environment,
    first_row: int,
) -> tuple[np.ndarray, int, tuple[int, int, int]]:
    """Unrolls one iteration of the repeated loops (loops that instructions neither count nor unroll). Returns
    (micro-ops, number of micro-ops that start a sum, largest index of each operand); micro-ops that start a sum come
    first. `names`, `extents`: the unrolled loops. `first_row`: the row at which weight indices start.
    """
    grid = (
        [axis.ravel() for axis in np.indices(extents, dtype=np.int64)]
        if extents
        else [np.zeros(1, dtype=np.int64)]
    )
    count = len(grid[0])
    inner = {**environment, **dict(zip(names, grid, strict=False))}
    zero = environment
    indices = [
        np.broadcast_to(np.asarray(access.offset(inner) - access.offset(zero), dtype=np.int64), (count,))
        for access in plan.operands
    ]
    indices[2] = indices[2] + first_row
    starting = np.ones(count, dtype=bool)
    for name, axis in zip(names, grid, strict=False):
        if name in plan.reducing:
            starting &= axis == 0
    if plan.sweeps:
        pads = None if plan.padded is None else plan.padded.pads(inner, count)
        indices, starting = sweep_order(emitter.config, indices, starting, pads)
    if plan.parts is not None:
        indices, starting = plan.parts.operations(indices, starting, inner)
    chosen = np.argsort(~starting, kind="stable")
    words = layout.encode_uops(emitter.config, *(item[chosen] for item in indices))
    reach = tuple(int(item.max()) for item in indices)
    return words, int(starting.sum()), (reach[0], reach[1], reach[2])
