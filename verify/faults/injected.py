"""Runs co-simulation with a fault in a copy of the RTL or of the simulator."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from .fault import TINY, Fault

CPU_SECONDS: Final = 900
"""CPU seconds after which a run with a fault counts as hung. Seconds of the clock would say nothing while other
programs use the processor.
"""

_PACKAGES: Final = ("util", "isa", "hw", "sim", "compiler", "verify", "codesign")


class FaultError(Exception):
    """Raised if the line to be changed does not occur exactly once in the file, or if the run failed without a verdict
    (for example because the faulty RTL cannot be built).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultVerdict:
    """Result of co-simulation with a fault. `program`: number of the first program on which simulator and RTL differ;
    `difference`: description of the difference. Both are None if no program shows a difference. They are 0 and "hangs"
    if the run took more CPU seconds than it may.
    """

    program: int | None
    difference: str | None


def source_folder(package: str) -> Path:
    """The source folder of the package vdla.`package`."""
    return Path(str(resources.files(f"vdla.{package}")))


def faulty_text(fault: Fault) -> str:
    """The text of the fault's file with the faulty line. Raises FaultError unless `fault.line` occurs exactly once."""
    path = source_folder(fault.package) / fault.file
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    places = [index for index, line in enumerate(lines) if line.strip() == fault.line]
    if len(places) != 1:
        raise FaultError(
            f"{fault.name}: {path.name} has {len(places)} lines {fault.line!r}; the table of faults needs exactly one"
        )
    lines[places[0]] = lines[places[0]].replace(fault.line, fault.faulty)
    return "".join(lines)


def run_fault(
    fault: Fault | None, *, programs: int, campaign: int = 1, cpu_seconds: int = CPU_SECONDS
) -> FaultVerdict:
    """Co-simulates `programs` programs of the seed `campaign` in a process of its own, with a copy of the sources that
    has `fault`. If `fault` is None, the sources are unchanged, and the machine is tiny. A process that takes more than
    `cpu_seconds` counts as hung.

    The source tree stays unchanged. Unless the fault is in the RTL, the simulator runs as plain Python, since compiling
    it would take minutes. A faulty RTL is built into a separate cache. Raises FaultError.
    """
    with tempfile.TemporaryDirectory(prefix="vdla-fault-") as directory:
        work = Path(directory)
        vdla = work / "vdla"
        vdla.mkdir()
        shutil.copy(Path(str(resources.files("vdla"))) / "__init__.py", vdla)
        for package in _PACKAGES:
            source = source_folder(package)
            if fault is not None and package == fault.package:
                shutil.copytree(source, vdla / package, ignore=shutil.ignore_patterns("__pycache__"))
                (vdla / package / fault.file).write_text(faulty_text(fault), encoding="utf-8")
            else:
                (vdla / package).symlink_to(source)
        environment = {**os.environ, "PYTHONPATH": str(work), "PYTHONWARNINGS": "ignore"}
        if fault is None or fault.package == "sim":
            environment["NUMBA_DISABLE_JIT"] = "1"
        else:
            environment["XDG_CACHE_HOME"] = str(work / "cache")
        command = [sys.executable, "-m", "vdla.verify.faults.worker", str(work)]
        command += [TINY if fault is None else fault.machine, f"{programs}", f"{campaign}", f"{cpu_seconds}"]
        result = subprocess.run(
            command, env=environment, cwd=work, capture_output=True, text=True, check=False
        )
    if result.returncode == -signal.SIGXCPU:
        return FaultVerdict(program=0, difference="hangs")
    if result.returncode:
        name = "without a fault" if fault is None else fault.name
        raise FaultError(f"{name}: {result.stderr.strip()[-2000:]}")
    return FaultVerdict(**json.loads(result.stdout.splitlines()[-1]))
