"""One machine on some networks: exact cycles by simulation, area, clock and energy by models or a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from math import inf
from pathlib import Path
from typing import Any

from vdla.compiler.driver import compile_graph
from vdla.compiler.graph.fuse import fuse
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.onnx_import import import_model
from vdla.compiler.graph.onnx_read import Source, read_model
from vdla.compiler.runtime.layers import layers_of
from vdla.compiler.templates.vdla.lowered_kernels import LoweredKernels
from vdla.compiler.tune.measure.package_identity import compiler_identity, sources_digest
from vdla.isa.config import Config
from vdla.sim import SimulationError, simulate
from vdla.util.errors import UserError

from ..technology.area import rungs_of_model, structure_of
from ..technology.components import Components
from ..technology.energy import energy_by_unit
from ..technology.events import count_events
from ..technology.modelled_energy import energy_interval, rung


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """A network as all machines of a study run it: its fused graph, the bytes of its model for other processes, and how
    much its figures count for. `file` is where it is from; empty where that is no file. `kept` are kernels that were
    lowered for one machine and serve others."""

    name: str
    graph: Graph
    digest: str
    content: bytes
    weight: float = 1.0
    file: str = ""
    kept: LoweredKernels = field(default_factory=LoweredKernels)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFigures:
    """One launch of a network: cycles are exact, microjoules by unit follow from the simulator's events and from
    coefficients of a model or a table."""

    cycles: int
    roofline_cycles: float
    dram_bytes: int
    energy: Mapping[str, float]

    @property
    def utilization(self) -> float:
        """Roofline cycles over cycles."""
        return self.roofline_cycles / self.cycles

    @property
    def microjoules(self) -> float:
        """Energy of all units."""
        return sum(self.energy.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A machine's: square millimetres by unit, the clock that a model predicts (None: its own `clock_mhz` counts), and
    its networks by name. `failed` says why there are none.

    By name of a metric (`metrics.METRICS`), where it has them: `intervals`, the ends of the 90% interval as factors of
    its value, and `rungs`, what it stands on if that is not `Metric.rung`.
    """

    area: Mapping[str, float] = field(default_factory=dict[str, float])
    clock_mhz: float | None = None
    networks: Mapping[str, NetworkFigures] = field(default_factory=dict[str, NetworkFigures])
    failed: str | None = None
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    rungs: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def square_millimetres(self) -> float:
        """Area of all units."""
        return sum(self.area.values())


def load_network(model: Source, *, name: str | None = None, weight: float = 1.0) -> Network:
    """A quantized network for a study. Raises UserError, as compiling it does."""
    if not 0 < weight < inf:
        raise UserError(f"the weight {weight:g} of a network must be a number above 0")
    label = name or (Path(model).stem if isinstance(model, str | Path) else "network")
    content = read_model(model).proto.SerializeToString(deterministic=True)
    digest = blake2b(content, digest_size=16).hexdigest()
    file = str(model) if isinstance(model, str | Path) else ""
    graph = fuse(import_model(model))
    return Network(name=label, graph=graph, digest=digest, content=content, weight=weight, file=file)


def load_networks(models: Sequence[tuple[Source, float]]) -> tuple[Network, ...]:
    """Several, with their weights; those of one name get numbers."""
    found: list[Network] = []
    for model, weight in models:
        network = load_network(model, weight=weight)
        names = {item.name for item in found}
        name, number = network.name, 2
        while name in names:
            name, number = f"{network.name}-{number}", number + 1
        found.append(replace(network, name=name))
    return tuple(found)


