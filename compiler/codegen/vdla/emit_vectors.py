"""Emission of element-wise operations on accumulators: the loops around a vector intrinsic become ALU instructions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

import vdla.isa.layout as layout

from ...ir.stmt import Intrinsic
from .alu_intrinsics import vector_opcode
from .columns import (
    Access,
    Column,
    Environment,
    Iterations,
    counted_loops,
    full,
    group_rows,
    item,
    lesser,
    pick,
)
from .machine import Span
from .sequences import VectorOperation, parse_sequence

if TYPE_CHECKING:
    from .emit import Chain, LayerEmitter

_MOST_ITERATIONS = (1 << 14) - 1


def emit_vector(emitter: LayerEmitter, chain: Chain, leaf: Intrinsic, around: Iterations) -> None:
    """Emits the ALU instructions of vector intrinsic `leaf` in the loops of `chain`, for all outer iterations
    `around`."""
    immediate = dict(leaf.attributes).get("immediate")
    opcode = vector_opcode(emitter.config, leaf.declaration.name)
    assert opcode is not None, "the emitter must check that the copy is possible first"
    operation = VectorOperation(
        opcode, source=len(leaf.operands) - 1, immediate=None if immediate is None else int(immediate)
    )
    accesses = [emitter.access(operand) for operand in leaf.operands]
    chain, around = chain.of_constant_steps(accesses, around)
    counted = _counted(chain, accesses, _first(around, chain.names))
    _emit(emitter, chain, (operation,), accesses, counted, around)


def emit_sequence(emitter: LayerEmitter, chain: Chain, leaf: Intrinsic, around: Iterations) -> None:
    """Emits the sequence of ALU instructions of a user's intrinsic, as `emit_vector` emits one instruction.

    An instruction that counts loops finishes all iterations of these loops before the next instruction of the sequence
    begins. So each counted loop must move the vector that the sequence overwrites. If the sequence also reads other
    vectors of the same buffer, no loop is counted.
    """
    operations = parse_sequence(leaf.declaration, emitter.config)
    accesses = [emitter.access(operand) for operand in leaf.operands]
    chain, around = chain.of_constant_steps(accesses, around)
    target, *sources = leaf.operands
    first = _first(around, chain.names)
    counted = _counted(chain, accesses, first)
    if any(source.buffer == target.buffer for source in sources):
        counted = 0
    names = reversed(chain.names[len(chain.names) - counted :])
    moving = list(takewhile(lambda name: item(accesses[0].step(first, name), 0) != 0, names))
    _emit(emitter, chain, operations, accesses, len(moving), around)


def _emit(
    emitter: LayerEmitter,
    chain: Chain,
    operations: Sequence[VectorOperation],
    accesses: Sequence[Access],
    counted: int,
    around: Iterations,
) -> None:
    """Emits the ALU instructions `operations`. `accesses`: the addresses of the intrinsic's operands; results overwrite
    the first operand. An instruction counts the `counted` innermost loops of `chain` itself, and is repeated for each
    iteration of the other loops.

    One micro-op holds the addresses of both ALU operands, relative to register BASE. Register BASE holds the lower
    address.
    """
    inner = chain.iterations(around, frozenset(chain.names[len(chain.names) - counted :]))
    loops = chain.loops[len(chain.loops) - counted :]
    extents = [extent(inner.values) for _, extent in loops]
    runs = np.ones(len(inner), dtype=bool)
    for extent in extents:
        runs &= full(extent, len(inner)) > 0
    inner, extents = inner.chosen(runs), [pick(extent, runs) for extent in extents]
    if not len(inner):
        return
    for operation in operations:
        operands = [accesses[0]]
        if operation.immediate is None:
            operands.append(accesses[operation.source])
        starts = [access.base(inner.values) + access.offset(inner.values) for access in operands]
        target, source = starts[0], starts[-1]
        base = lesser(target, source)
        emitter.set_register("BASE", inner.position, {"acc_base": base})
        steps = {
            operand: [access.step(inner.values, name) for name, _ in loops]
            for operand, access in zip(("dst", "src"), operands, strict=False)
        }
        fields, moved = counted_loops(extents, steps)
        fields |= {
            "uop_bgn": 0,
            "uop_end": 1,
            "alu_opcode": operation.opcode,
            "use_imm": int(operation.immediate is not None),
            "imm": operation.immediate or 0,
        }
        spans = [
            Span("acc", start, start + far + 1) for start, far in zip(starts, moved.values(), strict=True)
        ]
        emitter.add(
            "ALU",
            inner.position,
            fields,
            reads=tuple(spans[1:]),
            writes=(spans[0],),
            sequence=_micro_ops(emitter, target - base, source - base, len(inner)),
        )


def _first(around: Iterations, names: list[str]) -> Environment:
    """The values of the loop variables in the first iteration of `around`. The loops `names` are at 0."""
    return {name: item(value, 0) if len(around) else 0 for name, value in around.fixed(names).values.items()}


def _counted(chain: Chain, accesses: list[Access], zero: Environment) -> int:
    """The number of innermost loops, at most two, that become loop counts of one instruction: their extents must not
    exceed `_MOST_ITERATIONS`, and the steps of the addresses `accesses` along them must not be negative. The steps
    along all loops of `chain` are constant. `zero`: values of the loop variables in the first iteration.
    """
    counted = 0
    for name, extent in reversed(chain.loops[-2:]):
        steps = [item(access.step(zero, name), 0) for access in accesses]
        if int(np.max(extent(zero))) > _MOST_ITERATIONS or min(steps) < 0:
            break
        counted += 1
    return counted


def _micro_ops(emitter: LayerEmitter, target: Column, source: Column, count: int) -> np.ndarray:
    """Adds, for each of `count` instructions, a sequence of one micro-op with the addresses `target` and `source`.
    Returns the numbers of the sequences, int64 (count,); instructions with equal addresses share a sequence.
    """
    groups = group_rows([target, source], count)
    numbers = []
    for row in groups.first.tolist():
        pair = (np.array([item(target, row)]), np.array([item(source, row)]))
        numbers.append(emitter.sequence(layout.encode_uops(emitter.config, *pair, np.zeros(1, np.int64))))
    return np.array(numbers, dtype=np.int64)[groups.of]
