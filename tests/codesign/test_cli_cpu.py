"""`vdla compile` for processors, and `vdla run` of the compiled files: the same outputs as from Python, and one line
for every mistake.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from vdla.codesign.models import build, sample_inputs
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.one_object import c_compiler
from vdla.compiler.cpu_stages import cpu_ahead, cpu_now
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.runtime.network_archive import save_network

INPUT = (1, 3, 32, 32)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty user cache, so that nothing compiled earlier is reused."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "cnn.onnx"
    path.write_bytes(build("small_cnn", "float").SerializeToString(deterministic=True))
    return path


@pytest.fixture(scope="module")
def archive(model: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of the archive that `vdla compile` must write for the model."""
    path = tmp_path_factory.mktemp("archive") / "cnn.tar"
    save_network(path, compile_kernels(model, cpu_ahead(host_target())))
    return path.read_bytes()


@pytest.fixture
def compiled(archive: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "cnn.tar"
    path.write_bytes(archive)
    return path


@pytest.mark.parametrize("threads", ["1", "2"])
def test_outputs_are_those_of_python_and_of_onnxruntime(
    vdla, model: Path, compiled: Path, tmp_path: Path, threads: str
) -> None:
    x = sample_inputs("small_cnn", 1, seed=3)
    np.savez(tmp_path / "in.npz", input=x)
    where = ("--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    document = vdla("run", compiled, *where, "--device", "cpu", "--threads", threads, "--json").document()
    assert document["device"] == "cpu" and document["threads"] == int(threads)
    assert document["outputs"] == [{"name": "output", "dtype": "float32", "shape": [1, 20]}]
    with np.load(tmp_path / "out.npz") as archive:
        (got,) = [archive[name] for name in archive.files]
    with compile_kernels(model, cpu_now()) as network:
        np.testing.assert_array_equal(got, network.run({"input": x})["output"])
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    expected = np.asarray(session.run(["output"], {"input": x})[0])
    assert np.abs(got - expected).max() <= 1e-5 * np.abs(expected).max()


def test_equal_models_give_equal_files(vdla, model: Path, compiled: Path, tmp_path: Path) -> None:
    document = vdla("compile", model, "--target", "llvm", "-o", tmp_path / "again.tar", "--json").document()
    assert (tmp_path / "again.tar").read_bytes() == compiled.read_bytes()
    assert document["bytes"] == compiled.stat().st_size
    assert document["target"]["cpu"] == host_target().cpu
    assert document["launches"] >= document["kernels"] > 0


def test_the_file_is_named_like_the_model_unless_told(
    vdla, model: Path, compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert vdla("compile", model).code == 0
    assert (tmp_path / "here" / "cnn.tar").read_bytes() == compiled.read_bytes()


def test_profile_and_times(vdla, compiled: Path) -> None:
    document = vdla("run", compiled, "--repeat", "3", "--profile", "--json").document()
    times = document["milliseconds"]
    assert 0 < times["least"] <= times["median"] <= times["most"] and document["repeat"] == 3
    assert {"conv1", "fc"} <= {row["name"] for row in document["profile"]}
    assert all(row["milliseconds"] > 0 for row in document["profile"])
    assert vdla("run", compiled, "--json").document()["profile"] is None
    table = vdla("run", compiled, "--profile", "--threads", "2")
    assert table.code == 0 and "conv1" in table.out and "2 threads" in table.out


def test_inputs_without_a_file_are_the_same_every_time(vdla, compiled: Path, tmp_path: Path) -> None:
    contents = []
    for name in ("a.npz", "b.npz"):
        assert vdla("run", compiled, "--outputs", tmp_path / name).code == 0
        with np.load(tmp_path / name) as archive:
            contents.append(archive["output"])
    np.testing.assert_array_equal(*contents)
    assert np.abs(contents[0]).max() > 0


def test_a_dynamic_batch_is_set(vdla, model: Path, tmp_path: Path) -> None:
    dynamic = onnx.load(model)
    for value in (*dynamic.graph.input, *dynamic.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(dynamic, tmp_path / "dynamic.onnx")
    path = tmp_path / "two.tar"
    assert vdla("compile", tmp_path / "dynamic.onnx", "--batch", "2", "-o", path).code == 0
    document = vdla("run", path, "--json").document()
    assert document["inputs"][0]["shape"] == [2, *INPUT[1:]] and document["outputs"][0]["shape"] == [2, 20]


def test_every_stage_is_dumped(vdla, model: Path, tmp_path: Path) -> None:
    arguments = ("-o", tmp_path / "cnn.tar", "--dump-passes", tmp_path / "passes")
    assert vdla("compile", model, *arguments).code == 0
    assert list((tmp_path / "passes").glob("*conv1/*schedule.txt"))
    (plan,) = (tmp_path / "passes").glob("*memory-plan.txt")
    text = plan.read_text(encoding="utf-8")
    document = vdla("compile", model, "-o", tmp_path / "cnn.tar", "--json").document()
    with_reuse, without = document["arena_bytes"], document["arena_bytes_without_reuse"]
    assert 0 < with_reuse < without
    assert text.startswith(f"arena of {with_reuse} bytes, {without} without reuse\n")
    assert "input: float32[1, 3, 32, 32]" in text


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros(INPUT, np.float32)}, "has no input 'x'; it has input"),
        ({}, "no array was given for input 'input'"),
        ({"input": np.zeros(INPUT)}, "must be float32, not float64; convert it with .astype"),
        (
            {"input": np.zeros((2, 3, 32, 32), np.float32)},
            "must have shape (1, 3, 32, 32), not (2, 3, 32, 32)",
        ),
    ],
)
def test_unfit_inputs_are_refused(vdla, compiled: Path, tmp_path: Path, arrays, words: str) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    message = vdla(
        "run", compiled, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz"
    ).message()
    assert "in.npz: " in message and words in message
    assert not (tmp_path / "out.npz").exists()


