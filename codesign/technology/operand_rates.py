"""Estimates the numbers of changing data bits in launches for which only the timing is simulated. The energy model
needs these numbers; the explorer simulates no data, so that it has only the counts of events.

There is a rate for every counter of `sim.statistics.MEASURED`. The estimate is the rate times a count of events
(`bases_of` says which). The rates are measured once on real programs (`benchmarks/operand_rates.py`), and stored in
operand_rates.json with their source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from vdla.isa.config import Config
from vdla.sim.statistics import MEASURED

from .events import Events


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperandRates:
    """Estimates the numbers of changing data bits in a launch for which the data themselves are not simulated.

    There is a rate for each counter of changing bits (`MEASURED`). A counter grows with the number of events of one
    kind (`bases_of`); its rate is the number of bits that change per event. The rates were measured with the network
    `network` on the machine `machine`. `spread`: relative root mean square error of the energy of data if it is
    computed from these rates; measured on other networks and machines.
    """

    network: str
    machine: str
    rates: Mapping[str, float]
    spread: float

    def changes(self, config: Config, events: Events) -> dict[str, float]:
        """Estimated number of changing bits by counter of `MEASURED`, for a launch with these events."""
        bases = bases_of(config, events)
        return {name: self.rates[name] * bases[name] for name in MEASURED}


def bases_of(config: Config, events: Events) -> dict[str, float]:
    """For each counter of changing bits (`MEASURED`), the count of events in a launch to which the counter is
    proportional.
    """
    lanes = config.batch * config.block_out
    matrix = events.matrix
    taken = events.vectors_read
    products = taken * config.multiplies_per_cycle
    reads = (matrix - events.overwriting + events.alu + events.two) * lanes
    stored, compute = events.stored * lanes, events.issued["compute"] * lanes
    read = events.read
    found = {
        "inputs": taken * config.inp_bytes,
        "weights": taken * config.wgt_bytes,
        "digits": taken * config.wgt_bytes,
        "chosen": taken * config.block_in,
        **dict.fromkeys(("partial_products", "carries", "products", "sums"), products),
        "results": (matrix + events.alu) * lanes,
        "reads": reads,
        "seen": reads,
        "rights": compute + events.alu * lanes,
        "drained": compute,
        "shifted": events.slow * lanes,
        "multiplied": events.slow * lanes,
        "micro_ops": matrix + events.alu,
        "places": matrix + events.alu,
        "loaded": read["acc"],
        "loaded_lanes": read["acc"],
        "store_reads": events.window_reads * lanes,
        "reduced": events.window_reads * lanes,
        "operands": events.combined * lanes,
        "outputs": stored,
        "modes": events.posts * lanes // config.post_passes,
        "settings": events.settings,
        "fetched": read["instruction"],
        "loaded_words": read["inp"] + read["wgt"],
        "compute_words": read["uop"] + read["acc"],
        "store_words": read["par"] + read["operand"],
        "written_words": events.written,
    }
    return {name: float(found.get(name, stored)) for name in MEASURED}


def rates_from(config: Config, events: Events, changes: Mapping[str, float]) -> dict[str, float]:
    """The rates of a simulated program: its measured numbers of changed bits (`changes`, by counter) divided by the
    counters' base counts (`bases_of`); 0 if a base count is 0.
    """
    bases = bases_of(config, events)
    return {name: changes[name] / bases[name] if bases[name] else 0.0 for name in MEASURED}


def parse_rates(value: Mapping[str, Any]) -> OperandRates:
    """The rates in a JSON document of `benchmarks/operand_rates.py`."""
    rates = {name: float(value["rates"][name]) for name in MEASURED}
    return OperandRates(
        network=str(value["network"]),
        machine=str(value["machine"]),
        rates=rates,
        spread=float(value["spread"]),
    )


@cache
def shipped_rates() -> OperandRates:
    """The rates of changing operand bits that are shipped with the package."""
    text = (resources.files("vdla.codesign.technology") / "operand_rates.json").read_text(encoding="utf-8")
    return parse_rates(json.loads(text))
