"""One lane of STORE.POST: its window reduction with the bias, and stage B or the bypass around it."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..copies import KINDS
from .combine import COMBINE_STAGES, Combine
from .pipeline import delay

REDUCTION = "reduction_lane"
"""Name of the one Verilog module for the reductions of all lanes."""

STAGE_B = "stage_b_lane"
"""Prefix of the names of the Verilog modules for stage B, one for each kind of copies."""


class Reduction(wiring.Component):
    """Sum or maximum of a window's accumulators, plus the bias.

    Members: `value`, taken with `take` as the first of a window or (without `first`) one more; `sum` says which of the
    two; `bias`. `total` of all values taken, from the cycle behind the last on.
    """

    value: In(signed(32))
    take: In(1)
    first: In(1)
    sum: In(1)
    bias: In(32)
    total: Out(signed(32))

    def elaborate(self, platform: object) -> Module:
        """A register, followed by the bias adder."""
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
    """Stage B of one lane, or a delay of as many cycles.

    Members: the members of `combine.Combine`, and `combine`, which is high if `value` passes through it.
    """

    def __init__(self, *, number: int) -> None:
        """`number` of the lane: the lanes have different copies of the select signals that all of them use."""
        self._stages = Combine(number=number % KINDS)
        super().__init__({"combine": In(1), **self._stages.signature.members})

    def elaborate(self, platform: object) -> Module:
        """Registers beside stage B."""
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
