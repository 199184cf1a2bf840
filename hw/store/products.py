"""Pipelined multiplication of mantissas. A hardware multiplier of the FPGA computes most of a product, and AND gates
and adders the rest.

Xilinx has multipliers of 24 x 17 bits unsigned, Lattice of 18 x 18 bits; a part of 18 x 17 bits fits both. The
remaining 6 bits of a factor are multiplied by six rows of AND gates, since multipliers for these bits would double the
number of multipliers.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from .pipeline import register

WIDE_CYCLES = 4
"""Cycles from the factors to `multiply_wide`'s product."""

NARROW_CYCLES = 3
"""Cycles from the factors to `multiply_narrow`'s product."""

_ROWS = 6
_BLOCK = 17


def multiply_wide(m: Module, a: Value, b: Value, name: str) -> Value:
    """`a` x `b` (24 bits each) by two multipliers; the product has 48 bits and comes WIDE_CYCLES later."""
    low, middle, high = _row_sums(m, a[:_ROWS], b, name)
    upper = a[_ROWS:]
    first = register(m, upper * b[:_BLOCK], f"{name}_first")
    second = register(m, upper * b[_BLOCK:], f"{name}_second")
    blocks_2 = register(m, (first + (second << _BLOCK))[:42], f"{name}_blocks_2")
    rows_2 = register(m, low + (middle << 2), f"{name}_rows_2")
    high_2 = register(m, high, f"{name}_high_2")
    blocks_3 = register(m, blocks_2, f"{name}_blocks_3")
    rows_3 = register(m, (rows_2 + (high_2 << 4))[:30], f"{name}_rows_3")
    return register(m, ((blocks_3 << _ROWS) + rows_3)[:48], f"{name}_4")


def multiply_narrow(m: Module, a: Value, b: Value, name: str) -> Value:
    """`a` (12 bits) x `b` (24 bits) by one multiplier; the product has 36 bits and comes NARROW_CYCLES later."""
    low, middle, high = _row_sums(m, b[:_ROWS], a, name)
    block = register(m, a * b[_ROWS:], f"{name}_block")
    upper_2 = register(m, ((block << 2) + high)[:32], f"{name}_upper_2")
    rows_2 = register(m, low + (middle << 2), f"{name}_rows_2")
    return register(m, ((upper_2 << 4) + rows_2)[:36], f"{name}_3")


def _row_sums(m: Module, bits: Value, factor: Value, name: str) -> list[Signal]:
    """Splits `bits` (6 bits) into three numbers of 2 bits, and returns each one's product with `factor`, the lowest
    first. The products are valid one cycle later.
    """
    rows = [Mux(bits[row], factor, 0) for row in range(_ROWS)]
    return [
        register(m, rows[row] + Cat(0, rows[row + 1]), f"{name}_rows_{row}") for row in range(0, _ROWS, 2)
    ]
