"""Counts the compute instructions that end in a cycle, for tokens and trace (hw/README.md section 7)."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config
from vdla.isa.timing import BEGIN_DELAY, alu_latency, gemm_latency


def most_ends(config: Config) -> int:
    """Largest number of instructions of the compute unit that end in one cycle. In the worst case, array instructions
    with empty loops begin while the last operation of a GEMM is in the pipeline; all of them end together with the
    GEMM.

    An instruction can begin every 1 + BEGIN_DELAY cycles, from the cycle in which the GEMM's last operation issues to
    the cycle before the GEMM's end.
    """
    return 1 + -(-gemm_latency(config) // (1 + BEGIN_DELAY))


def ends_layout(config: Config) -> data.StructLayout:
    """Layout of counts for one cycle: how many instructions end, how many of them have the flag push_prev, and how many
    push_next.
    """
    bits = most_ends(config).bit_length()
    return data.StructLayout({"count": bits, "push_prev": bits, "push_next": bits})


class Ends(wiring.Component):
    """A shift register with the instructions that will end in the next cycles; it is as long as the pipeline of GEMM,
    and its contents move by one place in each cycle.

    Place k counts the instructions that end gemm_latency - k cycles from now.

    Members
    -------
    issued, issued_alu : In
        The last operation of an instruction of the array issues in this cycle; the last operation of an ALU instruction
        issues in this cycle.
    issued_prev, issued_next : In
        Push flags of the instruction whose last operation issues.
    next : In
        Counts of instructions that end in the next cycle and have no operations (loads, FINISH, ALU instructions of an
        empty loop), and of the pushes of CONFIG. These counts do not pass the shift register.
    joins : In
        An array instruction that has no operations begins. It ends in the same cycle as the youngest executing
        instruction or, if there is none, in the next cycle.
    joins_prev, joins_next : In
        Push flags of the instruction that `joins`.
    now : Out
        Counts of instructions that end in this cycle (a function of registers).
    busy : Out
        An instruction ends in this cycle or later (registered).
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "issued": In(1),
                "issued_alu": In(1),
                "issued_prev": In(1),
                "issued_next": In(1),
                "next": In(ends_layout(config)),
                "joins": In(1),
                "joins_prev": In(1),
                "joins_next": In(1),
                "now": Out(ends_layout(config)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds the shift register. When its contents move on, each place except the last can also add 1 to the count
        that it takes over: this adds an instruction that joins (input `joins`) to the place with the youngest
        instructions.
        """
        m = Module()
        length = gemm_latency(self.config)
        layout = ends_layout(self.config)
        names = tuple(layout.members)
        places = [Signal(layout, name=f"place_{k}") for k in range(length + 1)]  # place 0: this cycle
        arriving = {"count": 1, "push_prev": self.issued_prev, "push_next": self.issued_next}
        with m.If(self.issued):
            m.d.comb += [places[0][name].eq(value) for name, value in arriving.items()]
        # A joining instruction is added in the next cycle, after its place has moved; so the sums depend on registers
        # only.
        joining = {name: Signal(name=f"joining_{name}") for name in names}
        coming = Signal(layout)
        m.d.sync += [
            coming.eq(self.next),
            joining["count"].eq(self.joins),
            joining["push_prev"].eq(self.joins_prev),
            joining["push_next"].eq(self.joins_next),
        ]
        # A bit that moves with each place: whether it has any instruction. Joining instructions do not change the bits.
        holds: list[Value] = [self.issued]
        for k in range(1, length):
            bit = Signal(name=f"holds_{k}")
            m.d.sync += bit.eq(
                holds[-1] | (self.issued_alu if k - 1 == length - alu_latency(self.config) else 0)
            )
            holds.append(bit)
        # The youngest occupied place, one-hot: a register for each place, and one for none.
        youngest = {k: Signal(name=f"youngest_{k}") for k in range(1, length)}
        alone = Signal()
        taken: Value = Const(0, 1)
        for k, mine in youngest.items():
            m.d.sync += mine.eq(holds[k - 1] & ~taken)
            taken = taken | holds[k - 1]
        m.d.sync += alone.eq(~taken)
        for k in range(length):
            for name in names:
                total = places[k][name]
                if k:
                    total = total + (joining[name] & youngest[k])
                if k == length - alu_latency(self.config):
                    total = total + (arriving[name] & self.issued_alu)
                m.d.sync += places[k + 1][name].eq(total)
        for name in names:
            m.d.comb += self.now[name].eq(places[length][name] + coming[name] + (joining[name] & alone))
        # Contents of places 1 .. length in the next cycle.
        arrives = self.issued | self.issued_alu | self.joins | (self.next["count"] != 0)
        m.d.sync += self.busy.eq(arrives | Cat(*holds[1:]).any())
        return m
