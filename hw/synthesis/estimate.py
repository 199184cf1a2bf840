"""Estimates the longest paths of a mapped ECP5 netlist without placement, in seconds instead of half an hour.

Delays of cells are those that nextpnr 0.11 reports for speed grade 6; the delay of a wire is estimated from the number
of pins that it drives. The estimate is coarse. After placement in a device that was then half full, the longest path
was about as long as the longest estimate (`edge8`: 9.9 and 10.1 ns), but it was another path.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .netlist import plain_path

_FROM_CLOCK: Final = {"TRELLIS_FF": 0.52, "DP16KD": 5.7, "PDPW16KD": 5.7}
"""Nanoseconds from the clock edge to the outputs of a cell with registers, by kind of cell."""

_PRODUCT: Final = 3.93
_LUT, _CARRY_IN, _CARRY, _SUM = 0.24, 0.44, 0.07, 0.45
_MANY_PINS: Final = 40

Net = int
"""Number of a net of one bit in Yosys' JSON; constants are strings there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedPath:
    """The longest path from one register to the cells of one instance, at pins of one kind: CE, LSR or data.

    `ns`: estimated delay. `start`, `end`: names of registers, without their bit. `pin`: pin of the last cell (DI, CE,
    LSR, or a pin of a memory); `path`: instance of this cell. `endpoints`: in the end instance, the number of pins of
    this kind whose longest path begins at `start`. `loads`: number of pins that each wire of the path drives.
    """

    ns: float
    start: str
    end: str
    pin: str
    path: str
    endpoints: int
    loads: tuple[int, ...]


def longest_paths(module: Mapping[str, Any], paths: Mapping[str, str], *, count: int) -> list[EstimatedPath]:
    """The `count` longest paths of `module`, Yosys' JSON mapped to ECP5: one for each combination of start register,
    instance at the end, and kind of end pin (CE, LSR or data).

    `paths`: the instance of each cell (`netlist.instance_paths`).
    """
    cells = module["cells"]
    names = _names(module)
    loads = Counter(
        bit for cell in cells.values() for pin, bit in _pins(cell) if cell["port_directions"][pin] == "input"
    )
    arcs = {net: arc for cell in cells.values() for net, arc in _arcs(cell)}
    arrival = {
        bit: _FROM_CLOCK[cell["type"]]
        for cell in cells.values()
        if cell["type"] in _FROM_CLOCK
        for pin, bit in _pins(cell)
        if cell["port_directions"][pin] == "output"
    }
    before: dict[Net, Net] = {}

    def wire(net: Net) -> float:
        pins = max(1, loads[net])
        return 0.75 + 0.18 * math.log2(pins) + (0.3 if pins >= _MANY_PINS else 0)

    def arrive(net: Net) -> float:
        waiting = [net]
        while waiting:
            here = waiting[-1]
            inputs = arcs.get(here, [])
            unknown = [source for source, _, _ in inputs if source not in arrival]
            if here in arrival or not inputs:
                arrival.setdefault(here, 0.0)
                waiting.pop()
            elif unknown:
                waiting += unknown
            else:
                times = [(arrival[s] + ns + (wire(s) if wired else 0), s) for s, ns, wired in inputs]
                arrival[here], before[here] = max(times)
                waiting.pop()
        return arrival[net]

    longest: dict[tuple[str, str, str], tuple[float, str, str, Net]] = {}
    endpoints: Counter[tuple[str, str, str]] = Counter()
    for name, cell in cells.items():
        if cell["type"] not in (*_FROM_CLOCK, "TRELLIS_DPR16X4"):
            continue
        for pin, net in _pins(cell):
            if cell["port_directions"][pin] != "input" or pin in ("CLK", "CLKA", "CLKB", "WCK", "RAD"):
                continue
            ns = arrive(net) + wire(net)
            start = names.get(_trace(net, before)[0], "")
            key = (start, paths.get(name, ""), pin if pin in ("CE", "LSR") else "data")
            endpoints[key] += 1
            if key not in longest or ns > longest[key][0]:
                longest[key] = (ns, name, pin, net)
    found = sorted(longest.items(), key=lambda item: -item[1][0])[:count]
    return [
        EstimatedPath(
            ns=round(ns, 2),
            start=key[0],
            end=names.get(next((b for p, b in _pins(cells[name]) if p == "Q"), -1), name),
            pin=pin,
            path=key[1],
            endpoints=endpoints[key],
            loads=tuple(loads[step] for step in _trace(net, before)),
        )
        for key, (ns, name, pin, net) in found
    ]


