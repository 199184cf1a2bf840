"""Committed results of benchmarks: figures in a JSON file, with their provenance.

This module writes every file of benchmarks/results, so that each file states commit, date, computer, versions and
command of its figures, and pages made from the file can be compared with it.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from vdla.util.files import write_whole

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("numpy", "numba", "llvmlite", "onnx", "onnxruntime")
"""Packages whose versions every file records; a benchmark adds the packages that it compares with."""


def provenance(packages: Sequence[str] = ()) -> dict[str, Any]:
    """Commit, date, computer, versions (of the installed packages among `PACKAGES` and `packages`) and command of this
    process.

    The commit ends in "+changes" if the working tree has changes.
    """
    return {
        "commit": _commit(),
        "date": datetime.date.today().isoformat(),
        "machine": {"processor": processor_name(), "cores": os.cpu_count(), "system": platform.system()},
        "versions": {"python": platform.python_version(), **_versions((*PACKAGES, *packages))},
        "command": _command(),
    }


def write_results(
    name: str, figures: Mapping[str, Any], *, packages: Sequence[str] = (), compact: bool = False
) -> Path:
    """Writes `figures` and their provenance (under "written") to `name`.json in benchmarks/results, whole or not at
    all.

    `packages`: further packages whose versions the provenance has. `compact`: leaves out spaces, for files of many
    rows. Returns the path. Raises ProgramError if the file cannot be written.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    document = {"written": provenance(packages), **figures}
    if compact:
        text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    else:
        text = json.dumps(document, indent=2, allow_nan=False)
    write_whole(path, (text + "\n").encode())
    return path


def read_results(name: str) -> dict[str, Any]:
    """The results in the file `name`.json of benchmarks/results, as a JSON object; raises OSError if it is missing."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def processor_name() -> str:
    """The processor's name as reported by the system."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _commit() -> str:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    commit = git("rev-parse", "--short=12", "HEAD")
    if not commit:
        return "unknown"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results")
    return commit + ("+changes" if changed else "")


def _versions(packages: Sequence[str]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _command() -> str:
    """This process's command line; paths inside the repository are relative to its root, other paths are cut to the
    file name.
    """
    program, *words = sys.argv
    path = Path(program).resolve()
    if path.is_relative_to(ROOT) and path.suffix == ".py":
        program = f"python {path.relative_to(ROOT)}"
    else:
        program = path.name
    return " ".join((program, *(Path(word).name if Path(word).is_absolute() else word for word in words)))
