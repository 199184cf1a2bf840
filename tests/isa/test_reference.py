import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from vdla.isa.config import load_config
from vdla.isa.reference import run_reference

VECTORS = sorted((Path(__file__).parent / "vectors").glob("vta_*.json"))


def vector_memory(vector: dict) -> np.ndarray:
    memory = np.random.default_rng(vector["seed"] + 10**6).integers(0, 256, vector["size"], dtype=np.uint8)
    memory[:4096] = np.frombuffer(bytes.fromhex(vector["uop_hex"]), np.uint8)
    return memory


def vector_instructions(vector: dict) -> np.ndarray:
    words = [(int(line[16:], 16), int(line[:16], 16)) for line in vector["insns"]]
    return np.array(words, np.uint64)


def test_there_are_eight_programs_of_vtas_simulator():
    assert len(VECTORS) == 8


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_programs_made_with_vtas_simulator_come_out_byte_for_byte(path):
    vector = json.loads(path.read_text())
    result = run_reference(load_config("vta"), vector_instructions(vector), vector_memory(vector))
    expected = bytes.fromhex(vector["out_hex"])
    assert result.memory[vector["out_lo"] :][: len(expected)].tobytes() == expected
    assert hashlib.sha256(result.memory.tobytes()).hexdigest() == vector["sha256"]
    assert result.executed == len(vector["insns"])