def _pins(cell: Mapping[str, Any]) -> Iterator[tuple[str, Net]]:
    """Yields (name of the pin, net) for each bit of a cell's pins that is connected to a net, not to a constant."""
    for pin, bits in cell["connections"].items():
        for bit in bits:
            if not isinstance(bit, str):
                yield pin, bit


def _names(module: Mapping[str, Any]) -> dict[Net, str]:
    """A name for each net of `module` (Yosys' JSON), without its bit: a name in the source if there is one, else a name
    that tools made.
    """
    found: dict[Net, tuple[bool, str]] = {}
    for name, net in module["netnames"].items():
        rank = (bool(net.get("hide_name")), name)
        for bit in net["bits"]:
            if not isinstance(bit, str) and (bit not in found or rank[0] < found[bit][0]):
                found[bit] = rank
    return {bit: plain_path(name) for bit, (_, name) in found.items()}


def _trace(net: Net, before: Mapping[Net, Net]) -> list[Net]:
    """The nets of the longest path to `net`, from its start; `before`: for each net, the net before it on its longest
    path.
    """
    way = [net]
    while way[-1] in before:
        way.append(before[way[-1]])
    return way[::-1]


def _arcs(cell: Mapping[str, Any]) -> Iterator[tuple[Net, list[tuple[Net, float, bool]]]]:
    """Yields (output, timing arcs) for each output of a cell that depends on inputs of the same cycle. A timing arc is
    (input, nanoseconds, whether the input comes over routed wires). An input that another cell of the same slice drives
    needs no routed wire.
    """
    inputs = [(pin, bit) for pin, bit in _pins(cell) if cell["port_directions"][pin] == "input"]
    outputs = {pin: bit for pin, bit in _pins(cell) if cell["port_directions"][pin] == "output"}
    match cell["type"]:
        case "LUT4":
            yield outputs["Z"], [(bit, _LUT, True) for _, bit in inputs]
        case "PFUMX" | "L6MUX21":
            # The look-up tables before this multiplexer are in the same slice, without a wire.
            data = ("ALUT", "BLUT", "D0", "D1")
            yield outputs["Z"], [(bit, _LUT, pin not in data) for pin, bit in inputs]
        case "CCU2C":
            low = [(bit, _CARRY_IN, True) for pin, bit in inputs if pin in ("A0", "B0", "C0", "D0")]
            high = [(bit, _CARRY_IN, True) for pin, bit in inputs if pin in ("A1", "B1", "C1", "D1")]
            carry = [bit for pin, bit in inputs if pin == "CIN"]
            if "S0" in outputs:
                yield outputs["S0"], low + [(bit, _SUM, False) for bit in carry]
            if "S1" in outputs:
                later = [(bit, ns + _CARRY, wired) for bit, ns, wired in low]
                yield outputs["S1"], high + later + [(bit, _SUM, False) for bit in carry]
            if "COUT" in outputs:
                yield outputs["COUT"], low + high + [(bit, _CARRY, False) for bit in carry]
        case "MULT18X18D":
            factors = [(bit, _PRODUCT, True) for pin, bit in inputs if pin[0] in "AB" and pin[1:].isdigit()]
            for bit in outputs.values():
                yield bit, factors
        case "TRELLIS_DPR16X4":
            address = [(bit, _LUT, True) for pin, bit in inputs if pin == "RAD"]
            for pin, bit in _pins(cell):
                if pin == "DO":
                    yield bit, address
        case _:
            return