def test_damaged_files_are_refused(vdla, compiled: Path) -> None:
    data = compiled.read_bytes()
    changed = bytearray(data)
    # The middle of the file is in the code or the constants.
    changed[len(data) // 2] ^= 1
    for content, words in [
        (bytes(changed), "was changed after it was written"),
        (data[: len(data) // 2], "cnn.tar: "),
        (b"", "cnn.tar: "),
        (b"a text, no network\n" * 500, "is not a compiled network"),
    ]:
        compiled.write_bytes(content)
        assert words in vdla("run", compiled).message()
    compiled.unlink()
    assert "cannot be read: No such file" in vdla("run", compiled).message()


def test_code_of_another_processor_is_written_and_refused_here(vdla, model: Path, tmp_path: Path) -> None:
    elsewhere = "riscv64" if host_target().triple.startswith("aarch64") else "aarch64"
    path = tmp_path / "far.tar"
    arguments = ("--target", f"llvm -mtriple={elsewhere}-linux-gnu", "-o", path, "--json")
    assert vdla("compile", model, *arguments).document()["target"]["triple"] == f"{elsewhere}-linux-gnu"
    message = vdla("run", path).message()
    assert "was compiled for" in message and "compile the model here" in message


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("vulkan", "choose vdla (the accelerator), llvm (this processor)"),
        ("cuda -arch=sm_1", "unknown GPU architecture 'sm_1'; there are sm_80"),
        ("llvm -mcpu=no-such-processor", "has no processor no-such-processor"),
        ("llvm -march=native", "unknown target option -march"),
        ("vdla,llvm", "writes a file for one target"),
    ],
)
def test_targets_that_do_not_exist(vdla, model: Path, tmp_path: Path, target: str, words: str) -> None:
    assert words in vdla("compile", model, "--target", target, "-o", tmp_path / "cnn.tar").message()
    assert not list(tmp_path.iterdir())


def test_models_that_cannot_be_compiled(vdla, tmp_path: Path) -> None:
    output = tmp_path / "out.tar"
    assert "none.onnx" in vdla("compile", tmp_path / "none.onnx", "-o", output).message()
    (tmp_path / "text.onnx").write_text("no model")
    assert "text.onnx" in vdla("compile", tmp_path / "text.onnx", "-o", output).message()
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y")]
    node = helper.make_node("Det", ["x"], ["y"], "volume")
    values[0].type.tensor_type.shape.CopyFrom(
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 2, 2]).type.tensor_type.shape
    )
    graph = helper.make_graph([node], "net", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "det.onnx")
    message = vdla("compile", tmp_path / "det.onnx", "-o", output).message()
    assert "Det" in message and "volume" in message
    assert (
        "there is no directory"
        in vdla("compile", tmp_path / "det.onnx", "-o", tmp_path / "a" / "b").message()
    )
    assert not output.exists()


