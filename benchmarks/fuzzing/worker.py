"""The process that runs fuzzing cases: `python -m vdla.benchmarks.fuzzing.worker` reads lines `KIND SEED INDEX`."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from vdla.codesign.network_run import load_simulator

from .kinds import KINDS

MEMORY = 4 * 2**30
"""Bytes of address space that a fuzzing case may use beyond those in use when the process starts. An input that needs
more must be rejected because of its size.
"""


def main() -> None:
    """Runs the fuzzing case of each line of standard input, until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Output that a library prints must not be read as an answer.
    os.dup2(2, 1)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    # Compilation that every process needs once must not count for the first case.
    load_simulator()
    _limit_memory()
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        kind, seed, index = line.split()
        with tempfile.TemporaryDirectory(prefix="vdla-fuzz-") as folder:
            outcome = KINDS[kind](int(seed), int(index), Path(folder))
        print(json.dumps(asdict(outcome)), file=answers, flush=True)


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    most = pages * resource.getpagesize() + MEMORY
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(
        resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
    )


if __name__ == "__main__":
    main()
