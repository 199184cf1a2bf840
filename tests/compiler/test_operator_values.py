"""Operators at extreme values and in rare forms, on CPUs and emulated GPUs, compared with numpy and ONNX's reference
implementation.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from campaign import representatives
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from vdla.compiler.codegen.cuda.options import parse_target
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.gpu_stages import gpu_emulated
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.pipeline import compile_kernels


def model_of(
    op: str, shape: tuple[int, ...], *constants: np.ndarray, opset: int = 18, **attributes: Any
) -> onnx.ModelProto:
    names = [f"c{i}" for i in range(len(constants))]
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *names], ["y"], "node", **attributes)],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))],
        [numpy_helper.from_array(array, name) for name, array in zip(names, constants, strict=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def check(model: onnx.ModelProto, x: np.ndarray, expected: np.ndarray, rtol: float = 1e-6) -> None:
    data = model.SerializeToString()
    for network in (
        compile_kernels(data, cpu_now()),
        compile_kernels(data, gpu_emulated(parse_target("cuda"))),
    ):
        with network:
            np.testing.assert_allclose(network.run({"x": x})["y"], expected, rtol=rtol, atol=0)


def reference(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return np.asarray(ReferenceEvaluator(model).run(None, {"x": x})[0])


@pytest.mark.parametrize("mode", ["DCR", "CRD", None])
@pytest.mark.parametrize("op", ["SpaceToDepth", "DepthToSpace"])
def test_modes_of_space_and_depth(op: str, mode: str | None) -> None:
    x = np.arange(2 * 8 * 4 * 6, dtype=np.float32).reshape(2, 8, 4, 6)
    model = model_of(op, x.shape, opset=28, blocksize=2, **({"mode": mode} if mode else {}))
    check(model, x, reference(model, x))


@pytest.mark.parametrize(
    "op", ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"]
)
def test_reductions_over_no_axes(op: str) -> None:
    x = np.array([[-1.5, 2, -0.0], [np.inf, -np.inf, 7]], np.float32)
    expected = {"ReduceL1": np.abs(x), "ReduceL2": np.abs(x), "ReduceSumSquare": x * x}.get(op, x)
    check(model_of(op, x.shape, noop_with_empty_axes=1), x, expected)
    check(model_of(op, x.shape, np.zeros(0, np.int64), noop_with_empty_axes=1), x, expected)


LOGARITHMS = ("ReduceLogSum", "ReduceLogSumExp")
AXES = (None, (1,), (0, -1))


@pytest.mark.parametrize(
    ("op", "axes", "keepdims"),
    representatives(
        itertools.product(LOGARITHMS, AXES, (0, 1)),
        0,
        always=[(op, axes, (i + j) % 2) for i, op in enumerate(LOGARITHMS) for j, axes in enumerate(AXES)],
    ),
)
def test_logarithms_of_sums(op: str, axes: tuple[int, ...] | None, keepdims: int) -> None:
    x = np.random.default_rng(0).uniform(0.1, 9, (3, 4, 5)).astype(np.float32)
    if op == "ReduceLogSumExp":
        x[0] += 1000
    kept = {"axis": axes, "keepdims": bool(keepdims)}
    exact = x.astype(np.float64)
    # More than exp can take in float32, and in float64.
    expected = np.log(exact.sum(**kept)) if op == "ReduceLogSum" else np.logaddexp.reduce(exact, **kept)
    constants = () if axes is None else (np.array(axes, np.int64),)
    model = model_of(op, x.shape, *constants, keepdims=keepdims)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    for _ in np.shape(expected):
        model.graph.output[0].type.tensor_type.shape.dim.add()
    check(model, x, expected)


def test_logarithms_of_special_sums() -> None:
    x = np.array([[-np.inf] * 3, [np.inf, 0, -np.inf], [np.nan, 1, 2], [-np.inf, 0, 1]], np.float32)
    model = model_of("ReduceLogSumExp", x.shape, np.array([1]))
    check(model, x, np.array([[-np.inf], [np.inf], [np.nan], [np.log(1 + np.e)]], np.float32))
    model = model_of("ReduceLogSumExp", x.shape, noop_with_empty_axes=1)
    check(model, x, x)
    model = model_of("ReduceLogSum", (4, 3), noop_with_empty_axes=1)
    x = np.array([[np.inf, 1, 0.5], [np.nan, 3, 1e-30]] * 2, np.float32)
    check(model, x, np.log(x))


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 9.5, -0.5, -1.0, -1.5, -3.0, -4.0])
def test_powers_of_special_numbers(exponent: float) -> None:
    x = np.array([-np.inf, -2, -1, -0.0, 0.0, 0.5, 1, 3, np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        # numpy takes the square root for 0.5, which is NaN of -inf; C's pow is inf.
        expected = np.array([_pow(float(value), exponent) for value in x], np.float32)
    model = model_of("Pow", x.shape, np.array(exponent, np.float32), opset=15)
    check(model, x, expected, rtol=2e-6)
    data = model.SerializeToString()
    with compile_kernels(data, cpu_now()) as network:
        got = network.run({"x": x})["y"]
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


def _pow(x: float, exponent: float) -> float:
    if exponent == 0.5 and x == -np.inf:
        return np.inf
    return float(np.float32(np.power(np.float64(x), exponent))) if x != 0 or exponent != 0.5 else 0.0


@pytest.mark.parametrize("mode", ["wrap", "reflect", "edge", "constant"])
@pytest.mark.parametrize("pads", [(-2, 3), (3, -2), (-1, 4), (-2, -1), (2, 1), (3, -3)])
def test_pads_of_both_signs_cut_first(mode: str, pads: tuple[int, int]) -> None:
    x = np.arange(1, 8, dtype=np.float32)
    before, after = pads
    left = x[max(0, -before) : len(x) - max(0, -after)]
    expected = np.pad(left, (max(0, before), max(0, after)), mode=mode)  # type: ignore[call-overload]
    check(model_of("Pad", x.shape, np.array(pads, np.int64), opset=19, mode=mode), x, expected)


def test_pads_that_leave_nothing_are_refused() -> None:
    model = model_of("Pad", (4,), np.array((-4, 3), np.int64), opset=19, mode="wrap")
    with pytest.raises(ModelError, match="crop all of an axis of 4"):
        compile_kernels(model.SerializeToString(), cpu_now())


def gathered(data: np.ndarray, indices: np.ndarray, axis: int) -> onnx.ModelProto:
    """A model of x plus the GatherElements of the constant `data` by the constant `indices` along `axis`."""
    graph = helper.make_graph(
        [
            helper.make_node("GatherElements", ["d", "i"], ["g"], "gather", axis=axis),
            helper.make_node("Add", ["x", "g"], ["y"], "add"),
        ],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, indices.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * indices.ndim)],
        [numpy_helper.from_array(data, "d"), numpy_helper.from_array(indices, "i")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gathered_elements_of_constants(axis: int) -> None:
    generator = np.random.default_rng(axis % 2)
    data = generator.standard_normal((3, 40), dtype=np.float32)
    shape = (2, 7)
    size = data.shape[axis]
    indices = generator.integers(-size, size, shape)
    expected = np.empty(shape, np.float32)
    for i, j in np.ndindex(shape):
        index = int(indices[i, j]) % size
        expected[i, j] = data[index, j] if axis == 0 else data[i, index]
    check(gathered(data, indices, axis), np.zeros(shape, np.float32), expected)


def test_gathered_elements_that_do_not_fit() -> None:
    data, indices = np.zeros((2, 5), np.float32), np.zeros((3, 1), np.int64)
    with pytest.raises(ModelError, match=r"'gather'.*longer than its data"):
        compile_kernels(gathered(data, indices, 1).SerializeToString(), cpu_now())
    with pytest.raises(ModelError, match=r"'gather'.*outside of axis 1, which has 5"):
        compile_kernels(gathered(data, np.full((1, 1), 5), 1).SerializeToString(), cpu_now())


@pytest.mark.parametrize(
    ("bounds", "what"),
    [
        ((np.int64(0), np.int64(1)), "of the same length"),
        (([0, 0], [1]), "of the same length"),
        (([0], [1], [0], [0]), "no step of 0"),
        (([0], [1], [2]), "must be different axes"),
        (([0, 0], [1, 1], [1, -1]), "must be different axes"),
    ],
)
def test_slices_that_say_nothing_are_refused(bounds: tuple[Any, ...], what: str) -> None:
    model = model_of("Slice", (3, 4), *[np.asarray(value, np.int64) for value in bounds])
    # ONNX's own inference refuses some of them first.
    with pytest.raises(ModelError, match=f"{what}|contradict"):
        compile_kernels(model.SerializeToString(), cpu_now())


@pytest.mark.parametrize(
    ("shape", "scale", "attributes"),
    [
        ((4, 3), (), {}),
        ((4, 3), (1,), {}),
        ((4, 3), (3,), {"axis": 1}),
        ((4, 3), (2, 3), {"axis": 0, "block_size": 2}),
        ((), (), {}),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16])
def test_large_constants_saturate_when_quantized(
    shape: tuple[int, ...], scale: tuple[int, ...], attributes: dict[str, int], dtype: type
) -> None:
    """Quotients beyond int32, which ONNX's reference implementation would wrap, saturate at their own end."""
    rng = np.random.default_rng(3)
    large = np.asarray(rng.choice([-1, 1], shape) * 10.0 ** rng.uniform(-3, 30, shape)).astype(np.float32)
    scales = np.asarray(rng.uniform(1e-3, 1e-2, scale)).astype(np.float32)
    nodes = [
        helper.make_node("QuantizeLinear", ["large", "scale", "zero"], ["q"], **attributes),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"], **attributes),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    constants = {"large": large, "scale": scales, "zero": np.full(scale, 5, dtype)}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    steps = scales.astype(np.float64)
    if "block_size" in attributes:
        steps = np.repeat(steps, attributes["block_size"], attributes["axis"])
    limits = np.iinfo(dtype)
    quantized = np.clip(np.rint(large / steps) + 5, limits.min, limits.max)
    check(model, np.zeros(shape, np.float32), ((quantized - 5) * steps).astype(np.float32))
