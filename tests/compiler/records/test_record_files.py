"""Files of tuning records: they survive killed writers and full disks, and an invalid line loses only one record."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import record_writers
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import LONG
from tuning_records import LINE, file_of, trial

from vdla.compiler.records.files import (
    RecordError,
    RecordWriter,
    read_lines,
    read_records,
    write_records,
)
from vdla.compiler.records.line import MOST_BYTES
from vdla.util import line_file


@pytest.fixture(autouse=True)
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The file descriptors passed to `os.fsync`, which is replaced so that tests do not wait for the disk."""
    files: list[int] = []
    monkeypatch.setattr(os, "fsync", files.append)
    return files


def test_skipped_lines_are_counted_in_one_warning(tmp_path):
    lines = [
        LINE,
        b"\n",
        b"fox\n",
        LINE.replace(b'n":1', b'n":2'),
        LINE,
        b"{\n",
        LINE.replace(b'":4', b'":"4"'),
        LINE,
    ]
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"".join(lines))
    records, skipped = read_records(path)
    assert records == [trial()] * 3
    assert skipped.count == 4
    assert skipped.warning == (
        f"{path}: 4 of 7 lines skipped: 2 not JSON (first: line 3), 1 of another version (line 4: 2; this release "
        "reads 1), 1 not a record (line 7: knobs.rows is '4', must be an integer)"
    )
    assert read_records(file_of(tmp_path, trial()))[1].warning is None
    assert read_records(file_of(tmp_path))[0] == []


def test_a_line_of_any_length_costs_little_and_only_itself(tmp_path):
    path = tmp_path / "r.jsonl"
    exact = LINE[:-1] + b" " * (MOST_BYTES - len(LINE)) + b"\n"
    blank = b" " * MOST_BYTES + b"\n"
    path.write_bytes(
        LINE + b"[" * 5_000_000 + b"\n" + LINE + exact + blank + blank[1:] + LINE[:-1] + blank[:-1]
    )
    records, skipped = read_records(path)
    assert records == [trial()] * 3
    assert (
        skipped.warning == f"{path}: 3 of 6 lines skipped: 3 longer than {MOST_BYTES} bytes (first: line 2)"
    )


def test_what_is_no_file_of_records_is_a_mistake_of_the_user(tmp_path):
    with pytest.raises(RecordError, match="is a directory; name a file of records"):
        read_records(tmp_path)
    with pytest.raises(RecordError, match="is a directory; name a file of records"):
        RecordWriter(tmp_path)
    with pytest.raises(RecordError, match="cannot be read: No such file"):
        read_records(tmp_path / "none.jsonl")
    with pytest.raises(RecordError, match="cannot be written: No such file"):
        RecordWriter(tmp_path / "none" / "r.jsonl")
    for use in (read_records, RecordWriter):
        with pytest.raises(RecordError, match="/dev/zero: is "):
            use(Path("/dev/zero"))
    binary = tmp_path / "model.onnx"
    binary.write_bytes(bytes(range(256)) * 100)
    with pytest.raises(RecordError, match="is not text; records are lines of JSON"):
        read_records(binary)
    prose = tmp_path / "README"
    prose.write_text("Read me.\nOr not.\n")
    assert read_records(prose)[1].warning == f"{prose}: 2 of 2 lines skipped: 2 not JSON (first: line 1)"


def test_many_records_are_read_at_once():
    data = b"".join(LINE.replace(b'"trial":3', b'"trial":%d' % i) for i in range(10_000))
    records, _ = read_lines(io.BytesIO(data), "r")
    assert [record.trial for record in records] == list(range(10_000))
    # What ten thousand lines tell again is read once.
    assert all(record.task is records[0].task for record in records[1:])


@pytest.mark.parametrize(
    "changes",
    [{"cost": 0.0}, {"cost": float("nan")}, {"trial": -1}, {"strategy": "a\nb"}, {"knobs": {"x": 2**63}}],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, changes):
    with RecordWriter(tmp_path / "r.jsonl") as writer, pytest.raises(ValueError, match="not a record: "):
        writer.append(trial(**changes))
    assert not (tmp_path / "r.jsonl").exists()  # an empty file is not left behind


def test_writers_append(tmp_path):
    path = tmp_path / "r.jsonl"
    for first in (0, 2):
        with RecordWriter(path) as writer:
            writer.append(trial(first))
            assert read_records(path)[0][-1] == trial(first)  # at once, not when it closes
            writer.append(trial(first + 1, cost=None))
            writer.close()
    assert [record.trial for record in read_records(path)[0]] == [0, 1, 2, 3]


