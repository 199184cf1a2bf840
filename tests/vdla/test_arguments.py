"""Wrong arguments of the Python API: each gives a UserError of one line, whatever the object's type."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import vdla
from vdla.codesign import models
from vdla.compiler.codegen.cpu.errors import LoweringError as CpuLoweringError
from vdla.compiler.codegen.cuda.errors import LoweringError as CudaLoweringError
from vdla.compiler.ir.array_values import EvaluateError
from vdla.compiler.ir.interp import InterpretError
from vdla.compiler.ir.verify import VerifyError
from vdla.sim.errors import SimulationError

WRONG = (
    *(3, -1, 1.5, float("nan"), True, None, "", "x", b"ab", [], [1], (), (1, 2, 3), {}, {"a": 1}),
    *(object(), len, np.zeros(3), Path("nofile")),
)


def relu() -> bytes:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 8)) for name in "xy"]
    graph = helper.make_graph(nodes, "relu", ends[:1], ends[1:])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()


A = vdla.placeholder("A", (6, 8))
ELEMENT = A[vdla.reduce_axis("i", 6), vdla.reduce_axis("j", 8)]


def product() -> vdla.Program:
    return vdla.program_of(vdla.compute("C", (6, 8), lambda i, j: A[i, j] * 2.0))


CALLS = {
    "accelerator": {"config": "tiny"},
    "build": {"schedule": product(), "target": "llvm"},
    "cast": {"value": ELEMENT, "dtype": "int32"},
    "advise": {"model": "none.onnx", "config": "tiny"},
    "compare": {"first": "tiny", "second": "tiny", "networks": "none.onnx"},
    "compile": {"model": relu(), "target": "vdla", "config": "tiny"},
    "compute": {"name": "C", "shape": (6,), "body": lambda i: A[i, i], "dtype": "float32"},
    "config": {"base": "tiny"},
    "explore": {
        "space": {"base": "tiny", "fields": {"acc_depth": [64, 128]}},
        "networks": "none.onnx",
        "budget": 2,
        "strategy": "random",
    },
    "format_node": {"node": product()},
    "interpret": {"program": product(), "arrays": {"A": np.zeros((6, 8), np.float32)}},
    "load": {"path": "none.vdla", "target": "llvm"},
    "load_program": {"path": "none.npz"},
    "maximum": {"a": ELEMENT, "b": 1.0},
    "minimum": {"a": ELEMENT, "b": 1.0},
    "placeholder": {"name": "A", "shape": (3, 4), "dtype": "float32"},
    "quantize": {"model": relu(), "calibration": "none.npz"},
    "reduce_axis": {"name": "k", "extent": 3},
    "select": {"condition": ELEMENT < 1.0, "then": ELEMENT, "otherwise": 1.0},
    "simulate": {"subject": "none.npz"},
    "tune": {"subject": "none.onnx", "records": "records.jsonl", "strategy": "random"},
    "verilog": {"config": "tiny"},
}
"""Arguments of the right kinds for each function of the API, by its name; the files do not exist."""


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_any_kind(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function = getattr(vdla, name)
    for parameter in inspect.signature(function).parameters:
        for wrong in WRONG:
            if parameter == "body" and wrong is len:
                # What a function of the caller raises is the caller's.
                continue
            try:
                function(**{**CALLS[name], parameter: wrong})
            except vdla.UserError as error:
                assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: vdla.compile(3), "int is not a network; give the path of an ONNX file, its bytes"),
        (lambda: vdla.simulate(3), "subject is 3, of type int; give an Executable, a Program, a str or a Path"),
        (lambda: vdla.compile("x", modle=3), "unexpected keyword argument 'modle'; its arguments are model,"),
        (lambda: vdla.compile("x", lengths={"s": (1, 2.5)}), "lengths['s'][1] is 2.5, of type float; give an int"),
        (lambda: vdla.compile("x", lengths={"s": (1,)}), "lengths['s'] is (1,), of type tuple; give a tuple of 2"),
        (lambda: vdla.tune("x", records="r", strategy="best"), "give 'model', 'evolution',"),
        (lambda: vdla.explore({}, ["x", 3]), "networks[1] is 3"),
        (lambda: vdla.quantize("x", {}, activations="u9"), "activations is 'u9', of type str; give 'u8' or 's8'"),
        (lambda: vdla.quantize(relu(), {"x": np.ones((2, 8), "f4")}, percentile=0), "contains, from 50 to 100"),
        (lambda: vdla.quantize(relu(), {"x": np.ones((2, 8), "f4")}, percentile=float("nan")), "from 50 to 100"),
        (lambda: vdla.cast(A, "int32"), "give an expression (of a tensor A an element, as A[i, j])"),
        (lambda: vdla.compute("C", (6,), lambda i: A), "A is a whole tensor; use one of its elements"),
        (lambda: vdla.cast(float("nan"), "int32"), "nan cannot be represented as int32"),
        (lambda: vdla.Schedule(3), "not int"),
        (lambda: vdla.Schedule(product()).reorder("C.i", None, "x"), "argument 2 of reorder is None"),
        (lambda: vdla.Schedule(product()).split("C.i", 2.0), "argument 2 of split is 2.0"),
        (lambda: vdla.Schedule(product()).cache_read(None, "C.i", "local"), "no buffer named None"),
        (lambda: vdla.Schedule(product()).tensorize("C", "name"), "takes an intrinsic's declaration"),
        (lambda: vdla.interpret(product(), {"A": np.zeros(3)}), "another type or shape, float64[3]"),
    ],
)  # fmt: skip
def test_the_line_says_what_to_give(call, message):
    with pytest.raises(vdla.UserError) as caught:
        call()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("target", "given", "message"),
    [
        ("llvm", {"batch": 0}, "a batch cannot be 0; give a size of 1 or more"),
        ("llvm", {"device": 0}, "device 0: is for GPUs"),
        ("vdla", {"batch": 0}, "batch 0: is for processors and GPUs"),
        ("vdla", {"batch": 2}, "batch 2: is for processors and GPUs"),
        ("vdla", {"device": "emulated"}, "device emulated: is for GPUs"),
        ("vdla", {"virtual_threads": 0}, "virtual threads = 0; give 1, or 2"),
        ("vdla", {"virtual_threads": 3}, "virtual threads = 3; give 1, or 2"),
        ("vdla,llvm", {"batch": 2}, "batch 2: is for processors and GPUs"),
        ("vdla,llvm", {"virtual_threads": 1000}, "virtual threads = 1000; give 1, or 2"),
    ],
)
def test_compile_refuses_numbers_out_of_range_and_options_of_other_targets(target, given, message) -> None:
    with pytest.raises(vdla.UserError) as caught:
        vdla.compile(quantized(), target, "tiny", **given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"trials": 0}, "trials = 0; give a number from 1 to 10,000,000"),
        ({"in_place": -1}, "in-place = -1; give a number from 0"),
        ({"seed": -1}, "seed = -1; give a number from 0"),
        ({"workers": -1}, "workers = -1; give a number from 0 to 1,024"),
        ({"timeout": 0.0}, "timeout = 0.0; give a number from 0.1 to 86,400"),
        ({"timeout": float("nan")}, "timeout = nan; give a number from 0.1 to 86,400"),
    ],
)
def test_tune_refuses_numbers_out_of_range(given, message, tmp_path) -> None:
    records = tmp_path / "records.jsonl"
    with pytest.raises(vdla.UserError) as caught:
        vdla.tune(["dense:4,4,4"], config="tiny", records=records, **{"strategy": "random", **given})
    assert message in str(caught.value)
    assert not records.exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": -1}, "seed = -1; give a number of 0 or more"),
        ({"timeout": 0.0}, "timeout = 0.0; give seconds from 1 to 86,400"),
        ({"timeout": float("nan")}, "timeout = nan; give seconds from 1 to 86,400"),
    ],
)
def test_explore_refuses_numbers_out_of_range(given, message) -> None:
    space = {"base": "tiny", "fields": {"inp_buffer_bytes": [4096, 8192]}}
    with pytest.raises(vdla.UserError) as caught:
        vdla.explore(space, models.build("mlp"), **{"budget": 2, "strategy": "random", **given})
    assert message in str(caught.value)


@pytest.mark.parametrize("strategy", ["nsga2", "tpe"])
def test_optunas_strategies_take_seeds_of_any_length(strategy: str) -> None:
    pytest.importorskip("optuna")
    space = {"base": "tiny", "fields": {"inp_buffer_bytes": [4096, 8192]}}
    assert vdla.explore(space, models.build("mlp"), budget=1, strategy=strategy, seed=2**70).front


def test_quantize_refuses_a_seed_below_0() -> None:
    samples = {"x": np.ones((8, 8), "f4")}
    with pytest.raises(vdla.UserError, match="seed = -1; give a number of 0 or more"):
        vdla.quantize(relu(), samples, config="tiny", budget=2, seed=-1)


def test_quantize_refuses_a_batch_below_1() -> None:
    with pytest.raises(vdla.UserError, match="a batch cannot be 0; give a size of 1 or more"):
        vdla.quantize(relu(), {"x": np.ones((2, 8), "f4")}, batch=0)


@pytest.mark.parametrize("name", [field.name for field in (*fields(vdla.Config), *fields(vdla.Memory))])
@pytest.mark.parametrize("memory", [{}, {"kind": "dram", "part": "MT41K128M16", "bus_bytes": 16}])
def test_a_field_of_any_kind(name: str, memory: dict[str, Any]) -> None:
    machine = vdla.config("tiny", **memory)
    for value in (*WRONG, 10**40, float("inf"), {1}, iter("ab"), ["post", ["x"]], np.zeros(())):
        try:
            hash(vdla.config(machine, **{name: value}))
        except vdla.UserError as error:
            assert str(error) and "\n" not in str(error)


def test_fields_may_be_numpys_numbers_and_lists() -> None:
    given = vdla.config("tiny", block_in=np.int64(8), read_latency=np.uint8(60), extensions=["post", "patch"])
    assert given == vdla.config("tiny", block_in=8, read_latency=60, extensions=("post", "patch"))
    assert hash(given) and given.digest == vdla.config(given, extensions=np.array(["post", "patch"])).digest


def test_samples_may_be_dicts_by_name() -> None:
    """`vdla.quantize` takes a list of dicts by input name, one for each sample, as ONNX Runtime's quantizer takes from
    a reader; a dict with another name is refused.
    """
    model = models.build("mlp", "float")
    (name,) = [info.name for info in model.graph.input]
    samples = [models.sample_inputs("mlp", 1, seed) for seed in range(3)]
    found = vdla.quantize(model, [{name: sample} for sample in samples])
    assert found.content == vdla.quantize(model, {name: np.concatenate(samples)}).content
    with pytest.raises(vdla.UserError, match="calibration: "):
        vdla.quantize(model, [{"nothing": samples[0]}])


def test_numbers_are_cast():
    values = {
        ("int32", 0): 0,
        ("uint8", 300): 44,
        ("int8", -1.7): -1,
        ("float32", 0.1): float(np.float32(0.1)),
    }
    for (dtype, number), value in values.items():
        assert vdla.cast(number, dtype).value == value
    assert vdla.cast(2, "bool").value is True


@pytest.mark.parametrize("target", ["llvm", "vdla", "vdla,llvm"])
@pytest.mark.parametrize(
    "inputs", [[1, 2], [("x", 1)], 3, None, {"x": [1.0]}, {"x": None}, {}, {"y": np.zeros(1)}]
)
def test_inputs_are_arrays_by_name(target, inputs):
    with vdla.compile(quantized(), target, config="tiny") as network, pytest.raises(vdla.UserError) as caught:
        network.run(inputs)
    assert "input" in str(caught.value)


@pytest.mark.parametrize("target", ["llvm", "vdla", "vdla,llvm"])
def test_passes_are_dumped_into_folders_that_can_be_made(target, tmp_path):
    vdla.compile(quantized(), target, config="tiny", dump_passes=tmp_path / "new" / "inner").close()
    assert any((tmp_path / "new" / "inner").rglob("*.txt"))
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "inner"):
        with pytest.raises(vdla.UserError, match="cannot be written"):
            vdla.compile(quantized(), target, config="tiny", dump_passes=folder)


def quantized() -> bytes:
    scale = [
        helper.make_tensor("scale", TensorProto.FLOAT, (), [0.5]),
        helper.make_tensor("zero", TensorProto.INT8, (), [0]),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
        helper.make_node("Relu", ["y"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "scale", "zero"], ["z"]),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 8, 2, 2)),
        helper.make_tensor_value_info("z", TensorProto.INT8, (1, 8, 2, 2)),
    ]
    graph = helper.make_graph(nodes, "relu", ends[:1], ends[1:], scale)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


@pytest.mark.parametrize(
    "error",
    [
        *(
            vdla.LegalityError,
            vdla.DeadlockError,
            SimulationError,
            VerifyError,
            InterpretError,
            EvaluateError,
        ),
        *(CpuLoweringError, CudaLoweringError),
    ],
)
def test_one_family_of_errors(error):
    assert issubclass(error, vdla.UserError)
