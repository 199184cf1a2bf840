"""`vdla quantize --budget` on a small network: reported figures equal those of the written files; resuming, choosing a
point of the Pareto front, refusals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import vdla as front_door
from vdla.codesign.models import build, sample_inputs
from vdla.codesign.quantization.evaluate import Evaluator
from vdla.codesign.quantization.processor import CORTEX_A9, node_seconds, operations, parse_processor
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.isa.config import load_config
from vdla.util.errors import UserError

BUDGET = 9
SEARCH = ("--method", "minmax", "--budget", BUDGET, "--json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("search")
    onnx.save(build("mlp", "float"), path / "net.onnx")
    np.savez(path / "data.npz", input=sample_inputs("mlp", 2, seed=11))
    np.savez(path / "unseen.npz", input=sample_inputs("mlp", 2, seed=12))
    np.savez(path / "wrong.npz", input=np.zeros((2, 8), np.float32))
    return path


def where(folder: Path, target: Path) -> tuple[object, ...]:
    given = ("--calibration", folder / "data.npz", "--held-out", folder / "unseen.npz", "-o", target)
    return (folder / "net.onnx", *given)


def test_what_it_reports_is_what_its_files_do(vdla, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "found"
    document = vdla("quantize", *where(folder, target), *SEARCH).document()
    assert document["members"] == BUDGET == document["evaluated"] and document["failed"] == 0
    assert document["held_out_runs"] == 2 == document["calibration_runs"]
    assert set(document["uniform"]) == {
        f"per-{scale} {kind}" for scale in ("channel", "tensor") for kind in ("u8", "s8")
    }
    costs, errors = ([member[key] for member in document["front"]] for key in ("latency_ms", "sqnr_db"))
    assert costs == sorted(set(costs)) and errors == sorted(set(errors)) and len(costs) > 1
    assert (target / "front.png").read_bytes().startswith(b"\x89PNG")
    assert len((target / "members.csv").read_text().splitlines()) == BUDGET + 1
    assert json.loads((target / "quantization.json").read_text())["chosen"] == document["chosen"]
    chosen = document["chosen"]
    assert chosen["exact_sqnr_db"] == pytest.approx(chosen["sqnr_db"], abs=0.01)
    check_goals(vdla, folder, target, document)
    check_resumed(vdla, folder, target, document)


def check_chosen(chosen: Mapping[str, Any], path: Path, folder: Path) -> None:
    """Asserts that the file at `path` has exactly the float layers of `chosen` (JSON of a set of decisions). Also
    asserts that it equals the float model in `folder` quantized with the same decision for each layer.
    """
    floats = {row["layer"] for row in chosen["layers"] if row["choice"] == "float"}
    nodes = {node.name: node for node in onnx.load(path).graph.node}
    weights = {array.name for array in onnx.load(path).graph.initializer}
    assert floats == {
        n for n, node in nodes.items() if node.op_type in ("Conv", "Gemm") and node.input[1] in weights
    }
    assert len(floats) == chosen["float_layers"] > 0
    made = front_door.quantize(
        folder / "net.onnx",
        folder / "data.npz",
        method="minmax",
        layers={row["layer"]: row["choice"] for row in chosen["layers"]},
    )
    assert made.content == path.read_bytes()


def check_goals(vdla, folder: Path, target: Path, document: Mapping[str, Any]) -> None:
    """Asserts that another goal chooses another point of the Pareto front from the records, without evaluations, and
    that a goal out of reach is refused with the nearest figure. `folder`: the float model and its data; `target`: the
    results of the finished search; `document`: its JSON output.
    """
    first, last = document["front"][0], document["front"][-1]
    cheapest = vdla("quantize", *where(folder, target), *SEARCH, "--latency", first["latency_ms"]).document()
    assert cheapest["evaluated"] == 0 and cheapest["chosen"]["member"] == first["member"]
    assert first["float_layers"] == 0
    compiled = compile_program(target / "quantized.onnx", load_config("vta"))
    assert run(compiled, {}, data=False).simulation.cycles == first["cycles"]
    best = vdla("quantize", *where(folder, target), *SEARCH, "--sqnr", last["sqnr_db"]).document()
    assert best["evaluated"] == 0 and best["chosen"]["member"] == last["member"]
    check_chosen(best["chosen"], target / "quantized.onnx", folder)
    for goal in (("--sqnr", 90), ("--latency", 1e-3)):
        result = vdla("quantize", *where(folder, target), *SEARCH, *goal)
        nearest = f"{last['sqnr_db']:.1f} dB" if goal[0] == "--sqnr" else f"{first['latency_ms']:.4g} ms"
        assert result.code == 2 and nearest in result.err and result.err.count("\n") == 1


def check_resumed(vdla, folder: Path, target: Path, document: Mapping[str, Any]) -> None:
    """Asserts that a search resumed from truncated records (with half a line at the end) ends with the same records,
    and that a damaged line is refused by its number. The arguments are those of `check_goals`.
    """
    records = target / "records.jsonl"
    whole = records.read_bytes()
    lines = whole.splitlines(keepends=True)
    assert len(lines) == BUDGET
    records.write_bytes(b"".join(lines[:-2]) + lines[-2][:40])
    again = vdla("quantize", *where(folder, target), *SEARCH).document()
    assert again["evaluated"] == 2 and again["front"] == document["front"] and records.read_bytes() == whole
    records.write_bytes(b'{"format": 1}\n')
    result = vdla("quantize", *where(folder, target), *SEARCH)
    assert result.code == 2 and "records.jsonl:1: is not a record of a quantization" in result.err


def test_tables_for_people_from_samples_of_one_file(vdla, folder: Path, tmp_path: Path) -> None:
    given = (
        "--calibration",
        folder / "data.npz",
        "--method",
        "minmax",
        "--processor",
        "2,2,0.5",
        "--cost",
        "energy",
    )
    fixed = ("--layer", "fc1=quantized,s8", "--layer", "fc2=float")
    result = vdla("quantize", folder / "net.onnx", *given, *fixed, "-o", tmp_path / "q.onnx", "--budget", 2)
    assert result.code == 0 and [path.name for path in tmp_path.iterdir()] == ["q.onnx"]
    text = " ".join(result.out.split())
    assert "error against energy" in text and "fc2 Gemm float" in text and "fc1 Gemm s8, per-" in text
    assert "on 1 held-out runs" in text and "processor_uj: assumed: 0.5 W" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--budget", 0), "--budget"),
        (("--budget", 3, "--layer", "fc9=float"), 'net.onnx: the model has no layer "fc9"'),
        (
            ("--budget", 3, "--held-out", "wrong.npz"),
            "input 'input' has shape [2, 8]; the model expects",
        ),
        (("--budget", 3, "--held-out", "data.npz"), "calibration has used every held-out sample"),
        (("--budget", 3, "--held-out", "none.npz"), "none.npz"),
        (("--budget", 3, "--per-tensor"), "--per-tensor sets all layers, but with --budget a search chooses"),
        (("--budget", 3, "--processor", "z80"), 'no processor is called "z80"'),
        (("--budget", 3, "--cost", "area"), 'no cost is called "area"'),
        (("--budget", 3, "--config", "vtaa"), "vtaa"),
        (("--sqnr", 30), "--sqnr is for a search; add --budget N"),
    ],
)
def test_what_is_refused(
    vdla, folder: Path, tmp_path: Path, options: tuple[object, ...], message: str
) -> None:
    words = [folder / str(word) if str(word).endswith(".npz") else word for word in options]
    given = ("--calibration", folder / "data.npz", "-o", tmp_path / "q.onnx")
    result = vdla("quantize", folder / "net.onnx", *given, *words)
    assert result.code == 2 and message in result.err and not (tmp_path / "q.onnx").exists()


def test_networks_without_layers_and_calibration_that_is_missing(vdla, folder: Path, tmp_path: Path) -> None:
    shape = [1, 4]
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("input", "output")
    ]
    graph = helper.make_graph([helper.make_node("Relu", ["input"], ["output"])], "g", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "relu.onnx")
    np.savez(tmp_path / "data.npz", input=np.eye(4, dtype=np.float32))
    for model, data, message in (
        (tmp_path / "relu.onnx", tmp_path / "data.npz", "there is no layer to quantize"),
        (folder / "net.onnx", tmp_path / "none.npz", "none.npz"),
    ):
        given = ("--calibration", data, "-o", tmp_path / "out", "--budget", 3)
        result = vdla("quantize", model, *given)
        assert result.code == 2 and message in result.err and result.err.count("\n") == 1


def test_an_interrupt_before_the_first_result_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """`quantize` raises KeyboardInterrupt. Regression: it said that no quantized network can be run."""

    def interrupted(*_: object) -> None:
        # Not by a signal: a test run that was started in the background of a shell ignores SIGINT.
        raise KeyboardInterrupt

    monkeypatch.setattr(Evaluator, "evaluate", interrupted)
    samples = {"input": sample_inputs("mlp", 4)}
    with pytest.raises(KeyboardInterrupt):
        front_door.quantize(build("mlp", "float"), samples, budget=2, config="tiny")


def test_a_stated_processor_counts_operations_and_bytes() -> None:
    shapes = {"x": (1, 4, 8, 8), "w": (6, 4, 3, 3), "y": (1, 6, 6, 6)}
    conv = helper.make_node("Conv", ["x", "w"], ["y"])
    assert operations(conv, shapes.__getitem__) == 2 * 216 * 36
    assert node_seconds(CORTEX_A9, conv, shapes.__getitem__) == 2 * 216 * 36 / 1.3e9
    add = helper.make_node("Add", ["x", "x"], ["z"])
    moved = {**shapes, "z": shapes["x"]}
    assert node_seconds(CORTEX_A9, add, moved.__getitem__) == 4 * 3 * 256 / 1.05e9
    gemm = helper.make_node("Gemm", ["a", "b"], ["c"], transA=1)
    assert operations(gemm, {"a": (5, 2), "b": (5, 3), "c": (2, 3)}.__getitem__) == 2 * 6 * 5
    for text in ("1,2", "1,2,-3", "1,2,nan"):
        with pytest.raises(UserError):
            parse_processor(text)


@pytest.mark.parametrize(
    ("activations", "integer"), [("u8", onnx.TensorProto.UINT8), ("s8", onnx.TensorProto.INT8)]
)
def test_the_integers_of_activations(folder: Path, activations: Any, integer: int) -> None:
    made = front_door.quantize(
        folder / "net.onnx", folder / "data.npz", method="minmax", activations=activations
    )
    model = onnx.load_from_string(made.content)
    types = {array.name: array.data_type for array in model.graph.initializer}
    pairs = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
    assert pairs and {types[node.input[2]] for node in pairs} == {integer}
