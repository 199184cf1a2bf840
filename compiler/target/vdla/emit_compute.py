"""GEMM and DEPTHWISE: loops around the matrix intrinsic become two loop counts and a micro-op sequence."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from vdla.isa import layout

from ...ir.expr import FIRST, Expr, Var
from ...ir.stmt import Intrinsic
from ...ir.visit import free_vars
from .evaluate import Environment, Evaluator, compile_index
from .machine import Span
from .micro_ops import Sequence

if TYPE_CHECKING:
    from .access import Access
    from .emit import Chain, LayerEmitter

_MAX_ITERATIONS = (1 << 14) - 1


@dataclass(frozen=True, slots=True)
class Plan:
    """What is the same for every tile: which loops count, which unroll into micro-ops, which repeat the instruction.

    `counted` are at most two data-parallel loops, `unrolled` the others, of which `reducing` occur in the
    `first` predicate; data-parallel ones that would make the sequence too long are `repeated`. `operands` are
    accumulator, input, weight.
    """

    operands: tuple[Access, Access, Access]
    counted: tuple[int, ...]
    unrolled: tuple[int, ...]
    repeated: tuple[int, ...]
    reducing: frozenset[str]
    first: Evaluator | None
    factors: tuple[tuple[int, ...], ...]
    sequences: dict[tuple[int, ...], tuple[np.ndarray, int, tuple[int, int, int]]]


def emit_matrix(emitter: LayerEmitter, chain: Chain, leaf: Intrinsic, environment: dict[str, int]) -> None:
    """Emit the instructions of one tile's sums: at most two for each position of the repeated loops."""
    plan = emitter.plans.get(id(leaf))
    if not isinstance(plan, Plan):
        plan = emitter.plans[id(leaf)] = _plan(emitter, chain, leaf, environment)
    inner: dict[str, int] = dict(environment)
    for name, _ in chain.loops:
        inner[name] = 0
    extents: list[int] = []
    for _, extent in chain.loops:
        extents.append(extent(inner))
    if min(extents, default=1) <= 0:
        return
    depthwise = leaf.declaration.name == "depthwise"
    for position in np.ndindex(*(extents[i] for i in plan.repeated)):
        for i, value in zip(plan.repeated, position, strict=True):
            inner[chain.loops[i][0]] = value
        _emit_sums(emitter, plan, [name for name, _ in chain.loops], extents, inner, depthwise)


