"""Reading archives of arrays (.npz): headers are checked first, so that a small file cannot allocate huge arrays."""

import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy

from vdla.util import machine_memory
from vdla.util.machine_memory import memory_problem
from vdla.util.npz import NpzError, open_npz


def packed(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def headed(shape: tuple[int, ...], data: bytes, dtype: str = "|u1") -> bytes:
    """The bytes of an archive of one array whose header states `shape` and `dtype`, and whose data are `data`."""
    header = io.BytesIO()
    npy.write_array_header_1_0(header, {"shape": shape, "fortran_order": False, "descr": dtype})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x.npy", header.getvalue() + data)
    return buffer.getvalue()


def test_arrays_come_back():
    arrays = {
        "a": np.arange(6, dtype=np.int16).reshape(2, 3),
        "b": np.float32(2.5),
        "c": np.asfortranarray(np.eye(3)),
        "d": np.zeros((0, 4), np.uint8),
    }
    with open_npz(packed(**arrays)) as stored:
        for name, array in arrays.items():
            assert stored.headers[name].shape == array.shape and stored.headers[name].dtype == array.dtype
            np.testing.assert_array_equal(stored.read(name), array)
        assert list(stored.headers) == list(arrays)


def test_reading_headers_allocates_no_arrays():
    data = packed(x=np.zeros((1, 1 << 25), np.float32))
    assert len(data) < 1 << 18
    tracemalloc.start()
    with open_npz(data) as stored:
        assert stored.headers["x"].shape == (1, 1 << 25)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_more_than_the_machine_holds_is_refused(monkeypatch: pytest.MonkeyPatch):
    data = packed(x=np.zeros(1 << 16, np.uint8), y=np.zeros(1 << 16, np.uint8))
    monkeypatch.setattr(machine_memory, "machine_memory", lambda: 100_000)
    with (
        pytest.raises(NpzError, match="needs 131,072 bytes of memory to run, more than the 100,000"),
        open_npz(data),
    ):
        pass


@pytest.mark.parametrize("shape", [(2**40,), (2**62, 2**62), (5,), (3,), (-4,), (1.5,), (True, 4)])
def test_headers_that_say_something_else(shape: tuple[int, ...]):
    with pytest.raises(NpzError), open_npz(headed(shape, bytes(4))):
        pass


def test_objects_and_bare_files_are_refused(tmp_path: Path):
    for data in (b"", b"x" * 1000, packed(x=np.array([{}], object)), headed((1,), bytes(8), "|O")):
        with pytest.raises(NpzError, match=r"not an \.npz archive of plain arrays"), open_npz(data):
            pass


@pytest.mark.parametrize(
    "text", [b"{{{{", b"[", b"'", b"(((", b"{'descr': (", b"\\", b"\x00", b"0x", b"{'shape': }"]
)
def test_a_header_of_any_text_is_refused(text: bytes):
    header = b"\x93NUMPY\x01\x00" + len(text + b"\n").to_bytes(2, "little") + text + b"\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x.npy", header)
    with pytest.raises(NpzError), open_npz(buffer.getvalue()):
        pass


def test_damage_anywhere_is_refused_or_harmless():
    data = packed(x=np.arange(100, dtype=np.int32), y=np.ones(7, np.float32))
    rng = np.random.default_rng(0)
    refused = 0
    for at in rng.permutation(len(data))[:400]:
        damaged = bytearray(data)
        damaged[at] ^= int(rng.integers(1, 256))
        try:
            with open_npz(bytes(damaged)) as stored:
                for name in stored.headers:
                    stored.read(name)
        except NpzError:
            refused += 1
    assert refused > 250


def test_memory_of_this_machine(tmp_path: Path):
    (tmp_path / "memory.max").write_text("4096\n")
    assert machine_memory.machine_memory(tmp_path / "memory.max") == 4096
    (tmp_path / "memory.max").write_text("max\n")
    whole = machine_memory.machine_memory(tmp_path / "memory.max")
    assert whole is not None and whole > 1 << 28
    assert memory_problem(1) is None
    assert "387,000,000,000,000 bytes of memory to run, more than the" in str(memory_problem(387 * 10**12))
