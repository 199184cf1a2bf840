"""Areas, memories and longest paths of a small design in a small cell library."""

import re

import pytest

from vdla.hw.synthesis.cells import timing
from vdla.hw.synthesis.cells.area import area_by_module, units_of
from vdla.hw.synthesis.cells.sram import Scale, memory_figures, scale_of
from vdla.hw.synthesis.tools import ToolError


def test_areas_are_the_sums_of_cells(design):
    modules = area_by_module(design)
    count, adder = modules["adder"]
    assert (count, adder.flip_flops, adder.registers) == (2, 4, 4 * 8.0)
    # Two modules have one plain path: the second keeps its number.
    assert modules["adder$14"] == modules["adder"]
    total = units_of(modules)["top"]
    cells = sum(design.library.cells[kind].area * number for kind, number in design.cells.items())
    assert total.logic == pytest.approx(cells)
    assert total.memory_bits == 2048


def test_memories_are_cactis(design):
    at_45 = Scale()
    # One of the table's rows, and its double beyond the table.
    row = memory_figures(1024, 64, at_45)
    assert row.area == pytest.approx(40_000, rel=0.6) and 0.3 < row.access_ns < 2
    assert memory_figures(65536, 64, at_45).area == pytest.approx(2 * memory_figures(32768, 64, at_45).area)
    assert memory_figures(1024, 256, at_45).area == pytest.approx(4 * row.area, rel=0.3)
    assert memory_figures(48, 64, at_45).area < memory_figures(64, 64, at_45).area
    # The flip-flop of the test's library is 8 um2.
    assert scale_of(design.library).area == pytest.approx(8 / 4.522)


def test_the_timing_tool_is_given_one_of_many_alike(design, monkeypatch):
    """If a design has several equal modules, the timing tool OpenSTA gets only one of them. The test checks the netlist
    and the macros that are passed to the tool, and the path that is read from its report.
    """
    given = {}

    def run(design, netlist, macros, script, report):
        given.update(netlist=netlist, macros=macros, script=script)
        return REPORT

    monkeypatch.setattr(timing, "_run", run)
    (path,) = timing.longest_paths(design, report=lambda text: None)
    assert len(re.findall(r"^  sample_adder_12 ", given["netlist"], re.MULTILINE)) == 1
    assert len(re.findall(r"^  load_of_sample_adder_12 ", given["netlist"], re.MULTILINE)) == 1
    assert "cell (load_of_sample_adder_12)" in given["macros"]
    assert 'related_pin : "RD_CLK"; timing_type : rising_edge;' in given["macros"]
    assert (path.ns, path.stages, path.start, path.end) == (2.3, 2, "first.g7", "first.g9")
    assert path.units == (("top", 2.0),)


REPORT = """Startpoint: first/g7 (rising edge-triggered flip-flop clocked by clk)
Endpoint: first/g9 (rising edge-triggered flip-flop clocked by clk)
Path Group: clk
Path Type: max

   Delay     Time   Description
-----------------------------------------------------------
  0.0000   0.0000   clock clk (rise edge)
  0.0000   0.0000   clock network delay (ideal)
  0.0000   0.0000 ^ first/g7/CK (DFF)
  0.5000   0.5000 ^ first/g7/Q (DFF)
  1.5000   2.0000 v first/g3/Y (INV)
  0.0000   2.0000 v first/g9/D (DFF)
           2.0000   data arrival time

1000.0000 1000.0000   clock clk (rise edge)
  0.0000 1000.0000   clock network delay (ideal)
         1000.0000 ^ first/g9/CK (DFF)
 -0.3000  999.7000   library setup time
         999.7000   data required time
"""


def test_longest_paths_by_their_ends(design, monkeypatch):
    """The longest path of each unit is read from OpenSTA's report, which states the wrong cell for the start of a path;
    memory macros are recognized by their pins.
    """
    monkeypatch.setattr(timing.cache, "load", lambda name, suffix: None)
    monkeypatch.setattr(timing.cache, "save", lambda name, suffix, data: None)
    monkeypatch.setattr(timing, "_run", lambda *given: SUMMARY)
    found = timing.longest_by_end(design, report=lambda text: None)
    assert found == {"": (3.5, ":"), "adder": (2.25, "adder"), ":": (1.0, "")}


SUMMARY = """Startpoint                           Endpoint                                 Slack
----------------------------------------------------------------------------------

words/RD_DATA[3] (FLOP)              g9/D (FLOP)                              996.5000
first/g7/Q (FLOP)                    first/g9/D (FLOP)                        997.7500
g7/Q (FLOP)                          second/g9/D (FLOP)                       998.0000
g7/Q (FLOP)                          words/WR_DATA[0] (memory_64x32_r1w1_a6)  999.0000
"""


def test_a_missing_timing_tool_is_named(design, monkeypatch):
    monkeypatch.setattr(timing, "PROGRAM", "no-such-program")
    with pytest.raises(ToolError, match="apt-get install opensta"):
        timing.longest_paths(design, count=7, report=lambda text: None)
