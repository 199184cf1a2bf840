"""Makes the module around the accelerator that is used to measure its clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..verilog import TOP, Port

PINS_TOP: Final = "vdla_pins"
"""Name of the module around the accelerator with which its clock is measured."""

INSTANCE: Final = "design"
"""Name of the accelerator's instance in the module PINS_TOP."""


def pins_module(ports: Iterable[Port]) -> str:
    """Verilog of module `vdla_pins`, which has only four pins: it connects all `ports` of the inner module `vdla` to
    two shift registers, one for the inputs and one for the outputs.

    This has three advantages. Each path of the accelerator goes from register to register; positions and delays of pins
    do not affect the clock; a bus of any width fits the package. The shift registers do not count as part of the
    accelerator.
    """
    ports = list(ports)
    inputs = [port for port in ports if port.direction == "input"]
    outputs = [port for port in ports if port.direction == "output"]
    entering = 1 + sum(port.width for port in inputs)
    leaving = sum(port.width for port in outputs)
    connections = [".clk(clk)", ".rst(entering[0])"]
    for group, source, start in ((inputs, "entering", 1), (outputs, "outputs", 0)):
        place = start
        for port in group:
            connections.append(f".{port.name}({source}[{place + port.width - 1}:{place}])")
            place += port.width
    return "\n".join(
        [
            f"module {PINS_TOP}(input clk, input shift_in, input capture, output shift_out);",
            f"  reg [{entering - 1}:0] entering;",
            f"  reg [{leaving - 1}:0] leaving;",
            f"  wire [{leaving - 1}:0] outputs;",
            "  assign shift_out = leaving[" + str(leaving - 1) + "];",
            "  always @(posedge clk) begin",
            f"    entering <= {{entering[{entering - 2}:0], shift_in}};",
            f"    leaving <= capture ? outputs : {{leaving[{leaving - 2}:0], 1'b0}};",
            "  end",
            f"  {TOP} {INSTANCE}(" + ", ".join(connections) + ");",
            "endmodule",
            "",
        ]
    )
