"""Proofs that a mutation changes nothing, on a small design: equivalent mutations are proven, others never are."""

import subprocess

import pytest
from campaign import representatives
from patience import LONG

from vdla.hw.synthesis.equivalence import Comparison, Outcome, prove_equivalent
from vdla.hw.synthesis.mutants import Mutants, Mutation
from vdla.hw.synthesis.yosys import yosys_command

# `unit.part` gets `go` only with an even `data`, counts to 4, and sends `sent` to nobody but `unit.other`.
VERILOG = r"""
module \vdla (input clk, input ask, input [7:0] data, output [7:0] y, output unset);
  \vdla.unit unit (.clk(clk), .ask(ask), .data(data), .y(y));
  \vdla.unset power_up (.clk(clk), .value(unset));
endmodule

module \vdla.unset (input clk, output value);
  \$dff #(.WIDTH(1), .CLK_POLARITY(1)) hold (.CLK(clk), .D(value), .Q(value));
endmodule

module \vdla.unit (input clk, input ask, input [7:0] data, output [7:0] y);
  wire [7:0] sent, got, value;
  \vdla.unit.part part (.clk(clk), .go(ask & ~data[0]), .data(data), .sent(sent), .value(value));
  \vdla.unit.other other (.clk(clk), .in(sent), .unread(value), .out(got));
  assign y = value ^ got;
endmodule

module \vdla.unit.other (input clk, input [7:0] in, input [7:0] unread, output [7:0] out);
  (* init = 8'h00 *) wire [7:0] held;
  \$dff #(.WIDTH(8), .CLK_POLARITY(1)) hold (.CLK(clk), .D(in), .Q(held));
  assign out = held;
endmodule

module \vdla.unit.part (input clk, input go, input [7:0] data, output [7:0] sent, output [7:0] value);
  (* init = 3'h0 *) wire [2:0] count;
  wire [2:0] after;
  \$mux #(.WIDTH(3)) wrap (.A(count + 3'h1), .B(3'h0), .S(count == 3'h4), .Y(after));
  \$dff #(.WIDTH(3), .CLK_POLARITY(1)) counter (.CLK(clk), .D(after), .Q(count));

  wire [7:0] counted, odd;
  \$mux #(.WIDTH(8)) never (.A(data), .B(8'hff), .S(count == 3'h6), .Y(counted));
  \$mux #(.WIDTH(8)) if_odd (.A(counted), .B(8'h00), .S(go & data[0]), .Y(odd));

  (* init = 2'h3 *) wire [1:0] ones;
  wire [1:0] swapped;
  \$dff #(.WIDTH(2), .CLK_POLARITY(1)) swap (.CLK(clk), .D(swapped), .Q(ones));
  assign swapped = {ones[0], ones[1]};

  reg [31:0] ring [63:0];
  wire [31:0] written, read;
  \$mux #(.WIDTH(32)) if_go (.A(32'h0), .B({4{data}}), .S(go), .Y(written));
  always @(posedge clk) if (go) ring[data[7:2]] <= written;
  assign read = ring[data[5:0]];

  assign value = odd & {4{ones}};
  assign sent = read[7:0] ^ {5'h0, count};
endmodule
"""


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> Mutants:
    work = tmp_path_factory.mktemp("design")
    (work / "vdla.v").write_text(VERILOG)
    script = "read_verilog -icells vdla.v; hierarchy -top vdla; proc; opt_clean; memory_collect; write_rtlil vdla.il"
    subprocess.run([*yosys_command(), "-q", "-p", script], cwd=work, check=True, timeout=LONG)
    return Mutants(verilog=VERILOG, netlist=(work / "vdla.il").read_text(), mutations=())


def compare(
    design: Mutants, module: str, cell: str, port: str, bit: int, mode: str
) -> tuple[Comparison, ...]:
    command = f"mutate -mode {mode} -module {module} -cell {cell} -port {port} -portbit {bit}"
    mutation = Mutation(
        number=1,
        mode=mode,
        cell=cell,
        port=port,
        bit=bit,
        module=module,
        path=module.partition(".")[2],
        command=command,
        line=0,
        code="",
    )
    return prove_equivalent(design, mutation, seconds=LONG, levels=1)


