"""Makes the top module of a bench: the accelerator, and the ID ports that AXI4 bus models require."""

from __future__ import annotations

import re

from ..verilog import TOP, Port, VerilogModule

BENCH_TOP = "vdla_bench"
"""Name of the top module, which contains the module `vdla`."""

ID_BITS = 4

_IDS = (
    Port(name="axi_arid", direction="output", width=ID_BITS),
    Port(name="axi_awid", direction="output", width=ID_BITS),
    Port(name="axi_rid", direction="input", width=ID_BITS),
    Port(name="axi_bid", direction="input", width=ID_BITS),
)


def bench_verilog(module: VerilogModule) -> str:
    """Verilog of `module` and of a module `vdla_bench` around it, which has the same ports and constant transaction
    IDs.

    The accelerator has no IDs, since memory serves its requests in order; models like those of cocotbext-axi need them.
    """
    clock = (
        Port(name="clk", direction="input", width=1),
        Port(name="rst", direction="input", width=1),
    )
    inner = (*clock, *module.ports)
    ports = ",\n".join(
        f"  {port.direction} wire [{port.width - 1}:0] {port.name}" for port in (*inner, *_IDS)
    )
    # Ports of one bit become scalars: VPI finds no edges in a clock that is a vector of one bit.
    ports = ports.replace(" [0:0]", "")
    connections = ",\n".join(f"    .{port.name}({port.name})" for port in inner)
    return (
        f"{module.text}\n"
        f"module {BENCH_TOP}(\n{ports}\n);\n"
        f"  assign axi_arid = 0;\n"
        f"  assign axi_awid = 0;\n"
        f"  {TOP} accelerator(\n{connections}\n  );\n"
        f"endmodule\n"
    )


def with_start_event(text: str) -> str:
    """The Verilog `text`, in which each `always @*` gets an event at time 0.

    Icarus 11 initializes registers before these blocks begin to wait, so a block that depends only on constants would
    never run and its outputs would stay X. Here each block also depends on a register that changes once, after the
    blocks have begun to wait.
    """
    text = _MODULE.sub(r"\1\n  reg bench_start = 0;\n  initial #0 bench_start = 1;", text)
    text = _STATEMENT.sub(r"always @* begin\n    if (bench_start) begin end\n    \1\n  end", text)
    return _BLOCK.sub("always @* begin\n    if (bench_start) begin end", text)


_MODULE = re.compile(r"^(module [^;]*;)", re.MULTILINE)
_STATEMENT = re.compile(r"always @\*\n *(.*;)$", re.MULTILINE)
_BLOCK = re.compile(r"always @\* begin$(?!\n    if \(bench_start\))", re.MULTILINE)
