"""Element-wise kernels, pools and data movement on a GPU, compared with numpy and the interpreter."""

from __future__ import annotations

from itertools import permutations

import every_operator
import numpy as np
import pytest
from campaign import examples
from cuda_networks import interpreted
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.ir.interp import interpret
from vdla.compiler.ir.printer import format_node
from vdla.compiler.ir.stmt import Program
from vdla.compiler.schedule import Schedule, replay, trace_from_lists, trace_to_lists
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.float_elementwise import float_elementwise
from vdla.compiler.te.ops.float_pool import float_pool
from vdla.compiler.te.ops.joined import joined_concat, joined_remap
from vdla.compiler.te.ops.movement import pad_runs, permute, remap, runs_of, slice_runs
from vdla.compiler.te.ops.tiled_permute import tiled_permute
from vdla.compiler.te.scalars import argument, exp
from vdla.compiler.templates.gpu import elementwise, movement, pool
from vdla.compiler.templates.gpu.flat import flattened

TARGET = cuda_target()


def outputs(s: Schedule, program: Program, arrays: dict[str, np.ndarray]) -> np.ndarray:
    assert replay(program, trace_from_lists(trace_to_lists(s.trace))).program == s.program
    shapes = {p.name: p.shape for p in program.parameters}
    return interpreted(s.program, {name: a.reshape(shapes[name]) for name, a in arrays.items()})["Y"]


def plainly(program: Program, arrays: dict[str, np.ndarray]) -> np.ndarray:
    return interpret(program, arrays, functions=FUNCTIONS)["Y"]


@settings(max_examples=examples(15), deadline=None)
@given(
    shape=st.lists(st.integers(1, 8), min_size=1, max_size=4),
    broadcast=st.lists(st.booleans(), min_size=4, max_size=4),
    knobs=st.builds(
        elementwise.Knobs,
        threads=st.sampled_from([1, 4, 32]),
        width=st.sampled_from([1, 2, 4]),
        items=st.sampled_from([1, 2, 3]),
    ),
)
def test_elementwise(shape, broadcast, knobs) -> None:
    other = tuple(1 if b else n for n, b in zip(shape, broadcast, strict=False))
    program = float_elementwise([tuple(shape), other], exp(argument(0)) + argument(1))
    arrays = every_operator.arrays_of(program)
    flat = flattened(program)
    found = outputs(elementwise.schedule(TARGET, flat, knobs), flat, arrays)
    np.testing.assert_array_equal(found, plainly(program, arrays).reshape(-1))


def test_large_tensors_are_loaded_four_elements_at_a_time() -> None:
    image, channel = (1, 64, 112, 112), (64, 1, 1)
    flat = flattened(float_elementwise([image, channel], argument(0) + argument(1)))
    text = format_node(elementwise.schedule(TARGET, flat).program)
    assert "vectorize(4)" in text and "thread.x(256)" in text
    # The channel is the same for all four: one load, one division.
    assert text.count("//") == 1 and "// 3136]" in text


@pytest.mark.parametrize("name", ["gather", "resize", "relayout", "concatenation", "remap"])
def test_moves_element_by_element(name) -> None:
    program = every_operator.programs()[name]
    flat = flattened(program)
    s = elementwise.schedule(TARGET, flat, elementwise.Knobs(threads=8, width=4))
    found = outputs(s, flat, every_operator.arrays_of(program))
    np.testing.assert_array_equal(found, every_operator.expected(name)["Y"].reshape(-1))


