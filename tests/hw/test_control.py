"""The control registers over AXI4-Lite, and the register map for software."""

import pytest
from gateware import simulate

from vdla.hw import control
from vdla.hw.control import COUNTERS_AT, IDENTITY, REGISTERS, Control, counter_address
from vdla.hw.counters import COUNTERS, READ_CYCLES
from vdla.isa.config import load_config
from vdla.sim import CATEGORIES
from vdla.sim.state import TRAFFIC

TINY = load_config("tiny")


async def write(ctx, bus, address: int, value: int, strobe: int = 15) -> None:
    ctx.set(bus.awaddr, address)
    ctx.set(bus.wdata, value)
    ctx.set(bus.wstrb, strobe)
    ctx.set(bus.awvalid, 1)
    await ctx.tick()  # the address alone is not accepted
    assert not ctx.get(bus.bvalid)
    ctx.set(bus.wvalid, 1)
    assert ctx.get(bus.awready) and ctx.get(bus.wready)
    await ctx.tick()
    ctx.set(bus.awvalid, 0)
    ctx.set(bus.wvalid, 0)
    assert ctx.get(bus.bvalid)
    ctx.set(bus.bready, 1)
    await ctx.tick()
    ctx.set(bus.bready, 0)
    assert not ctx.get(bus.bvalid)


async def read(ctx, bus, address: int) -> int:
    ctx.set(bus.araddr, address)
    ctx.set(bus.arvalid, 1)
    assert ctx.get(bus.arready)
    await ctx.tick()
    ctx.set(bus.arvalid, 0)
    for _ in range(READ_CYCLES + 1):
        assert not ctx.get(bus.rvalid) and not ctx.get(bus.arready)
        await ctx.tick()
    await ctx.tick()
    assert ctx.get(bus.rvalid)  # kept until it is taken
    value = ctx.get(bus.rdata)
    ctx.set(bus.rready, 1)
    await ctx.tick()
    ctx.set(bus.rready, 0)
    assert not ctx.get(bus.rvalid)
    return value


def test_registers_and_a_run():
    dut = Control(config=TINY)

    async def bench(ctx):
        bus = dut.bus
        assert await read(ctx, bus, REGISTERS["ID"]) == IDENTITY
        digest = b"".join(
            [(await read(ctx, bus, REGISTERS["DIGEST"] + 4 * i)).to_bytes(4, "little") for i in range(8)]
        )
        assert digest.hex() == TINY.digest
        await write(ctx, bus, REGISTERS["PROGRAM"], 0xAABB_C000)
        await write(ctx, bus, REGISTERS["PROGRAM"] + 4, 0x12)
        await write(ctx, bus, REGISTERS["COUNT"], 0xFFFF_FFFF)
        await write(ctx, bus, REGISTERS["COUNT"], 0x1234_5678, strobe=0b0101)
        assert ctx.get(dut.program) == 0x12_AABB_C000
        assert ctx.get(dut.count) == 0xFF34_FF78 == await read(ctx, bus, REGISTERS["COUNT"])
        assert await read(ctx, bus, REGISTERS["STATUS"]) == 0
        # Nothing is launched while memory still answers the run before.
        await write(ctx, bus, REGISTERS["CONTROL"], 1)
        assert await read(ctx, bus, REGISTERS["STATUS"]) == 1 and not ctx.get(dut.running)
        ctx.set(dut.quiet, 1)
        assert ctx.get(dut.launch) and not ctx.get(dut.running)
        await ctx.tick()
        for _ in range(24):
            assert ctx.get(dut.running) and not ctx.get(dut.launch)
            await ctx.tick()
        ctx.set(dut.finished, 1)  # cycle 25
        ctx.set(dut.error, 1)
        await ctx.tick()
        ctx.set(dut.finished, 0)
        ctx.set(dut.error, 0)
        assert not ctx.get(dut.running)
        assert await read(ctx, bus, REGISTERS["CYCLES"]) == 25
        assert await read(ctx, bus, REGISTERS["STATUS"]) == 0b1110
        await write(ctx, bus, REGISTERS["CONTROL"], 2)
        assert await read(ctx, bus, REGISTERS["STATUS"]) == 0b1010
        ctx.set(dut.counter_value, 0xAB_1234_5678)
        last = counter_address(COUNTERS[-1])
        assert await read(ctx, bus, last) == 0x1234_5678 and await read(ctx, bus, last + 4) == 0xAB
        assert ctx.get(dut.counter_index) == len(COUNTERS) - 1
        assert await read(ctx, bus, last + 8) == 0

    simulate(dut, bench)


