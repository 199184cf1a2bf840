from collections import Counter

import numpy as np
import pytest
from vdla.isa.config import load_config
from vdla.isa.layout import format_names
from vdla.isa.program import to_bytes
from vdla.isa.reference import run_reference
from vdla.verify.random_programs import random_config, random_program


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


def test_random_machines_differ():
    assert len({random_config(seed).digest for seed in range(20)}) == 20
