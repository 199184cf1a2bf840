"""`vdla tune --target llvm` on the command line, and the use of its records by `vdla run` and `vdla compile`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from float_networks import FloatNetwork
from onnx import TensorProto, helper, numpy_helper

from vdla.codesign import models
from vdla.codesign.network_cache import network_key
from vdla.codesign.tuning.options import Options, Watchers
from vdla.codesign.tuning.processor import ProcessorTunable
from vdla.codesign.tuning.session import subjects_of, tune_subjects
from vdla.codesign.tuning.target import Run
from vdla.codesign.workload_names import accelerator_workload, cpu_workload
from vdla.compiler.backends.llvm import LlvmCompiler
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.cpu_stages import CpuLowering
from vdla.compiler.pipeline import network_workloads
from vdla.compiler.records.book import read_book
from vdla.compiler.records.record import Record, Task
from vdla.compiler.templates.cpu.table import CPU
from vdla.compiler.templates.cpu.workload import SketchCpu
from vdla.compiler.tune.measure.backends import Backend
from vdla.compiler.tune.measure.descriptions import TaskError, describe, load
from vdla.compiler.tune.measure.trial import Result
from vdla.compiler.tune.search.cost_model import THOROUGH, CostModel
from vdla.compiler.tune.search.transfer import samples_from
from vdla.isa.config import load_config
from vdla.util.errors import UserError

LAYER = "dense:2,8,16"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty user cache, so that nothing compiled earlier is reused."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of an ONNX model of two equal 1x1 convolutions in a row, each followed by a Relu."""
    path = tmp_path_factory.mktemp("models") / "twice.onnx"
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal((16, 16, 1, 1), dtype=np.float32), f"w{i}")
        for i in range(2)
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], "second"),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, 4, 4]) for name in ("x", "y"))
    graph = helper.make_graph(nodes, "twice", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def tune(vdla, path: Path, *arguments: object) -> dict:
    return vdla("tune", "-o", path, "--target", "llvm", "--workers", 0, "--json", *arguments).document()


def test_a_workload_is_tuned_and_resumed(vdla, tmp_path):
    records = tmp_path / "r.jsonl"
    (task,) = tune(vdla, records, "--workload", LAYER, "--trials", 4, "--batch", 2)["tasks"]
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert task["trials"] == 4 and [line["trial"] for line in lines[:4]] == [0, 1, 2, 3]
    assert lines[0]["knobs"] == CPU.default(host_target(), cpu_workload(LAYER, host_target()))
    assert task["unit"] == "seconds" and task["default"] > 0 and task["outputs_equal"] is True
    # What is applied is what won when the best took turns, not the luckiest reading.
    checked = lines[4]
    assert len(lines) == 5 and checked["strategy"] == "checked"
    assert (checked["knobs"], checked["cost"]) in (
        (task["knobs"], task["best"]),
        (lines[0]["knobs"], task["default"]),
    )
    assert read_book([records])[0].lookup(checked["workload"], checked["target"]) == checked["knobs"]
    arguments = ("--workload", LAYER, "--trials", 6, "--batch", 2, "--resume", "--features", "program")
    (resumed,) = tune(vdla, records, *arguments)["tasks"]
    after = [json.loads(line) for line in records.read_text().splitlines()]
    assert resumed["trials"] == 6 and [line["trial"] for line in after[5:7]] == [4, 5] and len(after) == 8


def test_a_process_of_its_own_measures_unless_told(vdla, tmp_path):
    arguments = ("--target", "llvm", "--workload", LAYER, "--trials", 2, "--strategy", "random", "--json")
    document = vdla("tune", "-o", tmp_path / "r.jsonl", *arguments).document()
    (task,) = document["tasks"]
    assert document["target"] == "llvm" and task["trials"] == 2 and task["outputs_equal"] is True


def test_elementwise_workloads_have_names_on_both_targets(vdla, tmp_path):
    target, records = host_target(), tmp_path / "r.jsonl"
    names = ("elementwise:add,6x4x4,6x4x4", "elementwise:gelu,3x40")
    given = [argument for name in names for argument in ("--workload", name)]
    for task, name in zip(
        tune(vdla, records, *given, "--trials", 6, "--batch", 2)["tasks"], names, strict=True
    ):
        assert task["workload"] == cpu_workload(name, target).to_dict()
        assert task["trials"] > 0 and task["failed"] == 0 and task["outputs_equal"] is True
    bias = cpu_workload("elementwise:add,6x4x4,6x1x1", target)
    assert isinstance(bias, SketchCpu)
    assert [p.shape for p in bias.program().parameters] == [(6, 16), (6, 1), (6, 16)]
    addition = accelerator_workload(names[0], load_config("vta"))
    assert (addition.template, addition.channels, addition.operand) == ("elementwise", 6, True)
    with pytest.raises(UserError, match="give --target llvm for any other"):
        accelerator_workload(names[1], load_config("vta"))


def test_a_network_takes_its_records(vdla, tmp_path, network):
    records = tmp_path / "r.jsonl"
    document = tune(vdla, records, network, "--trials", 4, "--batch", 2)
    (task,) = document["tasks"]
    assert len(task["nodes"]) == 2 and task["outputs_equal"] is True
    found = document["network"]
    assert (found["kernels_tuned"], found["kernels_ignored"]) == (1, 0) and found["outputs_equal"] is True
    assert found["default_ms"] > 0 and found["tuned_ms"] > 0
    result = vdla("run", network, "--device", "cpu", "--records", records, "--json")
    assert result.document()["check"]["max_relative_error"] < 1e-5
    assert "1 kernels use recorded knobs; recorded knobs of 0 kernels" in result.err
    again = vdla("compile", network, "--records", records, "-o", tmp_path / "n.tar")
    assert "was compiled with the same records" in again.err and "from the cache" in again.err
    # Records that are of the workload, but not of its space.
    lines = [json.loads(line) | {"knobs": {"luck": 1}} for line in records.read_text().splitlines()]
    records.write_text("".join(json.dumps(line) + "\n" for line in lines))
    other = vdla("compile", network, "--records", records, "-o", tmp_path / "n.tar")
    assert "0 kernels use recorded knobs; recorded knobs of 1 kernels were ignored" in other.err


def test_records_are_part_of_what_a_cached_network_is_called(vdla, tmp_path, network):
    target = host_target()
    workload = network_workloads(CpuLowering(target), network)[0][1]
    record = {"version": 1, "workload": workload.to_dict(), "target": target.described, "cost": 1.0}
    record |= {"unit": "seconds", "error": None, "trial": 0, "seed": 0, "strategy": "grid", "elapsed": 0.0}
    compiler = LlvmCompiler("llvm")
    keys = {network_key(network, compiler, batch=1)}
    for knobs in ({}, {"a": 1}, {"a": 2}):
        path = tmp_path / "r.jsonl"
        path.write_text(json.dumps(record | {"knobs": knobs}) + "\n")
        keys.add(network_key(network, compiler, batch=1, records=read_book([path])[0]))
    assert len(keys) == 4


def test_other_workloads_of_the_template_teach(vdla):
    target = host_target()
    own, other, pool = (cpu_workload(text, target) for text in (LAYER, "dense:4,8,32", "conv2d:4,16,16,1,1"))
    records = []
    for workload in (own, other, pool):
        task = Task(workload=workload.to_dict(), target=target.described)
        knobs = CPU.default(target, workload)
        records += [
            Record(task=task, knobs=k, cost=cost, trial=i, seed=0, strategy="model", elapsed=0.0)
            for i, (k, cost) in enumerate([(knobs, 2.0), (knobs, 1.0), ({"luck": 1}, 0.5)])
        ]
    (group,) = samples_from(records, CPU, target, own)
    assert group.costs.tolist() == [2.0, 1.0] and len(group.features) == 2
    assert samples_from(records[:3], CPU, target, own) == ()


def test_programs_teach_those_that_have_the_same_knobs():
    target = host_target()
    names = ("matmul:2,8,16,32", "matmul:4,16,16,64", "softmax:9,40")
    own, other, softmax = (cpu_workload(name, target) for name in names)
    records = []
    for workload in (other, softmax):
        task = Task(workload=workload.to_dict(), target=target.described)
        of_it = CPU.space(target, workload)
        points = [of_it.values(point) for point in of_it.sample(np.random.default_rng(0), 3)]
        records += [
            Record(task=task, knobs=knobs, cost=1.0, trial=i, seed=0, strategy="model", elapsed=0.0)
            for i, knobs in enumerate([{}, *points])
        ]
    (group,) = samples_from(records, CPU, target, own)
    assert len(group.costs) == 3


def test_a_machine_refuses_trials_that_it_cannot_run():
    target = host_target()
    description = describe(target, cpu_workload(LAYER, target))
    foreign = {**description["target"], "triple": "sparc-unknown-linux-gnu", "cpu": "v9"}
    for changed, words in (
        ({"target": foreign}, "cannot run here"),
        ({"target": {}}, "its target needs exactly the fields"),
        ({"target": None}, "JSON objects"),
        ({"more": 1}, "JSON objects"),
    ):
        with pytest.raises(TaskError, match=words):
            load({**description, **changed})
    result = load(description)({"luck": 1})
    assert result.failed and "has no knob" in (result.error or "")


def test_programs_of_the_accelerator_are_compiled_with_records(vdla, tmp_path):
    model, records = tmp_path / "mlp.onnx", tmp_path / "r.jsonl"
    models.write(model, "mlp", form="s8")
    vdla("tune", model, "-o", records, "--trials", 8, "--workers", 0, "--in-place", 4, "--json").document()
    out, ran = tmp_path / "a.vdla", tmp_path / "b.vdla"
    told = vdla("compile", model, "--target", "vdla", "--records", records, "-o", out, "--json").document()
    assert told["target"] == {"config": "vta"} and told["bytes"] == out.stat().st_size
    vdla("run", model, "--timing-only", "--records", records, "--program-out", ran, "--json").document()
    assert out.read_bytes() == ran.read_bytes()
    message = vdla("compile", model, "--target", "vdla", "--batch", 2).message()
    assert "--batch is for processors" in message
    assert "--config is for the accelerator" in vdla("compile", model, "--config", "tiny").message()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--workload", LAYER, "--target", "cuda"), "no NVIDIA driver was found"),
        (("--workload", LAYER, "--target", "rocm"), "choose vdla"),
        (("--workload", LAYER, "--target", "vdla,llvm"), "one target at a time"),
        (("--workload", LAYER, "--target", "llvm -mtriple=aarch64-linux-gnu"), "cannot be measured"),
        (("--workload", LAYER, "--target", "llvm -march=x"), "-march"),
        (("--workload", LAYER, "--target", "llvm", "--workers", 2), "one candidate at a time"),
        (("--workload", LAYER, "--target", "llvm", "--in-place", 3), "--in-place is for the accelerator"),
        (
            ("--workload", LAYER, "--target", "llvm", "--config", "tiny"),
            "--config is for the accelerator; leave it out with --target llvm",
        ),
        (("--workload", "gru:3", "--target", "llvm"), "is not a workload"),
        (
            ("--workload", "conv_transpose:1,1,1,1,999999", "--target", "llvm"),
            "a stride of 999999 is more than 64",
        ),
        (("--workload", "conv_transpose:1,1,1,16,16", "--target", "llvm"), "1 to 256 buffers"),
        (("--workload", "elementwise:gru,3", "--target", "llvm"), "there is no operation 'gru'"),
        (("--workload", "elementwise:add,3x4", "--target", "llvm"), "add takes 2 shapes"),
        (("--workload", "elementwise:add,3,4", "--target", "llvm"), "do not broadcast"),
        (("--workload", "conv2d:999999,999999,9,1,1", "--target", "llvm"), "name a smaller "),
        (("--workload", "matmul:1,2,3,4"), "is for processors; add --target llvm"),
        (("--workload", "matmul:1,2,3", "--target", "llvm"), "matmul:BATCH,ROWS,DEPTH,COLUMNS"),
        (("--workload", "matmul:9999,9999,9999,9999", "--target", "llvm"), "statements run"),
        (("--workload", "softmax:99999,99999", "--target", "llvm"), "name a smaller "),
        (("nothing.onnx", "--target", "llvm"), "nothing.onnx"),
    ],
)
def test_mistakes_are_told_in_one_line(vdla, tmp_path, arguments, message):
    result = vdla("tune", "-o", tmp_path / "r.jsonl", *arguments)
    assert result.code == 2 and result.out == "" and message in result.err
    assert result.err.startswith("error: ") and len(result.err.splitlines()) == 1


