"""Power of a part of a netlist as computed by the timing tool OpenSTA (Debian: `opensta`); results of power.py are
compared with it.

The tool gets the activity of each pin by commands, since it does not read SAIF. If a netlist has input ports, the tool
propagates their activity and overwrites the given activity of other pins. Therefore the part has no input ports. Added
flip-flops drive its open nets; the tool propagates nothing from flip-flops, so all pins keep their given activity.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..synthesis.cells.timing import PROGRAM, timing_tool
from ..synthesis.tools import ToolError, run_tool
from .expressions import Expression
from .liberty import Cell, InternalPower, Library
from .netlist import Netlist
from .power import CLOCK_SLEW, FALL, RISE, Electrical
from .simulate import Activity

_PERIOD = 10.0
"""Clock period in nanoseconds; its value does not matter, since results are power times period."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToolPower:
    """Energy of each cell of a part of a netlist, in picojoules a cycle: inside the cell, and for switching the nets
    that the cell drives.
    """

    internal: NDArray[np.float64]
    switching: NDArray[np.float64]


def part_of(netlist: Netlist, cells: NDArray[np.intp], library: Library) -> tuple[Netlist, NDArray[np.bool_]]:
    """Cuts the cells with indices `cells` out of `netlist`. Memories and ports are left out, and nets keep their
    numbers. The cells read some nets that they do not drive. Each of these nets, except clocks, gets an added flip-flop
    of `library` as its driver. Returns the new netlist (first the cells in the order of `cells`, then the flip-flops),
    and a mask, bool (n,), that is false for the flip-flops.
    """
    kind = netlist.kind[cells]
    pins = netlist.pins[cells]
    inputs = np.array([len(library.cells[k].inputs) for k in netlist.kinds])[kind]
    column = np.arange(pins.shape[1])[None, :]
    used, driven = (
        pins[(column < inputs[:, None]) & (pins >= 0)],
        pins[(column >= inputs[:, None]) & (pins >= 0)],
    )
    clocks = _clock_nets(netlist, library)
    outside = np.setdiff1d(np.setdiff1d(used, driven), clocks)
    source = next(name for name, cell in library.cells.items() if _is_plain(cell))
    cell = library.cells[source]
    assert cell.register is not None
    names = (*cell.inputs, *cell.functions)
    kinds = netlist.kinds if source in netlist.kinds else (*netlist.kinds, source)
    pin_names = tuple((*library.cells[k].inputs, *library.cells[k].functions) for k in kinds)
    added = np.full((len(outside), max(pins.shape[1], len(names))), -1, np.int32)
    if len(clocks):
        added[:, names.index(cell.register.clock)] = clocks[0]
    added[:, len(cell.inputs)] = outside
    pins = np.pad(pins, ((0, 0), (0, added.shape[1] - pins.shape[1])), constant_values=-1)
    gates = np.isin(netlist.outputs, driven)
    states = np.isin(netlist.states, driven)
    part = replace(
        netlist,
        kinds=kinds,
        kind=np.concatenate([kind, np.full(len(outside), kinds.index(source), np.int32)]),
        unit=np.concatenate([netlist.unit[cells], np.zeros(len(outside), np.int32)]),
        pins=np.concatenate([pins, added]),
        pin_names=pin_names,
        names=(*(netlist.names[i] for i in cells), *(f"source {net}" for net in outside)),
        tables=netlist.tables[gates], inputs=netlist.inputs[gates], outputs=netlist.outputs[gates],
        state_tables=netlist.state_tables[states], state_inputs=netlist.state_inputs[states],
        states=netlist.states[states], memories=(), input_ports={}, output_ports={},
    )  # fmt: skip
    return part, np.arange(len(part.kind)) < len(cells)


def _is_plain(cell: Cell) -> bool:
    return (
        cell.register is not None
        and cell.refused is None
        and len(cell.inputs) == 2
        and len(cell.functions) == 1
    )


def _clock_nets(netlist: Netlist, library: Library) -> NDArray[np.int32]:
    found = list[NDArray[np.int32]]()
    for k, kind in enumerate(netlist.kinds):
        register = library.cells[kind].register
        if register is not None:
            found.append(netlist.pins[netlist.kind == k, library.cells[kind].inputs.index(register.clock)])
    nets = np.unique(np.concatenate([np.zeros(0, np.int32), *found]))
    return nets[nets >= 0]


