"""Memory macros: black boxes that replace memories in synthesis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

LEAST_MACRO_BITS: Final = 1024
"""Number of bits from which on a memory becomes a macro. Smaller memories become flip-flops: the decoders and sense
amplifiers of a macro would be larger than its storage cells.
"""

PORTS: Final = ("RD_CLK", "RD_EN", "RD_ADDR", "RD_DATA", "WR_CLK", "WR_EN", "WR_ADDR", "WR_DATA")
"""Names of a macro's ports, equal to those of Yosys' memory cell. If there are several read or write ports, their bits
are concatenated, the first port in the lowest bits.
"""
OUTPUTS: Final = frozenset({"RD_DATA"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro:
    """A memory of `words` words of `width` bits. `reads`, `writes`: number of read ports and of write ports, each with
    an address of `address_bits` bits; a write port has an enable for each bit. `clocked`: read ports sample their
    address at the clock edge; else they are combinational.
    """

    words: int
    width: int
    reads: int
    writes: int
    address_bits: int
    clocked: bool

    @property
    def bits(self) -> int:
        """Number of bits of the memory."""
        return self.words * self.width

    @property
    def name(self) -> str:
        """Name of the cell (black box) that stands for the macro in a netlist; equal macros have equal names."""
        kind = "" if self.clocked else "_unclocked"
        return f"memory_{self.words}x{self.width}_r{self.reads}w{self.writes}_a{self.address_bits}{kind}"

    def port_widths(self) -> dict[str, int]:
        """Width in bits of each port of `PORTS`."""
        reads, writes = self.reads, self.writes
        return {
            "RD_CLK": reads,
            "RD_EN": reads,
            "RD_ADDR": reads * self.address_bits,
            "RD_DATA": reads * self.width,
            "WR_CLK": writes,
            "WR_EN": writes * self.width,
            "WR_ADDR": writes * self.address_bits,
            "WR_DATA": writes * self.width,
        }

    def parameters(self) -> dict[str, Any]:
        """The fields as keyword arguments of `Macro`."""
        return asdict(self)


def macro_of(cell: Mapping[str, Any]) -> Macro | None:
    """The macro for a `$mem_v2` cell of Yosys' JSON; None for a table of constants, for a mixture of clocked and
    combinational read ports, and for read ports with reset or write-through.
    """
    parameters = cell["parameters"]

    def number(name: str) -> int:
        return int(parameters[name], 2)

    reads, writes = number("RD_PORTS"), number("WR_PORTS")
    clocked = set(parameters["RD_CLK_ENABLE"][-reads:])
    resets = {*cell["connections"]["RD_SRST"], *cell["connections"]["RD_ARST"]}
    if writes == 0 or len(clocked) != 1 or resets - {"0", "x"} or number("RD_TRANSPARENCY_MASK"):
        return None
    return Macro(
        words=number("SIZE"),
        width=number("WIDTH"),
        reads=reads,
        writes=writes,
        address_bits=number("ABITS"),
        clocked=clocked == {"1"},
    )


def behaviour(macro: Macro) -> str:
    """Verilog of a macro for simulation: its words are zero at the start; the output of a clocked read port does not
    change without enable; a read in the cycle of a write to the same address returns the old word.
    """
    ports = ", ".join(PORTS)
    widths = macro.port_widths()
    declared = [f"  {'output' if p in OUTPUTS else 'input'} [{widths[p] - 1}:0] {p};" for p in PORTS]
    lines = [f"module {macro.name} ({ports});", *declared]
    lines += [f"  reg [{macro.width - 1}:0] words [{macro.words - 1}:0];", "  integer i;"]
    lines += ["  initial", f"    for (i = 0; i < {macro.words}; i = i + 1) words[i] = 0;"]
    bits, width = macro.address_bits, macro.width
    if macro.clocked:
        lines += [f"  reg [{macro.reads * width - 1}:0] RD_DATA = 0;"]
    for port in range(macro.reads):
        word = f"words[RD_ADDR[{port * bits} +: {bits}]]"
        place = f"RD_DATA[{port * width} +: {width}]"
        if macro.clocked:
            lines += [f"  always @(posedge RD_CLK[{port}]) if (RD_EN[{port}]) {place} <= {word};"]
        else:
            lines += [f"  assign {place} = {word};"]
    for port in range(macro.writes):
        word = f"words[WR_ADDR[{port * bits} +: {bits}]]"
        enable, data = f"WR_EN[{port * width} +: {width}]", f"WR_DATA[{port * width} +: {width}]"
        lines += [
            f"  always @(posedge WR_CLK[{port}])",
            f"    if ({enable} != 0) {word} <= ({data} & {enable}) | ({word} & ~{enable});",
        ]
    return "\n".join([*lines, "endmodule", ""])
