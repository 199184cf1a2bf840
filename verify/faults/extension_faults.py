"""Faults of hardware that not every machine has: chain memory, taps, look-up tables, rows."""

from __future__ import annotations

from typing import Final

from .fault import CHAIN, ROWS, TABLES, Fault, rtl_fault, simulator_fault

EXTENSION_FAULTS: Final[tuple[Fault, ...]] = (
    rtl_fault(
        "chain memory's vector",
        "compute/pipeline.py",
        "m.d.sync += arriving.eq(chained)",
        "m.d.comb += arriving.eq(chained)",
        "the array takes its vector from the memory that the next operation reads",
        CHAIN,
    ),
    rtl_fault(
        "TAPS' neighbours",
        "compute/array.py",
        "moved = [vectors[(t + (1 << distance)) % TAPS] for t in range(TAPS)]",
        "moved = [vectors[(t - (1 << distance)) % TAPS] for t in range(TAPS)]",
        "TAPS takes its vectors in another order where the first one's index is odd",
        CHAIN,
    ),
    rtl_fault(
        "chain memory's rows",
        "store/unit.py",
        "x_ends.eq(x_left == 2),",
        "x_ends.eq(x_left == 1),",
        "a row of a store to the chain memory is a vector too long",
        CHAIN,
    ),
    simulator_fault(
        "chained store's end",
        "store.py",
        "X[V[V_INSTRUCTION], X_DONE] = cycle + V[V_LATENCY]",
        "X[V[V_INSTRUCTION], X_DONE] = cycle + P[P_STORE_LATENCY]",
        "a store to the chain memory ends as early as STORE.OUT would",
        CHAIN,
    ),
    rtl_fault(
        "look-up table's half",
        "store/tables.py",
        "entry.eq(Cat(self.value[:7], ~self.value[7], self.index)),",
        "entry.eq(Cat(self.value[:7], self.value[7], self.index)),",
        "a look-up finds positive values' entries for negative ones",
        TABLES,
    ),
    rtl_fault(
        "look-up table's place",
        "store/unit.py",
        "tables.at.eq(Cat(loader.part[:part_bits], loader.address)),",
        "tables.at.eq(Cat(loader.part[:part_bits], loader.address[:1])),",
        "the third look-up table is loaded over the first",
        TABLES,
    ),
    rtl_fault(
        "repeated operand",
        "store/unit.py",
        'taken &= ~operand["repeat"] | reader.row_ends',
        'taken &= ~operand["repeat"] | reader.last_row',
        "a row's only operand stays for the rows behind it",
        TABLES,
    ),
    simulator_fault(
        "rows of operands that touch",
        "store.py",
        "first += PRODUCT_CYCLES if row[Y_SIZE] > 1 else 0",
        "first += PRODUCT_CYCLES",
        "an operand of one row waits for a product of lengths",
        TABLES,
    ),
    rtl_fault(
        "sum of a row at once",
        "store/rows.py",
        "m.d.comb += again.eq(written_z & (row_z == row_a))",
        "m.d.comb += again.eq(0)",
        "the second pass of a vector misses what the first added to its row",
        ROWS,
    ),
    rtl_fault(
        "places of a radicand",
        "store/row_factors.py",
        "moves.eq(zeros & self.look_up if step == 1 else zeros),",
        "moves.eq(zeros),",
        "a root is taken of a number that was moved by an odd number of places",
        ROWS,
    ),
    rtl_fault(
        "lanes without an element",
        "store/row_lanes.py",
        "m.d.sync += element_4.eq(Mux(off_3, 0, whole))",
        "m.d.sync += element_4.eq(whole)",
        "what lies in the spare lanes of a row's last vector goes into its sums",
        ROWS,
    ),
    simulator_fault(
        "lanes of a row's other vectors",
        "rows.py",
        "return min(wanted, lanes) if is_last and wanted > 0 else lanes",
        "return min(wanted, lanes) if wanted > 0 else lanes",
        "every vector of a row has no more elements than its last one",
        ROWS,
    ),
    simulator_fault(
        "mean of a row",
        "rows.py",
        "w -= value if register >> 9 & 1 else 0",
        "w -= value",
        "the sum comes off rows that keep their mean",
        ROWS,
    ),
    simulator_fault(
        "look-up's zero point",
        "post.py",
        "own_zero_point = _signed(here[2], 48, 16) if row[TABLE] else zero_point",
        "own_zero_point = zero_point",
        "what a look-up finds has the zero point of what it looked up",
        TABLES,
    ),
)
