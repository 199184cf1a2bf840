"""One lane of STORE.POST: the window reduction plus bias; and stage B (the operation after requantization) with its
bypass.
"""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..copies import KINDS
from .combine import COMBINE_STAGES, Combine
from .pipeline import delay

REDUCTION = "reduction_lane"
"""Name of the Verilog module that the reductions of all lanes share."""

STAGE_B = "stage_b_lane"
"""Prefix of the names of the Verilog modules for stage B (the operation after requantization) of one lane. Lanes share
modules, but there are KINDS different ones: lane n uses copy number n modulo KINDS of each select signal, and the
copies differ (`copies.py`).
"""


class Reduction(wiring.Component):
    """Reduces the accumulators of a window to their sum or maximum, and adds a bias.

    Members: `value`: an accumulator, used only if `take` is 1. `first`: `value` is the first accumulator of a window.
    `sum`: 1 for the sum, 0 for the maximum. `bias`: number that is added to the reduction. `total`: reduction of all
    values taken so far, plus the bias; complete in the cycle after the last value.
    """

    value: In(signed(32))
    take: In(1)
    first: In(1)
    sum: In(1)
    bias: In(32)
    total: Out(signed(32))

    def elaborate(self, platform: object) -> Module:
        """Builds a register of the reduction, followed by the adder of the bias."""
        m = Module()
        reduced = Signal(signed(32), reset_less=True)
        smaller = self.value - reduced  # chosen by the difference's sign: one carry chain, unlike `<`
        larger = Mux(smaller[-1], reduced, self.value)
        following = Mux(self.first, self.value, Mux(self.sum, reduced + self.value, larger))
        with m.If(self.take):
            m.d.sync += reduced.eq(following)
        m.d.comb += self.total.eq(reduced + self.bias)
        return m


class StageB(wiring.Component):
    """Stage B of one lane (the operation after requantization: add, multiply or rescale), with a bypass. The bypass
    delays `value` by as many cycles as the operation takes.

    Members: `combine` selects the source of `result`: the operation if 1, the bypass if 0. All other members are those
    of `combine.Combine`.
    """

    def __init__(self, *, number: int) -> None:
        """`number`: index of the lane. Each select signal has KINDS copies (`copies.py`); the lane uses copy `number`
        modulo KINDS.
        """
        self._stages = Combine(number=number % KINDS)
        super().__init__({"combine": In(1), **self._stages.signature.members})

    def elaborate(self, platform: object) -> Module:
        """Builds stage B (the operation after requantization), the delay registers of the bypass, and the multiplexer
        between them.
        """
        m = Module()
        m.submodules.stages = stages = self._stages
        m.d.comb += [
            getattr(stages, name).eq(getattr(self, name))
            for name, member in stages.signature.members.items()
            if member.flow is In
        ]
        late = delay(m, self.value, COMBINE_STAGES, "late")
        m.d.comb += self.result.eq(Mux(self.combine, stages.result, late))
        return m
