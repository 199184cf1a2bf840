"""Signals at unfavourable moments: one line, the exit code of the signal, and no files left behind."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest
from patience import hear_interrupts

from vdla.codesign.cli.interrupts import Interrupts, end_at_once

PROGRAM = """
import os, sys
class Sender:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Sender())
from vdla.codesign.cli.main import main
sys.argv = ["vdla", "config", "tiny"]
"""


def interrupted_at_import(module: str, number: int, end: str = "main()") -> subprocess.CompletedProcess[str]:
    """The result of `vdla config tiny` in a process that gets signal `number` when it begins to import `module`. `end`:
    Python code that the process runs; by default it runs the command.
    """
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=module, number=int(number)) + end],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=hear_interrupts,
    )


@pytest.mark.parametrize(
    ("module", "number", "word"),
    [
        ("vdla.codesign.cli.process", signal.SIGINT, "interrupted"),
        ("numpy._core.multiarray", signal.SIGINT, "interrupted"),
        ("vdla.codesign.cli.synth", signal.SIGTERM, "terminated"),
    ],
)
def test_signals_while_modules_are_imported(module: str, number: signal.Signals, word: str) -> None:
    done = interrupted_at_import(module, number)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", f"{word}\n")


def test_an_interrupt_at_the_end_of_the_process_changes_nothing() -> None:
    end = "import atexit\natexit.register(os.kill, os.getpid(), 2)\nmain()"
    done = interrupted_at_import("no module", signal.SIGINT, end)
    assert done.returncode == 0 and "configuration tiny" in done.stdout and done.stderr == ""


@contextlib.contextmanager
def default_handlers():
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def test_a_second_signal_waits_until_the_first_had_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[tuple[str, int]] = []
    monkeypatch.setattr(f"{Interrupts.__module__}.end_at_once", lambda *how: ended.append(how))
    with default_handlers():
        with Interrupts(last=False) as interrupts:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            assert interrupts.number == signal.SIGTERM and not ended
            monkeypatch.setattr(f"{Interrupts.__module__}.PATIENCE", 0.0)
            signal.raise_signal(signal.SIGINT)
        assert ended == [("terminated", 143)]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_signals_that_are_ignored_stay_so() -> None:
    with default_handlers():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with Interrupts(last=True) as interrupts:
            signal.raise_signal(signal.SIGINT)
        assert interrupts.number is None


def test_an_interrupt_that_python_drops_comes_again(capsys: pytest.CaptureFixture[str]) -> None:
    class Dying:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    with default_handlers(), Interrupts(last=False), pytest.raises(KeyboardInterrupt):
        one = Dying()
        del one
        for _ in range(1000):
            signal.sigtimedwait([], 0.01)
    assert capsys.readouterr().err == ""


def test_end_at_once_writes_its_reason() -> None:
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writes, 2)
        end_at_once("interrupted", 130)
    os.close(writes)
    with os.fdopen(reads) as said:
        assert said.read() == "interrupted\n"
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130
