"""Makes miters. A miter is a circuit that has a part of the design twice, once with a mutation; its one output is 1 if
the outputs of both copies differ.

A part is a module with its instances. To keep the proof small, some contents may be opaque, which means that they are
replaced by arbitrary values:

- A large memory is opaque. Its read data are arbitrary, but equal in both copies. Its inputs must be equal in both
  copies: clocks, enables and, where enabled, addresses and data.
- Instances without the mutation may be opaque. Their outputs are arbitrary, but equal in both copies. Their inputs must
  be equal in both copies.

Real memories and instances have equal outputs in both copies as long as their inputs are equal. So parts that are
proven equal with opaque contents are equal in the design; the reverse does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .mutants import Mutants, Mutation

MITER: Final = "miter.aig"
"""Name of the file to which the Yosys script of `miter_script` writes the miter. It is an AIGER file in which all
registers are 0 at first; its single output is 1 if the two parts differ.
"""

_SMALL: Final = 1024
"""Size in bits of the largest memory that becomes registers; larger ones are opaque."""


def write_sources(directory: Path, mutants: Mutants) -> None:
    """Writes to `directory` the files that the Yosys scripts for `mutants` read: the design's netlist vdla.il without
    mutations, and the models memory.v and register.v.
    """
    (directory / "vdla.il").write_text(mutants.netlist, encoding="utf-8")
    (directory / "memory.v").write_text(_MEMORY, encoding="utf-8")
    (directory / "register.v").write_text(_REGISTER, encoding="utf-8")


def miter_script(mutation: Mutation, part: str, *, opaque: bool) -> str:
    """The Yosys script that writes a miter to the file MITER: a circuit whose output is 1 if module `part` with
    `mutation` differs from the same module without the mutation. `opaque`: instances inside `part` that do not contain
    the mutation are opaque (their outputs are arbitrary, their inputs must be equal).

    The script fails if the AIGER file cannot express all differences, since the format has no clocks and no edges.
    """
    plain = [
        f"flatten \\{part}",
        f"rename \\{part} part",
        "opt_clean",
        "expose -evert part/t:\\vdla.*",
        "select -assert-none part/t:\\*",
        "techmap -map memory.v part",
        "setundef -undriven -expose part",
        "expose part/w:*opaque_input_*",
        "memory_map part",
        "opt_clean part",
        "dffunmap part",
        "techmap part",
        "opt_clean part",
        "select -assert-any part/o:*",
        "select -assert-none part/t:$_DFF_* part/i:clk %co1:+[C] %d",
        "select -assert-none part/t:$_DFF_N_ part/t:$_FF_",
    ]
    commands = [
        "read_rtlil vdla.il",
        f"hierarchy -top \\{part}",
        # Sets undefined values to 0 before the mutation; they could differ between the parts.
        "setundef -zero",
        *(_keep_all_but(_path(part, mutation.module)) if opaque else ()),
        "design -save base",
        *plain,
        "rename part gold",
        "design -stash gold",
        "design -load base",
        *_mutate(mutation),
        *plain,
        "rename part gate",
        "design -stash gate",
        "design -copy-from gold gold",
        "design -copy-from gate gate",
        "miter -equiv -flatten gold gate miter",
        "hierarchy -top miter",
        "techmap",
        "opt_clean",
        "aigmap",
        "opt_clean",
        f"write_aiger -zinit {MITER}",
    ]
    return "\n".join([*commands, ""])


def _path(part: str, module: str) -> list[str]:
    """Names of the modules from `part` down to `module`; a module's name begins with that of the module that contains
    it.
    """
    below = module.removeprefix(part).split(".")[1:]
    return [".".join([part, *below[:depth]]) for depth in range(len(below) + 1)]


def _keep_all_but(modules: Sequence[str]) -> list[str]:
    selection = " ".join(f"\\{module}" for module in modules)
    return ["setattr -mod -set keep_hierarchy 1 *", f"setattr -mod -unset keep_hierarchy {selection}"]


def _mutate(mutation: Mutation) -> list[str]:
    """The commands that make `mutation`. A mutation of a register's output is put after a buffer, since Yosys would
    otherwise move the register's initial value to the mutated wire.
    """
    if mutation.port != "Q":
        return [mutation.command]
    register = f"\\{mutation.module}/c:{mutation.cell}"
    return [
        f"dffunmap {register}",
        f"techmap -map register.v {register}",
        mutation.command.replace(" -port Q ", " -port Y "),
    ]


_REGISTER: Final = r"""
(* techmap_celltype = "$dff" *)
module register (CLK, D, Q);
  parameter WIDTH = 1;
  parameter CLK_POLARITY = 1;
  parameter [WIDTH-1:0] _TECHMAP_WIREINIT_Q_ = {WIDTH{1'bx}};
  input CLK;
  input [WIDTH-1:0] D;
  output [WIDTH-1:0] Q;

  wire _TECHMAP_FAIL_ = !CLK_POLARITY;
  wire [WIDTH-1:0] _TECHMAP_REMOVEINIT_Q_ = {WIDTH{1'b1}};

  (* init = _TECHMAP_WIREINIT_Q_ *)
  wire [WIDTH-1:0] value;
  genvar i;
  generate
    for (i = 0; i < WIDTH; i = i + 1)
      \$_DFF_P_ bit (.C(CLK), .D(D[i]), .Q(value[i]));
  endgenerate
  \$pos #(.A_SIGNED(0), .A_WIDTH(WIDTH), .Y_WIDTH(WIDTH)) _TECHMAP_REPLACE_ (.A(value), .Y(Q));
endmodule
"""

_MEMORY: Final = rf"""
(* techmap_celltype = "$mem_v2" *)
module memory (RD_CLK, RD_EN, RD_ARST, RD_SRST, RD_ADDR, RD_DATA, WR_CLK, WR_EN, WR_ADDR, WR_DATA);
  parameter MEMID = "";
  parameter SIZE = 1;
  parameter OFFSET = 0;
  parameter ABITS = 1;
  parameter WIDTH = 1;
  parameter INIT = 0;
  parameter RD_PORTS = 1;
  parameter RD_CLK_ENABLE = 0;
  parameter RD_CLK_POLARITY = 0;
  parameter RD_TRANSPARENCY_MASK = 0;
  parameter RD_COLLISION_X_MASK = 0;
  parameter RD_WIDE_CONTINUATION = 0;
  parameter RD_CE_OVER_SRST = 0;
  parameter RD_ARST_VALUE = 0;
  parameter RD_SRST_VALUE = 0;
  parameter RD_INIT_VALUE = 0;
  parameter WR_PORTS = 1;
  parameter WR_CLK_ENABLE = 0;
  parameter WR_CLK_POLARITY = 0;
  parameter WR_PRIORITY_MASK = 0;
  parameter WR_WIDE_CONTINUATION = 0;
  input [RD_PORTS-1:0] RD_CLK, RD_EN, RD_ARST, RD_SRST;
  input [RD_PORTS*ABITS-1:0] RD_ADDR;
  output [RD_PORTS*WIDTH-1:0] RD_DATA;
  input [WR_PORTS-1:0] WR_CLK;
  input [WR_PORTS*WIDTH-1:0] WR_EN;
  input [WR_PORTS*ABITS-1:0] WR_ADDR;
  input [WR_PORTS*WIDTH-1:0] WR_DATA;

  wire _TECHMAP_FAIL_ = SIZE * WIDTH <= {_SMALL};

  wire [RD_PORTS*WIDTH-1:0] any_data;
  assign RD_DATA = any_data;

  wire [4*RD_PORTS+WR_PORTS-1:0] opaque_input_control = {{RD_CLK, RD_EN, RD_ARST, RD_SRST, WR_CLK}};
  wire [WR_PORTS*WIDTH-1:0] opaque_input_enable = WR_EN;
  wire [WR_PORTS*WIDTH-1:0] opaque_input_data = WR_DATA & WR_EN;
  wire [RD_PORTS*ABITS-1:0] opaque_input_read;
  wire [WR_PORTS*ABITS-1:0] opaque_input_write;
  genvar i;
  generate
    for (i = 0; i < RD_PORTS; i = i + 1)
      assign opaque_input_read[i*ABITS +: ABITS] = RD_ADDR[i*ABITS +: ABITS] & {{ABITS{{RD_EN[i]}}}};
    for (i = 0; i < WR_PORTS; i = i + 1)
      assign opaque_input_write[i*ABITS +: ABITS] =
        WR_ADDR[i*ABITS +: ABITS] & {{ABITS{{|WR_EN[i*WIDTH +: WIDTH]}}}};
  endgenerate
endmodule
"""
