"""Sketches (generated schedule spaces): random points of every operator can be scheduled, compute the same as the
program, and match the cost model's counts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from campaign import in_campaigns
from every_operator import SAME, arrays_of, expected, programs
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.ir.expr import Buffer
from vdla.compiler.ir.hash import structural_hash
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.replace_buffers import replace_buffers
from vdla.compiler.ir.verify import verify
from vdla.compiler.ir.visit import loops
from vdla.compiler.schedule import LegalityError, replay, trace_from_lists, trace_to_lists
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.blocked_convolution import blocked_convolution
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.templates.cpu import loops as grains
from vdla.compiler.templates.cpu.sketch import schedule as sketch_schedules
from vdla.compiler.templates.cpu.sketch.cost import effective_values, sketch_space
from vdla.compiler.templates.cpu.sketch.schedule import sketch_schedule
from vdla.compiler.templates.cpu.sketch.sketch import find_sketches
from vdla.compiler.tune.program_features.program import program_features

NARROW = parse_target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v2")
"""A CPU target with vectors of four float32 elements, so that small shapes have many vectors."""


def assert_close(got, name: str) -> None:
    for output, array in expected(name).items():
        np.testing.assert_allclose(got[output], array, rtol=1e-5, atol=1e-6)


def random_schedule(name: str, seed: int, target, parallel: bool = False):
    program = programs()[name]
    constants = frozenset({"W"} if seed % 2 else ())
    found = find_sketches(program, target, constants=constants, parallel=parallel)
    space = sketch_space(found)
    (point,) = space.sample(np.random.default_rng(seed), 1)
    return sketch_schedule(found, space.values(point))


def run_kernel(name: str, s, pool: Pool | None = None) -> dict[str, np.ndarray]:
    arrays = pack_arrays(s.trace, arrays_of(programs()[name]))
    for p in s.program.parameters:
        arrays.setdefault(p.name, np.full(p.shape, 99, p.dtype.numpy))
    build(s.program).bind(arrays, pool)()
    return arrays


@pytest.mark.parametrize("name", programs())
@settings(max_examples=in_campaigns(2, 1), deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_points_compute_what_the_program_does(name, seed):
    s = random_schedule(name, seed, NARROW)
    verify(s.program)
    again = replay(programs()[name], trace_from_lists(trace_to_lists(s.trace)))
    assert again.program == s.program
    arrays = pack_arrays(s.trace, arrays_of(programs()[name]))
    # Lanes of a batch that is not there are never written, in the unscheduled program neither.
    poison = name != "vdla patches"
    assert_close(interpret(s.program, arrays, functions=FUNCTIONS, poison=poison), name)
    assert np.isfinite(program_features(s.program)).all()


# Patches are the accelerator's instruction.
@pytest.mark.parametrize("name", [name for name in programs() if name != "vdla patches"])
def test_kernels_of_random_points_compute_what_the_program_does(name):
    assert_close(run_kernel(name, random_schedule(name, 1, host_target())), name)


@pytest.mark.parametrize("name", ["dense", "convolution", "matmul", "softmax", "lstm"])
def test_parallel_kernels_of_random_points_compute_what_the_program_does(name, monkeypatch):
    monkeypatch.setattr(sketch_schedules, "PARALLEL_WORK", 1)
    monkeypatch.setattr(grains, "GRAIN", 1)
    s = random_schedule(name, 3, host_target(), parallel=True)
    assert "parallel" in {loop.kind for loop in loops(s.program)}
    with Pool(2) as pool:
        assert_close(run_kernel(name, s, pool), name)


CONVOLUTION = blocked_convolution(
    Convolution(batch=1, channels=64, height=28, width=28, filters=96, window=SAME), block_in=16, block_out=16
)


def test_nearly_all_points_of_a_convolution_schedule():
    found = find_sketches(CONVOLUTION, host_target(), constants=frozenset({"W"}))
    space = sketch_space(found)
    refused = 0
    for point in space.sample(np.random.default_rng(0), 24):
        try:
            s = sketch_schedule(found, space.values(point))
        except LegalityError:
            refused += 1
            continue
        assert max(loop.extent.value for loop in loops(s.program) if loop.kind == "vectorize") <= 128
    assert refused <= 2


def test_equal_rows_are_the_same_program():
    found = find_sketches(programs()["convolution"], NARROW, constants=frozenset({"W"}))
    space = sketch_space(found)
    rng = np.random.default_rng(0)
    points = space.sample(rng, 400)
    estimates = space.cost(space.columns(points))
    rows = np.stack([estimates.effective[axis.name] for axis in space.axes], axis=1)
    again = space.cost({axis.name: rows[:, k] for k, axis in enumerate(space.axes)}).effective
    for k, axis in enumerate(space.axes):
        assert set(rows[:, k].tolist()) <= set(axis.values)
        np.testing.assert_array_equal(again[axis.name], rows[:, k])
    for point, row in zip(points[:3], rows[:3], strict=True):
        values = dict(zip((axis.name for axis in space.axes), row.tolist(), strict=True))
        assert effective_values(found, space.values(point)) == values
        # What is set to one changes nothing: other values of it are the same program.
        one, other = (sketch_schedule(found, v).program for v in (space.values(point), values))
        assert structural_hash(one) == structural_hash(other)
    assert len(np.unique(rows, axis=0)) > 200


def test_accounts_count_what_programs_do():
    program = product(Matrices(rows=24, depth=32, columns=64))
    found = find_sketches(program, host_target())
    space = sketch_space(found)
    points = space.sample(np.random.default_rng(1), 200)
    estimates = space.cost(space.columns(points))
    assert all((values > 0).all() for values in estimates.quantities.values())
    assert (estimates.bound >= space.floor).all() and space.legal(points).all()
    lanes = host_target().vector_bits // 32
    for k in range(0, 200, 40):
        values = space.values(points[k])
        rows, columns = min(values["tile.0"], 24), min(values["tile.1"], 64)
        if values.get("vector", 0) == 0:
            assert estimates.quantities["sums in registers"][k] == rows * -(-columns // lanes)
        tiles = -(-24 // rows) * -(-64 // columns)
        assert estimates.quantities["tiles"][k] == tiles


def test_axes_of_each_program():
    def names(name: str, **options) -> set[str]:
        return {axis.name for axis in find_sketches(programs()[name], host_target(), **options).axes}

    assert {"tile.0", "block.1", "order", "part", "unroll"} < names("dense")
    assert "copy.1" in names("dense") and "pack.1" in names("dense", constants=frozenset({"W"}))
    # Candidates are timed on one thread, which says nothing about which loop several should share.
    assert names("dense") == names("dense", parallel=True)
    assert {"producer", "terms"} < names("convolution")
    assert names("permutation") == {"nest.loop", "nest.vectors", "nest.unroll"}
    assert names("maximum of all") == {"nest.unroll"}
    # A sum that goes straight to a parameter is tiled too.
    assert any(name.startswith("tile.") for name in names("sum without a consumer"))


@pytest.mark.parametrize("sizes", [(1, 2, 2), (400, 7, 1), (3, 300, 2), (1, 1, 5), (17, 2, 3)])
def test_programs_of_short_loops_have_legal_points(sizes):
    rows, depth, columns = sizes
    space = sketch_space(
        find_sketches(product(Matrices(rows=rows, depth=depth, columns=columns)), host_target())
    )
    assert len(space.sample(np.random.default_rng(0), 4)) == 4


def test_workloads_are_known_by_structure_alone():
    first, second, third = (
        find_sketches(product(Matrices(rows=rows, depth=4, columns=4), name=name), NARROW).key
        for rows, name in ((3, "a"), (3, "b"), (4, "a"))
    )
    assert first == second != third
    named = programs()["dense"]
    match named.parameters[1]:
        case Buffer(name=name) as weight:
            other = replace_buffers(named, {name: replace(weight, name="weight")})
    spaces = [
        find_sketches(program, NARROW, constants=frozenset({"W", "weight"})).axes
        for program in (named, other)
    ]
    assert spaces[0] == spaces[1] and find_sketches(other, NARROW).key == find_sketches(named, NARROW).key
