"""Energy of switching: loads and slews of a netlist, and the energy of its activity by cell and unit.

A toggle of a net costs half the net's load times the voltage squared. A toggle of a cell's output also costs energy
inside the cell: the mean of the Liberty tables for rise and fall, at the output's load and the slew of the input that
caused the toggle. If several inputs may be the cause, their energies are averaged with their numbers of toggles as
weights. A toggle of an input with a table of its own (data and clocks of flip-flops) costs the energy in this table.
Not included: glitches (simulate.py), wires (apart from a capacitance `wire_pf` for each pin), the clock tree, pads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .liberty import InternalPower, Library, Table
from .netlist import Netlist
from .simulate import Activity

CLOCK_SLEW = INPUT_SLEW = 0.1
"""Slews in nanoseconds of the clock at flip-flops, and of nets that input ports or memories drive."""

RISE, FALL = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Electrical:
    """`loads` in pF and `slews` in ns of a netlist's nets, each float64 (nets, 2): for a rise and for a fall."""

    loads: NDArray[np.float64]
    slews: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Energy:
    """Energy of a run in picojoules. For each cell: `switching` of the nets that it drives, `internal` energy of the
    cell, and `clock`, the energy at its clock pins. For each memory: `memory_outputs`, the energy of the nets that it
    drives.
    """

    switching: NDArray[np.float64]
    internal: NDArray[np.float64]
    clock: NDArray[np.float64]
    memory_outputs: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitEnergy:
    """Energy of a unit in picojoules: `switching` of its nets, `internal` energy of its cells, and `clock`, the energy
    at the clock pins of its flip-flops. `leakage_nw` is its leakage in nanowatts.
    """

    switching: float
    internal: float
    clock: float
    leakage_nw: float

    @property
    def dynamic(self) -> float:
        """Energy in picojoules without leakage."""
        return self.switching + self.internal + self.clock


def groups_of(netlist: Netlist) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Yields a pair for each kind of library cell in the netlist: the kind's name, and the indices of its cells."""
    for k, kind in enumerate(netlist.kinds):
        yield kind, np.flatnonzero(netlist.kind == k)


def electrical(netlist: Netlist, library: Library, *, wire_pf: float = 0.0) -> Electrical:
    """Loads and slews of all nets. A load is the sum of the capacitances that `library` gives the driven pins, and
    `wire_pf` picofarads for each of these pins; slews follow from the timing arcs of the driving cells.
    """
    loads = np.zeros((netlist.nets + 1, 2))
    for kind, cells in groups_of(netlist):
        cell = library.cells[kind]
        for k, pin in enumerate(cell.inputs):
            nets = netlist.pins[cells, k]
            for way in (RISE, FALL):
                loads[:, way] += np.bincount(
                    np.where(nets < 0, netlist.nets, nets), minlength=netlist.nets + 1
                ) * (cell.capacitances[pin][way] + wire_pf)
    return Electrical(loads=loads[:-1], slews=_slews(netlist, library, loads[:-1]))


def _slews(netlist: Netlist, library: Library, loads: NDArray[np.float64]) -> NDArray[np.float64]:
    """Slews in ns of all nets, float64 (nets, 2) for a rise and a fall: the largest over the arcs of a net's driver.
    Computed level by level, drivers first. `loads`: loads of all nets in pF, of the same shape.
    """
    slews = np.full((netlist.nets, 2), INPUT_SLEW)
    level = np.zeros(netlist.nets, np.int32)
    for row, out in zip(netlist.inputs.tolist(), netlist.outputs.tolist(), strict=True):
        if row[0] >= 0:
            level[out] = 1 + max(level[net] for net in row)
    registers, gates = list[tuple[str, NDArray[np.intp]]](), list[tuple[int, str, NDArray[np.intp]]]()
    for kind, cells in groups_of(netlist):
        cell = library.cells[kind]
        if cell.register is not None:
            registers.append((kind, cells))
            continue
        first = len(cell.inputs)
        outs = netlist.pins[cells, first : first + len(cell.functions)]
        of = np.where(outs < 0, 0, level[outs]).max(axis=1)
        order = np.argsort(of, kind="stable")
        cuts = np.flatnonzero(np.diff(of[order])) + 1
        gates += [(int(of[part[0]]), kind, cells[part]) for part in np.split(order, cuts) if len(part)]
    for kind, cells in [*registers, *((kind, cells) for _, kind, cells in sorted(gates, key=lambda g: g[0]))]:
        _drive(netlist, library, kind, cells, loads, slews)
    return slews


def _drive(
    netlist: Netlist,
    library: Library,
    kind: str,
    cells: NDArray[np.intp],
    loads: NDArray[np.float64],
    slews: NDArray[np.float64],
) -> None:
    """Writes to `slews` the slews of the nets that `cells` (indices of cells of one kind) drive, given the `loads` of
    all nets; the slews of the cells' inputs must be set before.
    """
    cell = library.cells[kind]
    names = (*cell.inputs, *cell.functions)
    clock = cell.register.clock if cell.register else None
    for k, pin in enumerate(names[len(cell.inputs) :], len(cell.inputs)):
        here = cells[netlist.pins[cells, k] >= 0]
        nets = netlist.pins[here, k]
        found = np.zeros((len(here), 2))
        for arc in cell.arcs:
            if arc.pin != pin:
                continue
            before = netlist.pins[here, names.index(arc.related)]
            for way, table in ((RISE, arc.rise), (FALL, arc.fall)):
                for causes, used in ((way, arc.follows), (1 - way, arc.inverts)):
                    if used:
                        slew = (
                            np.full(len(here), CLOCK_SLEW) if arc.related == clock else slews[before, causes]
                        )
                        found[:, way] = np.maximum(found[:, way], table(slew, loads[nets, way]))
        if len(here):
            slews[nets] = np.where(found > 0, found, INPUT_SLEW)


