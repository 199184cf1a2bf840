"""GRU and RNN layers on CPUs: tensor expressions, kernels for every vector extension, and networks compared with ONNX
Runtime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from campaign import examples, representatives
from float_networks import relative, runtime
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import evaluate, run, targets
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.te.ops.recurrent import GATES, recurrent_steps
from vdla.compiler.templates.cpu import recurrent

DIRECTIONS = {"forward": ("forward",), "reverse": ("reverse",), "bidirectional": ("forward", "reverse")}


def operands(program, rng):
    """Random float32 arrays for all parameters of the program except outputs."""
    return {
        p.name: rng.normal(0, 0.5, p.shape).astype(np.float32)
        for p in program.parameters
        if not p.name.startswith("Y")
    }


@settings(max_examples=examples(12), deadline=None)
@given(
    cell=st.sampled_from(sorted(GATES.keys() - {"LSTM"})),
    steps=st.integers(1, 3),
    batch=st.integers(1, 3),
    hidden=st.sampled_from([1, 3, 8, 9]),
    direction=st.sampled_from(sorted(DIRECTIONS)),
    level=st.sampled_from(range(len(targets()))),
)
def test_kernels_compute_the_expression(cell, steps, batch, hidden, direction, level):
    program = recurrent_steps(
        cell=cell, steps=steps, batch=batch, hidden=hidden, directions=DIRECTIONS[direction]
    )
    arrays = operands(program, np.random.default_rng(hidden))
    results = run(program, arrays, recurrent.schedule, targets()[level], outputs=("Y", "YH"))
    for name, result in zip(("Y", "YH"), results, strict=True):
        np.testing.assert_allclose(result, evaluate(program, arrays, name), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cell", representatives(sorted(GATES.keys() - {"LSTM"}), 0, always=["GRU", "RNN"]))
def test_tiles_of_a_step_run_in_parallel(cell):
    program = recurrent_steps(cell=cell, steps=3, batch=2, hidden=150, directions=("forward", "reverse"))
    arrays = operands(program, np.random.default_rng(0))
    target = targets()[0]
    s = recurrent.schedule(target, program, parallel=True)
    assert "parallel" in {a for step in s.trace for a in step.arguments}
    alone = run(program, arrays, recurrent.schedule, target, outputs=("Y", "YH"))
    with Pool(2) as pool:
        together = run(program, arrays, recurrent.schedule, target, pool, ("Y", "YH"))
    for one, two in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, two)


def layer(
    kind: str,
    *,
    steps: int = 3,
    batch: int = 2,
    inputs: int = 5,
    hidden: int = 7,
    direction: str = "forward",
    parts: frozenset[str] = frozenset({"B"}),
    lengths: list[int] | None = None,
    **attributes: Any,
) -> tuple[bytes, dict[str, np.ndarray]]:
    """The bytes of a model of one recurrent layer of operator `kind`, and arrays for the model's inputs. `inputs`:
    numbers in a step's input; `hidden`: numbers in a state; `parts`: the layer's optional inputs (biases "B", initial
    state "H"); `lengths`: lengths of the sequences.
    """
    rng = np.random.default_rng(steps * 1000 + hidden)
    count, gates = len(DIRECTIONS[direction]), {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    first = bool(attributes.get("layout"))

    def state(*sizes: int) -> tuple[int, ...]:
        return (sizes[1], sizes[0], sizes[2]) if first else sizes

    constants = {
        "W": rng.normal(0, 0.5, (count, gates * hidden, inputs)).astype(np.float32),
        "R": rng.normal(0, 0.5, (count, gates * hidden, hidden)).astype(np.float32),
    }
    if "B" in parts:
        constants["B"] = rng.normal(0, 0.5, (count, 2 * gates * hidden)).astype(np.float32)
    if lengths is not None:
        constants["lengths"] = np.array(lengths, np.int32)
    feeds = {"x": rng.standard_normal(state(steps, batch, inputs), dtype=np.float32)}
    if "H" in parts:
        feeds["H"] = rng.normal(0, 0.5, state(count, batch, hidden)).astype(np.float32)
    given_names = {*constants, *feeds}
    names = ["x", "W", "R", *[n if n in given_names else "" for n in ("B", "lengths", "H")]]
    outputs = {
        "Y": (batch, steps, count, hidden) if first else (steps, count, batch, hidden),
        "Y_h": state(count, batch, hidden),
    }
    node = helper.make_node(
        kind, names, list(outputs), "layer", hidden_size=hidden, direction=direction, **attributes
    )
    graph = helper.make_graph(
        [node],
        "net",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in feeds.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in outputs.items()],
        [numpy_helper.from_array(array, n) for n, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString(), feeds


def matches_the_runtime(model: bytes, feeds: dict[str, np.ndarray], *, kernel: str | None, threads: int = 1):
    """Asserts that the compiled layer agrees with ONNX Runtime. `kernel`: the operator that computes all steps in one
    kernel (None: there is one kernel or more for each step).
    """
    expected = runtime(model, feeds)
    with compile_kernels(model, cpu_now()) as network:
        operators = [launch.operator for launch in network.launches]
        assert operators.count("RecurrentSteps") + operators.count("LstmSteps") == (kernel is not None)
        assert kernel is None or kernel in operators
        got = network.run(feeds, threads=threads)
    for name, array in expected.items():
        assert relative(got[name], array) <= 1e-5, name


@settings(max_examples=examples(12), deadline=None)
@given(
    kind=st.sampled_from(["RNN", "GRU", "GRU, reset after"]),
    steps=st.integers(1, 5),
    batch=st.integers(1, 4),
    inputs=st.integers(1, 9),
    hidden=st.sampled_from([1, 3, 8, 17, 33]),
    direction=st.sampled_from(sorted(DIRECTIONS)),
    parts=st.frozensets(st.sampled_from(["B", "H"])),
    activations=st.booleans(),
    threads=st.integers(1, 2),
    data=st.data(),
)
def test_layers_match_the_runtime(kind, activations, direction, threads, data, **case):
    attributes: dict[str, Any] = {"linear_before_reset": 1} if kind == "GRU, reset after" else {}
    kind = kind.split(",")[0]
    if activations:
        name = st.sampled_from(["Relu", "Tanh", "Sigmoid", "Softsign", "Softplus"])
        count = (1 if kind == "RNN" else 2) * len(DIRECTIONS[direction])
        attributes["activations"] = data.draw(st.lists(name, min_size=count, max_size=count))
    model, feeds = layer(kind, direction=direction, **case, **attributes)
    matches_the_runtime(model, feeds, kernel="RecurrentSteps", threads=threads)


@pytest.mark.parametrize("direction", sorted(DIRECTIONS))
def test_full_lengths_are_no_variant(direction):
    model, feeds = layer("GRU", direction=direction, lengths=[3, 3])
    matches_the_runtime(model, feeds, kernel="RecurrentSteps")


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("case", [{}, {"clip": 0.4}], ids=str)
def test_one_direction_uses_the_first_of_two_activations(direction: str, case: dict[str, Any]) -> None:
    """An RNN of one direction with two activations uses the first one: ONNX's default of the attribute has two, (Tanh,
    Tanh), also for one direction.
    """
    model, feeds = layer("RNN", direction=direction, activations=["Relu", "Tanh"], **case)
    matches_the_runtime(model, feeds, kernel=None if case else "RecurrentSteps")


@pytest.mark.parametrize(
    ("kind", "count", "wanted"), [("RNN", 3, 1), ("GRU", 3, 2), ("GRU", 4, 2), ("LSTM", 6, 3), ("LSTM", 2, 3)]
)
@pytest.mark.parametrize("case", [{}, {"clip": 0.4}], ids=str)
def test_a_wrong_number_of_activations_is_refused(
    kind: str, count: int, wanted: int, case: dict[str, Any]
) -> None:
    names = ["Sigmoid", "Tanh", "Tanh"] if kind == "LSTM" else ["Sigmoid", "Tanh"]
    model, _ = layer(kind, activations=(names * 2)[:count], **case)
    with pytest.raises(ModelError, match=rf"layer.*must have {wanted} activations, not {count}"):
        compile_kernels(model, cpu_now())


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        ("GRU", {"clip": 0.4}),
        ("RNN", {"clip": 0.4}),
        ("GRU", {"lengths": [3, 1], "linear_before_reset": 1}),
        ("RNN", {"lengths": [1, 3]}),
    ],
)
def test_other_variants_are_taken_step_by_step(kind, case):
    model, feeds = layer(kind, **case)
    matches_the_runtime(model, feeds, kernel=None)


def test_a_batch_in_front_is_moved_behind_the_steps():
    """Recurrent layers with the batch first (attribute layout = 1) equal ONNX Runtime's layers with the steps first
    (layout = 0); ONNX Runtime does not support layout = 1.
    """
    for kind, kernel in (("RNN", "RecurrentSteps"), ("GRU", "RecurrentSteps"), ("LSTM", "LstmSteps")):
        parts = frozenset({"B", "H"}) if kind != "LSTM" else frozenset({"B"})
        model, feeds = layer(kind, direction="bidirectional", parts=parts)
        moved, moved_feeds = layer(kind, direction="bidirectional", parts=parts, layout=1)
        assert moved_feeds["x"].shape == (2, 3, 5)
        moved_feeds = {name: array.transpose(1, 0, 2) for name, array in feeds.items()}
        expected = runtime(model, feeds)
        with compile_kernels(moved, cpu_now()) as network:
            assert kernel in [launch.operator for launch in network.launches]
            got = network.run(moved_feeds)
        assert relative(got["Y"], expected["Y"].transpose(2, 0, 1, 3)) <= 1e-5
        assert relative(got["Y_h"], expected["Y_h"].transpose(1, 0, 2)) <= 1e-5


@pytest.mark.parametrize("kind", ["RNN", "GRU"])
def test_many_steps_are_one_kernel(kind):
    model, feeds = layer(kind, steps=400, batch=1, hidden=4)
    matches_the_runtime(model, feeds, kernel="RecurrentSteps")


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (
            {"clip": 0.4},
            r"as it clips its sums, but at most 256 steps are supported; export the layer without clip, or",
        ),
        (
            {"lengths": [1]},
            r"as its sequences differ in length \(sequence_lens\), .*; export the model for",
        ),
    ],
)
def test_too_many_steps_one_by_one_are_refused_with_the_reason(case, reason):
    model, _ = layer("GRU", steps=400, batch=1, hidden=4, **case)
    with pytest.raises(ModelError, match=rf"layer.*nodes for each of its 400 steps {reason}"):
        compile_kernels(model, cpu_now())


def test_weights_that_do_not_fit_are_refused():
    model = onnx.load_model_from_string(layer("GRU")[0])
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.ones((1, 21, 6), np.float32), "R"))
    with pytest.raises(ModelError, match=r"layer.*its W must be float32 of shape"):
        compile_kernels(model.SerializeToString(), cpu_now())
