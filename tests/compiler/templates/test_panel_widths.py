"""Packed weight panels that products of many lengths share: few panel widths suffice, and tiles are nearly as fast as
those chosen for each length alone.
"""

from __future__ import annotations

from math import prod

import pytest

from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.ir.types import DType
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.blocked_convolution import blocked_convolution
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.templates.cpu.panel_widths import LEAST_SUMS, SLOWER, Panels, PanelWidths
from vdla.compiler.templates.cpu.register_tile import tile_cycles
from vdla.compiler.templates.cpu.table import CPU
from vdla.compiler.templates.cpu.workload import SketchCpu

X86 = "llvm -mtriple=x86_64-linux-gnu -mcpu="
TARGETS = {name: parse_target(X86 + name) for name in ("icelake-server", "haswell", "nehalem")}
LENGTHS = (512, *range(1, 24), *range(24, 512, 37))


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(("depth", "columns"), [(384, 1536), (768, 768), (64, 50)])
def test_few_kinds_of_panels_serve_all_lengths(name: str, depth: int, columns: int) -> None:
    target, held, kinds, alone = TARGETS[name], Panels(), set(), []
    widths = PanelWidths(target, held)
    for rows in LENGTHS:
        program = product(Matrices(rows=rows, depth=depth, columns=columns))
        workload = SketchCpu(operator="dense", constants=("W",), expression=program)
        own, space = CPU.default(target, workload), CPU.space(target, workload)
        chosen = widths.choose(workload) or own
        assert space.legal(space.point(chosen)[None]).all()
        tiles = [_tile(values, target.lanes(DType.FLOAT32), rows) for values in (chosen, own)]
        kinds.add(tiles[0][1])
        alone.append(tiles[1][1])
        sizes = (1, rows, -(-columns // target.lanes(DType.FLOAT32)))
        costs = [float(tile_cycles(sizes, (1, *tile), depth)) for tile in tiles]
        assert costs[0] <= SLOWER * costs[1]
        assert prod(tiles[0]) >= min(LEAST_SUMS, prod(tiles[1]))
    assert kinds == set(held[depth, columns])
    assert len(kinds) <= len(set(alone))
    if target.vector_bits == 512 and columns > 100:
        # One for most lengths, and one each for those of one and two tokens.
        assert len(kinds) <= 3 < len(set(alone))


def _tile(values, lanes: int, rows: int) -> tuple[int, int]:
    """The size (rows, vectors) of the register tile that the knobs `values` describe."""
    if rows == 1:
        return 1, -(-values["tile.0"] // lanes)
    return values["tile.0"], -(-values["tile.1"] // lanes)


def test_other_workloads_keep_their_own() -> None:
    sizes = {"channels": 16, "height": 8, "width": 8, "filters": 16, "window": Window(kernel=(2, 2))}
    program = blocked_convolution(Convolution(batch=1, **sizes), block_in=16, block_out=16)
    convolution = SketchCpu(operator="conv2d", constants=("W",), expression=program)
    assert PanelWidths(host_target(), {}).choose(convolution) is None