def test_options_of_the_other_device_are_refused(vdla, model: Path, compiled: Path) -> None:
    for arguments in (["--vthreads", "1"], ["--config", "vta"], ["--timing-only"]):
        assert f"{arguments[0]} is for the accelerator" in vdla("run", compiled, *arguments).message()
    for arguments in (["--target", "llvm"], ["--batch", "2"], ["--no-cache"], ["--check", "onnxruntime"]):
        assert f"{arguments[0]} is for models" in vdla("run", compiled, *arguments).message()
    assert "--target is for models" in vdla("run", compiled, "--target", "vdla,llvm").message()
    assert "leave out --device vdla" in vdla("run", compiled, "--device", "vdla").message()
    for arguments in (["--repeat", "2"], ["--threads", "1"], ["--profile"]):
        assert f"{arguments[0]} is for processors" in vdla("run", model, *arguments).message()


def test_objects_and_shared_libraries_for_c_programs(vdla, model: Path, tmp_path: Path) -> None:
    foreign = ("--target", "llvm -mtriple=riscv64-linux-gnu")
    files = vdla("compile", model, *foreign, "-o", tmp_path / "cnn.o", "--json").document()["files"]
    assert files == [str(tmp_path / name) for name in ("cnn.o", "cnn.h", "cnn_main.c")]
    assert "void cnn(" in (tmp_path / "cnn.h").read_text()
    message = vdla("compile", model, *foreign, "-o", tmp_path / "libcnn.so").message()
    assert "cannot link a shared library for riscv64" in message and not (tmp_path / "libcnn.so").exists()
    assert vdla("compile", model, "-o", tmp_path / "libcnn.so").code == 0
    build = [c_compiler(), "-Wall", "-Werror", "cnn_main.c", "libcnn.so", "-Wl,-rpath,.", "-o", "main"]
    subprocess.run(build, cwd=tmp_path, check=True)
    x = sample_inputs("small_cnn", 1, seed=3)
    x.tofile(tmp_path / "x.bin")
    np.zeros((1, 20), np.float32).tofile(tmp_path / "y.bin")
    subprocess.run(["./main", "x.bin", "y.bin"], cwd=tmp_path, check=True)
    with compile_kernels(model, cpu_now()) as network:
        expected = network.run({"input": x})["output"]
    np.testing.assert_array_equal(np.fromfile(tmp_path / "y.bin", np.float32).reshape(1, 20), expected)


def test_files_that_c_cannot_name(vdla, model: Path, tmp_path: Path) -> None:
    message = vdla("compile", model, "-o", tmp_path / "my-net.o").message()
    assert "from this name the C function would be called 'my-net'" in message


@pytest.mark.parametrize(
    "arguments",
    [
        ("compile", "MODEL", "-o", "MODEL"),
        ("quantize", "MODEL", "--calibration", "DATA", "-o", "MODEL"),
        ("quantize", "MODEL", "--calibration", "DATA", "-o", "DATA"),
        ("run", "MODEL", "--device", "cpu", "--inputs", "DATA", "--outputs", "DATA"),
        ("run", "MODEL", "--inputs", "DATA", "--outputs", "DATA"),
        ("run", "MODEL", "--target", "vdla,llvm", "--inputs", "DATA", "--outputs", "DATA"),
    ],
)
def test_no_command_overwrites_what_it_reads(vdla, tmp_path: Path, arguments) -> None:
    files = {"MODEL": tmp_path / "net.o", "DATA": tmp_path / "data.npz"}
    for path in files.values():
        path.write_bytes(b"as it was")
    message = vdla(*[files.get(word, word) for word in arguments]).message()
    assert "is an input of this command and would be overwritten" in message
    assert all(path.read_bytes() == b"as it was" for path in files.values())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compile", "net.onnx", "-o", "net.tar", "--frob"), "No such option: --frob; `vdla compile --help`"),
        (("compile",), "Missing argument 'MODEL.onnx'; `vdla compile --help`"),
        (("run", "net.tar", "--threads", "0"), "'--threads'"),
        (("run", "net.tar", "--device", "gpu"), "--device gpu: is not one of vdla, cpu, cuda:0"),
        (("bench", "--threads", "100000"), "'--threads'"),
        (("frob",), "No such command 'frob'; `vdla --help`"),
        (("compile", "net.onnx", "-o", "net.zip"), "-o net.zip: the suffix .zip is unknown"),
        (
            ("quantize", "net.onnx", "--calibration", "x.npz", "-o", "q.onnx", "--percentile", "99"),
            "--percentile is for --method percentile, not mse",
        ),
    ],
)
def test_unfit_arguments_cost_one_line(vdla, arguments, words: str) -> None:
    assert words in vdla(*arguments).message()
