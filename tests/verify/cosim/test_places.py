"""Moving programs to other addresses, and starting performance counters at other values, in co-simulation."""

import numpy as np
import pytest

from vdla.hw.counters import COUNTER_BITS, COUNTERS
from vdla.hw.harness.engine import RtlError, simulate_rtl
from vdla.hw.harness.surroundings import Surroundings, SurroundingsError
from vdla.isa.config import load_config
from vdla.isa.decoding import decode_one
from vdla.verify.cosim.cases import Launch
from vdla.verify.cosim.compare import run_both
from vdla.verify.cosim.places import surround
from vdla.verify.random_programs import random_program

TINY = load_config("tiny")


def test_only_addresses_change_and_by_whole_pages():
    program = random_program(TINY, 4)
    words, surroundings = surround(TINY, program, 9)
    again, same = surround(TINY, program, 9)
    assert np.array_equal(words, again) and surroundings == same
    moved: set[int] = set()
    for before, after in zip(program.instructions.tolist(), words.tolist(), strict=True):
        (name, left), (other, right) = decode_one(TINY, *before), decode_one(TINY, *after)
        assert name == other
        assert {key for key in left if left[key] != right[key]} <= {"dram_base"}
        if "dram_base" in left:
            kind = "out" if name.startswith("STORE") else name.removeprefix("LOAD.").lower()
            size = TINY.element_bytes(kind)
            moved.add((right["dram_base"] - left["dram_base"]) % 2**32 * size)
    assert moved <= set(surroundings.origins)
    assert len(surroundings.counts) == len(COUNTERS) + 1


def test_places_reach_high_address_bits_and_stay_apart():
    program = random_program(TINY, 4)
    reached = 0
    for seed in range(40):
        _, surroundings = surround(TINY, program, seed)
        places = sorted(surroundings.origins)
        assert min(np.diff(places)) > len(program.image)
        for origin in places:
            reached |= (surroundings.base + origin) % 2**40
    assert reached >> 12 == 2**28 - 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_moved_program_runs_as_before(seed: int):
    program = random_program(TINY, seed)
    start = Launch(program=program, scratchpads=None, random_state=None, place=seed)
    assert run_both(TINY, start).differences == ()


def test_a_counter_that_starts_elsewhere_is_noticed():
    program = random_program(TINY, 1)
    plain = simulate_rtl(TINY, program.instructions, program.image)
    ahead = Surroundings(counts=(2**COUNTER_BITS - 3,) * (len(COUNTERS) + 1), manners=5)
    run = simulate_rtl(TINY, program.instructions, program.image, surroundings=ahead)
    assert run.counters == plain.counters
    assert run.registers["CYCLES"] == ((run.cycles - 3) % 2**COUNTER_BITS,) * 2
    with pytest.raises(RtlError, match="counts has 2 values"):
        simulate_rtl(TINY, program.instructions, program.image, surroundings=Surroundings(counts=(1, 2)))


def test_memory_that_is_elsewhere_is_not_found():
    program = random_program(TINY, 1)
    _, surroundings = surround(TINY, program, 1)
    with pytest.raises(RtlError, match="outside the program's"):
        simulate_rtl(TINY, program.instructions, program.image, surroundings=surroundings)


@pytest.mark.parametrize(
    "values", [{"base": 100}, {"base": 1 << 40}, {"origins": ()}, {"counts": (-1,)}, {"manners": -1}]
)
def test_impossible_surroundings_are_refused(values: dict):
    with pytest.raises(SurroundingsError):
        Surroundings(**values)
