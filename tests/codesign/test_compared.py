"""The check of outputs against ONNX Runtime: what it compares, and the text of its result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from vdla.codesign import evaluate, heterogeneous_run, output_check
from vdla.codesign.evaluate import compare_layers
from vdla.codesign.output_check import check_outputs
from vdla.codesign.report.cycle_breakdown import CheckAccount
from vdla.codesign.report.division import DivisionCheck
from vdla.codesign.report.table import check_text
from vdla.codesign.verdict import NOTHING, Compared
from vdla.compiler.graph.abilities import Abilities
from vdla.isa.config import load_config

onnxruntime = pytest.importorskip("onnxruntime")
TARGETS = {
    "accelerator": ("--config", "tiny"),
    "processor": ("--device", "cpu"),
    "divided": ("--target", "vdla,llvm", "--config", "tiny"),
    "emulated": ("--device", "cuda:emulated"),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def written(tmp_path: Path, kind: int, *, relu: bool) -> Path:
    """Path of a model that quantizes and dequantizes its input, then its output, with a Relu or (`relu` False) no layer
    in between. `kind`: ONNX's number of the integer type, INT8 or UINT8.
    """
    middle = [helper.make_node("Relu", ["f"], ["r"])] if relu else []
    last = "r" if relu else "f"
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["f"]),
        *middle,
        helper.make_node("QuantizeLinear", [last, "s", "z"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        [
            helper.make_tensor("s", TensorProto.FLOAT, [], [0.1]),
            helper.make_tensor("z", kind, [], [0 if kind == TensorProto.INT8 else 128]),
        ],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("target", TARGETS)
def test_a_check_says_what_it_compared_and_with_which_tolerance(vdla, tmp_path: Path, target: str) -> None:
    model = written(tmp_path, TensorProto.INT8, relu=True)
    outcome = vdla("run", model, *TARGETS[target])
    assert outcome.code == 0
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("against onnxruntime")]
    assert "allowed" in line and "1 output" in line, line
    assert target in ("processor", "emulated") or "end to end" in line


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("side", ["store_inputs", "load_outputs"])
def test_layers_alone_begin_at_the_inputs_and_end_at_the_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str, relu: bool
) -> None:
    """The comparison with ONNX Runtime includes conversions at the network's inputs and outputs. Regression: it
    compared only nodes, so that an error of 43 quantization steps before the first node passed, and so did a model
    without nodes. `side`: the function for inputs or outputs that gets this error; `relu`: the model has a node.
    """
    model = written(tmp_path, TensorProto.INT8, relu=relu)
    launches = [{"x": np.linspace(-9, 9, 8, dtype=np.float32)[None]}]
    found = compare_layers(model, launches)
    assert found.largest == 0
    assert found.compared == Compared(inputs=1, layers=int(relu), outputs=1)

    right = getattr(evaluate, side)
    step = 43 if side == "store_inputs" else 4.3
    monkeypatch.setattr(
        evaluate,
        side,
        lambda *a: {name: (array - step).astype(array.dtype) for name, array in right(*a).items()},
    )
    assert compare_layers(model, launches).largest >= 43


def test_layers_alone_read_a_function_of_a_cropped_tensor(tmp_path: Path) -> None:
    """A function of a cropped tensor is stored in the size before the crop, under the name of the model's result, and
    gets a grid of its own if no QuantizeLinear rounds it. Regression: the check reshaped ONNX Runtime's result to the
    size before the crop, and ended with a traceback.
    """
    constants: dict[str, Any] = {
        "scale": np.float32(0.1),
        "zero": np.int8(0),
        "begin": np.array([0], np.int64),
        "end": np.array([-2], np.int64),
        "axis": np.array([2], np.int64),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("Slice", ["d", "begin", "end", "axis"], ["cropped"]),
        helper.make_node("Tanh", ["cropped"], ["tanh"]),
        helper.make_node("QuantizeLinear", ["z", "scale", "zero"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "scale", "zero"], ["e"]),
        helper.make_node("Mul", ["tanh", "e"], ["product"]),
        helper.make_node("QuantizeLinear", ["product", "scale", "zero"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "scale", "zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "cropped",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4, size))
            for name, size in (("x", 9), ("z", 7))
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 7))],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    path = tmp_path / "cropped.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    x = np.linspace(-9, 9, 36, dtype=np.float32).reshape(1, 4, 9)
    launch: dict[str, Any] = {"x": x, "z": x[..., 2:]}
    found = compare_layers(path, [launch], abilities=Abilities.of(load_config("vta")))
    assert found.compared == Compared(inputs=2, layers=2, outputs=1) and found.largest <= 1


def test_a_check_that_compares_nothing_has_not_passed(tmp_path: Path) -> None:
    nothing = CheckAccount(
        against="onnxruntime", mode="layer by layer", images=1, max_lsb=0, top1_equal=True, tolerance=1
    )
    assert not nothing.passed and replace(nothing, compared=Compared(outputs=1)).passed
    assert not DivisionCheck(against="onnxruntime", images=1).passed
    verdict, _ = check_outputs(
        written(tmp_path, TensorProto.INT8, relu=True), {"x": np.ones((1, 8), "f4")}, {}, "auto"
    )
    assert verdict is not None and not verdict.passed


def test_a_divided_network_without_the_accelerator_is_not_checked_by_the_interpreter(
    vdla, tmp_path: Path
) -> None:
    model = written(tmp_path, TensorProto.INT8, relu=False)
    outcome = vdla("run", model, *TARGETS["divided"], "--check", "interpreter", "--json")
    assert outcome.document()["check"] is None and "not checked" in outcome.err
    assert vdla("run", model, *TARGETS["divided"], "--json").document()["check"]["passed"]


def shifted(runs: Any, steps: dict[bool, int]) -> Any:
    """A replacement for `runs`, the function that runs ONNX Runtime: it adds 0.1 times a number of steps to all
    outputs, `steps[True]` in runs with graph optimization and `steps[False]` in runs without.
    """

    def moved(*arguments: Any, optimized: bool = True, **options: Any) -> Any:
        found = runs(*arguments, optimized=optimized, **options)
        return [
            [(array + np.float32(0.1 * steps[optimized])).astype(array.dtype) for array in launch]
            for launch in found
        ]

    return moved


@pytest.mark.parametrize("target", ["accelerator", "processor", "divided"])
def test_a_wider_tolerance_says_why(
    vdla, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    model = written(tmp_path, TensorProto.UINT8, relu=True)
    for module in (evaluate, output_check, heterogeneous_run):
        monkeypatch.setattr(module, "session_runs", shifted(module.session_runs, {True: 9, False: 0}))
    outcome = vdla("run", model, *TARGETS[target])
    assert outcome.code == 0 and "with and without its optimization differ by" in outcome.out
    check = vdla("run", model, *TARGETS[target], "--json").document()["check"]
    because = [check.get("tolerance_because"), check.get("output_tolerance_because")]
    because += [region["because"] for region in check.get("regions", ())]
    assert check["passed"] and any(because)


def test_indices_are_not_compared_end_to_end() -> None:
    """An output of TopK is an index. One rounding in an earlier region may replace the index by any other one.
    Regression: a network whose regions were all right was called wrong.
    """
    ours = {"score": np.array([[0.5, 0.49]], np.float32), "index": np.array([[60, 2]])}
    theirs = {"score": np.array([[0.5, 0.5]], np.float32), "index": np.array([[2, 60]])}
    for names, count in ((("score", "index"), 1), (("index",), 0)):
        network, result = (
            cast(Any, SimpleNamespace(regions=(), outputs=names)),
            cast(Any, SimpleNamespace(outputs=ours)),
        )
        verdict = DivisionCheck(against="onnxruntime", images=1)
        found = heterogeneous_run._compare(network, verdict, result, theirs, theirs)
        assert found.failed == () and found.outputs == count
        assert (found.output_relative is None) == (not count)


def test_text_of_a_check() -> None:
    check = CheckAccount(
        against="onnxruntime",
        mode="layer by layer",
        images=2,
        max_lsb=1,
        top1_equal=True,
        tolerance=1,
        end_to_end_max_lsb=43,
        compared=Compared(inputs=1, layers=5, outputs=2),
    )
    assert check_text(check) == (
        "against onnxruntime, layer by layer, 2 images: largest difference 1 LSB in 1 input, 5 layers and 2 outputs "
        "(1 allowed); end to end 43 LSB; top-1 equal"
    )
    assert str(NOTHING) == "nothing"
