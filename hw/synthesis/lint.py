"""Runs Verilator's lint on the generated Verilog, with a few waived warnings and the reasons for them."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from ..harness.toolchain import BuildError, require, verilator
from ..verilog import TOP

WAIVERS: Final = """\
`verilator_config
// What `verilator --lint-only -Wall vdla.vlt vdla.v` need not report of Verilog that Amaranth wrote.
// All modules stand in one file, which can only have the name of one of them.
lint_off -rule DECLFILENAME -file "*vdla.v"
// Every member of an interface and every step of an expression is a named wire; a receiver that needs some fields of a
// structure, or some bits of a sum, leaves the others unread. They take no hardware.
lint_off -rule UNUSEDSIGNAL -file "*vdla.v"
// Operands of different widths: Verilog extends the shorter one by its sign, which is what Amaranth's operators mean.
// (The other direction, bits that are cut off, is not waived but for the next line.)
lint_off -rule WIDTHEXPAND -file "*vdla.v"
// A word chosen from a vector by a shift of the whole vector: the bits above the word are the others.
lint_off -rule WIDTHTRUNC -file "*vdla.v" -match "*Assign RHS's SHIFTR generates*"
// Registers have their power-up value in their declaration, which FPGA tools read, and are assigned on clock edges.
lint_off -rule PROCASSINIT -file "*vdla.v"
"""
"""Text of a Verilator configuration file with the waivers; `vdla rtl` writes it as vdla.vlt."""


def lint(verilog: str, *, waivers: str = WAIVERS) -> list[str]:
    """The first line of each warning and error of `verilator --lint-only -Wall` for the text `verilog` (top module
    vdla), without the warnings that `waivers`, the text of a Verilator configuration file, turns off.

    Raises BuildError if Verilator or perl, which runs it, is missing, or if Verilator fails.
    """
    root, _ = verilator(user="lint")
    require("perl", user="lint")
    with tempfile.TemporaryDirectory(prefix="vdla-lint-") as directory:
        work = Path(directory)
        (work / "vdla.v").write_text(verilog, encoding="utf-8")
        (work / "vdla.vlt").write_text(waivers, encoding="utf-8")
        command = [str(root / "bin" / "verilator"), "--lint-only", "-Wall", "--top-module", TOP]
        result = subprocess.run(
            [*command, "vdla.vlt", "vdla.v"],
            cwd=work,
            env={**os.environ, "VERILATOR_ROOT": str(root)},
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.findall(r"^%(?:Warning|Error).*", result.stderr, re.MULTILINE)
    if result.returncode and not found:
        raise BuildError(f"Verilator failed: {result.stderr.strip()[-500:]}")
    return found
