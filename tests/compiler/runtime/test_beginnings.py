"""Constants that equal the first bytes of a longer constant: they are found, stored once in memory and in files, and
read back.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vdla.compiler.runtime.archive import ArchiveError
from vdla.compiler.runtime.archive_fields import Field
from vdla.compiler.runtime.network_description import HEAD, Beginnings, ConstantPool, read_constants
from vdla.compiler.runtime.shared_arrays import SharedArrays

POSITIONS = np.random.default_rng(2).standard_normal((1, 60, 32)).astype(np.float32)


def raw(size: int, *, changed: int | None = None) -> np.ndarray:
    made = (np.arange(size) % 251).astype(np.uint8)
    if changed is not None:
        made[changed] ^= 1
    return made


def test_a_beginning_is_found_and_nothing_else() -> None:
    known = Beginnings[str]()
    known.add(raw(3 * HEAD), "long")
    known.add(raw(2 * HEAD, changed=HEAD + 5), "other")
    assert known.find(raw(HEAD)) == "long"
    assert known.find(raw(2 * HEAD)) == known.find(raw(3 * HEAD)) == "long"
    assert known.find(raw(2 * HEAD, changed=HEAD + 5)) == "other"
    assert known.find(raw(2 * HEAD, changed=2 * HEAD - 1)) is None
    assert known.find(raw(2 * HEAD, changed=0)) is None
    assert known.find(raw(3 * HEAD + 1)) is None
    assert known.find(raw(HEAD - 1)) is None


def test_shared_arrays_hold_beginnings_once() -> None:
    shared = SharedArrays()
    long = shared.held(POSITIONS)
    short, other = shared.held(POSITIONS[:, :40]), shared.held(POSITIONS[:, 1:40])
    assert np.may_share_memory(long, short) and not np.may_share_memory(long, other)
    assert shared.held(POSITIONS[:, :40].copy()) is short
    for held, wanted in ((long, POSITIONS), (short, POSITIONS[:, :40]), (other, POSITIONS[:, 1:40])):
        np.testing.assert_array_equal(held, wanted)
        assert held.shape == wanted.shape and held.dtype == wanted.dtype and not held.flags.writeable


def written(**arrays: np.ndarray) -> tuple[ConstantPool, bytes]:
    pool = ConstantPool()
    for name, array in arrays.items():
        pool.add(name, array)
    return pool, b"".join(bytes(part) for part in pool.parts)


def described(entries: dict) -> Field:
    document = json.loads(json.dumps({"constants": entries}))
    return Field(path=Path("network.tar"), name="", value=document)


def test_files_hold_beginnings_once() -> None:
    arrays = {
        "long": POSITIONS,
        "short": POSITIONS[:, :40],
        "reshaped": POSITIONS.reshape(-1, 8),
        "small": POSITIONS[:, :2],
        "integers": POSITIONS[:, :50].view(np.int32),
        "other": POSITIONS[:, 1:],
    }
    pool, data = written(**arrays)
    assert len(data) == pool.size < POSITIONS.nbytes * 2 + POSITIONS[:, :2].nbytes + 200
    found = read_constants(described(pool.entries), data)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    assert np.may_share_memory(found["long"], found["short"])
    assert not np.may_share_memory(found["long"], found["integers"])


def test_a_file_that_ends_before_a_beginning_does_is_refused() -> None:
    pool, data = written(long=POSITIONS, short=POSITIONS[:, :40])
    with pytest.raises(ArchiveError, match="end beyond"):
        read_constants(described(pool.entries), data[: POSITIONS[:, :40].nbytes - 1])
