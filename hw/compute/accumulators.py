"""The accumulator scratchpad. It consists of banks, each with a read port and a write port. The compute unit and the
store unit share the read ports.
"""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In

from vdla.isa.config import Config

from ..copies import copies
from ..interfaces import accumulator_read, scratchpad_read, scratchpad_write
from ..memories import ANY_ON_COLLISION
from .alu import LANE


def lanes(config: Config) -> int:
    """Number of int32 lanes of an accumulator vector, [batch][block_out] in this order: batch x block_out."""
    return config.batch * config.block_out


class Accumulators(wiring.Component):
    """The accumulator scratchpad: `acc_banks` memories of `acc_bank_depth` vectors; vector i is in bank i //
    acc_bank_depth. If acc_depth is no power of two, the last bank has fewer vectors, and empty banks are left out.

    A read of a word in the cycle in which it is written returns an undefined value. The compute pipeline then forwards
    its own result; the store unit avoids such reads by waiting for a token.

    Members
    -------
    read : In
        The compute unit's read port, which is always served. Its data are valid two cycles after the address, in that
        cycle only.
    store : In
        The store unit's read port, granted if the compute unit does not read the same bank in this cycle. Its data,
        too, are valid two cycles after the address only.
    write : In
        The compute unit's write port, with an enable for each lane.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        depth, width = config.acc_depth, 8 * config.acc_bytes
        super().__init__(
            {
                "read": In(scratchpad_read(depth=depth, width=width)),
                "store": In(accumulator_read(config)),
                "write": In(scratchpad_write(depth=depth, width=width, lanes=lanes(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds the banks. Each bank has an address multiplexer before its read port and a register after it, because
        data of block memories arrive late in the cycle. Then each reader has a multiplexer of the banks.
        """
        m = Module()
        config = self.config
        inside = (config.acc_bank_depth - 1).bit_length()

        def bank_of(address: Value) -> Value:
            return address[inside:]

        m.d.comb += self.store.grant.eq(
            ~self.read.enable | (bank_of(self.read.address) != bank_of(self.store.address))
        )
        outputs = []
        for number, first in enumerate(range(0, config.acc_depth, config.acc_bank_depth)):
            bank = memory.Memory(
                shape=8 * config.acc_bytes,
                depth=min(config.acc_bank_depth, config.acc_depth - first),
                init=[],
                attrs=ANY_ON_COLLISION,
            )
            m.submodules[f"bank_{number}"] = bank
            read, write = bank.read_port(), bank.write_port(granularity=LANE.width)
            mine = Signal(name=f"compute_reads_{number}")
            m.d.comb += [
                mine.eq(self.read.enable & (bank_of(self.read.address) == number)),
                read.en.eq(mine | (self.store.request & (bank_of(self.store.address) == number))),
                read.addr.eq(self.store.address[:inside]),
                write.addr.eq(self.write.address[:inside]),
                write.data.eq(self.write.data),
            ]
            with m.If(mine):
                m.d.comb += read.addr.eq(self.read.address[:inside])
            with m.If(bank_of(self.write.address) == number):
                m.d.comb += write.en.eq(self.write.enable)
            output = Signal(8 * config.acc_bytes, name=f"output_{number}", reset_less=True)
            m.d.sync += output.eq(read.data)
            outputs.append(output)
        for port, name in ((self.read, "read_bank"), (self.store, "store_bank")):
            bank = Signal(range(max(2, config.acc_banks)), name=name, reset_less=True)
            m.d.sync += bank.eq(bank_of(port.address))
            chosen = copies(m, bank, lanes(config), name)
            lane_data = (
                Array(output.word_select(lane, LANE.width) for output in outputs)[chosen[lane]]
                for lane in range(lanes(config))
            )
            m.d.comb += port.data.eq(Cat(*lane_data))
        return m
