"""Emission of two special kinds of loads: loads of patches of an image, and loads that fill accumulators with a
constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...ir.expr import Const
from ...ir.stmt import Assign, Intrinsic, Region
from .columns import Column, Iterations, evaluator, full, greater, group_rows, item, lesser, where
from .machine import Span

if TYPE_CHECKING:
    from .emit import Chain, LayerEmitter


def emit_fill(emitter: LayerEmitter, chain: Chain, leaf: Assign, around: Iterations) -> None:
    """Emits loads that fill accumulators with the constant that `leaf` assigns. The loads read no data; they only write
    pads. The two innermost loops of `chain` run over the elements of a vector. All iterations of the loop around these
    two become one load if their vectors are contiguous.
    """
    if leaf.buffer.scope != "acc" or not isinstance(leaf.value, Const):
        raise ValueError(f"{leaf.name}: an assignment must write a constant to the accumulators (acc)")
    region = Region(buffer=leaf.buffer, starts=leaf.indices, extents=(Const(1),) * len(leaf.indices))
    access = emitter.access(region)
    chain, around = chain.of_constant_steps([access], around)
    lanes, outer = chain.names[-2:], chain.loops[:-2]
    zero = around.fixed(chain.names).values
    innermost = outer[-1][0] if outer else None
    step = access.step(zero, innermost)
    for rows in group_rows([step], len(around)):
        dense = innermost is not None and item(step, rows[0]) == 1
        folded = [*lanes, innermost] if dense and innermost is not None else lanes
        inner = chain.iterations(around.chosen(rows), frozenset(folded))
        width: Column = outer[-1][1](inner.values) if dense else 1
        filled = inner.chosen(np.flatnonzero(full(width, len(inner)) > 0))
        width = outer[-1][1](filled.values) if dense else 1
        emitter.set_register("COMPUTE_PAD", filled.position, {"pad_value": int(leaf.value.value)})
        target = access.base(filled.values) + access.offset(filled.values)
        emitter.add(
            "LOAD.ACC",
            filled.position,
            {"sram_base": target, "x_size": width, "x_stride": width, "y_pad_0": 1},
            writes=(Span("acc", target, target + width),),
        )


def emit_patch(emitter: LayerEmitter, chain: Chain, leaf: Intrinsic, around: Iterations) -> None:
    """Emits LOAD.PATCH instructions, one for each row of output positions. One instruction loads the patches of all
    iterations of the innermost loop.
    """
    to = emitter.access(leaf.operands[0])
    batch_row = evaluator(leaf.operands[0].starts[-2])
    origin = emitter.access(leaf.operands[1], element_dimensions=0)
    pad = int(leaf.pad.value) if leaf.pad is not None else 0
    patches_loop, patches = chain.loops[-1]
    image_rows, row_bytes = origin.sizes[1], origin.sizes[2]
    inner = chain.iterations(around, frozenset({patches_loop}))
    inner = inner.chosen(np.flatnonzero(full(patches(inner.values), len(inner)) > 0))
    at, count = inner.values, patches(inner.values)
    following = {**at, patches_loop: 1}
    target = to.base(at) + to.offset(at)
    pitch = where(count > 1, to.step(at, patches_loop), 0)
    vectors = to.extents[-1](at)
    image, row, column = (start(at) for start in origin.starts)
    rows, run = origin.extents[1](at), origin.extents[2](at)
    step = where(count > 1, origin.starts[2](following) - column, 0)
    above = lesser(greater(0, -row), rows)
    below = lesser(greater(0, row + rows - image_rows), rows - above)
    skipped = greater(column, 0)
    emitter.set_register("LOAD_PAD", inner.position, {"pad_value": pad})
    emitter.set_register(
        "PATCH",
        inner.position,
        {
            "run": run,
            "step": step,
            "pitch": pitch,
            "pad_left": greater(0, -column),
            "row_bytes": greater(0, row_bytes - skipped),
            "batch_row": batch_row(at),
        },
    )
    data_rows = rows - above - below
    first = emitter.dram(leaf.operands[1].buffer, at)
    address = first + (image * image_rows + greater(row, 0)) * row_bytes + skipped
    emitter.add(
        "LOAD.PATCH",
        inner.position,
        {
            "sram_base": target,
            "dram_base": address,
            "y_size": data_rows,
            "x_size": count,
            "x_stride": row_bytes,
            "y_pad_0": above,
            "y_pad_1": below,
        },
        reads=emitter.emission.dram_span(address, greater(data_rows * row_bytes, 1)),
        writes=(Span("inp", target, target + (count - 1) * pitch + vectors),),
    )
