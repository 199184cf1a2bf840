"""`vdla run --target vdla,llvm`: one network divided between both targets, the time of each part, and one line for
every mistake.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from float_networks import FloatNetwork
from mixed_networks import MixedNetwork, unoptimized
from quantizer import quantized
from rich.console import Console

from vdla.codesign import cpu_alone, evaluate, heterogeneous_run
from vdla.codesign.cli import run_divided
from vdla.codesign.cli.targets import parse_targets
from vdla.codesign.network_run import DIVIDE
from vdla.compiler.divided import compile_divided
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.runtime.kernel_times import LaunchTime
from vdla.isa.config import load_config
from vdla.util.errors import UserError

SHAPE = (1, 4, 6, 6)
BOTH = ("--target", "vdla,llvm", "--config", "tiny")


def mixed() -> MixedNetwork:
    net = MixedNetwork(*SHAPE)
    net.pair()
    net.quantized_convolution(8)
    net.add("Sigmoid")
    net.pair(0.004, 0)
    net.quantized_convolution(4)
    net.other("Flatten")
    net.add("Softmax")
    return net


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mixed.onnx"
    path.write_bytes(mixed().model())
    return path


@pytest.fixture(scope="module")
def supported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    net = MixedNetwork(*SHAPE)
    net.pair()
    net.quantized_convolution(4)
    path = tmp_path_factory.mktemp("models") / "supported.onnx"
    path.write_bytes(net.model())
    return path


def test_the_report_adds_up(vdla, model: Path) -> None:
    document = vdla("run", model, *BOTH, "--repeat", "3", "--json").document()
    regions, total, amdahl = (document[name] for name in ("regions", "total", "amdahl"))
    assert [region["target"] for region in regions] == ["vdla", "llvm", "vdla", "llvm"]
    assert (document["partition"], document["costs"], document["config"]) == ("support", [], "tiny")
    assert document["clock_is"] == "modelled"
    clock = document["clock_hertz"]
    for region in regions:
        if region["target"] == "vdla":
            assert region["seconds"] == region["cycles"] / clock and region["boundary_seconds"] > 0
        else:
            assert region["cycles"] is None and region["seconds"] > 0 and region["boundary_seconds"] == 0
        assert region["operators"] and region["inputs"] and region["outputs"]
    assert sum(region["share"] for region in regions) == pytest.approx(1)
    assert total["seconds"] == pytest.approx(sum(r["seconds"] + r["boundary_seconds"] for r in regions))
    rest = total["seconds"] - total["accelerator_seconds"]
    assert amdahl["limit"] == pytest.approx(total["seconds"] / rest)
    alone = document["all_cpu"]
    assert amdahl["speedup_over_cpu"] == pytest.approx(alone["seconds"] / total["seconds"])
    assert alone["seconds"] == pytest.approx(sum(region["cpu_seconds"] for region in regions))
    offloaded = sum(r["cpu_seconds"] for r in regions if r["target"] == "vdla") / alone["seconds"]
    assert amdahl["offloaded_share_of_cpu"] == pytest.approx(offloaded)
    assert amdahl["limit_over_cpu"] == pytest.approx(1 / (1 - offloaded))
    check = document["check"]
    assert check["accelerator_max_lsb"] <= 1 and check["cpu_max_relative"] <= 1e-5 and check["top1_equal"]
    assert (check["against"], check["mode"], check["images"]) == ("onnxruntime", "region by region", 1)


def test_outputs_of_every_image(vdla, model: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(0, 1.5, (3, *SHAPE[1:])).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    where = ("--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    document = vdla("run", model, *BOTH, *where, "--json").document()
    assert document["check"]["images"] == 3
    expected = [unoptimized(model.read_bytes(), {"x": image[None]}) for image in x]
    with np.load(tmp_path / "out.npz") as outputs:
        for name in outputs.files:
            both = np.concatenate([result[name] for result in expected])
            np.testing.assert_allclose(outputs[name], both, rtol=0, atol=1e-5 * both.max())


def test_the_table_names_regions_limit_and_check(
    vdla, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_divided, "text_console", lambda: Console(width=100))
    outcome = vdla("run", model, *BOTH, "--threads", "2", "--dump-passes", tmp_path / "passes")
    assert outcome.code == 0 and outcome.err == ""
    for words in (
        "region 3",
        "Sigmoid",
        "Softmax",
        "Amdahl:",
        "the CPU alone takes",
        "2 threads",
        "top-1 equal",
    ):
        assert words in outcome.out
    assert "…" not in outcome.out
    assert len(list((tmp_path / "passes").iterdir())) == 4


def test_refused_operators_are_listed_with_reasons(vdla, tmp_path: Path) -> None:
    """The command lists each operator that the accelerator refuses, with the reason. It does not list operators that
    run on the processor only because they read a float result of a refused operator.
    """
    net = MixedNetwork(*SHAPE)
    net.pair()
    net.quantized_convolution(8)
    net.add("LRN", size=3)
    net.add("Relu")
    net.pair()
    net.quantized_convolution(4)
    net.add("Hardmax", axis=1)
    path = tmp_path / "divided.onnx"
    path.write_bytes(net.model())
    document = vdla("run", path, *BOTH, "--json").document()
    assert document["refusals"] == dict.fromkeys(
        ("LRN", "Hardmax"), "only processors and GPUs compute this operator"
    )
    lines = vdla("run", path, *BOTH).out.splitlines()
    assert "not on the accelerator: LRN: only processors and GPUs compute this operator" in lines


def test_cost_says_what_was_compared(vdla, model: Path) -> None:
    document = vdla("run", model, *BOTH, "--partition", "cost", "--json").document()
    assert document["partition"] == "cost" and document["costs"]
    for cost in document["costs"]:
        offloaded = cost["accelerator_seconds"] + cost["boundary_seconds"]
        assert cost["target"] == ("vdla" if offloaded < cost["cpu_seconds"] else "llvm")
    table = vdla("run", model, *BOTH, "--partition", "cost")
    assert table.code == 0 and "conversions against" in table.out


def test_one_target_that_runs_all(vdla, supported: Path, tmp_path: Path) -> None:
    net = MixedNetwork(*SHAPE)
    net.add("Sigmoid")
    path = tmp_path / "float.onnx"
    path.write_bytes(net.model())
    cpu = vdla("run", path, *BOTH, "--check", "interpreter", "--json").document()
    assert [region["target"] for region in cpu["regions"]] == ["llvm"]
    assert cpu["amdahl"]["limit"] == 1 and cpu["all_cpu"]["seconds"] == cpu["total"]["seconds"]
    assert "nothing runs on the accelerator" in vdla("run", path, *BOTH).out
    document = vdla("run", supported, *BOTH, "--json").document()
    assert [region["target"] for region in document["regions"]] == ["vdla"]
    alone = vdla("run", supported, "--config", "tiny", "--json").document()
    assert document["regions"][0]["cycles"] == alone["total"]["cycles"]
    assert document["check"]["accelerator_max_lsb"] == alone["check"]["max_lsb"]
    assert document["check"]["cpu_max_relative"] is None


def test_wrong_results_would_be_noticed(vdla, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true_runs = heterogeneous_run.session_runs

    def wrong(model, names, launches, *, optimized):
        found = true_runs(model, names, launches, optimized=optimized)
        return [[values[..., ::-1] * np.float32(0.5) for values in run] for run in found]

    # Of whole regions, and of each of their layers.
    monkeypatch.setattr(heterogeneous_run, "session_runs", wrong)
    monkeypatch.setattr(evaluate, "session_runs", wrong)
    check = vdla("run", model, *BOTH, "--json").failed()["check"]
    assert len(check["failed"]) > 1
    assert check["accelerator_max_lsb"] > 1 and check["cpu_max_relative"] > 1e-3 and not check["top1_equal"]


def test_the_cpu_alone_is_the_network_that_the_cache_keeps(
    vdla, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[bool] = []
    compile_on = cpu_alone.compile_on

    def compiled(*arguments, **options):
        here = compile_on(*arguments, **options)
        made.append(here.cached)
        return here

    monkeypatch.setattr(cpu_alone, "compile_on", compiled)
    # What another process compiled meanwhile; with --no-cache none does, and nothing is kept.
    assert vdla("run", model, *BOTH).code == 0 and made == [True]
    (archive,) = (tmp_path / "vdla" / "networks").glob("*.tar")
    archive.unlink()
    assert vdla("run", model, *BOTH, "--no-cache").code == 0 and made == [True, False]
    assert not archive.exists()


def test_a_network_that_the_cpu_cannot_have_alone(vdla, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_, **__):
        raise ModelError("model: node 'n' (Op): is not for processors")

    monkeypatch.setattr(cpu_alone, "compile_on", refused)
    document = vdla("run", model, *BOTH, "--json").document()
    assert document["all_cpu"] == {"seconds": None, "remark": "model: node 'n' (Op): is not for processors"}
    assert all(region["cpu_seconds"] is None for region in document["regions"])
    assert "the CPU alone cannot run this network: model: node 'n' (Op)" in vdla("run", model, *BOTH).out


def test_a_kernel_counts_where_its_product_is(vdla, model: Path) -> None:
    def kernel(milliseconds: float, *members: str) -> LaunchTime:
        return LaunchTime(name="", operator="", members=members, milliseconds=milliseconds, gflops=0.0)

    regions = compile_divided(model, load_config("tiny")).network.regions
    (first, *_), (sigmoid, *_) = (region.nodes for region in regions[:2])
    products = [
        next(node for node, kind in zip(region.nodes, region.node_types, strict=True) if kind == "Conv")
        for region in (regions[0], regions[2])
    ]
    profile = [
        kernel(1.0),
        kernel(2.0, "added", first, sigmoid),
        kernel(4.0, sigmoid),
        kernel(8.0, sigmoid, products[1], "added"),
        kernel(16.0, "added"),
        kernel(32.0, first, products[0], products[1]),
    ]
    times = cpu_alone.divide_time(profile, regions, 6.3)
    assert [times[region.name] for region in regions] == pytest.approx([3.5, 0.4, 2.4, 0.0])


def test_a_refused_model_names_the_way_out(vdla, model: Path) -> None:
    first, sigmoid, softmax, division = vdla("run", model, "--config", "tiny").messages()
    assert f"{model}: 2 nodes are not supported:" in first
    assert "(Sigmoid): needs the extension 'table'" in sigmoid
    assert "(Softmax): needs the extension 'rows'" in softmax
    assert division == f"or {DIVIDE}\n"


def test_operators_on_integers_are_compared_in_steps(vdla, tmp_path: Path) -> None:
    """The outputs of a model in QOperator form, whose regions for accelerator and processor exchange tensors that the
    model itself does not have, are compared with ONNX Runtime's.
    """
    net = FloatNetwork(*SHAPE)
    net.convolution(8, (3, 3), pads=[1] * 4)
    net.add("Sigmoid")
    net.convolution(8, (1, 1))
    net.add("Sin")
    path = tmp_path / "steps.onnx"
    path.write_bytes(quantized(net, tmp_path))
    document = vdla("run", path, *BOTH, "--json").document()
    assert document["check"]["passed"] and len(document["regions"]) > 1


def test_layers_are_compared_as_this_machine_has_them(vdla, tmp_path: Path) -> None:
    """On a machine without the extension `rows`, a normalization that is written as single operators is divided: the
    accelerator computes the mean of squares, and the CPU the rest. The command compares the outputs with a reference
    that is divided in the same way.
    """
    net = MixedNetwork(1, 6, 8, dtype=np.int8)
    net.pair()
    rows = net.last
    net.add("Mul", inputs=[rows, rows])
    net.pair()
    net.add("ReduceMean", axes=[-1], keepdims=1)
    net.pair()
    net.add("Sqrt")
    net.pair()
    net.add("Div", inputs=[rows, net.last])
    path = tmp_path / "rows.onnx"
    path.write_bytes(net.model())
    assert vdla("run", path, *BOTH, "--json").document()["check"]["passed"]


def test_parsing_targets() -> None:
    both = parse_targets("vdla, llvm -mcpu=x86-64-v3 -mattr=+avx2,+fma")
    assert both.vdla and both.llvm == "llvm -mcpu=x86-64-v3 -mattr=+avx2,+fma"
    assert parse_targets("llvm,vdla") == parse_targets("vdla,llvm")
    assert parse_targets("vdla").llvm == "" and not parse_targets("llvm").vdla
    for text in ("", "gpu", "cuda,llvm", "vdla,vdla", "llvm,llvm", "vdla -mcpu=x", "vdla,cuda"):
        with pytest.raises(UserError, match="choose vdla"):
            parse_targets(text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([*BOTH, "--engine", "rtl"], "--engine is not for networks on several targets"),
        ([*BOTH, "--timing-only"], "--timing-only is not for networks on several targets"),
        ([*BOTH, "--profile"], "--profile is not for networks on several targets"),
        ([*BOTH, "--config", "none"], "none"),
        (["--target", "rocm"], "choose vdla"),
        (["--target", "llvm", "--device", "vdla"], "take --target vdla,llvm to use both"),
        ([*BOTH, "--device", "cpu"], "names the accelerator; leave out one of them"),
        (["--target", "vdla,llvm -mtriple=riscv64-linux-gnu"], "cannot run code for"),
        (["--target", "vdla,llvm -mcpu=nothing"], "has no processor nothing"),
        (["--partition", "cost"], "add --target vdla,llvm"),
    ],
)
def test_options_that_do_not_fit(vdla, model: Path, options: list[str], words: str) -> None:
    assert words in vdla("run", model, *options).message()


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, "input 'x' is missing"),
        ({"x": np.zeros(SHAPE)}, "convert it to float32"),
        ({"x": np.zeros((1, 4, 6, 7), np.float32)}, "the model expects [1, 4, 6, 6]"),
        ({"x": np.full(SHAPE, np.nan, np.float32)}, "contains NaN"),
    ],
)
def test_unfit_inputs(vdla, model: Path, tmp_path: Path, arrays, words: str) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    files = ("--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    message = vdla("run", model, *BOTH, *files).message()
    assert "in.npz: " in message and words in message
    assert not (tmp_path / "out.npz").exists()


def test_operators_of_no_target(vdla, tmp_path: Path) -> None:
    net = MixedNetwork(*SHAPE)
    net.pair()
    net.add("Det")
    net.shape = (1, 4)
    path = tmp_path / "det.onnx"
    path.write_bytes(net.model())
    message = vdla("run", path, *BOTH).message()
    assert "det.onnx: node 'n2' (Det): neither target runs it" in message
    onnx.save(onnx.load(path), path)
    path.write_text("no model")
    assert "det.onnx" in vdla("run", path, *BOTH).message()
    assert "none.onnx" in vdla("run", tmp_path / "none.onnx", *BOTH).message()
