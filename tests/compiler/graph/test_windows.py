"""Geometry of convolutions and pools on random shapes equals ONNX Runtime's and that of ONNX's reference
implementation.
"""

from __future__ import annotations

import numpy as np
import onnxruntime
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from runtime_integers import WEIGHTS

from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.int8_operators import Int8AveragePool
from vdla.compiler.graph.interpret import interpret

TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}


def integer_model(nodes, shape, dtype, initializers, domains=()):
    graph = helper.make_graph(
        nodes,
        "windows",
        [helper.make_tensor_value_info("x", TYPES[dtype], shape)],
        [helper.make_tensor_value_info("y", TYPES[dtype], [None] * 4)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in initializers.items()],
    )
    imports = [helper.make_opsetid("", 19), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def runtime(model, data):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": data})[0]


def ours(model, data):
    graph = import_model(model.SerializeToString())
    return graph, load_outputs(graph, interpret(graph, store_inputs(graph, {"x": data})))["y"]


@st.composite
def convolutions(draw, modes=("NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"), groups=(1, 1, 2, 3)):
    """Parameters of a random convolution whose window fits the input; its auto_pad is one of `modes`, its number of
    groups one of `groups`. Dilated windows have explicit pads, because ONNX Runtime's auto_pad ignores dilations.
    """
    mode, group = draw(st.sampled_from(modes)), draw(st.sampled_from(groups))
    kernel = [draw(st.integers(1, 4)) for _ in range(2)]
    dilations = [draw(st.integers(1, 3)) if mode == "NOTSET" else 1 for _ in range(2)]
    pads = [draw(st.integers(0, 3)) if mode == "NOTSET" else 0 for _ in range(4)]
    extents = [dilation * (size - 1) + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    least = [max(1, extents[axis] - pads[axis] - pads[axis + 2]) for axis in range(2)]
    plane = [draw(st.integers(least[axis], least[axis] + 12)) for axis in range(2)]
    attributes = {
        "group": group,
        "dilations": dilations,
        "strides": [draw(st.integers(1, 3)) for _ in range(2)],
    }
    return {
        "shape": (draw(st.integers(1, 2)), group * draw(st.integers(1, 4)), *plane),
        "weight": (group * draw(st.integers(1, 4)), kernel),
        "attributes": attributes | ({"pads": pads} if mode == "NOTSET" else {"auto_pad": mode}),
        "dtype": draw(st.sampled_from(["int8", "uint8"])),
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


def convolution_model(case):
    rng = np.random.default_rng(case["seed"])
    outputs, kernel = case["weight"]
    dtype, groups = np.dtype(case["dtype"]), case["attributes"]["group"]
    zero_point = lambda: rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, dtype=dtype)  # noqa: E731
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    initializers = {
        "xs": np.float32(rng.uniform(0.01, 1)),
        "xz": zero_point(),
        "w": rng.integers(-WEIGHTS, WEIGHTS, (outputs, case["shape"][1] // groups, *kernel)).astype(np.int8),
        "ws": rng.uniform(0.001, 0.1, outputs).astype(np.float32),
        "wz": np.zeros(outputs, np.int8),
        "ys": np.float32(rng.uniform(0.1, 2)),
        "yz": zero_point(),
        "b": rng.integers(-5000, 5000, outputs).astype(np.int32),
    }
    node = helper.make_node("QLinearConv", names, ["y"], name="conv", **case["attributes"])
    data = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, case["shape"], dtype=dtype)
    return integer_model([node], case["shape"], case["dtype"], initializers), data


@settings(max_examples=examples(120), deadline=None)
@given(convolutions())
def test_convolutions_are_bit_equal_to_runtime(case):
    model, data = convolution_model(case)
    graph, got = ours(model, data)
    assert isinstance(graph.nodes[0].operator, Int8Convolution)
    np.testing.assert_array_equal(got, runtime(model, data))


@settings(max_examples=examples(30), deadline=None)
@given(convolutions(modes=("NOTSET",), groups=(1,)))
def test_convolutions_agree_with_the_onnx_reference(case):
    model, data = convolution_model(case)
    # The reference pads with 0, which is the zero point's real value only when the zero point is 0.
    for initializer in model.graph.initializer:
        if initializer.name == "xz":
            initializer.CopyFrom(numpy_helper.from_array(np.zeros((), case["dtype"]), "xz"))
    (expected,) = ReferenceEvaluator(model).run(None, {"x": data})
    _, got = ours(model, data)
    assert got.shape == expected.shape
    assert np.abs(got.astype(int) - expected.astype(int)).max() <= 1


@st.composite
def pools(draw):
    kernel = [draw(st.integers(1, 5)), draw(st.integers(1, 5))]
    pads = [draw(st.integers(0, kernel[axis % 2] - 1)) for axis in range(4)]
    least = [max(1, kernel[axis] - pads[axis] - pads[axis + 2]) for axis in range(2)]
    return {
        "shape": (1, draw(st.integers(1, 4)), *(draw(st.integers(low, low + 11)) for low in least)),
        "attributes": {
            "kernel_shape": kernel,
            "strides": [draw(st.integers(1, 4)), draw(st.integers(1, 4))],
            "pads": pads,
            "ceil_mode": draw(st.integers(0, 1)),
        },
        "dtype": draw(st.sampled_from(["int8", "uint8"])),
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


def pool_data(case):
    rng = np.random.default_rng(case["seed"])
    limits = np.iinfo(case["dtype"])
    return rng, rng.integers(limits.min, limits.max + 1, case["shape"], dtype=case["dtype"])


@settings(max_examples=examples(100), deadline=None)
@given(pools())
def test_max_pools_are_bit_equal_to_runtime(case):
    _, data = pool_data(case)
    node = helper.make_node("MaxPool", ["x"], ["y"], name="pool", **case["attributes"])
    model = integer_model([node], case["shape"], case["dtype"], {})
    _, got = ours(model, data)
    np.testing.assert_array_equal(got, runtime(model, data))


def quantized_average(case, include):
    rng, data = pool_data(case)
    limits = np.iinfo(case["dtype"])
    initializers = {
        "xs": np.float32(rng.uniform(0.01, 1)),
        "xz": rng.integers(limits.min, limits.max + 1, dtype=case["dtype"]),
        "ys": np.float32(rng.uniform(0.01, 1)),
        "yz": rng.integers(limits.min, limits.max + 1, dtype=case["dtype"]),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
        helper.make_node(
            "AveragePool", ["xf"], ["yf"], name="pool", count_include_pad=include, **case["attributes"]
        ),
        helper.make_node("QuantizeLinear", ["yf", "ys", "yz"], ["y"]),
    ]
    return integer_model(nodes, case["shape"], case["dtype"], initializers), data


@settings(max_examples=examples(150), deadline=None)
@given(pools(), st.booleans())
def test_average_pools_are_within_one_step_of_runtime(case, include):
    model, data = quantized_average(case, int(include))
    graph, got = ours(model, data)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    expected = session.run(None, {"x": data})[0]
    assert isinstance(graph.nodes[0].operator, Int8AveragePool)
    assert got.shape == expected.shape
    assert np.abs(got.astype(int) - expected.astype(int)).max() <= 1


def test_average_without_pads_divides_borders_by_what_they_hold():
    case = {
        "shape": (1, 1, 4, 4),
        "attributes": {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1], "ceil_mode": 0},
        "dtype": "int8",
        "seed": 3,
    }
    model, _ = quantized_average(case, 0)
    node = import_model(model.SerializeToString()).nodes[0]
    assert isinstance(node.operator, Int8AveragePool) and not node.operator.uniform
    assert node.operator.divisors.tolist() == [[4, 6, 6, 4], [6, 9, 9, 6], [6, 9, 9, 6], [4, 6, 6, 4]]
    assert [count for count, _ in node.operator.scale_by_divisor] == [4, 6, 9]
    model, _ = quantized_average(case, 1)
    node = import_model(model.SerializeToString()).nodes[0]
    assert (
        isinstance(node.operator, Int8AveragePool)
        and node.operator.uniform
        and node.operator.divisors.tolist() == [[9] * 4] * 4
    )
