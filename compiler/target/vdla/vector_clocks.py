"""The loop of `tokens`, compiled: one file and one function, as numba's cache sees no changes of other files."""

from __future__ import annotations

import numpy as np
from vdla.util.machine_code import compiled


@compiled()
def draw_edges(spans, late, queues, last, ended, edges):  # type: ignore[no-untyped-def]
    """Fills `edges` with (queue, source, target) rows and returns how many they are.

    `spans` are units, first, low, high and writes of `tokens.Touches`. `last` = (written, read), each (units, size),
    holds the last operation of each unit to do so to each element, `ended` (operations, units) the last operation of
    each unit known to have ended when an operation has.
    """
    units, first, low, high, writes = spans
    written, read = last
    count = len(queues)
    # clocks[v, u]: the last operation of unit u known to have ended when unit v begins its next one.
    clocks = np.full((count, count), -1, dtype=np.int64)
    last_of_unit = np.full(count, -1, dtype=np.int64)
    needed = np.empty(count, dtype=np.int64)
    found = 0
    for number in range(len(units)):
        unit = units[number]
        for other in range(count):
            needed[other] = -1
            if other == unit:
                continue
            latest = np.int32(-1)
            for span in range(first[number], first[number + 1]):
                for element in range(low[span], high[span]):
                    latest = max(latest, written[other, element])
                if writes[span]:
                    for element in range(low[span], high[span]):
                        latest = max(latest, read[other, element])
            if latest > clocks[unit, other]:
                needed[other] = last_of_unit[other] if late else latest
        for other in range(count):
            source = needed[other]
            follows = False
            for third in range(count):
                if third != other and needed[third] >= 0 and ended[needed[third], other] >= source:
                    follows = True
            if source >= 0 and not follows:
                edges[found, 0], edges[found, 1], edges[found, 2] = queues[other, unit], source, number
                found += 1
        for other in range(count):
            if needed[other] >= 0:
                for third in range(count):
                    clocks[unit, third] = max(clocks[unit, third], ended[needed[other], third])
        for span in range(first[number], first[number + 1]):
            touched = written if writes[span] else read
            for element in range(low[span], high[span]):
                touched[unit, element] = number
        ended[number] = clocks[unit]
        ended[number, unit] = number
        last_of_unit[unit] = number
    return found
