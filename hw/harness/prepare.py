"""The form of the Verilog that the harness runs: random at power-up, one evaluation a cycle, quick to compile."""

from __future__ import annotations

import re

from ..verilog import TOP
from .registers import merge_registers

HARNESS_TOP = "harness"
"""Name of the module around the accelerator; its only instance is called `vdla`."""

_MEMORY = re.compile(r"^  initial begin\n((?:    \S+ ?\[\d+\] = \d+'\w+;\n)+)  end\n", re.MULTILINE)
_REGISTER = re.compile(
    r"^(  reg (?:\[[^\]]*\] )?(?!\\\$auto\$verilog_backend)(?:\\\S+ |\w+)) = \d+'\w+;", re.MULTILINE
)
_REPEATED = re.compile(r"((?:\\[^\s,]+ |[A-Za-z_]\w*)(?: ?\[\d+\])?)(?:, \1(?![\w\[ ]))+")
_PORT = re.compile(r"^  (input|output) (\[\d+:\d+\] )?(\w+);$", re.MULTILINE)


def harness_verilog(verilog: str) -> str:
    """`verilog` (top module `vdla` with trace ports) inside the module `harness`, for Verilator only.

    Registers and memories lose their initial values, so that they start from what the simulation is told (zeros or
    random bits) and only reset brings them to their reset values: what reset leaves out shows. Every input passes
    through a register of `harness`. So nothing but registers changes the accelerator's logic, which is evaluated
    once a cycle; the harness sets the inputs of a cycle in the cycle before it.
    """
    text = _MEMORY.sub(_without_zeros, verilog)
    text = _REGISTER.sub(r"\1;", text)
    # Yosys spells sign extension bit by bit, which Verilator would compute bit by bit.
    text = _REPEATED.sub(lambda found: f"{{{_count(found)}{{{found[1]}}}}}", text)
    text = merge_registers(text)
    return text + _wrapper(text)


def _without_zeros(found: re.Match[str]) -> str:
    """Nothing for a memory of zeros; a table of constants stays as it is."""
    values = re.findall(r"= \d+'[hdb](\w+);", found[1])
    return "" if all(not value.strip("0") for value in values) else found[0]


def _count(found: re.Match[str]) -> int:
    return len(re.findall(re.escape(found[1]), found[0]))


def _wrapper(verilog: str) -> str:
    start = verilog.index(f"module {TOP}(")
    ports = _PORT.findall(verilog[start : verilog.index("endmodule", start)])
    lines = [f"module {HARNESS_TOP}({', '.join(name for _, _, name in ports)});"]
    connections = []
    for direction, width, name in ports:
        lines.append(f"  {direction} {width}{name};")
        inside = name
        if direction == "input" and name != "clk":
            inside = f"{name}_registered"
            lines += [f"  reg {width}{inside};", f"  always @(posedge clk) {inside} <= {name};"]
        connections.append(f".{name}({inside})")
    return "\n".join([*lines, f"  {TOP} vdla({', '.join(connections)});", "endmodule", ""])
