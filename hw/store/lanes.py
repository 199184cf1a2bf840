"""One lane of STORE.POST: its window reduction with the bias, and stage B or the way around it."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..copies import KINDS
from .combine import COMBINE_STAGES, Combine
from .constants import constants_layout
from .pipeline import delay

REDUCTION = "reduction_lane"
"""Name of the one Verilog module that the reductions of all lanes are."""

STAGE_B = "stage_b_lane"
"""Beginning of the names of the Verilog modules that stage B of all lanes is, one for each kind of copies."""


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
        """A register, and the bias behind it."""
        m = Module()
        reduced = Signal(signed(32), reset_less=True)
        smaller = self.value - reduced  # by its sign: one carry chain, unlike `<`
        larger = Mux(smaller[-1], reduced, self.value)
        following = Mux(self.first, self.value, Mux(self.sum, reduced + self.value, larger))
        with m.If(self.take):
            m.d.sync += reduced.eq(following)
        m.d.comb += self.total.eq(reduced + self.bias)
        return m


class StageB(wiring.Component):
    """Stage B of one lane, or as many cycles without it.

    Members: `combine` says whether `value` passes through `combine.Combine`, which has the other members.
    """

    combine: In(1)
    value: In(signed(8))
    operand: In(signed(8))
    multiply: In(1)
    operand_used: In(1)
    swap: In(1)
    unsigned: In(1)
    zero_point: In(signed(16))
    operand_zero_point: In(signed(16))
    low: In(signed(8))
    high: In(signed(8))
    constants: In(constants_layout())
    result: Out(signed(8))

    def __init__(self, *, number: int) -> None:
        """`number` of the lane: the lanes have different copies of what selects in all of them."""
        self._kind = number % KINDS
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        """Registers beside stage B."""
        m = Module()
        passed = (
            *("value", "operand", "multiply", "operand_used", "swap", "unsigned"),
            *("zero_point", "operand_zero_point", "low", "high", "constants"),
        )
        m.submodules.stages = combine = Combine(number=self._kind)
        m.d.comb += [getattr(combine, name).eq(getattr(self, name)) for name in passed]
        late = delay(m, self.value, COMBINE_STAGES, "late")
        m.d.comb += self.result.eq(Mux(self.combine, combine.result, late))
        return m
