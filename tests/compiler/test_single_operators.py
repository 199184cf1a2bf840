"""Single operators on a CPU, compared with ONNX Runtime or ONNX's reference implementation, also with parameters known
only at run time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import vdla
from vdla.compiler import gpu_stages
from vdla.compiler.codegen.cuda.options import parse_target
from vdla.compiler.gpu_stages import gpu_ahead
from vdla.compiler.pipeline import compile_kernels
from vdla.util.errors import UserError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 5, 3)).astype(np.float32)
TIES = RNG.integers(-2, 3, (2, 5, 3)).astype(np.float32)
HALF = X.astype(np.float16)
WHOLE = RNG.integers(-9, 9, (2, 5, 3)).astype(np.int8)
DIVISORS = np.where(WHOLE == 0, 3, WHOLE[::-1]).astype(np.int8)
DIVISORS[DIVISORS == 0] = -2
CUBE = RNG.standard_normal((2, 5, 4, 3)).astype(np.float32)
FACTORS, ADDENDS = RNG.standard_normal((2, 5)).astype(np.float32)
GATES = RNG.standard_normal((1, 16, 3)).astype(np.float32)
PLACES = RNG.integers(-5, 5, (2, 4, 3))
CASES: dict[str, tuple[str, list[Any], dict[str, Any], dict[str, Any]]] = {
    "last of the least": ("ArgMin", [TIES], {"axis": 1, "select_last_index": 1, "keepdims": 0}, {}),
    "hardmax": ("Hardmax", [TIES], {"axis": 1}, {}),
    "top_k": ("TopK", [TIES], {"axis": 1, "largest": 0}, {"k": np.array([3])}),
    "one_hot": (
        "OneHot",
        [PLACES],
        {"axis": 1},
        {"depth": np.array(4), "values": np.array([2, 7.0], np.float32)},
    ),
    "scatter": ("ScatterElements", [X, PLACES, X[:, :4]], {"axis": 1, "reduction": "max"}, {}),
    "scatter_nd": ("ScatterND", [X, np.array([[[0, 1]], [[0, 1]]]), X[:, :1]], {"reduction": "add"}, {}),
    "gather_nd": ("GatherND", [X, np.array([[[1, 2]], [[0, -1]]])], {"batch_dims": 1}, {}),
    "floor remainder": ("Mod", [WHOLE, DIVISORS], {}, {}),
    "float remainder": ("Mod", [X, TIES + 0.25], {"fmod": 1}, {}),
    "shift": (
        "BitShift",
        [PLACES.astype(np.uint8), np.full((2, 4, 3), 3, np.uint8)],
        {"direction": "RIGHT"},
        {},
    ),
    "product": ("ReduceProd", [TIES], {"keepdims": 0}, {"axes": np.array([0, 2])}),
    "greatest of integers": ("ReduceMax", [WHOLE], {}, {"axes": np.array([1])}),
    "sums of float64": (
        "CumSum",
        [X.astype(np.float64)],
        {"exclusive": 1, "reverse": 1},
        {"axis": np.array(1)},
    ),
    "halves": ("Softmax", [HALF], {"axis": 1}, {}),
    "powers": ("Pow", [np.abs(X), TIES], {}, {}),
    "whole numbers": ("Round", [X * 4], {}, {}),
    "wave": ("Sin", [X * 50], {}, {}),
    "product of integers": ("MatMul", [WHOLE.astype(np.int64), np.arange(6).reshape(3, 2)], {}, {}),
    "einsum": ("Einsum", [X, X[:, :4]], {"equation": "bij,bkj->kbi"}, {}),
    "einsum of three": ("Einsum", [X[0, :3], X[1, 0], X[1, 1]], {"equation": "ii,i,...i->...i"}, {}),
    "gru": (
        "GRU",
        [X, GATES[:, :12], GATES[:, :12, [0, 1, 2, 0]]],
        {"hidden_size": 4, "linear_before_reset": 1},
        {},
    ),
    "lstm": ("LSTM", [X, GATES, GATES[..., [0, 1, 2, 0]]], {"hidden_size": 4, "clip": 0.5}, {}),
    "convolution": ("Conv", [X[..., None], X[1:, :, :1, None]], {"pads": [1, 0, 1, 0]}, {}),
    "cubes": (
        "AveragePool",
        [X[None, None]],
        {"kernel_shape": [2, 2, 2], "pads": [1, 0, 1, 0, 1, 0], "ceil_mode": 1},
        {},
    ),
    "sampled": (
        "GridSample",
        [RNG.standard_normal((1, 2, 5, 4)).astype(np.float32), X[:1, :, :2].reshape(1, 1, 5, 2) * 1.5],
        {"mode": "cubic", "padding_mode": "reflection"},
        {},
    ),
    **{
        f"power {exponent}": ("Pow", [np.abs(X) + 0.1], {}, {"z": np.float32(exponent)})
        for exponent in (0.37, 0.5, -0.5, -1, 0, 1, 2, 3, 4, 7, -2.5)
    },
    "powers by column": ("Pow", [np.abs(X)], {}, {"z": np.array([0.37, 2, 3], np.float32)}),
    "power of more dimensions": ("Pow", [np.abs(X[0])], {}, {"z": np.full((1, 1, 1), 0.37, np.float32)}),
    "instances of run time": ("InstanceNormalization", [CUBE, FACTORS, ADDENDS], {"epsilon": 0.2}, {}),
    "instances": ("InstanceNormalization", [CUBE], {"epsilon": 0.2}, {"s": FACTORS, "b": ADDENDS}),
    "batches of run time": (
        "BatchNormalization",
        [CUBE, FACTORS, ADDENDS, FACTORS[::-1].copy(), ADDENDS**2 + 0.1],
        {"epsilon": 0.2},
        {},
    ),
    "batches": (
        "BatchNormalization",
        [CUBE],
        {"epsilon": 0.2},
        {"s": FACTORS, "b": ADDENDS, "m": FACTORS[::-1].copy(), "v": ADDENDS**2 + 0.1},
    ),
    "layers of run time": ("LayerNormalization", [X, FACTORS[:3], ADDENDS[:3]], {"epsilon": 0.2}, {}),
    **{
        f"{size} neighbours": (
            "LRN",
            [CUBE],
            {"size": size, "alpha": 0.7, "beta": 0.6, "bias": 1.3},
            {},
        )
        for size in (1, 3, 5)
    },
    **{
        f"norm {p} along {axis}": ("LpNormalization", [X * (TIES != 0)], {"p": p, "axis": axis}, {})
        for p, axis in ((1, 1), (2, 2))
    },
    "mean of three": ("Mean", [X, X[:1], TIES], {}, {}),
    "backwards": ("ReverseSequence", [X, np.array([4, 1])], {"time_axis": 1, "batch_axis": 0}, {}),
    "nothing": ("ReduceSum", [X[:, :0]], {"keepdims": 0}, {"axes": np.array([1])}),
}
BY_REFERENCE = {"shift", "scatter_nd", "scatter", "nothing"}
"""Cases that are compared with ONNX's reference implementation: ONNX Runtime has no kernel for them, or computes
something else.
"""


@pytest.mark.parametrize("name", CASES)
def test_outputs_equal_onnx_runtimes(name: str) -> None:
    operator, inputs, attributes, constants = CASES[name]
    given = [f"x{i}" for i in range(len(inputs))]
    results = ["y", "i"] if operator == "TopK" else ["y"]
    node = helper.make_node(operator, [*given, *constants], results, **attributes)
    kind = helper.np_dtype_to_tensor_dtype
    inputs_of = [
        helper.make_tensor_value_info(n, kind(a.dtype), a.shape) for n, a in zip(given, inputs, strict=True)
    ]
    types = [kind(inputs[0].dtype), onnx.TensorProto.INT64]
    if operator in ("ArgMin", "OneHot"):
        types[0] = onnx.TensorProto.INT64 if operator == "ArgMin" else onnx.TensorProto.FLOAT
    ends = [onnx.helper.make_tensor_value_info(n, t, None) for n, t in zip(results, types, strict=False)]
    weights = [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph([node], "one", inputs_of, ends, weights)
    made = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    )
    feeds = dict(zip(given, inputs, strict=True))
    if name in BY_REFERENCE:
        expected = ReferenceEvaluator(made).run(None, feeds)
    else:
        expected = onnxruntime.InferenceSession(made.SerializeToString()).run(None, feeds)
    got = vdla.compile(made, target="llvm").run(feeds)
    for result, wanted in zip(results, expected, strict=True):
        assert got[result].dtype == wanted.dtype and got[result].shape == wanted.shape
        tolerance = 1e-3 if wanted.dtype == np.float16 else 2e-6
        np.testing.assert_allclose(got[result], wanted, rtol=tolerance, atol=tolerance)


def test_what_gpus_have_no_code_for_is_refused_by_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_stages, "_assembler", lambda target: lambda source: b"")
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (4,)) for name in ("x", "z", "y")]
    graph = helper.make_graph(
        [helper.make_node("Pow", ["x", "z"], ["y"], name="raise")], "one", ends[:2], ends[2:]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(
        UserError,
        match=r"node 'raise' cannot be compiled to cuda: function power is not supported .* on a processor",
    ):
        compile_kernels(made.SerializeToString(), gpu_ahead(parse_target("cuda -arch=sm_80")))


def test_an_even_number_of_neighbours() -> None:
    """LRN over an even number of channels follows ONNX's definition, computed in numpy: ONNX Runtime has no kernel, and
    ONNX's reference implementation sums too few channels.
    """
    attributes = {"size": 2, "alpha": 0.7, "beta": 0.6, "bias": 1.3}
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, CUBE.shape) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("LRN", ["x"], ["y"], **attributes)], "one", ends[:1], ends[1:]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    sums = CUBE**2
    sums[:, :-1] += CUBE[:, 1:] ** 2
    expected = CUBE / (1.3 + 0.7 / 2 * sums) ** 0.6
    np.testing.assert_allclose(vdla.compile(made, target="llvm").run({"x": CUBE})["y"], expected, rtol=2e-6)


def test_turns_of_a_body() -> None:
    """A backward Scan with a state, whose body reads a tensor from outside the body, gives ONNX Runtime's outputs."""
    inner = helper.make_graph(
        [
            helper.make_node("Mul", ["step", "factor"], ["scaled"]),
            helper.make_node("Add", ["state", "scaled"], ["next"]),
            helper.make_node("Identity", ["next"], ["listed"]),
        ],
        "body",
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, (3,)) for n in ("state", "step")],
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, (3,)) for n in ("next", "listed")],
    )
    scan = helper.make_node(
        "Scan", ["first", "x"], ["last", "all"], num_scan_inputs=1, body=inner, scan_input_directions=[1]
    )
    ends = [
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s)
        for n, s in (("first", (3,)), ("x", (4, 3)), ("last", (3,)), ("all", (4, 3)))
    ]
    factor = onnx.numpy_helper.from_array(np.array([2, 3, 4], np.float32), "factor")
    made = helper.make_model(
        helper.make_graph([scan], "scan", ends[:2], ends[2:], [factor]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    feeds = {"first": X[0, 0], "x": X[0, :4]}
    got = vdla.compile(made, target="llvm").run(feeds)
    expected = onnxruntime.InferenceSession(made.SerializeToString()).run(None, feeds)
    for name, wanted in zip(("last", "all"), expected, strict=True):
        np.testing.assert_allclose(got[name], np.asarray(wanted), rtol=1e-6)


def model() -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)],
        "sums",
        [
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (2, 3)),
            helper.make_tensor_value_info("axes", onnx.TensorProto.INT64, ("n",)),
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ("m",))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_an_input_that_decides_shapes_is_given_when_it_is_compiled() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    network = vdla.compile(model(), target="llvm", constants={"axes": [1]})
    np.testing.assert_array_equal(network.run({"x": x})["y"], x.sum(1))
    for constants, words in (
        (
            {"axis": [1]},
            "the model has no input 'axis', so it cannot be given a value; its inputs are x, axes",
        ),
        ({"axes": [0.5]}, "input 'axes' is int64 and cannot have the value"),
        ({"axes": [[1]]}, r"input 'axes' has the shape \?, but the given values have \[1, 1\]"),
    ):
        with pytest.raises(UserError, match=words):
            vdla.compile(model(), target="llvm", constants=constants)


def test_integers_are_divided_by_nothing() -> None:
    """Integer quotients truncate towards zero; a quotient by 0 is 0, and the least integer divided by -1 is itself.
    Neither may crash the process.
    """
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.INT32, (5,)) for name in ("x", "d", "y", "r")
    ]
    nodes = [helper.make_node("Div", ["x", "d"], ["y"]), helper.make_node("Mod", ["x", "d"], ["r"])]
    made = helper.make_model(
        helper.make_graph(nodes, "whole", ends[:2], ends[2:]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    x, d = np.array([-7, 7, 5, -(2**31), -7], np.int32), np.array([2, -2, 0, -1, -7], np.int32)
    got = vdla.compile(made, target="llvm").run({"x": x, "d": d})
    np.testing.assert_array_equal(got["y"], [-3, -3, 0, -(2**31), 1])
    np.testing.assert_array_equal(got["r"], [1, -1, 0, 0, 0])
