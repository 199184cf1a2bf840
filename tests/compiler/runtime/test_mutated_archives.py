"""Archives with changed contents and a matching checksum: each gives one line that names archive and field, or a usable
network.
"""

from __future__ import annotations

import copy
import ctypes
import json
import os
import tarfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import members, rewrite
from campaign import representatives
from float_networks import FloatNetwork

from vdla.compiler.backends.registry import gpu_of
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.cpu_stages import cpu_ahead
from vdla.compiler.gpu_stages import gpu_ahead
from vdla.compiler.pipeline import compile_kernels
from vdla.compiler.runtime import trial_run
from vdla.compiler.runtime.archive import ArchiveError, checksum, write_archive
from vdla.compiler.runtime.cuda_archive import load_cuda_network, save_cuda_network
from vdla.compiler.runtime.network_archive import load_network, save_network
from vdla.compiler.runtime.trial_run import run_in_trial

GONE = object()
VALUES = (
    GONE,
    None,
    True,
    -1,
    2**31,
    2**62,
    10**30,
    0.5,
    float("nan"),
    "",
    "x",
    "\ud800",
    [],
    [-1],
    {},
    {"a": 1},
)
UNREAD = {"sha256"}
"""Fields of an archive's description that our reader does not use."""

Path_ = tuple[str | int, ...]


def model() -> bytes:
    """A model of a convolution, its sum with the input, a Relu, and a second output that is a constant."""
    net = FloatNetwork(1, 5, 6, 6)
    net.add("Add", net.convolution(5, (3, 3), pads=[1] * 4))
    result = net.add("Relu")
    held = net.add("Identity", inputs=[net.constant(np.array([1.5, -2], np.float32))])
    return net.model(**{result: (1, 5, 6, 6), held: (2,)})


def fields(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yields the paths (tuples of keys and indices) of all values in a JSON document."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in inner:
        yield from fields(held, (*path, key))


def changed(document: Any, path: Path_, value: object) -> Any:
    result = copy.deepcopy(document)
    place = result
    for key in path[:-1]:
        place = place[key]
    if value is GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return result


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "net.tar"
    save_network(path, compile_kernels(model(), cpu_ahead(host_target())))
    return path


@pytest.fixture(scope="module")
def saved_for_gpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "gpu.tar"
    save_cuda_network(path, compile_kernels(model(), gpu_ahead(cuda_target("sm_80"))))
    return path


def parts(path: Path) -> tuple[Any, dict[str, bytes]]:
    files = members(path)
    del files["sha256"]
    return json.loads(files.pop("description.json")), files


def mutations(document: Any, count: int, seed: int) -> Iterator[tuple[Path_, object]]:
    """Yields `count` changes, each as (path of a field, new value); no field is changed a second time before every
    field was changed once.
    """
    rng = np.random.default_rng(seed)
    places = list(fields(document))
    for number in range(count):
        if number % len(places) == 0:
            order = rng.permutation(len(places))
        yield places[order[number % len(places)]], VALUES[rng.integers(len(VALUES))]


def check_mutations(saved: Path, path: Path, load, run, count: int, seed: int) -> None:
    document, files = parts(saved)
    refused = 0
    for place, value in mutations(document, count, seed):
        write_archive(path, changed(document, place, value), files)
        try:
            run(load(path))
        except ArchiveError as error:
            refused += 1
            message = str(error)
            assert message.startswith(f"{path}: ") and "\n" not in message, (place, value, message)
            named = ("description.json: ", "first run", "may lack instructions", "has format")
            assert any(words in message for words in named), (place, value, message)
        else:
            # Lists may be shorter, but no field that is read may be missing.
            assert value is not GONE or isinstance(place[-1], int) or place[-1] in UNREAD, place
    assert refused > count // 2


def run_once(network) -> None:
    with network:
        network.run({name: np.ones(shape, np.float32) for name, shape in network.input_shapes.items()})


@pytest.mark.parametrize("seed", representatives(range(5), 0, always=[0]))
def test_changed_fields(saved: Path, tmp_path: Path, seed: int):
    check_mutations(saved, tmp_path / "net.tar", load_network, run_once, 110, seed)


@pytest.mark.parametrize("seed", representatives(range(5), 0, always=[0]))
def test_changed_fields_of_networks_for_gpus(saved_for_gpu: Path, tmp_path: Path, seed: int):
    check_mutations(saved_for_gpu, tmp_path / "net.tar", load_cuda_network, lambda _: None, 180, seed)


@pytest.mark.parametrize("seed", representatives(range(8), 0, always=[0]))
def test_changed_objects(saved: Path, tmp_path: Path, seed: int):
    """Changes bytes in headers, tables and code of an object file. Code that crashes must do so in the trial run in
    another process.
    """
    document, files = parts(saved)
    rng = np.random.default_rng(seed)
    refused = 0
    for number in range(25):
        code = bytearray(files["code.a"])
        start, end = ((0, 64), (64, len(code)), (len(code) - 1024, len(code)))[number % 3]
        for at in rng.integers(start, end, 1 + number):
            code[at] = rng.integers(256)
        write_archive(tmp_path / "net.tar", document, {**files, "code.a": bytes(code)})
        try:
            load_network(tmp_path / "net.tar")
        except ArchiveError as error:
            refused += 1
            assert "code.a" in str(error) and "\n" not in str(error)
    assert refused > 5


@pytest.mark.parametrize("code", [b"", b"\x7fELF", bytes(1000)])
def test_code_that_is_not_an_object_file_is_refused(saved: Path, tmp_path: Path, code: bytes):
    document, files = parts(saved)
    write_archive(tmp_path / "net.tar", document, {**files, "code.a": code})
    with pytest.raises(ArchiveError, match=r"net\.tar: code\.a"):
        load_network(tmp_path / "net.tar")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (
            ("arena_bytes",),
            387 * 10**12,
            r"needs [\d,]+ bytes of memory to run.*arena_bytes alone takes 387,000",
        ),
        (("arena_bytes",), 64, r"tensors\['.*'\]\.offset: .* beyond the arena of 64"),
        (
            ("kernels", 0, "scratch_bytes"),
            2**50,
            r"kernels\[0\]: needs .* of this machine.*scratch_bytes alone",
        ),
        (("tensors", "x", "shape"), [1, 5, 6, -6], r"tensors\['x'\]\.shape\[3\]: is -6, which is not from 0"),
        (("tensors", "x", "offset"), 2, r"tensors\['x'\]\.offset: is 2, which is not aligned to float32"),
        (
            ("target", "cpu"),
            "nonesuch",
            "was compiled for cpu 'nonesuch', which this version of vdla does not know",
        ),
        (("target", "cpu"), "", "was compiled for cpu '', which this version of vdla does not know"),
        (
            ("target", "features"),
            "+nonesuch",
            "was compiled for feature 'nonesuch', which this version of vdla",
        ),
        (
            ("target", "triple"),
            "pdp11-linux-gnu",
            "names a processor or features that LLVM does not know: -mtriple=pdp11-linux-gnu",
        ),
        (("target", "cpu"), 'a" "b', "not a name of a processor"),
        (("inputs",), ["x", "x"], r"inputs\[1\]: names 'x' again"),
        (("launches", 0, "function"), "main", r"launches\[0\]\.function: is 'main', not one of"),
    ],
)
def test_fields_are_named(saved: Path, tmp_path: Path, place: Path_, value: object, message: str):
    document, files = parts(saved)
    write_archive(tmp_path / "net.tar", changed(document, place, value), files)
    with pytest.raises(ArchiveError, match=message):
        load_network(tmp_path / "net.tar")


