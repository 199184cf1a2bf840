"""Entries of the user's cache: built once, whole or not at all, whichever processes ask."""

import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from vdla.hw.user_cache import CacheError, cache_directory, cached


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(CacheError, match="part: Not a directory; XDG_CACHE_HOME"):
        cached("part", "x.so", lambda path: None)


def _builder(folder: str, fails: bool = False) -> str:
    def build(target: Path) -> None:
        with (Path(folder) / "builds").open("a") as file:
            file.write("x")
        target.mkdir()
        (target / "half").write_text("")
        if fails:
            os._exit(1)
        time.sleep(0.3)
        (target / "half").rename(target / "whole")

    return " ".join(sorted(path.name for path in cached("part", "x", build).iterdir()))


def test_one_process_builds_and_the_others_wait(tmp_path: Path):
    with ProcessPoolExecutor(3) as pool:
        answers = list(pool.map(_builder, [str(tmp_path)] * 3))
    assert answers == ["whole"] * 3
    assert (tmp_path / "builds").read_text() == "x"


def test_a_builder_that_dies_leaves_no_lock_and_nothing_half(tmp_path: Path):
    child = os.fork()
    if child == 0:
        _builder(str(tmp_path), fails=True)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert (cache_directory("part") / "x.partial" / "half").exists()
    with ProcessPoolExecutor(1) as pool:
        assert pool.submit(_builder, str(tmp_path)).result(timeout=20) == "whole"
    assert (tmp_path / "builds").read_text() == "xx"
    assert sorted(path.name for path in cache_directory("part").iterdir()) == ["x", "x.lock"]


def test_an_entry_that_is_not_valid_is_built_again():
    entry = cached("part", "x", lambda path: path.mkdir())
    (entry / "old").write_text("")

    def renew(path: Path) -> None:
        path.mkdir()
        (path / "new").write_text("")

    def is_new(path: Path) -> bool:
        return (path / "new").exists()

    assert cached("part", "x", renew) == entry and not is_new(entry)
    assert cached("part", "x", renew, is_new) == entry
    assert [path.name for path in entry.iterdir()] == ["new"]


def test_a_build_that_fails_leaves_what_was_there():
    entry = cached("part", "x", lambda path: path.mkdir())

    def fail(path: Path) -> None:
        path.mkdir()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cached("part", "x", fail, lambda path: False)
    assert entry.is_dir() and not (entry.parent / "x.partial").exists()
