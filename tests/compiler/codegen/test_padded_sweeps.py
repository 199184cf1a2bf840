"""Sweeps (depthwise operations down the rows of a column) with pads at both ends. The last row of pads of one column is
the first of the next, and is read only once.
"""

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.codegen.vdla.sweep import sweep_order
from vdla.compiler.graph.graph import Graph
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.isa.array_modes import SWEEP_MODE
from vdla.isa.config import Config, load_config
from vdla.sim import simulate

from ..random_networks import builder
from ..right_programs import assert_right

VTA = replace(
    load_config("vta"),
    extensions=("post", "patch", "depthwise", "taps", "sweep"),
    acc_buffer_bytes=1 << 16,
    uop_buffer_bytes=1 << 15,
)
MACHINES = {
    f"{config.block_in}x{config.block_out}": config
    for config in (VTA, replace(VTA, block_out=4), replace(VTA, block_in=4, inp_buffer_bytes=1 << 13))
}


def layer(
    channels: int, plane: tuple[int, int], kernel: int = 3, stride: int = 1, dilation: int = 1
) -> Graph:
    """A depthwise convolution of one image of `plane` (rows, columns), with a square kernel and, on each side, pads of
    half the dilated kernel.
    """
    b, pad = builder(3), kernel // 2 * dilation
    return fuse(
        b.graph(
            b.convolution(
                b.input(1, channels, *plane),
                channels,
                (kernel, kernel),
                (stride, stride),
                (pad, pad, pad, pad),
                (dilation, dilation),
                groups=channels,
            )
        )
    )


def operations(config: Config, graph: Graph) -> int:
    """Number of operations of the multiply array in the compiled network."""
    program = compile_program(graph, config).program
    return simulate(config, program.instructions, program.image, data=False).units["compute"].busy["gemm"]


@pytest.mark.parametrize("config", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("channels", [8, 16, 40])
@pytest.mark.parametrize("plane", [(4, 4), (7, 7), (14, 9), (5, 30)])
def test_layers_are_right(config, channels, plane):
    assert_right(compile_program(layer(channels, plane), config, virtual_threads=2))


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation"),
    [(5, 1, 1), (3, 2, 1), (3, 1, 2), (7, 1, 1), (3, 3, 1), (3, 1, 3), (5, 2, 3)],
)
@pytest.mark.parametrize("config", MACHINES.values(), ids=MACHINES)
def test_other_windows_are_right(config, kernel, stride, dilation):
    assert_right(compile_program(layer(20, (9, 8), kernel, stride, dilation), config, virtual_threads=2))


def test_a_column_takes_an_operation_for_each_row_and_one_more():
    """One operation more for the whole layer loads the first row of pads. With pads at one end only, each column reads
    its first row again.
    """
    assert operations(VTA, layer(160, (7, 7))) == 10 * 7 * (7 + 1) + 1
    b = builder(3)
    above = b.convolution(b.input(1, 160, 8, 7), 160, (3, 3), pads=(1, 1, 0, 1), groups=160)
    assert operations(VTA, fuse(b.graph(above))) == 10 * 7 * (7 + 2)


def test_a_sweep_that_ends_above_its_pads_holds_one():
    rows = np.arange(6)
    windows = np.concatenate([rows[:4], rows[1:5], rows[2:6]])
    dst, wgt = np.tile(rows[:4], 3), np.zeros(12, dtype=np.int64)
    order = [np.sort(dst), np.array([y + k for y in range(4) for k in range(3)]), wgt]
    starting = np.tile([True, False, False], 4)
    assert len(windows) == len(order[1])
    (_, plain, _), _ = sweep_order(VTA, order, starting)
    (_, padded, _), _ = sweep_order(VTA, order, starting, np.isin(order[1], [0, 5]))
    assert (plain.tolist(), padded.tolist()) == ([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5])
    (_, above, used), begins = sweep_order(VTA, order, starting, order[1] == 0)
    assert above.tolist() == [1, 2, 3, 4, 5, 0] and begins.all()
    assert used[-1] == SWEEP_MODE.group(VTA) // 2 and not used[1:-1].any()
