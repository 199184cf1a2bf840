"""QONNX's Quant nodes: networks as Brevitas and others write them run in integers."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import vdla
from vdla.compiler.frontends.onnx.model.read import read_model

DOMAIN = "qonnx.custom_op.general"


def quant(data: str, output: str, name: str, **attributes: object) -> onnx.NodeProto:
    inputs = [data, f"{name}.s", f"{name}.z", f"{name}.b"]
    return helper.make_node("Quant", inputs, [output], name, domain=DOMAIN, **attributes)


def model(nodes: list[onnx.NodeProto], arrays: dict[str, np.ndarray], shape: list[int]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "quantized",
        [helper.make_tensor_value_info("x", T.FLOAT, shape)],
        [helper.make_tensor_value_info("y", T.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in arrays.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def network() -> tuple[onnx.ModelProto, np.ndarray]:
    """Returns (a model of a convolution with weights of 4 bits by channel, a bias of 16 bits and activations of 8 and 3
    bits; an input).
    """
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((8, 4, 3, 3)).astype(np.float32)
    arrays = {
        "i.s": np.float32(0.03125),
        "i.z": 0.0,
        "i.b": 8.0,
        "w.s": np.linspace(0.2, 0.4, 8, dtype=np.float32).reshape(8, 1, 1, 1),
        "w.z": 0.0,
        "w.b": 4.0,
        "c.s": np.float32(1 / 512),
        "c.z": 0.0,
        "c.b": 16.0,
        "o.s": np.float32(0.5),
        "o.z": 0.0,
        "o.b": 3.0,
        "w": weights,
        "c": rng.standard_normal(8).astype(np.float32),
    }
    nodes = [
        quant("x", "xq", "i", signed=1),
        quant("w", "wq", "w", signed=1, narrow=1),
        quant("c", "cq", "c", signed=1),
        helper.make_node("Conv", ["xq", "wq", "cq"], ["conv"], "conv", pads=[1] * 4),
        helper.make_node("Relu", ["conv"], ["relu"], "relu"),
        quant("relu", "y", "o", signed=0),
    ]
    return model(nodes, arrays, [1, 4, 6, 6]), rng.standard_normal((1, 4, 6, 6)).astype(np.float32)


def expected(arrays: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """The network's output for the input `x` by QONNX's formula, in float64; `arrays`: its constants by name."""

    def grid(values: np.ndarray, name: str, low: int, high: int) -> np.ndarray:
        scale = arrays[f"{name}.s"].astype(np.float64)
        return np.rint(np.clip(values / scale, low, high)) * scale

    data = np.pad(grid(x, "i", -128, 127), ((0, 0), (0, 0), (1, 1), (1, 1)))
    weights = grid(arrays["w"], "w", -7, 7)
    sums = np.zeros((1, 8, 6, 6))
    for row in range(3):
        for column in range(3):
            part = data[:, :, row : row + 6, column : column + 6]
            sums += np.einsum("nchw,fc->nfhw", part, weights[:, :, row, column])
    sums += grid(arrays["c"], "c", -(1 << 15), (1 << 15) - 1).reshape(1, 8, 1, 1)
    return grid(np.maximum(sums, 0), "o", 0, 7)


@pytest.mark.parametrize("target", ["llvm", "vdla"])
def test_a_network_of_few_bits_is_equal_to_the_formula(target: str) -> None:
    proto, x = network()
    arrays = {entry.name: numpy_helper.to_array(entry) for entry in proto.graph.initializer}
    with vdla.compile(proto, target, "tiny") as compiled:
        (output,) = compiled.run({"x": x}).values()
    wanted = expected(arrays, x)
    # A sum within rounding error of a tie may go to either side.
    assert np.abs(output - wanted).max() <= 0.5
    assert (output != wanted).mean() < 0.01
    assert set(np.unique(output)) <= set(np.arange(8) * 0.5)


def test_bounds_of_eight_bits_need_no_clip() -> None:
    proto, _ = network()
    kinds = [node.op_type for node in read_model(proto.SerializeToString()).bare.graph.node]
    assert kinds == [
        *("QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "DequantizeLinear", "Conv", "Relu"),
        *("Clip", "QuantizeLinear", "DequantizeLinear"),
    ]


@pytest.mark.parametrize(
    ("changed", "attributes", "message"),
    [
        ({"i.b": 12.0}, {}, "quantizes an activation to more than 8 bits"),
        ({"i.b": 2.5}, {}, "has 2.5 bits"),
        ({"i.z": 0.5}, {}, "its zero point is not an integer"),
        ({"i.s": np.ones((4, 3))}, {}, "has scales of shape (4, 3), along several axes"),
        ({}, {"rounding_mode": "FLOOR"}, "rounding_mode FLOOR is not supported"),
    ],
)
def test_other_kinds_are_refused(
    changed: dict[str, object], attributes: dict[str, str], message: str
) -> None:
    arrays = {"i.s": np.float32(0.5), "i.z": 0.0, "i.b": 8.0, **changed}
    proto = model([quant("x", "y", "i", **attributes)], arrays, [1, 4])
    with pytest.raises(vdla.UserError) as caught:
        vdla.compile(proto, "llvm")
    assert str(caught.value).startswith("model: node 'i' (Quant): ")
    assert message in str(caught.value)


def test_parameters_must_be_constant() -> None:
    proto = model([quant("x", "y", "i")], {"i.s": np.float32(0.5), "i.z": 0.0}, [1, 4])
    with pytest.raises(vdla.UserError, match=r"its input 'i\.b' is not constant"):
        vdla.compile(proto, "llvm")


def test_weights_that_are_stored_apart_from_the_model() -> None:
    size = 160  # 160 x 160 float32 weights are cut out of the file before protobuf reads it
    rng = np.random.default_rng(1)
    grids = {"i": (0.0625, 8.0), "w": (0.125, 4.0), "o": (0.0625, 8.0)}
    arrays: dict[str, object] = {"w": rng.standard_normal((size, size)).astype(np.float32)}
    for name, (scale, bits) in grids.items():
        arrays |= {f"{name}.s": np.float32(scale), f"{name}.z": 0.0, f"{name}.b": bits}
    nodes = [
        quant("x", "xq", "i"),
        quant("w", "wq", "w"),
        helper.make_node("MatMul", ["xq", "wq"], ["m"], "product"),
        quant("m", "y", "o"),
    ]
    x = rng.standard_normal((1, size)).astype(np.float32)
    with vdla.compile(model(nodes, arrays, [1, size]), "llvm") as compiled:
        (output,) = compiled.run({"x": x}).values()
    data = np.rint(np.clip(x / 0.0625, -128, 127)) * 0.0625
    sums = data @ (np.rint(np.clip(np.asarray(arrays["w"]) / 0.125, -8, 7)) * 0.125)
    assert np.array_equal(output, np.rint(np.clip(sums / 0.0625, -128, 127)) * 0.0625)
