"""Counts the resources of each module of the hierarchy in a mapped netlist."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from vdla.util.errors import UserError

from .families import RESOURCES, Family
from .units import UNITS, unit_of_path


class NetlistError(UserError):
    """Raised if a netlist is empty, has cells that Yosys did not map, or is not well-formed."""


def plain_path(name: str) -> str:
    r"""The instance path `name` without the numbers ("$2") that Amaranth appends to names that are already in use."""
    return re.sub(r"\$\d+(?=\.|$)", "", name)


def module_lines(verilog: str) -> list[tuple[int, str]]:
    """The modules of the generated `verilog`, in order, each as (number of the first line, plain instance path).

    A module's name is the path of its instance, which begins with the top module's name; for a module with many
    instances the last part is the name of the shared module (`shared_modules.py`).
    """
    found: list[tuple[int, str]] = []
    for number, line in enumerate(verilog.splitlines(), 1):
        match = re.match(r"module (\\?)(\S+?)\s*[( ;]", line)
        if match:
            found.append((number, plain_path(match[2].partition(".")[2])))
    return found


def instance_paths(cells: Mapping[str, Any], lines: list[tuple[int, str]], file: str) -> dict[str, str]:
    """Finds the instance from which each cell of a flattened module came. Returns the instance's plain path by name of
    the cell. `cells`: the module's cells in Yosys' JSON.

    A register, multiplier or carry chain has an attribute with the number of its line in `file` (`lines`: result of
    `module_lines`). A memory's name contains its path. Look-up tables have lost their origin in optimization: each is
    attributed to the instance of the first register, multiplier or carry chain that it drives, else of the memory that
    it drives, else to the top ("").
    """
    scopes = frozenset(name for name, cell in cells.items() if cell["type"] == "$scopeinfo")
    starts = [line for line, _ in lines]
    known: dict[str, str] = {}
    memories: dict[str, str] = {}
    tables: list[str] = []
    for name, cell in cells.items():
        source = re.search(rf"(?:^|\|){re.escape(file)}:(\d+)", cell["attributes"].get("src", ""))
        if source is not None:
            known[name] = lines[bisect_right(starts, int(source[1])) - 1][1]
        elif cell["type"].startswith(_TABLES):
            tables.append(name)
        else:
            memories[name] = _scope(name, scopes)
    drivers = {
        bit: name
        for name, cell in cells.items()
        for port, bits in cell["connections"].items()
        if cell["port_directions"][port] == "output"
        for bit in bits
    }
    for sinks in (known, memories):
        _claim(cells, drivers, dict(sinks), known, frozenset(tables))
    return {name: known.get(name, "") for name in cells} | memories


_TABLES: Final = ("LUT", "INV", "MUXF", "PFUMX", "L6MUX")


def _claim(
    cells: Mapping[str, Any],
    drivers: Mapping[int | str, str],
    sinks: Mapping[str, str],
    known: dict[str, str],
    tables: frozenset[str],
) -> None:
    """Attributes look-up tables to instances: adds to `known` (instance path by cell name) each table in `tables` that
    is not there yet and drives a cell in `sinks` (instance path by cell name), directly or through other tables. The
    table gets the path of the nearest such cell. If several cells are equally near, their most frequent path counts.

    `cells`: all cells in Yosys' JSON, by name. `drivers`: for each net, the name of the cell that drives it.
    """
    level = dict(sinks)
    while level:
        found: dict[str, Counter[str]] = {}
        for name, path in level.items():
            cell = cells[name]
            for port, bits in cell["connections"].items():
                if cell["port_directions"][port] != "input":
                    continue
                for bit in bits:
                    driver = drivers.get(bit)
                    if driver in tables and driver not in known:
                        found.setdefault(driver, Counter())[path] += 1
        level = {name: votes.most_common(1)[0][0] for name, votes in found.items()}
        known |= level


def _scope(name: str, scopes: frozenset[str]) -> str:
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        if (path := ".".join(parts[:count])) in scopes:
            return plain_path(path)
    return ""


def count_modules(
    cells: Mapping[str, Any], paths: Mapping[str, str], family: Family
) -> dict[str, dict[str, float]]:
    """Amounts of each resource of `families.RESOURCES` that the mapped `cells` take on `family`, by instance path (""
    is the top itself) and name of the resource. `paths`: instance of each cell.

    Raises NetlistError if there are unmapped cells or no cells.
    """
    counts: dict[str, dict[str, float]] = {}
    for name, cell in cells.items():
        kind = cell["type"]
        if kind == "$scopeinfo":
            continue
        if kind.startswith("$"):
            raise NetlistError(f"Yosys left the cell {name} ({kind}) unmapped")
        takes = family.cells.get(kind)
        if takes is None:
            continue
        own = counts.setdefault(paths[name], dict.fromkeys(RESOURCES, 0.0))
        for resource, amount in takes.items():
            own[resource] += amount
    if not counts:
        raise NetlistError("the netlist is empty")
    return {path: counts[path] for path in sorted(counts)}


def sum_counts(counts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Adds up `counts`, amounts by name of the resource; returns the total of each resource."""
    total: dict[str, float] = dict.fromkeys(RESOURCES, 0.0)
    for one in counts:
        for resource, amount in one.items():
            total[resource] += amount
    return total


def sum_units(modules: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Amounts of each resource by unit, for all units; `modules`: amounts of each resource by instance path."""
    return {
        unit: sum_counts(own for path, own in modules.items() if unit_of_path(path) == unit) for unit in UNITS
    }


def memory_kinds(log: str, top: str) -> dict[str, str]:
    """The kind of each memory of the design with top module `top`, by path, as stated in Yosys' log: "block RAM", "LUT
    RAM" or "flip-flops".

    Tables of constants, which Yosys makes of case statements and maps to logic, are left out.
    """
    found = re.findall(rf"mapping memory {re.escape(top)}\.(\S+) via (\S+)", log)
    kinds = {plain_path(name): _memory_kind(cell) for name, cell in found}
    for name in re.findall(rf"using FF mapping for memory {re.escape(top)}\.(\S+)", log):
        if "$proc_rom" not in name:
            kinds[plain_path(name)] = "flip-flops"
    return dict(sorted(kinds.items()))


def _memory_kind(cell: str) -> str:
    for part in ("LUTRAM", "DPR16X4"):
        if part in cell:
            return "LUT RAM"
    return "block RAM"
