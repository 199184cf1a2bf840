"""Networks with inputs that determine shapes: compiled for the values that arrive at run time."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import vdla
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.runtime import specialized_network

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def model(inputs: str, body: str, output: str = "float[a, b, c] y"):
    text = f'<ir_version: 9, opset_import: ["" : 20]> net (float[2, 3, 4] x, {inputs}) => ({output}) {{ {body} }}'
    return parser.parse_model(text)


SUM = model("int64[1] axes", "y = ReduceSum (x, axes)")


@pytest.mark.parametrize("target", ["llvm", "vdla,llvm"])
def test_each_value_has_a_program(target: str) -> None:
    with vdla.compile(SUM, target=target, config="tiny", cache=False) as network:
        assert "axes" in repr(network) and [port.name for port in network.inputs] == ["x", "axes"]
        with pytest.raises(vdla.UserError, match=r"depends? on the values of axes"):
            _ = network.outputs
        with pytest.raises(vdla.UserError, match=r"depends? on the values of axes"):
            network.source("llvm")
        for axis in (0, 2, -2, 0):
            got = network.run({"x": X, "axes": np.array([axis])})
            assert np.array_equal(got["y"], X.sum(axis, keepdims=True))
        assert network.outputs[0].shape == (1, 3, 4)
        assert "define" in network.source("llvm")


def test_equal_values_share_a_program_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialized_network, "MOST_PROGRAMS", 2)
    made: list[list[int]] = []
    closed: list[int] = []

    class Program:
        outputs = ()

        def __init__(self, value: int) -> None:
            self.value = value

        def run(self, inputs):
            return {}

        def close(self) -> None:
            closed.append(self.value)

    def specialize(values):
        made.append(values["k"].tolist())
        return Program(int(values["k"][0]))

    port = specialized_network.Port(name="k", dtype=np.dtype(np.int64), shape=(1,))
    network = specialized_network.SpecializedNetwork(
        name="net", inputs=(port,), parameters=("k",), specialize=specialize, more=lambda error: ()
    )
    for value in (1, 2, 1, 3, 1, 2):
        network.run({"k": np.array([value])})
    assert made == [[1], [2], [3], [2]] and closed == [2, 3]
    network.close()
    assert sorted(closed) == [1, 2, 2, 3]


@pytest.mark.parametrize(
    "inputs, body, feeds, expected",
    [
        ("int64[3] shape", "y = Reshape (x, shape)", {"shape": np.array([4, -1, 2])}, X.reshape(4, 3, 2)),
        (
            "int64[3] start, int64[3] end",
            "y = Slice (x, start, end)",
            {"start": np.array([0, 1, 0]), "end": np.array([1, 3, 3])},
            X[:1, 1:, :3],
        ),
        (
            "int64 n, bool first",
            # The range depends on a number that is computed from an input.
            "one = Constant <value_int = 1> ()  m = Add (n, one)  zero = Sub (one, one)  r = Range (zero, m, one)"
            "  y = Gather <axis: int = 2> (x, r)",
            {"n": np.int64(2), "first": np.bool_(True)},
            X[:, :, :3],
        ),
        ("int64[3] counts", "y = Tile (x, counts)", {"counts": np.array([1, 2, 1])}, np.tile(X, (1, 2, 1))),
        (
            "int64[3] shape",
            "o = ConstantOfShape <value = float[1] {2.5}> (shape)  y = Add (x, o)",
            {"shape": np.array([2, 1, 4])},
            X + 2.5,
        ),
        (
            "bool flag",
            "y = If (flag) <then_branch = t () => (float[2, 3, 4] a) { a = Relu (x) }, "
            "else_branch = e () => (float[2, 3, 4] b) { b = Neg (x) }>",
            {"flag": np.bool_(False)},
            -X,
        ),
    ],
)
def test_parameters_of_many_operators(inputs, body, feeds, expected) -> None:
    feeds = {name: np.asarray(array) for name, array in feeds.items()}
    with vdla.compile(model(inputs, body), target="llvm", cache=False) as network:
        assert np.array_equal(network.run({"x": X, **feeds})["y"], expected)


def test_arrays_that_are_no_values_of_the_parameter() -> None:
    with vdla.compile(SUM, target="llvm", cache=False) as network:
        for axes, problem in (
            (None, "is missing"),
            ([0], "must be a numpy array, not list"),
            (np.array([0], np.int32), r"is int32 \[1\]; give int64 \[1\]"),
        ):
            feeds = {"x": X} if axes is None else {"x": X, "axes": axes}
            with pytest.raises(vdla.UserError, match=f"net: input 'axes' {problem}"):
                network.run(feeds)
        with pytest.raises(vdla.UserError, match="ReduceSum"):
            network.run({"x": X, "axes": np.array([5])})


@pytest.mark.parametrize(
    "inputs, body",
    [
        # Data, not parameters: many numbers, or numbers that a shape would follow from.
        ("int64[65] counts", "n = ReduceSum <keepdims: int = 1> (counts)  y = Tile (x, n)"),
        (
            "float[2, 3, 4] z",
            "f = ReduceMax <keepdims: int = 0> (x)  n = Cast <to: int = 7> (f)"
            "  zero = Sub (n, n)  one = Constant <value_int = 1> ()  r = Range (zero, n, one)  y = Add (x, z)",
        ),
    ],
)
def test_data_are_no_parameters(inputs: str, body: str) -> None:
    with pytest.raises(ModelError, match=r"is not a constant; make it an initializer$"):
        vdla.compile(model(inputs, body), target="llvm", cache=False)
