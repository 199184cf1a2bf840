"""Runs CUDA C++ kernels on numpy arrays: g++ compiles them to a program, which runs in its own process."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from vdla.util.user_cache import cached

from .jobs import HostLaunch, Job, Sparse, program_text

_HERE = Path(__file__).parent
_FLAGS = (
    *("-std=c++20", "-O0", "-g1", "-w", "-fno-strict-aliasing", "-ffp-contract=off"),
    # Registers that nothing was written to hold 0xFE.
    "-ftrivial-auto-var-init=pattern",
    # What the hardware would trap, or silently do wrongly.
    "-fsanitize=address,alignment,bounds,signed-integer-overflow,integer-divide-by-zero,shift,null",
    "-fno-sanitize-recover=all",
)
_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0:print_legend=0:color=never",
    "UBSAN_OPTIONS": "print_stacktrace=0:color=never",
}

_HEADER = "models.hpp"
"""Header that every compiled text includes. It is precompiled, which saves half of g++'s time."""
_MODELS = "-O2"
"""Optimization of the hardware models, which do most of the work and are compiled only once."""
_CACHE = os.environ.get("XDG_CACHE_HOME", "")
"""The cache folder of the test run. Tests that set another XDG_CACHE_HOME use it as well, so that the models are not
compiled again.
"""


class HostRunError(Exception):
    """Raised if a kernel does something that is an error or undefined on a GPU; the message states what and where."""


def run_source(
    source: str,
    launches: Sequence[HostLaunch],
    arrays: Mapping[str, np.ndarray | Sparse],
    *,
    orders: int = 3,
    seconds: int = 60,
) -> dict[str, np.ndarray]:
    """All arrays, by name, after the `launches` of the CUDA C++ text `source`, one after the other, on copies of
    `arrays`. `orders`, `seconds` and the errors are those of `run_jobs`.
    """
    job = Job(source=source, launches=launches, arrays=arrays)
    return run_jobs([job], orders=orders, seconds=seconds)[0]


def run_jobs(jobs: Sequence[Job], *, orders: int = 3, seconds: int = 60) -> list[dict[str, np.ndarray]]:
    """All arrays of each job, by name, after its launches; the given arrays are not changed. A sparse array is returned
    as the concatenation of its pieces.

    Every job is run in `orders` orders of blocks and threads (ascending, descending, then random ones), which must give
    the same bits. `seconds`: time limit of each job. Raises HostRunError for errors of kernels, UnknownText for text
    that the model does not support.
    """
    for job in jobs:
        if found := job.too_many_threads():
            raise HostRunError(found)
    data = b"".join(piece.tobytes() for job in jobs for _, _, piece in job.pieces)
    with tempfile.TemporaryDirectory(prefix="cuda_on_host") as folder:
        program = Path(folder) / "program"
        made = _models()
        inputs = [
            "-I",
            _HERE,
            "-include",
            made / _HEADER,
            "-x",
            "c++",
            "-",
            "-x",
            "none",
            *sorted(made.glob("*.o")),
        ]
        _compile([*inputs, "-o", program], program_text(jobs, orders, seconds))
        ran = subprocess.run([program], input=data, capture_output=True, env=_ENVIRONMENT)
    if ran.returncode:
        raise HostRunError(_message(ran.stderr.decode(errors="replace"), [job.source for job in jobs]))
    results: list[dict[str, np.ndarray]] = []
    at = 0
    for job in jobs:
        taken: dict[str, list[np.ndarray]] = {}
        for name, _, piece in job.pieces:
            part = np.frombuffer(ran.stdout, piece.dtype, piece.size, at).reshape(piece.shape).copy()
            taken.setdefault(name, []).append(part)
            at += piece.nbytes
        results.append({name: p[0] if len(p) == 1 else np.concatenate(p) for name, p in taken.items()})
    return results


@functools.cache
def _models() -> Path:
    """The folder of the compiled models and headers, in the user's cache; they are compiled if their sources have
    changed.
    """
    sources = [_HERE / "block.cpp", _HERE / "ptx.cpp", _HERE / "wgmma.cpp", _HERE / "bulk.cpp"]
    parts = [*_FLAGS, _MODELS, _HEADER, *(path.read_text() for path in sorted(_HERE.glob("*.[ch]pp")))]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", _CACHE)
        return cached("cuda_on_host", key, _compile_models(sources))


def _compile_models(sources: Sequence[Path]) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        folder.mkdir()
        for source in sources:
            _compile([_MODELS, "-c", source, "-o", folder / f"{source.stem}.o"])
        (folder / _HEADER).write_text('#include "cuda.hpp"\n#include "ptx.hpp"\n')
        _compile(["-I", _HERE, "-x", "c++-header", folder / _HEADER, "-o", folder / f"{_HEADER}.gch"])

    return build


def _compile(arguments: Sequence[str | Path], text: str = "") -> None:
    made = subprocess.run(["g++", *_FLAGS, *arguments], input=text, text=True, capture_output=True)
    if made.returncode:
        raise HostRunError(f"g++ does not take the text:\n{made.stderr[:4000]}")


def _message(errors: str, sources: Sequence[str]) -> str:
    """The relevant lines of the program's standard error `errors`: the models' own messages, or the sanitizer's with
    the lines of the kernel's text. `sources`: the text of each job.
    """
    reports = r"ERROR: AddressSanitizer: (.*)|(\S+: runtime error: .*)|^((?:READ|WRITE) of size \d+)"
    kept: list[str] = []
    for line in map(str.strip, errors.splitlines()):
        if line.startswith(("cuda_on_host: ", "in kernel")):
            kept.append(line.removeprefix("cuda_on_host: "))
        elif "use-after-poison" in line and "ERROR" in line:
            kept.append("memory outside of all arrays")
        elif found := re.search(reports, line):
            kept.append(next(filter(None, found.groups())))
        if found := re.search(r"kernels_(\d+)\.cu:(\d+)", line):
            text = sources[int(found[1])].splitlines()[int(found[2]) - 1].strip()
            kept.append(f"{found[0]}: {text}")
    return "\n".join(dict.fromkeys(kept[:12])) or errors[:2000] or "the program ended without a word"
