"""A scheduler of dask.distributed with workers, as separate processes that a test may kill."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from patience import LONG


@contextlib.contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A context with a running scheduler and `workers` worker processes, all of which it kills at its end. Yields
    (address of the scheduler, all processes, the scheduler's first). `folder`: for files of the processes.
    """
    place = folder / "scheduler.json"
    common = ["--scheduler-file", str(place), "--host", "127.0.0.1", "--no-dashboard"]
    commands = [["dask_scheduler", "--port", "0", *common]] + [
        ["dask_worker", "--no-nanny", "--nthreads", "1", "--local-directory", str(folder), *common]
    ] * workers
    started: list[subprocess.Popen[bytes]] = []
    try:
        for name, *options in commands:
            command = [sys.executable, "-m", f"distributed.cli.{name}", *options]
            started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        yield _address(place), started
    finally:
        for process in started:
            process.kill()
            process.wait()


def _address(place: Path) -> str:
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            return json.loads(place.read_text())["address"]
        time.sleep(0.02)
    raise AssertionError("the scheduler does not start")
