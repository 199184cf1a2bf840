"""Element-wise kernels that load their parameters once, for machines with a DRAM (hw/dram.md).

The store unit's parameters are a bias and a scale for each channel: 8 bytes, where the data of one position have 2. If
the parameters are equal for all blocks of channels, the blocks can be treated as rows of an image with a single block
of channels. The kernel then loads one block's parameters, and its tiles have any number of blocks.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from vdla.isa.config import Config
from vdla.isa.layout import formats

from .graph.layout import Constant, unpacked
from .te.blocks import ceil_div
from .te.ops.common import Spread
from .templates.vdla.pool import ELEMENTWISE
from .templates.vdla.template import Details, Kernel, Source
from .templates.vdla.workload import Workload


def blocks_as_rows(config: Config, kernel: Kernel, chained: AbstractSet[str]) -> Kernel:
    """A kernel with the same results as `kernel` that treats the blocks of channels as rows. `kernel` must be
    element-wise, have equal parameters for all blocks, and read and write one run of positions of each block. Otherwise
    `kernel` itself is returned.

    `chained`: names of the tensors in the chain memory (on-chip memory between layers).
    """
    source, blocks = kernel.source, ceil_div(kernel.workload.channels, config.block_out)
    if (
        kernel.workload.template != ELEMENTWISE.name
        or not isinstance(source, Source)
        or source.details.planes
        or max(config.batch, kernel.workload.batch, source.details.apart) > 1
        or blocks == 1
        or not chained.isdisjoint(kernel.tensors.values())
    ):
        return kernel
    (parameters,) = kernel.constants["P"].arrays
    if (parameters != parameters[0]).any():
        return kernel
    if source.details == Details(post=source.details.post, name=source.details.name):
        own = _one_block(config, kernel.workload, blocks * kernel.workload.height, kernel.workload.width)
        source = replace(source, workload=own)
    else:
        found = _one_run(config, source, blocks)
        if found is None:
            return kernel
        own, source = found
    constants = {**kernel.constants, "P": Constant(form=unpacked, arrays=(parameters[:1],))}
    return replace(kernel, workload=own, source=source, constants=constants)


def _one_block(config: Config, workload: Workload, height: int, width: int) -> Workload:
    lanes = config.block_out
    return replace(
        workload, channels=lanes, filters=lanes, height=height, width=width, kernel=(1, 1), strides=(1, 1)
    )


def _one_run(config: Config, source: Source, blocks: int) -> tuple[Workload, Source] | None:
    """The workload and the source of a kernel that copies a run of positions of each of `blocks` blocks; each block is
    a row. Returns None if `source` copies positions that do not follow one another in the input or in the output.
    """
    details, whole = source.details, source.workload
    spread, area, taken = details.spread, details.area, details.taken
    if spread is None or area is None or taken is None or area[:2] != (0, 0) or whole.operand:
        return None
    (rows, columns), plane = area[2:], spread.plane[0] * spread.plane[1]
    # Distances from one row to the next: in the input, and in the output.
    apart = {taken[0] * whole.width, spread.steps[0] * spread.plane[1] + spread.pitch}
    if (columns > 1 and (taken[1], spread.steps[1]) != (1, 1)) or (rows > 1 and apart != {columns}):
        return None
    strides = (formats(config)[name].field("x_stride").maximum for name in ("LOAD.ACC8", "STORE.POST"))
    if max(whole.height * whole.width, plane) > min(strides):
        return None
    run = replace(
        details,
        area=(0, 0, blocks, rows * columns),
        taken=(1, 1),
        spread=Spread(plane=(1, blocks * plane), steps=(0, 1), pitch=plane),
    )
    image = _one_block(config, whole, blocks, whole.height * whole.width)
    return replace(image, width=rows * columns), Source(workload=image, details=run)