def energy_of(netlist: Netlist, library: Library, state: Electrical, activity: Activity) -> Energy:
    """Energy of a run with `activity`, in picojoules by cell and memory. `state`: loads and slews of the nets. Clock
    pins toggle twice a cycle.
    """
    cells = len(netlist.kind)
    found = Energy(
        switching=np.zeros(cells), internal=np.zeros(cells), clock=np.zeros(cells),
        memory_outputs=np.zeros(len(netlist.memories)),
    )  # fmt: skip
    toggles = activity.toggles.astype(float)
    load = state.loads.max(axis=1)
    # pF times volts squared are picojoules.
    each = toggles * load * library.volts**2 / 2
    for kind, here in groups_of(netlist):
        cell = library.cells[kind]
        names = (*cell.inputs, *cell.functions)
        clock = cell.register.clock if cell.register else None
        if clock is not None:
            capacitance = max(cell.capacitances[clock])
            found.clock[here] += activity.cycles * capacitance * library.volts**2
        for k, pin in enumerate(names):
            nets = netlist.pins[here, k]
            connected = nets >= 0
            powers = [power for power in cell.powers if power.pin == pin]
            if pin in cell.functions:
                found.switching[here] += np.where(connected, each[nets], 0.0)
                found.internal[here] += np.where(
                    connected,
                    toggles[nets]
                    * _of_output(netlist, here, names, powers, state, toggles, load[nets], clock),
                    0.0,
                )
            elif pin == clock:
                for power in powers:
                    slew = np.full(1, CLOCK_SLEW)
                    both = power.rise(slew, np.zeros(1)) + power.fall(slew, np.zeros(1))
                    found.clock[here] += activity.cycles * float(both[0]) / len(powers)
            else:
                for power in powers:
                    own = _mean(power.rise, power.fall, state.slews[nets], np.zeros(len(here)))
                    found.internal[here] += np.where(connected, toggles[nets] * own / len(powers), 0.0)
    for i, memory in enumerate(netlist.memories):
        for port in memory.reads:
            found.memory_outputs[i] += each[port.data].sum()
    return found


def _mean(
    rise: Table, fall: Table, slews: NDArray[np.float64], load: NDArray[np.float64]
) -> NDArray[np.float64]:
    return (rise(slews[:, RISE], load) + fall(slews[:, FALL], load)) / 2


def _of_output(
    netlist: Netlist,
    cells: NDArray[np.intp],
    names: tuple[str, ...],
    powers: list[InternalPower],
    state: Electrical,
    toggles: NDArray[np.float64],
    load: NDArray[np.float64],
    clock: str | None,
) -> NDArray[np.float64]:
    """Energy in picojoules of one toggle of an output, float64 (n,), for each of the n `cells`. `powers` has a table
    for each input that may cause the toggle; the result is their mean, weighted by the inputs' `toggles`. `names`: pins
    of the cells; `state`: loads and slews of all nets; `load`: load of each output; `clock`: the clock pin, if any.
    """
    total, weights = np.zeros(len(cells)), np.zeros(len(cells))
    plain, count = np.zeros(len(cells)), 0
    for power in powers:
        slews, weight = np.full((len(cells), 2), INPUT_SLEW), np.ones(len(cells))
        if power.related is not None:
            nets = netlist.pins[cells, names.index(power.related)]
            slews = np.full((len(cells), 2), CLOCK_SLEW) if power.related == clock else state.slews[nets]
            weight = np.ones(len(cells)) if power.related == clock else toggles[nets]
        own = _mean(power.rise, power.fall, slews, load)
        total, weights = total + weight * own, weights + weight
        plain, count = plain + own, count + 1
    return np.where(weights > 0, total / np.where(weights > 0, weights, 1), plain / max(1, count))


def by_unit(netlist: Netlist, library: Library, energy: Energy) -> dict[str, UnitEnergy]:
    """Returns, by name of the unit (`synthesis.units.unit_of_path`), the energy summed over the unit's cells and
    memories, and the leakage summed over its cells alone.
    """
    count = len(netlist.units)

    def sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(netlist.unit, weights=values, minlength=count).astype(float)

    leakage = np.array([library.cells[kind].leakage for kind in netlist.kinds])
    units = {unit: i for i, unit in enumerate(netlist.units)}
    of_memories = np.array([units[memory.unit] for memory in netlist.memories], int)
    rows = (
        sums(energy.switching) + np.bincount(of_memories, weights=energy.memory_outputs, minlength=count),
        sums(energy.internal),
        sums(energy.clock),
        sums(leakage[netlist.kind]),
    )
    return {
        unit: UnitEnergy(
            switching=float(rows[0][i]),
            internal=float(rows[1][i]),
            clock=float(rows[2][i]),
            leakage_nw=float(rows[3][i]),
        )
        for i, unit in enumerate(netlist.units)
    }
