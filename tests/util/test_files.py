import errno
import os
import tracemalloc
from functools import partial
from pathlib import Path

import pytest

from vdla.compiler.runtime.archive import ArchiveError, describe_saved
from vdla.util import files
from vdla.util.errors import UserError
from vdla.util.files import copy_whole, write_whole
from vdla.util.user_files import (
    FileError,
    check_destination,
    check_directory,
    make_directory,
    read_whole,
    whole_directory,
)


def test_missing_file_is_named_with_its_role(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"nothing\.onnx: cannot read the model: No such file"):
        read_whole(tmp_path / "nothing.onnx", "model")


def test_a_small_file_is_read_into_little_memory(tmp_path: Path) -> None:
    """Reading a small file takes little memory, although files of up to 2 GB may be read. Regression: 2 GB were
    allocated for every file.
    """
    (tmp_path / "file").write_bytes(bytes(1000))
    tracemalloc.start()
    try:
        assert files.read_file(tmp_path / "file") == bytes(1000)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_destination_without_parent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no directory"):
        check_destination(None, tmp_path / "missing" / "out.npz")
    with pytest.raises(FileError, match="is a directory"):
        check_destination(tmp_path)
    check_destination(tmp_path / "out.npz")


@pytest.mark.parametrize(
    "check", [check_destination, check_directory, partial(check_directory, parents=True), make_directory]
)
def test_places_that_the_system_refuses_are_refused_early(tmp_path: Path, check) -> None:
    with pytest.raises(FileError, match="File name too long"):
        check(tmp_path / ("n" * 300))
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"Not a directory|there is no directory|is a file"):
        check(tmp_path / "file" / "inner")


def test_inputs_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "in.npz").write_bytes(b"")
    (tmp_path / "other.npz").write_bytes(b"")
    same = tmp_path / "in.npz"
    link = tmp_path / "link.npz"
    link.symlink_to(same)
    for output in (same, link):
        with pytest.raises(FileError, match="is an input of this command and would be overwritten"):
            check_destination(None, output, inputs=(None, tmp_path / "missing.npz", same))
    check_destination(
        tmp_path / "other.npz", tmp_path / "missing.npz", inputs=(same, tmp_path / "missing.npz")
    )


def test_directory_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "dumps"
    with whole_directory(target) as folder:
        assert folder is not None
        (folder / "00-first.txt").write_text("a", encoding="utf-8")
        assert not target.exists()
    assert [path.name for path in target.iterdir()] == ["00-first.txt"]
    assert list(tmp_path.iterdir()) == [target]


def test_directory_of_a_failure_never_appears(tmp_path: Path) -> None:
    def fail() -> None:
        with whole_directory(tmp_path / "dumps") as folder:
            assert folder is not None
            (folder / "00-first.txt").write_text("a", encoding="utf-8")
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_existing_directory_keeps_its_other_files(tmp_path: Path) -> None:
    target = tmp_path / "dumps"
    target.mkdir()
    (target / "mine.txt").write_text("mine", encoding="utf-8")
    (target / "00.txt").write_text("old", encoding="utf-8")
    with whole_directory(target) as folder:
        assert folder is not None
        (folder / "00.txt").write_text("new", encoding="utf-8")
    assert (target / "mine.txt").read_text(encoding="utf-8") == "mine"
    assert (target / "00.txt").read_text(encoding="utf-8") == "new"


def test_what_has_gone_cannot_be_copied(tmp_path: Path) -> None:
    """Copying a cache entry that another process has just deleted is an error of one line and leaves no file."""
    gone = tmp_path / "gone.tar"
    with pytest.raises(UserError, match=r"gone\.tar: cannot be read: No such file"):
        copy_whole(gone, tmp_path / "copy.tar")
    with pytest.raises(ArchiveError, match=r"gone\.tar: cannot be read: .*No such file"):
        describe_saved(gone)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "dumps").write_text("a file", encoding="utf-8")
    with pytest.raises(FileError, match="is a file"), whole_directory(tmp_path / "dumps"):
        pass


def test_pipes_and_links_stay_what_they_are(tmp_path: Path) -> None:
    pipe, file, link = tmp_path / "pipe", tmp_path / "file", tmp_path / "link"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        check_destination(pipe)
        write_whole(pipe, b"data")
        assert os.read(reader, 10) == b"data" and pipe.is_fifo()
    finally:
        os.close(reader)
    file.write_bytes(b"before")
    link.symlink_to(file)
    write_whole(link, b"after")
    assert link.is_symlink() and file.read_bytes() == b"after"
    assert sorted(tmp_path.iterdir()) == [file, link, pipe]


@pytest.mark.parametrize("calls", [0, 1, 2, 100])
def test_a_copy_is_whole_wherever_the_system_stops_copying(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """A copy is complete although the system refuses to copy inside the kernel, as some file systems do: at the first
    call or at a later one.
    """
    original, copy = tmp_path / "original", tmp_path / "copy"
    content = bytes(range(256)) * 100 + b"end"
    original.write_bytes(content)
    monkeypatch.setattr(files, "_COPY_BYTES", 10_000)
    left = iter(range(calls))

    def copy_some(source: int, destination: int, most: int) -> int:
        if next(left, None) is None:
            raise OSError(errno.EXDEV, "not here")
        return os.write(destination, os.read(source, most))

    monkeypatch.setattr(os, "copy_file_range", copy_some)
    copy_whole(original, copy)
    assert copy.read_bytes() == content


def test_a_copy_goes_into_a_pipe(tmp_path: Path) -> None:
    original, pipe = tmp_path / "original", tmp_path / "pipe"
    original.write_bytes(b"content")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        copy_whole(original, pipe)
        assert os.read(reader, 100) == b"content"
    finally:
        os.close(reader)
