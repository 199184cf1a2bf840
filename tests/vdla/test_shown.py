"""Tests the text and notebook (HTML) representations of the API's objects, and the method `source`, by which a compiled
kernel or network returns its generated code.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import vdla
from vdla.codesign.models import build
from vdla.compiler.backends.llvm import LlvmCompiler
from vdla.isa.assembler import assemble
from vdla.isa.config import Config, Memory

LLVM, ASM = "define void @", "\tret"


def doubled() -> vdla.Schedule:
    a = vdla.placeholder("A", (4, 16))
    return vdla.Schedule(vdla.program_of(vdla.compute("B", (4, 16), lambda i, j: a[i, j] * 2.0)))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.onnx"
    onnx.save(build("mlp", "u8"), path)
    return path


def test_a_configuration_shows_the_expression_that_makes_it() -> None:
    for machine in (vdla.config("tiny"), vdla.config("vta", read_latency=60), Config()):
        assert eval(repr(machine), {"Config": Config, "Memory": Memory}) == machine
    assert (
        repr(Config(name="mine", memory=Memory(bus_bytes=16)))
        == "Config(name='mine', memory=Memory(bus_bytes=16))"
    )
    assert '<td style="text-align:left">memory.read_latency</td>' in vdla.config("tiny")._repr_html_()


def test_reports_and_networks(small: Path) -> None:
    network = vdla.compile(small, config="tiny")
    assert repr(network) == "<AcceleratorExecutable mlp_u8: input float32 [1, 784] -> output float32 [1, 10]>"
    assert '<td style="text-align:left">1, 784</td>' in network._repr_html_()
    report = vdla.simulate(network)
    assert repr(report) == f"<Report of mlp_u8 on tiny: {report.cycles:,} cycles>"
    html = report._repr_html_()
    assert all(f">{layer.cycles:,}<" in html and layer.name in html for layer in report.network.layers)
    raw = vdla.simulate(network.program)
    assert repr(raw) == f"<Report on tiny: {report.cycles:,} cycles>" and "compute" in raw._repr_html_()
    with pytest.raises(vdla.UserError, match="a program has no layers to plot; draw its instructions with"):
        raw.plot()
    with pytest.raises(vdla.UserError, match='no plot is called "bars"; choose one of layers, roof'):
        report.plot("bars")
    text = network.source("instructions")
    assert np.array_equal(
        assemble(
            "".join(f"{line}\n" for line in text.splitlines() if not line.startswith(".")), report.config
        ),
        network.program.instructions,
    )
    with pytest.raises(vdla.UserError, match=r'mlp_u8: it has no source "llvm"; it has "instructions"'):
        network.source("llvm")


def test_schedules() -> None:
    schedule = doubled()
    assert repr(schedule) == "<Schedule of B: 0 steps>"
    schedule.split("B.j", 4)
    assert repr(schedule) == "<Schedule of B: 1 step>" and "for B.j.0 in range(4)" in schedule._repr_html_()


def test_explored(small: Path) -> None:
    space = {"base": "tiny", "fields": {"read_latency": [30, 60]}}
    found = vdla.explore(space, small, "cycles,area", strategy="exhaustive")
    assert repr(found) == f"<Explored: 2 of 2 designs, {len(found.front)} on the front of cycles, area>"
    assert found._repr_html_().count("<tr>") == 1 + len(found.front)


def test_sources_of_kernels_on_every_target() -> None:
    with vdla.build(doubled()) as kernel:
        assert LLVM in kernel.source("llvm") and ASM in kernel.source("asm")
        with pytest.raises(vdla.UserError, match=r'B: it has no source "cuda"; it has "llvm" and "asm"'):
            kernel.source("cuda")
    with vdla.build(doubled().program, "cuda", device="emulated") as kernel:
        assert "__global__ void" in kernel.source("cuda")


def test_sources_of_networks_that_were_kept_and_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = build("mlp", "float")
    for _ in range(2):
        with vdla.compile(model, "llvm") as network:
            assert network.source("llvm").count(LLVM) >= 1 and ASM in network.source("asm")
    LlvmCompiler("llvm").save(tmp_path / "m.tar", model.SerializeToString(), batch=1, knobs=None)
    with vdla.load(tmp_path / "m.tar") as network, pytest.raises(vdla.UserError, match="machine code only"):
        network.source("asm")


def test_sources_of_divided_networks(small: Path) -> None:
    with vdla.compile(small, "vdla,llvm", "tiny") as network:
        kinds = network.texts()
        assert "instructions" in kinds and "GEMM" in network.source("instructions")
        with pytest.raises(vdla.UserError, match='no source "cuda"'):
            network.source("cuda")


def test_sources_of_a_range_of_lengths() -> None:
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    ends = [onnx.helper.make_tensor_value_info(name, 1, ["n", 8]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "relu", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    with vdla.compile(model, "llvm", lengths={"n": (1, 3)}) as network:
        assert repr(network) == "<LengthsExecutable relu: x float32 [1:3, 8] -> y float32 [1:3, 8]>"
        text = network.source("llvm")
        assert LLVM in text and "; length 3" in text
