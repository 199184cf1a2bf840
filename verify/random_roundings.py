"""Random stores whose results depend on the last bits of their operands; used by `random_programs.py`. Stage A of a
store multiplies totals (int32 sums) by scales and rounds to int8; stage B is the optional operation after it (rescale,
add, multiply).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.isa.arithmetic import UNSIGNED_OFFSET, requantize, wrap_int32
from vdla.isa.program_builder import Instruction
from vdla.isa.registers import register

from .random_images import EVEN, TABLE, WORST
from .random_instructions import (
    Source,
    float_bits,
    register_values,
    register_write,
    store,
)
from .random_operands import TOTALS, combine_constants, far_rescale
from .worst_roundings import worst_add, worst_multiply, worst_rescale

_STORES = 6
"""Usual limit on the number of consecutive stores that store the same accumulators; a long series (`_SERIES`) has more.
"""

_MANY = 160
_SERIES = 0.12
"""Probability of a long series of stores, in which up to `_MANY` instructions store the same accumulators with
different constants. Many tries are needed because a wrong last bit of a constant rarely changes a result.
"""


def near_ties(source: Source) -> list[Instruction]:
    """Instructions that store totals (accumulators) whose products with the scales are near n + 1/2, a tie of rounding,
    in stage A (requantization). The constants of stage B (the operation after stage A) also give results near ties.
    """
    config, regions = source.config, source.regions
    entry = WORST if source.chance(0.35) else source.number(TABLE - 1)
    index, place = source.number(config.par_depth - 1), source.number(config.acc_depth - TOTALS)
    row = {"y_size": 1, "x_size": TOTALS, "x_stride": TOTALS}
    first = register_values(source, "REQUANTIZE")
    if regions.zero_points[entry]:
        first["zero_point"] = regions.zero_points[entry]
    # Sometimes loads the entry before it, too, so that the load begins and ends within a bus word.
    more = source.number(1) if entry and index else 0
    table = {"y_size": 1, "x_size": 1 + more, "x_stride": 1 + more, "sram_base": index - more}
    table["dram_base"] = regions.parameters // config.par_bytes + entry - more
    totals = regions.totals // config.acc_bytes + TOTALS * entry
    chain = [
        setting("ADDRESS", {"y_stride": 0, "x_stride": 1}),
        setting("WINDOW", {}),
        ("LOAD.PAR", table),
        ("LOAD.ACC", row | {"sram_base": place, "dram_base": totals}),
    ]
    for _ in range(source.number(_MANY, _MANY // 2) if source.chance(_SERIES) else source.number(_STORES, 1)):
        values = store(source, True) | _mode(source) | row | {"par_index": index, "sram_base": place}
        values |= {"table": 0, "table_index": 0, "rows": 0}
        values["dram_base"] = min(values["dram_base"], regions.end // config.out_bytes - TOTALS)
        if source.chance(0.7):
            chain += _worst(source, values, first, entry)
        else:
            chain += _random(source, values, first, entry)
        chain.append(("STORE.POST", values))
    return chain


def _mode(source: Source) -> dict[str, int]:
    """Flags, by name, of a STORE.POST that select a random operation of stage B (the optional operation after
    requantization). Addition is drawn most often, because it consists of more roundings than the other operations.
    """
    values = {
        "combine": 1,
        "operand": 1,
        "multiply": 0,
        "swap": source.number(1),
        "unsigned": source.number(1),
    }
    match source.number(9):
        case 0:
            return values | {"combine": 0, "operand": 0, "swap": 0}
        case 1 | 2:
            # Rescaling, the only mode whose rounded products exceed int8 before the zero point is added.
            return values | {"operand": 0, "swap": 0}
        case 3 | 4:
            return values | {"multiply": 1}
        case _:
            return values


def setting(name: str, values: dict[str, int]) -> Instruction:
    """The CONFIG that writes `values` to fields of configuration register `name`, and zeros to its other fields."""
    return "CONFIG", register_write(register(name), values)


def _random(source: Source, values: dict[str, int], first: dict[str, int], entry: int) -> list[Instruction]:
    """CONFIG instructions with random constants for stage B of the store pipeline (the optional operation after
    requantization to int8). With these constants, some int8 operands give a result near a rounding tie.

    `values`: fields of the STORE.POST instruction that follows. `first`: values for the register REQUANTIZE. `entry`:
    number of the parameter entry with which the stored accumulators are requantized.
    """
    own, operand, offset = combine_constants(source.rng)
    last = register_values(source, "COMBINE")
    if values["combine"] and not values["operand"]:
        own, last["zero_point"] = far_rescale(source.rng, source.regions.zero_points[entry])
    return _settings(first, last, own, operand, offset)


def _worst(source: Source, values: dict[str, int], first: dict[str, int], entry: int) -> list[Instruction]:
    """CONFIG instructions that set constants of stage B of the store pipeline (the optional operation after
    requantization to int8). For one pair of int8 operands of the following store, the result with these constants is as
    hard to round as possible.

    `values`: fields of the STORE.POST instruction that follows. `first`: values for the register REQUANTIZE. `entry`:
    number of the parameter entry with which the stored accumulators are requantized.
    """
    config, regions, rng = source.config, source.regions, source.rng
    if values["combine"] and source.chance(0.6):
        # All lanes have the same pair.
        own = source.number(127, -128)
        first = first | {"low": own, "high": own}
        vector = regions.even // config.out_bytes + source.number(EVEN - TOTALS)
    else:
        vector = source.number(regions.even // config.out_bytes - TOTALS, regions.data // config.out_bytes)
    results = _results(source, entry, first)
    lane = tuple(int(rng.integers(size)) for size in results.shape)
    own = int(results[lane])
    operands = source.trace.image[vector * config.out_bytes :][: TOTALS * config.out_bytes]
    other = int(operands.view(np.int8).reshape(results.shape)[lane])
    operand = [setting("OPERAND", {"delta": vector - values["dram_base"]})]
    last = register_values(source, "COMBINE")
    if source.chance(0.5):
        last |= {"low": -128, "high": 127}
    shift = UNSIGNED_OFFSET * values["unsigned"]
    difference = own - first["zero_point"]
    if not values["operand"]:
        ratio, last["zero_point"] = worst_rescale(rng, difference)
        return _settings(first, last, ratio, np.float32(1), np.float32(0))
    if values["multiply"]:
        ratio, zero_point = worst_multiply(rng, difference, other, shift - 128, shift + 127)
        last["zero_point"] = -shift
        first = first | {"operand_zero_point": zero_point}
        return operand + _settings(first, last, ratio, np.float32(1), np.float32(0))
    pair = (other, own) if values["swap"] else (own, other)
    ratios = worst_add(rng, pair[0] + shift, pair[1] + shift, shift - 128, shift + 127)
    a, b = ratios[1::-1] if values["swap"] else ratios[:2]
    return operand + _settings(first, last, a, b, ratios[2])


def _results(source: Source, entry: int, first: dict[str, int]) -> NDArray[np.int8]:
    """The int8 results of stage A (requantization) for the accumulators of the image that belong to parameter entry
    `entry`, (TOTALS, batch, block_out). `first`: values of the register REQUANTIZE.
    """
    config, regions, image = source.config, source.regions, source.trace.image
    at = regions.totals + TOTALS * entry * config.acc_bytes
    totals = image[at : at + TOTALS * config.acc_bytes].view(np.int32)
    at = regions.parameters + entry * config.par_bytes
    biases, scales = image[at : at + config.par_bytes].view(np.uint32).reshape(2, config.block_out)
    sums = totals.reshape(TOTALS, config.batch, config.block_out).astype(np.int64) + biases.view(np.int32)
    return requantize(
        wrap_int32(sums), scales.view(np.float32), first["zero_point"], first["low"], first["high"]
    )


def _settings(
    first: dict[str, int],
    last: dict[str, int],
    ratio_self: np.float32,
    ratio_operand: np.float32,
    offset: np.float32,
) -> list[Instruction]:
    return [
        setting("REQUANTIZE", first),
        setting("RATIO", {"ratio_self": float_bits(ratio_self), "ratio_operand": float_bits(ratio_operand)}),
        setting("COMBINE", last | {"offset": float_bits(offset)}),
    ]
