"""`vdla tune --target cuda` on a fake GPU, and the use of its records by `vdla run` and `vdla compile`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from archives import members
from fake_gpu import FakeDevice, Launched
from fake_gpu_worker import Loader
from float_networks import FloatNetwork

from vdla.codesign.report.tune_table import tune_lines
from vdla.codesign.tuning import kernels
from vdla.codesign.tuning.gpu import GpuTunable
from vdla.codesign.tuning.options import Options, Watchers
from vdla.codesign.tuning.session import subjects_of, tune_subjects
from vdla.codesign.tuning.target import Run
from vdla.codesign.workload_models import cuda_workloads
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.options import parse_target
from vdla.compiler.gpu_stages import GpuLowering
from vdla.compiler.pipeline import network_workloads
from vdla.compiler.records.apply import knobs_from
from vdla.compiler.records.book import CHECKED, book_of
from vdla.compiler.records.files import RecordWriter
from vdla.compiler.records.record import Record, Task
from vdla.compiler.runtime import cuda_core
from vdla.compiler.templates.gpu.table import GPU
from vdla.compiler.templates.gpu.workload import CudaWorkload
from vdla.compiler.tune.measure import open_backend
from vdla.compiler.tune.measure.backends import InProcess
from vdla.compiler.tune.measure.cuda_workers import CudaWorkers
from vdla.util.errors import UserError

TARGET = cuda_target("sm_90a")
CARD = replace(TARGET, card="another", clock=1.5e9)
NAME = "matmul:1,48,24,64"
OPTIONS = Options(trials=6, in_place=0, batch=3, seed=0, strategy="evolution")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty user cache, so that nothing compiled earlier is reused."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of an ONNX model of two equal 3x3 convolutions in a row, each followed by a Relu."""
    net = FloatNetwork(1, 8, 8, 8)
    for _ in range(2):
        net.convolution(8, (3, 3), pads=[1] * 4)
        net.add("Relu")
    net.shape = (1, 8, 8, 8)
    path = tmp_path_factory.mktemp("models") / "twice.onnx"
    path.write_bytes(net.model())
    return path


def tune(
    options: Options,
    known: list[Record],
    faults: dict[str, str] | None = None,
    names: Sequence[str] = (NAME,),
) -> tuple[list[dict[str, Any]], list[Record]]:
    """Tunes the workloads `names` as if they were alternative methods for one workload; returns (the report's tasks,
    the written records). `known`: records of earlier trials; `faults`: faults of candidates by the value of their knob
    "thread_rows".
    """
    written: list[Record] = []
    loader = Loader(faults or {})
    named = [(NAME, workload) for name in names for workload in cuda_workloads(name, CARD)]
    with CudaWorkers(InProcess(loader), InProcess(loader)) as backend:
        run = Run(options=options, backend=backend, known=known, watchers=Watchers(write=written.append))
        document, _ = tune_subjects(GpuTunable(CARD), NAME, subjects_of(named, in_network=False), run)
    return document["tasks"], written


def test_a_workload_is_tuned_and_resumed() -> None:
    (task,), written = tune(OPTIONS, [])
    (workload,) = cuda_workloads(NAME, CARD)
    assert [record.trial for record in written] == [0, 1, 2, 3, 4, 5, 6]
    assert written[0].knobs == GPU.default(CARD, workload)
    assert all(record.cost is not None and record.task.unit == "seconds" for record in written)
    assert written[-1].strategy == CHECKED and written[-1].cost == min(task["best"], task["default"])
    assert task["outputs_equal"] is True and task["workload"] == workload.to_dict()
    # The same search, interrupted and told that it may go on, makes the same trials.
    (again,), more = tune(replace(OPTIONS, trials=9), written[:4])
    assert [record.trial for record in more[:-1]] == [4, 5, 6, 7, 8] and again["trials"] == 9
    assert [record.knobs for record in more[:2]] == [record.knobs for record in written[4:6]]
    # Records of a card are found by its architecture alone, and the other way round.
    for target in (CARD, TARGET, cuda_target("sm_90")):
        assert knobs_from(book_of(written), GPU, target).choose(workload) == (written[-1].knobs or None)
    assert knobs_from(book_of(written), GPU, cuda_target("sm_80")).choose(workload) is None


