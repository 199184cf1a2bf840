"""Reduction of a window of accumulators, for STORE.POST and ROWS."""

from __future__ import annotations

from vdla.util.machine_code import compiled


@compiled()
def reduce_window(acc, corner, here, reduced):  # type: ignore[no-untyped-def]
    """Writes to `reduced` int32 (batch, block_out) the maximum or wrapping sum of the window of accumulators from index
    `corner` on; indices wrap around at the end of `acc`. `here`: values of the store unit's configuration registers, of
    which WINDOW gives the window's size and strides and selects maximum or sum.
    """
    rows, columns = (here[1] & 0xFF) + 1, (here[1] >> 8 & 0xFF) + 1
    row_stride, column_stride, sums = here[1] >> 16 & 0xFFFF, here[1] >> 32 & 0xFFFF, here[1] >> 48 & 1
    for r in range(rows):
        for c in range(columns):
            vector = acc[(corner + r * row_stride + c * column_stride) % len(acc)]
            for b in range(reduced.shape[0]):
                for j in range(reduced.shape[1]):
                    if r == 0 and c == 0:
                        reduced[b, j] = vector[b, j]
                    elif sums:
                        reduced[b, j] += vector[b, j]
                    else:
                        reduced[b, j] = max(reduced[b, j], vector[b, j])
