"""LSTM in float networks on CPUs, compared with ONNX Runtime: all outputs, initial states given or left out,
refusals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from campaign import examples
from float_networks import relative, runtime
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.cpu_stages import cpu_now
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.pipeline import compile_kernels

OUTPUTS = ("Y", "Y_h", "Y_c")
COUNTS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def layer(
    *,
    steps: int = 3,
    batch: int = 2,
    inputs: int = 5,
    hidden: int = 7,
    direction: str = "forward",
    parts: frozenset[str] = frozenset({"B"}),
    outputs: tuple[str, ...] = OUTPUTS,
    more: dict[str, np.ndarray] | None = None,
    **attributes: Any,
) -> tuple[bytes, dict[str, np.ndarray]]:
    """The bytes of a model of a ReLU and an LSTM, and arrays for the model's inputs. `inputs`: numbers in a step's
    input; `hidden`: numbers in a state; `parts`: the optional inputs "B", "H" and "C" of the LSTM that are present;
    `outputs`: its outputs that are present; `more`: further constant inputs, by name.
    """
    rng = np.random.default_rng(steps * 1000 + hidden)
    count = COUNTS[direction]
    shapes = {
        "W": (count, 4 * hidden, inputs),
        "R": (count, 4 * hidden, hidden),
        "B": (count, 8 * hidden),
        "H": (count, batch, hidden),
        "C": (count, batch, hidden),
    }
    arrays = {n: rng.normal(0, 0.5, shape).astype(np.float32) for n, shape in shapes.items()}
    feeds = {"x": rng.standard_normal((steps, batch, inputs), dtype=np.float32)}
    feeds |= {n: arrays[n] for n in sorted(parts & {"H", "C"})}
    constants = {n: arrays[n] for n in ("W", "R", *sorted(parts & {"B"}))} | (more or {})
    optional = [n if n in parts or n in constants else "" for n in ("B", "lengths", "H", "C", "P")]
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"], "relu"),
        helper.make_node(
            "LSTM",
            ["positive", "W", "R", *optional],
            [name if name in outputs else "" for name in OUTPUTS],
            "lstm",
            hidden_size=hidden,
            direction=direction,
            **attributes,
        ),
    ]
    results = dict.fromkeys(outputs, (count, batch, hidden))
    if "Y" in outputs:
        # In layout 1 the directions come behind the first two dimensions, which then are batch and steps.
        results["Y"] = (
            (steps, batch, count, hidden) if attributes.get("layout") else (steps, count, batch, hidden)
        )
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in feeds.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in results.items()],
        [numpy_helper.from_array(array, n) for n, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString(), feeds


@settings(max_examples=examples(15), deadline=None)
@given(
    steps=st.integers(1, 5),
    batch=st.integers(1, 4),
    inputs=st.integers(1, 9),
    hidden=st.sampled_from([1, 3, 8, 17, 33]),
    direction=st.sampled_from(sorted(COUNTS)),
    parts=st.frozensets(st.sampled_from(["B", "H", "C"])),
    outputs=st.sampled_from([OUTPUTS, ("Y",), ("Y_h",), ("Y_c",), ("Y", "Y_c"), ("Y_h", "Y_c")]),
    threads=st.integers(1, 2),
)
def test_layers_match_the_runtime(threads, **case) -> None:
    model, feeds = layer(**case)
    expected = runtime(model, feeds)
    with compile_kernels(model, cpu_now()) as network:
        got = network.run(feeds, threads=threads)
        again = network.run(feeds, threads=threads)
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert relative(got[name], array) <= 1e-5, name
        np.testing.assert_array_equal(got[name], again[name])


def test_full_lengths_and_spelled_out_activations_are_no_variants() -> None:
    activations = ["Sigmoid", "Tanh", "Tanh"]
    model, feeds = layer(more={"lengths": np.array([3, 3], np.int32)}, activations=activations)
    expected = runtime(model, feeds)
    with compile_kernels(model, cpu_now()) as network:
        got = network.run(feeds)
    for name in OUTPUTS:
        assert relative(got[name], expected[name]) <= 1e-5


@pytest.mark.parametrize(
    "case",
    [
        {"more": {"lengths": np.array([3, 2], np.int32)}},
        {"more": {"P": np.full((1, 21), 0.3, np.float32)}},
        {"clip": 0.4},
        {"input_forget": 1},
        {"activations": ["Relu", "Tanh", "Softsign"]},
    ],
    ids=["lengths", "peepholes", "clip", "coupled", "activations"],
)
def test_variants_are_taken_step_by_step(case) -> None:
    model, feeds = layer(**case)
    expected = runtime(model, feeds)
    with compile_kernels(model, cpu_now()) as network:
        got = network.run(feeds)
    for name in OUTPUTS:
        assert relative(got[name], expected[name]) <= 1e-5


def test_weights_that_do_not_fit_are_refused() -> None:
    data, _ = layer(more={"R": np.ones((1, 28, 6), np.float32)})
    with pytest.raises(ModelError, match=r"lstm.*its W must be float32 of shape"):
        compile_kernels(data, cpu_now())
