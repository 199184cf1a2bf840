"""Attention in one kernel of a GPU: emulated and as CUDA C++ on the CPU, compared with numpy in float64."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from attention_cases import BY_COLUMN, BY_HEAD, case, conflicts, sizes_of
from campaign import examples, representatives
from cuda_on_host.modules import run_modules
from gpu_kernels import emulated, interpreted
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.codegen.cuda.intrinsics import intrinsics
from vdla.compiler.codegen.cuda.machine import GpuTarget, cuda_target
from vdla.compiler.codegen.cuda.module import lower
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.codegen.opencl.machine import opencl_target
from vdla.compiler.codegen.wgsl.machine import wgsl_target
from vdla.compiler.ir.stmt import Program
from vdla.compiler.schedule import replay, trace_from_lists, trace_to_lists
from vdla.compiler.te.ops.attention_sizes import Attention
from vdla.compiler.te.ops.attention_tile import Tile, shared_buffers
from vdla.compiler.templates.gpu.attention import choose_tile, fits, program_of, schedule

TARGET = cuda_target()


@cache
def kernel(target: GpuTarget, sizes: Attention, tile: Tile) -> Program:
    program = program_of(target, sizes, tile)
    s = schedule(target, program, tile)
    trace = trace_from_lists(trace_to_lists(s.trace))
    assert replay(program, trace, intrinsics()).program == s.program
    return prepare(s.program, target)


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


TILES = {
    "several steps": Tile(splits=1, row_threads=4, lanes=8, rows=2, keys=1, wide=2),
    "splits": Tile(splits=2, row_threads=2, lanes=16, rows=2, keys=1, wide=1),
    "copies ahead": Tile(splits=1, row_threads=2, lanes=8, rows=2, keys=1, wide=2, stages=2),
    "one thread for a row": Tile(splits=1, row_threads=8, lanes=1, rows=1, keys=4, wide=4),
}
SIZES = {
    "plain": sizes_of(16, 32, 8, 16),
    "ragged and causal": sizes_of(11, 43, 10, 7, heads=3, batch=2, mask="causal"),
    "causal": sizes_of(40, 40, 4, 4, mask="causal"),
    "causal, by indices": sizes_of(37, 50, 4, 4, mask="compared"),
    "added mask": sizes_of(5, 40, 8, 8, batch=2, mask="added"),
    "shared heads": sizes_of(4, 20, 8, 8, heads=4, repeats=2, axes=(BY_HEAD,) * 4),
    "transposed": sizes_of(9, 20, 6, 5, axes=(BY_COLUMN,) * 4),
    "a step with a cache": sizes_of(1, 70, 16, 16, axes=(BY_HEAD,) * 4),
}
CASES = representatives(
    product(SIZES, TILES), 8, always=[(name, list(TILES)[i % len(TILES)]) for i, name in enumerate(SIZES)]
)
"""Pairs of sizes and a tile. `make test` runs every size and every tile, but not every pair."""


@pytest.mark.parametrize(("name", "tile"), CASES)
def test_online_softmax_over_steps_of_keys(name: str, tile: str) -> None:
    arrays, expected = case(SIZES[name])
    program = kernel(TARGET, SIZES[name], TILES[tile])
    assert_close(emulated(program, arrays)["Y"], expected)


@settings(max_examples=examples(4), deadline=None)
@given(
    rows=st.integers(1, 20),
    keys=st.integers(1, 40),
    depth=st.integers(1, 18),
    columns=st.integers(1, 18),
    mask=st.sampled_from(["", "added"]),
    target=st.sampled_from([TARGET, opencl_target(), wgsl_target()]),
)
def test_any_sizes_by_default_tiles(rows, keys, depth, columns, mask, target) -> None:
    sizes = sizes_of(rows, keys, depth, columns, mask=mask)
    tile = choose_tile(target, sizes)
    assert tile is not None and fits(target, sizes)
    arrays, expected = case(sizes)
    program = kernel(target, sizes, tile)
    assert_close(emulated(program, arrays)["Y"], expected)
    # Scores of which none is masked are finite, so the interpreter's results are, too.
    assert_close(interpreted(program, arrays)["Y"], expected)


def test_the_text_as_threads_run_it() -> None:
    """CUDA C++ of attention gives the right results on a CPU model of blocks, in which threads run ahead of one another
    in several orders.
    """
    chosen = [
        ("causal", "copies ahead"),
        ("ragged and causal", "splits"),
        ("transposed", "copies ahead"),
        ("shared heads", "several steps"),
    ]
    given = [case(SIZES[name]) for name, _ in chosen]
    modules = [
        (
            lower(kernel(TARGET, SIZES[name], TILES[tile]), TARGET),
            {k: v for k, v in arrays.items() if k != "Y"},
        )
        for (name, tile), (arrays, _) in zip(chosen, given, strict=True)
    ]
    for result, (_, expected) in zip(run_modules(modules, orders=3), given, strict=True):
        assert_close(result["Y"], expected)


@pytest.mark.parametrize("rows", [1, 8, 128, 1000])
@pytest.mark.parametrize("keys", [1, 77, 128, 4096])
@pytest.mark.parametrize("depth", [16, 64, 80, 128])
@pytest.mark.parametrize("target", [TARGET, opencl_target()], ids=["cuda", "opencl"])
def test_default_tiles_keep_to_the_limits_of_blocks(rows, keys, depth, target) -> None:
    sizes = sizes_of(rows, keys, depth, depth, heads=12)
    tile = choose_tile(target, sizes)
    assert tile is not None and tile.threads <= target.threads_per_block
    shared = shared_buffers(sizes, tile, shuffles=target.has("shuffles"))
    assert shared.bytes(tile.stages) <= target.shared_bytes_per_block


def words(tile: Tile, index) -> np.ndarray:
    """The first element that each thread of a block accesses, by warp; `index`(z, y, x) gives the element."""
    z, y, x = np.indices((tile.splits, tile.row_threads, tile.lanes)).reshape(3, -1)
    return index(z, y, x).reshape(-1, 32)


@pytest.mark.parametrize("rows", [1, 128])
@pytest.mark.parametrize("depth", [32, 64, 80, 128])
def test_shared_memory_has_no_bank_conflicts(rows, depth) -> None:
    sizes = sizes_of(rows, 512, depth, depth, heads=12)
    tile = choose_tile(TARGET, sizes)
    assert tile is not None
    shared = shared_buffers(sizes, tile, shuffles=True)
    q, k, v, p = (b.shape[-1] for b in (shared.query, shared.key, shared.value, shared.weights))

    def row(z, y):
        return z * tile.block_rows + y

    accesses = {
        "reads of q": (lambda z, y, x: y * q, 4),
        "reads of k": (lambda z, y, x: (z * tile.split_keys + x) * k, 4),
        "reads of v": (lambda z, y, x: z * tile.split_keys * v + x * tile.wide, tile.wide),
        "writes of p": (lambda z, y, x: row(z, y) * p + x, 1),
        "reads of p": (lambda z, y, x: row(z, y) * p, 4),
    }
    if shared.sums is not None:
        sums = shared.sums.shape[-1]
        accesses["writes of sums"] = (lambda z, y, x: row(z, y) * sums + x * tile.wide, tile.wide)
    for name, (index, width) in accesses.items():
        assert conflicts(words(tile, index), width) == 1, name
