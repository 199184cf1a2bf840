import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from rich.console import Console
from runtime_integers import addable

from vdla.codesign import evaluate
from vdla.codesign.cli import run_accelerator
from vdla.codesign.models import build, sample_inputs
from vdla.codesign.network_run import compile_network
from vdla.codesign.technology.clock import clock_of
from vdla.codesign.technology.components import default_components
from vdla.isa.config import load_config
from vdla.isa.program_file import load_program
from vdla.sim import simulate

TOTAL = [
    "macs",
    "cycles",
    "roofline_cycles",
    "utilization",
    "instructions",
    "dram_read_bytes",
    "dram_write_bytes",
    "seconds_at_clock",
    "clock_hertz",
    "clock_is",
    "energy_uj",
    "energy_is",
    "compile_seconds",
    "simulate_seconds",
]
LAYER = ["name", "op", "macs", "cycles", "roofline_cycles", "bound", "utilization", "stalls", "dram_bytes"]


@pytest.fixture(scope="session")
def small_cnn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "small_cnn.onnx"
    path.write_bytes(build("small_cnn").SerializeToString())
    return path


@pytest.fixture(scope="session")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.onnx"
    path.write_bytes(addable(build("mlp", "qop").SerializeToString()))
    return path


@pytest.fixture
def adds_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the check trust ONNX Runtime's integer kernels, which on some processors saturate; for the network `mlp`
    they are exact on every processor.
    """
    monkeypatch.setattr(evaluate, "kernels_saturate", lambda: False)


def timeless(document: dict[str, Any]) -> dict[str, Any]:
    """The JSON object without times measured on the host."""
    total = {key: value for key, value in document["total"].items() if not key.endswith("e_seconds")}
    return document | {"total": total}


@pytest.mark.parametrize("vthreads", ["1", "2"])
@pytest.mark.parametrize("config", ["vta", "tiny"])
def test_account_adds_up(vdla, small_cnn: Path, config: str, vthreads: str) -> None:
    document = vdla("run", small_cnn, "--config", config, "--vthreads", vthreads, "--json").document()
    total, layers = document["total"], document["layers"]
    assert document["model"] == "small_cnn" and document["config"] == config
    assert list(total) == TOTAL
    assert total["clock_is"] == "modelled"
    assert total["clock_hertz"] == clock_of(load_config(config), default_components()).hertz
    assert total["seconds_at_clock"] == total["cycles"] / total["clock_hertz"]
    assert total["utilization"] == pytest.approx(total["roofline_cycles"] / total["cycles"], abs=1e-6)
    for layer in layers:
        assert set(LAYER) <= set(layer)
        assert layer["gemm_cycles"] + sum(layer["stalls"].values()) == layer["cycles"]
        assert all(count > 0 for count in layer["stalls"].values())
        assert layer["cycles"] == layer["end"] - layer["begin"]
        assert sum(layer["dram"].values()) == layer["dram_bytes"]
        assert layer["compulsory_bytes"] + sum(layer["excess"].values()) == layer["dram_bytes"]
        assert not any("not moved" in reason for reason in layer["excess"])
        assert layer["bound"] in ("compute", "memory")
        # Only what ran under the layer before it, or a fused pool saved, is faster than the roofline.
        assert layer["started"] <= layer["end"]
        below = layer["cycles"] < layer["roofline_cycles"] - 1e-3
        assert (layer["below_roofline"] is not None) == below
        if layer["below_roofline"] == "overlap":
            assert layer["started"] < layer["begin"]
    assert layers[0]["begin"] == 0 and layers[-1]["end"] == total["cycles"]
    assert all(a["end"] == b["begin"] for a, b in pairwise(layers))
    for key in ("macs", "cycles"):
        assert sum(layer[key] for layer in layers) == total[key]
    assert sum(layer["roofline_cycles"] for layer in layers) == pytest.approx(
        total["roofline_cycles"], abs=0.1
    )
    assert sum(layer["dram"]["out"] for layer in layers) == total["dram_write_bytes"]
    moved = sum(layer["dram_bytes"] for layer in layers)
    assert moved == total["dram_read_bytes"] + total["dram_write_bytes"]
    assert document["check"]["max_lsb"] <= 1 and document["check"]["top1_equal"]


def test_traffic_by_kind_is_what_the_simulator_counted(small_cnn: Path) -> None:
    from vdla.codesign.report.traffic import KINDS, group_traffic

    program = compile_network(small_cnn, load_config("vta")).program
    result = simulate(program.config, program.instructions, program.image, data=False)
    traffic = group_traffic(program)
    for kind in KINDS:
        assert sum(group.moved[kind] for group in traffic) == result.traffic[kind].bytes


def test_timing_alone_gives_the_same_account_without_a_check(vdla, small_cnn: Path) -> None:
    full = vdla("run", small_cnn, "--json").document()
    timing = vdla("run", small_cnn, "--timing-only", "--json").document()
    assert timing["check"] is None
    assert timeless(full) | {"check": None} == timeless(timing)


@pytest.mark.usefixtures("adds_right")
def test_outputs_are_those_of_onnxruntime_for_every_image(vdla, mlp: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    images = sample_inputs("mlp", 3, seed=5)
    np.savez(tmp_path / "in.npz", input=images)
    document = vdla(
        "run", mlp, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz", "--json"
    ).document()
    assert document["check"] == {
        "against": "onnxruntime",
        "mode": "end to end",
        "images": 3,
        "max_lsb": 0,
        "top1_equal": True,
        "tolerance": 2,
        "tolerance_because": "",
        "end_to_end_max_lsb": 0,
        "compared": {"inputs": 0, "layers": 0, "outputs": 1},
        "passed": True,
    }
    session = onnxruntime.InferenceSession(str(mlp), providers=["CPUExecutionProvider"])
    expected = np.concatenate([session.run(["output"], {"input": image[None]})[0] for image in images])
    with np.load(tmp_path / "out.npz") as outputs:
        assert np.array_equal(outputs["output"], expected)


def test_integer_operators_are_no_reference_where_their_sums_saturate(
    vdla, mlp: Path, small_cnn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "kernels_saturate", lambda: True)
    outcome = vdla("run", mlp, "--json")
    assert outcome.document()["check"]["against"] == "interpreter"
    assert "no VNNI, so ONNX Runtime's QGemm may saturate" in outcome.err
    # Pairs of QuantizeLinear and DequantizeLinear have float between them.
    assert vdla("run", small_cnn, "--json").document()["check"]["against"] == "onnxruntime"


def test_check_against_the_interpreter_on_request(vdla, mlp: Path) -> None:
    check = vdla("run", mlp, "--check", "interpreter", "--json").document()["check"]
    assert check["against"] == "interpreter"
    assert (check["images"], check["max_lsb"], check["top1_equal"]) == (1, 0, True)


def test_symmetric_models_are_checked_layer_by_layer(
    vdla, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "s8.onnx"
    assert vdla("models", "small_cnn", "--form", "s8", "-o", model).code == 0
    check = vdla("run", model, "--json").document()["check"]
    assert check["mode"] == "layer by layer"
    assert check["max_lsb"] <= 1 and check["top1_equal"]

    evaluate_right = evaluate.evaluate
    monkeypatch.setattr(evaluate, "evaluate", lambda node, operands: -1 - evaluate_right(node, operands))
    wrong = vdla("run", model, "--json").failed()["check"]
    assert wrong["max_lsb"] > 1 and not wrong["top1_equal"]


@pytest.mark.usefixtures("adds_right")
def test_a_wrong_reference_would_be_noticed(vdla, mlp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import vdla.codesign.network_run as network_run

    true_outputs = network_run.onnxruntime_outputs

    def three_steps_off(model: Path, graph, launches, **options):
        step = graph.outputs[0].quantization.scale
        return [
            {name: a[:, ::-1] + 3 * step for name, a in x.items()}
            for x in true_outputs(model, graph, launches, **options)
        ]

    monkeypatch.setattr(network_run, "onnxruntime_outputs", three_steps_off)
    # Each layer by itself is right, so the reference's own last roundings are to blame.
    check = vdla("run", mlp, "--json").document()["check"]
    assert check["mode"] == "layer by layer" and check["passed"]
    assert check["end_to_end_max_lsb"] > 2
    found = network_run.compare_layers
    monkeypatch.setattr(
        network_run, "compare_layers", lambda *a, **k: replace(found(*a, **k), largest=3, top1_equal=False)
    )
    check = vdla("run", mlp, "--json").failed()["check"]
    assert check["max_lsb"] == 3 and check["tolerance"] == 1 and not check["top1_equal"]


def test_a_layer_that_gives_float32_is_compared_in_its_steps(vdla, tmp_path: Path) -> None:
    # Once wrong: the reference's float32 numbers were cut to integers, and right results were said to be wrong.
    nodes = [helper.make_node("DequantizeLinear", ["x", "s"], ["f"]), helper.make_node("Relu", ["f"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "float_out",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [1, 3, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor("s", TensorProto.FLOAT, [], [0.1])],
    )
    path = tmp_path / "float_out.onnx"
    opsets = [helper.make_opsetid("", 17)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    check = vdla("run", path, "--config", "tiny", "--json").document()["check"]
    assert check["mode"] == "layer by layer" and check["max_lsb"] == 0


def test_dumped_passes_end_with_the_program(vdla, mlp: Path, tmp_path: Path) -> None:
    outcome = vdla("run", mlp, "--timing-only", "--dump-passes", tmp_path / "passes")
    assert outcome.code == 0
    files = sorted(path for path in (tmp_path / "passes").rglob("*") if path.is_file())
    assert len(files) > 2 and all(path.stat().st_size for path in files)
    assert "FINISH" in (tmp_path / "passes" / "program.txt").read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [tmp_path / "passes"]


def test_table_for_people_names_layers_and_total(vdla, small_cnn: Path) -> None:
    outcome = vdla("run", small_cnn)
    assert outcome.code == 0
    document = vdla("run", small_cnn, "--timing-only", "--json").document()
    for layer in document["layers"]:
        assert layer["name"] in outcome.out and f"{layer['cycles']:,}" in outcome.out
    assert f"{document['total']['cycles']:,}" in outcome.out and "top-1 equal" in outcome.out


def slices(trace: Trace) -> dict[str, list[tuple[int, int, str]]]:
    """The slices of each track by its name: (start, stop, name); asserts that each ends before the next begins."""
    tracks, names, open_slices, found = {}, {}, {}, {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
        for entry in packet.interned_data.event_names:
            names[entry.iid] = entry.name
        event = packet.track_event
        if not packet.HasField("track_event") or event.type == TrackEvent.TYPE_COUNTER:
            continue
        track = tracks[event.track_uuid]
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert track not in open_slices
            open_slices[track] = (packet.timestamp, names[event.name_iid])
        else:
            start, name = open_slices.pop(track)
            assert packet.timestamp > start
            found.setdefault(track, []).append((start, packet.timestamp, name))
    assert not open_slices
    return found


def test_timeline_shows_every_unit_without_gaps(vdla, small_cnn: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.perfetto-trace"
    document = vdla("run", small_cnn, "--timeline", file, "--json").document()
    trace = Trace.FromString(file.read_bytes())
    found = slices(trace)
    cycles = document["total"]["cycles"]
    assert set(found) == {"layers", "fetch", "load", "compute", "store"}
    for unit in ("load", "compute", "store"):
        rows = found[unit]
        assert rows[0][0] == 0 and rows[-1][1] == cycles
        assert all(a[1] == b[0] for a, b in pairwise(rows))
    waits = sum(stop - start for start, stop, name in found["compute"] if name == "wait token:load->compute")
    assert waits == sum(layer["stalls"].get("token:load->compute", 0) for layer in document["layers"])
    gemm = sum(stop - start for start, stop, name in found["compute"] if name in ("GEMM", "DEPTHWISE"))
    assert gemm == sum(layer["gemm_cycles"] for layer in document["layers"])
    dispatches = [row for row in found["fetch"] if row[2].startswith("dispatch")]
    assert len(dispatches) == document["total"]["instructions"]
    named = {(name, stop - start) for start, stop, name in found["layers"]}
    assert named == {(layer["name"], layer["cycles"]) for layer in document["layers"] if layer["cycles"]}


def test_timeline_counts_every_data_byte(vdla, mlp: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.perfetto-trace"
    document = vdla("run", mlp, "--timeline", file, "--timing-only", "--json").document()
    trace = Trace.FromString(file.read_bytes())
    counters = {
        p.track_descriptor.uuid: p.track_descriptor.name
        for p in trace.packet
        if p.HasField("track_descriptor")
    }
    samples: dict[str, list[tuple[int, float]]] = {}
    for packet in trace.packet:
        if packet.track_event.type == TrackEvent.TYPE_COUNTER:
            value = packet.track_event.double_counter_value
            samples.setdefault(counters[packet.track_event.track_uuid], []).append((packet.timestamp, value))
    width = samples["DRAM written"][1][0] - samples["DRAM written"][0][0]
    sums = {name: sum(value for _, value in rows) * width for name, rows in samples.items()}
    total = document["total"]
    fetched = sum(layer["dram"]["instruction"] for layer in document["layers"])
    assert sums["DRAM written"] == pytest.approx(total["dram_write_bytes"])
    assert sums["DRAM read"] == pytest.approx(total["dram_read_bytes"] - fetched)


@pytest.mark.usefixtures("adds_right")
def test_progress_never_reaches_standard_output(vdla, mlp: Path) -> None:
    outcome = vdla("run", mlp, "--json")
    assert outcome.err == ""
    assert json.loads(outcome.out)["model"] == "mlp"


@pytest.mark.parametrize("vthreads", ["1", "2"])
def test_the_compiled_program_is_sound_and_runs_elsewhere(
    vdla, small_cnn: Path, tmp_path: Path, vthreads: str
) -> None:
    file = tmp_path / "small_cnn.vdla"
    options = ("--timing-only", "--vthreads", vthreads, "--program-out", file)
    document = vdla("run", small_cnn, *options, "--json").document()
    findings = vdla("check", file, "--json").document()
    assert findings["clean"] and findings["instructions"] == document["total"]["instructions"]
    program = load_program(file)
    result = simulate(program.config, program.instructions, program.image, data=False)
    assert result.cycles == document["total"]["cycles"]


@pytest.mark.parametrize(
    ("width", "gone"), [(160, set()), (100, {"mostly"}), (60, {"mostly", "op", "bound", "DRAM KiB"})]
)
def test_a_narrow_terminal_costs_columns_not_digits(
    vdla, mlp: Path, monkeypatch: pytest.MonkeyPatch, width: int, gone: set[str]
) -> None:
    monkeypatch.setattr(run_accelerator, "text_console", lambda: Console(width=width))
    table = vdla("run", mlp, "--timing-only").out.partition(" ms at ")[0].splitlines()[:-1]
    headings = ("layer", "op", "MMAC", "cycles", "roofline", "bound", "util.", "GEMM", "other", "mostly")
    assert {name for name in (*headings, "DRAM KiB") if f" {name} " not in table[2]} == gone
    assert all(len(line) <= width and "…" not in line for line in table)


@pytest.mark.parametrize(
    ("stage", "target"),
    [("samples.sample_port", "llvm"), ("samples.sample_port", "vdla,llvm"), ("output_check.check_outputs", "llvm"),
     ("network_run.npz_bytes", "llvm"), ("network_run.npz_bytes", "vdla,llvm")],
)  # fmt: skip
@pytest.mark.parametrize("hidden", [False, True])
def test_a_run_without_enough_memory_is_refused_in_one_line(
    vdla, mlp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, target: str, hidden: bool
) -> None:
    """The function `stage` of the package raises MemoryError or, if `hidden`, a ValueError while it cleans up after
    one; `target` is that of --target.
    """

    def without_memory(*_: object, **__: object) -> None:
        try:
            raise MemoryError
        except MemoryError:
            if not hidden:
                raise
            raise ValueError("I/O operation on closed file")  # noqa: B904

    monkeypatch.setattr(f"vdla.codesign.{stage}", without_memory)
    if stage.startswith("samples"):
        monkeypatch.setattr("vdla.codesign.heterogeneous_run.sample_feeds", without_memory)
    message = vdla("run", mlp, "--target", target, "--outputs", tmp_path / "out.npz").message()
    assert f"{mlp}: this process cannot allocate memory for all arrays of a run" in message


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("run", "--vthreads", "3"), "virtual threads = 3; give 1, or 2 to hide latency"),
        (
            ("run", "--target", "vdla,llvm", "--vthreads", "0"),
            "virtual threads = 0; give 1, or 2 to hide latency",
        ),
        (("run", "--device", "cpu", "--batch", "0"), "a batch cannot be 0; give a size of 1 or more"),
        (("compile", "--batch", "-1", "-o", "new.tar"), "a batch cannot be -1; give a size of 1 or more"),
    ],
)
def test_numbers_out_of_range_have_the_messages_of_the_python_api(
    vdla, small_cnn: Path, command: tuple[str, ...], message: str
) -> None:
    assert message in vdla(*command, small_cnn).message()
