"""Finds and runs the synthesis tools, with progress reports and error messages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from vdla.util.descendants import descendants, end
from vdla.util.errors import UserError
from vdla.util.user_cache import other_tools_cache, say_not_kept

Report = Callable[[str], None]
"""A function that is called with each progress line for the user: the tool and its step."""

HEARTBEAT: Final = 8.0
"""Seconds after which the current step of a tool is reported again."""

_SHOWN_LINES = 12
_CACHE = "yowasp"
"""Section of a process's private cache for YoWASP's files."""


class ToolError(UserError):
    """Raised if a synthesis tool is missing or failed; the message names the package to install or has the tool's last
    lines.
    """


class ToolFailure(ToolError):
    """Raised if a tool ended with an error. `log`: the tool's whole output; the error message shows its last lines."""

    def __init__(self, tool: str, code: int, log: str) -> None:
        self.log = log
        last = [line for line in log.splitlines() if line.strip()][-_SHOWN_LINES:]
        super().__init__("\n".join([f"{tool} failed with exit code {code}:", *last]))


def tool_name(command: Sequence[str]) -> str:
    """The name of the program that `command` runs; for `python -m a.b.c`, the last part of the module's name."""
    return command[2].rpartition(".")[2] if command[1:2] == ["-m"] else Path(command[0]).name


def end_tool(process: subprocess.Popen[str]) -> None:
    """Kills the tool `process` and its descendants, such as Yosys' ABC."""
    started = descendants([process.pid])
    process.kill()
    end(started)


def tool_version(package: str) -> str:
    """The installed version of the Python package `package`. Raises ToolError if it is missing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise ToolError(
            f'synthesis needs {package}, which is not installed: pip install "vdla[rtl]"'
        ) from None


def find_tool(name: str) -> str:
    """The path of program `name`, in the folder of this Python or else on PATH. Raises ToolError if it is missing."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ToolError(f'{name} is not on the path; synthesis needs it: pip install "vdla[rtl]"')
    return found


def run_tool(
    command: Sequence[str],
    *,
    directory: Path,
    step: Callable[[str], str | None],
    report: Report,
) -> str:
    """Runs `command` in `directory`, also for its temporary files, and returns its output.

    `step` is called with each line of output: it returns the name of the step of work that begins with this line, or
    None. `report` is called with a line that names the tool, the step and the seconds since the tool's start, when a
    step begins and every HEARTBEAT seconds. If the tool cannot cache its compiled code, it runs again with a cache for
    this process. If this function raises, the tool is killed. Raises ToolFailure if the tool ends with an error.
    """
    place = other_tools_cache(_CACHE)
    try:
        return _run_once(command, directory, place, step, report)
    except ToolFailure as failure:
        if place is not None or (why := _not_kept(failure.log)) is None:
            raise
        say_not_kept(f"{tool_name(command)}: {why}; set XDG_CACHE_HOME to another folder for caches")
    return _run_once(command, directory, other_tools_cache(_CACHE, make=True), step, report)


def _not_kept(log: str) -> str | None:
    """The reason why YoWASP could not write to its cache, from the log of a failed run; None for other failures."""
    last = log.rstrip().rpartition("\n")[2]
    found = re.match(r"\w*Error: \[Errno \d+\] ([^:]+)", last)
    return found[1] if found and "cache_file" in log else None


def _run_once(
    command: Sequence[str],
    directory: Path,
    cache: Path | None,
    step: Callable[[str], str | None],
    report: Report,
) -> str:
    """Runs `command` once in `directory` and returns its output. `step`: returns, for a line of output, the name of the
    step that begins with it, or None; `report` is called with lines of progress. `cache`: folder to use in place of the
    tool's own cache, or None. Raises ToolFailure if the tool ends with an error.
    """
    tool = tool_name(command)
    started = time.monotonic()
    current, lines = "starting", list[str]()
    done = threading.Event()
    # Temporary files are in `directory`, since a killed tool does not remove them.
    own = {"TMPDIR": str(directory)} | ({} if cache is None else {"YOWASP_CACHE_DIR": str(cache)})

    def beat() -> None:
        while not done.wait(HEARTBEAT):
            report(f"{tool}: {current} ({time.monotonic() - started:.0f} s)")

    with subprocess.Popen(
        [*command],
        cwd=directory,
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        watch = threading.Thread(target=beat, daemon=True)
        watch.start()
        compiles = (
            " (the very first run compiles the tool: some seconds)" if tool.startswith("yowasp") else ""
        )
        report(f"{tool}: starting{compiles}")
        try:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                name = step(line)
                if name is not None and name != current:
                    current = name
                    report(f"{tool}: {current} ({time.monotonic() - started:.0f} s)")
        except BaseException:
            end_tool(process)
            raise
        finally:
            done.set()
            watch.join()
    output = "".join(lines)
    if process.returncode:
        raise ToolFailure(tool, process.returncode, output)
    return output


def nextpnr_step(line: str) -> str | None:
    """The name of the phase that begins with `line` of nextpnr's log; None for other lines."""
    for start, name in _PHASES:
        if line.startswith(start):
            return name
    return None


_PHASES = (
    ("Info: Packing", "packing"),
    ("Info: Creating initial", "placing"),
    ("Info: Running main analytical placer", "placing"),
    ("Info: Running simulated annealing", "refining the placement"),
    ("Info: Running SA placement", "refining the placement"),
    ("Info: Routing globals", "routing clocks"),
    ("Info: Routing..", "routing"),
    ("Info: Checksum", "checking"),
)
