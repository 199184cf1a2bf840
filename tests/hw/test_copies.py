"""Tests several copies of one register. Every copy shows the value of the previous cycle. Inside, some copies store
inverted bits or have other values after power-up, so that synthesis does not merge them.
"""

from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from vdla.hw.copies import copies


def test_every_copy_is_the_value_of_the_cycle_before() -> None:
    m = Module()
    value = Signal(3)
    found = copies(m, value, 6, "value")
    shown = [Signal(3, name=f"shown_{number}") for number in range(len(found))]
    m.d.comb += [signal.eq(one) for signal, one in zip(shown, found, strict=True)]

    async def bench(ctx) -> None:
        for number in (5, 2, 7, 0):
            ctx.set(value, number)
            await ctx.tick()
            assert [ctx.get(signal) for signal in shown] == [number] * 6

    simulator = Simulator(m)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    assert found[4] is found[0] and found[5] is found[1]
