"""A builder of small float networks, their quantization by ONNX Runtime, and comparisons layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from runtime_integers import WEIGHTS

from vdla.codesign.evaluate import kernels_saturate
from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.host import load_outputs, store_inputs
from vdla.compiler.graph.interpret import evaluate, interpret
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.rewrites.fuse_pairs import fuse_pool

Network = onnx.ModelProto

FORMS: dict[str, dict[str, Any]] = {
    "qdq-u8-channel": {"per_channel": True},
    "qdq-u8-u8-tensor": {"weight_type": QuantType.QUInt8, "reduce_range": True},
    "qdq-s8-symmetric": {"activation_type": QuantType.QInt8, "extra_options": {"ActivationSymmetric": True}},
    "qdq-s8-asymmetric": {"activation_type": QuantType.QInt8, "per_channel": True},
    "qdq-u8-float-weights": {"per_channel": True, "extra_options": {"AddQDQPairToWeight": True}},
    "qdq-u8-float-bias": {"extra_options": {"QuantizeBias": False}},
    "qop-u8-channel": {"per_channel": True, "quant_format": QuantFormat.QOperator},
    "qop-u8-u8-tensor": {
        "weight_type": QuantType.QUInt8,
        "extra_options": {"WeightSymmetric": True},
        "quant_format": QuantFormat.QOperator,
    },
    "qop-s8": {"activation_type": QuantType.QInt8, "quant_format": QuantFormat.QOperator},
}


class Reader(CalibrationDataReader):
    """Calibration data: six seeded random inputs of a network."""

    def __init__(self, model: Network, seed: int = 5):
        rng = np.random.default_rng(seed)
        self.feeds = iter([random_feed(model, rng) for _ in range(6)])

    def get_next(self):
        return next(self.feeds, None)


def random_feed(model: Network, rng: np.random.Generator) -> dict[str, np.ndarray]:
    feed = {}
    for info in model.graph.input:
        shape = [dimension.dim_value for dimension in info.type.tensor_type.shape.dim]
        match info.type.tensor_type.elem_type:
            case TensorProto.FLOAT:
                feed[info.name] = rng.normal(0.2, 1.0, shape).astype(np.float32)
            case TensorProto.UINT8:
                feed[info.name] = rng.integers(0, 256, shape).astype(np.uint8)
            case _:
                feed[info.name] = rng.integers(-128, 128, shape).astype(np.int8)
    return feed


class NetworkBuilder:
    """Collects nodes and seeded initializers of a network with one float input `x`."""

    def __init__(self, *shape: int, opset: int = 17, seed: int = 0, elem_type: int = TensorProto.FLOAT):
        self.inputs = [helper.make_tensor_value_info("x", elem_type, list(shape))]
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(seed)
        self.opset = opset

    def constant(self, name: str, array: np.ndarray) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def random(self, name: str, *shape: int) -> str:
        scale = 1 / np.sqrt(max(1, np.prod(shape[1:])))
        return self.constant(name, self.rng.normal(0, scale, shape).astype(np.float32))

    def node(self, op_type: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=f"node_{output}", **attributes))
        return output

    def conv(self, data: str, output: str, *weight: int, bias: bool = True, **attributes: Any) -> str:
        inputs = [data, self.random(f"{output}_w", *weight)]
        if bias:
            inputs.append(self.random(f"{output}_b", weight[0]))
        return self.node("Conv", inputs, output, **attributes)

    def pair(self, data: str, scale: float, zero_point: np.generic) -> str:
        """Adds QuantizeLinear and DequantizeLinear of a tensor; returns the name of the dequantized tensor."""
        inputs = [
            self.constant(f"{data}_s", np.float32(scale)),
            self.constant(f"{data}_z", np.asarray(zero_point)),
        ]
        self.node("QuantizeLinear", [data, *inputs], f"{data}_q")
        return self.node("DequantizeLinear", [f"{data}_q", *inputs], f"{data}_d")

    def weight(self, name: str, *shape: int, scale: float = 0.01) -> str:
        """Adds seeded int8 weights and their DequantizeLinear; returns the name of the dequantized tensor."""
        integers = self.constant(f"{name}_q", self.rng.integers(-WEIGHTS, WEIGHTS, shape).astype(np.int8))
        return self.node("DequantizeLinear", [integers, self.constant(f"{name}_s", np.float32(scale))], name)

    def model(
        self, *outputs: str, elem_type: int = TensorProto.FLOAT, domains: tuple[str, ...] = ()
    ) -> Network:
        infos = [onnx.ValueInfoProto(name=name) for name in outputs]
        for info in infos:
            info.type.tensor_type.elem_type = elem_type
        graph = helper.make_graph(self.nodes, "net", self.inputs, infos, self.initializers)
        imports = [
            helper.make_opsetid("", self.opset),
            *(helper.make_opsetid(domain, 1) for domain in domains),
        ]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        return onnx.shape_inference.infer_shapes(model)


def quantize_network(model: Network, form: str, folder: Path) -> bytes:
    """The bytes of a float model after ONNX Runtime's static quantization with the options `FORMS[form]`, through a
    file in `folder`. Weights have 7 bits on processors where ONNX Runtime's kernels would saturate with 8.
    """
    options = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, **FORMS[form]}
    options["reduce_range"] = options.get("reduce_range", False) or kernels_saturate()
    target = folder / "quantized.onnx"
    quantize_static(model, target, Reader(model), **options)
    return target.read_bytes()


def runtime_tensors(
    data: bytes, names: list[str], feed: dict[str, np.ndarray], optimized: bool
) -> list[np.ndarray]:
    """The values that ONNX Runtime computes for the tensors `names` of the model `data`, which may be intermediate
    ones; `optimized`: with graph optimization.
    """
    model = onnx.load_from_string(data)
    present = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in present)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(names, feed)


def onnx_names(data: bytes) -> set[str]:
    return {output for node in onnx.load_from_string(data).graph.node for output in node.output}


def assert_fusion_exact(graph: Graph, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Asserts that fusion, and fusion of pools, do not change a bit of the results; returns the outputs of the
    model.
    """
    expected = interpret(graph, store_inputs(graph, feed))
    for rewritten in (fuse(graph), fuse_pool(fuse(graph))):
        got = interpret(rewritten, store_inputs(rewritten, feed))
        assert got.keys() == expected.keys()
        for name in expected:
            np.testing.assert_array_equal(got[name], expected[name])
    return load_outputs(graph, expected)


