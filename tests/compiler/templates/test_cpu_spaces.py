"""Schedule spaces of the CPU templates. All legal points compile and compute the same result. Two points that differ
only in knobs without effect give the same program.
"""

from __future__ import annotations

import numpy as np
import pytest
from campaign import representatives
from kernels import FUNCTIONS

from vdla.benchmarks.harness.space_size import count_programs, least_programs
from vdla.codesign.named_layers import CONVOLUTIONS
from vdla.codesign.workload_names import cpu_workload
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.ir.hash import structural_hash
from vdla.compiler.ir.interp import interpret
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.blocked_convolution import FloatSums, blocked_convolution
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.cpu.table import CPU
from vdla.compiler.templates.cpu.workload import SketchCpu
from vdla.compiler.templates.space import knobs_obstacle
from vdla.compiler.tune.measure.reference import expected


def convolution(block: int, epilogue: Epilogue | None = None, **sizes) -> SketchCpu:
    program = blocked_convolution(
        Convolution(**sizes).in_one_row(),
        block_in=block,
        block_out=block,
        sums=FloatSums(epilogue=epilogue or Epilogue()),
    )
    return SketchCpu(operator="conv2d", constants=("W",), expression=program)


ODD = Window(kernel=(3, 2), pads=(1, 0, 1, 1), strides=(2, 1), dilations=(1, 2))
WORKLOADS = {
    "conv2d": convolution(
        4,
        Epilogue(bias=True, operand=True, activation="clip", low=-1.0, high=2.0),
        batch=2,
        channels=10,
        height=7,
        width=6,
        filters=12,
        groups=2,
        window=ODD,
    ),
    "strided": convolution(
        16,
        batch=1,
        channels=32,
        height=8,
        width=9,
        filters=48,
        window=Window(kernel=(1, 1), strides=(2, 2)),
    ),
}
HOST = host_target()
SERVER = parse_target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4")
"""A CPU target that does not depend on the computer on which the tests run."""


def arrays_of(workload):
    rng = np.random.default_rng(0)
    # Eighths: sums of a few products are exact, so that any order gives the same float32.
    return {
        p.name: (rng.integers(-8, 9, p.shape) / 8).astype(np.float32) for p in workload.program().parameters
    }


@pytest.mark.parametrize("name", WORKLOADS)
def test_legal_points_compute_what_the_expression_does(name):
    workload = WORKLOADS[name]
    arrays = arrays_of(workload)
    if name == "conv2d":
        # Lanes of X beyond the last channel of a group are zero, as the reference computation assumes.
        arrays["X"][:, :, -1, ..., 1:] = 0
    program = workload.program()
    results = interpret(program, arrays, functions=FUNCTIONS)["Y"]
    np.testing.assert_array_equal(expected(workload.program(), arrays), results)
    own = CPU.space(HOST, workload)
    for point in own.sample(np.random.default_rng(1), 3):
        s = CPU.schedule(HOST, workload, own.values(point), program)
        packed = pack_arrays(s.trace, arrays)
        packed["Y"] = np.full_like(arrays["Y"], 99)
        build(s.program, HOST)(**packed)
        np.testing.assert_array_equal(packed["Y"], results, err_msg=str(own.values(point)))


@pytest.mark.parametrize("name", representatives(WORKLOADS, 4))
def test_points_are_one_program_where_they_are_said_to_be(name):
    workload = WORKLOADS[name]
    own = CPU.space(SERVER, workload)
    points = own.sample(np.random.default_rng(2), 16)
    # And neighbours, of which more are the same.
    points = np.repeat(points, 2, axis=0)
    moved = np.random.default_rng(3).integers(0, len(own.axes), len(points) // 2)
    points[1::2][np.arange(len(moved)), moved] = 0
    points = points[own.legal(points)]
    estimates = own.cost(own.columns(points))
    rows = np.stack([estimates.effective[axis.name] for axis in own.axes], axis=1)
    program = workload.program()
    hashes = [
        structural_hash(CPU.schedule(SERVER, workload, own.values(point), program).program, alpha=True)
        for point in points
    ]
    pairs = {(tuple(row), text) for row, text in zip(rows.tolist(), hashes, strict=True)}
    assert len(pairs) == len({row for row, _ in pairs}) > 12


@pytest.mark.parametrize("name", WORKLOADS)
def test_accounts_bound_and_describe_all_points(name):
    own = CPU.space(SERVER, WORKLOADS[name])
    estimates = own.cost(own.columns(own.draw(np.random.default_rng(4), 500)))
    assert estimates.bound.min() >= own.floor * (1 - 1e-12) > 0
    for values in (*estimates.limits.values(), estimates.bound, *estimates.quantities.values()):
        assert values.shape == (500,)
    for quantity in estimates.quantities.values():
        assert quantity.dtype == np.float64 and np.isfinite(quantity).all() and (quantity > 0).all()


@pytest.mark.parametrize("target", [HOST, SERVER, parse_target("llvm -mtriple=aarch64-linux-gnu")])
def test_defaults_are_points_of_the_space(target):
    for workload in (*WORKLOADS.values(), *(cpu_workload(f"conv2d:{name}", target) for name in CONVOLUTIONS)):
        values = CPU.default(target, workload)
        assert knobs_obstacle(CPU.space(target, workload), values) is None, workload


def test_sums_in_memory_are_an_axis_of_the_space():
    deep = convolution(
        16, batch=1, channels=2048, height=28, width=28, filters=512, window=Window(kernel=(1, 1))
    )
    values = CPU.default(SERVER, deep)
    assert values["stored"] == 1
    own = CPU.space(SERVER, deep)
    assert knobs_obstacle(own, values) is None
    stored = next(axis for axis in own.axes if axis.name == "stored")
    assert stored.values == (0, 1)


def test_the_defaults_point_is_the_defaults_program():
    workload = WORKLOADS["conv2d"]
    program = workload.program()
    default = CPU.schedule(SERVER, workload, None, program)
    point = CPU.schedule(SERVER, workload, CPU.default(SERVER, workload), program)
    assert structural_hash(point.program) == structural_hash(default.program)


@pytest.mark.parametrize("name", representatives(CONVOLUTIONS, 4, always=("C3", "C11")))
def test_spaces_of_the_papers_layers_hold_many_programs(name):
    # Of windows of one position there are fewer, and so few points do not show how many.
    least = 3e4 if name in ("C3", "C5", "C11") else 1e5
    assert (
        least_programs(
            CPU.space(SERVER, cpu_workload(f"conv2d:{name}", SERVER)), np.random.default_rng(5), 60_000
        )
        > least
    )


def test_counted_programs_are_no_fewer_than_estimated():
    program = product(Matrices(rows=2, depth=4, columns=10))
    small = CPU.space(SERVER, SketchCpu(operator="dense", expression=program))
    exact = count_programs(small)
    assert 0.1 * exact < least_programs(small, np.random.default_rng(6), 5_000) < exact < small.size


def test_a_tile_never_needs_more_registers_than_there_are():
    narrow = parse_target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v2")
    own = CPU.space(narrow, cpu_workload("conv2d:C2", narrow))
    points = own.columns(own.sample(np.random.default_rng(6), 200))
    # The loops over blocks of 4 filters, rows, columns and filters, of which the last, or the longest other
    # one with contiguous loads, is vectorized.
    tile = [points[f"tile.{k}"] for k in range(4)]
    sums = tile[0] * tile[1] * tile[2] * -(-tile[3] // 4)
    assert (sums[points.get("vector", 0 * sums) == 0] < narrow.vector_registers).all()
