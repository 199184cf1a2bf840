"""Synthesis for an FPGA: from a configuration to resources and clock."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vdla.isa.config import Config

from ..verilog import TOP, generate_module
from . import cache
from .families import Family
from .netlist import count_modules, instance_paths, memory_kinds, module_lines, sum_counts, sum_units
from .pins import PINS_TOP, pins_module
from .placement import Placement, place
from .tools import Report, ToolError, tool_version
from .yosys import PACKAGE, run_script

_TARGET_MARGIN: Final = 1.1
"""Target clock of nextpnr relative to the configuration's clock: placement improves only paths slower
than the target.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedDesign:
    """A design mapped to a family's cells.

    `verilog`, `pins`: sources of the design and of the module around it. `script`: Yosys commands. `netlist`: Yosys'
    JSON. `paths`: the instance of each cell. `modules`: resources by instance path ("" is the top). `memories`: the
    kind of each memory.
    """

    verilog: str
    pins: str
    script: str
    netlist: bytes
    paths: dict[str, str]
    modules: dict[str, dict[str, float]]
    memories: dict[str, str]

    @property
    def top(self) -> dict[str, Any]:
        """The accelerator's module in Yosys' JSON: cells, and names of nets."""
        return json.loads(self.netlist)["modules"][TOP]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A resource of which the design needs more than the device has: the amounts `needed` and `available`."""

    needed: int
    available: int

    @property
    def missing(self) -> int:
        """The amount of the resource that the device lacks."""
        return self.needed - self.available


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesis:
    """Resources and clock of a configuration on a family.

    `total`, `units`: amounts of `families.RESOURCES` that the accelerator takes, without the module around it.
    `multipliers`: number of multipliers by instance path. `shortages`: resources of which the device has too little, by
    name; empty also for a family without a device. `placements`: one result for each seed; empty if there is no device
    or the device is too small.
    """

    config: Config
    family: Family
    design: MappedDesign
    total: dict[str, float]
    units: dict[str, dict[str, float]]
    multipliers: dict[str, int]
    shortages: dict[str, Shortage]
    placements: tuple[Placement, ...]

    @property
    def fits(self) -> bool | None:
        """Whether the device holds the design; None without a device."""
        if self.family.device is None:
            return None
        return not self.shortages and all(placement.mhz is not None for placement in self.placements)

    @property
    def mhz(self) -> float | None:
        """The median clock over the seeds, in MHz; None if the placement with any seed failed, or if there are no
        placements.
        """
        clocks = [placement.mhz for placement in self.placements if placement.mhz is not None]
        return statistics.median(clocks) if clocks and len(clocks) == len(self.placements) else None


def synthesize(
    config: Config, family: Family, *, seeds: Sequence[int] = (1, 2, 3), jobs: int = 1, report: Report
) -> Synthesis:
    """Maps the RTL of `config` to `family`. If the family has a device and the device has enough resources, places the
    design once with each of `seeds`, `jobs` at a time.

    The Verilog is that of the harness without trace ports. Earlier results come from the cache. `report`: called with
    lines of progress. Raises ToolError if a tool is missing or fails, but not for a design that does not fit.
    """
    module = generate_module(config, report=report)
    design = map_design(module.text, pins_module(module.ports), family, report=report)
    total = sum_counts(design.modules.values())
    shortages: dict[str, Shortage] = {}
    placements: tuple[Placement, ...] = ()
    if family.device is not None:
        for resource, available in family.device.capacity.items():
            if total[resource] > available:
                shortages[resource] = Shortage(needed=round(total[resource]), available=available)
        if not shortages:
            placements = _place_seeds(config, family, design, seeds, jobs, report)
    return Synthesis(
        config=config,
        family=family,
        design=design,
        total=total,
        units=sum_units(design.modules),
        multipliers={path: round(own["dsp"]) for path, own in design.modules.items() if own["dsp"]},
        shortages=shortages,
        placements=placements,
    )


def map_design(verilog: str, pins: str, family: Family, *, report: Report) -> MappedDesign:
    """Maps `verilog`, inside the module whose Verilog is `pins`, to `family` by Yosys; an earlier result comes from the
    cache. `report`: called with lines of progress. Raises ToolError and NetlistError.
    """
    commands = [
        "read_verilog vdla.v",
        "read_verilog pins.v",
        # The design stays a separate module, so that cells of the module around it are not counted.
        f"setattr -mod -set keep_hierarchy 1 {TOP}",
        *(command.format(top=PINS_TOP) for command in family.script),
        "check -assert -noinit",
        "write_json netlist.json",
    ]
    script = "\n".join([*commands, ""])
    name = cache.key("yosys-1", verilog, pins, script, tool_version(PACKAGE))
    netlist, log = cache.load(name, "netlist.json"), cache.load(name, "memories.json")
    if netlist is None or log is None:
        netlist, memories = _run_yosys(verilog, pins, script, report)
        cache.save(name, "netlist.json", netlist)
        cache.save(name, "memories.json", json.dumps(memories).encode())
    else:
        memories = json.loads(log)
    cells = json.loads(netlist)["modules"][TOP]["cells"]
    paths = instance_paths(cells, module_lines(verilog), "vdla.v")
    return MappedDesign(
        verilog=verilog,
        pins=pins,
        script=script,
        netlist=netlist,
        paths=paths,
        modules=count_modules(cells, paths, family),
        memories=memories,
    )


def _run_yosys(verilog: str, pins: str, script: str, report: Report) -> tuple[bytes, dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="vdla-synth-") as directory:
        work = Path(directory)
        for name, text in (("vdla.v", verilog), ("pins.v", pins)):
            (work / name).write_text(text, encoding="utf-8")
        log = run_script(script, work, report)
        try:
            netlist = (work / "netlist.json").read_bytes()
        except FileNotFoundError:
            raise ToolError("Yosys ended without writing a netlist; it may have run out of memory") from None
    return netlist, memory_kinds(log, TOP)


def _place_seeds(
    config: Config, family: Family, design: MappedDesign, seeds: Sequence[int], jobs: int, report: Report
) -> tuple[Placement, ...]:
    assert family.device is not None
    device = family.device
    target = config.clock_mhz * _TARGET_MARGIN

    def one(seed: int) -> Placement:
        return place(design.netlist, design.paths, device, seed=seed, target_mhz=target, report=report)

    with ThreadPoolExecutor(max_workers=jobs) as executor:
        futures = [executor.submit(one, seed) for seed in seeds]
        try:
            return tuple(future.result() for future in futures)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


def document(result: Synthesis) -> dict[str, Any]:
    """The JSON object of a synthesis; `vdla synth --json` prints it."""
    lanes = result.config.batch * result.config.block_out
    units = {unit: own for unit, own in result.units.items() if any(own.values())}
    array = round(result.units["array"]["dsp"])
    beyond = round(result.total["dsp"]) - array
    device = result.family.device
    return {
        "config": result.config.name,
        "digest": result.config.digest,
        "extra_storage": dict(result.config.extra_storage),
        "warnings": list(result.config.warnings),
        "family": result.family.name,
        "device": device.name if device else None,
        "total": result.total,
        "capacity": dict(device.capacity) if device else None,
        "fits": result.fits,
        "shortages": {
            name: {"needed": one.needed, "available": one.available, "missing": one.missing}
            for name, one in result.shortages.items()
        },
        "units": units,
        "modules": result.design.modules,
        "multipliers": {
            "array": array,
            "lanes": lanes,
            "beyond_array": beyond,
            "beyond_array_per_lane": beyond / lanes,
            "by_instance": result.multipliers,
        },
        "memories": result.design.memories,
        "mhz": result.mhz,
        "seeds": [_placement_document(placement) for placement in result.placements],
    }


def _placement_document(placement: Placement) -> dict[str, Any]:
    path = placement.critical_path
    return {
        "seed": placement.seed,
        "mhz": placement.mhz,
        "problem": placement.problem,
        "used": placement.used,
        "critical_path": None
        if path is None
        else {
            "start": path.start,
            "end": path.end,
            "logic_ns": path.logic_ns,
            "routing_ns": path.routing_ns,
            "segments": [
                {"unit": one.unit, "path": one.path, "cells": one.cells, "ns": one.ns}
                for one in path.segments
            ],
        },
    }
