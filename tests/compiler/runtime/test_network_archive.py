"""Archives of whole networks: loaded networks give the same results, and damaged or foreign archives are refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from archives import members, rewrite
from float_networks import FloatNetwork, relative, runtime

from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.cpu_stages import cpu_ahead, cpu_now
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.runtime import network_archive
from vdla.compiler.runtime.archive import ArchiveError, UnreadableArchiveError
from vdla.compiler.runtime.kernel_archive import load_kernels
from vdla.compiler.runtime.network_archive import NAME, load_network, save_network

SHAPE = (1, 19, 12, 12)


def model() -> bytes:
    """A model of two convolutions with the same kernel and different weights, their sum, and a Relu."""
    net = FloatNetwork(*SHAPE)
    first = net.convolution(19, (3, 3), pads=[1] * 4)
    net.convolution(19, (3, 3), pads=[1] * 4)
    net.add("Add", first)
    net.add("Relu")
    net.shape = SHAPE
    return net.model()


def sample(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def save(path, text: str = "llvm") -> None:
    save_network(path, compile_kernels(model(), cpu_ahead(parse_target(text))))


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "net.tar"
    save(path)
    return path.read_bytes()


@pytest.fixture
def path(saved, tmp_path):
    (tmp_path / "net.tar").write_bytes(saved)
    return tmp_path / "net.tar"


def test_what_the_reader_would_refuse_is_not_written(tmp_path):
    code = compile_kernels(model(), cpu_ahead(parse_target("llvm")))
    twice = replace(code, graph=replace(code.graph, outputs=code.graph.outputs * 2))
    with pytest.raises(UnreadableArchiveError, match="the name of another output"):
        save_network(tmp_path / "net.tar", twice)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("threads", [1, 2])
def test_loaded_networks_compute_the_same(path, threads):
    x = sample()
    direct = compile_kernels(model(), cpu_now())
    with load_network(path) as network:
        got = network.run({"x": x}, threads=threads)
        assert network.input_shapes == direct.input_shapes == {"x": SHAPE}
        assert len(network.kernels) == len(direct.kernels)
        times, others = network.profile({"x": x}, repeat=2), direct.profile({"x": x}, repeat=2)
    expected = direct.run({"x": x})
    assert got.keys() == expected.keys()
    for name, array in runtime(model(), {"x": x}).items():
        np.testing.assert_array_equal(got[name], expected[name])
        assert relative(got[name], array) <= 1e-5
    assert [(t.name, t.operator, t.members) for t in times] == [
        (t.name, t.operator, t.members) for t in others
    ]


def test_a_lower_level_of_this_machine_runs(tmp_path):
    if not host_target().triple.startswith("x86_64"):
        pytest.skip("names a level of x86-64")
    save(tmp_path / "net.tar", "llvm -mcpu=x86-64-v2")
    with load_network(tmp_path / "net.tar") as network:
        assert network.target.cpu == "x86-64-v2" and network.target.vector_bits == 128
        (got,) = network.run({"x": sample()}).values()
    (expected,) = runtime(model(), {"x": sample()}).values()
    assert relative(got, expected) <= 1e-5


def test_networks_that_compute_nothing(tmp_path):
    """Networks whose outputs are inputs, constants or views need no kernel."""
    net = FloatNetwork(2, 3)
    same = net.add("Identity")
    flat = net.add("Flatten", inputs=["x"], axis=0)
    held = net.add("Identity", inputs=[net.constant(np.array([1.5, -2], np.float32))])
    data = net.model(**{same: (2, 3), flat: (1, 6), held: (2,)})
    save_network(tmp_path / "net.tar", compile_kernels(data, cpu_ahead(host_target())))
    with load_network(tmp_path / "net.tar") as network:
        got = network.run({"x": sample((2, 3))})
        ports = {port.name: (port.dtype, port.shape) for port in network.outputs}
    assert ports == {name: (array.dtype, array.shape) for name, array in got.items()}
    for name, array in runtime(data, {"x": sample((2, 3))}).items():
        np.testing.assert_array_equal(got[name], array)


def test_equal_networks_give_equal_files(path, tmp_path):
    save(tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == path.read_bytes()


def test_constants_are_described(path):
    """The description states where the bytes of each constant are, so that other programs can read them."""
    files = members(path)
    description = json.loads(files["description.json"])
    assert description["constants"]
    for entry in description["constants"].values():
        size = int(np.prod(entry["shape"])) * np.dtype(entry["dtype"]).itemsize
        raw = files["constants.bin"][entry["offset"] : entry["offset"] + size]
        assert hashlib.sha256(raw).hexdigest() == entry["sha256"] and len(raw) == size


def test_code_comes_with_its_header(path):
    files = members(path)
    for kernel in json.loads(files["description.json"])["kernels"]:
        assert f"void {kernel['function']}(" in files["code.h"].decode()


def test_every_changed_byte_is_found(path):
    files = members(path)
    rng = np.random.default_rng(0)
    for name, data in files.items():
        for at in rng.integers(0, len(data), 10):
            changed = bytearray(data)
            changed[at] ^= 1 << int(rng.integers(8))
            rewrite(path, {**files, name: bytes(changed)})
            with pytest.raises(
                ArchiveError, match=r"was changed after it was written .* compile the model again"
            ):
                load_network(path)


def test_cut_files_are_refused(path, saved):
    for size in [0, 1, 512, 2000, len(saved) // 2]:
        path.write_bytes(saved[:size])
        with pytest.raises(ArchiveError, match=r"net\.tar: "):
            load_network(path)


def test_members_that_are_missing(path):
    files = members(path)
    for name in files:
        rewrite(path, {n: data for n, data in files.items() if n != name})
        with pytest.raises(
            ArchiveError, match=f"contains no {name}; it is incomplete or not a compiled network"
        ):
            load_network(path)


def test_no_network_at_all(path, tmp_path):
    with pytest.raises(ArchiveError, match=r"contains the unexpected file 'code\.a'"):
        load_kernels(path)
    path.write_text("no network\n" * 1000)
    with pytest.raises(ArchiveError, match="is not a compiled network"):
        load_network(path)
    with pytest.raises(ArchiveError, match="cannot be read: No such file"):
        load_network(tmp_path / "none.tar")


def test_code_of_other_machines(tmp_path):
    elsewhere = "riscv64" if host_target().triple.startswith("aarch64") else "aarch64"
    save(tmp_path / "net.tar", f"llvm -mtriple={elsewhere}-linux-gnu")
    with pytest.raises(ArchiveError, match=rf"was compiled for .*{elsewhere}.*compile the model here"):
        load_network(tmp_path / "net.tar")


def test_other_formats(path, monkeypatch):
    monkeypatch.setattr(network_archive, "NETWORK_FORMAT", network_archive.NETWORK_FORMAT + 1)
    with pytest.raises(ArchiveError, match="has format 3, but this version of vdla reads format 4"):
        load_network(path)


def test_equal_files_whether_code_is_made_meanwhile_or_later(path, tmp_path):
    heard: list[tuple[int, int]] = []
    network = compile_kernels(
        model(), cpu_ahead(parse_target("llvm"), library=NAME), told=lambda *parts: heard.append(parts)
    )
    save_network(tmp_path / "meanwhile.tar", network)
    assert (tmp_path / "meanwhile.tar").read_bytes() == path.read_bytes()
    count = len(network.launches)
    assert heard == [(i + 1, count) for i in range(count)]
    heard.clear()
    compile_kernels(model(), cpu_now(), told=lambda *parts: heard.append(parts))
    assert heard == [(i + 1, count) for i in range(count)]


def test_processors_that_nobody_knows(path):
    network = compile_kernels(model(), cpu_ahead(parse_target("llvm")))
    save_network(path, replace(network, target=replace(network.target, cpu="pentium99")))
    with pytest.raises(
        ArchiveError, match=r"was compiled for cpu 'pentium99', which this version of vdla does not know"
    ):
        load_network(path)
