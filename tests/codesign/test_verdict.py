"""A run ends with exit code 1 on every device if its outputs differ from the reference's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.codesign import output_check
from vdla.codesign.output_check import coarsest_float
from vdla.codesign.verdict import (
    FLOAT_TOLERANCE,
    FLOAT_TOLERANCES,
    QUANTIZED_TOLERANCE,
    relative_tolerance,
    widened,
    within,
)

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    weight = np.random.default_rng(0).standard_normal((8, 5), dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "fc")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 5])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m"
    )
    return tmp_path / "m"


def outputs_times(monkeypatch: pytest.MonkeyPatch, factors: dict[bool, float]) -> None:
    """Multiplies ONNX Runtime's outputs by wrong factors: by `factors[True]` in runs with graph optimization, by
    `factors[False]` in runs without.
    """
    true_runs = output_check.session_runs

    def runs(*arguments, optimized: bool, **options):
        found = true_runs(*arguments, optimized=optimized, **options)
        return [[values * np.float32(factors[optimized]) for values in run] for run in found]

    monkeypatch.setattr(output_check, "session_runs", runs)


@pytest.mark.parametrize("device", ["cpu", "cuda:emulated"])
def test_a_wrong_result_ends_the_run_with_1(
    vdla, model: Path, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = vdla("run", model, "--device", device, "--json").document()["check"]
    assert right["passed"] and right["tolerance"] == FLOAT_TOLERANCE

    outputs_times(monkeypatch, {True: 1.001, False: 1.001})
    wrong = vdla("run", model, "--device", device, "--outputs", tmp_path / "o.npz", "--json").failed()
    assert 5e-4 < wrong["check"]["max_relative_error"] < 2e-3
    assert (tmp_path / "o.npz").exists()

    outcome = vdla("run", model, "--device", device)
    assert outcome.code == 1 and "differ by 1.0e-03 of the largest value; 1.0e-04 is allowed" in outcome.err


@pytest.mark.parametrize("device", ["cpu", "cuda:emulated"])
def test_results_that_are_not_finite_fail(
    vdla, model: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs_times(monkeypatch, {True: np.inf, False: np.inf})
    assert vdla("run", model, "--device", device, "--json").failed()["check"]["max_relative_error"] is None


def test_what_the_reference_disagrees_on_is_allowed_twice(
    vdla, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs_times(monkeypatch, {True: 1.01, False: 1.02})
    check = vdla("run", model, "--device", "cpu", "--json").document()["check"]
    assert check["passed"] and 0.015 < check["tolerance"] < 0.025


@pytest.mark.parametrize(
    ("nodes", "floats"),
    [
        # One rounding apart from ONNX Runtime's, and equal to the reference's.
        (["Softmax x -> y"], "float16"),
        (["MatMul x w -> p", "Relu p -> r", "MatMul r w -> q", "Tanh q -> y"], "float16"),
        (["Cast x -> f", "Exp f -> y"], "float16"),
        (["Cast w -> f", "MatMul z f -> y"], "float32"),
        (["Tanh z -> f", "Half f -> y"], "float16"),
    ],
)
def test_the_coarsest_float_decides(vdla, nodes: list[str], floats: str, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16) / np.float16(8)
    made, half = [], TensorProto.FLOAT16
    for text in nodes:
        left, output = text.split(" -> ")
        operator, *names = left.split()
        casts = {"Cast": {"to": TensorProto.FLOAT}, "Half": {"to": half}}.get(operator, {})
        made.append(helper.make_node("Cast" if casts else operator, names, [output], **casts))
    given = "z" if any("z" in node.input for node in made) else "x"
    last = (
        half
        if floats == "float16" and not any(name.startswith("Cast") for name in nodes)
        else TensorProto.FLOAT
    )
    graph = helper.make_graph(
        made,
        "halves",
        [helper.make_tensor_value_info(given, half if given == "x" else TensorProto.FLOAT, (4, 64))],
        [helper.make_tensor_value_info("y", last, (4, 64))],
        [numpy_helper.from_array(weights, "w")] * any("w" in node.input for node in made),
    )
    path = tmp_path / "halves.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert coarsest_float(path) == floats
    check = vdla("run", path, "--target", "llvm", "--json").document()["check"]
    assert check["passed"] and check["tolerance"] == FLOAT_TOLERANCES[floats]


def test_tolerances_by_element_type_and_reference() -> None:
    assert relative_tolerance(quantized=True) == QUANTIZED_TOLERANCE
    assert relative_tolerance(quantized=False) == FLOAT_TOLERANCE
    assert relative_tolerance(quantized=False, tensor_float=True) > FLOAT_TOLERANCE
    ordered = [
        relative_tolerance(quantized=False, floats=name) for name in ("float32", "float16", "bfloat16")
    ]
    assert ordered == sorted(ordered) and ordered[0] == FLOAT_TOLERANCE
    assert widened(1e-4, None) == 1e-4 and widened(1e-4, 1e-3) == 2e-3 and widened(1e-4, 1e-6) == 1e-4
    assert within(1e-4, 1e-4) and not within(1.1e-4, 1e-4) and not within(None, 1.0)
