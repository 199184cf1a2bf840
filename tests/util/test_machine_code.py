"""numba's compiled code is cached in a folder to which no other user can write."""

import errno
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numba
import pytest

from vdla.util import long_compilation, machine_code
from vdla.util.machine_code import compiled

TEXT = """
from vdla.util.machine_code import compiled

@compiled()
def double(value):
    return 2 * value
"""


def imported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module with the source TEXT, written to `folder` and imported."""
    (folder / "doubling.py").write_text(TEXT)
    spec = importlib.util.spec_from_file_location("doubling", folder / "doubling.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "doubling", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("mode", [0o700, 0o777, 0o1777])
def test_numbas_folder_of_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mode: int
):
    folder = tmp_path / "numba"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))
    assert imported(tmp_path, monkeypatch).double(21) == 42
    kept, said = list(folder.rglob("*.nbi")), capsys.readouterr().err
    if mode == 0o777:
        assert not kept and "warning: compiled code is not cached for later runs" in said
        assert f"`chmod go-w {folder}`" in said and said.count("\n") == 1
    else:
        assert kept and not said


def test_a_full_disk_costs_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", refuse)
    machine_code._told.cache_clear()
    double = imported(tmp_path, monkeypatch).double
    assert double(21) == 42 and double(0.5) == 1.0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: compiled code is not cached") and "No space left on device" in line


def test_what_numba_cannot_keep_runs_all_the_same():
    scope: dict[str, object] = {"compiled": compiled}
    exec("double = compiled()(lambda value: 2 * value)", scope)  # of no file
    assert scope["double"](21) == 42  # type: ignore[operator]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines printed about long compilations, in a process that has compiled nothing yet."""
    lines: list[str] = []
    monkeypatch.delenv(long_compilation.QUIET)
    monkeypatch.setattr(machine_code, "long_compilation", long_compilation.LongCompilation(lines.append))
    return lines


def test_a_long_wait_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]):
    monkeypatch.setattr(long_compilation, "SILENCE", 0.0)
    double = imported(tmp_path, monkeypatch).double
    assert double(21) == 42 and double(0.5) == 1.0
    assert told == [long_compilation.TEXT]


def test_a_quiet_session_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]):
    monkeypatch.setattr(long_compilation, "SILENCE", 0.0)
    monkeypatch.setenv(long_compilation.QUIET, "1")
    assert imported(tmp_path, monkeypatch).double(21) == 42
    assert told == []


def test_a_short_wait_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]):
    assert imported(tmp_path, monkeypatch).double(21) == 42
    assert told == []


def test_code_that_is_kept_needs_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]):
    imported(tmp_path, monkeypatch).double(21)
    monkeypatch.setattr(long_compilation, "SILENCE", 0.0)
    assert imported(tmp_path, monkeypatch).double(21) == 42
    assert told == []


def test_code_that_cannot_be_kept_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]
):
    monkeypatch.setattr(machine_code, "_is_own", lambda *_: False)
    monkeypatch.setattr(long_compilation, "SILENCE", 0.0)
    assert imported(tmp_path, monkeypatch).double(21) == 42
    assert told == [long_compilation.TEXT]


def test_python_is_told_and_a_quiet_command_is_not(vdla: Any, capsys: pytest.CaptureFixture[str]):
    waiting = long_compilation.LongCompilation()
    waiting.tell("compiling")
    assert capsys.readouterr().err == "compiling\n"
    for option, said in (("-q", ""), ("-v", "compiling\n")):
        vdla("config", "tiny", option)
        long_compilation.long_compilation.tell("compiling")
        assert capsys.readouterr().err == said
