"""Addresses of the accumulators that a store reads: output vectors in order, each a window (hw/README.md section 8)."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config


def windows_layout() -> data.StructLayout:
    """Output vectors y_size x x_size (none, if either is 0), their corners' strides, and the window at each corner."""
    sixteen = ("sram_base", "y_size", "x_size", "y_stride", "x_stride", "row_stride", "column_stride")
    return data.StructLayout(dict.fromkeys(sixteen, 16) | {"rows_minus_1": 8, "columns_minus_1": 8})


class Reader(wiring.Component):
    """One read request after the other.

    Members: `start` loads `windows`; requests show from the next cycle on. `ready`: a vector's first read
    may happen now (room, operand; a function of registers). `request` and `address` go to the accumulators,
    `grant` comes back in the same cycle, and a read happens: `read`, with `first` and `last` of its window,
    and, for the whole window, whether its vector is the last one of a row (`row_ends`) and of the last row
    (`last_row`). `active`: vectors are left to read.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` gives the accumulators' depth, at which addresses wrap."""
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
        """Four nested loops; each keeps the address at which its round began."""
        m = Module()
        bits = self._config.acc_index_bits
        windows = Signal(windows_layout())
        y, x, r, c = Signal(16), Signal(16), Signal(8), Signal(8)
        of_row, corner, of_window_row, here = (
            Signal(bits, name=name) for name in ("of_row", "corner", "of_window_row", "here")
        )
        last_column, last_window_row = Signal(), Signal()
        m.d.comb += [
            last_column.eq(c == windows.columns_minus_1),
            last_window_row.eq(r == windows.rows_minus_1),
            self.first.eq((c == 0) & (r == 0)),
            self.last.eq(last_column & last_window_row),
            self.row_ends.eq(x + 1 == windows.x_size),
            self.last_row.eq(y + 1 == windows.y_size),
            self.request.eq(self.active & (self.ready | ~self.first)),
            self.address.eq(here),
            self.read.eq(self.request & self.grant),
        ]
        with m.If(self.start):
            m.d.sync += [
                windows.eq(self.windows),
                self.active.eq((self.windows.y_size != 0) & (self.windows.x_size != 0)),
                *(counter.eq(0) for counter in (y, x, r, c)),
                *(place.eq(self.windows.sram_base) for place in (of_row, corner, of_window_row, here)),
            ]
        with m.Elif(self.read):
            m.d.sync += [c.eq(c + 1), here.eq(here + windows.column_stride)]
            with m.If(last_column):
                place = of_window_row + windows.row_stride
                m.d.sync += [c.eq(0), r.eq(r + 1), here.eq(place), of_window_row.eq(place)]
            with m.If(self.last):
                place = corner + windows.x_stride
                m.d.sync += [r.eq(0), x.eq(x + 1), *(p.eq(place) for p in (corner, of_window_row, here))]
                with m.If(self.row_ends):
                    place = of_row + windows.y_stride
                    m.d.sync += [
                        x.eq(0),
                        y.eq(y + 1),
                        *(p.eq(place) for p in (of_row, corner, of_window_row, here)),
                        self.active.eq(~self.last_row),
                    ]
        return m