def test_wrong_results_are_failed_trials() -> None:
    values = dict.fromkeys(("1", "2", "4", "8", "16"), "wrong")
    (task,), written = tune(replace(OPTIONS, strategy="random", trials=3), [], values)
    assert task["failed"] == 3 and task["best"] is None and task["default"] is not None
    assert all("wrong results" in (record.error or "") for record in written[:3])


def test_a_workload_far_slower_than_its_rival_gets_one_trial() -> None:
    tasks, written = tune(replace(OPTIONS, trials=8), [], names=(NAME, "matmul:1,192,8,256"))
    near, far = tasks
    assert far["best"] > 2 * near["best"] and far["trials"] == 1 and near["trials"] == 7
    assert far["default"] == far["best"] == written[1].cost and far["outputs_equal"] is True
    assert near["fastest"] is True and far["fastest"] is False
    # Nothing of it is measured again in the end.
    checked = [record.task.workload for record in written if record.strategy == CHECKED]
    assert checked == [near["workload"]]


class IdleDevice(FakeDevice):
    """A fake GPU whose kernels do nothing."""

    def execute(self, work: Sequence[Launched]) -> None:
        assert work

    def __enter__(self) -> IdleDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def test_a_network_is_tuned_and_timed_before_and_after(
    vdla: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = FloatNetwork(1, 48, 24)
    # A product of two activations, as the device of these workers can multiply.
    net.add("Transpose", perm=[0, 2, 1])
    net.add("MatMul", inputs=["x", net.last])
    net.shape = (1, 48, 48)
    model = tmp_path / "net.onnx"
    model.write_bytes(net.model())
    opened: list[IdleDevice] = []
    asked: list[dict[str, Any]] = []

    def open_device(ordinal: int = 0) -> IdleDevice:
        assert ordinal == 1
        opened.append(IdleDevice({}))
        return opened[-1]

    def backend(**options: Any) -> CudaWorkers:
        asked.append(options)
        return CudaWorkers(InProcess(Loader({})), InProcess(Loader({})), ordinal=options["ordinal"])

    monkeypatch.setattr(cuda_core, "open_device", open_device)
    monkeypatch.setattr(open_backend, "open_cuda_backend", backend)
    monkeypatch.setattr(kernels, "network_workloads", products_of)
    arguments = ("--target", "cuda", "--device", "cuda:1", "--workers", 3, "--trials", 4, "--batch", 4)
    records = tmp_path / "r.jsonl"
    document = vdla("tune", model, *arguments, "-o", records, "--json").document()
    assert (document["target"], document["card"], document["arch"]) == ("cuda", "Fake", "sm_90a")
    (task,) = document["tasks"]
    assert task["trials"] == 4 and task["failed"] == 0 and len(task["nodes"]) == 1
    found = document["network"]
    assert (found["kernels_tuned"], found["kernels_ignored"]) == (1, 0) and found["outputs_equal"] is True
    assert found["default_ms"] > 0 and found["tuned_ms"] > 0
    assert len(opened) == 2 and not any(device.open for device in opened)
    # No time-out was asked for: the workers have their own.
    assert [(a["workers"], a["ordinal"], a["timeout"]) for a in asked] == [(3, 1, None)]
    assert "by the device's clock; 1 of" in tune_lines(document)[-1]


def products_of(lowering: GpuLowering, model: Path) -> list[tuple[str, CudaWorkload]]:
    return [(node, w) for node, w in network_workloads(lowering, model) if w.template == "gemm_cuda"]


def record(workload: Any, cost: float, target: Any = TARGET) -> Record:
    task = Task(workload=workload.to_dict(), target=target.described)
    knobs = GPU.default(target, workload)
    return Record(task=task, knobs=knobs, cost=cost, trial=0, seed=0, strategy=CHECKED, elapsed=0.0)


def test_the_method_with_the_best_record_is_taken(network: Path) -> None:
    methods = {w.template: w for _, w in network_workloads(GpuLowering(TARGET), network)}
    assert methods.keys() == {"conv2d_cuda", "conv2d_direct_cuda", "winograd_cuda"}
    ways = list(methods.values())
    costs = {"conv2d_cuda": 3e-6, "conv2d_direct_cuda": 2e-6, "winograd_cuda": 4e-6}

    def taken(*records: Record) -> str:
        return ways[knobs_from(book_of(records), GPU, TARGET).compare(ways)].template

    everything = [record(w, costs[w.template]) for w in ways]
    default = ways[0].template
    assert taken(*everything) == "conv2d_direct_cuda"
    # Where the default was not measured, nothing says that another way is faster.
    assert taken(*[r for r in everything if r.task.workload["template"] != default]) == default
    # Another card's time says nothing beside this one's.
    slow = [record(ways[0], 5e-6), record(methods["winograd_cuda"], 1e-6, CARD)]
    assert taken(*slow) == default
    assert taken(record(ways[0], 5e-6, CARD), slow[1]) == "winograd_cuda"
    subjects = subjects_of(GpuTunable(TARGET).network(network).workloads, in_network=True)
    assert {s.workload.template: s.nodes for s in subjects} == dict.fromkeys(methods, ("n0", "n2"))


def test_networks_are_run_and_compiled_with_records(vdla: Any, tmp_path: Path, network: Path) -> None:
    methods = {w.template: w for _, w in network_workloads(GpuLowering(TARGET), network)}
    records = tmp_path / "r.jsonl"
    with RecordWriter(records) as writer:
        for template, workload in methods.items():
            writer.append(record(workload, 1e-6 if template == "winograd_cuda" else 2e-6, CARD))
    target = ("--target", "cuda -arch=sm_90a")
    arguments = ("run", network, *target, "--device", "cuda:emulated", "--records", records)
    result = vdla(*arguments, "--json")
    assert "1 kernels use recorded knobs; recorded knobs of 0 kernels were ignored" in result.err
    assert result.document()["check"]["max_relative_error"] < 1e-5
    assert "with the same records" in vdla(*arguments, "--check", "auto", "--json").err
    archive = tmp_path / "net.tar"
    compiled = vdla("compile", network, *target, "-o", archive, "--records", records, "--json")
    assert "1 kernels use recorded knobs" in compiled.err
    # Winograd's method has three kernels for each convolution.
    assert compiled.document()["kernels"] == 1 and b"__global__" in members(archive)["kernels.cu"]
    assert members(archive)["kernels.cu"].count(b"__global__") == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--target", "cuda"), "; `vdla run MODEL.onnx --device cuda:emulated` needs no GPU"),
        (("--target", "cuda", "--device", "cuda:emulated"), "have no GPU times"),
        (("--target", "cuda", "--device", "gpu"), 'device "gpu"'),
        (("--target", "cuda -arch=sm_1"), "sm_1"),
        (("--target", "cuda,vdla"), "--target"),
        (("--target", "cuda", "--workers", "0"), "--workers 0"),
        (("--target", "cuda", "--scheduler", "tcp://127.0.0.1:1"), "--scheduler"),
        (
            ("--target", "cuda", "--config", "tiny"),
            "--config is for the accelerator; leave it out with --target cuda",
        ),
        (("--target", "llvm", "--device", "cuda:0"), "device cuda:0: is for GPUs"),
    ],
)
def test_what_cannot_be_tuned_is_said_in_a_line(vdla: Any, tmp_path: Path, arguments, words) -> None:
    result = vdla("tune", "-o", tmp_path / "r.jsonl", "--workload", NAME, *arguments)
    assert words in result.message()
    assert not (tmp_path / "r.jsonl").exists()


def test_workloads_have_names() -> None:
    target = parse_target("cuda")
    templates = {
        "conv2d:C2": {"conv2d_cuda", "conv2d_direct_cuda", "winograd_cuda"},
        "conv2d:C3": {"conv2d_cuda"},
        "depthwise:D1": {"depthwise_cuda"},
        "dense:1,64,48": {"gemv_cuda", "gemm_cuda"},
        "dense:64,64,48": {"gemm_cuda"},
        "conv_transpose:4,8,8,3,2": {"conv_transpose_cuda"},
        "elementwise:gelu,3x40": {"elementwise_cuda"},
        "softmax:8,100": {"rows_cuda"},
        "normalization:8,100": {"rows_cuda"},
        "reduction:2,30,20": {"rows_cuda"},
    }
    for name, expected in templates.items():
        found = cuda_workloads(name, target)
        assert {workload.template for workload in found} == expected
        for workload in found:
            assert GPU.space(target, workload).size > 50 and workload.obstacle() is None
    for wrong in ("gelu:8,8", "conv2d:C99", "matmul:1,100000,100000,8", "elementwise:add,2x3,4x3"):
        with pytest.raises(UserError, match=wrong.partition(":")[0]):
            cuda_workloads(wrong, target)
