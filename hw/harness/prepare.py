"""Conversion of the Verilog for the harness: random at power-up, one evaluation a cycle, quick to compile."""

from __future__ import annotations

import re

from ..verilog import TOP, ZERO_LOOP
from .registers import merge_registers

HARNESS_TOP = "harness"
"""Name of the module around the accelerator; its only instance is called `vdla`."""

_MEMORY = re.compile(r"^  initial begin\n((?:    \S+ ?\[\d+\] = \d+'\w+;\n)+)  end\n", re.MULTILINE)
_REGISTER = re.compile(
    r"^(  reg (?:\[[^\]]*\] )?(?!\\\$auto\$verilog_backend)(?:\\\S+ |\w+)) = \d+'\w+;", re.MULTILINE
)
_REPEATED = re.compile(r"((?:\\[^\s,]+ |[A-Za-z_]\w*)(?: ?\[\d+\])?)(?:, \1(?![\w\[ ]))+")
_PORT = re.compile(r"^  (input|output) (\[\d+:\d+\] )?(\w+);$", re.MULTILINE)


_STORE = re.compile(r"^  (\\vdla\.store\S*) +(\\\S+ |\w+) *\($", re.MULTILINE)
_ACTIVE_CYCLES = 127
"""A number of cycles above the latency of STORE.POST's pipeline (isa/timing.py)."""


def harness_verilog(verilog: str, *, gate: bool = False) -> str:
    """`verilog` (top module `vdla` with trace ports) inside the module `harness`, for Verilator only.

    Registers and memories lose their initial values, so that they start from the simulation's (zeros or random bits)
    and only the reset sets their reset values, which reveals registers without reset. Every input passes through a
    register of `harness`. So only registers drive the accelerator's logic, which is evaluated once a cycle; the harness
    sets the inputs of a cycle in the cycle before it.

    With `gate` the pipeline of STORE.POST keeps its values while nothing is in it, which saves a third of the work on
    whole networks; values in its registers while it is empty differ from the accelerator's, but nothing reads them.
    """
    text = ZERO_LOOP.sub("", _MEMORY.sub(_without_zeros, verilog))
    text = _REGISTER.sub(r"\1;", text)
    # Yosys writes sign extension bit by bit, and Verilator would compute it bit by bit.
    text = _REPEATED.sub(lambda found: f"{{{_count(found)}{{{found[1]}}}}}", text)
    store = _STORE.search(text) if gate else None
    if store is None or "read" not in _ports(text, f"{store[1]}.pipeline"):
        return merge_registers(text) + _wrapper(text, None)
    # The components that prepare an instruction's constants work before the first read.
    gated = re.compile(re.escape(f"{store[1]}.pipeline") + r"(?!\S*constants)\S*")
    text = merge_registers(text, gated, f"{HARNESS_TOP}.post_active")
    return text + _wrapper(text, f"vdla.{store[2]}.pipeline.read")


def port_names(prepared: str) -> list[str]:
    """The ports of the module `harness` in the Verilog from `harness_verilog`."""
    start = prepared.index(f"module {HARNESS_TOP}(")
    return [name for _, _, name in _PORT.findall(prepared[start : prepared.index("endmodule", start)])]


def _ports(verilog: str, module: str) -> list[str]:
    """The names of the ports of `module`, an escaped Verilog name; empty if there is no such module."""
    listed = verilog.partition(f"module {module} (")[2].partition(");")[0]
    return [port.strip() for port in listed.split(",")]


def _without_zeros(found: re.Match[str]) -> str:
    """Replacement of a memory's initial values: empty if all are zero; a table of constants stays unchanged."""
    values = re.findall(r"= \d+'[hdb](\w+);", found[1])
    return "" if all(not value.strip("0") for value in values) else found[0]


def _count(found: re.Match[str]) -> int:
    return len(re.findall(re.escape(found[1]), found[0]))


def _wrapper(verilog: str, reading: str | None) -> str:
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
    if reading is not None:
        lines += [
            "  reg [6:0] post_cycles;",
            f"  wire post_active = {reading} | post_cycles != 0;",
            f"  wire post_starts = rst_registered | {reading};",
            "  always @(posedge clk)",
            f"    post_cycles <= post_starts ? 7'd{_ACTIVE_CYCLES} : post_cycles - {{6'd0, post_active}};",
        ]
    return "\n".join([*lines, f"  {TOP} vdla({', '.join(connections)});", "endmodule", ""])