@settings(max_examples=examples(12), deadline=None)
@given(
    kind=st.sampled_from(["max", "average"]),
    sizes=st.tuples(st.integers(1, 3), st.integers(3, 9), st.integers(3, 9)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    pads=st.tuples(*[st.integers(0, 1)] * 4),
    knobs=st.builds(
        pool.Knobs,
        threads=st.sampled_from([4, 32]),
        columns=st.integers(1, 3),
        unroll=st.booleans(),
    ),
    data=st.data(),
)
def test_pools(kind, sizes, kernel, strides, pads, knobs, data) -> None:
    outer, height, width = sizes
    program = float_pool(
        (outer, height, width, 1),
        Window(kernel=kernel, strides=strides, pads=pads),
        kind,
        counted=data.draw(st.sampled_from([(0, 0, 0, 0), pads])),
    )
    arrays = every_operator.arrays_of(program)
    flat = flattened(program, intermediates=False)
    for chosen in (knobs, None):
        found = outputs(pool.schedule(TARGET, flat, chosen), flat, arrays)
        np.testing.assert_array_equal(found, plainly(program, arrays).reshape(-1))


@pytest.mark.parametrize("shape", [(3, 35, 40), (33, 34), (9, 2, 3, 10), (9, 2, 2, 9, 2)])
def test_permutations(shape) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    tiled = 0
    for axes in list(permutations(range(len(shape))))[1:24]:
        rows = movement.tile_rows(TARGET, shape, axes)
        if rows is None:
            program = flattened(permute(shape, axes))
            s = elementwise.schedule(TARGET, program)
        else:
            tiled += 1
            program = tiled_permute(shape, axes, rows=rows)
            s = movement.schedule_tiles(TARGET, program)
        np.testing.assert_array_equal(
            outputs(s, program, {"X": x}).reshape(-1), x.transpose(axes).reshape(-1)
        )
    # Axes of too few elements, or too many of them, go element by element.
    assert (tiled > 0) == (len(shape) < 5)


def test_a_tile_has_no_bank_conflicts_and_reads_and_writes_in_rows() -> None:
    program = tiled_permute((64, 96), (1, 0), rows=8)
    text = format_node(movement.schedule_tiles(TARGET, program).program)
    assert "alloc tile: float32[32, 33] @ shared" in text
    loaded, stored = (line for line in text.splitlines() if "load:" in line or "move:" in line)
    assert loaded.rstrip("]").endswith("load.x") and "] = tile[move.x, " in stored


def test_concatenations_of_few_tensors_are_one_kernel() -> None:
    parts = [np.random.default_rng(n).standard_normal((2, n, 3)).astype(np.float32) for n in (1, 4, 2, 8)]
    program = flattened(joined_concat([part.shape for part in parts], -2))
    s = elementwise.schedule(TARGET, program)
    assert format_node(s.program).count("block.x(") == 1
    found = outputs(s, program, {f"X{i}": part for i, part in enumerate(parts)})
    np.testing.assert_array_equal(found.reshape(2, 15, 3), np.concatenate(parts, axis=1))


@pytest.mark.parametrize(
    "runs",
    [
        (slice_runs(0, 5, 1), slice_runs(0, 8, 1)),
        (slice_runs(4, 5, -1), slice_runs(1, 3, 3)),
        (pad_runs(5, 1, 2), pad_runs(8, 3, 0)),
        (pad_runs(5, -1, 2), slice_runs(7, 4, -2)),
        (pad_runs(5, 1, 2, "reflect"), pad_runs(8, 2, 2, "edge")),
        (slice_runs(0, 5, 1) * 3, slice_runs(0, 8, 1) * 2),
        (runs_of([-1, 3, -1, 0, 0, 4]), slice_runs(0, 8, 1)),
    ],
)
def test_remaps_are_one_kernel(runs) -> None:
    x = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    program, tables = joined_remap((5, 8), runs, fill=7.0)
    plain = remap((5, 8), runs, fill=7.0)
    flat = flattened(program)
    s = elementwise.schedule(TARGET, flat)
    assert format_node(s.program).count("block.x(") == 1
    expected = plainly(plain, {"X": x.reshape(plain.parameters[0].shape)})
    np.testing.assert_array_equal(outputs(s, flat, {"X": x, **tables}), expected.reshape(-1))