def layer_differences(data: bytes, feed: dict[str, np.ndarray], optimized: bool) -> dict[str, int]:
    """The largest difference of each node's output from ONNX Runtime's, in quantization steps, by node of the unfused
    graph. Each node is evaluated on the integers that ONNX Runtime computed for its inputs, with graph optimization if
    `optimized`.
    """
    graph = import_model(data)
    produced = onnx_names(data) | {entry.name for entry in graph.inputs}
    names = [name for name in graph.tensors if name in produced and name not in feed]
    arrays = runtime_tensors(data, names, feed, optimized)
    stored: dict[str, np.ndarray] = {**graph.constants, **store_inputs(graph, feed)}
    for name, array in zip(names, arrays, strict=True):
        offset = 128 if array.dtype == np.uint8 else 0
        stored[name] = (array.astype(np.int16) - offset).astype(np.int8).reshape(graph.tensors[name].shape)
    differences = {}
    for node in graph.nodes:
        result = evaluate(node, [stored[name] for name in node.inputs]).reshape(
            graph.tensors[node.output].shape
        )
        expected = stored.setdefault(node.output, result)
        differences[node.name] = int(np.abs(result.astype(int) - expected.astype(int)).max())
    return differences


@pytest.fixture
def builder() -> type[NetworkBuilder]:
    return NetworkBuilder


@pytest.fixture
def quantized(tmp_path: Path) -> Callable[[Network, str], bytes]:
    return lambda model, form: quantize_network(model, form, tmp_path)


@pytest.fixture
def feed_of() -> Callable[..., dict[str, np.ndarray]]:
    return lambda data, seed=0: random_feed(onnx.load_from_string(data), np.random.default_rng(seed))


@pytest.fixture
def fusion_exact() -> Callable[[Graph, dict[str, np.ndarray]], dict[str, np.ndarray]]:
    return assert_fusion_exact


@pytest.fixture
def layers_against_runtime() -> Callable[[bytes, dict[str, np.ndarray], bool], dict[str, int]]:
    return layer_differences


@pytest.fixture
def runtime() -> Callable[[bytes, list[str], dict[str, np.ndarray], bool], list[np.ndarray]]:
    return runtime_tensors
