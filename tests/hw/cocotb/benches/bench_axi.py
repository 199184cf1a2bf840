"""The memory port works with the AXI models of cocotbext-axi, which stall all five channels at random."""

import itertools
import logging
import os
import random

import cocotb
from cases import load_case
from cocotbext.axi import AxiBus, AxiRam

from vdla.hw.bench import (
    AxiMonitor,
    ControlRegisters,
    LoadedProgram,
    Scoreboard,
    load_program,
    memory_bytes,
    reset,
    start_clock,
)
from vdla.isa.assembler import assemble
from vdla.isa.config import load_config
from vdla.isa.program import bare_program
from vdla.isa.timing import write_burst_beats

TINY = load_config("tiny")
FILL = 0xA5


def pause(rng: random.Random, chance: float):
    return (rng.random() < chance for _ in itertools.count())


class Bench:
    def __init__(self, dut, *, size: int, chance: float) -> None:
        logging.getLogger("cocotb.vdla_bench").setLevel(logging.WARNING)  # the models name every burst
        self.monitor = AxiMonitor(dut, timing=TINY.memory)
        self.control = ControlRegisters(dut)
        self.ram = AxiRam(AxiBus.from_prefix(dut, "axi"), dut.clk, dut.rst, size=size)
        self.size = size
        rng = random.Random(int(10 * chance))
        channels = (
            self.ram.write_if.aw_channel,
            self.ram.write_if.w_channel,
            self.ram.write_if.b_channel,
            self.ram.read_if.ar_channel,
            self.ram.read_if.r_channel,
        )
        for channel in channels:
            channel.set_pause_generator(pause(rng, chance))
        self.ram.write(0, bytes([FILL]) * size)

    async def run(self, dut, loaded: LoadedProgram, limit: int) -> None:
        await self.control.launch(loaded)
        status = await self.control.wait(cycles=limit)
        assert status == {"running": False, "finished": True, "error": False, "quiet": True}
        self.monitor.finish()


async def start(dut, *, size: int, chance: float) -> Bench:
    start_clock(dut)
    bench = Bench(dut, size=size, chance=chance)
    bench.monitor.start()
    await reset(dut)
    return bench


# The first two need scratchpads that hold zeros: they come first, in this order.


@cocotb.test()
async def strobes_leave_the_bytes_around_a_store_alone(dut) -> None:
    """Stores write only their own bytes, although vectors have 4 bytes and bus words 8: rows of stores begin and end in
    the middle of a bus word, and one row crosses a 4 KiB boundary.
    """
    stores = ((1025, 1, 1, 1), (1031, 2, 3, 5), (2047, 1, 7, 7), (1500, 1, 300, 300), (3000, 3, 2, 2))
    text = "".join(
        f"STORE.OUT dram_base={at} sram_base=0 y_size={rows} x_size={row} x_stride={pitch}\n"
        for at, rows, row, pitch in stores
    )
    program = bare_program(TINY, assemble(text + "FINISH\n", TINY))
    base, image = 0x3000, 0x5000
    bench = await start(dut, size=base + image + 0x2000, chance=0.5)
    # The image is nothing but the filling; the accumulators hold zeros.
    address = image + 0x1000
    bench.ram.write(base + address, program.instructions.tobytes())
    loaded = LoadedProgram(address=address, count=len(program.instructions), base=base, size=image)
    expected = bytearray(bench.ram.read(0, bench.size))
    for at, rows, row, pitch in stores:
        for y in range(rows):
            begin = base + 4 * (at + y * pitch)
            expected[begin : begin + 4 * row] = bytes(4 * row)
    await bench.run(dut, loaded, 20_000)
    assert bytearray(bench.ram.read(0, bench.size)) == expected
    # A row (all rows, if they follow each other) is partial where it begins or ends with an odd vector.
    runs = [(at, rows * row) for at, rows, row, pitch in stores if row == pitch]
    runs += [(at + y * pitch, row) for at, rows, row, pitch in stores if row != pitch for y in range(rows)]
    ends = {place // 2 for at, length in runs for place in (at, at + length) if place % 2}
    assert bench.monitor.partial_beats == len(ends)
    writes = [burst for channel, burst in bench.monitor.bursts if channel == "aw"]
    assert any(burst.address == base + 0x2000 for burst in writes)
    assert max(burst.length for burst in writes) + 1 == write_burst_beats(TINY)


@cocotb.test()
async def random_program(dut) -> None:
    """The image after the run equals the expected image, and no memory around it has changed."""
    case = load_case()
    program, base = case.program, 0x2000
    bench = await start(dut, size=base + memory_bytes(program) + 4096, chance=0.5)
    loaded = load_program(bench.ram, program, base=base)
    before = bytearray(bench.ram.read(0, bench.size))
    await bench.run(dut, loaded, case.limit)
    board = Scoreboard(case.expected, segments=program.segments)
    board.memory(bench.ram.read(base, loaded.size))
    board.check()
    after = bytearray(bench.ram.read(0, bench.size))
    after[base : base + loaded.size] = before[base : base + loaded.size]
    assert after == before
    assert {channel for channel, _ in bench.monitor.bursts} == {"ar", "aw"}


@cocotb.test()
@cocotb.parametrize(chance=[0.8] if "VDLA_SHORT" in os.environ else [0.1, 0.8])
async def small_network(dut, chance: float) -> None:
    """Two launches without a reset between them, at different base addresses, give the expected result. `chance`: the
    share of cycles in which the memory stalls.
    """
    case = load_case("network")
    program = case.program
    assert memory_bytes(program) < 0x8000
    bench = await start(dut, size=0x18000, chance=chance)
    for base in (0x10000, 0x8000):
        loaded = load_program(bench.ram, program, base=base)
        await bench.run(dut, loaded, case.limit)
        board = Scoreboard(case.expected, segments=program.segments)
        board.memory(bench.ram.read(base, loaded.size))
        board.check()