@pytest.mark.parametrize(
    ("cell", "port", "bit", "mode"),
    [
        ("never", "B", 3, "inv"),
        ("if_go", "A", 5, "const1"),
        ("swap", "Q", 1, "const1"),
    ],
    ids=["in no state", "not written", "initial value of an output"],
)
def test_what_changes_nothing_is_proven_in_its_module(
    design: Mutants, cell: str, port: str, bit: int, mode: str
):
    (only,) = compare(design, "vdla.unit.part", cell, port, bit, mode)
    assert (only.part, only.opaque, only.outcome) == ("unit.part", False, Outcome.PROVEN)


def test_what_inputs_never_show_is_proven_in_the_module_above(design: Mutants):
    inside, above = compare(design, "vdla.unit.part", "if_odd", "B", 2, "inv")
    assert (inside.outcome, inside.cycle) == (Outcome.DIFFERS, 0)
    assert (above.part, above.opaque, above.outcome) == ("unit", True, Outcome.PROVEN)


@pytest.mark.parametrize(
    ("cell", "port", "bit", "mode"),
    representatives(
        [
            ("wrap", "Y", 2, "const0"),
            ("never", "A", 7, "const0"),
            ("counter", "D", 1, "const1"),
            ("counter", "Q", 1, "inv"),
            ("swap", "Q", 1, "const0"),
            ("ring", "WR_DATA", 9, "inv"),
            ("ring", "WR_ADDR", 3, "const0"),
            ("ring", "WR_EN", 9, "const0"),
            ("ring", "WR_CLK", 0, "inv"),
            ("ring", "RD_ADDR", 0, "inv"),
            ("ring", "RD_DATA", 1, "const1"),
        ],
        0,
        always=[("counter", "Q", 1, "inv"), ("ring", "WR_EN", 9, "const0")],
    ),
)
def test_what_differs_does_so_in_every_part(design: Mutants, cell: str, port: str, bit: int, mode: str):
    comparisons = compare(design, "vdla.unit.part", cell, port, bit, mode)
    assert [(item.part, item.outcome) for item in comparisons] == [
        ("unit.part", Outcome.DIFFERS),
        ("unit", Outcome.DIFFERS),
    ]


def test_a_register_without_an_initial_value_may_have_any(design: Mutants):
    comparisons = compare(design, "vdla.unset", "hold", "Q", 0, "const0")
    assert [item.outcome for item in comparisons] == [Outcome.DIFFERS] * 2


@pytest.mark.parametrize("mode", representatives(["inv", "const1"], 0, always=["const1"]))
def test_another_clock_is_not_compared(design: Mutants, mode: str):
    comparisons = compare(design, "vdla.unit.part", "counter", "CLK", 0, mode)
    assert [item.outcome for item in comparisons] == [Outcome.UNDECIDED] * 2
    assert all("Assertion failed" in item.how for item in comparisons)


@pytest.mark.parametrize(
    ("cell", "port", "bit"),
    representatives(
        [("other", "in", 6), ("other", "out", 6), ("part", "sent", 3), ("part", "data", 1)],
        0,
        always=[("part", "data", 1)],
    ),
)
def test_ports_of_instances_count(design: Mutants, cell: str, port: str, bit: int):
    comparisons = compare(design, "vdla.unit", cell, port, bit, "inv")
    assert [(item.part, item.opaque, item.outcome) for item in comparisons] == [
        ("unit", True, Outcome.DIFFERS),
        ("unit", False, Outcome.DIFFERS),
        ("vdla", True, Outcome.DIFFERS),
    ]


def test_a_tool_that_fails_or_runs_out_of_time_proves_nothing(design: Mutants):
    comparisons = compare(design, "vdla.unit.part", "no_such_cell", "A", 0, "inv")
    assert {item.outcome for item in comparisons} == {Outcome.UNDECIDED}
    assert "no_such_cell" in comparisons[0].how
