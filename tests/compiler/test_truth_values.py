"""Booleans in float networks, as in attention masks, on CPUs and emulated GPUs: the same results as ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from float_networks import runtime
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.codegen.cuda.options import parse_target
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.gpu_stages import gpu_emulated
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.pipeline import compile_kernels

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
X = np.array([[-2.0, -0.0, 0.0, 1.5], [np.nan, np.inf, -np.inf, 3.0], [1.5, 0.25, -7.0, 1e-40]], np.float32)


class Net:
    """A model under construction. `add` adds a node whose operands are names of tensors, or arrays that become
    constants.
    """

    def __init__(self, **inputs: tuple[int, ...]) -> None:
        self.inputs = inputs
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def add(self, op: str, *operands: str | np.ndarray, **attributes: Any) -> str:
        names: list[str] = []
        for operand in operands:
            if isinstance(operand, str):
                names.append(operand)
            else:
                names.append(f"c{len(self.constants)}")
                self.constants.append(numpy_helper.from_array(operand, names[-1]))
        self.nodes.append(helper.make_node(op, names, [f"t{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def model(self, output: str, kind: int = FLOAT) -> bytes:
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in self.inputs.items()],
            [helper.make_tensor_value_info(output, kind, None)],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model).SerializeToString()


def check(model: bytes, **feeds: np.ndarray) -> None:
    (expected,) = runtime(model, feeds).values()
    for network in (
        compile_kernels(model, cpu_now()),
        compile_kernels(model, gpu_emulated(parse_target("cuda"))),
    ):
        with network:
            (output,) = network.run(feeds).values()
        np.testing.assert_allclose(output, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("op", ["Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"])
def test_comparisons(op: str) -> None:
    net = Net(x=X.shape)
    columns = np.array([0.0, np.inf, 0.0, 1.5], np.float32)
    check(net.model(net.add("Cast", net.add(op, "x", columns), to=FLOAT)), x=X)


@pytest.mark.parametrize("op", ["And", "Or", "Xor", "Equal"])
def test_what_joins_truth_values(op: str) -> None:
    net = Net(x=X.shape)
    a, b = net.add("Less", "x", np.float32(1.0)), net.add("Cast", "x", to=BOOL)
    both = net.add(op, net.add("Not", a), b)
    also = net.add(op, both, np.array([[True], [False], [True]]))
    check(net.model(net.add("Cast", also, to=FLOAT)), x=X)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("IsNaN", {}),
        ("IsInf", {}),
        ("IsInf", {"detect_negative": 0}),
        ("IsInf", {"detect_positive": 0}),
        ("IsInf", {"detect_positive": 0, "detect_negative": 0}),
    ],
)
def test_choices(op: str, attributes: dict[str, int]) -> None:
    net = Net(x=X.shape)
    found = net.add(op, "x", **attributes)
    chosen = net.add("Where", found, np.float32(-1.0), net.add("Cast", "x", to=FLOAT))
    check(net.model(chosen), x=X)


def test_choices_by_constants_and_of_other_shapes() -> None:
    net = Net(x=X.shape, y=(3, 1))
    model = net.model(net.add("Where", np.array([True, False, True, False]), "y", "x"))
    check(model, x=X, y=np.array([[5.0], [6.0], [np.nan]], np.float32))


@pytest.mark.parametrize("shape", [[3, 4], [2, 3, 4], [2, 1, 1], [1, 5, 3, 4], [1]])
def test_expanded(shape: list[int]) -> None:
    net = Net(x=X.shape)
    check(net.model(net.add("Expand", "x", np.array(shape, np.int64))), x=X)
    net = Net(x=(3, 1))
    check(net.model(net.add("Expand", "x", np.array([2, 1, 6], np.int64))), x=X[:, :1])


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_gathered_by_several_indices(depth: int) -> None:
    shape = (3, 2, 4)
    rng = np.random.default_rng(depth)
    indices = np.stack([rng.integers(-size, size, (5, 2)) for size in shape[:depth]], axis=-1)
    net = Net(x=shape)
    check(net.model(net.add("GatherND", "x", indices)), x=rng.standard_normal(shape, dtype=np.float32))


def test_a_mask_of_attention() -> None:
    """Exported attention with a mask of booleans gives ONNX Runtime's outputs; rows that are masked completely are NaN
    after the softmax, and are then replaced by 0.
    """
    net = Net(scores=(2, 1, 3, 3), mask=(2, 3))
    seen = net.add("Cast", "mask", to=BOOL)
    batch, key = np.meshgrid(np.arange(2), np.arange(3), indexing="ij")
    of_keys = net.add("GatherND", seen, np.stack([batch, key], axis=-1)[:, None, None].astype(np.int64))
    square = net.add("Expand", of_keys, np.array([2, 1, 3, 3], np.int64))
    causal = net.add("And", square, np.tril(np.ones((3, 3), bool)))
    bias = net.add("Where", causal, np.float32(0.0), np.float32("-inf"))
    weights = net.add("Softmax", net.add("Add", "scores", bias), axis=-1)
    weights = net.add("Where", net.add("IsNaN", weights), np.float32(0.0), weights)
    scores = np.random.default_rng(0).standard_normal((2, 1, 3, 3), dtype=np.float32)
    check(net.model(weights), scores=scores, mask=np.array([[0, 1, 1], [1, 0, 1]], np.float32))


def test_what_is_refused() -> None:
    def refused(model: bytes, words: str) -> None:
        for form in (cpu_now(), gpu_emulated(parse_target("cuda"))):
            with pytest.raises(ModelError, match=words):
                compile_kernels(model, form)

    net = Net(x=X.shape)
    refused(
        net.model(net.add("Cast", "x", to=TensorProto.STRING), TensorProto.STRING),
        "the element type string is not supported; use one of",
    )
    net = Net(x=(3, 2))
    refused(
        net.model(net.add("GatherND", "x", np.array([[3]], np.int64))), "some of its indices lie outside of"
    )
