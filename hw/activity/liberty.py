"""Reads Liberty files: cells with functions, pin capacitances, leakage, and tables of power and slew.

Attributes that neither activity nor power needs are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vdla.util.files import read_file

from ..synthesis.liberty_syntax import MOST_BYTES, Group, LibertyError, parse_groups
from .expressions import Expression, parse_expression


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table of `values` (output slews in ns, or energies in pJ) for each input slew in `slews` (ns) and each load in
    `loads` (pF); its shape is (slews, loads). If the values do not depend on the input slew (or the load), `slews` (or
    `loads`) has one point.
    """

    slews: NDArray[np.float64]
    loads: NDArray[np.float64]
    values: NDArray[np.float64]

    def __call__(self, slew: NDArray[np.float64], load: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values at `slew` (n,) and `load` (n,), by bilinear interpolation between the four surrounding points; outside
        the table, by extrapolation from the last two points.
        """
        i, u = _place(self.slews, slew)
        j, v = _place(self.loads, load)
        ii, jj = np.minimum(i + 1, len(self.slews) - 1), np.minimum(j + 1, len(self.loads) - 1)
        low = self.values[i, j] * (1 - v) + self.values[i, jj] * v
        high = self.values[ii, j] * (1 - v) + self.values[ii, jj] * v
        return low * (1 - u) + high * u


def _place(axis: NDArray[np.float64], x: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    if len(axis) == 1:
        return np.zeros(np.shape(x), np.intp), np.zeros(np.shape(x))
    i = np.clip(np.searchsorted(axis, x, "right") - 1, 0, len(axis) - 2)
    return i, (x - axis[i]) / (axis[i + 1] - axis[i])


@dataclass(frozen=True, slots=True, eq=False)
class InternalPower:
    """Energy tables in picojoules of a rise and a fall of `pin`, caused by a transition of pin `related`, under the
    condition `when` (None: always). `related` is None if the library names no cause, for example if `pin` is an input.
    """

    pin: str
    related: str | None
    when: Expression | None
    rise: Table
    fall: Table


@dataclass(frozen=True, slots=True, eq=False)
class Arc:
    """A timing arc: slew tables in ns of output `pin` after a transition of input `related`. `follows`: a change of
    `related` may cause a change of `pin` in the same direction. `inverts`: it may cause a change of `pin` in the
    opposite direction.
    """

    pin: str
    related: str
    inverts: bool
    follows: bool
    rise: Table
    fall: Table


@dataclass(frozen=True, slots=True, eq=False)
class Register:
    """An edge-triggered flip-flop: expression of the next state, clock pin, and the names that stand for its state and
    for the inverse state in output functions.
    """

    state: str
    inverse: str
    next_state: Expression
    clock: str


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A cell: area in the library's unit, leakage in nanowatts, capacitances of its pins (rise, fall) in pF. `inputs`:
    names of the input pins, clock included. `functions`: expression of each output pin that has one. `register`: None
    for a gate. `refused`: the reason why a netlist with this cell cannot be simulated, or None.
    """

    name: str
    area: float
    leakage: float
    inputs: tuple[str, ...]
    functions: Mapping[str, Expression]
    capacitances: Mapping[str, tuple[float, float]]
    register: Register | None
    powers: tuple[InternalPower, ...]
    arcs: tuple[Arc, ...]
    refused: str | None


@dataclass(frozen=True, eq=False)
class Library:
    """A library of cells at one corner (voltage, temperature). `digest`: SHA-256 of the file at `path`."""

    name: str
    volts: float
    celsius: float
    cells: Mapping[str, Cell]
    digest: str
    path: Path

    @cached_property
    def corner(self) -> str:
        """Voltage and temperature as text for reports, such as "1.8 V, 25 C"."""
        return f"{self.volts:g} V, {self.celsius:g} C"


def read_library(path: str | Path) -> Library:
    """Reads the library in the Liberty file at `path`. Raises LibertyError if the file cannot be read or is invalid."""
    try:
        data = read_file(path, most=MOST_BYTES)
    except OSError as error:
        raise LibertyError(f"{path}: {error.strerror}; give a Liberty file (.lib)") from None
    try:
        top = parse_groups(data.decode("latin-1"))
        return _library(top, Path(path), sha256(data).hexdigest())
    except (LibertyError, ValueError, KeyError, IndexError, RecursionError) as error:
        raise LibertyError(f"{path}: the Liberty file cannot be read: {error}") from None


def _numbers(words: list[str]) -> NDArray[np.float64]:
    return np.array([float(x) for word in words for x in re.split(r"[,\s\\]+", word) if x])


def _library(top: Group, path: Path, digest: str) -> Library:
    if top.name != "library":
        raise LibertyError(f"its outermost group is {top.name}, not library")
    unit, farads = top.complex.get("capacitive_load_unit", ["1", "pf"])
    picofarads = float(unit) * {"ff": 1e-3, "pf": 1.0}[farads.lower()]
    time = {"1ps": 1e-3, "10ps": 1e-2, "100ps": 0.1, "1ns": 1.0}[top.simple.get("time_unit", "1ns").lower()]
    watts = re.fullmatch(r"(\d+)(pW|nW|uW|mW)", top.simple.get("leakage_power_unit", "1nW"))
    if watts is None:
        raise LibertyError("its leakage_power_unit is not a number of pW, nW, uW or mW, as 1nW")
    nanowatts = float(watts[1]) * {"pW": 1e-3, "nW": 1.0, "uW": 1e3, "mW": 1e6}[watts[2]]
    condition = next(
        (
            g
            for g in top.named("operating_conditions")
            if g.arguments == [top.simple.get("default_operating_conditions", "")]
        ),
        Group("", []),
    )
    volts = float(condition.simple.get("voltage", top.simple.get("nom_voltage", "nan")))
    templates = {
        g.arguments[0]: g for g in top.groups if g.name in ("lu_table_template", "power_lut_template")
    }
    # The unit of energy in a Liberty file is the unit of load times volts squared.
    scales = _Scales(time=time, load=picofarads, energy=picofarads, leakage=nanowatts)
    default = float(top.simple.get("default_cell_leakage_power", "0"))
    cells = {g.arguments[0]: _cell(g, templates, scales, default) for g in top.named("cell")}
    if not cells:
        raise LibertyError("it has no cells")
    if not volts > 0:
        raise LibertyError(
            "it gives no voltage above 0 (nom_voltage, or that of its default operating conditions)"
        )
    celsius = float(condition.simple.get("temperature", top.simple.get("nom_temperature", "25")))
    return Library(top.arguments[0], volts, celsius, cells, digest, path)


@dataclass(frozen=True, slots=True)
class _Scales:
    time: float
    load: float
    energy: float
    leakage: float


def _cell(group: Group, templates: Mapping[str, Group], scales: _Scales, default: float) -> Cell:
    inputs, functions, capacitances = list[str](), dict[str, Expression](), dict[str, tuple[float, float]]()
    powers, arcs = list[InternalPower](), list[Arc]()
    refused = "it is a latch" if any(group.named("latch")) or any(group.named("statetable")) else None
    for pin in group.named("pin"):
        name = pin.arguments[0]
        plain = pin.simple.get("capacitance", "0")
        capacitances[name] = (
            scales.load * float(pin.simple.get("rise_capacitance", plain)),
            scales.load * float(pin.simple.get("fall_capacitance", plain)),
        )
        direction = pin.simple.get("direction")
        if direction == "input":
            inputs.append(name)
        elif direction == "output" and "function" in pin.simple:
            functions[name] = parse_expression(pin.simple["function"])
        if "three_state" in pin.simple:
            refused = "it has a three-state output"
        for timing in pin.named("timing"):
            arcs += _arcs(name, timing, templates, scales)
        for power in pin.named("internal_power"):
            tables = {g.name: _table(g, templates, scales, scales.energy) for g in power.groups}
            both = tables.get("power")
            rise, fall = tables.get("rise_power", both), tables.get("fall_power", both)
            if rise is None or fall is None:
                continue
            when = power.simple.get("when")
            for related in power.simple.get("related_pin", "").split() or [None]:
                condition = parse_expression(when) if when else None
                powers.append(InternalPower(name, related, condition, rise, fall))
    register = None
    for ff in group.named("ff"):
        if "clear" in ff.simple or "preset" in ff.simple:
            refused = "it is reset asynchronously"
        clock = ff.simple["clocked_on"].strip("() ")
        if clock not in inputs:
            refused = "its clock is not a pin"
        register = Register(
            ff.arguments[0], ff.arguments[1], parse_expression(ff.simple["next_state"]), clock
        )
    leakage = float(group.simple.get("cell_leakage_power", default))
    return Cell(
        group.arguments[0], float(group.simple.get("area", "0")), leakage * scales.leakage, tuple(inputs), functions,
        capacitances, register, tuple(powers), tuple(arcs), refused,
    )  # fmt: skip


def _arcs(pin: str, timing: Group, templates: Mapping[str, Group], scales: _Scales) -> Iterator[Arc]:
    tables = {g.name: g for g in timing.groups}
    kind = timing.simple.get("timing_type", "combinational")
    if (
        "rise_transition" not in tables
        or "fall_transition" not in tables
        or ("edge" not in kind and kind != "combinational")
    ):
        return
    sense = timing.simple.get("timing_sense", "non_unate")
    rise, fall = (
        _table(tables[f"{way}_transition"], templates, scales, scales.time) for way in ("rise", "fall")
    )
    for related in timing.simple["related_pin"].split():
        # The output of a flip-flop may rise or fall after the clock's edge, whatever timing sense the arc has.
        follows = sense != "negative_unate"
        yield Arc(pin, related, sense != "positive_unate", follows, rise, fall)


def _table(group: Group, templates: Mapping[str, Group], scales: _Scales, unit: float) -> Table:
    values = _numbers(group.complex["values"]) * unit
    name = group.arguments[0] if group.arguments else "scalar"
    one = np.zeros(1)
    if name == "scalar" or name not in templates:
        return Table(one, one, values.reshape(1, 1))
    template = templates[name]
    axes = dict[str, NDArray[np.float64]]()
    order = list[str]()
    for k in (1, 2, 3):
        variable = template.simple.get(f"variable_{k}")
        if variable is None:
            break
        index = group.complex.get(f"index_{k}") or template.complex[f"index_{k}"]
        kind = "load" if "capacitance" in variable else "slew"
        if "equal_or_opposite" in variable or kind in axes:
            raise LibertyError(f"a table over {variable} is not supported")
        axes[kind] = _numbers(index) * (scales.load if kind == "load" else scales.time)
        order.append(kind)
    values = values.reshape([len(axes[kind]) for kind in order])
    if order == ["load", "slew"]:
        values = values.T
    slews, loads = axes.get("slew", one), axes.get("load", one)
    return Table(slews, loads, np.ascontiguousarray(values.reshape(len(slews), len(loads))))
