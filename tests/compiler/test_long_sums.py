"""Accuracy of long sums in float32, on CPUs and emulated GPUs, compared with float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cuda.emulate import emulate
from vdla.compiler.codegen.cuda.options import parse_target
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.templates.gpu.bind_by_name import schedule
from vdla.compiler.templates.gpu.row_operator import RowOperator
from vdla.compiler.templates.gpu.rows import Knobs

LONG = 1 << 18
TOLERANCE = 1e-5
"""Allowed relative error: about a third of the error of 512 terms that round in the same direction. A plain sequential
sum has 2 to 300 times this error here.
"""


def equal_terms(*shape: int) -> np.ndarray:
    """An array of 0.1, whose sums round to the same side in each step, so that the error of a sequential sum grows with
    its length.
    """
    return np.full(shape, 0.1, np.float32)


def few_large(*shape: int) -> np.ndarray:
    """An array of 64 values of 9 followed by zeros; large terms come first in the sum."""
    x = np.zeros(shape, np.float32)
    x.reshape(-1)[:64] = 9.0
    return x


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def normalized(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def model_of(op: str, inputs: dict[str, tuple[int, ...]], *constants: np.ndarray, **attributes: Any) -> bytes:
    names = [f"c{i}" for i in range(len(constants))]
    graph = helper.make_graph(
        [helper.make_node(op, [*inputs, *names], ["y"], "node", **attributes)],
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in zip(names, constants, strict=True)],
    )
    opsets = [helper.make_opsetid("", 17)]
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opsets, ir_version=8)
    ).SerializeToString()


ONE, NONE = np.ones(2, np.float32), np.zeros(2, np.float32)
CASES: dict[str, tuple[bytes, dict[str, np.ndarray], Callable[..., np.ndarray]]] = {
    "softmax of a row": (
        model_of("Softmax", {"x": (1, 4 * LONG)}, axis=1),
        {"x": few_large(1, 4 * LONG)},
        lambda x: softmax(x, 1),
    ),
    "softmax of columns": (
        model_of("Softmax", {"x": (1, LONG, 2)}, axis=1),
        {"x": few_large(1, LONG, 2)},
        lambda x: softmax(x, 1),
    ),
    "log of softmax": (
        model_of("LogSoftmax", {"x": (1, LONG, 2)}, axis=1),
        {"x": few_large(1, LONG, 2)},
        lambda x: np.log(softmax(x, 1)),
    ),
    "sum of a row": (
        model_of("ReduceSum", {"x": (1, LONG)}, np.array([1]), keepdims=1),
        {"x": equal_terms(1, LONG)},
        lambda x: x.sum(1, keepdims=True),
    ),
    "mean of columns": (
        model_of("ReduceMean", {"x": (LONG, 4)}, axes=[0], keepdims=1),
        {"x": equal_terms(LONG, 4)},
        lambda x: x.mean(0, keepdims=True),
    ),
    "squares over two axes": (
        model_of("ReduceSumSquare", {"x": (512, 2, 512)}, axes=[0, 2], keepdims=1),
        {"x": equal_terms(512, 2, 512)},
        lambda x: (x * x).sum((0, 2), keepdims=True),
    ),
    "layer normalization": (
        model_of(
            "LayerNormalization", {"x": (1, LONG)}, np.ones(LONG, np.float32), np.zeros(LONG, np.float32)
        ),
        {"x": few_large(1, LONG) + equal_terms(LONG)},
        lambda x: normalized(x, (1,)),
    ),
    "instance normalization": (
        model_of("InstanceNormalization", {"x": (1, 2, 512, 512)}, ONE, NONE),
        {"x": few_large(1, 2, 512, 512) + equal_terms(1)},
        lambda x: normalized(x, (2, 3)),
    ),
    "global average pool": (
        model_of("GlobalAveragePool", {"x": (1, 1, 512, 512)}),
        {"x": equal_terms(1, 1, 512, 512)},
        lambda x: x.mean((2, 3), keepdims=True),
    ),
    "large window": (
        model_of("AveragePool", {"x": (1, 16, 256, 256)}, kernel_shape=[255, 255]),
        {"x": equal_terms(1, 16, 256, 256)},
        lambda x: np.full((1, 16, 2, 2), x.flat[0]),
    ),
    "product": (
        model_of("MatMul", {"x": (2, LONG), "w": (LONG, 3)}),
        {"x": equal_terms(2, LONG), "w": equal_terms(LONG, 3)},
        lambda x, w: x @ w,
    ),
}


def error(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference, relative to each value of `want` if all are positive, else to its largest magnitude."""
    difference = np.abs(got.reshape(want.shape) - want)
    scale = np.abs(want) if (want > 0).all() else np.abs(want).max()
    return float((difference / scale).max())


@pytest.mark.parametrize("name", CASES)
def test_long_sums_are_accurate_on_processors(name: str) -> None:
    model, feeds, reference = CASES[name]
    with compile_kernels(model, cpu_now()) as network:
        got = network.run(feeds)["y"]
    assert error(got, reference(**{k: v.astype(np.float64) for k, v in feeds.items()})) < TOLERANCE


@pytest.mark.parametrize("operator", ["softmax", "sum", "row_normalization"])
def test_sums_of_a_thread(operator: Any) -> None:
    shape = (1, 1, LONG) if operator == "row_normalization" else (1, LONG)
    x = few_large(*shape) + equal_terms(1)
    target = parse_target("cuda")
    rows = RowOperator(operator=operator, shape=shape, axes=(len(shape) - 1,), epsilon=1e-5)
    program = rows.program(target, Knobs(group=1, lanes=2))
    arrays = {p.name: np.ones(p.shape, np.float32) for p in program.parameters} | {
        "X": x.reshape(program.parameters[0].shape)
    }
    kernel = build(emulate(prepare(schedule(target, program).program, target)), blocks=False)
    kernel(**arrays)
    exact = x.reshape(1, LONG).astype(np.float64)
    wants = {"softmax": softmax(exact, 1), "sum": exact.sum(1), "row_normalization": normalized(exact, (1,))}
    assert error(arrays["Y"], wants[operator]) < TOLERANCE
