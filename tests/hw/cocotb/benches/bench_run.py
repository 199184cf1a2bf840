"""Programs on the accelerator's RTL, with the memory model of vdla.hw.bench."""

import os

import cocotb
from cases import Case, load_case

from vdla.hw.bench import (
    ControlRegisters,
    Expected,
    MemoryModel,
    Scoreboard,
    Stalls,
    TraceMonitor,
    load_program,
    memory_bytes,
    reset,
    start_clock,
)


async def run_case(dut, case: Case, *, stalls: Stalls | None = None, base: int = 0) -> None:
    program = case.program
    start_clock(dut)
    memory = MemoryModel(dut, timing=program.config.memory, size=base + memory_bytes(program), stalls=stalls)
    control, trace = ControlRegisters(dut), TraceMonitor(dut)
    memory.start()
    trace.start()
    await reset(dut)
    assert await control.digest() == program.config.digest
    loaded = load_program(memory, program, base=base)
    await control.launch(loaded)
    status = await control.wait(cycles=case.limit)
    assert status == {"running": False, "finished": True, "error": False, "quiet": True}
    # With stalls of the bus no model says how long it takes, but the bytes are the same.
    expected = case.expected
    if stalls is not None:
        expected = Expected(memory=expected.memory)
    board = Scoreboard(expected, segments=program.segments)
    board.memory(memory.read(base, loaded.size))
    board.cycles(await control.cycles())
    board.times(*trace.times(program.config, program.instructions))
    board.counters(await control.counters())
    board.check()
    memory.restart()
    # Nothing around the image was touched: the program behind it, and what lies below its base.
    assert memory.read(base + loaded.address, program.instructions.nbytes) == program.instructions.tobytes()
    assert not any(memory.read(0, base))


@cocotb.test(skip=os.environ.get("VDLA_STALLS") is not None)
async def exactly_as_simulated(dut):
    await run_case(dut, load_case())


@cocotb.test(skip=os.environ.get("VDLA_STALLS") is None)
async def with_stalls(dut):
    chance, waits = os.environ["VDLA_STALLS"].split(",")
    stalls = Stalls(
        address=float(chance), data=float(chance), response=float(chance),
        address_waits_for_data=waits == "1", seed=3,
    )  # fmt: skip
    await run_case(dut, load_case(), stalls=stalls, base=0x3000)
