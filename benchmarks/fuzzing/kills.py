"""Kind "kills" of fuzzing cases: a command that is killed while it works must leave complete files or none, and the
same command must then give right results.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from ..harness.vdla_command import ENTRY
from .drawing import Draw
from .networks import quantized_network
from .outcome import Outcome
from .written import problem_of

_LONGEST = 6.0
"""Largest number of seconds after which a command is killed; most commands end earlier by themselves."""


def kill_case(seed: int, index: int, folder: Path) -> Outcome:
    """Runs one command with a new cache in `folder`, kills it at a random moment, and runs the same command again.
    Returns the verdict on the file that the killed command left, and on the second run. `seed`, `index`: the seed of
    the campaign and the number of the case.
    """
    draw = Draw("kills", seed, index)
    model, cache = folder / "net.onnx", folder / "cache"
    cache.mkdir(0o700)
    model.write_bytes(quantized_network(Draw("a network to kill", seed, draw.below(5))).SerializeToString())
    command, written = draw.of(
        (
            (["compile", str(model), "--target", "llvm", "-o", str(folder / "net.tar")], folder / "net.tar"),
            (
                ["run", str(model), "--device", "cpu", "--outputs", str(folder / "out.npz")],
                folder / "out.npz",
            ),
            (
                ["run", str(model), "--config", "tiny", "--program-out", str(folder / "p.vdla")],
                folder / "p.vdla",
            ),
        )
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    running = subprocess.Popen(
        [*ENTRY, *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(draw.rng.uniform(0.0, _LONGEST))
    running.kill()
    running.wait()
    if written.exists() and (problem := problem_of(written)):
        return Outcome("wrong", f"what was left is not whole: {problem}")
    done = subprocess.run([*ENTRY, *command], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return Outcome("wrong", f"afterwards: exit code {done.returncode}: {done.stderr[-300:]}")
    if problem := problem_of(written):
        return Outcome("wrong", f"afterwards: {problem}")
    if left := [
        path.name for path in folder.iterdir() if path.name not in ("net.onnx", "cache", written.name)
    ]:
        # A killed process cannot remove the file that it was writing; the next process must not mistake it for another.
        hidden = [name for name in left if not name.startswith(".")]
        if hidden:
            return Outcome("wrong", f"left behind: {', '.join(hidden)}")
    return Outcome("right")
