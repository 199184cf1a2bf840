"""ReduceMean over height and width, as PyTorch's exporter writes a global average pool."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from campaign import representatives
from float_networks import FloatNetwork, runtime
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.frontends.onnx.accumulators import AccumulatorError, average_bias
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.errors import NodeError
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.int8_operators import Int8AveragePool
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.pipeline import compile_kernels, compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.isa.config import load_config

TINY = load_config("tiny")
STEP = np.float32(0.013)


def mean_model(
    shape: tuple[int, ...],
    axes: list[int] | None,
    *,
    view: list[int] | None = None,
    after: list[int] | None = None,
    dense: int = 0,
    as_input: bool = True,
    dtype: str = "uint8",
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of a quantized input, reshaped to `view`, its ReduceMean over `axes` (an input of the node or, without
    `as_input`, an attribute, as in opset 13), reshaped to `after` and quantized; then, if `dense` is not 0, a Gemm with
    `dense` outputs. A reshape to None is left out. `dtype`: type of the quantized tensors.
    """
    zero = np.dtype(dtype).type(7)
    arrays: dict[str, np.ndarray] = {"s": np.asarray(STEP), "z": np.asarray(zero)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["v0"]),
    ]

    def reshape(source: str, target: list[int], result: str) -> str:
        arrays[f"{result}_shape"] = np.array(target, np.int64)
        nodes.append(helper.make_node("Reshape", [source, f"{result}_shape"], [result], name=result))
        return result

    last = "v0" if view is None else reshape("v0", view, "viewed")
    inputs = [last]
    if axes is not None and as_input:
        arrays["axes"] = np.array(axes, np.int64)
        inputs.append("axes")
    elif axes is not None:
        attributes["axes"] = axes
    nodes.append(helper.make_node("ReduceMean", inputs, ["m"], name="mean", **attributes))
    last = "m" if after is None else reshape("m", after, "after")
    if dense:
        nodes.append(helper.make_node("QuantizeLinear", [last, "s", "z"], ["mq"]))
        nodes.append(helper.make_node("DequantizeLinear", ["mq", "s", "z"], ["md"]))
        rng = np.random.default_rng(5)
        arrays |= {
            "w": rng.integers(-127, 128, (dense, shape[1])).astype(np.int8),
            "ws": np.float32(0.004) * np.ones((), np.float32),
            "wz": np.asarray(np.int8(0)),
        }
        nodes.append(helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]))
        nodes.append(helper.make_node("Gemm", ["md", "wd"], ["g"], name="dense", transB=1))
        last = "g"
    nodes.append(helper.make_node("QuantizeLinear", [last, "s", "z"], ["yq"]))
    nodes.append(helper.make_node("DequantizeLinear", ["yq", "s", "z"], ["y"]))
    rank = len(after or view or shape)
    if after is None and not attributes.get("keepdims", 1):
        rank -= rank if axes is None else len(axes)
    graph = helper.make_graph(
        nodes,
        "means",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    opset = 18 if as_input else 13
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def reference(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """The model's output for `x` in ONNX Runtime without graph optimization: every operator computes in float32."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})[0]


CASES: dict[str, dict[str, Any]] = {
    "both axes": {"shape": (1, 20, 5, 3), "axes": [2, 3]},
    "both axes, flat": {"shape": (2, 20, 5, 3), "axes": [3, 2], "keepdims": 0, "dense": 9},
    "attribute": {"shape": (1, 5, 4, 6), "axes": [-1, -2], "as_input": False},
    "attribute, flat": {"shape": (1, 5, 4, 6), "axes": [2, -1], "as_input": False, "keepdims": 0, "dense": 3},
    "kept, then seen flat": {"shape": (1, 33, 7, 7), "axes": [-1, -2], "after": [1, -1], "dense": 10},
    "rows": {"shape": (1, 6, 4, 5), "axes": [2], "dtype": "int8"},
    "columns, flat": {"shape": (1, 6, 4, 5), "axes": [-1], "keepdims": 0},
    "a plane seen as a vector": {"shape": (1, 6, 4, 5), "view": [1, 6, 20], "axes": [2], "keepdims": 0},
    "dimensions of size 1": {"shape": (1, 6, 4, 5), "axes": [0, 2, 3]},
    "all axes": {"shape": (1, 1, 4, 5), "axes": None},
    "no axes": {"shape": (1, 3, 4, 5), "axes": None, "noop_with_empty_axes": 1},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_means_over_planes_are_average_pools_on_the_accelerator(case: dict[str, Any]) -> None:
    model = mean_model(**case)
    x = np.random.default_rng(0).uniform(-2, 4, case["shape"]).astype(np.float32)
    expected = reference(model, x)
    compiled = compile_program(model.SerializeToString(), TINY)
    graph = import_model(model.SerializeToString())
    interpreted = load_outputs(graph, interpret(graph, store_inputs(graph, {"x": x})))["y"]
    simulated = run(compiled, {"x": x}).outputs["y"]
    assert [type(node.operator) for node in graph.nodes] == [Int8AveragePool] + [Int8Convolution] * bool(
        case.get("dense")
    )
    assert simulated.shape == expected.shape
    assert np.array_equal(simulated, interpreted)
    assert np.abs(simulated - expected).max() <= 1.01 * STEP
    with compile_kernels(model.SerializeToString(), cpu_now()) as network:
        assert np.array_equal(network.run({"x": x})["y"], interpreted)


@pytest.mark.parametrize("changes", [{"axes": [1, 2, 3]}, {"view": [1, 12, 10], "axes": [2]}], ids=str)
def test_means_over_other_axes_move_elements_first(changes: dict[str, Any]) -> None:
    model = mean_model((1, 6, 4, 5), **changes)
    x = np.random.default_rng(0).uniform(-2, 4, (1, 6, 4, 5)).astype(np.float32)
    compiled = compile_program(model.SerializeToString(), TINY)
    assert Int8AveragePool in {type(node.operator) for node in compiled.graph.nodes}
    simulated = run(compiled, {"x": x}).outputs["y"]
    assert np.abs(simulated - reference(model, x)).max() <= 1.01 * STEP
    with compile_kernels(model.SerializeToString(), cpu_now()) as network:
        assert np.array_equal(network.run({"x": x})["y"], simulated)


def test_sums_of_windows_that_may_leave_32_bits_are_refused() -> None:
    largest = (2**31 - 1) // 255
    assert average_bias(largest, -128) == 128 * largest
    with pytest.raises(AccumulatorError, match="windows of 8421505 values"):
        average_bias(largest + 1, 0)
    with pytest.raises(
        NodeError,
        match=r"quantizes the result of 'mean', where the sums over windows of 16777216 values .* smaller windows",
    ):
        import_model(mean_model((1, 1, 4096, 4096), [2, 3]).SerializeToString())


def test_averages_of_large_planes_do_not_wrap() -> None:
    shape = (1, 1, 1024, 1024)
    model = mean_model(shape, [2, 3])
    x = np.full(shape, 9.0, np.float32)
    x[..., ::3] = 0.5
    with compile_kernels(model.SerializeToString(), cpu_now()) as network:
        assert np.abs(network.run({"x": x})["y"] - reference(model, x)).max() <= 1.01 * STEP


RANK_FOUR = ([1], [2], [3], [1, 2], [1, 3], [2, 3])


@pytest.mark.parametrize(
    ("axes", "keepdims"),
    representatives(
        itertools.product(RANK_FOUR, (0, 1)),
        0,
        # All axes, of one and of two with and without the dimensions.
        always=[(axes, i % 2) for i, axes in enumerate(RANK_FOUR)],
    ),
)
def test_means_of_a_product_of_rank_four(axes: list[int], keepdims: int) -> None:
    """The last axis of the product is the channel axis of its tensor. Regression: the mean over one axis was computed
    over two.
    """
    net = FloatNetwork(2, 5, 3, 7, opset=13)
    step, zero = net.constant(np.float32(0.05)), net.constant(np.int8(3))
    for name in ("QuantizeLinear", "DequantizeLinear"):
        net.add(name, step, zero)
    data = net.last
    weights = net.constant(net.rng.integers(-127, 128, (7, 4)).astype(np.int8))
    net.add("DequantizeLinear", inputs=[weights, net.constant(np.float32(0.01)), net.constant(np.int8(0))])
    net.add("MatMul", inputs=[data, net.last])
    for name in ("QuantizeLinear", "DequantizeLinear"):
        net.add(name, step, zero)
    net.add("ReduceMean", axes=axes, keepdims=keepdims)
    for name in ("QuantizeLinear", "DequantizeLinear"):
        net.add(name, step, zero)
    net.shape = tuple(
        1 if axis in axes else size for axis, size in enumerate((2, 5, 3, 4)) if keepdims or axis not in axes
    )
    model, x = net.model(), net.rng.standard_normal(net.input_shape, dtype=np.float32)
    expected = runtime(model, {"x": x})[net.last]
    made = compile_program(model, TINY)
    (own,) = load_outputs(made.graph, interpret(made.graph, store_inputs(made.graph, {"x": x}))).values()
    np.testing.assert_array_equal(run(made, {"x": x}).outputs[net.last], own)
    with compile_kernels(model, cpu_now()) as network:
        np.testing.assert_array_equal(network.run({"x": x})[net.last], own)
    # One step, of the product and of its mean.
    assert own.shape == expected.shape and np.abs(own - expected).max() <= 0.0501
