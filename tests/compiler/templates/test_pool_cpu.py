"""Pools on CPUs. The tensor expressions are compared with ONNX Runtime, and the compiled kernels with ONNX Runtime and
with the interpreted expressions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import evaluate, run, targets

from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.graph.geometry import ceiling_pads
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.float_pool import float_pool
from vdla.compiler.templates.cpu.lowered import scheduled

SCHEDULE = scheduled


def reference(x, kind, *, ceil_mode=0, include=0, **attributes):
    """ONNX Runtime's pool of x [N, C, H, W], a max-pool if `kind` is "max", else an average pool. (ONNX's reference
    implementation is wrong for partial windows.)
    """
    attributes["ceil_mode"] = ceil_mode
    if kind == "average":
        attributes["count_include_pad"] = include
    node = onnx.helper.make_node("MaxPool" if kind == "max" else "AveragePool", ["X"], ["Y"], **attributes)
    info = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in "XY"]
    graph = onnx.helper.make_graph([node], "pool", info[:1], info[1:])
    model = onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 19)])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"X": x})[0]


def blocked(x, block):
    """The array [N, C, H, W] in channel blocks, [N * C / block, H, W, block]."""
    n, c, h, w = x.shape
    return x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2).reshape(-1, h, w, block)


@st.composite
def cases(draw):
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    dilations = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    before = [draw(st.integers(0, k - 1)) for k in kernel]
    after = [draw(st.integers(0, k - 1)) for k in kernel]
    size = [
        draw(st.integers(max(1, span - b - a), 40 if axis else 7))
        for axis, (span, b, a) in enumerate(zip(spans, before, after, strict=True))
    ]
    return {
        "kernel": kernel,
        "strides": (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        "pads": (*before, *after),
        "dilations": dilations,
        "height": size[0],
        "width": size[1],
    }


@settings(max_examples=examples(30), deadline=None)
@given(
    case=cases(),
    kind=st.sampled_from(["max", "average"]),
    ceil_mode=st.booleans(),
    include=st.booleans(),
    block=st.sampled_from([1, 3, 4, 20]),
    level=st.sampled_from(range(len(targets()))),
)
def test_pools(case, kind, ceil_mode, include, block, level):
    height, width = case["height"], case["width"]
    window = Window(**{name: case[name] for name in ("kernel", "strides", "pads", "dilations")})
    if ceil_mode:
        extents = [(k - 1) * d + 1 for k, d in zip(window.kernel, window.dilations, strict=True)]
        window = replace(window, pads=ceiling_pads((height, width), extents, window.strides, window.pads))
    x = np.random.default_rng(0).integers(-64, 64, (1, 2 * block, height, width)).astype(np.float32)
    program = float_pool(
        (2, height, width, block),
        window,
        kind,
        counted=case["pads"] if include else (0, 0, 0, 0),
    )
    arrays = {"X": blocked(x, block)}
    attributes = {
        "kernel_shape": case["kernel"],
        "strides": case["strides"],
        "pads": case["pads"],
        "dilations": case["dilations"],
        "ceil_mode": int(ceil_mode),
    }
    # Where a window holds nothing of the input, ONNX Runtime has the least finite number, and averages of its own.
    empty = reference(x, "max", **attributes) == np.finfo(np.float32).min
    expected = reference(x, kind, include=int(include), **attributes)
    if kind == "max" or not include:
        expected[empty] = -np.inf if kind == "max" else np.nan
    expected = blocked(expected, block)
    (result,) = run(program, arrays, SCHEDULE, targets()[level])
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    if expected.size < 400:
        np.testing.assert_array_equal(evaluate(program, arrays), result)


def test_average_with_dilations_counts_what_is_inside():
    window = Window(kernel=(3, 2), pads=(1, 0, 2, 1), dilations=(2, 2))
    x = np.arange(30, dtype=np.float32).reshape(1, 6, 5, 1)
    program = float_pool((1, 6, 5, 1), window, "average")
    padded = np.pad(x[0, :, :, 0], ((1, 2), (0, 1)), constant_values=np.nan)
    oh, ow = window.outputs(6, 5)
    expected = [[np.nanmean(padded[y : y + 5 : 2, c : c + 3 : 2]) for c in range(ow)] for y in range(oh)]
    np.testing.assert_allclose(evaluate(program, {"X": x})[0, :, :, 0], expected, rtol=1e-6)


def test_not_a_number_wins():
    window = Window(kernel=(2, 2), strides=(2, 2))
    x = np.zeros((1, 4, 4, 1), np.float32)
    x[0, 1, 1], x[0, 3, 3], x[0, 2, 2] = np.nan, np.inf, -np.inf
    program = float_pool((1, 4, 4, 1), window, "max")
    (result,) = run(program, {"X": x}, SCHEDULE, targets()[0])
    np.testing.assert_array_equal(result[0, :, :, 0], [[np.nan, 0], [0, np.inf]])


@pytest.mark.parametrize("lanes", [1, 16])
def test_large_windows_in_parallel(lanes):
    window = Window(kernel=(5, 7), strides=(1, 2), pads=(2, 3, 2, 3))
    program = float_pool((5, 30, 41, lanes), window, "average")
    x = np.random.default_rng(1).integers(-64, 64, program.parameters[0].shape).astype(np.float32)
    with Pool(2) as pool:
        (result,) = run(program, {"X": x}, SCHEDULE, targets()[0], pool)
    (alone,) = run(program, {"X": x}, SCHEDULE, targets()[-1])
    padded = np.pad(x.astype(np.float64), ((0, 0), (2, 2), (3, 3), (0, 0)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 7), (1, 2))[:, :, ::2]
    np.testing.assert_allclose(result, np.nanmean(windows, (-2, -1)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(result, alone)