def test_descriptions_that_are_not_json_are_refused(saved: Path, tmp_path: Path):
    _, files = parts(saved)
    for text in (b"[]", b"{", b"[" * 100_000, b'{"format": ' + b"9" * 5000 + b"}", b"\xff"):
        rewrite_description(tmp_path / "net.tar", text, files)
        with pytest.raises(ArchiveError, match=r"net\.tar: description\.json: is not (a )?JSON"):
            load_network(tmp_path / "net.tar")


def rewrite_description(path: Path, text: bytes, files: dict[str, bytes]) -> None:
    """Rewrites an archive with the description `text`, the other `files`, and a matching checksum."""
    held = {"description.json": text, **files}
    rewrite(path, {**held, "sha256": checksum(held)})


# --- what is looked at before anything is read ----------------------------------------------------------


def sparse_tar(path: Path, size: int) -> None:
    """Writes a tar file in GNU's old sparse format: one block of data that expands to `size` bytes, mostly zeros."""
    entry = tarfile.TarInfo("constants.bin")
    entry.type, entry.size = tarfile.GNUTYPE_SPARSE, 512
    header = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    header[386:410] = b"%011o\0%011o\0" % (size - 512, 512)
    header[483:495] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path.write_bytes(bytes(header) + bytes(512) + bytes(1024))


def test_a_sparse_member_is_refused_unread(tmp_path: Path):
    sparse_tar(tmp_path / "net.tar", 2**33)
    with tarfile.open(tmp_path / "net.tar") as archive:
        assert archive.getmembers()[0].size == 2**33
    tracemalloc.start()
    with pytest.raises(ArchiveError, match=r"contains the unexpected file 'constants\.bin'"):
        load_network(tmp_path / "net.tar")
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_a_member_longer_than_the_file_is_refused_unread(tmp_path: Path):
    entry = tarfile.TarInfo("constants.bin")
    entry.size = 2**33
    (tmp_path / "net.tar").write_bytes(entry.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with pytest.raises(ArchiveError, match=r"net\.tar: "):
        load_network(tmp_path / "net.tar")


def test_what_is_no_file_is_refused_at_once(tmp_path: Path):
    os.mkfifo(tmp_path / "net.tar")
    (tmp_path / "folder.tar").mkdir()
    for load in (load_network, load_cuda_network):
        with pytest.raises(ArchiveError, match="cannot be read: a pipe or a device, not a file"):
            load(tmp_path / "net.tar")
        with pytest.raises(ArchiveError, match="cannot be read: Is a directory"):
            load(tmp_path / "folder.tar")
        with pytest.raises(ArchiveError, match="cannot be read: a pipe or a device, not a file"):
            load(Path("/dev/zero"))
    assert gpu_of(tmp_path / "net.tar") is None


# --- first runs -----------------------------------------------------------------------------------------


def test_first_runs_in_a_process_of_their_own(monkeypatch: pytest.MonkeyPatch):
    done: list[int] = []
    assert run_in_trial(lambda: done.append(1)) is None and done == []
    assert run_in_trial(lambda: 1 // 0) == "ZeroDivisionError: integer division or modulo by zero"
    assert run_in_trial(lambda: ctypes.string_at(0)) == "crashes (SIGSEGV)"
    assert run_in_trial(os.abort) == "crashes (SIGABRT)"
    monkeypatch.setattr(trial_run, "LEAST_SECONDS", 0.2)
    assert run_in_trial(lambda: time.sleep(60)) == "does not end within 0 seconds"
