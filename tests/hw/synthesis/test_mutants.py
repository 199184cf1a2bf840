"""Mutants of a small design: tests how mutations are drawn, and how a simulation of the netlist turns one of them on.
Mutants of whole machines run only in campaigns.
"""

from __future__ import annotations

import re

from vdla.hw.synthesis.mutants import SELECTION, make_mutants

VERILOG = r"""module \vdla.counters (input clk, input step, output [3:0] value);
  reg [3:0] count_0;
  always @(posedge clk) if (step) count_0 <= count_0 + 1;
  assign value = count_0;
endmodule

module vdla (input clk, input [3:0] a, input [3:0] b, output [3:0] y);
  wire [3:0] count;
  \vdla.counters counters (.clk(clk), .step(a[0] & b[0]), .value(count));
  assign y = (a + b) ^ count;
endmodule
"""


def test_mutations_are_drawn_once_and_chosen_by_a_file() -> None:
    mutants = make_mutants(VERILOG, count=6, seed=1, report=lambda text: None)
    assert [item.number for item in mutants.mutations] == [1, 2, 3, 4, 5, 6]
    assert {item.module for item in mutants.mutations} == {"vdla", "vdla.counters"}
    lines = VERILOG.splitlines()
    assert all(item.code == lines[item.line - 1].strip() for item in mutants.mutations if item.line)
    assert any(item.line for item in mutants.mutations)
    # The top takes the number from the file; it is no port of it. The harness presets counters by their names.
    top = re.search(r"^module vdla\((.*?)\);.*?^endmodule$", mutants.verilog, re.MULTILINE | re.DOTALL)
    assert top is not None and "mutation" not in top[1] and SELECTION in top[0]
    assert re.search(r"^  reg \[3:0\] count_0 ?;$", mutants.verilog, re.MULTILINE)
    assert "mutation" not in mutants.netlist
    again = make_mutants(VERILOG, count=6, seed=1, report=lambda text: None)
    assert again == mutants
