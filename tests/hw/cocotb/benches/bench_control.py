"""The control registers answer the AXI4-Lite master of cocotbext-axi as the AXI rules and the register map say."""

import itertools
import random

import cocotb
from cases import load_case
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from vdla.hw.bench import MemoryModel, load_program, memory_bytes, reset, start_clock
from vdla.hw.control import COUNTERS_AT, IDENTITY, REGISTERS, VERSION, counter_address
from vdla.hw.counters import COUNTERS
from vdla.isa.config import load_config

TINY = load_config("tiny")


def pause(rng: random.Random):
    return (rng.random() < 0.4 for _ in itertools.count())


class Bench:
    def __init__(self, dut, size: int) -> None:
        start_clock(dut)
        self.memory = MemoryModel(dut, timing=TINY.memory, size=size)
        self.memory.start()
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "control"), dut.clk, dut.rst)
        rng = random.Random(5)
        for channel in (
            self.master.write_if.aw_channel,
            self.master.write_if.w_channel,
            self.master.write_if.b_channel,
            self.master.read_if.ar_channel,
            self.master.read_if.r_channel,
        ):
            channel.set_pause_generator(pause(rng))

    async def read(self, name: str, words: int = 1) -> int:
        return int.from_bytes((await self.master.read(REGISTERS[name], 4 * words)).data, "little")

    async def write(self, name: str, value: int, size: int = 4) -> None:
        await self.master.write(REGISTERS[name], value.to_bytes(size, "little"))


@cocotb.test()
async def identity_and_set_up(dut) -> None:
    bench = Bench(dut, 4096)
    await reset(dut)
    assert await bench.read("ID") == IDENTITY == int.from_bytes(b"VDLA", "big")
    assert await bench.read("VERSION") == VERSION
    assert (await bench.master.read(REGISTERS["DIGEST"], 32)).data.hex() == TINY.digest
    for name, size, value in (
        ("PROGRAM", 8, 0x12_3456_7000),
        ("COUNT", 4, 0xCAFE_F00D),
        ("BASE", 8, 0xFE_DCBA_9000),
    ):
        assert await bench.read(name, size // 4) == 0
        await bench.write(name, value, size)
        assert await bench.read(name, size // 4) == value
    # Strobes: single bytes, and a run of bytes over two words.
    await bench.master.write(REGISTERS["COUNT"] + 2, b"\x11")
    assert await bench.read("COUNT") == 0xCA11_F00D
    await bench.master.write(REGISTERS["PROGRAM"] + 1, b"\xab\xcd\xef\x21")
    assert await bench.read("PROGRAM", 2) == 0x21_EFCD_AB00
    # What is only there to be read, and what is not there at all.
    for name in ("ID", "VERSION", "STATUS", "CYCLES", "DIGEST"):
        before = await bench.read(name)
        await bench.write(name, ~before & 0xFFFF_FFFF)
        assert await bench.read(name) == before
    for address in (0x030, 0x060, COUNTERS_AT + 8 * len(COUNTERS), 0xFFC):
        assert (await bench.master.read(address, 4)).data == bytes(4)
    # Bits 40 and up of an address do not exist.
    await bench.write("BASE", 0xFFFF_FFFF_FFFF_F000, 8)
    assert await bench.read("BASE", 2) == 0xFF_FFFF_F000


@cocotb.test()
async def a_run(dut) -> None:
    case = load_case()
    program = case.program
    bench = Bench(dut, memory_bytes(program))
    await reset(dut)
    loaded = load_program(bench.memory, program)
    await bench.write("PROGRAM", loaded.address, 8)
    await bench.write("COUNT", loaded.count)
    await bench.write("CONTROL", 1)
    assert await bench.read("STATUS") & 0b11 == 0b01  # running, not finished
    assert case.expected.cycles is not None and case.expected.counters is not None
    await ClockCycles(dut.clk, case.expected.cycles)
    assert await bench.read("STATUS") == 0b1010  # finished, quiet
    assert await bench.read("CYCLES", 2) == case.expected.cycles
    contents = (await bench.master.read(COUNTERS_AT, 8 * len(COUNTERS))).data
    seen = {
        name: int.from_bytes(contents[place : place + 8], "little")
        for name in COUNTERS
        for place in [counter_address(name) - COUNTERS_AT]
    }
    assert seen == {name: case.expected.counters.get(name, 0) for name in COUNTERS}
    # Every cycle of every unit has one category.
    for unit in ("load", "compute", "store"):
        total = sum(count for name, count in seen.items() if name.startswith(f"{unit}."))
        assert total == case.expected.cycles
    assert bench.memory.data[: loaded.size] == case.expected.memory.tobytes()
