"""Micro-ops for the array mode `sweep`, in which depthwise operations go down a column and the array holds the last
rows of the input in registers. When a sum is computed, all rows of its window are in these registers, and no row is
read more often than necessary.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.codegen.vdla.sweep import sweep_order
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.sweep import Sweep
from vdla.isa.array_modes import SWEEP_MODE
from vdla.isa.config import load_config

EXTENSIONS = ("post", "depthwise", "taps", "sweep")
MACHINES = [
    replace(load_config("vta"), extensions=EXTENSIONS),
    replace(load_config("vta"), block_in=8, block_out=8, uop_buffer_bytes=1 << 16, extensions=EXTENSIONS),
    replace(load_config("vta"), block_in=32, block_out=8, uop_buffer_bytes=1 << 16, extensions=EXTENSIONS),
]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(MACHINES),
    st.integers(1, 12),
    st.integers(2, 7),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_every_sum_finds_its_rows_held(config, height, rows, stride, dilation):
    window = Window(kernel=(rows, 3), strides=(stride, 1), dilations=(dilation, 1))
    sweep = Sweep.of(config, window)
    assert sweep is not None
    y, k = (axis.ravel() for axis in np.indices((height, rows)))
    group = (k + sweep.lead) // sweep.swept
    indices = [100 + y, 7 * (y * stride + k * dilation), group * SWEEP_MODE.group(config)]
    (dst, src, wgt), starting = sweep_order(config, indices, k == 0)
    assert len(dst) == sweep.operations(np.array([height]))[0] <= height * rows
    held: list[int] = []
    sums: list[tuple[int, int]] = []
    for d, s, w, starts in zip(dst.tolist(), src.tolist(), wgt.tolist(), starting.tolist(), strict=True):
        held = [*held, s][-sweep.swept :]
        number, low = divmod(w, SWEEP_MODE.group(config))
        assert starts == (number == 0) and low in (0, SWEEP_MODE.group(config) // 2)
        if low == 0:
            sums.append((d, number))
            mine = [row for row in range(rows) if (row + sweep.lead) // sweep.swept == number]
            wanted = [7 * ((d - 100) * stride + row * dilation) for row in mine]
            assert held[-len(mine) :] == wanted
    assert sorted(sums) == [(100 + row, number) for row in range(height) for number in range(sweep.groups)]


def test_tiles_of_all_heights_add_up():
    sweep = Sweep(rows=3, swept=4, columns=1, stride=1, dilation=1)
    assert sweep.operations(np.array([0, 1, 2, 14])).tolist() == [0, 3, 4, 16]
    assert sweep.of_tiles(14, np.array([14, 7, 4, 1])).tolist() == [16, 18, 6 * 3 + 4, 42]
    assert replace(sweep, stride=2).operations(np.array([7]))[0] == 15
    assert replace(sweep, stride=2, dilation=2).operations(np.array([7]))[0] == 9
    assert replace(sweep, dilation=2).operations(np.array([7]))[0] == 6 + 5
    assert replace(sweep, rows=5, columns=2).operations(np.array([10]))[0] == 2 * (10 + 13)


@pytest.mark.parametrize("window", [Window(kernel=(1, 3)), Window(kernel=(3, 1)), Window(kernel=(60, 30))])
def test_windows_and_machines_without_sweeps(window):
    assert Sweep.of(MACHINES[0], window) is None
    assert Sweep.of(replace(MACHINES[0], extensions=EXTENSIONS[:-1]), Window(kernel=(3, 3))) is None
