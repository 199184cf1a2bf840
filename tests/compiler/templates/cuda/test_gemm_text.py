"""The CUDA C++ text of matrix products computes exact results when it runs on the CPU, and compiles for GPUs."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_on_host.modules import run_programs

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.gpu import gemm as template
from vdla.compiler.templates.gpu import gemv
from vdla.compiler.templates.gpu.tile import Tile

SMALL = Tile(
    rows=16, columns=32, depth=8, thread_rows=4, thread_columns=8, row_groups=1, column_groups=2, stages=3
)
SPLIT = Tile(rows=8, columns=16, depth=4, thread_rows=2, thread_columns=2, stages=2, splits=3)
ROWS = gemv.Knobs(groups=2, members=4, vectors=2, unroll=4)


def test_the_text_computes_what_the_program_does() -> None:
    """CUDA C++ of matrix products, run on the CPU, gives exact results for integer inputs: pipelined tiles with ragged
    edges, partial sums, a batch, and few rows.
    """
    target = cuda_target()
    rng = np.random.default_rng(0)
    programs, expected = [], []
    for knobs, sizes, batch in (
        (SMALL, (21, 30, 45), ()),
        (SMALL, (16, 32, 32), (2,)),
        (SPLIT, (13, 25, 20), ()),
        (ROWS, (2, 70, 21), ()),
    ):
        rows, depth, columns = sizes
        epilogue = Epilogue(bias=True, activation="relu")
        program = product(
            Matrices(rows=rows, depth=depth, columns=columns, batch_x=batch, batch_w=batch),
            staged="by depth",
            epilogue=epilogue,
        )
        s = template.schedule(target, program, knobs, constants=("W",))
        arrays = {p.name: rng.integers(-8, 9, p.shape).astype(np.float32) for p in program.parameters}
        del arrays["Y"]
        programs.append((s.program, pack_arrays(s.trace, arrays)))
        expected.append(np.maximum(arrays["X"] @ arrays["W"] + arrays["B"], 0))
    for found, sums in zip(run_programs(programs, target), expected, strict=True):
        np.testing.assert_array_equal(found["Y"], sums)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_defaults_compile(arch: str) -> None:
    """Compiles the default kernels of a product of medium size, of one with partial sums, and of one with few rows."""
    target = cuda_target(arch)
    for rows, depth, columns in ((256, 256, 256), (49, 2304, 256), (1, 512, 1000)):
        program = product(Matrices(rows=rows, depth=depth, columns=columns), staged="by depth")
        s = template.schedule(target, program, constants=("W",))
        module = lower(prepare(s.program, target, check=False), target)
        assert compile_cubin(module.source, arch)[:4] == b"\x7fELF"
