"""Reads areas, capacitances and drive of pins, and the flip-flops from a Liberty file.

Yosys and the timing tool read the file themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final

from vdla.util.files import read_file

from ..liberty_syntax import MOST_BYTES, Group, LibertyError, parse_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A pin of a cell. `inward`: the pin is an input. `capacitance`: capacitance of an input pin, in the file's unit.
    `resistance`: increase of an output pin's delay per unit of load, the largest over its tables; 0 without tables.
    `function`: the pin's logic function as the file states it.
    """

    name: str
    inward: bool
    capacitance: float
    resistance: float = 0.0
    function: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell: `area` in the file's unit (square micrometres), pins by name. `register`: it is a flip-flop or a latch;
    `flip_flop`: it is a flip-flop. `usable`: it has an area, and the file does not exclude it from mapping (dont_use).
    """

    name: str
    area: float
    register: bool
    flip_flop: bool
    usable: bool
    pins: dict[str, Pin]

    @property
    def inverts_or_buffers(self) -> str:
        """ "buffer" if the cell is a buffer, "inverter" if it is an inverter; else an empty text. Both kinds have one
        input and one output and are no register.
        """
        outputs = [pin for pin in self.pins.values() if not pin.inward]
        inputs = [pin for pin in self.pins.values() if pin.inward]
        if len(outputs) != 1 or len(inputs) != 1 or self.register:
            return ""
        plain = outputs[0].function.replace("(", "").replace(")", "").replace(" ", "")
        name = inputs[0].name
        return {name: "buffer", f"!{name}": "inverter", f"{name}'": "inverter"}.get(plain, "")


@dataclass(frozen=True, kw_only=True, eq=False)
class Liberty:
    """A library of cells. `digest`: hash of the file's text. `time_ns`: the file's unit of time in nanoseconds.
    `capacitance_ff`: its unit of capacitance in femtofarads.
    """

    path: Path
    name: str
    digest: str
    voltage: float
    temperature: float
    time_ns: float
    capacitance_ff: float
    cells: dict[str, Cell] = field(repr=False)

    @cached_property
    def buffer(self) -> Cell:
        """The buffer cell with the least resistance x input capacitance, among cells of up to 3 times the smallest
        area; this limit excludes pads and chains of buffers.
        """
        found = self._kind("buffer")
        smallest = min(cell.area for cell in found)
        return min((cell for cell in found if cell.area <= 3 * smallest), key=_effort)

    @property
    def flip_flop_area(self) -> float:
        """Area of the smallest flip-flop in square micrometres."""
        return min(cell.area for cell in self.cells.values() if cell.flip_flop and cell.area > 0)

    @property
    def inverter(self) -> Cell:
        """The smallest inverter of the library."""
        return min(self._kind("inverter"), key=lambda cell: (cell.area, cell.name))

    @property
    def inverter_ns(self) -> float:
        """Increase, in nanoseconds, of the delay of an inverter when another inverter is its load."""
        return _effort(self.inverter) * self.time_ns

    @property
    def inverter_ff(self) -> float:
        """The input capacitance of an inverter, in femtofarads."""
        return _input(self.inverter).capacitance * self.capacitance_ff

    def _kind(self, kind: str) -> list[Cell]:
        found = [
            c for c in self.cells.values() if c.usable and c.inverts_or_buffers == kind and _effort(c) > 0
        ]
        if not found:
            raise LibertyError(f"{self.path}: has no {kind} with a delay table; mapping needs one")
        return found

    def constraints(self) -> str:
        """Constraints for ABC, the technology mapper of Yosys: a buffer drives each input, and each output has the load
        of four buffers.
        """
        load = 4 * _input(self.buffer).capacitance * self.capacitance_ff
        return f"set_driving_cell {self.buffer.name}\nset_load {load:.4g}\n"

    def resistance(self, cell: Cell) -> float:
        """Increase of the delay of a cell's output per unit of load, in the file's units."""
        return _output(cell).resistance

    def may_drive(self, resistance: float) -> float:
        """Largest load that an output of `resistance` may drive: its delay then equals the delay of `buffer` with a
        load of eight buffers. An output of `resistance` 0 counts as a buffer.
        """
        most = 8 * _effort(self.buffer)
        return most / resistance if resistance > 0 else most / _output(self.buffer).resistance


def _input(cell: Cell) -> Pin:
    return next(pin for pin in cell.pins.values() if pin.inward)


def _output(cell: Cell) -> Pin:
    return next(pin for pin in cell.pins.values() if not pin.inward)


def _effort(cell: Cell) -> float:
    return _output(cell).resistance * _input(cell).capacitance


def buffer_pins(cell: Cell) -> tuple[str, str]:
    """Names of the input and the output of a buffer."""
    return _input(cell).name, _output(cell).name


_SKIPPED: Final = frozenset(
    {
        "internal_power",
        "leakage_power",
        "receiver_capacitance",
        "ccsn_first_stage",
        "ccsn_last_stage",
        "output_current_rise",
        "output_current_fall",
        "test_cell",
        "operating_conditions",
        "wire_load",
        "wire_load_selection",
        "power_lut_template",
        "lu_table_template",
        "normalized_driver_waveform",
        "input_ccb",
        "output_ccb",
    }
)


def read_liberty(path: Path) -> Liberty:
    """Reads the library in the file at `path`. Raises LibertyError, which names the file, if the file cannot be read,
    is no Liberty file, or has no flip-flop.
    """
    try:
        data = read_file(path, most=MOST_BYTES)
    except OSError as error:
        raise LibertyError(f"{path}: {error.strerror}; --liberty takes a Liberty file (.lib)") from None
    try:
        library = parse_groups(data.decode("latin-1"), skipped=_SKIPPED)
    except LibertyError as error:
        raise LibertyError(f"{path}: is not a Liberty file: {error}") from None
    if library.name != "library":
        raise LibertyError(
            f"{path}: is not a Liberty file: its outermost group is {library.name}, not library"
        )
    cells = {cell.name: cell for cell in map(_cell, library.named("cell"))}
    if not any(cell.register for cell in cells.values()):
        raise LibertyError(f"{path}: has no flip-flop; mapping needs one")
    return Liberty(
        path=path,
        name=library.arguments[0] if library.arguments else path.stem,
        digest=sha256(data).hexdigest(),
        voltage=_number(library, "nom_voltage", 0.0),
        temperature=_number(library, "nom_temperature", 0.0),
        time_ns=_time(library.simple.get("time_unit", "1ns")),
        capacitance_ff=_capacitance(library.complex.get("capacitive_load_unit", ["1", "pf"])),
        cells=cells,
    )


def _number(group: Group, name: str, default: float) -> float:
    try:
        return float(group.simple[name])
    except (KeyError, ValueError):
        return default


def _cell(group: Group) -> Cell:
    pins: dict[str, Pin] = {}
    for pin in group.named("pin"):
        inward = pin.simple.get("direction") != "output"
        for name in pin.arguments:
            pins[name] = Pin(
                name=name,
                inward=inward,
                capacitance=_number(pin, "capacitance", 0.0),
                resistance=0.0 if inward else max(map(_resistance, pin.named("timing")), default=0.0),
                function=pin.simple.get("function", ""),
            )
    return Cell(
        name=group.arguments[0],
        area=_number(group, "area", 0.0),
        flip_flop=any(group.named("ff", "ff_bank")),
        register=any(group.named("ff", "latch", "ff_bank", "latch_bank", "statetable")),
        usable=group.simple.get("dont_use", "false") != "true" and _number(group, "area", 0.0) > 0,
        pins=pins,
    )


def _resistance(timing: Group) -> float:
    """The increase of delay per unit of load at the middle input slew (transition time) of a table, the largest over
    the tables of `timing`.
    """
    worst = 0.0
    for table in timing.named("cell_rise", "cell_fall"):
        rows = [_numbers(row) for row in table.complex.get("values", ())]
        axes = [_numbers(" ".join(table.complex.get(f"index_{i}", ()))) for i in (1, 2)]
        # Takes the axis along which delays differ more as that of the load.
        if len(rows) < 2 or len(rows) != len(axes[0]) or len(rows[0]) != len(axes[1]):
            continue
        middle_row, middle_column = rows[len(rows) // 2], len(rows[0]) // 2
        along = (middle_row[-1] - middle_row[0]) / (axes[1][-1] - axes[1][0])
        down = (rows[-1][middle_column] - rows[0][middle_column]) / (axes[0][-1] - axes[0][0])
        larger_along = middle_row[-1] - middle_row[0] > rows[-1][middle_column] - rows[0][middle_column]
        worst = max(worst, along if larger_along else down)
    return worst


def _numbers(text: str) -> list[float]:
    return [float(word) for word in text.replace(",", " ").split()]


def _time(unit: str) -> float:
    found = re.fullmatch(r"\s*(\d+)\s*([fpn]s)\s*", unit)
    return float(found[1]) * {"fs": 1e-6, "ps": 1e-3, "ns": 1.0}[found[2]] if found else 1.0


def _capacitance(unit: list[str]) -> float:
    scale = {"ff": 1.0, "pf": 1e3, "nf": 1e6}
    return float(unit[0]) * scale.get(unit[1].lower(), 1e3) if len(unit) == 2 else 1e3
