"""Tests how the modules of a design are mapped to cells, one by one. Modules with equal contents are mapped only once;
the numbers of cells are right; and the mapped design is equivalent to the RTL.
"""

import re
import subprocess
from pathlib import Path

import pytest

from vdla.hw.synthesis.cells import mapping
from vdla.hw.synthesis.cells.area import area_by_module
from vdla.hw.synthesis.cells.design import map_flat, map_verilog
from vdla.hw.synthesis.cells.libraries import find_library
from vdla.hw.synthesis.cells.modules import canonical, instance_counts, split_modules
from vdla.hw.synthesis.cells.netlist import netlist
from vdla.hw.synthesis.liberty_syntax import LibertyError
from vdla.hw.synthesis.yosys import yosys_command

HERE = Path(__file__).parent
SAMPLE = (HERE / "sample.v").read_text()


def test_modules_that_do_the_same_have_one_text():
    modules = split_modules(SAMPLE)
    first, second = (canonical(modules[name], modules) for name in ("sample.adder$12", "sample.adder$14"))
    assert first.text == second.text
    assert first.original("left$0") == "left$9" and second.original("left$0") == "left$11"
    assert instance_counts("sample", modules) == {"sample": 1, "sample.adder$12": 2, "sample.adder$14": 2}


def test_each_text_is_mapped_once_and_kept(design, monkeypatch):
    def fail(*arguments, **options):
        raise AssertionError("Yosys was started")

    monkeypatch.setattr(mapping, "run_tool", fail)
    again = map_verilog(SAMPLE, find_library(HERE / "small.lib"), top="sample", report=lambda text: None)
    assert again.cells == design.cells
    assert design.modules["sample.adder$12"].kinds == design.modules["sample.adder$14"].kinds


def test_registers_and_memories(design):
    # Four sums of four bits; the memory of 2,048 bits is a macro with its read register.
    assert design.cells["DFF"] == 16
    assert [(macro.words, macro.width, macro.clocked) for macro in design.macros.values()] == [(64, 32, True)]
    assert design.modules["sample"].kinds["memory_64x32_r1w1_a6"] == 1


def test_a_whole_design_becomes_one_module(design):
    flat = map_flat(SAMPLE, find_library(HERE / "small.lib"), top="sample", report=lambda text: None)
    assert set(flat.modules) == {"sample"} and flat.counts == {"sample": 1}
    assert flat.cells["DFF"] == design.cells["DFF"] == 16
    assert flat.macros == design.macros and flat.modules["sample"].kinds["memory_64x32_r1w1_a6"] == 1
    # Each is kept under its own name.
    again = map_verilog(SAMPLE, find_library(HERE / "small.lib"), top="sample", report=lambda text: None)
    assert len(again.modules) == 3 and again.cells == design.cells
    (own,) = [area.logic for _, area in area_by_module(flat).values()]
    assert own <= sum(count * area.logic for count, area in area_by_module(design).values())


def test_a_net_that_drives_too_much_gets_buffers(design):
    # The macro's 32 inputs of data are driven by eight ports.
    top = design.modules["sample"]
    assert top.kinds["BUF"] > 4
    limit = design.library.may_drive(0.0)
    assert all(load <= limit for port in ("a", "b", "store") for load in top.loads[port])


def test_the_netlist_does_the_same(design, tmp_path):
    """The mapped netlist computes the same outputs as the Verilog source, for all inputs. Yosys proves this for the six
    cycles after a reset. For the proof, the memory in both designs is reduced from 64 words to four.
    """
    cells = """
module INV(input A, output Y); assign Y = ~A; endmodule
module BUF(input A, output Y); assign Y = A; endmodule
module NAND2(input A, B, output Y); assign Y = ~(A & B); endmodule
module NOR2(input A, B, output Y); assign Y = ~(A | B); endmodule
module DFF(input CK, D, output reg Q); always @(posedge CK) Q <= D; endmodule
"""
    (tmp_path / "gold.v").write_text(
        SAMPLE.replace("words[63:0]", "words[3:0]").replace("[address]", "[address[1:0]]")
    )
    mapped = netlist(design)
    assert "sample_adder_12 first (" in mapped and "sample_adder_14 fourth_3 (" in mapped
    mapped = mapped.replace("words [63:0]", "words [3:0]").replace("i < 64", "i < 4")
    mapped = re.sub(r"words\[((?:RD|WR)_ADDR)\[0 \+: 6\]\]", r"words[\1[1:0]]", mapped)
    (tmp_path / "gate.v").write_text(mapped.replace("same_7", "\\same$7 ") + cells)
    commands = ""
    for name in ("gold", "gate"):
        commands += (
            f"read_verilog {tmp_path}/{name}.v\nhierarchy -top sample\nproc\nflatten\nmemory -nordff\n"
        )
        commands += f"opt_clean\nrename sample {name}\ndesign -stash {name}\n"
    commands += "design -copy-from gold gold\ndesign -copy-from gate gate\n"
    commands += "miter -equiv -flatten -make_outputs gold gate miter\nhierarchy -top miter\n"
    commands += "sat -verify -seq 6 -set-at 1 in_rst 1 -set-init-zero -prove trigger 0 miter\n"
    (tmp_path / "prove.ys").write_text(commands)
    # A failed proof ends the process.
    done = subprocess.run(
        [*yosys_command(), tmp_path / "prove.ys"], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 0 and "SAT proof finished - no model found: SUCCESS!" in done.stdout


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    with pytest.raises(LibertyError, match="--liberty takes a Liberty file"):
        find_library(tmp_path / "none.lib")
    (tmp_path / "text.lib").write_text("no library")
    with pytest.raises(LibertyError, match="not a Liberty file"):
        find_library(tmp_path / "text.lib")
    monkeypatch.setattr("vdla.hw.synthesis.cells.libraries.DEBIAN", {"osu018": tmp_path / "osu018.lib"})
    with pytest.raises(LibertyError, match="apt-get install qflow-tech-osu018"):
        find_library()
