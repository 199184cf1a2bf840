"""Evaluates one machine (accelerator configuration) on several networks: exact cycles by simulation; area, clock and
energy by models or a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from typing import Any

from vdla.compiler.records.network import Settings
from vdla.compiler.records.package_identity import compiler_identity, sources_digest
from vdla.compiler.runtime.layers import layers_of
from vdla.compiler.templates.columns import Values
from vdla.isa.config import Config
from vdla.sim import SimulationError, simulate
from vdla.util.errors import CodeError, UserError

from ..technology.area import structure_of
from ..technology.components import Components
from ..technology.energy import energy_by_unit
from ..technology.events import count_events
from ..technology.rungs import rungs_of_machine
from .networks import Network
from .schedules.apply import compile_with
from .schedules.choose import NO_TRIALS, Effort, choose_schedules


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFigures:
    """Figures of one launch of a network. Cycles are exact; `energy`, in microjoules by unit, follows from the
    simulator's events and the coefficients of a model or a table.

    `schedules`: knobs of the layers that do not have their template's default schedule, by name of the node. `before`:
    cycles of the network if all layers have their default schedules; None if `schedules` is empty, or if the network
    does not run with default schedules.
    """

    cycles: int
    roofline_cycles: float
    dram_bytes: int
    energy: Mapping[str, float]
    schedules: Settings = field(default_factory=dict[str, Values])
    before: int | None = None

    @property
    def default_cycles(self) -> int | None:
        """The cycles if all layers have their templates' schedules; None if the network does not run with these
        schedules.
        """
        return self.before if self.schedules else self.cycles

    @property
    def utilization(self) -> float:
        """Ratio of the network's roofline cycles to its cycles."""
        return self.roofline_cycles / self.cycles

    @property
    def microjoules(self) -> float:
        """Energy of one launch of the network, all units together, in microjoules."""
        return sum(self.energy.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of a machine: `area` in square millimetres by unit, the clock (None only if nothing could be evaluated),
    and the figures of its networks by name. `failed`: the reason why there are no figures, or None.

    `intervals` and `rungs` have names of metrics (`metrics.METRICS`) as keys. `intervals`: 90% intervals of area and
    latency, if a model gives them, as factors of the value; `metrics.intervals_of` adds an interval of energy that
    depends on the networks' weights. `rungs`: for each metric whose source differs between machines, a text that names
    the source.
    """

    area: Mapping[str, float] = field(default_factory=dict[str, float])
    clock_mhz: float | None = None
    networks: Mapping[str, NetworkFigures] = field(default_factory=dict[str, NetworkFigures])
    failed: str | None = None
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    rungs: Mapping[str, str] = field(default_factory=dict[str, str])

    def no_slower_than(self, other: Figures) -> bool:
        """Whether this machine can run all networks, each in at most as many cycles as `other` needs."""
        return self.failed is None and all(
            self.networks[name].cycles <= item.cycles for name, item in other.networks.items()
        )

    @property
    def square_millimetres(self) -> float:
        """Area of all units in square millimetres."""
        return sum(self.area.values())


def evaluate(
    config: Config, networks: Sequence[Network], components: Components, effort: Effort = NO_TRIALS
) -> Figures:
    """The figures of a machine: area, clock, and the cycles and energy of each network. Each network runs with the best
    schedules that `effort` finds. If the machine cannot run a network, `failed` is the reason and there are no figures.
    """
    found: dict[str, NetworkFigures] = {}
    for network in networks:
        try:
            found[network.name] = _launch(config, network, components, effort)
        except UserError as error:
            if isinstance(error, CodeError) and not isinstance(error, SimulationError):
                raise
            return Figures(failed=f"{network.name}: {error}")
    return replace(figures_of_machine(config, components), networks=found)


def _launch(config: Config, network: Network, components: Components, effort: Effort) -> NetworkFigures:
    """Compiles and simulates one network on a machine; returns its cycles, energy and schedules. Raises UserError or
    SimulationError if the machine cannot run the network.
    """
    chosen = choose_schedules(config, network, effort) if effort.trials else None
    settings = {} if chosen is None else chosen.settings
    compiled = compile_with(config, network, settings, data=False)
    program = compiled.program
    simulation = simulate(config, program.instructions, program.image, data=False)
    events = count_events(program, simulation)
    return NetworkFigures(
        cycles=simulation.cycles,
        roofline_cycles=sum(layer.roofline_cycles for layer in layers_of(compiled)),
        dram_bytes=simulation.dram_read_bytes + simulation.dram_write_bytes,
        energy=energy_by_unit(config, events, components),
        schedules=settings,
        before=chosen.default if chosen is not None and settings else None,
    )


def figures_of_machine(config: Config, components: Components) -> Figures:
    """The figures that need no network: area and clock, with their sources and intervals."""
    structure = structure_of(config, components)
    named = {"area": "area", "cycle": "latency"}
    return Figures(
        area=structure.area,
        clock_mhz=structure.clock.megahertz,
        rungs=rungs_of_machine(config, components),
        intervals={named[name]: ends for name, ends in structure.intervals.items()},
    )


_GREATEST = 1e30
"""Largest number that is accepted as a figure (latency, energy, area ...) when the record of an exploration is read."""


def to_json(figures: Figures) -> dict[str, Any]:
    """The figures of a machine (area, clock, cycles and energy by network) as JSON values."""
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
                **_schedules_to_json(item),
            }
            for name, item in figures.networks.items()
        },
    }


def _schedules_to_json(item: NetworkFigures) -> dict[str, Any]:
    """Schedules as the JSON value [[names of nodes, knobs that these nodes share], ...]; nodes with their template's
    own schedule are left out.
    """
    if not item.schedules:
        return {}
    alike: dict[str, tuple[list[str], dict[str, int]]] = {}
    for node, knobs in item.schedules.items():
        alike.setdefault(repr(sorted(knobs.items())), ([], dict(knobs)))[0].append(node)
    return {
        "default_cycles": item.before,
        "schedules": [list(nodes_and_knobs) for nodes_and_knobs in alike.values()],
    }


def _number(value: Any) -> float:
    """Returns `value`, which must be a number from 0 to `_GREATEST`, so that sums of figures in a record are finite.
    Raises ValueError or TypeError for any other value, also for a bool.
    """
    if isinstance(value, bool) or not 0 <= value <= _GREATEST:
        raise ValueError(f"a figure is {value!r}, not a number from 0 to {_GREATEST:g}")
    return value


def _network_from_json(item: Mapping[str, Any]) -> NetworkFigures:
    before = item.get("default_cycles")
    return NetworkFigures(
        cycles=int(_number(item["cycles"])),
        roofline_cycles=_number(item["roofline_cycles"]),
        dram_bytes=int(_number(item["dram_bytes"])),
        energy={str(unit): _number(x) for unit, x in item["energy_uj"].items()},
        before=None if before is None else int(_number(before)),
        schedules={
            str(node): {str(knob): int(x) for knob, x in knobs.items()}
            for nodes, knobs in item.get("schedules", ())
            for node in nodes
        },
    )


def from_json(value: Mapping[str, Any]) -> Figures:
    """The figures in a JSON value made by `to_json`. Raises KeyError, TypeError or ValueError for any other value."""
    if "failed" in value:
        return Figures(failed=str(value["failed"]))
    networks = {str(name): _network_from_json(item) for name, item in value["networks"].items()}
    if not networks:
        raise ValueError("the figures name no network")
    for name, item in networks.items():
        if item.cycles < 1:
            raise ValueError(
                f"the figures of network {name} have {item.cycles} cycles; at least 1 is possible"
            )
    return Figures(
        area={str(unit): _number(x) for unit, x in value["area_mm2"].items()},
        clock_mhz=None if value.get("clock_mhz") is None else _number(value["clock_mhz"]),
        networks=networks,
        intervals={
            str(n): (_number(low), _number(high)) for n, (low, high) in value.get("intervals", {}).items()
        },
        rungs={str(name): str(rung) for name, rung in value.get("rungs", {}).items()},
    )


@cache
def sources_of_figures() -> str:
    """A hash of the source code of the models of area and energy, which identifies the code that computes figures from
    a simulation.
    """
    return sources_digest("vdla.codesign.technology")


def study_key(networks: Sequence[Network], components: Components, effort: Effort = NO_TRIALS) -> str:
    """Hash, 16 hexadecimal digits, of everything on which figures depend, except the machine: the networks, the table
    of components, versions of the compiler and of the models of area and energy, and the effort spent on schedules. The
    networks' weights in sums over networks are not included.
    """
    versions = (compiler_identity("vdla"), sources_of_figures())
    text = repr(([(n.name, n.digest) for n in networks], components.digest, versions)) + effort.key
    return blake2b(text.encode(), digest_size=8).hexdigest()
