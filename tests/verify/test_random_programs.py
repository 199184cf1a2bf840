from collections import Counter

import numpy as np
import pytest

from vdla.isa.config import load_config
from vdla.isa.decoding import decode_one, format_names
from vdla.isa.program import Program
from vdla.isa.program_file import to_bytes
from vdla.isa.reference import run_reference
from vdla.isa.registers import REGISTERS
from vdla.verify.random_programs import random_config, random_program

FOLD = next(item for item in REGISTERS if item.name == "FOLD")


def decoded(program: Program) -> list[tuple[str, dict[str, int]]]:
    return [decode_one(program.config, *words) for words in program.instructions.tolist()]


def test_equal_seeds_give_equal_programs():
    config = random_config(3)
    assert to_bytes(random_program(config, 3)) == to_bytes(random_program(config, 3))
    assert to_bytes(random_program(config, 3)) != to_bytes(random_program(config, 4))


@pytest.mark.parametrize("name", ["vta", "tiny"])
def test_every_instruction_kind_appears_and_runs(name):
    config = load_config(name)
    kinds: Counter[str] = Counter()
    for seed in range(4):
        program = random_program(config, seed, length=80)
        kinds.update(format_names(program.instructions))
        result = run_reference(config, program.instructions, program.image)
        assert np.isfinite(result.par[:, 1].view(np.float32)).all()
    assert len(kinds) == 14 + config.has("taps") + config.has("table")


def test_programs_of_folding_machines_go_through_parts_of_tiles():
    """Machines with the extension `fold` multiply a weight tile part by part. In their random programs, more than 10%
    of the overwriting GEMMs go through the parts of a tile in the inner loop and add all products to the same
    accumulator. Register FOLD, which says in how many groups the array's rows work, takes every value above 0.
    """
    machines = [config for config in map(random_config, range(60)) if config.has("fold")]
    shapes, steps, through = set(), 0, 0
    for seed, config in enumerate(machines):
        for name, values in decoded(random_program(config, seed, length=60)):
            if name == "CONFIG" and (values["unit"], values["register"]) == (FOLD.unit, FOLD.index):
                shapes.add((config.folds, values["value"]))
            if name == "GEMM" and values["overwrite"]:
                steps += 1
                through += (
                    values["wgt_factor_in"] == 1 and values["iter_in"] > 1 and not values["dst_factor_in"]
                )
    assert {(2, 1), (4, 1), (4, 2)} <= shapes
    assert through > 0.1 * steps > 10


def test_random_machines_differ():
    assert len({random_config(seed).digest for seed in range(20)}) == 20
