"""Features that predict the energy of each part of a machine (accelerator configuration): the simulator's counts of
events and of changed bits, times the number of copies of the hardware that switches with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from vdla.isa.array_shape import ArrayShape
from vdla.isa.config import Config

from .events import Events

GROUPS: Mapping[str, tuple[str, ...]] = {
    "array": ("compute.pipeline.array",),
    "lanes": ("compute.pipeline.lane", "compute.accumulators"),
    "operations": ("compute.pipeline", "compute.operations"),
    "compute": ("compute",),
    "reduction": ("store.pipeline.reduction",),
    "stage A": ("store.pipeline.requantize",),
    "stage B": ("store.pipeline.stage_b", "store.pipeline.constants"),
    "post": ("store.pipeline",),
    "store": ("store", "chain"),
    "load": ("load", "inp", "wgt"),
    "memory port": ("memory_port",),
    "counters": ("counters",),
    "fetch": ("fetch",),
    "control": ("",),
}
"""Maps each part of a machine to prefixes of the hierarchical names of RTL instances (with the numbers in the names
removed). An instance belongs to the first part of this table that has a prefix of its name.
"""

FEATURES: Mapping[str, tuple[str, ...]] = {
    "array": (
        "row bits", "input bits", "weight bits", "digits", "partial_products", "carries", "products", "sums",
    ),
    "lanes": (
        "sums", "shifted", "multiplied", "slow lanes", "fast lanes", "results", "reads", "rights", "drained", "loaded",
        "loaded lanes", "store_reads", "compute instruction lanes",
    ),
    "operations": ("operations", "micro_ops", "places", "compute instructions", "cycles"),
    "compute": (
        "compute instructions", "compute beats", "compute_words", "compute runs", "loaded vectors", "loaded",
        "instructions", "cycles",
    ),
    "reduction": (
        "seen", "store_reads", "reduced", "totals", "window lanes", "paced lanes", "stored lanes", "post lanes",
    ),
    "stage A": ("totals", "mantissas", "scaled", "scaled_products", "fixed", "requantized", "post lanes"),
    "stage B": (
        "requantized", "pairs", "pair_partials", "pair_mantissas", "pair_products", "operands", "modes", "settings",
    ),
    "post": (
        "totals", "requantized", "outputs", "paced lanes", "operands", "store_words", "store instructions",
    ),
    "store": (
        "store instructions", "store busy", "vectors", "windows", "written_words", "written runs", "store beats",
        "store_words", "parameter bytes", "store settings", "cycles",
    ),
    "load": (
        "load instructions", "loaded_words", "load runs", "load steps", "load busy", "instructions", "cycles",
    ),
    "memory port": ("read words", "written_words", "read beats", "written beats", "runs", "cycles"),
    "counters": ("cycles", "beats", "runs", "load busy", "store busy", "instructions"),
    "fetch": ("fetched", "instructions", "fetch beats", "cycles"),
    "control": ("instructions", "cycles", "beats"),
}  # fmt: skip
"""For each part of a machine, the names of the features that predict the energy of its changing data bits."""


def part_of_path(path: str) -> str:
    """The part of `GROUPS` to which the instance at path `path` of a netlist belongs (for example
    "compute$347.pipeline.lane_0.alu").
    """
    plain = re.sub(r"\$\d+|_\d+(?=\.|$)", "", path)
    for part, starts in GROUPS.items():
        if any(not start or plain == start or plain.startswith(f"{start}.") for start in starts):
            return part
    raise AssertionError(f"register {path} is in no group of GROUPS; add its prefix to a group")


_INSTANCES: Mapping[str, str] = MappingProxyType(
    {
        "accumulator_lane": "lane",
        "reduction_lane": "reduction",
        "requantize_lane": "requantize",
        "stage_b_lane": "stage_b",
    }
)
"""By name of an RTL module, the name that its instances have in a netlist; only for modules whose instances have
another name than the module.
"""


@cache
def part_of_module(module: str) -> str:
    """The part of `GROUPS` to which a module of `cell_features.MODULES` belongs (for example "compute.operations")."""
    return part_of_path(".".join(_INSTANCES.get(name, name) for name in module.split(".")))


def features_of(config: Config, events: Events, changes: Mapping[str, float]) -> dict[str, float]:
    """Value of every energy feature for one launch (run of a program). `changes`: number of changed bits by name of a
    counter of `sim.statistics.MEASURED`.
    """
    lanes, bus = config.batch * config.block_out, config.memory.bus_bytes
    read, runs, issued = events.read, events.runs, events.issued
    load_bytes = read["inp"] + read["wgt"]
    read_bytes = sum(read.values())
    words = ("fetched", "loaded_words", "compute_words", "store_words")
    return {
        **changes,
        # The tile row that a DEPTHWISE operation reads is driven to every row of the array.
        "row bits": changes["chosen"] * config.columns if ArrayShape.of(config).by_lane else 0.0,
        # An input bit is driven to one multiplier in every row of the tile, a weight bit to one for every vector of
        # the batch.
        "input bits": changes["inputs"] * config.columns,
        "weight bits": changes["weights"] * config.batch,
        "operations": float(events.matrix + events.alu),
        "slow lanes": float(events.slow * lanes),
        "fast lanes": float((events.alu - events.slow + events.two) * lanes),
        "loaded lanes": changes["loaded_lanes"],
        "loaded vectors": changes["loaded_lanes"] / lanes,
        "stored lanes": float(events.stored * lanes),
        "paced lanes": float(events.stored * lanes * (config.post_passes > 1)),
        "window lanes": float((events.window_reads - events.stored) * lanes),
        "post lanes": float(events.posts * lanes // config.post_passes),
        "vectors": float(events.stored),
        "windows": float(events.window_reads),
        "instructions": float(sum(issued.values())),
        **{f"{unit} instructions": float(count) for unit, count in issued.items()},
        "compute instruction lanes": float(issued["compute"] * lanes),
        "store settings": float(events.settings),
        "load busy": float(events.busy["load"]),
        "store busy": float(events.busy["store"]),
        **{f"{mover} runs": float(count) for mover, count in runs.items()},
        "runs": float(sum(runs.values())),
        "load steps": read["inp"] / min(bus, config.inp_bytes) + read["wgt"] / min(bus, config.wgt_bytes),
        "load beats": load_bytes / bus,
        "compute beats": (read["uop"] + read["acc"]) / bus,
        "store beats": (read["par"] + read["operand"]) / bus,
        "fetch beats": read["instruction"] / bus,
        "read beats": read_bytes / bus,
        "written beats": events.written / bus,
        "beats": (read_bytes + events.written) / bus,
        "read words": sum(changes[name] for name in words),
        "parameter bytes": float(read["par"]),
        "cycles": float(events.cycles),
    }
