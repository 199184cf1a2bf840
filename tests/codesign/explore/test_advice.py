"""Advice on a machine: changes that would save cycles of a network."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import vdla
from vdla.codesign import models
from vdla.codesign.explore.advice import Advice, Trial, changed_machines, helpful
from vdla.codesign.explore.networks import load_network
from vdla.codesign.models.transformers.bert import BertSizes, bert_encoder
from vdla.codesign.technology.components import shipped_components
from vdla.verify.cosim.dram import with_dram

SLOW_BUS = replace(vdla.config("tiny"), name="slow")


def with_sigmoid() -> onnx.ModelProto:
    """A convolution and a Sigmoid, quantized: the accelerator needs its extension `table`."""
    arrays = {
        "s": np.float32(0.05),
        "z": np.int8(0),
        "t": np.float32(1 / 128),
        "w": np.random.default_rng(0).integers(-20, 20, (8, 8, 3, 3)).astype(np.int8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wd"]),
        helper.make_node("Conv", ["xd", "wd"], ["c"], "conv"),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "s", "z"], ["cd"]),
        helper.make_node("Sigmoid", ["cd"], ["g"], "gate"),
        helper.make_node("QuantizeLinear", ["g", "t", "z"], ["gq"]),
        helper.make_node("DequantizeLinear", ["gq", "t", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "gated",
        [helper.make_tensor_value_info("x", T.FLOAT, [1, 8, 8, 8])],
        [helper.make_tensor_value_info("y", T.FLOAT, [1, 8, 6, 6])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture(scope="module")
def advice() -> Advice:
    """Advice on the multilayer perceptron on SLOW_BUS."""
    return vdla.advise(models.build("mlp"), SLOW_BUS, technology="45nm-published")


def test_cycles_are_those_of_the_changed_machine(advice: Advice) -> None:
    model = models.build("mlp")
    assert advice.needed == ()
    assert advice.cycles == vdla.simulate(vdla.compile(model, config=SLOW_BUS)).cycles
    assert any("bus_bytes" in change.name for change in advice.changes)
    for change in (advice.changes[0], advice.steps[-1]):
        assert change.cycles == vdla.simulate(vdla.compile(model, config=change.machine)).cycles
    assert all(change.saved >= 0.03 for change in advice.changes)
    assert [c.saved for c in advice.changes] == sorted([c.saved for c in advice.changes], reverse=True)


def test_steps_build_on_each_other(advice: Advice) -> None:
    before = advice.milliseconds
    for step in advice.steps:
        assert step.milliseconds == pytest.approx((1 - step.saved) * before)
        assert step.saved > 0
        before = step.milliseconds
    assert advice.steps[0] == advice.changes[0]
    assert advice.advised == replace(advice.steps[-1].machine, name="slow_advised")


def test_needed_extensions_are_named() -> None:
    plain = replace(vdla.config("tiny"), extensions=("post", "patch", "depthwise"))
    model = with_sigmoid()
    with pytest.raises(vdla.UserError):
        vdla.compile(model, config=plain)
    advice = vdla.advise(model, plain, technology="45nm-published")
    assert advice.needed == ("table",)
    assert vdla.simulate(vdla.compile(model, config=advice.machine)).cycles == advice.cycles
    assert str(advice).startswith("needed to run the whole network: table (+")


def test_a_network_is_imported_for_each_machine() -> None:
    """Advice for a machine imports the network for that machine: without the extension `broadcast`, a product of a
    plane and an image takes a form that needs no extension.
    """
    rng = np.random.default_rng(4)
    net = bert_encoder(0, 1, 8, BertSizes(layers=1, width=16, heads=1, inner=16))
    samples = {"embeddings": rng.standard_normal((4, 8, 16)).astype(np.float32)}
    model = vdla.quantize(net, samples, whole=True).content
    own = vdla.config("vta").extensions
    machine = vdla.config("vta", extensions=(*[name for name in own if name != "broadcast"], "rows"))
    advice = vdla.advise(model, machine, technology="45nm-published")
    assert advice.needed == ()
    assert advice.cycles == vdla.simulate(vdla.compile(model, config=machine)).cycles


def test_a_network_that_no_machine_runs_is_refused() -> None:
    model = with_sigmoid()
    model.graph.node[6].op_type = "Erf"
    model.graph.node[7].input[0] = "g"
    model.graph.node.insert(7, helper.make_node("TopK", ["g", "k"], ["v", "i"], "top"))
    model.graph.node[8].input[0] = "v"
    model.graph.initializer.append(numpy_helper.from_array(np.array([6]), "k"))
    with pytest.raises(vdla.UserError, match="top"):
        vdla.advise(model, "tiny")


def test_changes_are_legal_and_differ() -> None:
    machine = vdla.config("vta")
    changed = [config for _, config in changed_machines(machine)]
    assert len(changed) > 5
    assert all(config != machine for config in changed)


def pointwise() -> onnx.ModelProto:
    """A quantized 1x1 convolution of 8 channels of 32x32 positions, which takes longer to move its data than to
    multiply.
    """
    arrays = {
        "s": np.float32(0.05),
        "z": np.int8(0),
        "w": np.random.default_rng(0).integers(-20, 20, (8, 8, 1, 1)).astype(np.int8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wd"]),
        helper.make_node("Conv", ["xd", "wd"], ["c"], "conv"),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "s", "z"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, T.FLOAT, [1, 8, 32, 32]) for name in ("x", "y"))
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "pointwise", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


WIDE = replace(vdla.config("tiny"), name="wide", block_in=8, block_out=8)
OVERLAPPED = {
    "memory.data_channels shared -> separate": (WIDE, pointwise),
    "memory.channels 1 -> 2": (
        with_dram(vdla.config("tiny"), 100, part="MT41K256M8"),
        lambda: models.build("mlp"),
    ),
}


@pytest.mark.parametrize("name", OVERLAPPED)
def test_reads_and_writes_may_overlap_and_a_dram_may_have_more_channels(name: str) -> None:
    machine, build = OVERLAPPED[name]
    model, network = build(), load_network(build().SerializeToString())
    trial = Trial(network=network, components=shipped_components())
    changed = {text: config for text, config in changed_machines(machine) if "channels" in text}
    assert set(changed) == {name}
    (change,) = helpful(changed.items(), machine, trial)
    cycles = [
        vdla.simulate(vdla.compile(model, config=config)).cycles for config in (machine, change.machine)
    ]
    assert [change.cycles + change.saved_cycles, change.cycles] == cycles
    areas = [trial.figures(config).square_millimetres for config in (machine, change.machine)]
    assert change.added_area == areas[1] - areas[0]
    # A second channel has circuits at its pins of its own; an AXI port has channels for both directions anyway.
    assert (change.added_area > 0) == (machine.memory.kind == "dram")


def test_separate_data_channels_are_not_proposed_twice() -> None:
    separate = replace(WIDE, memory=replace(WIDE.memory, data_channels="separate"))
    assert not [text for text, _ in changed_machines(separate) if "channels" in text]


def test_the_command_prints_and_writes(tmp_path: Path, advice: Advice, vdla: Callable[..., object]) -> None:
    path, machine, advised = tmp_path / "mlp.onnx", tmp_path / "slow.toml", tmp_path / "advised.toml"
    onnx.save(models.build("mlp"), path)
    from vdla.isa.config_text import toml_text

    machine.write_text(toml_text(SLOW_BUS))
    how = ("--config", machine, "--technology", "45nm-published")
    document = vdla("advise", path, *how, "--json", "-o", advised).document()
    assert document["rows"] == advice.rows()
    text = (
        r"memory\.bus_bytes 8 -> 16: [\d,]+ cycles \(-[\d,]+\), [\d.]+ ms, [\d.]+% less time, \+[\d.e-]+ mm2"
    )
    assert re.search(text, str(advice))
    ran = vdla("run", path, "--config", advised, "--timing-only", "--json").document()
    assert ran["total"]["cycles"] == advice.steps[-1].cycles


def test_a_share_above_one_is_refused() -> None:
    with pytest.raises(vdla.UserError, match="a share of the latency from 0 to 1"):
        vdla.advise(models.build("mlp"), "tiny", least=3)


def test_run_names_hardware_that_would_help(
    tmp_path: Path, advice: Advice, vdla: Callable[..., object]
) -> None:
    from vdla.isa.config_text import toml_text

    path, machine = tmp_path / "mlp.onnx", tmp_path / "slow.toml"
    onnx.save(models.build("mlp"), path)
    machine.write_text(toml_text(SLOW_BUS))
    how = ("run", path, "--config", machine, "--technology", "45nm-published", "--timing-only")
    (bus,) = [change for change in advice.changes if change.name.startswith("memory.bus_bytes")]
    # Every run tries the bus; --advise has a line for each change, as `vdla advise` has.
    assert vdla(*how).out.splitlines()[-1] == f"{bus} (--advise tries other changes)"
    assert vdla(*how, "--advise").out.splitlines()[-len(advice.changes) :] == [*map(str, advice.changes)]
    document = vdla(*how, "--advise", "--json").document()["advice"]
    assert document == {
        **advice.document(),
        "network": "mlp",
        "rows": [r for r in advice.rows() if r["role"] == "change"],
    }
    assert "advice" not in vdla(*how, "--json").document()
    refused = vdla(*how, "--advise", "--vthreads", "1")
    assert refused.code == 2 and "leave out --records and --vthreads" in refused.err
    assert "--advise" not in vdla(*how, "--vthreads", "1").out


def test_a_search_starts_from_advice(advice: Advice) -> None:
    notes: list[str] = []
    found = vdla.explore(
        {"base": SLOW_BUS, "fields": {"read_latency": [30, 64]}},
        models.build("mlp"),
        "latency",
        budget=2,
        strategy="exhaustive",
        tune_front=0,
        technology="45nm-published",
        from_advice=True,
        notify=notes.append,
    ).exploration
    base = found.study.space.base
    assert replace(base, name=advice.advised.name) == advice.advised and base.name == "slow_advised"
    assert notes[0] == f"the search starts from slow_advised: {', '.join(step.name for step in advice.steps)}"
    (design,) = [item for item in found.designs if item.fields["read_latency"] == base.memory.read_latency]
    assert design.figures.networks["network"].cycles == advice.steps[-1].cycles
