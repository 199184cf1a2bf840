"""`verilator --lint-only -Wall` finds nothing in the generated Verilog, and finds seeded mistakes."""

import dataclasses
import itertools

import pytest
from campaign import representatives
from tiny_verilog import tiny_verilog

from vdla.hw.synthesis.lint import WAIVERS, lint
from vdla.hw.verilog import generate_verilog
from vdla.isa.config import load_config

TINY = load_config("tiny")
MACHINES = {
    "tiny": TINY,
    "batch 2": dataclasses.replace(TINY, batch=2),
    "without extensions": dataclasses.replace(TINY, extensions=()),
    "edge8": load_config("edge8"),
}


@pytest.mark.parametrize("name", representatives(MACHINES, 0, always=["tiny"]))
def test_the_generated_verilog_is_clean(name: str):
    assert lint(tiny_verilog() if name == "tiny" else generate_verilog(MACHINES[name])) == []


def faulty(statement: str) -> str:
    ports = "input clk, input [7:0] a, input [3:0] b, output reg [3:0] q"
    return f"module vdla({ports});\n  {statement}\nendmodule\n"


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("always @(posedge clk) q <= a + {4'h0, b};", "WIDTHTRUNC"),
        ("wire [3:0] nothing; always @(posedge clk) q <= nothing;", "UNDRIVEN"),
        ("always @* if (b == 4'd1) q = a[3:0];", "LATCH"),
        ("always @(posedge clk) case (b) 4'd1: q <= a[3:0]; 4'd1: q <= b; default: ; endcase", "CASEOVERLAP"),
        ("wire [3:0] x = ~x & b; always @(posedge clk) q <= x;", "UNOPTFLAT"),
        ("always @* case (b) 4'd1: q = a[3:0]; endcase", "CASEINCOMPLETE"),
    ],
)
def test_faults_are_not_waived(statement: str, rule: str):
    assert any(rule in line for line in lint(faulty(statement)))


def test_every_waiver_gives_its_reason():
    lines = WAIVERS.splitlines()
    for before, line in itertools.pairwise(lines):
        if line.startswith("lint_off"):
            assert before.startswith("//"), line
            assert "-rule" in line and "-file" in line
