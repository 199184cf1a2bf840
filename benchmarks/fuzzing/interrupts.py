"""Kind "interrupts": a command that gets a signal at a random moment must end soon, with one line, and
leave no files.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from pathlib import Path

from vdla.codesign.cli import interrupts
from vdla.codesign.cli.interrupts import ENDINGS

from ..harness.vdla_command import ENTRY
from .commands import CALLS, LEFT_BY_OTHERS, environment, prepare, without_limit
from .drawing import Draw
from .outcome import Outcome
from .written import problem_of

SECONDS = 10.0
"""Seconds within which a command must end after a signal; native code cannot be interrupted while it computes."""
ENTRY_FRAME = 'File "<string>", line 1, in <module>\nKeyboardInterrupt'
"""End of the traceback that Python prints if the signal arrives while the statement in `harness.vdla_command.ENTRY`
imports the command line.
"""
_MARK = "VDLA_FUZZ_CASE"
_IMPORTS = 0.6
"""Length in seconds of the beginning of a command (imports), in which a third of the signals are sent."""
_GONE_SECONDS = 3.0
"""Seconds within which the child processes of a command must end after the command has ended."""


def interrupt_case(seed: int, index: int, folder: Path) -> Outcome:
    """Runs one command line in `folder` and sends one signal, to its process alone or, like Ctrl-C, to its process
    group; returns the verdict.

    Case `index` runs command line number `index` modulo the length of CALLS. `seed` is the seed of the campaign; signal
    and delay follow from both.
    """
    one = CALLS[index % len(CALLS)]
    draw = Draw("interrupts", seed, index)
    prepare(folder, one.needs)
    number = draw.of((signal.SIGINT, signal.SIGINT, signal.SIGTERM))
    group = draw.chance(0.5)
    cold = one.seconds > 1.0 and draw.chance(0.5)
    delay = draw.rng.uniform(0.0, _IMPORTS if draw.chance(0.33) else 1.2 * one.seconds)
    mark = secrets.token_hex(8)
    words = one.words()
    how = f"{'cold, ' if cold else ''}{number.name} {'to all ' if group else ''}at {delay:.2f} s"
    said = f"`vdla {' '.join(words)}`, {how}"
    running = subprocess.Popen(
        [*ENTRY, *words],
        cwd=folder,
        env={**environment(folder, cold=cold), _MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=_prepared,
    )
    try:
        _, err = running.communicate(timeout=delay)
        return (
            Outcome("unchecked", "ended before")
            if not running.returncode
            else Outcome("wrong", f"{said}: {err}")
        )
    except subprocess.TimeoutExpired:
        pass
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if group else os.kill)(running.pid, number)
    sent = time.monotonic()
    try:
        _, err = running.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        _end(mark)
        running.communicate()
        return Outcome("hang", f"{said}: goes on for {SECONDS:.0f} s")
    problem = _problem(running.returncode, number, err) or _orphans(mark)
    for _, value in one.outputs:
        problem = problem or ((folder / value).exists() and problem_of(folder / value)) or None
    known = {*one.needs, *(value for _, value in one.outputs), "tmp", "cache"}
    left = [path.name for path in folder.iterdir() if path.name not in known]
    left += [f"tmp/{path.name}" for path in (folder / "tmp").iterdir() if path.name != LEFT_BY_OTHERS]
    problem = problem or (f"left behind: {', '.join(left)}" if left else None)
    if problem:
        kind = "traceback" if "Traceback" in problem else "wrong"
        return Outcome(kind, f"{said}, ended {time.monotonic() - sent:.1f} s later: {problem}")
    return Outcome("right" if running.returncode else "unchecked")


def _prepared() -> None:
    without_limit()
    # Shells make background commands ignore interrupts, and their children would too.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _problem(code: int, number: signal.Signals, err: str) -> str | None:
    """Checks how a command ended after it got the signal `number`. Returns a text about the error, or None if it ended
    correctly. `code`: its exit code; `err`: its text on standard error.
    """
    if _not_begun(err):
        return None
    if "Traceback" in err or "Exception ignored" in err:
        return f"exit code {code}: {err[-600:]}"
    if code in (0, -number):
        # The command had already ended, or Python did not handle signals yet.
        return None
    if code != 128 + number:
        return f"exit code {code}: {err[-600:]}"
    told = err.splitlines()[-1].startswith((ENDINGS[number], ENDINGS[signal.SIGINT])) if err else False
    return None if told else f"said {err[-600:]!r}"


def _not_begun(err: str) -> bool:
    """Whether the traceback `err` says that Python was interrupted before it imported the first module of this package,
    so that the package cannot prevent a traceback.
    """
    begun = str(Path(interrupts.__file__).parent) in err
    importing = "importlib._bootstrap" in err or ENTRY_FRAME in err
    return err.endswith("KeyboardInterrupt\n") and importing and not begun and "Exception ignored" not in err


def _marked(mark: str) -> list[int]:
    """The ids of the processes whose environment contains the text `mark`."""
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found


def _orphans(mark: str) -> str | None:
    """Processes that outlive their command, as text; they are found by the text `mark` in their environment, and
    killed. None if there are no such processes.
    """
    ends = time.monotonic() + _GONE_SECONDS
    while found := _marked(mark):
        if time.monotonic() > ends:
            lines = [_command(number) for number in found]
            _end(mark)
            return f"processes of the command still run: {', '.join(lines)}"
        time.sleep(0.05)
    return None


def _command(number: int) -> str:
    with contextlib.suppress(OSError):
        return (
            Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:150]
        )
    return "?"


def _end(mark: str) -> None:
    for number in _marked(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
