"""A variant of `element_writer.Walk` (a counter over the pads and data elements of a row) that can pass several data
elements in one step: all elements of the row that are in the same aligned block of DRAM.
"""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out


class WideWalk(wiring.Component):
    """A counter that goes over `before` pads, `size` data elements and `behind` pads of a row, in this order. A step
    takes one pad, or one or several data elements.

    Members:

    - `start`: loads the three numbers. `next`: moves to the next step.
    - `is_data`, `next_is_data`, `first_is_data`: the current step takes data, the step after it takes data, the first
      step takes data.
    - `first_room`, `room`: inputs, the largest numbers of data elements that the first step (`first_room`) and the step
      after the current one (`room`) may take.
    - `taken`: number of elements in the current step.
    - `phase_last`: the current step is the last one of its phase (pads or data). `ends`: it is the last step of all.
    """

    def __init__(self, *, most: int) -> None:
        """`most`: largest number of elements in a step."""
        room = range(most + 1)
        super().__init__(
            {
                "start": In(1),
                "before": In(4),
                "size": In(16),
                "behind": In(4),
                "next": In(1),
                "first_room": In(room),
                "room": In(room),
                "taken": Out(room),
                "is_data": Out(1),
                "next_is_data": Out(1),
                "first_is_data": Out(1),
                "phase_last": Out(1),
                "ends": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds a down counter of the elements left in the phase (pads or data). When a step begins, a register stores
        whether the step has room for all elements that are left, so that it ends the phase.
        """
        m = Module()
        state = data.StructLayout({"count": 16, "is_before": 1, "is_data": 1, "final": 1})
        present, entry, data_phase, behind_phase = (
            Signal(state, name=name, reset_less=True)
            for name in ("present", "entry", "data_phase", "behind_phase")
        )
        has_data, ends_phase = Signal(reset_less=True), Signal(reset_less=True)
        present_room = Signal.like(self.room, name="present_room", reset_less=True)

        def phase(name: str, number: Value, final: Value) -> data.View:
            found = Signal(state, name=f"given_{name}")
            m.d.comb += [
                found.count.eq(number),
                found.is_before.eq(name == "before"),
                found.is_data.eq(name == "data"),
                found.final.eq(final),
            ]
            return found

        no_data, no_behind = self.size == 0, self.behind == 0
        before = phase("before", self.before, no_data & no_behind)
        size, behind = phase("data", self.size, no_behind), phase("behind", self.behind, Const(1))
        first, successor, following = (
            Signal(state, name=name) for name in ("first", "successor", "following")
        )
        ends = ends_phase & present.final
        m.d.comb += [
            first.eq(Mux(self.before != 0, before, Mux(no_data, behind, size))),
            successor.eq(Mux(ends, entry, Mux(present.is_before & has_data, data_phase, behind_phase))),
            following.eq(present),
            following.count.eq(present.count - self.taken),
            self.first_is_data.eq(first.is_data),
            self.next_is_data.eq(Mux(ends_phase, successor.is_data, present.is_data)),
            self.taken.eq(Mux(~present.is_data, 1, Mux(ends_phase, present.count, present_room))),
        ]
        with m.If(ends_phase):
            m.d.comb += following.eq(successor)
        with m.If(self.start):
            m.d.sync += [
                present.eq(first),
                entry.eq(first),
                data_phase.eq(size),
                behind_phase.eq(behind),
                has_data.eq(~no_data),
                present_room.eq(self.first_room),
                ends_phase.eq(first.count <= Mux(first.is_data, self.first_room, 1)),
            ]
        with m.Elif(self.next):
            m.d.sync += [
                present.eq(following),
                present_room.eq(self.room),
                ends_phase.eq(following.count <= Mux(following.is_data, self.room, 1)),
            ]
        m.d.comb += [
            self.is_data.eq(present.is_data),
            self.phase_last.eq(ends_phase),
            self.ends.eq(ends),
        ]
        return m
