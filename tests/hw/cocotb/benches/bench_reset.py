"""Reset and stop during a run, error responses of the memory, and correct runs after each of them."""

import os
import random

import cocotb
from cases import load_case
from cocotb.triggers import ClockCycles

from vdla.hw.axi import DECODE_ERROR, SLAVE_ERROR
from vdla.hw.bench import (
    ControlRegisters,
    LoadedProgram,
    MemoryModel,
    Scoreboard,
    Stalls,
    load_program,
    memory_bytes,
    reset,
    start_clock,
)
from vdla.hw.control import REGISTERS
from vdla.isa.assembler import assemble
from vdla.isa.config import load_config
from vdla.isa.program import bare_program

TINY = load_config("tiny")
SHORT = "VDLA_SHORT" in os.environ
"""Whether only some of the tests run, because the simulator is slow (Icarus)."""

FINE = {"running": False, "finished": True, "error": False, "quiet": True}
FAILED = {"running": False, "finished": False, "error": True, "quiet": True}


class Bench:
    """The DUT with a memory model and the smallest network, which can be launched repeatedly."""

    def __init__(self, dut, *, stalls: Stalls | None = None) -> None:
        self.dut, self.case = dut, load_case("network")
        start_clock(dut)
        self.memory = MemoryModel(
            dut, timing=TINY.memory, size=memory_bytes(self.case.program), stalls=stalls
        )
        self.control = ControlRegisters(dut)
        self.memory.start()

    async def launch(self) -> LoadedProgram:
        loaded = load_program(self.memory, self.case.program)
        await self.control.launch(loaded)
        return loaded

    async def correct_run(self, *, exact: bool = True) -> None:
        loaded = await self.launch()
        status = await self.control.wait(cycles=self.case.limit)
        assert status == FINE
        board = Scoreboard(self.case.expected, segments=self.case.program.segments)
        board.memory(self.memory.read(0, loaded.size))
        if exact:
            board.cycles(await self.control.cycles())
            board.counters(await self.control.counters())
        board.check()

    def segment(self, kind: str) -> tuple[int, int]:
        segments = [item for item in self.case.program.segments if item.kind == kind and item.size]
        return segments[0].address, segments[0].size


@cocotb.test()
async def reset_in_mid_run(dut) -> None:
    bench = Bench(dut)
    await reset(dut)
    rng = random.Random(2)
    for _ in range(1 if SHORT else 2):
        await bench.launch()
        assert bench.case.expected.cycles is not None
        await ClockCycles(dut.clk, rng.randrange(20, bench.case.expected.cycles - 100))
        assert (await bench.control.status())["running"]
        await reset(dut)
        assert await bench.control.status() == {
            "running": False, "finished": False, "error": False, "quiet": True,
        }  # fmt: skip
        assert await bench.control.read(REGISTERS["COUNT"]) == 0
        await bench.correct_run()


@cocotb.test(skip=SHORT)
async def launched_twice(dut) -> None:
    bench = Bench(dut)
    await reset(dut)
    for _ in range(2):
        await bench.correct_run()


@cocotb.test()
@cocotb.parametrize(
    (
        ("kind", "response"),
        [
            ("input", DECODE_ERROR),
            ("output", SLAVE_ERROR),
            ("instruction", SLAVE_ERROR),
            ("uop", DECODE_ERROR),
            ("constant", SLAVE_ERROR),
            ("output", DECODE_ERROR),
        ][: 2 if SHORT else None],
    )
)
async def memory_error(dut, kind: str, response: int) -> None:
    """An error response ends the run, is shown in the status register, and does not affect the next run. `kind`: the
    memory segment, or "instruction", with the byte whose access is answered by the AXI response `response`.
    """
    bench = Bench(dut)
    await reset(dut)
    program = bench.case.program
    address, size = memory_bytes(program) - 4096 - program.instructions.nbytes, program.instructions.nbytes
    if kind != "instruction":
        address, size = bench.segment(kind)
    bench.memory.fail(address + size // 2, 1, response=response)
    await bench.launch()
    assert await bench.control.wait(cycles=bench.case.limit) == FAILED
    bench.memory.heal()
    # The bit stays until it is cleared, and a launch does not clear it.
    await bench.launch()
    assert await bench.control.wait(cycles=bench.case.limit) == {**FINE, "error": True}
    await bench.control.clear_error()
    assert await bench.control.status() == FINE
    await bench.correct_run()


@cocotb.test(skip=SHORT)
async def memory_errors_under_stalls(dut) -> None:
    """The memory answers with errors at random addresses, while it also stalls addresses and data. The design must
    complete every transfer that it has offered; the memory model checks this.
    """
    stalls = Stalls(address=0.6, data=0.5, response=0.6, address_waits_for_data=True, seed=4)
    bench = Bench(dut, stalls=stalls)
    await reset(dut)
    rng = random.Random(7)
    ends = []
    places = [(item.address, item.size) for item in bench.case.program.segments if item.size]
    for _ in range(6):
        address, size = rng.choice(places)
        bench.memory.fail(address + rng.randrange(size), 1)
        await bench.launch()
        status = await bench.control.wait(cycles=bench.case.limit)
        assert status in (FINE, FAILED)
        ends.append(status["error"])
        bench.memory.heal()
        await bench.control.clear_error()
        await bench.correct_run(exact=False)
    assert sum(ends) > 2


@cocotb.test()
async def error_in_what_is_fetched_behind_the_end(dut) -> None:
    """An error response to an instruction fetched beyond FINISH is shown, whether or not the run has finished."""
    bench = Bench(dut)
    await reset(dut)
    text = "FINISH\n" * 12
    program = bare_program(TINY, assemble(text, TINY))
    loaded = load_program(bench.memory, program)
    bench.memory.fail(loaded.address + 16 * 11, 16)
    await bench.control.launch(loaded)
    status = await bench.control.wait(cycles=1000)
    assert status == {**FINE, "error": True}
    bench.memory.heal()
    await bench.control.clear_error()
    await bench.correct_run()


@cocotb.test()
async def stop_ends_a_program_that_waits_for_ever(dut) -> None:
    bench = Bench(dut)
    await reset(dut)
    program = bare_program(TINY, assemble("LOAD.INP pop_next\nFINISH\n", TINY))
    loaded = load_program(bench.memory, program)
    await bench.control.launch(loaded)
    try:
        await bench.control.wait(cycles=500)
    except TimeoutError as error:
        assert "not ended after 500 cycles" in str(error)
    else:
        raise AssertionError("the program ended")
    await bench.control.stop()
    status = await bench.control.wait(cycles=100)
    assert status == {"running": False, "finished": False, "error": False, "quiet": True}
    await bench.correct_run()


@cocotb.test(skip=SHORT)
async def stopped_at_any_time(dut) -> None:
    bench = Bench(dut, stalls=Stalls(address=0.5, data=0.3, response=0.5, seed=1))
    await reset(dut)
    rng = random.Random(3)
    assert bench.case.expected.cycles is not None
    for _ in range(8):
        await bench.launch()
        await ClockCycles(dut.clk, rng.randrange(1, bench.case.expected.cycles))
        await bench.control.stop()
        status = await bench.control.wait(cycles=400)
        assert status == {"running": False, "finished": False, "error": False, "quiet": True}
        bench.memory.restart()  # nothing is left over
    await bench.correct_run(exact=False)
