"""Energy of a program on a machine, predicted from the simulator's events and the program's own integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.isa.program import Program
from vdla.sim import simulate
from vdla.sim.statistics import operand_statistics

from .event_energy import EventEnergy, shipped_event_energy
from .event_features import features_of
from .events import count_events
from .memory_energy import accesses, memory_picojoules

LOOKED_AT = 20_000
"""Number of array operations whose internal bits are examined; in a program with more operations, a random sample of
about this size.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Energy of a program in microjoules, at the technology node of the cell library.

    `data` (changing data bits), `clock` (clock pins, never gated) and `leakage` have the energy of each part of
    `event_features.GROUPS`; `memories` has it by unit (`memory_energy.UNITS`). `low` and `high` are the ends of the 90%
    interval of the sum. DRAM, wires, glitches, the clock tree and pads are left out.
    """

    cycles: int
    data: Mapping[str, float]
    clock: Mapping[str, float]
    leakage: Mapping[str, float]
    memories: Mapping[str, float]
    low: float
    high: float

    @property
    def whole(self) -> float:
        """Energy of the program in microjoules: the sum of all parts."""
        return sum(sum(part.values()) for part in (self.data, self.clock, self.leakage, self.memories))


def predict_energy(
    program: Program, *, model: EventEnergy | None = None, looked_at: int = LOOKED_AT
) -> Prediction:
    """Predicts the energy of a program with its data. Internal bits of the array are counted in about `looked_at`
    operations, drawn at random from the whole program (in all operations if the program has fewer); all other counts
    are exact. The energy of leakage is that of the program's duration at the configuration's own clock. `model`: by
    default the shipped one.

    Raises ProgramError and SimulationError as `simulate` does.
    """
    model = model or shipped_event_energy()
    config = program.config
    simulation = simulate(config, program.instructions, program.image, data=False)
    events = count_events(program, simulation)
    share = looked_at / max(looked_at, events.vectors_read)
    changes = operand_statistics(config, program.instructions, program.image, share=share).changes
    seconds = simulation.cycles / config.clock_hertz

    found = {
        "data": model.data(features_of(config, events, changes)),
        "clock": model.clocks(config, simulation.cycles),
        "leakage": model.leakages(config, seconds),
        "memories": memory_picojoules(config, accesses(config, events), model.sram_scale),
    }
    parts = {name: {unit: value / 1e6 for unit, value in own.items()} for name, own in found.items()}
    data, clock, leakage, memories = (sum(own.values()) for own in parts.values())
    whole = data + clock + leakage + memories
    reach = model.spread.reach * model.spread.deviation(data, clock, memories)
    return Prediction(
        cycles=simulation.cycles,
        low=whole - reach,
        high=whole + reach,
        **parts,
    )