def test_quantized_networks_have_nothing_to_tune(vdla, tmp_path):
    model = tmp_path / "mlp.onnx"
    models.write(model, "mlp", form="s8")
    message = vdla("tune", model, "-o", tmp_path / "r.jsonl", "--target", "llvm").message()
    assert "no layer that can be tuned; layers that can be tuned on processors" in message


def test_programs_without_knobs_are_tuned_by_rules(vdla, tmp_path):
    records = tmp_path / "r.jsonl"
    name = "matmul:2,40,32,40"
    arguments = ("--workload", name, "--batch", 2)
    (task,) = tune(vdla, records, *arguments, "--trials", 2)["tasks"]
    assert task["trials"] == 2 and task["failed"] == 0 and task["outputs_equal"] is True
    # The record after the trials has the faster of two points in turns: the best trial, or the default.
    *trials, checked = [json.loads(line) for line in records.read_text().splitlines()]
    assert len(trials) == 2 and all(line["knobs"] for line in trials)
    target = host_target()
    default = CPU.default(target, cpu_workload(name, target))
    assert checked["knobs"] == (task["knobs"] if task["best"] <= task["default"] else default)
    resumed = vdla(
        "tune", "-o", records, "--target", "llvm", "--workers", 0, *arguments, "--trials", 3, "--resume"
    )
    assert (
        "sketch_cpu" in resumed.out
        and "3 trials of single layers" in resumed.out
        and "warning" not in resumed.err
    )
    assert records.read_text().count('"evolution"') == 3
    # Of a network's node of these sizes they are the records too.
    net = FloatNetwork(1, 2, 40, 32)
    net.add("Transpose", perm=[0, 1, 3, 2])
    net.add("MatMul", inputs=["x", net.last])
    net.shape = (1, 2, 40, 40)
    assert cpu_workload(name, target) in [w for _, w in network_workloads(CpuLowering(target), net.model())]


