"""Energy of a launch by the model of switching: logic by event, clock pins, leakage, memories and DRAM.

The energy of logic comes from a model that is fitted to simulations of netlists, and therefore holds for the cell
library of these netlists. The energy of memories comes from the SRAM table and is scaled to the technology node of this
library. The energy of DRAM is that of a real device, which has another node.

If a simulation has no data, but only the timing, the numbers of changed bits are estimated (`operand_rates.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.isa.config import Config

from .dram import dram_energy, has_currents
from .event_energy import shipped_event_energy
from .event_features import features_of
from .events import Events
from .memory_energy import QUEUES, UNITS, accesses, memory_picojoules
from .operand_rates import shipped_rates

MOST_PRODUCTS, MOST_LANES, MOST_BUS_BYTES = 64, 8, 32
"""Largest number of multiplications a cycle, of lanes and of bus bytes among the machines to which the model was
fitted: their netlists were simulated (`benchmarks/harness/energy_rows.py`).
"""

LEFT_OUT = (
    "glitches, wires, the clock tree (clock pins are in, none is gated), pads, leakage of memories; a fixed memory's "
    "standby and refresh"
)
_LANES_OF_POST = ("reduction", "stage A", "stage B", "post")


def energy_by_model(
    config: Config,
    events: Events,
    changes: Mapping[str, float] | None = None,
    *,
    hertz: float | None = None,
) -> dict[str, float]:
    """Energy of a launch in microjoules by unit, predicted by the model of switching. `changes`: number of changed bits
    by counter of `sim.statistics.MEASURED`; by default, they are estimated with the shipped rates. `hertz`: clock from
    which the duration of the launch, and so the energy of leakage, follows; by default the configuration's own clock.
    """
    model = shipped_event_energy()
    if changes is None:
        changes = shipped_rates().changes(config, events)
    data = model.data(features_of(config, events, changes))
    post = sum(data.pop(part) for part in _LANES_OF_POST)
    found = {
        **data,
        "post": post,
        "clock pins": sum(model.clocks(config, events.cycles).values()),
        "leakage": sum(model.leakages(config, events.cycles / (hertz or config.clock_hertz)).values()),
        **memory_picojoules(config, accesses(config, events), model.sram_scale),
        **dram_energy(config, events),
    }
    return {unit: value / 1e6 for unit, value in found.items()}


def is_inside(config: Config) -> bool:
    """Whether a machine is within the size limits (multiplications a cycle, lanes, bus bytes) of the machines to whose
    simulated netlists the model is fitted.
    """
    return (
        config.multiplies_per_cycle <= MOST_PRODUCTS
        and config.batch * config.block_out <= MOST_LANES
        and config.memory.bus_bytes <= MOST_BUS_BYTES
    )


def energy_interval(energy: Mapping[str, float]) -> tuple[float, float]:
    """The 90% interval of a launch's total energy, as (low, high) factors of the total. `energy`: energy of the launch
    by unit, with estimated numbers of changed bits.

    The interval covers two kinds of errors. The errors of the energy model (changing data bits, clock pins, memories)
    were measured on simulated netlists of machines that the model was not fitted to. The error of the estimated numbers
    of changed bits was measured on networks from which the estimates were not made. The energies of leakage and DRAM
    are taken as exact.
    """
    spread = shipped_event_energy().spread
    whole = sum(energy.values())
    if not whole:
        return 1.0, 1.0
    clock = energy.get("clock pins", 0.0)
    memories = sum(value for unit, value in energy.items() if unit in _MEMORIES)
    data = whole - clock - memories - sum(energy[unit] for unit in energy if unit.startswith(_AS_THEY_ARE))
    off = spread.deviation(data, clock, memories, rates=shipped_rates().spread) / whole
    return 1 - spread.reach * off, 1 + spread.reach * off


_AS_THEY_ARE = ("leakage", "DRAM")
_MEMORIES = frozenset({*UNITS.values(), QUEUES})


def rung(config: Config) -> str:
    """The source of a machine's predicted energy, as a short text."""
    model = shipped_event_energy()
    text = f"model of switching ({model.node})"
    if not has_currents(config):
        text += f", without DRAM (no currents of {config.memory.part} are published)"
    return text if is_inside(config) else f"{text}, beyond the machines replayed"


def described() -> str:
    """A sentence for users: the data to which the model of switching energy was fitted, and the parts of the energy
    that the model leaves out.
    """
    model, rates = shipped_event_energy(), shipped_rates()
    return (
        f"energy: per event, fitted to replays of netlists in {model.library} ({model.node}, "
        f"{model.volts:g} V); operands change as those of {rates.network} do on {rates.machine}; memories by CACTI, "
        f"scaled to that node; DRAM by commands and currents of its part, a fixed memory as one DDR3L device; left out "
        f"are {LEFT_OUT}"
    )
