"""Entries of the user's cache: built once and completely, or not at all, however many processes need them."""

import errno
import functools
import os
import stat
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from patience import LONG

from vdla.util import user_cache
from vdla.util.files import WriteError
from vdla.util.own_folders import check_own_folder
from vdla.util.user_cache import CacheError, cache_directory, cached, cached_or_made, find_cached


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    # A test that ran before may have filled the folder that replaces the cache for this process.
    fresh = functools.cache(user_cache._for_this_process.__wrapped__)
    monkeypatch.setattr(user_cache, "_for_this_process", fresh)


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(CacheError, match="part: Not a directory; set XDG_CACHE_HOME"):
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
        assert pool.submit(_builder, str(tmp_path)).result(timeout=LONG) == "whole"
    assert (tmp_path / "builds").read_text() == "xx"
    assert sorted(path.name for path in cache_directory("part").iterdir()) == ["x", "x.lock"]


def test_an_entry_that_is_not_valid_is_built_again():
    entry = cached("part", "x", lambda path: path.mkdir())

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


# --- entries of other makers ----------------------------------------------------------------------------


def write(text: str):
    return lambda path: path.write_text(text)


def folder_of(*texts: str):
    def build(path: Path) -> None:
        (path / "inner").mkdir(parents=True)
        for number, text in enumerate(texts):
            (path / "inner" / str(number)).write_text(text)

    return build


def test_a_changed_entry_is_built_again():
    entry = cached("part", "x", write("ours"))
    entry.write_text("theirs")
    assert find_cached("part", "x") is None
    assert cached("part", "x", write("ours again")).read_text() == "ours again"
    assert find_cached("part", "x") == entry


def test_an_entry_under_another_name_is_none():
    entry, other = cached("part", "x", write("ours")), cached("part", "y", write("other"))
    other.replace(entry)
    (other.parent / "y.lock").replace(entry.parent / "x.lock")
    assert find_cached("part", "x") is None
    assert find_cached("another", "x") is None


@pytest.mark.parametrize("change", ["contents", "name", "more", "fewer", "runs", "link"])
def test_a_folder_is_an_entry_as_a_whole(change: str):
    inner = cached("part", "x", folder_of("a", "b")) / "inner"
    assert find_cached("part", "x") == inner.parent
    if change == "contents":
        (inner / "1").write_text("c")
    elif change == "name":
        (inner / "1").rename(inner / "2")
    elif change == "more":
        (inner / "2").write_text("")
    elif change == "fewer":
        (inner / "1").unlink()
    elif change == "runs":
        (inner / "1").chmod(0o700)
    else:
        (inner / "1").rename(inner.parent.parent / "b")
        (inner / "1").symlink_to(inner.parent.parent / "b")
    assert find_cached("part", "x") is None


def test_an_entry_of_another_key_is_none():
    entry = cached("part", "x", write("ours"))
    key = entry.parent.parent / "key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and key.stat().st_size == 32
    before = key.read_bytes()
    assert find_cached("part", "x") == entry
    key.chmod(0o644)  # others have read it
    assert find_cached("part", "x") is None
    assert key.read_bytes() != before and stat.S_IMODE(key.stat().st_mode) == 0o600
    os.link(key, key.with_name("seen"))  # of another name too, so of another maker perhaps
    before = key.read_bytes()
    cached("part", "x", write("ours"))
    assert key.read_bytes() != before


def test_links_in_place_of_locks_and_keys_change_nothing(tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    lock = cached("part", "y", write("")).with_name("x.lock")
    lock.symlink_to(victim)
    with pytest.raises(CacheError, match="symbolic links"):
        cached("part", "x", write("ours"))
    lock.unlink()
    (lock.parent / "x.partial").symlink_to(victim)
    (lock.parent / "x").symlink_to(victim)
    assert cached("part", "x", write("ours")).read_text() == "ours"
    key = lock.parent.parent / "key"
    key.unlink()
    key.symlink_to(victim)
    with pytest.raises(CacheError, match="symbolic links"):
        cached("part", "x", write("ours"))
    assert victim.read_text() == "precious"


# --- folders of other makers ----------------------------------------------------------------------------


def test_folders_are_made_for_their_user_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a" / "b"))
    before = os.umask(0)
    try:
        entry = cached("part", "x", write("ours"))
    finally:
        os.umask(before)
    for folder in list(entry.parents)[:4]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder


@pytest.mark.parametrize("place", [".", "vdla", "vdla/part"])
@pytest.mark.parametrize("mode", [0o777, 0o772])
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, place: str, mode: int):
    cached("part", "x", write("ours"))
    (tmp_path / place).chmod(mode)
    with pytest.raises(CacheError, match=rf"lets other users write \(mode {mode:o}\); `chmod go-w "):
        cached("part", "x", write("again"))
    assert find_cached("part", "x") is None
    (tmp_path / place).chmod(0o700)
    assert cached("part", "x", write("again")).read_text() == "ours"


def test_a_folder_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch):
    cached("part", "x", write("ours"))
    monkeypatch.setattr(os, "geteuid", lambda: 61234)
    with pytest.raises(CacheError, match="belongs to the user "):
        cached("part", "x", write("again"))


def test_a_link_in_place_of_a_folder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "home").symlink_to("elsewhere")  # that of the whole cache is for its user to place
    cached("part", "x", write("ours"))
    part = tmp_path / "elsewhere" / "vdla" / "part"
    part.rename(tmp_path / "moved")
    part.symlink_to(tmp_path / "moved")
    with pytest.raises(CacheError, match="is a link"):
        cached("part", "x", write("ours"))


# --- a cache that cannot be used ------------------------------------------------------------------------


def test_without_a_cache_entries_are_made_for_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    tmp_path.chmod(0o777)
    user_cache.say_not_kept.cache_clear()
    entry = cached_or_made("part", "x", write("ours"))
    assert cached_or_made("part", "x", write("again")) == entry and entry.read_text() == "ours"
    assert find_cached("part", "x") == entry and tmp_path not in entry.parents
    cached_or_made("part", "y", write("other"))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: nothing is cached") and f"`chmod go-w {tmp_path}`" in line
    assert "XDG_CACHE_HOME" in line and not (tmp_path / "vdla" / "part").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_an_unusable_cache(number: int):
    full = OSError(number, os.strerror(number))

    def write_whole(path: Path) -> None:
        raise WriteError(path, full)

    def write(path: Path) -> None:
        raise full

    for build in (write, write_whole):
        with pytest.raises(CacheError, match=f"{os.strerror(number)}; set XDG_CACHE_HOME to"):
            cached("part", "x", build)
    with pytest.raises(WriteError):  # of a file that has nothing to do with the cache
        cached("part", "x", lambda path: write_whole(path.with_name("another")))


def test_a_way_may_lead_through_links_but_not_in_circles(tmp_path: Path):
    (tmp_path / "0" / "own").mkdir(mode=0o700, parents=True)
    for number in range(30):
        (tmp_path / str(number + 1)).symlink_to(str(number))
    check_own_folder(tmp_path / "30" / "own")
    (tmp_path / "1").unlink()
    (tmp_path / "1").symlink_to("30")
    with pytest.raises(OSError, match="symbolic links"):
        check_own_folder(tmp_path / "30" / "own")