def _emit_sums(
    emitter: LayerEmitter,
    plan: Plan,
    names: list[str],
    extents: list[int],
    inner: dict[str, int],
    depthwise: bool,
) -> None:
    """The instructions of one position, the first of which overwrites."""
    row = emitter.config.block_out if depthwise else 1
    bases = [access.base(inner) for access in plan.operands]
    starts = [access.offset(inner) for access in plan.operands]
    # Depthwise weights are relocated by whole tiles; the row inside the tile is the micro-ops' part.
    tile, inside = divmod(starts[2], row)
    sizes = tuple(extents[i] for i in plan.unrolled)
    key = (*sizes, inside)
    if key not in plan.sequences:
        unrolled = [names[i] for i in plan.unrolled]
        plan.sequences[key] = _unroll(emitter, plan, unrolled, sizes, inner, inside)
    words, overwriting, reach = plan.sequences[key]
    sequence = _place(emitter, words)

    counts = [extents[i] for i in plan.counted]
    # A loop that runs once adds nothing, and its factor might be as large as the memory.
    factors = [
        [factor if count > 1 else 0 for factor, count in zip(item, counts, strict=True)]
        for item in plan.factors
    ]
    while len(counts) < 2:
        counts.insert(0, 1)
    for item in factors:
        while len(item) < 2:
            item.insert(0, 0)
    relocation = [bases[0] + starts[0], bases[1] + starts[1], bases[2] + tile]
    emitter.set_register("BASE", acc_base=relocation[0], inp_base=relocation[1], wgt_base=relocation[2])

    spans: list[Span] = []
    for space, base, item, far in zip(("acc", "inp", "wgt"), relocation, factors, reach, strict=True):
        last = far + sum(factor * (count - 1) for factor, count in zip(item, counts, strict=True))
        spans.append((space, base, base + (last // row if space == "wgt" else last) + 1))
    common = {
        "iter_out": counts[0],
        "iter_in": counts[1],
        "dst_factor_out": factors[0][0],
        "dst_factor_in": factors[0][1],
        "src_factor_out": factors[1][0],
        "src_factor_in": factors[1][1],
        "wgt_factor_out": factors[2][0],
        "wgt_factor_in": factors[2][1],
    }
    name = "DEPTHWISE" if depthwise else "GEMM"
    begins = plan.first is None or bool(plan.first(inner))
    if not begins:
        overwriting = 0
    for low, high, overwrite in (
        (sequence.first, sequence.first + overwriting, 1),
        (sequence.first + overwriting, sequence.last, 0),
    ):
        if low == high:
            continue
        fields = {**common, "uop_bgn": low, "uop_end": high}
        if overwrite:
            fields["overwrite"] = 1
        emitter.add(name, reads=(spans[1], spans[2]), writes=(spans[0],), **fields)


def _plan(emitter: LayerEmitter, chain: Chain, leaf: Intrinsic, environment: Environment) -> Plan:
    accumulator, data, weight = leaf.operands
    if leaf.declaration.name == "depthwise":
        # Its weights count in rows of a tile, all else in whole elements.
        filters = emitter.access(weight, element_dimensions=1, least=emitter.config.block_out)
    else:
        filters = emitter.access(weight)
    operands = (emitter.access(accumulator), emitter.access(data), filters)
    names = [name for name, _ in chain.loops]
    reducing = free_vars(leaf.first) & set(names) if leaf.first is not None else set()
    factors = {name: _factors(operands, names, name, environment) for name in names if name not in reducing}
    varying = [emitter.varying(name) for name in names]
    zero = {**environment, **dict.fromkeys(names, 0)}
    candidates = [i for i, name in enumerate(names) if name not in reducing and factors[name] is not None]
    candidates.sort(key=lambda i: (not varying[i], -chain.loops[i][1](zero), i))
    counted = tuple(sorted(i for i in candidates[:2] if chain.loops[i][1](zero) <= _MAX_ITERATIONS))
    unrolled = [i for i in range(len(names)) if i not in counted]
    repeated: list[int] = []
    while prod(chain.loops[i][1](zero) for i in unrolled) > emitter.config.uop_depth:
        free = [i for i in unrolled if names[i] not in reducing]
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
        first=None if leaf.first is None else compile_index(_without(leaf.first)),
        factors=tuple(tuple((factors[names[i]] or (0, 0, 0))[k] for i in counted) for k in range(3)),
        sequences={},
    )


def _without(first: Expr) -> Expr:
    if isinstance(first, Var) and first == FIRST:
        raise ValueError("an intrinsic outside a declaration cannot use the formal `first`")
    return first


def _factors(
    operands: tuple[Access, Access, Access], names: list[str], name: str, environment: Environment
) -> tuple[int, int, int] | None:
    """What one step of loop `name` adds to the three addresses, or None where that is not constant."""
    zero = {**environment, **dict.fromkeys(names, 0)}
    one, two = {**zero, name: 1}, {**zero, name: 2}
    steps: list[int] = []
    for access in operands:
        origin = access.offset(zero)
        step = access.offset(one) - origin
        if access.offset(two) - origin != 2 * step or step < 0:
            return None
        steps.append(step)
    return steps[0], steps[1], steps[2]


def _unroll(
    emitter: LayerEmitter,
    plan: Plan,
    names: list[str],
    extents: tuple[int, ...],
    environment: Environment,
    first_row: int,
) -> tuple[np.ndarray, int, tuple[int, int, int]]:
    """Micro-ops of one position: words, how many start a sum (they come first), furthest index of each operand.

    Weight indices count from `first_row` on.
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
    chosen = np.argsort(~starting, kind="stable")
    words = layout.encode_uops(emitter.config, *(item[chosen] for item in indices))
    reach = tuple(int(item.max()) for item in indices)
    return words, int(starting.sum()), (reach[0], reach[1], reach[2])


def _place(emitter: LayerEmitter, words: np.ndarray) -> Sequence:
    memory = emitter.emission.micro_ops
    sequence = memory.place(words)
    if sequence is None:
        memory.turn_page()
        emitter.emission.load_page(emitter.group)
        sequence = memory.place(words)
        if sequence is None:
            raise ValueError(f"{emitter.program.name}: {len(words)} micro-ops do not fit {memory.depth}")
    return sequence
