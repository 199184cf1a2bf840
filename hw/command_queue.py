"""The command queue between fetch and a unit (hw/README.md section 4)."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config

from .counting import counted, following
from .interfaces import commands, instruction_bits


class CommandQueue(wiring.Component):
    """A FIFO of instructions whose head is a register, because the unit acts on the head in the same cycle.

    Members: `push`: adds `instruction` to the queue, from the next cycle on; may be set only while `full` (registered)
    is 0. `fills`: 1 if the queue will be full in the next cycle. `head`: the unit's port to the oldest instruction.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the width of an instruction and the number of instructions in the queue, the head
        included.
        """
        self._depth, self._bits = config.command_queue_depth, instruction_bits(config)
        super().__init__(
            {
                "push": In(1),
                "instruction": In(self._bits),
                "full": Out(1),
                "fills": Out(1),
                "head": Out(commands(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds a ring buffer in memory, followed by the head register. An instruction that arrives while the ring is
        empty and the head is free goes directly to the head.
        """
        m = Module()
        depth = self._depth
        m.submodules.ring = ring = memory.Memory(shape=self._bits, depth=depth, init=[])
        write, read = ring.write_port(), ring.read_port(domain="comb")
        newest, oldest = Signal(range(depth)), Signal(range(depth))
        behind, level = Signal(range(depth + 1)), Signal(range(depth + 1))
        valid, payload = Signal(), Signal(self._bits, reset_less=True)
        free, waiting, stored, moved, pop = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            pop.eq(valid & self.head.ready),
            free.eq(~valid | self.head.ready),
            stored.eq(self.push & ~(free & ~waiting)),
            moved.eq(free & waiting),
            write.en.eq(
                self.push
            ),  # and written again in the same place, if the instruction went straight to the head
            write.addr.eq(newest),
            write.data.eq(self.instruction),
            read.addr.eq(oldest),
            self.head.valid.eq(valid),
            self.head.payload.eq(payload),
        ]

        with m.If(free):
            m.d.sync += [
                valid.eq(waiting | self.push),
                payload.eq(Mux(waiting, read.data, self.instruction)),
            ]
        with m.If(stored):
            m.d.sync += newest.eq(following(newest, depth))
        with m.If(moved):
            m.d.sync += oldest.eq(following(oldest, depth))
        m.d.sync += [
            behind.eq(counted(behind, up=stored, down=moved)),
            waiting.eq(stored | Mux(moved, behind > 1, waiting)),
            level.eq(counted(level, up=self.push, down=pop)),
            self.full.eq(self.fills),
        ]
        m.d.comb += self.fills.eq(~pop & (self.full | (self.push & (level == depth - 1))))
        return m
