"""The verdict on a case of the campaign, and the call of the command line for it."""

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
"""`unchecked`: it ran, and ONNX Runtime refuses the model, so nothing says whether it was right."""
VERDICTS: tuple[Verdict, ...] = (
    "right", "unchecked", "refused", "wrong", "traceback", "memory", "crash", "hang",
)  # fmt: skip
FAILURES: tuple[Verdict, ...] = ("wrong", "traceback", "memory", "crash", "hang")
"""Verdicts that must not occur."""
REFUSALS = (2, 3)
"""Exit codes of refusals: a mistake in the input; a program that deadlocks or does not end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict, and its evidence: the line of a refusal, the end of a traceback, or nothing.

    For random graphs also the graph's `operators`, and the operators of the nodes that a refusal names: `blamed`.
    """

    verdict: Verdict
    detail: str = ""
    operators: Sequence[str] = ()
    blamed: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Called:
    """One call of the command line: its exit code, its output, and the traceback of an exception that escaped."""

    code: int
    out: str
    err: str
    trace: str | None
    memory: bool = False


def call(*arguments: str | Path) -> Called:
    """`vdla ARGUMENTS` in this process."""
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
    """The verdict on one call; `files` may exist only if it succeeded."""
    if called.trace is not None:
        lines = called.trace.strip().splitlines()
        places = [line.strip() for line in lines if line.strip().startswith("File ")]
        return Outcome("memory" if called.memory else "traceback", f"{lines[-1]} at {places[-1]}")
    errors = [line for line in called.err.splitlines() if line.startswith("error: ")]
    if called.code in REFUSALS:
        if len(errors) != 1:
            return Outcome("wrong", f"{len(errors)} lines of errors: {called.err[-300:]!r}")
        if not errors[0].isprintable():
            # A name of the user's would reach their terminal as a command.
            return Outcome("wrong", f"control characters in {errors[0][:300]!r}")
        if left := [path.name for path in files if path.exists()]:
            return Outcome("wrong", f"refused, but wrote {', '.join(left)}")
        return Outcome("refused", errors[0])
    if called.code:
        return Outcome("wrong", f"exit code {called.code}: {' / '.join(errors) or called.err[-300:]}")
    return Outcome("unchecked" if _unchecked(called.out) else "right")


def _unchecked(out: str) -> bool:
    """Whether the JSON of a command says that it compared with nothing."""
    try:
        document = json.loads(out)
    except ValueError:
        return False
    return isinstance(document, dict) and "check" in document and document["check"] is None


def first_failure(outcomes: Sequence[Callable[[], Outcome]]) -> Outcome:
    """The first that failed, behind which none is tried; else one that was right; else the last."""
    best = Outcome("refused")
    for attempt in outcomes:
        outcome = attempt()
        if outcome.verdict in FAILURES:
            return outcome
        if best.verdict != "right":
            best = outcome
    return best
