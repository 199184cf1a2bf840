"""Compiling and running a model on this processor in one command, and the cache of compiled networks, whose key
contains everything that affects the code.
"""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.codesign import network_cache
from vdla.codesign.network_cache import cached_network, network_key
from vdla.compiler.backends.llvm import LlvmCompiler
from vdla.compiler.codegen.cpu.machine import CpuTarget
from vdla.util.user_cache import discard_least_used

SHAPE = [1, 8]


def dense(folder: Path, name: str = "net.onnx", *, seed: int = 0, batch: int | str = 1) -> Path:
    """Path of an ONNX model of a dense layer with a ReLU, written to `folder`."""
    weight = np.random.default_rng(seed).standard_normal((8, 5)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"], "fc"), helper.make_node("Relu", ["h"], ["y"], "relu")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 5])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / name).write_bytes(model.SerializeToString(deterministic=True))
    return folder / name


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Gives the test an empty user cache; returns the folder of compiled networks in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vdla" / network_cache.PART


def compilation(outcome) -> bool:
    return outcome.document()["compile"]["cached"]


def test_the_second_run_is_taken_from_the_cache(vdla, tmp_path: Path, cache: Path) -> None:
    model = dense(tmp_path)
    np.savez(tmp_path / "in.npz", x=np.float32([[-3, -2, -1, 0, 1, 2, 3, np.inf]]))
    arguments = ("run", model, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz", "--json")
    results = []
    for options in (["--device", "cpu"], ["--target", "llvm"], ["--device", "cpu", "--no-cache"]):
        document = vdla(*arguments, *options).document()
        assert document["device"] == "cpu" and document["check"]["against"] == "onnxruntime"
        assert document["check"]["max_relative_error"] < 1e-5 and document["check"]["top1_equal"]
        results.append((document["compile"]["cached"], np.load(tmp_path / "out.npz")["y"]))
    assert [hit for hit, _ in results] == [False, True, False]
    for _, array in results:
        np.testing.assert_array_equal(array, results[0][1])
    assert len(list(cache.glob("*.tar"))) == 1
    text = vdla("run", model, "--device", "cpu", "--profile").out
    assert "taken from the cache" in text and "against onnxruntime: largest difference" in text


def replaced_entry(folder: Path) -> Path:
    """Path of a model whose cache entry has been replaced by the valid entry of another model."""
    other = dense(folder, "other.onnx", seed=1)
    entry = cached_network(dense(folder), LlvmCompiler("llvm")).path
    entry.rename(entry.with_name(f"{network_key(other, LlvmCompiler('llvm'), batch=1)}.tar"))
    lock = entry.with_name(f"{entry.name}.lock")
    lock.rename(entry.with_name(f"{network_key(other, LlvmCompiler('llvm'), batch=1)}.tar.lock"))
    return other


def test_a_replaced_entry_is_not_run(vdla, tmp_path: Path) -> None:
    other = replaced_entry(tmp_path)
    document = vdla("run", other, "--device", "cpu", "--json").document()
    assert not document["compile"]["cached"] and document["check"]["max_relative_error"] < 1e-5
    assert compilation(vdla("run", other, "--device", "cpu", "--json"))


def test_a_replaced_entry_is_not_copied(vdla, tmp_path: Path) -> None:
    other = replaced_entry(tmp_path)
    document = vdla("compile", other, "-o", tmp_path / "net.tar", "--json").document()
    vdla("compile", other, "-o", tmp_path / "alone.tar", "--json", "--no-cache").document()
    assert not document["cached"]
    assert (tmp_path / "net.tar").read_bytes() == (tmp_path / "alone.tar").read_bytes()


def test_a_cache_that_others_may_write_is_left_alone(vdla, tmp_path: Path, cache: Path) -> None:
    model = dense(tmp_path)
    cached_network(model, LlvmCompiler("llvm"))
    cache.chmod(0o777)
    before = {path.name: path.read_bytes() for path in cache.iterdir()}
    for command in (("run", model, "--device", "cpu"), ("compile", model, "-o", tmp_path / "net.tar")):
        result = vdla(*command, "--json")
        document = result.document()
        assert document.get("cached", document.get("compile", {}).get("cached")) is False
        (line,) = [line for line in result.err.splitlines() if "cache" in line]
        assert f"{cache} lets other users write (mode 777)" in line and f"chmod go-w {cache}" in line
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == before


def compiler(target: CpuTarget) -> LlvmCompiler:
    """The compiler for a `CpuTarget` object that no target text describes."""
    made = LlvmCompiler("llvm")
    made.__dict__["target"] = target
    return made


def test_the_key_is_all_that_decides_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    host = LlvmCompiler("llvm")
    model, same, other = (dense(tmp_path, f"{name}.onnx", seed=name) for name in (1, 2, 3))
    same.write_bytes(model.read_bytes())
    key = network_key(model, host, batch=1)
    assert key == network_key(same, host, batch=1)
    others = [
        network_key(other, host, batch=1),
        network_key(model, host, batch=2),
        network_key(model, compiler(replace(host.target, cpu="x86-64")), batch=1),
        network_key(
            model,
            compiler(replace(host.target, cache_bytes=tuple(2 * n for n in host.target.cache_bytes))),
            batch=1,
        ),
    ]
    monkeypatch.setattr(network_cache, "_compiler", lambda: "of another version")
    others.append(network_key(model, host, batch=1))
    assert len({key, *others}) == len(others) + 1


def test_external_data_are_part_of_the_content(tmp_path: Path) -> None:
    proto = onnx.load(dense(tmp_path))
    path = tmp_path / "external.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    before = network_key(path, LlvmCompiler("llvm"), batch=1)
    data = bytearray((tmp_path / "weights.bin").read_bytes())
    data[0] ^= 1
    (tmp_path / "weights.bin").write_bytes(data)
    assert network_key(path, LlvmCompiler("llvm"), batch=1) != before


def test_damaged_entries_are_compiled_again(vdla, tmp_path: Path, cache: Path) -> None:
    model = dense(tmp_path)
    assert not compilation(vdla("run", model, "--device", "cpu", "--json"))
    (entry,) = cache.glob("*.tar")
    whole = entry.read_bytes()
    for damage in (b"", whole[: len(whole) // 2], whole[:700] + b"?" + whole[701:]):
        entry.write_bytes(damage)
        assert not compilation(vdla("run", model, "--device", "cpu", "--json"))
        assert entry.read_bytes() == whole
    entry.write_bytes(b"damage")
    document = vdla("compile", model, "-o", tmp_path / "net.tar", "--json").document()
    assert not document["cached"] and (tmp_path / "net.tar").read_bytes() == whole
    again = vdla("compile", model, "-o", tmp_path / "again.tar", "--json").document()
    assert again["cached"] and (tmp_path / "again.tar").read_bytes() == whole
    assert {key: again[key] for key in ("kernels", "launches", "arena_bytes")} == {
        key: document[key] for key in ("kernels", "launches", "arena_bytes")
    }


def test_without_a_place_for_the_cache_it_is_compiled_all_the_same(vdla, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    result = vdla("run", dense(tmp_path), "--device", "cpu", "--json")
    assert not compilation(result) and "compiled without the cache" in result.err
    assert vdla("compile", dense(tmp_path), "-o", tmp_path / "net.tar").code == 0


def _compile(model: Path, barrier) -> None:
    barrier.wait()
    cached_network(model, LlvmCompiler("llvm"))


def test_two_processes_at_once_leave_one_whole_entry(tmp_path: Path, cache: Path) -> None:
    model = dense(tmp_path)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    workers = [context.Process(target=_compile, args=(model, barrier)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert [path.suffix for path in sorted(cache.iterdir())] == [".tar", ".lock"]
    assert cached_network(model, LlvmCompiler("llvm")).hit


def test_a_model_that_cannot_be_compiled_leaves_nothing(vdla, tmp_path: Path, cache: Path) -> None:
    model = onnx.load(dense(tmp_path))
    model.graph.node[1].op_type = "Det"
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    assert "net.onnx" in vdla("run", tmp_path / "net.onnx", "--device", "cpu").message()
    assert not list(cache.glob("*.tar*")) or {path.suffix for path in cache.iterdir()} == {".lock"}
    assert "none.onnx" in vdla("run", tmp_path / "none.onnx", "--device", "cpu").message()


def test_the_least_recently_used_go_first(cache: Path) -> None:
    cache.mkdir(parents=True)
    for age, name in enumerate(("new", "used", "old", "older")):
        (cache / f"{name}.tar").write_bytes(bytes(100))
        os.utime(cache / f"{name}.tar", (1e9 - age, 1e9 - age))
    (cache / "old.tar.lock").touch()
    discard_least_used(network_cache.PART, ".tar", 250)
    assert sorted(path.name for path in cache.iterdir()) == ["new.tar", "old.tar.lock", "used.tar"]
    discard_least_used(network_cache.PART, ".tar", 0)
    assert sorted(path.name for path in cache.iterdir()) == ["new.tar", "old.tar.lock"]


def test_a_hit_counts_as_use(tmp_path: Path) -> None:
    model = dense(tmp_path)
    entry = cached_network(model, LlvmCompiler("llvm"))
    os.utime(entry.path, (1e9, 1e9))
    assert cached_network(model, LlvmCompiler("llvm")).hit and entry.path.stat().st_mtime > 1e9


def test_a_dynamic_batch_is_set(vdla, tmp_path: Path) -> None:
    model = dense(tmp_path, batch="n")
    document = vdla("run", model, "--device", "cpu", "--batch", "3", "--json").document()
    assert document["inputs"][0]["shape"] == [3, 8] and document["check"]["max_relative_error"] < 1e-5


def test_options_without_a_meaning_on_a_processor_are_refused(vdla, tmp_path: Path) -> None:
    model = dense(tmp_path)
    run = ("run", model, "--device", "cpu")
    assert "--check interpreter is for the accelerator" in vdla(*run, "--check", "interpreter").message()
    message = vdla(*run, "--target", "llvm -mtriple=riscv64-linux-gnu").message()
    assert "may lack instructions" in message and "vdla compile" in message
    assert "names the accelerator" in vdla(*run, "--target", "vdla").message()
    assert "choose vdla" in vdla("run", model, "--target", "tpu").message()
    assert "--batch is for processors" in vdla("run", model, "--batch", "2").message()


@pytest.mark.parametrize("form", ["path", "text", "bytes", "proto"])
def test_python_and_the_command_line_share_the_cache(vdla, tmp_path: Path, cache: Path, form: str) -> None:
    import vdla as api

    path = dense(tmp_path)
    model = {
        "path": path,
        "text": str(path),
        "bytes": path.read_bytes(),
        "proto": onnx.load(path),
    }[form]
    feeds = {"x": np.arange(8, dtype=np.float32).reshape(1, 8)}
    with api.compile(model, "llvm", cache=False) as network:
        expected = network.run(feeds)["y"]
    assert not cache.exists()
    for _ in range(2):
        with api.compile(model, "llvm") as network:
            np.testing.assert_array_equal(network.run(feeds)["y"], expected)
        assert len(list(cache.glob("*.tar"))) == 1
    assert compilation(vdla("run", path, "--target", "llvm", "--json"))


def test_python_compiles_what_the_cache_holds_only_once(tmp_path: Path, monkeypatch) -> None:
    import vdla as api

    path = dense(tmp_path)
    api.compile(path, "llvm").close()

    def compiled(*_: object, **__: object) -> None:
        raise AssertionError("it is in the cache")

    monkeypatch.setattr(LlvmCompiler, "save", compiled)
    api.compile(path, "llvm").close()
    with pytest.raises(AssertionError):
        api.compile(path, "llvm", batch=1, records="shipped")


def test_python_compiles_without_a_cache_that_others_may_write(tmp_path: Path, cache: Path, capsys) -> None:
    import vdla as api
    from vdla.util.user_cache import say_not_kept

    path = dense(tmp_path)
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    say_not_kept.cache_clear()
    for _ in range(2):
        with api.compile(path, "llvm") as network:
            assert network.run({"x": np.zeros((1, 8), np.float32)})["y"].shape == (1, 5)
    assert capsys.readouterr().err.count("lets other users write") == 1
    assert not list(cache.iterdir())
