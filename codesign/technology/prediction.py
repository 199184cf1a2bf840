"""Energy of a program's logic on a machine, predicted from the simulator's events and the program's own integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.isa.program import Program
from vdla.sim import simulate
from vdla.sim.statistics import operand_statistics

from .event_energy import EventEnergy, features_of, shipped_event_energy
from .events import count_events

SAMPLED = 64
"""Operations of each instruction whose operands are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Microjoules by unit (`event_energy.GROUPS`) in the library's node: of `data` that change, of `clock` pins, which
    are never gated, and of `leakage`. `low` and `high`: where the sum of data is in 90 of 100 programs like those that
    were fitted. Scratchpads, DRAM, wires, glitches, the clock tree and pads are not in it."""

    model: EventEnergy
    cycles: int
    data: Mapping[str, float]
    clock: Mapping[str, float]
    leakage: Mapping[str, float]

    @property
    def low(self) -> float:
        """Microjoules of data, the least."""
        return sum(self.data.values()) * self.model.interval[0]

    @property
    def high(self) -> float:
        """Microjoules of data, the most."""
        return sum(self.data.values()) * self.model.interval[1]


def predict_energy(
    program: Program, *, model: EventEnergy | None = None, most: int | None = SAMPLED
) -> Prediction:
    """The energy of a program with its data. `most` operations of each instruction are looked at (all: None).

    Raises ProgramError and SimulationError as `simulate` does.
    """
    model = model or shipped_event_energy()
    config = program.config
    simulation = simulate(config, program.instructions, program.image, data=False)
    events = count_events(program, simulation)
    changes = operand_statistics(config, program.instructions, program.image, most=most).changes
    seconds = simulation.cycles / config.clock_hertz

    def micro(picojoules: Mapping[str, float]) -> dict[str, float]:
        return {unit: value / 1e6 for unit, value in picojoules.items()}

    return Prediction(
        model=model,
        cycles=simulation.cycles,
        data=micro(model.data(features_of(config, events, changes))),
        clock=micro(model.clocks(config, simulation.cycles)),
        leakage=micro(model.leakages(config, seconds)),
    )
