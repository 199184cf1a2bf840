"""A scheduler of dask.distributed with workers on this computer, each in a separate process."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

STARTING_SECONDS = 60.0


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[str]:
    """A context in which a scheduler with `workers` single-threaded workers runs; its value is the
    scheduler's address.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        place = Path(folder) / "scheduler.json"
        common = ["--scheduler-file", str(place), "--host", "127.0.0.1", "--no-dashboard"]
        worker = ["dask_worker", "--no-nanny", "--nthreads", "1", "--local-directory", folder, *common]
        for name, *options in [["dask_scheduler", "--port", "0", *common], *[worker] * workers]:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{name}", *options],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield _address(place, workers)


def _address(place: Path, workers: int) -> str:
    from distributed import Client

    deadline = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            address = json.loads(place.read_text())["address"]
            with Client(address, timeout=STARTING_SECONDS, set_as_default=False) as client:
                client.wait_for_workers(workers, timeout=STARTING_SECONDS)
            return address
        time.sleep(0.05)
    raise SystemExit(f"error: no scheduler with {workers} workers after {STARTING_SECONDS:.0f} s")
