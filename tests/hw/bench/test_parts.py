"""Parts of the cocotb bench that need no simulator: scoreboard, program loader, generated top module, and the runner's
messages.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vdla.hw.bench import BuildError, Expected, Scoreboard, build, load_program, memory_bytes, run_bench
from vdla.hw.bench.wrapper import bench_verilog, with_start_event
from vdla.hw.verilog import Port, VerilogModule
from vdla.isa.assembler import assemble
from vdla.isa.config import load_config
from vdla.isa.errors import ProgramError
from vdla.isa.program import Program, Segment

TINY = load_config("tiny")


def program() -> Program:
    return Program(
        config=TINY,
        instructions=assemble("STORE.OUT\nFINISH\n", TINY),
        image=np.arange(100, dtype=np.uint8),
        segments=(Segment(name="x", kind="input", address=16, size=4),),
        group_of=np.full(2, -1, np.int32),
    )


class Bytes:
    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.restarted = 0

    def write(self, address: int, data: bytes) -> None:
        assert address + len(data) <= len(self.data)
        self.data[address : address + len(data)] = data

    def restart(self) -> None:
        self.restarted += 1


def test_a_program_is_put_where_the_fetch_unit_looks():
    one = program()
    memory = Bytes(0x2000 + memory_bytes(one))
    loaded = load_program(memory, one, base=0x2000, inputs={"x": b"\xfa\xfb\xfc\xfd"})
    assert (loaded.address, loaded.count, loaded.base, loaded.size) == (0x1000, 2, 0x2000, 100)
    image = bytearray(range(100))
    image[16:20] = b"\xfa\xfb\xfc\xfd"
    assert memory.data[0x2000:0x2064] == image
    assert memory.data[0x3000:0x3020] == one.instructions.tobytes()
    assert not any(memory.data[:0x2000]) and not any(memory.data[0x3020:])
    assert memory.restarted == 1


def test_a_program_that_cannot_be_loaded():
    memory = Bytes(0x4000)
    with pytest.raises(ProgramError, match="base 0x10 is not a multiple of 4096"):
        load_program(memory, program(), base=16)
    with pytest.raises(ProgramError, match="no segment 'y'; there are x"):
        load_program(memory, program(), inputs={"y": b""})
    with pytest.raises(ProgramError, match="segment 'x' has 4 bytes, but 3 are given"):
        load_program(memory, program(), inputs={"x": b"abc"})


def expected() -> Expected:
    return Expected(
        memory=np.arange(100, dtype=np.uint8),
        cycles=50,
        begin=np.array([1, 5]),
        end=np.array([4, 9]),
        counters={"load.busy": 3, "compute.gemm": 7},
    )


def scoreboard() -> Scoreboard:
    return Scoreboard(expected(), segments=program().segments)


def test_a_scoreboard_accepts_what_is_equal():
    board = scoreboard()
    board.memory(bytes(range(100)))
    board.cycles(50)
    board.times(np.array([1, 5]), np.array([4, 9]))
    board.counters({"load.busy": 3, "compute.gemm": 7, "store.busy": 0})
    board.check()
    assert board.compared == ["memory", "cycles", "begin", "end", "counters"]


def test_a_scoreboard_names_every_difference():
    board = scoreboard()
    seen = bytearray(range(100))
    seen[18], seen[40] = 0, 0
    board.memory(seen)
    board.cycles(51)
    board.times(np.array([1, 6]), np.array([4, -1]))
    board.counters({"load.busy": 4, "store.busy": 1})
    with pytest.raises(AssertionError) as caught:
        board.check()
    assert str(caught.value).splitlines()[:7] == [
        "memory: 2 of 100 bytes differ, first byte 18 (x, byte 2): expected 18, there is 0",
        "cycles: expected 50, took 51",
        "begin: 1 instructions differ, first instruction 1: expected cycle 5, was 6",
        "end: 1 instructions differ, first instruction 1: expected cycle 9, was -1",
        "counter load.busy: expected 3, is 4",
        "counter store.busy: expected 0, is 1",
        "counter compute.gemm: expected 7, the hardware lacks this counter",
    ]


def test_a_scoreboard_that_saw_nothing_or_something_else_fails():
    with pytest.raises(AssertionError, match="nothing was compared"):
        scoreboard().check()
    board = Scoreboard(Expected())
    board.memory(b"")
    board.cycles(1)
    with pytest.raises(AssertionError, match="nothing was compared"):
        board.check()
    board = scoreboard()
    board.memory(bytes(99))
    board.times(np.array([1]), np.array([4]))
    assert board.differences == [
        "memory: expected 100 bytes, there are 99",
        "begin: expected for 2 instructions, seen for 1",
        "end: expected for 2 instructions, seen for 1",
    ]


def test_the_top_module_passes_every_port_on():
    module = VerilogModule(
        text="module vdla(clk, rst, axi_araddr, go);\nendmodule",
        ports=(
            Port(name="axi_araddr", direction="output", width=40),
            Port(name="go", direction="input", width=1),
        ),
    )
    text = bench_verilog(module)
    assert "  output wire [39:0] axi_araddr,\n  input wire go,\n" in text
    for name in ("clk", "rst", "axi_araddr", "go"):
        assert f"    .{name}({name})" in text
    for name in ("axi_arid", "axi_awid"):
        assert f"  output wire [3:0] {name}" in text and f"  assign {name} = 0;" in text


def test_every_block_has_an_event_at_time_0():
    text = (
        "module a(x,\n  y);\n  reg z;\n  always @* begin\n    z = 1;\n  end\n"
        "  always @*\n    q[1:0] = r;\nendmodule\nmodule b();\nendmodule\n"
    )
    assert with_start_event(text) == (
        "module a(x,\n  y);\n  reg bench_start = 0;\n  initial #0 bench_start = 1;\n  reg z;\n"
        "  always @* begin\n    if (bench_start) begin end\n    z = 1;\n  end\n"
        "  always @* begin\n    if (bench_start) begin end\n    q[1:0] = r;\n  end\nendmodule\n"
        "module b();\n  reg bench_start = 0;\n  initial #0 bench_start = 1;\nendmodule\n"
    )


@pytest.mark.parametrize(
    ("simulator", "message"),
    [
        ("icarus", r"iverilog is not on the path; the bench needs it \(Debian: apt-get install iverilog\)"),
        (
            "verilator",
            r"g\+\+ is not on the path; the bench needs it \(Debian: apt-get install g\+\+ make perl\)",
        ),
    ],
)
def test_a_missing_tool_is_named(simulator, message, monkeypatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=message) as caught:
        build(TINY, simulator=simulator)
    assert "\n" not in str(caught.value)
    with pytest.raises(BuildError, match=message):
        run_bench(tmp_path / "bench.py", TINY, results=tmp_path, simulator=simulator)


def test_without_cocotb_one_line_says_what_to_install():
    text = (
        "import sys\n"
        "from importlib import util\n"
        "there = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'cocotb' else there(name, *rest)\n"
        "import vdla.hw.bench\n"
    )
    outcome = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert outcome.returncode == 1
    last = outcome.stderr.splitlines()[-1]
    assert last == "vdla.util.errors.UserError: vdla.hw.bench needs cocotb: pip install 'vdla[bench]'"