def evaluate(config: Config, networks: Sequence[Network], components: Components) -> Figures:
    """The figures of a machine. One that cannot run a network has none, but the reason."""
    found: dict[str, NetworkFigures] = {}
    for network in networks:
        try:
            compiled = compile_graph(network.graph, config, data=False, kept=network.kept)
            program = compiled.program
            simulation = simulate(config, program.instructions, program.image, data=False)
        except (UserError, SimulationError) as error:
            return Figures(failed=f"{network.name}: {error}")
        events = count_events(program, simulation)
        found[network.name] = NetworkFigures(
            cycles=simulation.cycles,
            roofline_cycles=sum(layer.roofline_cycles for layer in layers_of(compiled)),
            dram_bytes=simulation.dram_read_bytes + simulation.dram_write_bytes,
            energy=energy_by_unit(config, events, components),
        )
    machine = figures_of_machine(config, components)
    if not components.modelled:
        return replace(machine, networks=found)
    units: dict[str, float] = {}
    for network in networks:
        for unit, value in found[network.name].energy.items():
            units[unit] = units.get(unit, 0.0) + network.weight * value
    energy, stands_on = energy_interval(config, units), rung(config)
    latency = machine.intervals["latency"]
    return replace(
        machine,
        networks=found,
        intervals={
            **machine.intervals,
            "energy": energy,
            "edp": (energy[0] * latency[0], energy[1] * latency[1]),
        },
        rungs={**machine.rungs, "energy": stands_on, "edp": stands_on},
    )


def figures_of_machine(config: Config, components: Components) -> Figures:
    """What needs no network: area and clock, with what they stand on."""
    structure = structure_of(config, components)
    if structure.clock_mhz is None:
        return Figures(area=structure.area)
    area, cycle = structure.intervals["area"], structure.intervals["cycle"]
    return Figures(
        area=structure.area,
        clock_mhz=structure.clock_mhz,
        intervals={"area": area, "latency": cycle},
        rungs=rungs_of_model(),
    )


def to_json(figures: Figures) -> dict[str, Any]:
    """The figures as JSON values."""
    if figures.failed is not None:
        return {"failed": figures.failed}
    intervals = {"intervals": {name: list(ends) for name, ends in figures.intervals.items()}}
    return {
        **(intervals if figures.intervals else {}),
        **({"rungs": dict(figures.rungs)} if figures.rungs else {}),
        "area_mm2": dict(figures.area),
        **({} if figures.clock_mhz is None else {"clock_mhz": figures.clock_mhz}),
        "networks": {
            name: {
                "cycles": item.cycles,
                "roofline_cycles": item.roofline_cycles,
                "dram_bytes": item.dram_bytes,
                "energy_uj": dict(item.energy),
            }
            for name, item in figures.networks.items()
        },
    }


def from_json(value: Mapping[str, Any]) -> Figures:
    """What `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
    if "failed" in value:
        return Figures(failed=str(value["failed"]))
    networks = {
        str(name): NetworkFigures(
            cycles=int(item["cycles"]),
            roofline_cycles=float(item["roofline_cycles"]),
            dram_bytes=int(item["dram_bytes"]),
            energy={str(unit): float(x) for unit, x in item["energy_uj"].items()},
        )
        for name, item in value["networks"].items()
    }
    if any(item.cycles < 1 for item in networks.values()):
        raise ValueError("cycles below 1")
    return Figures(
        area={str(unit): float(x) for unit, x in value["area_mm2"].items()},
        clock_mhz=None if value.get("clock_mhz") is None else float(value["clock_mhz"]),
        networks=networks,
        intervals={
            str(n): (float(low), float(high)) for n, (low, high) in value.get("intervals", {}).items()
        },
        rungs={str(name): str(rung) for name, rung in value.get("rungs", {}).items()},
    )


@cache
def sources_of_figures() -> str:
    """The version of what makes figures of a simulated program: a hash of the sources of area and energy."""
    return sources_digest("vdla.codesign.technology")


def study_key(networks: Sequence[Network], components: Components) -> str:
    """What figures depend on beside the machine: networks, table, and the versions of the compiler and of the models of
    area and energy; 16 hexadecimal digits. Weights are not among it."""
    versions = (compiler_identity("vdla"), sources_of_figures())
    text = repr(([(n.name, n.digest) for n in networks], components.digest, versions))
    return blake2b(text.encode(), digest_size=8).hexdigest()
