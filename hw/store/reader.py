"""Addresses of the accumulators that a store reads: output vectors in order, each a window (hw/README.md section 8)."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config


def windows_layout() -> data.StructLayout:
    """Output vectors y_size x x_size (none, if either is 0), their corners' strides, and the window at each corner.

    `paced`: the vectors go through the passes of STORE.POST.
    """
    sixteen = ("sram_base", "y_size", "x_size", "y_stride", "x_stride", "row_stride", "column_stride")
    return data.StructLayout(
        dict.fromkeys(sixteen, 16) | {"rows_minus_1": 8, "columns_minus_1": 8, "paced": 1}
    )


class Reader(wiring.Component):
    """One read request after the other.

    Members: `start` loads `windows`; requests show from the next cycle on. `ready`: a vector's first read
    may happen now (room, operand; a function of registers). `request` and `address` go to the accumulators,
    `grant` comes back in the same cycle, and a read happens: `read`, with `first` and `last` of its window,
    and, for the whole window, whether its vector is the last one of a row (`row_ends`) and of the last row
    (`last_row`). `active`: vectors are left to read.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` gives the accumulators' depth, at which addresses wrap, and the passes of STORE.POST."""
        self._config = config
        super().__init__(
            {
                "start": In(1),
                "windows": In(windows_layout()),
                "ready": In(1),
                "request": Out(1),
                "address": Out(range(config.acc_depth)),
                "grant": In(1),
                "read": Out(1),
                "first": Out(1),
                "last": Out(1),
                "row_ends": Out(1),
                "last_row": Out(1),
                "active": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Four nested loops; each keeps the address at which its round began.

        Whether a round is its loop's last is a register, so that a grant, which comes late, meets no comparison.
        """
        m = Module()
        bits = self._config.acc_index_bits
        windows = Signal(windows_layout(), reset_less=True)
        # A vector's first read waits for its turn, the others do not.
        begins, goes_on = Signal(), Signal()
        of_row, corner, of_window_row, here = (
            Signal(bits, name=name, reset_less=True) for name in ("of_row", "corner", "of_window_row", "here")
        )
        given = self.windows
        always = Const(1)
        last_column = self._loop(m, given.columns_minus_1, windows.columns_minus_1, 0, always, "column")
        last_window_row = self._loop(
            m, given.rows_minus_1, windows.rows_minus_1, 0, last_column, "window_row"
        )
        row_ends = self._loop(m, given.x_size, windows.x_size, 1, self.last, "x")
        last_row = self._loop(m, given.y_size, windows.y_size, 1, self.last & row_ends, "y")
        rested = self._rest(m, given.paced, windows.paced)
        m.d.comb += [
            self.first.eq(begins),
            self.last.eq(last_column & last_window_row),
            self.row_ends.eq(row_ends),
            self.last_row.eq(last_row),
            self.request.eq((begins & self.ready & rested) | goes_on),
            self.address.eq(here),
            self.read.eq(self.request & self.grant),
        ]
        # `start` comes late: while nothing is under way the windows are taken all the time.
        with m.If(~self.active):
            m.d.sync += [
                windows.eq(given),
                *(
                    now.eq(self.start & (given.y_size != 0) & (given.x_size != 0))
                    for now in (self.active, begins)
                ),
                *(place.eq(given.sram_base) for place in (of_row, corner, of_window_row, here)),
            ]
        with m.Elif(self.read):
            m.d.sync += [begins.eq(self.last), goes_on.eq(~self.last), here.eq(here + windows.column_stride)]
            with m.If(last_column):
                place = of_window_row + windows.row_stride
                m.d.sync += [here.eq(place), of_window_row.eq(place)]
            with m.If(self.last):
                place = corner + windows.x_stride
                m.d.sync += [p.eq(place) for p in (corner, of_window_row, here)]
                with m.If(row_ends):
                    place = of_row + windows.y_stride
                    m.d.sync += [p.eq(place) for p in (of_row, corner, of_window_row, here)]
                    m.d.sync += [self.active.eq(~last_row), begins.eq(~last_row)]
        return m

    def _rest(self, m: Module, given: Value, paced: Value) -> Value:
        """Whether a paced vector may begin: the one before has had a cycle for each of its passes.

        Its reads are such cycles; those that it lacks come behind them, without reads.
        """
        passes = self._config.post_passes
        if passes == 1:
            return Const(1)
        rested = Signal(init=1)
        owed, nothing_owed = Signal(range(passes)), Signal()  # behind the next read
        begin = [owed.eq(passes - 1), rested.eq(1)]
        with m.If(~rested):
            m.d.sync += owed.eq(owed - 1)
            with m.If(owed == 1):
                m.d.sync += begin
        with m.Elif(~self.active):
            m.d.sync += [*begin, nothing_owed.eq(~given)]
        with m.Elif(self.read):
            with m.If(self.last):
                m.d.sync += rested.eq(nothing_owed)
                with m.If(nothing_owed):
                    m.d.sync += [*begin, nothing_owed.eq(~paced)]
            with m.Elif(~nothing_owed):
                m.d.sync += [owed.eq(owed - 1), nothing_owed.eq(owed == 1)]
        return rested

    def _loop(self, m: Module, given: Value, size: Value, last: int, inner_ends: Value, name: str) -> Signal:
        """A counter from `given` (at the start; later `size`) down to `last`; whether it is there. It moves with the
        read that ends the loop within it.
        """
        left, ends = Signal(given.shape(), name=f"{name}_left"), Signal(name=f"{name}_ends")
        only = Signal(name=f"{name}_only")
        with m.If(~self.active):
            m.d.sync += [left.eq(given), ends.eq(given == last), only.eq(given == last)]
        with m.Elif(self.read & inner_ends):
            m.d.sync += [left.eq(Mux(ends, size, left - 1)), ends.eq(Mux(ends, only, left == last + 1))]
        return ends