@pytest.mark.parametrize("by", ["error", "software"])
def test_a_run_is_stopped(by: str):
    dut = Control(config=TINY)

    async def bench(ctx):
        bus = dut.bus
        ctx.set(dut.quiet, 1)
        assert ctx.get(dut.stop)  # nothing runs
        await write(ctx, bus, REGISTERS["CONTROL"], 1 << control.LAUNCH_BIT)
        assert ctx.get(dut.running) and not ctx.get(dut.stop)
        if by == "error":
            ctx.set(dut.error, 1)
            await ctx.tick()
            ctx.set(dut.error, 0)
        else:
            await write(ctx, bus, REGISTERS["CONTROL"], 1 << control.STOP_BIT)
        for _ in range(5):  # writes are under way
            assert ctx.get(dut.running) and ctx.get(dut.stop)
            await ctx.tick()
        ctx.set(dut.finished, 1)  # too late: a stopped run does not count as finished
        ctx.set(dut.written, 1)
        await ctx.tick()
        ctx.set(dut.finished, 0)
        assert not ctx.get(dut.running) and ctx.get(dut.stop)
        failed = (by == "error") << control.ERROR_BIT
        assert await read(ctx, bus, REGISTERS["STATUS"]) == 1 << control.QUIET_BIT | failed
        # The next run is not stopped by what was.
        await write(ctx, bus, REGISTERS["CONTROL"], 1 << control.LAUNCH_BIT)
        assert ctx.get(dut.running) and not ctx.get(dut.stop)
        await ctx.tick().repeat(5)
        assert ctx.get(dut.running)
        ctx.set(dut.finished, 1)
        await ctx.tick()
        ctx.set(dut.finished, 0)
        assert (
            await read(ctx, bus, REGISTERS["STATUS"])
            == 1 << control.QUIET_BIT | 1 << control.DONE_BIT | failed
        )

    simulate(dut, bench)


def test_stop_withdraws_a_launch_that_waits():
    dut = Control(config=TINY)

    async def bench(ctx):
        bus = dut.bus
        await write(ctx, bus, REGISTERS["CONTROL"], 1 << control.LAUNCH_BIT)
        assert await read(ctx, bus, REGISTERS["STATUS"]) == 1 << control.RUNNING_BIT
        await write(ctx, bus, REGISTERS["CONTROL"], 1 << control.STOP_BIT)
        assert await read(ctx, bus, REGISTERS["STATUS"]) == 0
        ctx.set(dut.quiet, 1)
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.running)
        # An error between runs shows, and one in the cycle of its clearing is not lost.
        ctx.set(dut.error, 1)
        await write(ctx, bus, REGISTERS["CONTROL"], 1 << control.CLEAR_BIT)
        ctx.set(dut.error, 0)
        assert await read(ctx, bus, REGISTERS["STATUS"]) == 1 << control.QUIET_BIT | 1 << control.ERROR_BIT
        await write(ctx, bus, REGISTERS["CONTROL"], 1 << control.CLEAR_BIT)
        assert await read(ctx, bus, REGISTERS["STATUS"]) == 1 << control.QUIET_BIT

    simulate(dut, bench)


def test_counters_are_named_as_the_simulator_names_them():
    cycles = [name.split(".") for name in COUNTERS if name.partition(".")[0] in ("load", "compute", "store")]
    traffic = [name.split(".") for name in COUNTERS[len(cycles) :]]
    assert {name for _, name in cycles} == set(CATEGORIES)
    assert [kind for kind, _ in traffic[::2]] == list(TRAFFIC)
    assert len(set(COUNTERS)) == len(COUNTERS)
    assert counter_address("load.busy") == COUNTERS_AT