def test_files_are_synced_at_times_and_in_the_end(tmp_path, synced, monkeypatch):
    with RecordWriter(tmp_path / "r.jsonl") as writer:
        for number in range(3):
            writer.append(trial(number))
        assert synced == []
        monkeypatch.setattr(line_file, "SYNC_INTERVAL", 0.0)
        writer.append(trial(3))
        assert len(synced) == 1
    assert len(synced) == 2


def test_a_full_disk_costs_the_record_that_met_it(tmp_path, monkeypatch):
    path, write, room = tmp_path / "r.jsonl", os.write, [10, 0]

    def into_what_is_left(file: int, data: bytes) -> int:
        if not room:
            return write(file, data)
        if (left := room.pop(0)) == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[:left])

    with RecordWriter(path) as writer:
        monkeypatch.setattr(os, "write", into_what_is_left)
        with pytest.raises(
            RecordError, match=r"r\.jsonl: records cannot be written: No space left on device"
        ):
            writer.append(trial(0))
        writer.append(trial(1))
        room[:] = [0]
        with pytest.raises(RecordError, match="No space left"):
            writer.append(trial(2))
        writer.append(trial(3))
        room[:] = [10]  # cut short by something else: the rest follows
        writer.append(trial(4))
    records, skipped = read_records(path)
    assert [record.trial for record in records] == [1, 3, 4]
    assert skipped.count == 1


def test_a_file_has_one_writer_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(line_file, "PATIENCE", 0.05)
    path = tmp_path / "r.jsonl"
    with RecordWriter(path) as writer:
        writer.append(trial(0))
        assert len(read_records(path)[0]) == 1  # reading, and closing again, gives the file to nobody
        with pytest.raises(RecordError, match="another process is writing records to it; wait for its end"):
            RecordWriter(path)
        with pytest.raises(RecordError, match="another process is writing records"):
            write_records(path, [])
        writer.append(trial(1))
    write_records(path, [trial(7)])
    with RecordWriter(path) as writer:
        writer.append(trial(8))
    assert [record.trial for record in read_records(path)[0]] == [7, 8]


def test_a_writer_that_waited_writes_to_the_file_that_is_there(tmp_path, monkeypatch):
    path, other = tmp_path / "r.jsonl", file_of(tmp_path, trial(5), name="other.jsonl")
    path.touch()
    lock = line_file._lock

    def replaced_first(file: int) -> bool:
        if other.exists():
            other.replace(path)
        return lock(file)

    monkeypatch.setattr(line_file, "_lock", replaced_first)
    with RecordWriter(path) as writer:
        writer.append(trial(6))
    assert [record.trial for record in read_records(path)[0]] == [5, 6]


def test_an_empty_file_is_replaced_as_any_other(tmp_path):
    path = tmp_path / "r.jsonl"
    path.touch()
    write_records(path, [trial(7)])
    assert read_records(path)[0] == [trial(7)]


def test_no_truncation_costs_a_whole_line():
    data = LINE * 3
    for cut in range(len(data) + 1):
        records, skipped = read_lines(io.BytesIO(data[:cut]), "r")
        whole = (cut + 1) // len(LINE)  # The newline is not what makes a record whole.
        assert len(records) == whole
        assert skipped.count == (cut % len(LINE) not in (0, len(LINE) - 1))


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 3 * len(LINE)), st.binary(max_size=20))
def test_a_writer_begins_on_a_line_of_its_own(tmp_path_factory, cut, garbage):
    path = tmp_path_factory.mktemp("cut") / "r.jsonl"
    path.write_bytes((LINE * 3)[:cut] + garbage)
    before = read_lines(io.BytesIO(path.read_bytes()), "r")[0]
    with RecordWriter(path) as writer:
        writer.append(trial(8))
        writer.append(trial(9))
    records, _ = read_records(path)
    assert records == [*before, trial(8), trial(9)]


def test_killed_writers_cost_what_they_were_writing_and_no_more(tmp_path):
    path = tmp_path / "r.jsonl"
    command = [sys.executable, record_writers.__file__, str(path), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=True)
    refused, account = map(json.loads, done.stdout.splitlines())
    assert refused["refused"] == f"{path}: records cannot be written: File too large"
    with RecordWriter(path) as writer:
        writer.append(record_writers.record(10**6))
    records, skipped = read_records(path)
    trials = [record.trial for record in records]
    assert trials == [*range(len(trials) - 1), 10**6]
    assert set(account["told"]) <= set(trials)
    assert len(account["told"]) > account["kills"] == 30
    # The line that the limit on the file's size cut, and one a kill at most.
    assert 1 <= skipped.count <= 1 + account["kills"]
    assert skipped.kinds.keys() == {"not JSON"}
