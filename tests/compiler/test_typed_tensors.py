"""Networks with integer and boolean tensors, and operators that ONNX defines as functions of others, on this
processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import vdla
from vdla.compiler.codegen.cuda.options import parse_target
from vdla.compiler.gpu_stages import gpu_emulated
from vdla.compiler.pipeline import compile_kernels
from vdla.util.errors import UserError


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    outputs: dict[str, np.ndarray],
    **constants: Any,
):
    """A model of opset 23; the arrays `inputs` and `outputs` have the types and shapes of its inputs and outputs."""
    to = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        nodes,
        "typed",
        [helper.make_tensor_value_info(name, to(a.dtype), a.shape) for name, a in inputs.items()],
        [helper.make_tensor_value_info(name, to(a.dtype), a.shape) for name, a in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def check(made: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> None:
    """Asserts that outputs and their types equal ONNX Runtime's, on this processor and for an emulated GPU."""
    session = onnxruntime.InferenceSession(made.SerializeToString())
    expected = [np.asarray(value) for value in session.run(None, inputs)]
    for network in (
        vdla.compile(made, target="llvm"),
        compile_kernels(made.SerializeToString(), gpu_emulated(parse_target("cuda"))),
    ):
        got = network.run(inputs)
        for info, wanted in zip(made.graph.output, expected, strict=True):
            assert got[info.name].dtype == wanted.dtype
            np.testing.assert_allclose(got[info.name], wanted, rtol=1e-5, atol=1e-6)


def test_from_token_ids_and_a_mask_to_embeddings() -> None:
    rng = np.random.default_rng(0)
    inputs = {"ids": rng.integers(-9, 9, (2, 5)), "mask": rng.integers(0, 2, (2, 5))}
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Cast", ["mask"], ["kept"], to=onnx.TensorProto.BOOL),
        helper.make_node("Unsqueeze", ["kept", "last"], ["column"]),
        helper.make_node("Where", ["column", "rows", "low"], ["y"]),
        helper.make_node("Transpose", ["ids"], ["turned"], perm=[1, 0]),
        helper.make_node("Not", ["kept"], ["dropped"]),
    ]
    table = rng.standard_normal((9, 8)).astype(np.float32)
    outputs = {
        "y": np.empty((2, 5, 8), np.float32),
        "turned": np.empty((5, 2), np.int64),
        "dropped": np.empty((2, 5), np.bool_),
    }
    made = model(nodes, inputs, outputs, table=table, last=np.array([-1]), low=np.float32(-1e9))
    check(made, inputs)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_wrap_and_move(dtype: type) -> None:
    rng = np.random.default_rng(1)
    limits = np.iinfo(dtype)
    a = rng.integers(limits.min, limits.max, (3, 7), dtype=dtype)
    inputs = {"a": a, "b": a[::-1, :1].copy()}
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("Mul", ["sum", "a"], ["product"]),
        helper.make_node("Less", ["product", "b"], ["less"]),
        helper.make_node("Concat", ["product", "a"], ["y"], axis=1),
    ]
    check(model(nodes, inputs, {"y": np.empty((3, 14), dtype), "less": np.empty((3, 7), np.bool_)}), inputs)


def test_attention_is_the_body_of_its_function() -> None:
    rng = np.random.default_rng(2)
    inputs = {name: rng.standard_normal((1, 2, 4, 8)).astype(np.float32) for name in "QKV"}
    node = helper.make_node("Attention", ["Q", "K", "V"], ["Y"], is_causal=1)
    check(model([node], inputs, {"Y": inputs["Q"]}), inputs)


def test_gathered_elements() -> None:
    rng = np.random.default_rng(3)
    inputs = {"x": rng.standard_normal((3, 5)).astype(np.float32), "i": rng.integers(-5, 5, (2, 4))}
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1)
    check(model([node], inputs, {"y": np.empty((2, 4), np.float32)}), inputs)


def test_an_operator_of_float32_alone_says_what_to_do() -> None:
    inputs = {"x": np.zeros((2, 3), np.int64)}
    outputs = {"y": np.zeros((2, 2), np.int64)}
    inputs["w"] = np.zeros((3, 2), np.int64)
    made = model([helper.make_node("Gemm", ["x", "w"], ["y"], name="share")], inputs, outputs)
    with pytest.raises(
        UserError, match=r"'share' \(Gemm\): its input 'x' is int64; .* put a Cast to float32"
    ):
        vdla.compile(made, target="llvm")
