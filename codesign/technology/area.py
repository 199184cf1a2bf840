"""Area of a machine by unit, from its configuration and a table of components."""

from __future__ import annotations

from vdla.isa.config import Config
from vdla.isa.extensions import blocks

from .components import Components


def area_by_unit(config: Config, components: Components) -> dict[str, float]:
    """Square millimetres by unit: the array, the ALU's lanes, those of the extensions, scratchpads, FIFOs and queues.

    A lane of the array adds `block_in` products and the accumulator. Scratchpads are memory macros; what
    `Config.extra_storage` lists is flip-flops but for the parameter table and the chain memory. An adder of 32 bits
    stands for every adder, since the sums of products are narrower and the accumulation is not. What is left out is
    what the table leaves out.
    """
    area = components.area
    lanes = config.batch * config.block_out
    found = {
        "array": config.multiplies_per_cycle * (area["int8_multiply"] + area["int32_add"]),
        # One adder, one multiplier of 16 bits (a quarter of one of 32), and the comparison.
        "alu": lanes * (2 * area["int32_add"] + area["int32_multiply"] / 4),
    }
    for block in blocks(config):
        if block.name == "post":
            # Three multipliers a lane, as the extension says, and an adder behind each.
            each = area["float32_multiply"] + area["float32_add"]
            found["post"] = block.multipliers * each + lanes * area["int32_add"]
    for kind in ("uop", "inp", "wgt", "acc"):
        found[f"{kind} scratchpad"] = components.sram_area(getattr(config, f"{kind}_buffer_bytes"))
    storage = config.extra_storage
    macros = ("parameter table", "chain memory")
    for name in macros:
        if name in storage:
            found[name] = components.sram_area(storage[name])
    bits = 8 * sum(size for name, size in storage.items() if name not in macros)
    found["FIFOs and queues"] = bits * area["flip_flop_bit"]
    return {name: value / 1e6 for name, value in found.items()}
