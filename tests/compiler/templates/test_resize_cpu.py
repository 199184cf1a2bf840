"""Resizing of images on CPUs. The tensor expressions are compared with ONNX Runtime, and the compiled kernels with ONNX
Runtime and with the interpreted expressions.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import evaluate, run, targets

from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.te.ops.resize import axis_table, resize
from vdla.compiler.templates.cpu.lowered import scheduled


def reference(x, sizes, mode, coordinates, rounding):
    """ONNX Runtime's Resize of x [N, C, H, W] to the plane `sizes`; `mode`, `coordinates` and, for the mode "nearest",
    `rounding` are the node's attributes.
    """
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = rounding
    node = onnx.helper.make_node("Resize", ["X", "", "", "S"], ["Y"], **attributes)
    info = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in "XY"]
    shape = onnx.numpy_helper.from_array(np.array([*x.shape[:2], *sizes], np.int64), "S")
    graph = onnx.helper.make_graph([node], "resize", info[:1], info[1:], [shape])
    model = onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 18)])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"X": x})[0]


def operands(x, sizes, mode, coordinates, rounding):
    rows, columns = (
        axis_table(size, outputs, mode=mode, coordinates=coordinates, rounding=rounding)
        for size, outputs in zip(x.shape[2:], sizes, strict=True)
    )
    tables = {"RI": rows.first, "CI": columns.first}
    return tables if mode == "nearest" else tables | {"RW": rows.weight, "CW": columns.weight}


@settings(max_examples=examples(40), deadline=None)
@given(
    size=st.tuples(st.integers(1, 7), st.integers(1, 24)),
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 50)),
    mode=st.sampled_from(["nearest", "linear"]),
    coordinates=st.sampled_from(["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]),
    rounding=st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    lanes=st.sampled_from([1, 3, 20]),
    level=st.sampled_from(range(len(targets()))),
)
def test_resizing(size, sizes, mode, coordinates, rounding, lanes, level):
    x = np.random.default_rng(0).integers(-64, 64, (2, lanes, *size)).astype(np.float32)
    expected = reference(x, sizes, mode, coordinates, rounding)
    program = resize(outer=2, height=size[0], width=size[1], lanes=lanes, outputs=sizes, mode=mode)
    arrays = operands(x, sizes, mode, coordinates, rounding) | {"X": x.transpose(0, 2, 3, 1)}
    (result,) = run(program, arrays, scheduled, targets()[level])
    np.testing.assert_allclose(result.transpose(0, 3, 1, 2), expected, rtol=1e-5, atol=1e-4)
    if result.size < 400:
        np.testing.assert_allclose(evaluate(program, arrays), result, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lanes", [1, 16])
def test_parallel(lanes):
    x = np.random.default_rng(0).normal(0, 1, (3, lanes, 30, 40)).astype(np.float32)
    program = resize(outer=3, height=30, width=40, lanes=lanes, outputs=(90, 80), mode="linear")
    arrays = operands(x, (90, 80), "linear", "half_pixel", "floor") | {"X": x.transpose(0, 2, 3, 1)}
    s = scheduled(targets()[0], program, parallel=True)
    assert "parallel" in {a for step in s.trace for a in step.arguments}
    with Pool(2) as pool:
        (result,) = run(program, arrays, scheduled, targets()[0], pool)
    expected = reference(x, (90, 80), "linear", "half_pixel", "floor")
    np.testing.assert_allclose(result.transpose(0, 3, 1, 2), expected, rtol=1e-5, atol=1e-5)


def test_tables_that_lead_astray_stay_inside():
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 4, 1)
    program = resize(outer=1, height=3, width=4, lanes=1, outputs=(2, 2))
    arrays = {"X": x, "RI": np.array([-9, 99]), "CI": np.array([2**62, -(2**62)])}
    (result,) = run(program, arrays, scheduled, targets()[0])
    np.testing.assert_array_equal(result[0, :, :, 0], [[3, 0], [11, 8]])
