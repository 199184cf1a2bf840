"""Area and clock of a machine (accelerator configuration). Usually, a model fitted to synthesis results predicts both.
With a table of components, the area is computed from the table, and the clock is the configuration's own. The clock is
also the configuration's own on a machine with a DRAM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vdla.isa.config import Config
from vdla.isa.data_path import blocks

from .cell_model import LEFT_OUT, shipped_cell_model
from .clock import Clock, clock_of, has_modelled_clock, predicted
from .components import Components
from .dram import phy_area, router_area
from .modelled_energy import described as energy_described

GATES_PER_FLIP_FLOP = 4.522 / 0.798
"""Ratio of the area of a flip-flop to the area of a NAND gate of two inputs. The areas, in square micrometres, are
those of DFF_X1 and NAND2_X1 in the Nangate 45 nm open cell library.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Area and clock of a machine: `area` in square millimetres by unit, and the clock. `intervals` of "area" and
    "cycle" (the clock's period) are 90% intervals, as factors of the value. A value that no model predicts has no
    interval.
    """

    area: Mapping[str, float]
    clock: Clock
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])


def structure_of(config: Config, components: Components) -> Structure:
    """Area and clock of a machine (`clock_of`). The area is predicted by the shipped models, or follows from the table
    `components`. A machine with a DRAM also has the published area of the DRAM's PHYs (circuits at the pins) and, with
    several channels, the area of the router. The interval of the total area takes these two areas as exact.
    """
    clock = clock_of(config, components)
    flip_flop = None if components.modelled else components.area["flip_flop_bit"]
    phy = phy_area(config) | router_area(config, flip_flop)
    if not components.modelled:
        return Structure(area=area_by_unit(config, components) | phy, clock=clock)
    found = predicted(config)
    low, high = found.area_ends
    if phy:
        logic = sum(found.area.values())
        share = logic / (logic + sum(phy.values()))
        low, high = 1 - share * (1 - low), 1 + share * (high - 1)
    intervals = {"area": (low, high)}
    if has_modelled_clock(config, components):
        intervals["cycle"] = found.path_ends
    return Structure(area={**found.area, **phy}, clock=clock, intervals=intervals)


def basis(components: Components) -> dict[str, Any]:
    """The source of a machine's area, clock and energy as JSON values: name of library or table, technology node, parts
    left out, and explanations.
    """
    if not components.modelled:
        name, node, left_out = components.name, components.node, components.left_out
    else:
        name, node = "models of syntheses and of switching", shipped_cell_model().node
        left_out = LEFT_OUT
    return {"name": name, "node": node, "left_out": left_out, "described": described(components)}


def described(components: Components) -> list[str]:
    """Sentences on the sources of a machine's area, clock and energy: library or table, technology node, and the parts
    left out.
    """
    table = f"the table is {components.name} ({components.node}); it leaves out {components.left_out}"
    if not components.modelled:
        return [table]
    model = shipped_cell_model()
    return [
        f"area and clock: model of {model.machines} syntheses in {model.library} ({model.node}), memories by "
        f"CACTI; left out are {LEFT_OUT}",
        energy_described(),
    ]


def area_by_unit(config: Config, components: Components) -> dict[str, float]:
    """Area by unit in square millimetres, computed from the table `components`. The units are the array, the ALU's
    lanes, the extensions' lanes, scratchpads, FIFOs and queues.

    A column of the array has `block_in` multipliers, and as many adders for the products and the accumulator. With the
    extension `fold`, there are fewer columns than lanes, and each of the other lanes has an adder for its accumulator,
    too. Every adder counts with the area of a 32-bit adder, though the sums of products are narrower.

    Scratchpads are memory macros. The entries of `Config.extra_storage` are flip-flops, except the parameter table, the
    chain memory and the look-up tables. The table of components states which parts are left out.
    """
    area = components.area
    lanes = config.batch * config.block_out
    flip_flops = sum(
        item.cost.flops + item.cost.gates / GATES_PER_FLIP_FLOP
        for item in config.instructions
        if item.cost is not None
    )
    without_column = lanes - config.batch * config.columns
    found = {
        "array": config.multiplies_per_cycle * (area["int8_multiply"] + area["int32_add"])
        + without_column * area["int32_add"],
        # One adder, one multiplier of 16 bits (a quarter of one of 32), and the comparison.
        "alu": lanes * (2 * area["int32_add"] + area["int32_multiply"] / 4),
    }
    if flip_flops:
        found["custom instructions"] = lanes * flip_flops * area["flip_flop_bit"]
    for block in blocks(config):
        if block.name == "post":
            # Three multipliers a lane, and an adder after each.
            each = area["float32_multiply"] + area["float32_add"]
            found["post"] = block.multipliers * each + lanes * area["int32_add"]
    for kind in ("uop", "inp", "wgt", "acc"):
        found[f"{kind} scratchpad"] = components.sram_area(getattr(config, f"{kind}_buffer_bytes"))
    storage = config.extra_storage
    macros = ("parameter table", "chain memory", "look-up tables")
    copies = {"look-up tables": config.out_bytes // config.post_passes}
    for name in macros:
        if name in storage:
            number = copies.get(name, 1)
            found[name] = number * components.sram_area(storage[name] // number)
    bits = 8 * sum(size for name, size in storage.items() if name not in macros)
    found["FIFOs and queues"] = bits * area["flip_flop_bit"]
    return {name: value / 1e6 for name, value in found.items()}
