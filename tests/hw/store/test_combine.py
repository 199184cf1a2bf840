"""The RTL of stage B (the combination with a second operand) of the store pipeline equals vdla.isa.arithmetic."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator
from campaign import in_campaigns

from vdla.hw.store.combine import COMBINE_STAGES, Combine
from vdla.hw.store.constants import CONSTANTS_CYCLES, Constants
from vdla.isa.arithmetic import CONSTANT_BITS, AddConstants, combine_add, combine_multiply, rescale

LANES = 4


def float_bits(value: np.float32) -> int:
    return int(np.float32(value).view(np.uint32))


def random_ratio(rng: np.random.Generator) -> np.float32:
    """A random float32 ratio: mostly near 1; also powers of two, which give ties, any magnitude up to the checker's
    limit, zero and subnormals.
    """
    sign = rng.choice([-1, 1, 1, 1])
    match rng.integers(0, 8):
        case 0 | 1 | 2:
            value = rng.uniform(0.01, 2)
        case 3 | 4:
            value = 2.0 ** rng.integers(-9, 3) * rng.choice([1, 1, 3, 5])
        case 5:
            value = rng.uniform(1, 2) * 2.0 ** rng.integers(-140, CONSTANT_BITS)
        case 6:
            value = rng.choice([0, 2.0**-149, 2.0**-127, 2.0**CONSTANT_BITS])
        case _:
            value = 1 + 2.0**-23 * rng.integers(0, 3)
    return np.float32(sign * value)


def random_offset(rng: np.random.Generator, ratio: np.float32) -> np.float32:
    match rng.integers(0, 6):
        case 0:
            value = np.float32(rng.integers(-300, 300) / 2)
        case 1:  # cancels a product of the ratio but for its last bits
            value = np.float32(ratio * np.float32(rng.integers(-255, 256)))
            value = np.nextafter(value, np.float32(rng.choice([-1e9, 0, 1e9])))
        case 2:
            value = random_ratio(rng)
        case 3:
            value = np.float32(
                rng.integers(-300, 300) / 2 + rng.choice([-1, 1]) * 2.0 ** -rng.integers(10, 40)
            )
        case _:
            value = np.float32(rng.uniform(-200, 200))
    return np.float32(np.clip(value, -(2.0**CONSTANT_BITS), 2.0**CONSTANT_BITS))


def pairs(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    a, b = (rng.integers(-128, 128, count).astype(np.int8) for _ in range(2))
    a[::7], b[::11], a[::13] = 0, 0, -128
    return a, b


def run(settings: list[dict[str, int]], values: np.ndarray, operands: np.ndarray) -> np.ndarray:
    """Runs the RTL's combination of two vectors with each of `settings`. `values` and `operands`, [settings, count],
    are the two vectors; LANES pairs enter the pipeline in each cycle. Returns the results, int8 [settings, count].
    """
    m = Module()
    m.submodules.constants = constants = Constants()
    lanes = [Combine() for _ in range(LANES)]
    for number, lane in enumerate(lanes):
        m.submodules[f"lane_{number}"] = lane
        m.d.comb += lane.constants.eq(constants.constants)
    got = np.zeros(values.shape, np.int8)
    names = set(lanes[0].signature.members) - {"value", "operand", "result", "constants"}
    shared = set(constants.signature.members) - {"constants", "zero_point"}

    async def bench(ctx) -> None:
        for index, setting in enumerate(settings):
            for name in shared:
                ctx.set(getattr(constants, name), setting[name])
            ctx.set(constants.zero_point, setting["last_zero_point"])
            for lane in lanes:
                for name in names:
                    ctx.set(getattr(lane, name), setting[name])
            await ctx.tick().repeat(CONSTANTS_CYCLES)
            count = values.shape[1] // LANES
            for cycle in range(count + COMBINE_STAGES):
                for number, lane in enumerate(lanes):
                    if cycle >= COMBINE_STAGES:
                        got[index, (cycle - COMBINE_STAGES) * LANES + number] = ctx.get(lane.result)
                    at = min(cycle, count - 1) * LANES + number
                    ctx.set(lane.value, int(values[index, at]))
                    ctx.set(lane.operand, int(operands[index, at]))
                await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    return got


def random_setting(rng: np.random.Generator, multiply: int, operand_used: int) -> dict[str, int]:
    ratio_self, ratio_operand = random_ratio(rng), random_ratio(rng)
    offset = random_offset(rng, ratio_operand if rng.random() < 0.5 else ratio_self)
    if multiply and rng.random() < 0.7:
        ratio_self = np.float32(2.0 ** -int(rng.integers(2, 25))) * rng.choice(
            np.array([1, 1.1, 3], np.float32)
        )
    low = -128 if rng.random() < 0.7 else int(rng.integers(-128, 0))
    small = rng.random() < 0.7
    return {
        "multiply": multiply,
        "operand_used": operand_used,
        "swap": int(rng.integers(0, 2)) * operand_used,
        "unsigned": int(rng.integers(0, 2)) * operand_used,
        "zero_point": int(rng.integers(-128, 128) if small else rng.choice([-32768, 32767, -20000])),
        "operand_zero_point": int(rng.integers(-128, 128) if small else rng.choice([-32768, 32767, 30001])),
        "last_zero_point": int(rng.integers(-128, 128) if small else rng.choice([-32768, 32767, 0])),
        "low": low,
        "high": int(rng.integers(low, 128)) if rng.random() < 0.3 else 127,
        "ratio_self": float_bits(ratio_self),
        "ratio_operand": float_bits(ratio_operand),
        "offset": float_bits(offset),
    }


def expected(setting: dict[str, int], q: np.ndarray, r: np.ndarray) -> np.ndarray:
    def number(name: str) -> np.float32:
        return np.uint32(setting[name]).view(np.float32)

    low, high, last = setting["low"], setting["high"], setting["last_zero_point"]
    zero, operand_zero, unsigned = (
        setting["zero_point"],
        setting["operand_zero_point"],
        bool(setting["unsigned"]),
    )
    if not setting["operand_used"]:
        return rescale(q, zero, number("ratio_self"), last, low, high)
    if setting["multiply"]:
        return combine_multiply(q, r, (zero, operand_zero), number("ratio_self"), last, unsigned, low, high)
    sides = [(q, number("ratio_self")), (r, number("ratio_operand"))]
    (a, ratio_a), (b, ratio_b) = reversed(sides) if setting["swap"] else sides
    constants = AddConstants(ratio_a=ratio_a, ratio_b=ratio_b, offset=number("offset"), unsigned=unsigned)
    return combine_add(a, b, constants, low, high)


@pytest.mark.parametrize(
    ("multiply", "operand_used"), [(0, 1), (1, 1), (1, 0)], ids=["add", "multiply", "rescale"]
)
def test_random_and_corner_operands(multiply: int, operand_used: int) -> None:
    rng = np.random.default_rng(5 + 2 * multiply + operand_used)
    settings = [random_setting(rng, multiply, operand_used) for _ in range(in_campaigns(40, 20))]
    drawn = [pairs(rng, 16) for _ in settings]
    values, operands = np.stack([d[0] for d in drawn]), np.stack([d[1] for d in drawn])
    got = run(settings, values, operands)
    for index, setting in enumerate(settings):
        assert got[index].tolist() == expected(setting, values[index], operands[index]).tolist(), (
            index,
            setting,
        )
