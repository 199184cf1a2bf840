"""Maps modules to a library's cells by Yosys and ABC; modules that were mapped before come from the cache."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .. import cache
from ..netlist import NetlistError
from ..tools import Report, ToolError, run_tool, tool_version
from ..yosys import PACKAGE
from .liberty import Liberty
from .memories import LEAST_MACRO_BITS, PORTS, Macro
from .modules import OWN_NAME, CanonicalModule
from .worker import AFTER_MEMORIES, BEFORE_MEMORIES, FLATTEN, STEP

_PROGRAM: Final = "vdla.hw.synthesis.cells.worker"
_CELLS: Final = "cells.json"
_SUMMARY: Final = "summary.json"

Net = int | str
"""A net of one bit: its number, or the constant "0" or "1"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An instance, in a module, of the cell, macro or module `kind`. `pins`: nets at each pin, lowest bit first."""

    name: str
    kind: str
    pins: Mapping[str, Sequence[Net]]


@dataclass(frozen=True, kw_only=True)
class MappedText:
    """A module after mapping by Yosys, made from the module's canonical text (its Verilog with renumbered names).

    `ports`: nets by port. `boxes` (black boxes): instances of macros and modules. `cells`: number of instances by cell.
    `macros`: memories by name. `next_net`: first unused number of a net. `entry`: name of the module in the cache.

    Two mappings have the nets of ports and of black boxes as keys. `loads`: capacitance of all cells that the net
    drives. `drives`: resistance of the cell that drives the net.
    """

    ports: Mapping[str, Sequence[Net]]
    boxes: tuple[Instance, ...]
    cells: Mapping[str, int]
    macros: Mapping[str, Macro]
    loads: Mapping[int, float]
    drives: Mapping[int, float]
    next_net: int
    entry: str

    def cell_instances(self) -> tuple[Instance, ...]:
        """The instances of cells, read from the cache. Raises ToolError if they are no longer in the cache."""
        if not self.cells:
            return ()
        kept = cache.load(self.entry, _CELLS)
        if kept is None:
            raise ToolError(
                "a synthesized module was deleted from the cache meanwhile; run the command again"
            )
        return tuple(Instance(name=n, kind=k, pins=p) for n, k, p in json.loads(kept) if k in self.cells)


def map_modules(
    modules: Mapping[str, CanonicalModule], library: Liberty, *, flatten: bool = False, report: Report
) -> dict[str, MappedText]:
    """Maps `modules` to cells of `library`; returns the results by the same keys. `report`: called with lines of
    progress.

    Modules with equal canonical text (Verilog with renumbered names) are mapped once. With `flatten`, the text of a
    module also contains the inner modules, which are merged into the outer one. Raises ToolError and NetlistError.
    """
    names = {module.key: name for name, module in modules.items()}
    found: dict[str, MappedText] = {}
    missing: dict[str, CanonicalModule] = {}
    for key, name in names.items():
        entry = _entry(modules[name], library, flatten)
        kept = cache.load(entry, _SUMMARY)
        if kept is None:
            missing[name] = modules[name]
        else:
            found[key] = _unpacked(kept, entry)
    found |= _map_missing(missing, library, flatten, report)
    return {name: found[module.key] for name, module in modules.items()}


def _entry(module: CanonicalModule, library: Liberty, flatten: bool) -> str:
    between = FLATTEN if flatten else ()
    steps = "\n".join([*BEFORE_MEMORIES, *between, *AFTER_MEMORIES, library.constraints()])
    return cache.key(
        "cells-2", module.text, steps, str(LEAST_MACRO_BITS), library.digest, tool_version(PACKAGE)
    )


def _map_missing(
    modules: Mapping[str, CanonicalModule], library: Liberty, flatten: bool, report: Report
) -> dict[str, MappedText]:
    if not modules:
        return {}
    tool_version(PACKAGE)
    found: dict[str, MappedText] = {}
    with tempfile.TemporaryDirectory(prefix="vdla-cells-") as directory:
        work = Path(directory)
        (work / "constraints").write_text(library.constraints(), encoding="utf-8")
        for module in modules.values():
            (work / f"{module.key}.v").write_text(module.text, encoding="utf-8")
        jobs = {
            "liberty": str(library.path.resolve()),
            "constraints": str(work / "constraints"),
            "macro_bits": LEAST_MACRO_BITS,
            "modules": [
                {
                    "name": name,
                    "source": f"{module.key}.v",
                    "netlist": f"{module.key}.json",
                    "macros": f"{module.key}.macros",
                    "flatten": flatten,
                }
                for name, module in modules.items()
            ],
        }
        (work / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
        order = list(modules.values())

        def collect(before: int) -> None:
            for module in order[len(found) : before]:
                found[module.key] = _collected(module, work, library, flatten)

        def step(line: str) -> str | None:
            match = re.match(rf"{STEP} ((\d+) of .*)", line)
            if match is None:
                return None
            # Caches each finished module at once, in case the run is interrupted.
            collect(int(match[2]) - 1)
            return f"mapping {match[1]}"

        command = [sys.executable, "-m", _PROGRAM, "jobs.json"]
        run_tool(command, directory=work, step=step, report=report)
        collect(len(order))
    return found


def _collected(module: CanonicalModule, work: Path, library: Liberty, flatten: bool) -> MappedText:
    """Reads the result that the worker process wrote for `module` to the folder `work`, saves it in the cache
    (`library` and `flatten` are part of the key), and returns it. Raises ToolError if the worker wrote no result.
    """
    try:
        text = (work / f"{module.key}.json").read_text(encoding="utf-8")
        parameters = json.loads((work / f"{module.key}.macros").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ToolError(f"{PACKAGE} ended without writing a netlist; it may have run out of memory") from None
    netlist = json.loads(text)["modules"][OWN_NAME]
    macros = {name: Macro(**fields) for name, fields in parameters.items()}
    instances = [_instance(name, cell, macros) for name, cell in netlist["cells"].items()]
    entry = _entry(module, library, flatten)
    cells = json.dumps([[item.name, item.kind, item.pins] for item in instances])
    cache.save(entry, _CELLS, cells.encode())
    summary = _summary(
        {name: _nets(port["bits"]) for name, port in netlist["ports"].items()},
        instances,
        parameters,
        library,
    )
    cache.save(entry, _SUMMARY, summary)
    return _unpacked(summary, entry)


def _summary(
    ports: Mapping[str, Sequence[Net]],
    instances: Sequence[Instance],
    macros: Mapping[str, Any],
    library: Liberty,
) -> bytes:
    boxes = [item for item in instances if item.kind not in library.cells]
    shown = {net for bits in ports.values() for net in bits}
    shown |= {net for item in boxes for bits in item.pins.values() for net in bits}
    loads: dict[Net, float] = {}
    drives: dict[Net, float] = {}
    highest = 1
    for item in instances:
        cell = library.cells.get(item.kind)
        for pin, bits in item.pins.items():
            for net in bits:
                if isinstance(net, int):
                    highest = max(highest, net)
                if cell is None or net not in shown:
                    continue
                if cell.pins[pin].inward:
                    loads[net] = loads.get(net, 0.0) + cell.pins[pin].capacitance
                else:
                    drives[net] = cell.pins[pin].resistance
    for bits in ports.values():
        highest = max([highest, *(net for net in bits if isinstance(net, int))])
    value = {
        "ports": ports,
        "boxes": [[item.name, item.kind, item.pins] for item in boxes],
        "cells": Counter(item.kind for item in instances if item.kind in library.cells),
        "macros": macros,
        "loads": loads,
        "drives": drives,
        "next_net": highest + 1,
    }
    return json.dumps(value).encode()


def _instance(name: str, cell: Mapping[str, Any], macros: Mapping[str, Macro]) -> Instance:
    kind = cell["type"]
    if kind.startswith("$"):
        raise NetlistError(f"Yosys left the cell {name} ({kind}) unmapped; the library has no cell for it")
    pins = {pin: _nets(bits) for pin, bits in cell["connections"].items()}
    if kind in macros:
        pins = {pin: pins[pin] for pin in PORTS}
    return Instance(name=name, kind=kind, pins=pins)


def _nets(bits: Sequence[Net]) -> tuple[Net, ...]:
    return tuple("0" if bit in ("x", "z") else bit for bit in bits)


def _unpacked(data: bytes, entry: str) -> MappedText:
    value = json.loads(data)
    return MappedText(
        ports=value["ports"],
        boxes=tuple(Instance(name=n, kind=k, pins=p) for n, k, p in value["boxes"]),
        cells=value["cells"],
        macros={name: Macro(**fields) for name, fields in value["macros"].items()},
        loads={int(net): load for net, load in value["loads"].items() if net.isdecimal()},
        drives={int(net): drive for net, drive in value["drives"].items() if net.isdecimal()},
        next_net=value["next_net"],
        entry=entry,
    )
