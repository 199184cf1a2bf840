"""Proves that a mutation has no effect: ABC compares a part of the design with the same part mutated."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from .miter import MITER, miter_script, write_sources
from .mutants import Mutants, Mutation
from .netlist import plain_path
from .tools import end_tool
from .yosys import SCRIPT, yosys_command

_PREPARATION: Final = 180.0
"""Time limit in seconds for Yosys to write the circuit that compares two parts of the design (file MITER). The largest
part takes a fraction of it.
"""

_SWEPT: Final = "swept.aig"
_BOUNDED: Final = "bounded.txt"
_REACHED: Final = "reached.txt"
"""Names of the files that ABC writes. _SWEPT: the comparing circuit (MITER) with equal signals merged. _BOUNDED: ABC's
status after the search of the first cycles. _REACHED: its status after the search of all states.
"""


class Outcome(StrEnum):
    """Result of comparing a part of the design with its mutated copy."""

    PROVEN = "proven"
    """The part and its mutated copy have equal outputs in all cycles from the initial state on, for all inputs."""
    DIFFERS = "differs"
    """For some inputs the part and its mutated copy differ. This is no proof: the design may never produce these
    inputs.
    """
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Result of comparing the instance `part` with and without a mutation.

    `opaque`: whether inner instances without the mutation were opaque (arbitrary outputs, inputs compared). `how`: the
    method of a proof, or the reason why the result is undecided. `cycle`: number, from 0, of a cycle in which the two
    differ.
    """

    part: str
    opaque: bool
    outcome: Outcome
    how: str = ""
    cycle: int | None = None

    def __str__(self) -> str:
        given = "inputs and other instances any" if self.opaque else "inputs any"
        match self.outcome:
            case Outcome.PROVEN:
                return f"the same in {self.part}, {given} ({self.how})"
            case Outcome.DIFFERS:
                return f"differs in {self.part} after {self.cycle} cycles, {given}"
            case Outcome.UNDECIDED:
                return f"undecided in {self.part}, {given} ({self.how})"


def prove_equivalent(
    mutants: Mutants, mutation: Mutation, *, seconds: float, levels: int = 2
) -> tuple[Comparison, ...]:
    """Tries to prove that `mutation` has no effect: compares larger and larger parts of the design with and without it,
    until a comparison is a proof. Returns all comparisons; only the last one can be a proof.

    `mutants`: the design with all its mutations. The parts are the mutated module, then up to `levels` of the modules
    around it. Each comparison takes up to `seconds` after its preparation. Raises ToolError if Yosys is missing.
    """
    done = list[Comparison]()
    with tempfile.TemporaryDirectory(prefix="vdla-equivalence-") as directory:
        work = Path(directory)
        write_sources(work, mutants)
        for part, opaque in _parts(mutants, mutation.module, levels):
            done.append(_compare(work, mutation, part, opaque, seconds))
            if done[-1].outcome is Outcome.PROVEN:
                break
    return tuple(done)


def _parts(mutants: Mutants, module: str, levels: int) -> Iterator[tuple[str, bool]]:
    """Yields the comparisons to make, in order, as (part, whether the instances inside it are opaque). The inputs of
    opaque instances are compared, and their outputs are arbitrary.

    The first comparison is of `module` with opaque instances, if it has instances. Then `module` is compared with its
    real instances. Then follow up to `levels` modules around it, from the inside out, with opaque instances.
    """
    if f"\nmodule \\{module}." in mutants.netlist:
        yield module, True
    yield module, False
    for _ in range(levels):
        module = module.rpartition(".")[0]
        if not module:
            return
        yield module, True


def _compare(work: Path, mutation: Mutation, part: str, opaque: bool, seconds: float) -> Comparison:
    def comparison(outcome: Outcome, how: str = "", cycle: int | None = None) -> Comparison:
        name = plain_path(part.partition(".")[2]) or part
        return Comparison(part=name, opaque=opaque, outcome=outcome, how=how, cycle=cycle)

    for name in (MITER, _SWEPT, _BOUNDED, _REACHED):
        (work / name).unlink(missing_ok=True)
    problem = _yosys(work, miter_script(mutation, part, opaque=opaque), _PREPARATION)
    if problem is not None:
        return comparison(Outcome.UNDECIDED, problem)
    # ABC replaces the module that Yosys passed to it, so Yosys ends with an error; the result is in ABC's files.
    _yosys(work, _abc_script(seconds), seconds)
    if _is_constant_0(work / _SWEPT):
        return comparison(Outcome.PROVEN, "equal registers, by induction")
    for name in (_BOUNDED, _REACHED):
        status = _status(work / name)
        if status.startswith("snl_SAT"):
            return comparison(Outcome.DIFFERS, cycle=int(status.split()[-1]))
    if _status(work / _REACHED).startswith("snl_UNSAT"):
        return comparison(Outcome.PROVEN, "reachable states")
    return comparison(Outcome.UNDECIDED, f"not within {seconds:g} s")


_ANY_MODULE: Final = r"""
module \any
  wire input 1 \a
  wire output 2 \y
  cell $_NOT_ $1
    connect \A \a
    connect \Y \y
  end
end
"""
"""RTLIL of a placeholder: Yosys must pass a module to ABC, whose script then reads the comparing circuit from the file
MITER instead.
"""


def _abc_script(seconds: float) -> str:
    """The Yosys script in which ABC decides whether the output of the comparing circuit (file MITER) is always 0, so
    that the two parts are equal.

    ABC merges registers, then all signals, that are always equal (lcorr, scorr): if the parts are equal, this mostly
    makes the output constant. Then it searches the first cycles (bmc3) and all states (pdr) for an output of 1.
    """
    short, long = max(1, int(seconds / 4)), max(1, int(seconds / 2))
    commands = [
        f"&read {MITER}",
        "&lcorr",
        "&put",
        "scorr",
        f"write_aiger {_SWEPT}",
        f"bmc3 -T {short}",
        f"write_status {_BOUNDED}",
        f"pdr -T {long}",
        f"write_status {_REACHED}",
    ]
    script = ";".join(commands).replace(" ", ",")
    return f"read_rtlil <<EOT{_ANY_MODULE}EOT\nabc -script +{script}\n"


def _yosys(work: Path, script: str, seconds: float) -> str | None:
    """Runs the Yosys commands `script` in the folder `work` for up to `seconds`; returns None, or the reason of a
    failure (also if the time did not suffice).
    """
    (work / SCRIPT).write_text(script, encoding="utf-8")
    command = [*yosys_command(), "-q", SCRIPT]
    with subprocess.Popen(command, cwd=work, stderr=subprocess.PIPE, text=True) as process:
        try:
            _, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            end_tool(process)
            return f"not within {seconds:g} s"
        except BaseException:
            end_tool(process)
            raise
    if process.returncode:
        return next((line for line in errors.splitlines() if line.startswith("ERROR")), "Yosys failed")
    return None


def _is_constant_0(aiger: Path) -> bool:
    """Whether the file `aiger` has no register, no gate and one output, the constant 0."""
    if not aiger.exists():
        return False
    return re.match(rb"aig (\d+) \1 0 1 0\n0\n", aiger.read_bytes()) is not None


def _status(path: Path) -> str:
    """The first line of a status file of ABC, for example "snl_SAT ... <output> <cycle>" or "snl_UNSAT ..."; empty if
    there is no file.
    """
    return path.read_text(encoding="utf-8").partition("\n")[0] if path.exists() else ""