def tool_power(part: Netlist, library: Library, activity: Activity) -> ToolPower:
    """Energy in picojoules a cycle of each cell of `part` with `activity`, computed by OpenSTA from the file of
    `library`. Raises ToolError if OpenSTA is missing or fails.
    """
    tool = timing_tool()
    if tool is None:
        raise ToolError(f"{PROGRAM} is not on the path; install Debian's opensta")
    clocks = _clock_nets(part, library)
    with tempfile.TemporaryDirectory(prefix="vdla-power-") as directory:
        work = Path(directory)
        (work / "part.v").write_text(_verilog(part, clocks), encoding="utf-8")
        (work / "power.tcl").write_text(_script(part, library, activity, clocks), encoding="utf-8")
        printed = run_tool(
            [tool, "-no_splash", "-exit", "power.tcl"],
            directory=work,
            step=lambda line: None,
            report=lambda text: None,
        )
        rows = [line.split()[1:] for line in printed.splitlines() if line.startswith("power ")]
        if len(rows) != len(part.kind):
            last = "\n".join(printed.strip().splitlines()[-5:])
            raise ToolError(
                f"{PROGRAM} printed the power of only {len(rows)} of {len(part.kind)} cells: {last}"
            )
    watts = np.array(rows, float)
    # The tool reports watts; the period is in nanoseconds.
    return ToolPower(internal=watts[:, 0] * _PERIOD * 1e3, switching=watts[:, 1] * _PERIOD * 1e3)


def _verilog(part: Netlist, clocks: NDArray[np.int32]) -> str:
    clock = int(clocks[0]) if len(clocks) else -1
    lines = ["module part(clk);", "  input clk;"]
    lines += [f"  wire n{net};" for net in np.unique(part.pins[part.pins >= 0]) if net != clock]
    for i, (kind, row) in enumerate(zip(part.kind.tolist(), part.pins.tolist(), strict=True)):
        pins = ", ".join(
            f".{pin}({'clk' if net == clock else f'n{net}'})"
            for pin, net in zip(part.pin_names[kind], row, strict=False)
            if net >= 0
        )
        lines.append(f"  {part.kinds[kind]} c{i} ({pins});")
    return "\n".join([*lines, "endmodule", ""])


def _script(part: Netlist, library: Library, activity: Activity, clocks: NDArray[np.int32]) -> str:
    lines = [
        f"read_liberty {{{library.path.resolve()}}}",
        "read_verilog part.v",
        "link_design part",
        f"create_clock -name clk -period {_PERIOD:g} [get_ports clk]",
        # The tool takes the first setting for delays of an ideal clock, the second for power.
        f"set_clock_transition {CLOCK_SLEW:g} [get_clocks clk]",
        f"set_input_transition {CLOCK_SLEW:g} [get_ports clk]",
        "proc a {pin activity duty} {",
        "  sta::set_power_pin_activity [get_pins $pin] $activity $duty",
        "}",
    ]
    toggles, ones = activity.toggles / activity.cycles, activity.ones / activity.cycles
    for i, (kind, row) in enumerate(zip(part.kind.tolist(), part.pins.tolist(), strict=True)):
        lines += [
            f"a c{i}/{pin} {toggles[net]:.9g} {min(1.0, ones[net]):.9g}"
            for pin, net in zip(part.pin_names[kind], row, strict=False)
            if net >= 0 and net not in clocks
        ]
        # Without this command, a data pin without a net would have the tool's default activity.
        lines += [f"a c{i}/{pin} 0 0" for pin, net in zip(part.pin_names[kind], row, strict=False) if net < 0]
    lines += [
        f"for {{set i 0}} {{$i < {len(part.kind)}}} {{incr i}} {{",
        "  set found [sta::instance_power [get_cells c$i] [sta::cmd_corner]]",
        '  puts "power [lindex $found 0] [lindex $found 1]"',
        "}",
    ]
    return "\n".join([*lines, ""])


