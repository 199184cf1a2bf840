"""Yosys as a program: `python -m vdla.hw.synthesis.yosys [-q] [-l LOG] [-p COMMANDS] [SCRIPT ...]`.

The package pyosys has Yosys as a native library only, not as a program. The options are Yosys' own: `-q` prints errors
alone, `-l` writes the log to a file, `-p` gives commands instead of a script's file. The exit code is 1 after an error.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from .tools import Report, run_tool, tool_version

PACKAGE: Final = "pyosys"
"""Name of the Python package that has Yosys."""
SCRIPT: Final = "synth.ys"
"""Name of the file with the commands of a run."""


def yosys_command() -> list[str]:
    """The first words of a command line that runs Yosys. Raises ToolError if the Python package pyosys is missing."""
    tool_version(PACKAGE)
    return [sys.executable, "-m", "vdla.hw.synthesis.yosys"]


def run_script(script: str, directory: Path, report: Report) -> str:
    """Writes the Yosys commands `script` to the file SCRIPT in `directory`, runs them there, and returns the log.
    `report` is called with lines of progress. Raises ToolError if Yosys is missing or fails.
    """
    (directory / SCRIPT).write_text(script, encoding="utf-8")
    return run_tool([*yosys_command(), SCRIPT], directory=directory, step=yosys_step, report=report)


def yosys_step(line: str) -> str | None:
    """The name of the step that begins with `line` of Yosys' log, such as "2.17. Executing ..."; None for
    other lines.
    """
    match = re.match(r"\d+(?:\.\d+)?\. Executing (.+?)\.?$", line)
    return match[1] if match else None


def main(arguments: Sequence[str]) -> None:
    """Runs Yosys in this process with the command line `arguments`, which the module's docstring lists; ends the
    process with exit code 1 at Yosys' first error.
    """
    parser = argparse.ArgumentParser(prog="python -m vdla.hw.synthesis.yosys", description="Yosys of pyosys")
    parser.add_argument("-q", action="store_true", help="print errors alone")
    parser.add_argument("-l", metavar="LOG", help="write the log to this file")
    parser.add_argument("-p", metavar="COMMANDS", help="run these commands, after the scripts")
    parser.add_argument("scripts", metavar="SCRIPT", nargs="*", help="a file with commands")
    options = parser.parse_args(arguments)
    if options.l is not None or options.q:
        # The library writes its log to the process's standard output, and errors to standard error too.
        log = os.open(options.l or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(log, 1)
        os.close(log)
    libyosys: Any = importlib.import_module("pyosys.libyosys")
    design = libyosys.Design()
    for script in options.scripts:
        libyosys.run_pass(f"script {script}", design)
    if options.p is not None:
        libyosys.run_pass(options.p, design)


if __name__ == "__main__":
    main(sys.argv[1:])
