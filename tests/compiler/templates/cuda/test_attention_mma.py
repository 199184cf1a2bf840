"""Attention of 16-bit floats on tensor cores in one kernel: emulated, as CUDA C++ on the CPU, and compiled by NVRTC."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from attention_cases import BY_COLUMN, BY_HEAD, case, conflicts, sizes_of
from campaign import examples, representatives
from cuda_on_host.modules import run_modules
from gpu_kernels import barriers, emulated, without_barrier
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.codegen.cuda.intrinsics import intrinsics
from vdla.compiler.codegen.cuda.machine import GpuTarget, cuda_target
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin, compile_ptx
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.cuda.prepare import shared_bytes as bytes_of
from vdla.compiler.codegen.cuda.races import RaceError, check_races
from vdla.compiler.codegen.opencl.machine import opencl_target
from vdla.compiler.ir.kernels import kernels
from vdla.compiler.ir.stmt import Alloc, Program
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.visit import walk
from vdla.compiler.schedule import replay, trace_from_lists, trace_to_lists
from vdla.compiler.te.ops.attention_halves import attention_halves
from vdla.compiler.te.ops.attention_sizes import Attention
from vdla.compiler.te.ops.attention_warps import WarpTile
from vdla.compiler.templates.gpu.attention_mma import choose_tile, fits, schedule, shared_bytes

TARGET = cuda_target("sm_80")
F16, BF16 = DType.FLOAT16, DType.BFLOAT16
ROUNDING = {F16: 2.0**-10, BF16: 2.0**-7}
"""Largest allowed error by type, relative to the largest element: one unit in the last place. The rounding of the
result may take half a unit; the rest is for the rounding of the attention weights.
"""


@cache
def kernel(target: GpuTarget, sizes: Attention, tile: WarpTile) -> Program:
    program = attention_halves(sizes, tile)
    s = schedule(target, program, sizes, tile)
    trace = trace_from_lists(trace_to_lists(s.trace))
    assert replay(program, trace, intrinsics()).program == s.program
    return prepare(s.program, target)


def default(target: GpuTarget, sizes: Attention) -> WarpTile:
    tile = choose_tile(target, sizes)
    assert tile is not None and fits(target, sizes)
    return tile


def assert_close(found: np.ndarray, expected: np.ndarray, dtype: DType) -> None:
    assert found.dtype == dtype.numpy
    errors = np.abs(found.astype(np.float64) - expected) / np.abs(expected).max()
    assert errors.max() <= ROUNDING[dtype]


TILES = {
    "several steps": (F16, WarpTile(splits=1, warps=2, tiles=1, keys=32, stages=2)),
    "two tiles and splits": (BF16, WarpTile(splits=2, warps=1, tiles=2, keys=16)),
    "four splits": (F16, WarpTile(splits=4, warps=1, tiles=1, keys=16, stages=2)),
}
SIZES = {
    "plain": sizes_of(16, 32, 16, 16),
    "a row sees nothing of a block": sizes_of(43, 43, 32, 16, heads=3, batch=2, mask="causal"),
    "past keys": sizes_of(11, 75, 64, 48, mask="causal"),
    "several blocks": sizes_of(100, 100, 16, 16, mask="causal"),
    "several blocks, by indices": sizes_of(70, 90, 16, 16, mask="compared"),
    "masked keys": sizes_of(5, 70, 16, 32, batch=2, mask="added"),
    "shared heads": sizes_of(20, 20, 16, 16, heads=4, repeats=2, axes=(BY_HEAD,) * 4),
    "transposed": sizes_of(19, 37, 16, 32, axes=(BY_COLUMN,) * 4),
    "a step with a cache": sizes_of(1, 130, 64, 64, axes=(BY_HEAD,) * 4),
}
CASES = representatives(
    product(SIZES, TILES), 5, always=[(name, list(TILES)[i % len(TILES)]) for i, name in enumerate(SIZES)]
)
"""Pairs of sizes and a tile. `make test` runs every size and every tile, but not every pair."""


def of(name: str, dtype: DType) -> Attention:
    return replace(SIZES[name], dtype=dtype, result_dtype=dtype)


@pytest.mark.parametrize(("name", "tile"), CASES)
def test_online_softmax_over_steps_of_keys(name: str, tile: str) -> None:
    dtype, chosen = TILES[tile]
    sizes = of(name, dtype)
    arrays, expected = case(sizes)
    assert_close(emulated(kernel(TARGET, sizes, chosen), arrays)["Y"], expected, dtype)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("depth", [32, 64, 128])
def test_head_sizes(depth: int, dtype: DType) -> None:
    sizes = sizes_of(77, 150, depth, depth, mask="causal", dtype=dtype)
    arrays, expected = case(sizes)
    assert_close(emulated(kernel(TARGET, sizes, default(TARGET, sizes)), arrays)["Y"], expected, dtype)


def test_a_result_in_float32() -> None:
    sizes = replace(sizes_of(20, 30, 16, 16, dtype=F16), result_dtype=DType.FLOAT32)
    arrays, expected = case(sizes)
    found = emulated(kernel(TARGET, sizes, default(TARGET, sizes)), arrays)["Y"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2.0**-11)


@pytest.mark.parametrize(
    ("name", "tile"), [("several blocks", "several steps"), ("past keys", "two tiles and splits")]
)
def test_the_race_check_misses_each_barrier(name: str, tile: str) -> None:
    """The race check refuses the kernel without any one of its five barriers. Only sums that are private to a warp need
    none; all other data that warps exchange are in shared memory.
    """
    dtype, chosen = TILES[tile]
    program = kernel(TARGET, of(name, dtype), chosen)
    assert barriers(program) == 5
    for position in range(5):
        with pytest.raises(RaceError):
            check_races(without_barrier(program, position))


@settings(max_examples=examples(6), deadline=None)
@given(
    rows=st.integers(1, 70),
    keys=st.integers(1, 140),
    depth=st.integers(1, 8),
    columns=st.integers(1, 8),
    heads=st.sampled_from([(1, 1), (2, 1), (4, 2)]),
    mask=st.sampled_from(["", "added", "causal", "compared"]),
    dtype=st.sampled_from([F16, BF16]),
    arch=st.sampled_from(["sm_80", "sm_90"]),
)
def test_any_sizes_by_default_tiles(rows, keys, depth, columns, heads, mask, dtype, arch) -> None:
    target, (count, repeats) = cuda_target(arch), heads
    keys = max(keys, rows) if mask in ("causal", "compared") else keys
    sizes = sizes_of(
        rows, keys, 16 * depth, 16 * columns, heads=count, repeats=repeats, mask=mask, dtype=dtype
    )
    arrays, expected = case(sizes)
    assert_close(emulated(kernel(target, sizes, default(target, sizes)), arrays)["Y"], expected, dtype)


def test_the_text_as_threads_run_it() -> None:
    """CUDA C++ of attention on tensor cores gives the right results on a CPU model of blocks and of a warp's
    instructions, in which threads run ahead of one another.
    """
    chosen = [
        ("several blocks, by indices", "several steps"),
        ("past keys", "two tiles and splits"),
        ("transposed", "four splits"),
    ]
    modules, wanted = [], []
    for name, tile in chosen:
        dtype, how = TILES[tile]
        sizes = of(name, dtype)
        arrays, expected = case(sizes)
        del arrays["Y"]
        modules.append((lower(kernel(TARGET, sizes, how), TARGET), arrays))
        wanted.append((expected, dtype))
    for result, (expected, dtype) in zip(run_modules(modules, orders=3), wanted, strict=True):
        assert_close(result["Y"], expected, dtype)


PTX = {
    F16: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    BF16: "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
}


GPUS, DEPTHS = [("sm_80", F16), ("sm_80", BF16), ("sm_90", F16)], (32, 64, 128)


@pytest.mark.parametrize(
    ("arch", "dtype", "depth"),
    representatives(
        [(*gpu, depth) for gpu, depth in product(GPUS, DEPTHS)],
        2,
        always=[(*gpu, depth) for gpu, depth in zip(GPUS, DEPTHS, strict=True)],
    ),
)
def test_both_products_are_instructions_of_tensor_cores(arch: str, depth: int, dtype: DType) -> None:
    """The PTX of attention has as many mma instructions as both products need, and keeps no register in local memory:
    all loops over the registers of a thread are unrolled.
    """
    target = cuda_target(arch)
    sizes = sizes_of(500, 1000, depth, depth, heads=12, mask="added", dtype=dtype)
    tile = default(target, sizes)
    source = lower(kernel(target, sizes, tile), target).source
    ptx = compile_ptx(source, arch)
    scores = tile.tiles * tile.keys // 8 * depth // 16
    context = tile.tiles * depth // 8 * tile.keys // 16
    assert ptx.count(PTX[dtype]) == scores + context
    assert "ld.local" not in ptx and "st.local" not in ptx
    assert ptx.count("cp.async.cg.shared.global") > 0
    assert b"kernel" in compile_cubin(source, arch)


@pytest.mark.parametrize("rows", [1, 8, 128, 1000])
@pytest.mark.parametrize("keys", [1, 77, 128, 4096])
@pytest.mark.parametrize("depth", [16, 64, 80, 128])
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90"])
def test_default_tiles_keep_to_the_limits_of_blocks(rows: int, keys: int, depth: int, arch: str) -> None:
    target = cuda_target(arch)
    sizes = sizes_of(rows, keys, depth, depth, heads=12, dtype=F16)
    tile = default(target, sizes)
    assert tile.threads <= 128 and tile.step_keys < keys + 16 * tile.splits
    assert shared_bytes(sizes, tile) <= target.shared_bytes_per_block


@pytest.mark.parametrize(("name", "tile"), CASES)
def test_shared_memory_is_what_was_counted(name: str, tile: str) -> None:
    dtype, chosen = TILES[tile]
    sizes = of(name, dtype)
    (only,) = kernels(kernel(TARGET, sizes, chosen))
    assert bytes_of(only, TARGET) == shared_bytes(sizes, chosen)


@pytest.mark.parametrize("depth", [32, 64, 80, 128])
@pytest.mark.parametrize("axes", ["by rows", "by columns"])
def test_shared_memory_has_no_bank_conflicts(depth: int, axes: str) -> None:
    """The rows of shared buffers are so long that no two lanes of one transaction use the same bank: `ldmatrix` reads 8
    rows of 16 bytes at a time; lanes store pairs of sums, and read vectors of sums by rows.
    """
    stored = (BY_COLUMN,) * 4 if axes == "by columns" else (BY_HEAD,) * 4
    sizes = sizes_of(128, 512, depth, depth, heads=12, axes=stored, dtype=F16)
    program = kernel(TARGET, sizes, default(TARGET, sizes))
    pitches = {n.buffer.name: n.buffer.shape[-1] for n in walk(program) if isinstance(n, Alloc)}
    lane = np.arange(32)[None]
    for name in "qkv":
        # 16-bit elements; four transactions, with 8 lanes each.
        assert pitches[name] % 8 == 0
        assert conflicts(lane * pitches[name] // 2, 4) == 1, name
    assert conflicts(lane // 4 * pitches["sums"] + lane % 4 * 2, 2) == 1
    if depth % 32 == 0:
        vectors = depth // 4
        assert conflicts(lane // vectors * pitches["sums"] + lane % vectors * 4, 4) == 1


@pytest.mark.parametrize(
    ("change", "target"),
    [
        ({"depth": 24}, TARGET),
        ({"columns": 40}, TARGET),
        ({"depth": 144}, TARGET),
        ({"dtype": DType.FLOAT32}, TARGET),
        ({}, opencl_target()),
    ],
)
def test_forms_without_the_kernel(change: dict[str, int | DType], target: GpuTarget) -> None:
    sizes = sizes_of(20, 20, 64, 64, dtype=F16)
    assert fits(TARGET, sizes)
    assert not fits(target, replace(sizes, **change))  # type: ignore[arg-type]
