"""Archives of compiled kernels: loaded kernels give the same results, and changed, truncated or foreign archives are
refused.
"""

from __future__ import annotations

import json
import os
import tarfile

import numpy as np
import pytest
from archives import members, rewrite
from dense_schedules import dense

from vdla.benchmarks.harness.int8_products import dense_int8
from vdla.compiler.codegen.cpu.ahead_of_time import ObjectCode
from vdla.compiler.codegen.cpu.errors import KernelArgumentError
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.module import lower
from vdla.compiler.codegen.cpu.one_object import emit_object
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.ir.interp import interpret
from vdla.compiler.runtime import kernel_archive
from vdla.compiler.runtime.archive import ArchiveError, read_archive
from vdla.compiler.runtime.kernel_archive import load_kernels, save_kernels
from vdla.compiler.schedule.pack import pack_arrays
from vdla.compiler.te.ops.product import DOT_INT8, Matrices, product
from vdla.compiler.te.ops.sums import Epilogue
from vdla.util.errors import UserError

PROGRAM = product(Matrices(rows=40, depth=20, columns=70), epilogue=Epilogue(bias=True, activation="relu"))


def compiled(text: str = "llvm") -> ObjectCode:
    target = parse_target(text)
    s = dense(target, PROGRAM, parallel=True)
    other = dense_int8(target, product(Matrices(rows=3, depth=5, columns=7), types=DOT_INT8))
    modules = [
        lower(s.program, target, function="net_dense"),
        lower(other.program, target, function="net_bytes"),
    ]
    return emit_object(modules, target, name="net")


@pytest.fixture
def path(tmp_path):
    save_kernels(tmp_path / "net.tar", compiled())
    return tmp_path / "net.tar"


@pytest.mark.parametrize("threads", [1, 2])
def test_loaded_kernels_compute_the_same(path, threads):
    rng = np.random.default_rng(0)
    arrays = {p.name: rng.integers(-9, 10, p.shape).astype(np.float32) for p in PROGRAM.parameters}
    s = dense(host_target(), PROGRAM, parallel=True)
    kernels = load_kernels(path)
    assert list(kernels) == ["net_dense", "net_bytes"]
    packed = pack_arrays(s.trace, arrays) | {"Y": np.zeros((40, 70), np.float32)}
    with Pool(threads) as pool:
        kernels["net_dense"].bind(packed, pool)()
    np.testing.assert_array_equal(packed["Y"], interpret(PROGRAM, arrays)["Y"])
    assert kernels["net_dense"].outputs == {"Y"}
    with pytest.raises(KernelArgumentError, match="net_dense: X must have shape"):
        kernels["net_dense"](**(packed | {"X": np.zeros((1, 20), np.float32)}))


def test_equal_kernels_give_equal_files(path, tmp_path):
    save_kernels(tmp_path / "again.tar", compiled())
    assert (tmp_path / "again.tar").read_bytes() == path.read_bytes()


def test_every_changed_byte_is_found(path):
    """Every change of a byte in an archive's files is refused; tar's padding is not changed."""
    files = members(path)
    rng = np.random.default_rng(0)
    for name, data in files.items():
        for at in rng.integers(0, len(data), 20):
            changed = bytearray(data)
            changed[at] ^= 1 << int(rng.integers(8))
            rewrite(path, {**files, name: bytes(changed)})
            with pytest.raises(
                ArchiveError, match=r"was changed after it was written .* compile the model again"
            ):
                load_kernels(path)


def test_cut_files_are_refused(path):
    data = path.read_bytes()
    for size in [0, 1, 511, 512, 600, 2000, len(data) // 2]:
        path.write_bytes(data[:size])
        with pytest.raises(ArchiveError, match=r"net\.tar: "):
            load_kernels(path)


def test_members_that_do_not_belong(path):
    files = members(path)
    rewrite(path, {**files, "../evil": b""})
    with pytest.raises(ArchiveError, match=r"contains the unexpected file '\.\./evil'"):
        load_kernels(path)
    for name in files:
        rewrite(path, {n: data for n, data in files.items() if n != name})
        with pytest.raises(ArchiveError, match=f"contains no {name}"):
            load_kernels(path)
    link = tarfile.TarInfo("code.o")
    link.type, link.linkname = tarfile.SYMTYPE, "/dev/zero"
    with tarfile.open(path, "w") as archive:
        archive.addfile(link)
    with pytest.raises(ArchiveError, match=r"contains the unexpected file 'code\.o'"):
        load_kernels(path)


def test_damage_anywhere_is_refused_or_harmless(path):
    """Changes any bytes, tar headers and padding included: the archive is refused with a message or loads correctly."""
    data = path.read_bytes()
    rng = np.random.default_rng(1)
    refused = 0
    for at in [*range(512), *rng.integers(0, len(data), 100)]:
        changed = bytearray(data)
        changed[at] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(changed))
        try:
            read_archive(path, ("code.o",), description="kernel archive")
        except ArchiveError:
            refused += 1
    assert refused > 450


def test_no_archive_at_all(tmp_path):
    with pytest.raises(ArchiveError, match="cannot be read: No such file"):
        load_kernels(tmp_path / "net.tar")
    with pytest.raises(ArchiveError, match="cannot be read: Is a directory"):
        load_kernels(tmp_path)
    (tmp_path / "net.tar").write_bytes(os.urandom(5000))
    with pytest.raises(ArchiveError, match="is not a kernel archive"):
        load_kernels(tmp_path / "net.tar")


def test_code_of_other_machines(tmp_path):
    elsewhere = "riscv64" if host_target().triple.startswith("aarch64") else "aarch64"
    save_kernels(tmp_path / "net.tar", compiled(f"llvm -mtriple={elsewhere}-linux-gnu"))
    with pytest.raises(ArchiveError, match=rf"was compiled for .*{elsewhere}.*compile the model here"):
        load_kernels(tmp_path / "net.tar")


def test_other_formats(path, monkeypatch):
    assert json.loads(members(path)["description.json"])["format"] == kernel_archive.FORMAT
    monkeypatch.setattr(kernel_archive, "FORMAT", kernel_archive.FORMAT + 1)
    with pytest.raises(ArchiveError, match="has format 2, but this version of vdla reads format 3"):
        load_kernels(path)


def test_what_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="cannot be written: No such file"):
        save_kernels(tmp_path / "there" / "net.tar", compiled())
    before = b"as it was"
    (tmp_path / "net.tar").write_bytes(before)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match="cannot be written: No space left"):
        save_kernels(tmp_path / "net.tar", compiled())
    assert [p.name for p in tmp_path.iterdir()] == ["net.tar"]
    assert (tmp_path / "net.tar").read_bytes() == before
