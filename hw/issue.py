"""Begins instructions: pops tokens, checks room for pushes, and finds the head instruction's cause of stall
(hw/README.md section 5).
"""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config

from .interfaces import Activity, commands, token_pop, token_push
from .layouts import instruction_layout, view


class Issue(wiring.Component):
    """The logic that decides when a unit begins the instruction at the head of its command queue.

    Inputs and ports: `commands`, `pop_prev`, `pop_next`: ports of the unit. `room_prev`, `room_next`: the signals
    `room` of the unit's ports `push_prev` and `push_next`. `condition`: 1 if the unit itself is ready for the head
    instruction; once 1, it must stay 1 until the instruction begins.

    Outputs: `begin`: the head instruction begins in this cycle (a register: BEGIN_DELAY). `reserve_prev`,
    `reserve_next`: 1 together with `begin` if the instruction will push a token; the unit connects them to its push
    ports, where they reserve room. `stall`: the cause of stall, which the unit reports as its activity while it
    executes nothing.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the positions of the token flags; the component is the same for all units."""
        self._config = config
        push = token_push(config).members
        super().__init__(
            {
                "commands": In(commands(config)),
                "pop_prev": Out(token_pop()),
                "pop_next": Out(token_pop()),
                "room_prev": push["room"],
                "room_next": push["room"],
                "reserve_prev": Out(1),
                "reserve_next": Out(1),
                "condition": In(1),
                "begin": Out(1),
                "stall": Out(Activity),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds three registers. Two of them tell, for the two tokens of the head instruction, whether the token was
        popped already; the third is `begin`. All other outputs are combinational.
        """
        m = Module()
        head = view(instruction_layout(self._config, "FINISH"), self.commands.payload)
        missing = []
        for name, port in (("pop_prev", self.pop_prev), ("pop_next", self.pop_next)):
            done = Signal(name=f"{name}_done")
            lacks = Signal(name=f"{name}_lacks")
            needs = self.commands.valid & head[name] & ~done
            m.d.comb += [port.pop.eq(needs & port.available), lacks.eq(needs & ~port.available)]
            with m.If(self.begin):
                m.d.sync += done.eq(0)
            with m.Elif(port.pop):
                m.d.sync += done.eq(1)
            missing.append(lacks)
        full_prev = head["push_prev"] & ~self.room_prev
        full_next = head["push_next"] & ~self.room_next
        ready = ~missing[0] & ~missing[1] & ~full_prev & ~full_next
        # In the cycle of a begin, all conditions above still hold.
        m.d.sync += self.begin.eq(self.commands.valid & ready & self.condition & ~self.begin)
        m.d.comb += [
            self.commands.ready.eq(self.begin),
            self.reserve_prev.eq(self.begin & head["push_prev"]),
            self.reserve_next.eq(self.begin & head["push_next"]),
        ]
        with m.If(~self.commands.valid):
            m.d.comb += self.stall.eq(Activity.INSTRUCTION)
        with m.Elif(missing[0]):
            m.d.comb += self.stall.eq(Activity.TOKEN_PREV)
        with m.Elif(missing[1]):
            m.d.comb += self.stall.eq(Activity.TOKEN_NEXT)
        with m.Elif(full_prev):
            m.d.comb += self.stall.eq(Activity.FULL_PREV)
        with m.Elif(full_next):
            m.d.comb += self.stall.eq(Activity.FULL_NEXT)
        with m.Elif(~self.condition):
            m.d.comb += self.stall.eq(Activity.UNIT)
        with m.Else():
            m.d.comb += self.stall.eq(Activity.BEGIN)
        return m
