"""LSTM layers on CPUs: tensor expressions compared with ONNX's reference and ONNX Runtime, kernels compared
with both.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from campaign import examples
from dense_schedules import dense
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import evaluate, run, targets

from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.te.ops.lstm import input_weights, recurrent_weights
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.te.ops.recurrent import recurrent_steps
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.templates.cpu import recurrent as recurrent_cpu

DIRECTIONS = {"forward": ("forward",), "reverse": ("reverse",), "bidirectional": ("forward", "reverse")}


def layer(steps, batch, inputs, hidden, direction):
    """Random inputs of ONNX's LSTM by name, and ONNX Runtime's outputs for them (Y, last state, last cell). `inputs`:
    numbers in a step's input; `hidden`: numbers in a state.
    """
    rng = np.random.default_rng(0)
    d = len(DIRECTIONS[direction])
    shapes = {
        "X": (steps, batch, inputs),
        "W": (d, 4 * hidden, inputs),
        "R": (d, 4 * hidden, hidden),
        "B": (d, 8 * hidden),
        "H0": (d, batch, hidden),
        "C0": (d, batch, hidden),
    }
    arrays = {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    names, outputs = ["X", "W", "R", "B", "", "H0", "C0"], ["Y", "YH", "YC"]
    node = onnx.helper.make_node("LSTM", names, outputs, hidden_size=hidden, direction=direction)
    info = {
        n: onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in [*names, *outputs]
    }
    graph = onnx.helper.make_graph([node], "layer", [info[n] for n in shapes], [info[n] for n in outputs])
    model = onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 17)])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return arrays, session.run(None, arrays)


def gates_of(arrays, target):
    """The operand G of the LSTM program: the inputs of all steps times W, plus biases, by a compiled matrix product."""
    steps, batch, inputs = arrays["X"].shape
    w, b = input_weights(arrays["W"], arrays["B"])
    program = product(
        Matrices(rows=steps * batch, depth=inputs, columns=len(b)), epilogue=Epilogue(bias=True)
    )
    (g,) = run(program, {"X": arrays["X"].reshape(-1, inputs), "W": w, "B": b}, dense, target)
    return g


def operands(arrays, target):
    return {
        "G": gates_of(arrays, target),
        "R": recurrent_weights(arrays["R"]),
        "H0": arrays["H0"],
        "C0": arrays["C0"],
    }


@settings(max_examples=examples(12), deadline=None)
@given(
    steps=st.integers(1, 5),
    batch=st.integers(1, 7),
    inputs=st.integers(1, 5),
    hidden=st.sampled_from([1, 3, 8, 16, 21, 37]),
    direction=st.sampled_from(sorted(DIRECTIONS)),
    level=st.sampled_from(range(len(targets()))),
)
def test_layers(steps, batch, inputs, hidden, direction, level):
    target = targets()[level]
    arrays, expected = layer(steps, batch, inputs, hidden, direction)
    program = recurrent_steps(
        cell="LSTM", steps=steps, batch=batch, hidden=hidden, directions=DIRECTIONS[direction]
    )
    given_arrays = operands(arrays, target)
    results = run(program, given_arrays, recurrent_cpu.schedule, target, outputs=("Y", "YH", "YC"))
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)
    if steps * batch * hidden**2 < 400:
        for name, result in zip(("Y", "YH", "YC"), results, strict=True):
            np.testing.assert_allclose(evaluate(program, given_arrays, name), result, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch", [1, 5])
def test_parallel_steps(batch):
    arrays, expected = layer(3, batch, 4, 130, "bidirectional")
    program = recurrent_steps(
        cell="LSTM", steps=3, batch=batch, hidden=130, directions=DIRECTIONS["bidirectional"]
    )
    target = targets()[0]
    s = recurrent_cpu.schedule(target, program, parallel=True)
    assert "parallel" in {a for step in s.trace for a in step.arguments}
    with Pool(2) as pool:
        results = run(
            program, operands(arrays, target), recurrent_cpu.schedule, target, pool, ("Y", "YH", "YC")
        )
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-6)


def test_a_layer_without_biases():
    w, b = input_weights(np.ones((2, 8, 3), np.float32), None)
    assert w.shape == (3, 16)
    assert not b.any()
