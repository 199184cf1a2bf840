"""`vdla run` and `vdla compile` for GPUs, on a computer without a GPU: emulated, on a fake device, and refusals."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from archives import members
from fake_gpu import FakeDevice
from float_networks import rounded_network
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.cpu_stages import cpu_ahead
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.runtime import cuda_core
from vdla.compiler.runtime.network_archive import save_network

WEIGHT = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
EMULATED = ("--device", "cuda:emulated")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Path of an ONNX model of a dense layer with a ReLU."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"], "fc"), helper.make_node("Relu", ["h"], ["y"], "relu")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5])],
        [numpy_helper.from_array(WEIGHT, "w")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "net.onnx",
    )
    return tmp_path / "net.onnx"


def x_of(batch: int = 1) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((batch, 8), dtype=np.float32)


def expected(x: np.ndarray) -> np.ndarray:
    return np.maximum(x.astype(np.float64) @ WEIGHT, 0)


def test_models_run_emulated_and_are_kept(vdla, model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=x_of(3))
    where = ("--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz", "--batch", "3", *EMULATED)
    for cached in (False, True):
        document = vdla("run", model, *where, "--profile", "--json").document()
        assert document["device"] == "cuda:emulated" and document["emulated"] and document["card"] is None
        assert document["target"] == {"arch": "sm_90", "tf32": False}
        assert document["compile"]["cached"] is cached
        assert document["check"]["against"] == "onnxruntime" and document["check"]["top1_equal"] is not None
        assert document["check"]["max_relative_error"] < 1e-5
        assert [row["operator"] for row in document["profile"]] == ["Dense"]
        with np.load(tmp_path / "out.npz") as archive:
            np.testing.assert_allclose(archive["y"], expected(x_of(3)), rtol=1e-5, atol=1e-6)
    outcome = vdla("run", model, "--target", "cuda -arch=sm_80", *EMULATED, "--profile", "--no-cache")
    assert outcome.code == 0, outcome.err
    assert "net, emulated" in outcome.out and "net for sm_80, emulated on this processor" in outcome.out
    assert "against onnxruntime: largest difference" in outcome.out


def test_quantized_models_equal_onnxruntime(vdla, tmp_path: Path) -> None:
    path = tmp_path / "rounded.onnx"
    path.write_bytes(rounded_network())
    outcome = vdla("run", path, *EMULATED, "--dump-passes", tmp_path / "dumps")
    assert outcome.code == 0 and not outcome.err
    assert "largest difference 0.0e+00 of the largest value" in outcome.out
    assert any("emulated" in file.name for file in (tmp_path / "dumps").glob("*/*.txt"))


def test_archives_are_for_gpus_only(vdla, model: Path, tmp_path: Path) -> None:
    output = tmp_path / "net.tar"
    document = vdla("compile", model, "--target", "cuda -arch=sm_80", "-o", output, "--json").document()
    assert document["target"] == {"arch": "sm_80", "tf32": False} and not document["cached"]
    assert document["bytes"] == output.stat().st_size and document["kernels"] == document["launches"] == 1
    assert b"__global__" in members(output)["kernels.cu"]
    again = vdla("compile", model, "--target", "cuda -arch=sm_80", "-o", tmp_path / "again.tar", "--json")
    assert again.document()["cached"]
    assert (tmp_path / "again.tar").read_bytes() == output.read_bytes()
    assert (
        "was compiled for a GPU; run it with --device cuda:0"
        in vdla("run", output, "--device", "cpu").message()
    )
    assert "for cuda:emulated give the model" in vdla("run", output, *EMULATED).message()
    assert "--batch is for models" in vdla("run", output, "--batch", "1").message()
    save_network(tmp_path / "cpu.tar", compile_kernels(model, cpu_ahead(host_target())))
    message = vdla("run", tmp_path / "cpu.tar", "--device", "cuda:0").message()
    assert "was not compiled for a GPU; leave out --device cuda:0" in message


class AnyDevice(FakeDevice):
    """A fake GPU whose kernels do nothing."""

    def execute(self, work) -> None:
        assert work

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.close()


def test_runs_on_a_device_report_its_clock_and_limits(vdla, model: Path, tmp_path: Path, monkeypatch) -> None:
    opened: list[AnyDevice] = []

    def open_device(ordinal: int = 0, **options) -> AnyDevice:
        opened.append(AnyDevice({}, **options))
        return opened[-1]

    monkeypatch.setattr(cuda_core, "open_device", open_device)
    for arguments in ((model,), (model,), (tmp_path / "net.tar",)):
        if arguments[0] != model:
            assert vdla("compile", model, "--target", "cuda", "-o", arguments[0]).code == 0
        of_model = ("--target", "cuda", "--check", "auto") if arguments[0] == model else ()
        outcome = vdla("run", *arguments, *of_model, "--repeat", "3", "--profile", "--json")
        # Kernels that do nothing compute nothing right, which is seen where there is a model to compare with.
        document = outcome.failed() if of_model else outcome.document()
        assert document["device"] == "cuda:0" and not document["emulated"]
        assert document["card"] == {"name": "Fake", "driver": "13.0"}
        assert document["target"]["arch"] == ("sm_90a" if of_model else "sm_90")
        (row,) = document["profile"]
        taken = 0.25 * row["kernels"]
        assert document["milliseconds"] == {"median": taken, "least": taken, "most": taken}
        assert row["milliseconds"] == taken and row["gflops"] == pytest.approx(80 / taken / 1e6)
        # Packed weights may be larger than the model's.
        assert row["gigabytes_per_second"] >= (8 + 40 + 5) * 4 / taken / 1e6
        assert (document["check"] is None) is not bool(of_model)
    text = vdla("run", model, "--device", "cuda", "--profile").out
    assert f"net on cuda:0, Fake: {taken:.3f} ms" in text and "GB/s" in text and "of peak" in text
    monkeypatch.setattr(cuda_core, "open_device", lambda n: open_device(n, memory_bytes=64))
    assert "out of device memory" in vdla("run", model, "--device", "cuda:0").message()
    monkeypatch.setattr(cuda_core, "open_device", lambda n: open_device(n, capability=(8, 0)))
    message = vdla("run", tmp_path / "net.tar").message()
    assert "of compute capability 8.0, which cannot run code for sm_90; compile with -arch=sm_80" in message
    assert (
        "cannot run code for sm_90"
        in vdla("run", model, "--target", "cuda -arch=sm_90", "--device", "cuda:0").message()
    )
    assert len(opened) == 7 and not any(device.open for device in opened)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--device", "cuda:0"), "cuda:0: no NVIDIA driver was found; install NVIDIA's driver"),
        (("run", "--target", "cuda"), "cuda:0: no NVIDIA driver was found"),
        (("run", "--device", "cuda:first"), "write cuda:0 for the first GPU"),
        (("run", *EMULATED, "--threads", "2"), "--threads is for processors; leave it out on a GPU"),
        (("run", *EMULATED, "--config", "vta"), "--config is for the accelerator; leave it out on a GPU"),
        (("run", *EMULATED, "--check", "interpreter"), "on GPUs take --check onnxruntime"),
        (("run", *EMULATED, "--target", "llvm"), "--target llvm is not for a GPU"),
        (("run", *EMULATED, "--target", "cuda -arch=sm_9"), "unknown GPU architecture 'sm_9'; there are sm_80"),
        (("run", *EMULATED, "--target", "cuda --fast"), "unknown target option --fast"),
        (("run", "--device", "cpu", "--target", "cuda"), "take --device cuda:emulated to emulate it"),
        (("run", "--device", "vdla", "--target", "cuda"), "--target cuda is for a GPU"),
        (("run", "--target", "vdla,cuda"), "choose vdla (the accelerator)"),
        (("compile", "--target", "cuda", "-o", "net.so"), "code for GPUs is written to a FILE.tar"),
        (("compile", "--target", "cuda", "--config", "vta"), "--config is for the accelerator"),
        (("tune", "--target", "cuda", "-o", "net.jsonl"), "cuda:0: no NVIDIA driver was found"),
    ],
)  # fmt: skip
def test_mistakes_cost_one_line(
    vdla, model: Path, tmp_path: Path, monkeypatch, arguments, words: str
) -> None:
    def no_driver() -> None:
        raise RuntimeError('"cuda" is an NVIDIA driver library and can only be found via system search.')

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cuda_core, "libraries", lambda: (Without(no_driver), None))
    command, *options = arguments
    assert words in vdla(command, model, *options).message()
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


class Without:
    """Stand-in for the package cuda-core on a computer without a driver: listing devices calls `fail`."""

    def __init__(self, fail) -> None:
        self.Device = self
        self.get_all_devices = fail


def test_without_the_extra_it_is_named(vdla, model: Path, monkeypatch) -> None:
    for name in ("cuda.core", "cuda.bindings.driver"):
        monkeypatch.setitem(sys.modules, name, None)
    assert 'pip install "vdla[cuda]"' in vdla("run", model, "--device", "cuda:0").message()
    assert vdla("run", model, *EMULATED).code == 0


def test_no_device_and_no_such_device(vdla, model: Path, monkeypatch) -> None:
    class Card:
        name = "Card"

    for devices, words in (
        ((), "this machine has no NVIDIA GPU"),
        ((Card(),), "this machine has cuda:0 (Card)"),
    ):
        core = Without(lambda found=devices: found)
        monkeypatch.setattr(cuda_core, "libraries", lambda core=core: (core, None))
        assert words in vdla("run", model, "--device", "cuda:3").message()
