"""Addresses of the accumulators that a store reads: for each output vector, in order, a window (hw/README.md section
8).
"""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config
from vdla.isa.parameters import is_power_of_two


def windows_layout() -> data.StructLayout:
    """Layout of the accumulator windows that a store reads, one for each of its y_size x x_size output vectors (neither
    number is 0). `y_stride`, `x_stride`: distance from window to window in y and in x, in accumulator vectors.
    `row_stride`, `column_stride`: distance from row to row and from column to column inside a window. `rows_minus_1`,
    `columns_minus_1`: size of a window.

    `paced`: the vectors need several passes through the arithmetic of STORE.POST, so their reads must be far enough
    apart.
    """
    sixteen = ("sram_base", "y_size", "x_size", "y_stride", "x_stride", "row_stride", "column_stride")
    return data.StructLayout(
        dict.fromkeys(sixteen, 16) | {"rows_minus_1": 8, "columns_minus_1": 8, "paced": 1}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    """Signals of one of the reader's nested loops. `ends`: this is the loop's last iteration. `all_end`: a register, 1
    if this loop and all inner loops are in their last iterations. `at_start`, `after_read`: the next values of
    `all_end` if the loops start in this cycle, and if a read happens in this cycle.
    """

    ends: Signal
    all_end: Signal
    at_start: Value
    after_read: Value


class Reader(wiring.Component):
    """Issues the accumulator reads of a store, at most one request a cycle.

    Members:

    - `start`: loads `windows`, sizes and strides of the store's windows; requests begin in the next cycle.
    - `ready`: allows the first read of a vector's window, because the writer has room and the operand has arrived. It
      must depend on registers only.
    - `request`, `address`: the request to the accumulators. `grant`: the accumulators accept it in this cycle.
    - `read`: a read happens in this cycle (request and grant are both 1). `first`, `last`: this read is the first or
      the last one of its window.
    - `row_ends`: the vector of the current window is the last one of its row. `last_row`: this row is the last row.
      Both are stable for the whole window.
    - `active`: there are vectors left to read.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the depth of the accumulators, at which addresses wrap around, and the number of passes
        of a vector through STORE.POST's arithmetic.
        """
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
        """Builds four nested loops, each with a register of the address at which its current iteration began.

        The signal `grant` comes late in the cycle. So `_Loop.all_end`, which tells that a loop and all inner loops are
        in their last iterations, is a register: it is computed a read ahead, and no comparison waits for `grant`.
        """
        m = Module()
        bits = self._config.acc_index_bits
        windows = Signal(windows_layout(), reset_less=True)
        # Only the first read of a vector waits for `ready`.
        begins, goes_on = Signal(), Signal()
        of_row, corner, of_window_row, here = (
            Signal(bits, name=name, reset_less=True) for name in ("of_row", "corner", "of_window_row", "here")
        )
        given = self.windows
        column = self._loop(m, given.columns_minus_1, windows.columns_minus_1, 0, None, "column")
        window_row = self._loop(m, given.rows_minus_1, windows.rows_minus_1, 0, column, "window_row")
        x = self._loop(m, given.x_size, windows.x_size, 1, window_row, "x")
        y = self._loop(m, given.y_size, windows.y_size, 1, x, "y")
        rested = self._rest(m, given.paced, windows.paced)
        m.d.comb += [
            self.first.eq(begins),
            self.last.eq(window_row.all_end),
            self.row_ends.eq(x.ends),
            self.last_row.eq(y.ends),
            self.request.eq((begins & self.ready & rested) | goes_on),
            self.address.eq(here),
            self.read.eq(self.request & self.grant),
        ]
        # To keep the fanout of `start` low, the windows are loaded in every cycle in which the reader is not active.
        with m.If(~self.active):
            m.d.sync += [
                windows.eq(given),
                *(now.eq(self.start) for now in (self.active, begins)),
                *(place.eq(given.sram_base) for place in (of_row, corner, of_window_row, here)),
            ]
        with m.Elif(self.read):
            m.d.sync += [
                self.active.eq(~y.all_end),
                begins.eq(self.last & ~y.all_end),
                goes_on.eq(~self.last),
                here.eq(self._wrapped(here, windows.column_stride)),
            ]
            with m.If(column.all_end):
                place = self._wrapped(of_window_row, windows.row_stride)
                m.d.sync += [here.eq(place), of_window_row.eq(place)]
            with m.If(self.last):
                place = corner + windows.x_stride
                m.d.sync += [p.eq(place) for p in (corner, of_window_row, here)]
            with m.If(x.all_end):
                place = of_row + windows.y_stride
                m.d.sync += [p.eq(place) for p in (of_row, corner, of_window_row, here)]
        return m

    def _wrapped(self, place: Value, stride: Value) -> Value:
        """`place` + `stride` modulo the depth of the accumulators.

        If the depth is no power of two, `stride` must be less than the depth (isa/README.md).
        """
        depth = self._config.acc_depth
        if is_power_of_two(depth):
            return place + stride
        moved = place + stride[: self._config.acc_index_bits]
        return Mux(moved >= depth, moved - depth, moved)

    def _rest(self, m: Module, given: Value, paced: Value) -> Value:
        """Whether the next vector may begin. The arithmetic of STORE.POST needs several cycles for a vector, one for
        each pass. So between the first reads of two vectors there must be as many cycles as passes: if a vector has
        fewer reads, idle cycles follow. A store to which this applies is called paced.

        `given`: the store that starts is paced. `paced`: the current store is paced.
        """
        passes = self._config.post_passes
        if passes == 1:
            return Const(1)
        rested = Signal(init=1)
        owed, nothing_owed = Signal(range(passes)), Signal()  # after the next read
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

    def _loop(self, m: Module, given: Value, size: Value, last: int, inner: _Loop | None, name: str) -> _Loop:
        """Builds one of the nested loops, around the loop `inner` (None for the innermost). The loop is a counter. It
        counts down by 1 at each read that ends the inner loop, and is `last` (0 or 1) in the last iteration. `given`:
        input with the number at which the counter starts when the store starts. `size`: register with the same number,
        for restarts by an outer loop. Returns the loop's signals.
        """
        left, ends = Signal(given.shape(), name=f"{name}_left"), Signal(name=f"{name}_ends")
        only, all_end = Signal(name=f"{name}_only"), Signal(name=f"{name}_all_end")
        inner_ends: Value = inner.all_end if inner else Const(1)
        after_read = Mux(inner_ends, Mux(ends, only, left == last + 1), ends)
        loop = _Loop(
            ends=ends,
            all_end=all_end,
            at_start=(given == last) & (inner.at_start if inner else 1),
            after_read=after_read & (inner.after_read if inner else 1),
        )
        with m.If(~self.active):
            m.d.sync += [left.eq(given), ends.eq(given == last), only.eq(given == last)]
            m.d.sync += all_end.eq(loop.at_start)
        with m.Elif(self.read):
            m.d.sync += [ends.eq(after_read), all_end.eq(loop.after_read)]
            with m.If(inner_ends):
                m.d.sync += left.eq(Mux(ends, size, left - 1))
        return loop