def as_the_tool_counts(part: Netlist, library: Library, state: Electrical, activity: Activity) -> ToolPower:
    """Energy in picojoules a cycle of each cell of `part` with `activity`, computed here from loads and slews `state`
    by the tool's rules (search/Power.cc of OpenSTA, commit c018cb2).

    The tool's rules differ from those of `power.py` in the weights of the inputs' tables, and they add the energies of
    a rise and a fall for each toggle (later versions of the tool take the mean).
    """
    toggles, ones = activity.toggles / activity.cycles, activity.ones / activity.cycles
    load = state.loads.max(axis=1)
    internal, switching = np.zeros(len(part.kind)), np.zeros(len(part.kind))
    for k, kind in enumerate(part.kinds):
        here = np.flatnonzero(part.kind == k)
        cell = library.cells[kind]
        names = part.pin_names[k]
        clock = cell.register.clock if cell.register else None
        nets = {pin: part.pins[here, i] for i, pin in enumerate(names)}

        def rate(
            pin: str, nets: dict[str, NDArray[np.int32]] = nets, clock: str | None = clock
        ) -> NDArray[np.float64]:
            return (
                np.full(len(nets[pin]), 2.0)
                if pin == clock
                else np.where(nets[pin] < 0, 0.0, toggles[nets[pin]])
            )

        for pin in cell.functions:
            switching[here] += rate(pin) * load[nets[pin]] * library.volts**2 / 2 * (nets[pin] >= 0)
        for power in cell.powers:
            cause = power.related or power.pin
            slews = np.full((len(here), 2), CLOCK_SLEW) if cause == clock else state.slews[nets[cause]]
            loads = load[nets[power.pin]] if power.pin in cell.functions else np.zeros(len(here))
            both = power.rise(slews[:, RISE], loads) + power.fall(slews[:, FALL], loads)
            duties = {
                name: np.full(len(here), 0.5)
                if name == clock
                else np.where(nets[name] < 0, 0.0, ones[nets[name]])
                for name in names
            }
            internal[here] += both * _share(cell, power, clock, rate, duties) * rate(power.pin)
    return ToolPower(internal=internal, switching=switching)


def _share(
    cell: Cell,
    power: InternalPower,
    clock: str | None,
    rate: Callable[[str], NDArray[np.float64]],
    duties: dict[str, NDArray[np.float64]],
) -> NDArray[np.float64]:
    size = len(next(iter(duties.values())))
    if power.when is not None:
        return _duty(power.when, duties)
    condition = None
    if power.related is not None:
        condition = _condition(cell.functions[power.pin], power.related)
    if condition is not None and power.related is not None:
        own, cause = rate(power.pin), rate(power.related)
        return np.where(own > 0, cause / np.where(own > 0, own, 1) * _duty(condition, duties), 0.0)
    return np.full(size, 1.0 if (power.related or power.pin) == clock else 0.5)


def _condition(function: Expression, pin: str) -> Expression | None:
    """The condition under which a toggle of input `pin` toggles `function`, the expression of an output, as OpenSTA
    derives it; None if OpenSTA derives none.
    """
    if isinstance(function, str):
        return "1" if function == pin else None
    operator, parts = function
    if operator == "not":
        return _condition(parts[0], pin)
    for part, other in (parts, parts[::-1]):
        if part in (pin, ("not", (pin,))):
            if operator == "and":
                return other
            return other[1][0] if other[0] == "not" and not isinstance(other, str) else ("not", (other,))
    return None


def _duty(expression: Expression, duties: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """The share (0..1) of cycles in which an expression is 1, for each cell of an array of cells, assuming independent
    pins. `duties`: for each pin, the share of cycles in which the pin is 1, one number for each cell.
    """
    if isinstance(expression, str):
        size = len(next(iter(duties.values())))
        return np.full(size, float(expression)) if expression in "01" else duties[expression]
    operator, parts = expression
    found = [_duty(part, duties) for part in parts]
    if operator == "not":
        return 1 - found[0]
    if operator == "and":
        return found[0] * found[1]
    if operator == "or":
        return 1 - (1 - found[0]) * (1 - found[1])
    return found[0] * (1 - found[1]) + found[1] * (1 - found[0])