@pytest.mark.parametrize(
    "name", ["softmax:9,20", "normalization:5,33", "reduction:3,20,7", "conv_transpose:3,4,5,4,2"]
)
def test_named_programs_measure_themselves(name):
    target = host_target()
    measure = load(describe(target, cpu_workload(name, target)))
    assert measure(None).error is None


def test_functions_behind_sums_do_not_make_errors_of_roundings():
    target = host_target()
    net = FloatNetwork(1, 2, 64, 512)
    net.add("Transpose", perm=[0, 1, 3, 2])
    net.add("MatMul", inputs=["x", net.last])
    net.add("Tanh", net.add("Mul", net.constant(np.float32(1.5))), inputs=[net.last])
    net.shape = (1, 2, 64, 64)
    ((_, workload),) = network_workloads(CpuLowering(target), net.model())
    assert load(describe(target, workload))(None).error is None


def test_programs_are_read_where_no_template_made_the_space_unless_told():
    ruled = CPU.space(host_target(), cpu_workload("conv2d:6,8,8,3,1", host_target()))
    made = replace(ruled, template="conv2d_cuda")
    usual = Options(trials=1, in_place=0, batch=1, seed=0, strategy="evolution")
    assert usual.reads_programs(ruled) and not usual.reads_programs(made)
    assert usual.model(ruled) == THOROUGH and usual.model(made) == CostModel()
    assert replace(usual, features="program").reads_programs(made)
    assert not replace(usual, features="account").reads_programs(ruled)
    assert not replace(usual, strategy="genetic").reads_programs(ruled)


