"""Quantization with a decision for each layer (float or a quantized form): the file contains these decisions, and
accelerator and CPU together compute the model.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from shipped import shipped

from vdla.codesign.models import sample_inputs
from vdla.codesign.quantize_run import prepare_here
from vdla.compiler.divided import compile_divided
from vdla.compiler.quantize.decisions import Calibrated, Decisions, fix, uniform
from vdla.compiler.quantize.error import Error
from vdla.compiler.quantize.observe import Run
from vdla.compiler.quantize.plan import plan_quantization
from vdla.compiler.quantize.quantize import Recipe, calibrate_model, quantize_model, read_model
from vdla.compiler.quantize.simulate import simulated
from vdla.isa.config import load_config
from vdla.util.errors import UserError

SAMPLES = [{"input": part} for part in np.split(sample_inputs("small_cnn", 2, seed=3), 2)]


def prepare(proto: onnx.ModelProto) -> Run:
    return prepare_here(proto, lambda remark: pytest.fail(remark))


@pytest.fixture(scope="module")
def calibrated() -> tuple[Calibrated, Run]:
    model = read_model(shipped("small_cnn", "float"))
    plan = plan_quantization(model)
    return calibrate_model(model, plan, SAMPLES, prepare, Recipe(method="minmax"))


def test_the_divided_network_computes_what_was_decided(calibrated: tuple[Calibrated, Run]) -> None:
    made, run = calibrated
    decisions = Decisions(
        floats=frozenset(["conv1", "conv3"]),
        symmetric=frozenset(["conv2", "add"]),
        per_tensor=frozenset(["conv4", "fc"]),
    )
    assert made.canonical(decisions) == decisions
    proto = made.write(decisions).proto
    rounding = prepare(simulated(proto, ["output"]))
    division = compile_divided(proto.SerializeToString(), load_config("vta"))
    on_cpu = {name for region in division.network.regions if region.side == "cpu" for name in region.nodes}
    assert on_cpu & {layer.name for layer in made.layers} == decisions.floats
    expected, exact = Error(), Error()
    with division.network as network:
        for feeds in SAMPLES:
            real = run(feeds)["output"]
            expected.add(real, rounding(feeds)["output"])
            exact.add(real, network.run(feeds).outputs["output"])
    assert exact.sqnr == pytest.approx(expected.sqnr, abs=0.01)
    types = {array.name: onnx.numpy_helper.to_array(array) for array in proto.graph.initializer}
    for layer in made.layers:
        if layer.weighted:
            name = f"{layer.name}.weight_scale"
            assert (name in types) == (layer.name not in decisions.floats)
            assert name not in types or (types[name].ndim == 0) == (layer.name in decisions.per_tensor)


def test_decisions_that_change_nothing_are_dropped(calibrated: tuple[Calibrated, Run]) -> None:
    made, _ = calibrated
    everything = uniform(made.layers, "uint8", per_channel=True)
    assert made.canonical(Decisions(floats=frozenset(["add"]))) == everything == Decisions()
    assert made.canonical(Decisions(floats=frozenset(["avgpool"]))) == Decisions()
    both = Decisions(floats=frozenset(["add", "conv3"]), per_tensor=frozenset(["conv3"]))
    assert made.canonical(both).floats == {"add", "conv3"} and not made.canonical(both).per_tensor
    first = made.canonical(Decisions(floats=frozenset(["conv1"]), symmetric=frozenset(["input", "add"])))
    assert first.symmetric == {"add"}


def test_choices_for_single_layers() -> None:
    model = read_model(shipped("mlp", "float"))
    feeds = [{"input": sample_inputs("mlp", 1)}]
    choices = {"fc1": ["s8", "per-tensor"], "fc2": ["float"]}
    made = quantize_model(model, feeds, prepare, Recipe(method="minmax"), choices=choices)
    assert [(layer.name, layer.quantization.dtype) for layer in made.layers] == [("fc1", "int8")]
    assert made.float_operators["Gemm"] == 1


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"conv9": ["float"]}, 'net.onnx: the model has no layer "conv9"; did you mean "conv4"?'),
        (
            {"conv1": ["int4"]},
            'layer "conv1": "int4" is not one of the choices; use u8, per-channel, float, s8',
        ),
        ({"conv1": ["u8", "s8"]}, 'layer "conv1" cannot be both u8 and s8'),
        (
            {"conv1": ["float", "u8"]},
            'layer "conv1" cannot be both float and u8, which is for quantized layers',
        ),
        (
            {"input": ["float"]},
            '"input" is an input or a constant of the model, so its only choices are u8 and s8',
        ),
        (
            {"add": ["per-tensor"]},
            'layer "add" (Add) has no weights to scale per-tensor; leave this out',
        ),
    ],
)
def test_choices_that_are_refused(
    calibrated: tuple[Calibrated, Run], choices: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(UserError) as raised:
        fix("net.onnx", calibrated[0].layers, choices)
    assert str(raised.value).startswith(message)
