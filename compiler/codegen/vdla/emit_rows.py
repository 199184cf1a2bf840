"""Emission of softmax and normalizations. A tile of rows becomes ROWS instructions, followed by STORE.POST
instructions. Each STORE.POST takes as many blocks of channels as fit the parameter table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdla.isa.rows import PLANES
from vdla.isa.store_stages import TABLE_BYTES

from ...ir.stmt import Intrinsic
from .chain_memory import chain_span
from .columns import Column, Iterations, item
from .machine import Span

if TYPE_CHECKING:
    from .emit import Chain, LayerEmitter


def emit_rows(emitter: LayerEmitter, chain: Chain, leaf: Intrinsic, around: Iterations) -> None:
    """Emits the instructions of softmax or normalization (ROWS, STORE.POST) for one tile of rows in each iteration of
    `around`.

    The store unit executes in order, so all tiles share parameters and the entries that hold the rows' statistics.
    Tiles whose result stays on the chip are contiguous in the chain memory (on-chip memory between layers).
    """
    config, element = emitter.config, emitter.config.out_bytes
    attributes = {name: int(value) for name, value in leaf.attributes}
    operands = dict(zip([formal.name for formal in leaf.declaration.parameters], leaf.operands, strict=True))
    inner = chain.iterations(around)
    out, accumulators = emitter.access(operands["out"]), emitter.access(operands["acc"])
    at, first = inner.values, inner.first_of_kernels()
    count, positions = (item(extent(at), 0) for extent in accumulators.extents[-2:])
    down, pitch = accumulators.strides[-2], out.strides[-2]
    corner = accumulators.base(at) + accumulators.offset(at)
    chained = emitter.chained(operands["out"].buffer)
    start = emitter.dram(operands["out"].buffer, at) if chained is None else chained.address
    base = start // element + out.offset(at)
    par = operands["par"]
    if attributes["look_up"] and "rows" not in emitter.tables_loaded:
        emitter.tables_loaded.add("rows")
        address = emitter.dram(operands["table"].buffer, inner.kernels()) // TABLE_BYTES
        planes: dict[str, Column] = {"sram_base": config.tables, "dram_base": address, "y_size": 1}
        emitter.add("LOAD.TABLE", first, {**planes, "x_size": PLANES, "x_stride": PLANES})
    fields = ("look_up", "centre", "length", "epsilon", "epsilon_shift", "lanes")
    of_rows: dict[str, Column] = {
        "zero_point": attributes["row_zero_point"],
        **{name: attributes[name] for name in fields},
    }
    registers: dict[str, dict[str, Column]] = {
        "ADDRESS": {"y_stride": down, "x_stride": 1},
        "WINDOW": {},
        "ROWS": of_rows,
        "REQUANTIZE": {name: attributes[name] for name in ("zero_point", "low", "high")},
    }
    for name, fields in registers.items():
        emitter.set_register(name, inner.position, fields)
    reads = (Span("acc", corner, corner + (count - 1) * down + positions),)
    shape: dict[str, Column] = {"sram_base": corner, "y_size": count, "x_size": positions}
    if attributes["look_up"]:
        emitter.add("ROWS", inner.position, {**shape, "maximum": 1}, reads=reads)
    emitter.add("ROWS", inner.position, shape, reads=reads)
    if par.buffer.scope == "par":
        # All blocks share one parameter entry, which is loaded already.
        entry = emitter.access(par)
        index = entry.base(at) + entry.offset(at)
        emitter.add(
            "STORE.POST",
            inner.position,
            {**shape, "dram_base": base, "par_index": index, "x_stride": pitch, "rows": 1, "chain": 1},
            reads=(*reads, Span("par", index, index + 1)),
            writes=(chain_span(config, base * element, count * positions * element),),
        )
        return
    parameters = emitter.dram(par.buffer, at) // config.par_bytes
    entries = par.buffer.shape[0]
    together = count if entries == 1 else min(count, config.par_depth)
    for start in range(0, count, together):
        size = min(together, count - start)
        own = 1 if entries == 1 else size
        # `put_in_order` drops loads of parameters that the table already holds.
        load: dict[str, Column] = {"dram_base": parameters + (0 if entries == 1 else start), "y_size": 1}
        emitter.add("LOAD.PAR", inner.position, {**load, "x_size": own, "x_stride": own})
        to = base + start * pitch
        if attributes["lanes"] and together < count:
            # Only the last group ends with a partial block.
            here = {} if start + size == count else {"lanes": 0}
            emitter.set_register("ROWS", inner.position, {**of_rows, **here})
        emitter.add(
            "STORE.POST",
            inner.position,
            {
                "sram_base": corner + start * down,
                "dram_base": to,
                "y_size": size,
                "x_size": positions,
                "x_stride": pitch,
                "rows": 1,
                **({"par_by_y": 1} if own > 1 else {}),
            },
            reads=reads,
            # A span for each block: readers of other positions of a block need not wait.
            writes=tuple(
                [
                    span
                    for block in range(size)
                    for span in emitter.emission.dram_span(
                        (to + block * pitch) * element, positions * element
                    )
                ]
            ),
        )
