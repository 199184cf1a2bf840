"""Convolution windows without taps that read only pads; and resized images whose readers need no channel blocks."""

from __future__ import annotations

import numpy as np
import pytest
from campaign import examples
from float_networks import FloatNetwork, relative, runtime
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.float_importer import import_float_model
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.rewrites.crop_windows import cropped
from vdla.compiler.rewrites.floating.pipeline import graph_passes, run_graph_passes
from vdla.compiler.te.blocks import Window


@pytest.mark.parametrize(
    ("window", "size", "expected"),
    [
        (
            Window(kernel=(3, 3), pads=(24,) * 4, dilations=(24, 24)),
            (14, 14),
            ((1, 1), Window(kernel=(1, 1))),
        ),
        (
            Window(kernel=(3, 3), pads=(24, 12, 24, 12), dilations=(24, 12)),
            (14, 14),
            ((1, 0), Window(kernel=(1, 3), pads=(0, 12, 0, 12), dilations=(1, 12))),
        ),
        (
            Window(kernel=(3, 1), pads=(0, 0, 8, 0), dilations=(4, 1)),
            (4, 4),
            ((0, 0), Window(kernel=(1, 1))),
        ),
    ],
)
def test_cropped_taps_and_remaining_window(window, size, expected) -> None:
    (rows, columns), left = cropped(window, size)
    assert ((rows.start, columns.start), left) == expected


WINDOWS = given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(*[st.integers(0, 12)] * 4),
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
)
"""A decorator that gives a test the sizes of a random input plane, its kernel, strides, pads and dilations."""


@WINDOWS
@settings(max_examples=examples(200), deadline=None)
def test_the_taps_that_read_the_input_are_kept(size, kernel, strides, pads, dilations) -> None:
    """After cropping, each output reads the same elements with the same weights."""
    window = Window(kernel=kernel, strides=strides, pads=pads, dilations=dilations)
    try:
        outputs = window.outputs(*size)
    except ValueError:
        return
    (rows, columns), left = cropped(window, size)
    first = (rows.start, columns.start)
    assert left.outputs(*size) == outputs and min(left.pads) >= 0
    for axis in (0, 1):
        for y in range(outputs[axis]):

            def read(window: Window, first: int, y: int = y, axis: int = axis) -> dict[int, int]:
                places = {
                    tap + first: y * window.strides[axis] + tap * window.dilations[axis] - window.pads[axis]
                    for tap in range(window.kernel[axis])
                }
                return {tap: place for tap, place in places.items() if 0 <= place < size[axis]}

            assert read(left, first[axis]) == read(window, 0)


@WINDOWS
@settings(max_examples=examples(500), deadline=None)
def test_windows_without_taps_in_the_pads_stay(size, kernel, strides, pads, dilations) -> None:
    """`crop_windows` leaves a window unchanged if `has_pad_taps` is False."""
    window = Window(kernel=kernel, strides=strides, pads=pads, dilations=dilations)
    try:
        window.outputs(*size)
    except ValueError:
        return
    if not window.has_pad_taps(*size):
        assert cropped(window, size)[1] == window


def test_dilated_convolutions() -> None:
    net = FloatNetwork(1, 5, 6, 7)
    net.convolution(4, (3, 3), pads=[8, 3, 8, 3], dilations=[8, 3])
    x = np.random.default_rng(0).standard_normal(net.input_shape, dtype=np.float32)
    (expected,) = runtime(net.model(), {"x": x}).values()
    with compile_kernels(net.model(), cpu_now()) as network:
        (got,) = network.run({"x": x}).values()
        assert relative(got, expected) <= 1e-5
        assert len(network.graph.nodes) == 2


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_images_that_grow_for_a_plain_output_are_resized_there(mode) -> None:
    net = FloatNetwork(1, 3, 5, 6)
    net.convolution(21, (1, 1))
    net.add("Resize", "", net.constant(np.array([1, 1, 3, 4], np.float32)), mode=mode)
    net.shape = (1, 21, 15, 24)
    x = np.random.default_rng(0).standard_normal(net.input_shape, dtype=np.float32)
    (expected,) = runtime(net.model(), {"x": x}).values()
    with compile_kernels(net.model(), cpu_now()) as network:
        (got,) = network.run({"x": x}).values()
        assert relative(got, expected) <= 1e-5
    graph = run_graph_passes(import_float_model(net.model()), graph_passes(16))
    assert [type(node.operator).__name__ for node in graph.nodes] == ["Convolution", "Relayout", "Resize"]
