"""Area of a mapped design by unit: cells, flip-flops and memory macros."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..netlist import plain_path
from ..units import UNITS, unit_of_path
from .design import CellDesign
from .sram import macro_figures, scale_of


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitArea:
    """Area of a unit. In square micrometres: `logic`, the area of all cells; `registers`, the part of `logic` that
    flip-flops take; `memory`, the area of memory macros. Numbers: `cells`, `flip_flops`, and `memory_bits`, the bits in
    macros.
    """

    logic: float = 0.0
    registers: float = 0.0
    memory: float = 0.0
    cells: int = 0
    flip_flops: int = 0
    memory_bits: int = 0

    @property
    def area(self) -> float:
        """Area of cells and memories together, in square micrometres."""
        return self.logic + self.memory

    def times(self, count: int) -> UnitArea:
        """The area of `count` copies of this unit."""
        return UnitArea(
            logic=count * self.logic,
            registers=count * self.registers,
            memory=count * self.memory,
            cells=count * self.cells,
            flip_flops=count * self.flip_flops,
            memory_bits=count * self.memory_bits,
        )

    def __add__(self, other: UnitArea) -> UnitArea:
        return UnitArea(
            logic=self.logic + other.logic,
            registers=self.registers + other.registers,
            memory=self.memory + other.memory,
            cells=self.cells + other.cells,
            flip_flops=self.flip_flops + other.flip_flops,
            memory_bits=self.memory_bits + other.memory_bits,
        )


def module_area(design: CellDesign, name: str) -> UnitArea:
    """Area of one instance of module `name`, without the modules inside."""
    library, scale = design.library, scale_of(design.library)
    found = UnitArea()
    for kind, count in design.modules[name].kinds.items():
        if (cell := library.cells.get(kind)) is not None:
            area, registers = count * cell.area, count if cell.register else 0
            found += UnitArea(
                logic=area, registers=area if registers else 0.0, cells=count, flip_flops=registers
            )
        elif (macro := design.macros.get(kind)) is not None:
            figures = macro_figures(macro, scale)
            found += UnitArea(memory=count * figures.area, memory_bits=count * macro.bits)
    return found


def area_by_module(design: CellDesign) -> dict[str, tuple[int, UnitArea]]:
    """For each module, by plain path ("compute.pipeline.array"): (number of instances, area of one instance)."""
    found: dict[str, tuple[int, UnitArea]] = {}
    for name in design.modules:
        path = plain_path(name.partition(".")[2])
        found[path if path not in found else name.partition(".")[2]] = (
            design.counts[name],
            module_area(design, name),
        )
    return dict(sorted(found.items()))


def area_by_unit(design: CellDesign) -> dict[str, UnitArea]:
    """Area of each unit, with the unit names of FPGA reports; all instances of a module are included."""
    return units_of(area_by_module(design))


def units_of(modules: Mapping[str, tuple[int, UnitArea]]) -> dict[str, UnitArea]:
    """The total area of each unit; units without area are left out. `modules`: for each module, (number of instances,
    area of one instance).
    """
    found = dict.fromkeys(UNITS, UnitArea())
    for path, (count, own) in modules.items():
        unit = unit_of_path(path)
        found[unit] += own.times(count)
    return {unit: own for unit, own in found.items() if own.area}
