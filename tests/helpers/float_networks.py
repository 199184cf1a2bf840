"""Small float networks: a builder, random networks for hypothesis, and reference results by ONNX Runtime and ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from vdla.codesign.evaluate import kernels_saturate


class FloatNetwork:
    """An ONNX model under construction with one input `x` and seeded weights; `last` and `shape` are the last tensor's
    name and shape.
    """

    def __init__(self, *shape: int, seed: int = 0, opset: int = 17):
        self.input_shape = self.shape = tuple(shape)
        self.last = "x"
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(seed)
        self.opset = opset

    def constant(self, array: Any) -> str:
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, *shape: int, deviation: float = 1.0) -> str:
        return self.constant((self.rng.standard_normal(shape) * deviation).astype(np.float32))

    def add(self, operator: str, *others: str, inputs: list[str] | None = None, **attributes: Any) -> str:
        """Adds a node of the ONNX operator `operator`, whose inputs are the last tensor and `others` (or exactly
        `inputs`); its output becomes the last tensor. Returns the output's name; `shape` is not changed.
        """
        name = f"n{len(self.nodes)}"
        inputs = [self.last, *others] if inputs is None else inputs
        self.nodes.append(helper.make_node(operator, inputs, [f"{name}.out"], name, **attributes))
        self.last = f"{name}.out"
        return self.last

    def convolution(self, filters: int, kernel: tuple[int, int], *, bias=True, group=1, **attributes) -> str:
        depth = self.shape[1] // group
        weight = self.weights(filters, depth, *kernel, deviation=(depth * kernel[0] * kernel[1]) ** -0.5)
        biases = [self.weights(filters)] if bias else []
        output = self.add("Conv", weight, *biases, kernel_shape=list(kernel), group=group, **attributes)
        self.shape = inferred_shape(self)
        return output

    def batch_normalization(self, channels: int) -> str:
        variance = self.constant(self.rng.uniform(0.5, 2, channels).astype(np.float32))
        scale, bias, mean = (self.weights(channels) for _ in range(3))
        return self.add("BatchNormalization", scale, bias, mean, variance)

    def model(self, **shapes: tuple[int, ...]) -> bytes:
        """The bytes of the model; `shapes`: shapes of its outputs by name (default: only the last tensor)."""
        outputs = shapes or {self.last: self.shape}
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(self.input_shape))],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in outputs.items()],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=9 if self.opset > 18 else 8
        ).SerializeToString()


def rounded_network() -> bytes:
    """The bytes of a quantized network (QDQ): a dense layer whose input [2, 8] and result [2, 5] are quantized."""
    net = FloatNetwork(2, 8, opset=19)

    def rounded(scale: float) -> None:
        operands = [net.constant(np.float32(scale)), net.constant(np.uint8(128))]
        net.add("QuantizeLinear", *operands)
        net.add("DequantizeLinear", *operands)

    rounded(0.05)
    data = net.last
    weights = net.rng.integers(-127, 128, (8, 5)).astype(np.int8)
    operands = [net.constant(weights), net.constant(np.float32(0.01)), net.constant(np.int8(0))]
    weight = net.add("DequantizeLinear", inputs=operands)
    net.add("MatMul", inputs=[data, weight])
    rounded(0.1)
    net.shape = (2, 5)
    return net.model()


def runtime(model: bytes, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of ONNX Runtime by name, for the inputs `feeds` by name. If its integer kernels may saturate on this
    processor, quantized layers are computed in float.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if kernels_saturate() and b"DequantizeLinear" in model:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, map(np.asarray, session.run(None, feeds)), strict=True))


def reference(model: bytes, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of ONNX's reference implementation, by name."""
    evaluator = ReferenceEvaluator(onnx.load_model_from_string(model))
    return dict(zip(evaluator.output_names, map(np.asarray, evaluator.run(None, feeds)), strict=True))


def relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    """max |ours - theirs| / max |theirs|; asserts equal shapes and types."""
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    greatest = float(np.abs(theirs).max(initial=0.0))
    return float(np.abs(ours.astype(np.float64) - theirs).max(initial=0.0)) / (greatest or 1.0)


def inferred_shape(net: FloatNetwork) -> tuple[int, ...]:
    """The shape of the network's last tensor, as ONNX infers it."""
    model = onnx.load_model_from_string(net.model())
    model.graph.output[0].type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(model)
    return tuple(d.dim_value for d in inferred.graph.output[0].type.tensor_type.shape.dim)


