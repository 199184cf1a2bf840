"""Operands of STORE.POST with their own stride, or repeated along a row: all engines agree, wrong uses are refused."""

import dataclasses

import numpy as np
import pytest

from vdla.codesign.report.traffic import find_runs
from vdla.isa.arithmetic import combine_multiply
from vdla.isa.assembler import assemble
from vdla.isa.check import check
from vdla.isa.config import load_config
from vdla.isa.errors import ConfigError, ProgramError
from vdla.isa.reference import run_reference
from vdla.sim import simulate

TINY = load_config("tiny")
BROADCAST = dataclasses.replace(TINY, extensions=(*TINY.extensions, "broadcast"))
ROWS, COLUMNS = 3, 4
STORE = f"y_size={ROWS} x_size={COLUMNS} x_stride=6 combine=1 operand=1 multiply=1"


def image() -> np.ndarray:
    data = np.random.default_rng(8).integers(0, 256, 16384, dtype=np.uint8)
    table = data[4096 : 4096 + TINY.par_bytes]
    table[: 4 * TINY.block_out] = 0
    table[4 * TINY.block_out :].view("<f4")[:] = 1
    return data


def problems(text: str, config=BROADCAST) -> list[str]:
    return [
        f"{item.kind}: {item.message}" for item in check(config, assemble(text + "\nFINISH", config), image())
    ]


@pytest.mark.parametrize(
    ("fields", "places"),
    [
        ("own_stride=1 stride=1 repeat=1", [[y] * COLUMNS for y in range(ROWS)]),
        ("own_stride=1 stride=5 repeat=1", [[5 * y] * COLUMNS for y in range(ROWS)]),
        ("own_stride=1", [list(range(COLUMNS)) for _ in range(ROWS)]),
        ("own_stride=1 stride=4", [[4 * y + x for x in range(COLUMNS)] for y in range(ROWS)]),
        ("repeat=1", [[6 * y] * COLUMNS for y in range(ROWS)]),
    ],
    ids=["gate", "far gate", "mask", "touching rows", "repeated"],
)
def test_rows_share_or_repeat_their_operands(fields: str, places: list[list[int]]):
    memory = image()
    text = (
        "LOAD.ACC8 dram_base=2048 y_size=1 x_size=12 x_stride=12 push_next\n"
        f"LOAD.PAR dram_base={4096 // TINY.par_bytes} y_size=1 x_size=1 x_stride=1\n"
        "CONFIG REQUANTIZE low=-128 high=127 operand_zero_point=5\n"
        "CONFIG RATIO ratio_self=0.02\n"
        "CONFIG COMBINE low=-128 high=127\n"
        f"CONFIG ADDRESS x_stride=1 y_stride={COLUMNS}\n"
        f"CONFIG OPERAND delta=-1000 {fields}\n"
        f"STORE.POST dram_base=3500 {STORE} pop_prev\n"
    )
    words = assemble(text + "FINISH", BROADCAST)
    assert check(BROADCAST, words, memory) == []
    result = run_reference(BROADCAST, words, memory)
    inputs = memory[8192:8240].view(np.int8).reshape(ROWS, COLUMNS, 4)
    vectors = memory.view(np.int8).reshape(-1, 4)
    wanted = combine_multiply(inputs, vectors[2500 + np.array(places)], (0, 5), np.float32(0.02), 0, False)
    outputs = 3500 + 6 * np.arange(ROWS)[:, None] + np.arange(COLUMNS)
    np.testing.assert_array_equal(result.memory.view(np.int8).reshape(-1, 4)[outputs], wanted)
    simulated = simulate(BROADCAST, words, memory)
    assert simulated.memory is not None
    np.testing.assert_array_equal(simulated.memory, result.memory)
    # One operand of a row is read once.
    read = ROWS * (1 if "repeat" in fields else COLUMNS) * TINY.out_bytes
    assert simulated.traffic["operand"].bytes == read
    runs = find_runs(BROADCAST, words, 1 << 20)
    assert runs.length[runs.kind == 6].sum() == read


# --- refusals -------------------------------------------------------------------------------------------


def test_machines_without_it_refuse_the_register_by_name():
    text = "CONFIG OPERAND delta=3 repeat=1"
    (found,) = problems(text, TINY)
    assert "sets more of OPERAND than delta, which needs the extension 'broadcast'" in found
    assert problems("CONFIG OPERAND delta=-3", TINY) == []
    for engine in (run_reference, simulate):
        with pytest.raises(ProgramError, match="'broadcast'"):
            engine(TINY, assemble(text + "\nFINISH", TINY), image())
    with pytest.raises(ConfigError, match="broadcast is a part of the post-processing store"):
        dataclasses.replace(TINY, extensions=("broadcast",))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("delta=-1 repeat=1", ""),
        ("delta=0 repeat=1", "reads vectors that this instruction writes"),
        ("delta=3 repeat=1", ""),
        ("delta=6 own_stride=1", "reads vectors that this instruction writes"),
        ("delta=18 own_stride=1 repeat=1", ""),
        ("delta=4090 own_stride=1 stride=6", "reads DRAM bytes 16364..16428"),
        ("delta=4090 own_stride=1 stride=1 repeat=1", ""),
    ],
)
def test_operands_that_the_store_itself_writes_and_bounds(fields: str, message: str):
    found = problems(f"CONFIG OPERAND {fields}\nSTORE.POST dram_base=1 {STORE}")
    assert (found == []) == (message == "") and all(message in line for line in found)
