"""The results of a synthesis for standard cells as one JSON object; `vdla synth --for cells --json` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from vdla.isa.config import Config

from .area import UnitArea, area_by_module, area_by_unit
from .design import CellDesign
from .nodes import node_text
from .sram import macro_figures, scale_of, source
from .timing import TimingPath

LEFT_OUT: Final = "wires, clock tree, pads, scan and test, empty area between cells"
"""Parts of a chip that no figure of this synthesis includes."""


def document(config: Config, design: CellDesign, paths: Sequence[TimingPath] | None) -> dict[str, Any]:
    """The JSON object with all figures of the synthesis; areas in square micrometres. `paths`: timing paths, the
    longest first; None without the timing tool.
    """
    library, scale = design.library, scale_of(design.library)
    units = area_by_unit(design)
    memories = {
        name: {
            "instances": sum(design.counts[m] * module.kinds[name] for m, module in design.modules.items()),
            "words": macro.words,
            "width": macro.width,
            "clocked": macro.clocked,
            **asdict(macro_figures(macro, scale)),
        }
        for name, macro in design.macros.items()
    }
    return {
        "config": config.name,
        "digest": config.digest,
        "warnings": list(config.warnings),
        "library": {
            "name": library.name,
            "file": library.path.name,
            "sha256": library.digest,
            "voltage": library.voltage,
            "temperature": library.temperature,
            "flip_flop_um2": library.flip_flop_area,
            "node_nm": round(scale.node_nm),
            "node": node_text(library.name, scale.node_nm),
        },
        "left_out": LEFT_OUT,
        "memory_source": source(),
        "total": _numbers(sum(units.values(), UnitArea())),
        "units": {unit: _numbers(own) for unit, own in units.items()},
        "modules": {
            path: {"instances": count, **_numbers(own)}
            for path, (count, own) in area_by_module(design).items()
        },
        "cells": dict(sorted(design.cells.items())),
        "memories": memories,
        "longest_paths": None if paths is None else [asdict(path) for path in paths],
        "mhz": None if not paths else round(1e3 / paths[0].ns, 2),
    }


def _numbers(own: UnitArea) -> dict[str, float]:
    return {
        "area_um2": round(own.area, 2),
        "logic_um2": round(own.logic, 2),
        "registers_um2": round(own.registers, 2),
        "memory_um2": round(own.memory, 2),
        "cells": own.cells,
        "flip_flops": own.flip_flops,
        "memory_bits": own.memory_bits,
    }