class Overloaded(Backend):
    """A backend that measures the first `runs` candidates successfully and fails all later ones."""

    def __init__(self, runs: int) -> None:
        self.left = runs

    def finished(self, description, points):
        for index, _ in enumerate(points):
            self.left -= 1
            yield index, Result(cost=1e-3, seconds=0.0) if self.left >= 0 else FAILED

    def close(self) -> None:
        pass


FAILED = Result(cost=float("inf"), error="took longer than 0.1 s", seconds=0.1)


@pytest.mark.parametrize("runs", [0, 2, 3])
def test_a_machine_that_gets_too_busy_in_the_end_ends_no_run(runs):
    target = host_target()
    named = [("one", cpu_workload(LAYER, target)), ("the same", cpu_workload(LAYER, target))]
    options = Options(trials=2, in_place=0, batch=2, seed=0, strategy="random")
    written: list[Record] = []
    watchers = Watchers(write=written.append)
    run = Run(options=options, backend=Overloaded(runs), watchers=watchers)
    subjects = subjects_of(named, in_network=False)
    document, _ = tune_subjects(ProcessorTunable(target), "one", subjects, run)
    (task,) = document["tasks"]
    assert task["trials"] == 2 and task["best"] is None and task["knobs"] is None
    # The third to run is the template's choice, in its first turn.
    assert task["default"] == (1e-3 if runs == 3 else None)
    assert [record.strategy for record in written] == ["random", "random"] + ["checked"] * (runs == 3)
    json.dumps(task, allow_nan=False)
