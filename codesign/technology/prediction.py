"""Energy of a program's logic on a machine, predicted from the simulator's events and the program's own integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.isa.program import Program
from vdla.sim import simulate
from vdla.sim.statistics import operand_statistics

from .event_energy import EventEnergy, shipped_event_energy
from .event_features import features_of
from .events import count_events
from .modelled_energy import is_inside

LOOKED_AT = 20_000
"""Operations of the array whose inside is looked at, of larger programs a random part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Microjoules by part (`event_features.GROUPS`) in the library's node: of `data` that change, of `clock` pins,
    which are never gated, and of `leakage`. `interval`, as factors, and `low` and `high`: where the sum of data is
    in 90 of 100 programs like those that were fitted. Scratchpads, DRAM, wires, glitches, the clock tree and pads
    are not in it."""

    interval: tuple[float, float]
    cycles: int
    data: Mapping[str, float]
    clock: Mapping[str, float]
    leakage: Mapping[str, float]

    @property
    def low(self) -> float:
        """Microjoules of data, the least."""
        return sum(self.data.values()) * self.interval[0]

    @property
    def high(self) -> float:
        """Microjoules of data, the most."""
        return sum(self.data.values()) * self.interval[1]


def predict_energy(
    program: Program, *, model: EventEnergy | None = None, looked_at: int = LOOKED_AT
) -> Prediction:
    """The energy of a program with its data. The inside of the array is looked at for `looked_at` operations, chosen at
    random over the whole program; all else in full.

    Raises ProgramError and SimulationError as `simulate` does.
    """
    model = model or shipped_event_energy()
    config = program.config
    simulation = simulate(config, program.instructions, program.image, data=False)
    events = count_events(program, simulation)
    share = looked_at / max(looked_at, events.vectors_read)
    changes = operand_statistics(config, program.instructions, program.image, share=share).changes
    seconds = simulation.cycles / config.clock_hertz

    def micro(picojoules: Mapping[str, float]) -> dict[str, float]:
        return {unit: value / 1e6 for unit, value in picojoules.items()}

    return Prediction(
        interval=model.interval if is_inside(config) else model.interval_outside,
        cycles=simulation.cycles,
        data=micro(model.data(features_of(config, events, changes))),
        clock=micro(model.clocks(config, simulation.cycles)),
        leakage=micro(model.leakages(config, seconds)),
    )
