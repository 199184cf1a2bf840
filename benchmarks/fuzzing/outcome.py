"""Runs the command line `vdla` in this process for one fuzzing case (one damaged or random input), and judges the
result: right, rejected, or a failure.
"""

from __future__ import annotations

import io
import json
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from vdla.codesign.cli.main import main

Verdict: TypeAlias = Literal["right", "unchecked", "refused", "wrong", "traceback", "memory", "crash", "hang"]
"""Verdict on a fuzzing case: outputs are right; the model ran but ONNX Runtime cannot run it, so that there is nothing
to compare with (`unchecked`); the input was rejected (`refused`); or one of the failures `wrong` (result or message),
`traceback`, `memory` (exhausted), `crash` and `hang`.
"""
VERDICTS: tuple[Verdict, ...] = (
    "right", "unchecked", "refused", "wrong", "traceback", "memory", "crash", "hang",
)  # fmt: skip
FAILURES: tuple[Verdict, ...] = ("wrong", "traceback", "memory", "crash", "hang")
"""Verdicts that count as failures."""
REFUSALS = (2, 3)
"""Exit codes of a rejected input: 2 for an error in the input, 3 for a program that deadlocks or does not end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on a fuzzing case, with its evidence: the line of a rejection, the end of a traceback, or nothing.

    For random graphs, `operators`: operators of the graph; `blamed`: operators of the nodes that a rejection names.
    """

    verdict: Verdict
    detail: str = ""
    operators: Sequence[str] = ()
    blamed: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Called:
    """Result of one command line: its exit code, its standard output and error as text, and the traceback of an
    exception that escaped (None: there was none). `memory`: the exception was a MemoryError.
    """

    code: int
    out: str
    err: str
    trace: str | None
    memory: bool = False


def call(*arguments: str | Path) -> Called:
    """Runs `vdla ARGUMENTS` in this process; returns the result, also if the command raises an exception."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["vdla", *[str(argument) for argument in arguments]]
    code, trace, memory = 0, None, False
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        except MemoryError:
            memory, trace = True, traceback.format_exc()
        except Exception:
            trace = traceback.format_exc()
    sys.argv = before
    return Called(code=code, out=out.getvalue(), err=err.getvalue(), trace=trace, memory=memory)


def judge(called: Called, *, files: Sequence[Path] = ()) -> Outcome:
    """The verdict on the result `called` of one command line. If the command refused its input, none of `files` may
    exist.
    """
    if called.trace is not None:
        lines = called.trace.strip().splitlines()
        places = [line.strip() for line in lines if line.strip().startswith("File ")]
        return Outcome("memory" if called.memory else "traceback", f"{lines[-1]} at {places[-1]}")
    errors = [line for line in called.err.splitlines() if line.startswith("error: ")]
    if called.code in REFUSALS:
        if len(errors) != 1:
            return Outcome("wrong", f"{len(errors)} lines of errors: {called.err[-300:]!r}")
        if not errors[0].isprintable():
            # A terminal would interpret control characters in a name from the user's file.
            return Outcome("wrong", f"control characters in {errors[0][:300]!r}")
        if left := [path.name for path in files if path.exists()]:
            return Outcome("wrong", f"refused, but wrote {', '.join(left)}")
        return Outcome("refused", errors[0])
    if called.code:
        return Outcome("wrong", f"exit code {called.code}: {' / '.join(errors) or called.err[-300:]}")
    return Outcome("unchecked" if _unchecked(called.out) else "right")


def _unchecked(out: str) -> bool:
    """Whether a command reports, in the JSON object `out` that it printed, that it compared no outputs."""
    try:
        document = json.loads(out)
    except ValueError:
        return False
    return isinstance(document, dict) and "check" in document and document["check"] is None


def first_failure(outcomes: Sequence[Callable[[], Outcome]]) -> Outcome:
    """Calls the functions `outcomes` until one returns a failure, and returns this failure. Without a failure, returns
    the first "right" outcome, or else the last outcome.
    """
    best = Outcome("refused")
    for attempt in outcomes:
        outcome = attempt()
        if outcome.verdict in FAILURES:
            return outcome
        if best.verdict != "right":
            best = outcome
    return best
