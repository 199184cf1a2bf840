"""The GPU benchmark without a GPU: its checks run emulated, its timing runs on a fake device."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from fake_gpu import FakeDevice
from onnx import helper

from vdla.benchmarks import gpu
from vdla.benchmarks.harness import gpu_suite
from vdla.benchmarks.harness.command_line import parse
from vdla.benchmarks.harness.float64 import float64_outputs
from vdla.benchmarks.harness.gpu_models import inputs_of, layer_cases, network_cases, operator_cases
from vdla.benchmarks.harness.gpu_run import Checked, Platform
from vdla.benchmarks.harness.gpu_suite import (
    GpuRow,
    Peer,
    check_entry,
    checked_entries,
    choose_entries,
    geometric_means,
    measure_entry,
    timed_entries,
)
from vdla.benchmarks.harness.gpu_torch import PeerError
from vdla.benchmarks.harness.suite import UnknownRowError
from vdla.compiler.codegen.cuda.machine import cuda_target

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "gpu.py"
PLATFORM = Platform(target=cuda_target(), device=None)


def benchmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARK), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def test_every_reduced_model_is_valid_and_small():
    for case in (*operator_cases(), *layer_cases()):
        model = case.make(True)
        onnx.checker.check_model(model, full_check=True)
        inputs = inputs_of(model)
        assert sum(array.size for array in inputs.values()) < 4000, case.name
        for values in float64_outputs(model, inputs).values():
            assert values.dtype == np.float64 and values.std() > 0.01, case.name


def test_checks_run_emulated():
    outcome = benchmark("--device", "cuda:emulated", "--only", "relu", "softmax", "dense", "D1", "--json")
    assert outcome.returncode == 0, outcome.stderr
    checks = json.loads(outcome.stdout)["checks"]
    assert [check["name"] for check in checks] == ["relu", "softmax", "dense", "D1"]
    assert all(check["error"] <= check["allowed"] for check in checks)


def test_wrong_results_are_seen(monkeypatch):
    (entry,) = choose_entries(checked_entries(reduced=True), ["add"])
    assert check_entry(PLATFORM, entry, reduced=True).good
    right = float64_outputs
    monkeypatch.setattr(
        "vdla.benchmarks.harness.gpu_run.float64_outputs",
        lambda model, inputs: {name: values + 1e-3 for name, values in right(model, inputs).items()},
    )
    assert not check_entry(PLATFORM, entry, reduced=True).good
    assert not Checked(error=float("nan"), allowed=1.0).good


def test_without_a_device_one_line():
    outcome = benchmark("--device", "cuda:77")
    assert outcome.returncode == 2 and outcome.stdout == ""
    assert outcome.stderr.startswith("error: ") and "cuda:77" in outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_what_is_timed_is_checked_before():
    checked, timed = checked_entries(reduced=False), timed_entries()
    assert len({entry.name for entry in timed}) == len(timed)
    models = {entry.model.name for entry in checked if entry.model is not None}
    assert {entry.model.name for entry in timed if entry.model and entry.group != "products"} <= models
    assert {case.name for case in network_cases()} <= models
    assert {e.precision for e in timed if e.group == "products"} == set(gpu_suite.TOLERANCES)
    assert {e.size for e in timed if e.group == "products"} == {512, 1024, 2048, 4096, 8192}
    with pytest.raises(UnknownRowError, match="no row or group 'C13'"):
        choose_entries(timed, ["C13"])


class IdleDevice(FakeDevice):
    """A fake GPU whose kernels do nothing."""

    def execute(self, work) -> None:
        assert work


def test_rows_are_of_the_devices_clock():
    device = IdleDevice({}, memory_bytes=1 << 24)
    (entry,) = choose_entries(timed_entries(), ["gemm512_float32"])
    row = measure_entry(Platform(target=PLATFORM.target, device=device), None, entry, rounds=3)
    assert row.gflops == pytest.approx(2 * 512**3 / row.ours_ms / 1e6)
    assert row.of_peak == pytest.approx(row.gflops * 1e9 / PLATFORM.target.peak())
    assert row.peers_ms == row.ratios == {} and not device.open
    assert row.ours_ms % 0.25 == 0


def test_layers_have_equal_pads_and_as_many_outputs_as_with_same_padding() -> None:
    for case in layer_cases():
        model = case.make(False)
        (node,) = model.graph.node
        at = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        assert len(set(at["pads"])) == 1, case.name
        size = model.graph.input[0].type.tensor_type.shape.dim[2].dim_value
        kernel, stride, pad = at["kernel_shape"][0], at["strides"][0], at["pads"][0]
        assert (size + 2 * pad - kernel) // stride + 1 == -(-size // stride), case.name


@pytest.mark.parametrize(("wrong", "shape"), [(False, 512), (True, 512), (False, 256)])
def test_a_peers_time_counts_only_if_its_outputs_are_ours(monkeypatch, wrong: bool, shape: int) -> None:
    zeros = np.zeros((512, 512), np.float32)
    theirs = np.full((512, shape), 1.0 if wrong else 0.0, np.float32)
    made = gpu_suite._ours
    # Kernels of this device do nothing.
    monkeypatch.setattr(gpu_suite, "_ours", lambda *given: replace(made(*given), run=lambda: {"Y": zeros}))
    timed: list[bool] = []

    class Timer:
        def __init__(self, torch, forward, *, repetitions: int, graphed: bool) -> None:
            timed.append(graphed)

        def milliseconds(self) -> float:
            return 2.0

    monkeypatch.setattr(gpu_suite, "TorchTimer", Timer)
    monkeypatch.setattr(gpu_suite, "outputs_of", lambda torch, forward: forward())
    monkeypatch.setattr(gpu_suite, "set_precision", lambda torch, tensor_float: None)
    monkeypatch.setattr(
        gpu_suite,
        "_peers",
        lambda *_: {"graph": Peer(forward=lambda: (theirs,), graphed=True)},
    )
    (entry,) = choose_entries(timed_entries(), ["gemm512_float32"])
    platform = Platform(target=PLATFORM.target, device=IdleDevice({}, memory_bytes=1 << 24))
    if wrong or shape != 512:
        with pytest.raises(PeerError, match=r"gemm512_float32: outputs of graph .*not timed"):
            measure_entry(platform, sys, entry, rounds=2)
        assert not timed
    else:
        row = measure_entry(platform, sys, entry, rounds=2)
        assert timed == [True] and row.peers_ms == {"graph": 2.0} and row.ratios["graph"] == 2.0 / row.ours_ms


def test_geometric_means_are_by_group_precision_and_peer():
    def row(name: str, ratio: float, precision: str = "float32") -> GpuRow:
        return GpuRow(
            name=name, group="convolutions", precision=precision, ours_ms=1, gflops=1, of_peak=0.1,
            peers_ms={"graph": ratio}, ratios={"graph": ratio},
        )  # fmt: skip

    means = geometric_means([r.to_dict() for r in (row("a", 1.0), row("b", 4.0), row("c", 3.0, "tf32"))])
    assert means == {
        "convolutions, float32": {"graph": pytest.approx(2.0)},
        "convolutions, tf32": {"graph": pytest.approx(3.0)},
    }
    assert np.isfinite(means["convolutions, tf32"]["graph"])


def test_results_are_written_whole_and_updated(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(gpu, "RESULTS", tmp_path)
    monkeypatch.setattr(gpu, "check", lambda platform, options: 0)
    monkeypatch.setattr(gpu, "find_torch", lambda: None)
    monkeypatch.setattr(gpu, "open_device", lambda ordinal: closing(IdleDevice({}, memory_bytes=1 << 24)))

    def run(*arguments: str) -> None:
        assert gpu.main(parse("", gpu.OPTIONS, arguments)) == 0

    run("--only", "gemm512_float32", "--rounds", "2")
    assert not list(tmp_path.iterdir())
    for name in ("gemm512_tf32", "gemm512_float32"):
        run("--only", name, "--rounds", "2", "--update")
    (path,) = tmp_path.iterdir()
    assert path.name == "gpu-fake.json"
    document = json.loads(path.read_text())
    assert [row["name"] for row in document["rows"]] == ["gemm512_float32", "gemm512_tf32"]
    assert (document["card"], document["driver"], document["torch"]) == ("Fake", "13.0", None)
    assert all(row["ours_ms"] > 0 and row["date"] == document["date"] for row in document["rows"])
    assert "torch is not installed: ours is timed alone" in capsys.readouterr().err
