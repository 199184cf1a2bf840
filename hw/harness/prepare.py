"""Converts Verilog for the harness: the result starts with random bits, is evaluated once a cycle, compiles quickly."""

from __future__ import annotations

import re

from ..verilog import TOP, ZERO_LOOP
from .registers import merge_registers

HARNESS_TOP = "harness"
"""Name of the top module; its only instance, the accelerator, is called `vdla`."""

_MEMORY = re.compile(r"^  initial begin\n((?:    \S+ ?\[\d+\] = \d+'\w+;\n)+)  end\n", re.MULTILINE)
_REGISTER = re.compile(
    r"^(  reg (?:\[[^\]]*\] )?(?!\\\$auto\$verilog_backend)(?:\\\S+ |\w+)) = \d+'\w+;", re.MULTILINE
)
_REPEATED = re.compile(r"((?:\\[^\s,]+ |[A-Za-z_]\w*)(?: ?\[\d+\])?)(?:, \1(?![\w\[ ]))+")
_PORT = re.compile(r"^  (input|output) (\[\d+:\d+\] )?(\w+);$", re.MULTILINE)


_STORE = re.compile(r"^  (\\vdla\.store\S*) +(\\\S+ |\w+) *\($", re.MULTILINE)
_ACTIVE_CYCLES = 127
"""Number of cycles for which the registers of STORE.POST's pipeline stay enabled after its last input; larger than the
latency of the pipeline (isa/timing.py).
"""


def harness_verilog(verilog: str, *, gate: bool = False) -> str:
    """Puts the design `verilog` (top module `vdla`, with trace ports) into a module `harness`, for Verilator only.

    The initial values of registers and memories are removed: Verilator sets zeros or random bits, and only the reset
    sets reset values, which reveals registers that lack a reset. Each input passes through a register of `harness`, so
    only registers drive the accelerator's logic, which is then evaluated once a cycle; the harness sets the inputs of a
    cycle in the cycle before it.

    With `gate` the registers in STORE.POST's pipeline keep their values while the pipeline is empty, which saves a
    third of the work on whole networks. Their values then differ from the accelerator's, but nothing reads them.
    """
    text = ZERO_LOOP.sub("", _MEMORY.sub(_without_zeros, verilog))
    text = _REGISTER.sub(r"\1;", text)
    # Yosys writes a sign extension as a list of bits, which Verilator would compute bit by bit.
    text = _REPEATED.sub(lambda found: f"{{{_count(found)}{{{found[1]}}}}}", text)
    store = _STORE.search(text) if gate else None
    if store is None or "read" not in _ports(text, f"{store[1]}.pipeline"):
        return merge_registers(text) + _wrapper(text, None)
    # Not gated: the components that prepare an instruction's constants, which work before the first read.
    gated = re.compile(re.escape(f"{store[1]}.pipeline") + r"(?!\S*constants)\S*")
    text = merge_registers(text, gated, f"{HARNESS_TOP}.post_active")
    return text + _wrapper(text, f"vdla.{store[2]}.pipeline.read")


def port_names(prepared: str) -> list[str]:
    """Names, in the order of their declaration, of the ports of the module `harness` in `prepared`, a result of
    `harness_verilog`.
    """
    start = prepared.index(f"module {HARNESS_TOP}(")
    return [name for _, _, name in _PORT.findall(prepared[start : prepared.index("endmodule", start)])]


def _ports(verilog: str, module: str) -> list[str]:
    """Names of the ports of `module`, an escaped Verilog name, in the text `verilog`; empty if it lacks the module."""
    listed = verilog.partition(f"module {module} (")[2].partition(");")[0]
    return [port.strip() for port in listed.split(",")]


def _without_zeros(found: re.Match[str]) -> str:
    """Removes a memory's initial values if all are zero, so that Verilator chooses them (zeros or random bits). Returns
    the text to put in place of the match `found`: empty in this case, else `found` unchanged, since a table of
    constants must keep its values.
    """
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