@st.composite
def convolution_step(draw, channels: int, height: int, width: int) -> dict[str, Any]:
    groups = draw(st.sampled_from([g for g in (1, 1, 1, 2, 4, channels) if channels % g == 0]))
    filters = groups * draw(st.integers(1, 40 // groups + 1))
    if groups == channels and draw(st.booleans()):
        filters = channels
    dilations = [draw(st.sampled_from([1, 1, 2])) for _ in range(2)]
    kernel = [draw(st.integers(1, 4)), draw(st.integers(1, 4))]
    pads = [draw(st.integers(0, 2)) for _ in range(4)]
    for axis, size in enumerate((height, width)):
        while (kernel[axis] - 1) * dilations[axis] + 1 > size + pads[axis] + pads[axis + 2]:
            kernel[axis] -= 1
    return {
        "filters": filters,
        "kernel": tuple(kernel),
        "group": groups,
        "bias": draw(st.booleans()),
        "dilations": dilations,
        "pads": pads,
        "strides": [draw(st.sampled_from([1, 1, 2, 3])) for _ in range(2)],
    }


@st.composite
def pool_attributes(draw, height: int, width: int) -> dict[str, Any]:
    kernel = [draw(st.integers(1, min(size, 3))) for size in (height, width)]
    pads = [draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4)]
    strides = [draw(st.integers(1, 3)) for _ in range(2)]
    # Shape inference and execution disagree, in ONNX Runtime too, where the last window would lie in the pad alone.
    ceil_mode = draw(st.integers(0, 1))
    for i, size in enumerate((height, width)):
        last = -(-(size + pads[i] + pads[i + 2] - kernel[i]) // strides[i]) * strides[i]
        if last >= size + pads[i]:
            ceil_mode = 0
    return {"kernel_shape": kernel, "pads": pads, "strides": strides, "ceil_mode": ceil_mode}


@st.composite
def networks(draw) -> tuple[bytes, tuple[int, ...]]:
    """The bytes of a random chain with branches (convolutions, normalizations, activations, additions, pools, perhaps a
    classifier), and the shape of its input.
    """
    opset = draw(st.sampled_from([11, 12, 13, 17, 19, 21]))
    shape = (
        draw(st.integers(1, 2)),
        draw(st.integers(1, 36)),
        draw(st.integers(3, 15)),
        draw(st.integers(3, 15)),
    )
    net = FloatNetwork(*shape, seed=draw(st.integers(0, 99)), opset=opset)
    earlier: list[tuple[str, tuple[int, ...]]] = []
    for _ in range(draw(st.integers(1, 6))):
        _, channels, height, width = net.shape
        earlier.append((net.last, net.shape))
        match draw(
            st.sampled_from(
                ["conv", "conv", "conv", "bn", "act", "act", "add", "add", "channel", "max", "average"]
            )
        ):
            case "conv":
                net.convolution(**draw(convolution_step(channels, height, width)))
            case "bn":
                net.batch_normalization(channels)
            case "act":
                kind = draw(st.sampled_from(["Relu", "Relu", "Clip", "Sigmoid", "LeakyRelu", "Tanh"]))
                bounds = [net.constant(np.float32(v)) for v in (-0.5, 0.7)] if kind == "Clip" else []
                net.add(kind, *bounds)
            case "add":
                same = [name for name, size in earlier if size == net.shape]
                net.add("Add", draw(st.sampled_from(same)) if same else net.last)
            case "channel":
                shape = draw(st.sampled_from([(channels, 1, 1), (1, channels, 1, 1), (1,), (), (height, 1)]))
                net.add(draw(st.sampled_from(["Add", "Mul", "Sub"])), net.weights(*shape))
            case "max":
                net.add("MaxPool", **draw(pool_attributes(height, width)))
            case "average":
                counted = draw(st.integers(0, 1))
                net.add("AveragePool", count_include_pad=counted, **draw(pool_attributes(height, width)))
        net.shape = inferred_shape(net)
    head = draw(st.sampled_from(["none", "global", "flatten", "reshape"]))
    if head != "none":
        batch, channels, height, width = net.shape
        if head == "global":
            net.add("GlobalAveragePool")
            height = width = 1
        if head == "reshape":
            net.add("Reshape", net.constant(np.array([0, -1], np.int64)))
        else:
            net.add("Flatten", axis=1)
        depth, classes = channels * height * width, draw(st.integers(1, 40))
        net.shape = (batch, classes)
        weight = net.weights(classes, depth, deviation=depth**-0.5)
        net.add("Gemm", weight, net.weights(classes), transB=1)
        if draw(st.booleans()):
            net.add("Softmax", axis=-1)
    return net.model(), net.input_shape
