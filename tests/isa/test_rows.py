"""Extension `rows`: statistics of rows (instruction ROWS), and stores that apply softmax or normalization with them
(STORE.POST with `rows`).
"""

import dataclasses

import numpy as np
import pytest

from vdla.isa.assembler import assemble
from vdla.isa.check import check
from vdla.isa.config import Config, load_config
from vdla.isa.data_path import blocks
from vdla.isa.errors import ConfigError, ProgramError
from vdla.isa.layout import formats
from vdla.isa.reference import run_reference
from vdla.isa.rows import (
    FRACTION_BITS,
    apply,
    difference,
    exponentials,
    normalized_shares,
    radicand,
    reciprocal,
    reciprocal_root,
    softmax_shares,
)
from vdla.isa.scratchpads import scratchpad_sizes
from vdla.sim import simulate

TINY = load_config("tiny")
ROWS = dataclasses.replace(
    TINY, extensions=(*TINY.extensions, "table", "broadcast", "rows"), row_entries=8, acc_buffer_bytes=2048
)
BLOCKS, POSITIONS, N = 6, 5, 24
DATA, PLANES, PARAMETERS, OUTPUTS = 8192, 1024, 4096, 14000


def image(config: Config, x: np.ndarray, table: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """The DRAM image with the data `x`, int8 (BLOCKS, POSITIONS, lanes), the table of exponentials, and a parameter
    entry for each block.
    """
    memory = np.zeros(16384, np.uint8)
    memory[DATA : DATA + x.size] = x.reshape(-1).view(np.uint8)
    for plane in range(3):
        memory[PLANES + 256 * plane : PLANES + 256 * (plane + 1)] = table >> 8 * plane & 255
    memory[PARAMETERS : PARAMETERS + 4 * parameters.size] = parameters.reshape(-1).view(np.uint8)
    return memory


def program(config: Config, statistics: str, registers: str) -> str:
    shape = f"y_size={BLOCKS} x_size={POSITIONS}"
    return (
        f"LOAD.ACC8 dram_base={DATA // config.out_bytes} {shape} x_stride={POSITIONS} push_next\n"
        f"LOAD.TABLE sram_base={config.tables} dram_base={PLANES // 256} y_size=1 x_size=3 x_stride=3\n"
        f"LOAD.PAR dram_base={PARAMETERS // config.par_bytes} y_size=1 x_size={BLOCKS} x_stride={BLOCKS}\n"
        f"CONFIG ADDRESS y_stride={POSITIONS} x_stride=1\n"
        f"CONFIG ROWS first=2 {registers}\n"
        "CONFIG REQUANTIZE low=-128 high=127 zero_point=-7\n"
        + "".join(f"ROWS {shape} {line}\n" for line in statistics.splitlines())
        + f"STORE.POST dram_base={OUTPUTS // config.out_bytes} {shape} x_stride={POSITIONS} par_by_y=1 rows=1\nFINISH"
    )


def run(config: Config, text: str, memory: np.ndarray) -> np.ndarray:
    """Runs the assembly program `text` on the machine `config` with the memory contents `memory`. Asserts that
    reference and simulator agree. Returns the results that the program stored: int8 (BLOCKS, POSITIONS, lanes).
    """
    words = assemble(text, config)
    assert check(config, words, memory) == []
    result = run_reference(config, words, memory)
    simulated = simulate(config, words, memory)
    assert simulated.memory is not None and simulated.scratchpads is not None
    np.testing.assert_array_equal(simulated.memory, result.memory)
    np.testing.assert_array_equal(simulated.scratchpads.rows, result.rows)
    stored = result.memory[OUTPUTS : OUTPUTS + BLOCKS * POSITIONS * config.out_bytes]
    return stored.view(np.int8).reshape(BLOCKS, POSITIONS, config.block_out)


def padded(x: np.ndarray, valid: int) -> np.ndarray:
    """Converts `x` [BLOCKS, POSITIONS, lanes] to one row of elements for each position. The last block uses only its
    first `valid` lanes; the other lanes are left out.
    """
    rows = x.transpose(1, 0, 2).reshape(POSITIONS, -1)
    return rows[:, : rows.shape[1] - x.shape[2] + valid]


def parameters(bias: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The parameter entries of `bias` and `scale`, each (BLOCKS, lanes), as uint32 (BLOCKS, 2, lanes)."""
    return np.stack([bias.astype(np.int32).view(np.uint32), scale.astype(np.float32).view(np.uint32)], 1)


@pytest.mark.parametrize("lanes", [None, 2])
def test_softmax_of_every_position(lanes: int | None):
    config = dataclasses.replace(ROWS, post_lanes=lanes)
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (BLOCKS, POSITIONS, 4), np.int8)
    scale = 0.05
    table = np.rint((2**24 - 1) * np.exp(scale * -((-np.arange(256)) % 256))).astype(np.int64)
    entries = parameters(np.zeros((BLOCKS, 4)), np.full((BLOCKS, 4), 256 / 2**FRACTION_BITS))
    out = run(config, program(config, "maximum=1 pop_prev\n ", "look_up=1"), image(config, x, table, entries))
    rows = x.astype(np.float64).transpose(1, 0, 2).reshape(POSITIONS, N)
    exact = np.exp(scale * (rows - rows.max(1, keepdims=True)))
    exact *= 256 / exact.sum(1, keepdims=True)
    expected = np.clip(np.rint(exact) - 7, -128, 127).reshape(POSITIONS, BLOCKS, 4).transpose(1, 0, 2)
    assert (out == expected).mean() > 0.98 and np.abs(out - expected).max() <= 1
    assert len(np.unique(out)) > 10


@pytest.mark.parametrize("centre", [0, 1])
def test_normalization_of_every_position(centre: int):
    """LayerNormalization (`centre`) and RMSNormalization of rows are right, with a gain of any sign and an offset for
    each channel.
    """
    rng = np.random.default_rng(2)
    x = rng.integers(-60, 128, (BLOCKS, POSITIONS, 4), np.int8)
    gain, offset = rng.normal(0, 20, (2, BLOCKS, 4))
    zero, epsilon = 11, 1e-2
    fraction = gain / 2**FRACTION_BITS
    entries = parameters(np.rint(offset / fraction), fraction)
    # Both are as many times larger than the mean of squares.
    whole = round(epsilon * N * N)
    text = program(ROWS, " pop_prev", f"centre={centre} length={N} zero_point={zero} epsilon={whole}")
    out = run(ROWS, text, image(ROWS, x, np.zeros(256, np.int64), entries))
    d = x.astype(np.float64) - zero
    mean = d.mean((0, 2), keepdims=True) * centre
    root = np.sqrt(((d - mean) ** 2).mean((0, 2), keepdims=True) + epsilon)
    expected = np.clip(np.rint((d - mean) / root * gain[:, None] + offset[:, None]) - 7, -128, 127)
    assert (out == expected).mean() > 0.97 and np.abs(out - expected).max() <= 1


@pytest.mark.parametrize("lanes", [None, 1])
@pytest.mark.parametrize("valid", [1, 3])
def test_spare_lanes_of_the_last_vector_take_no_part(valid: int, lanes: int | None):
    config = dataclasses.replace(ROWS, post_lanes=lanes)
    rng = np.random.default_rng(3)
    x = rng.integers(-128, 40, (BLOCKS, POSITIONS, 4), np.int8)
    x[-1, :, valid:] = 127
    table = exponentials(0.04)
    entries = parameters(np.zeros((BLOCKS, 4)), np.full((BLOCKS, 4), 256 / 2**FRACTION_BITS))
    text = program(config, "maximum=1 pop_prev\n ", f"look_up=1 lanes={valid}")
    out = run(config, text, image(config, x, table, entries))
    rows = padded(x, valid)
    expected = np.clip(np.rint(softmax_shares(rows, table).astype(np.float32) / 256) - 7, -128, 127)
    np.testing.assert_array_equal(padded(out, valid), expected)
    # A product with a zero point of -7 sees zeros there.
    assert (out[-1, :, valid:] == -7).all()

    length = rows.shape[1]
    registers = f"centre=1 length={length} zero_point=5 epsilon=9 lanes={valid}"
    entries = parameters(np.zeros((BLOCKS, 4)), np.full((BLOCKS, 4), 40 / 2**FRACTION_BITS))
    out = run(config, program(config, " pop_prev", registers), image(config, x, table, entries))
    shares = normalized_shares(rows, 5, True, 9) * np.float32(40 / 2**FRACTION_BITS)
    np.testing.assert_array_equal(padded(out, valid), np.clip(np.rint(shares) - 7, -128, 127))
    assert (out[-1, :, valid:] == -7).all()


def test_factors_are_those_of_exact_numbers():
    rng = np.random.default_rng(0)
    for bits in (1, 8, 20, 37, 47):
        for total in [1 << bits - 1, (1 << bits) - 1, *rng.integers(1, 1 << bits, 20).tolist()]:
            w = np.array([1 << 22, -(1 << 20), 12345])
            root = apply(w, reciprocal_root(total)) * 2.0**-FRACTION_BITS
            exact = w / np.sqrt(total)
            fits = np.abs(exact) < 2**14
            assert np.all((np.abs(root - exact) <= np.abs(exact) * 2**-15.8 + 2.0**-17)[fits])
            if bits <= 37:
                share = apply(w, reciprocal(total)) * 2.0**-FRACTION_BITS
                exact = w / total
                fits = np.abs(exact) < 2**14
                assert np.all((np.abs(share - exact) <= np.abs(exact) * 2**-15.8 + 2.0**-17)[fits])
    assert reciprocal(0) == reciprocal(1) and reciprocal_root(0) == reciprocal_root(1)
    assert radicand(4, 3, 5, True, 0) == 0 and radicand(4, 3, 5, False, 2) == 14
    np.testing.assert_array_equal(
        difference(np.array([255, 256, -256, -257, 1 << 40]), 0), [255, -256, -256, 255, 0]
    )


def test_sizes_storage_and_bit_positions():
    assert scratchpad_sizes(ROWS)["rows"] == 64 and scratchpad_sizes(ROWS)["table"] == 5 * 256
    assert ROWS.extra_storage["table of rows"] == 3 * 256 * 4 and ROWS.extra_storage["entries of rows"] == 88
    (block,) = [item for item in blocks(ROWS) if item.name == "rows"]
    assert (block.lanes, block.multipliers) == (4, 8)
    assert (
        "row_entries" not in TINY.to_dict() and TINY.row_depth == 0 and "rows" not in scratchpad_sizes(TINY)
    )
    assert formats(TINY)["STORE.POST"].field("rows").low == 124


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extensions": ("post", "rows")}, "rows needs table; add 'table'"),
        ({"batch": 2}, "rows needs batch = 1, here 2"),
        ({"row_entries": 12}, "row_entries = 12: must be a power of two"),
    ],
)
def test_impossible_machines_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(ROWS, **changes)


@pytest.mark.parametrize(
    ("config", "text", "kind", "message"),
    [
        (TINY, "ROWS y_size=1 x_size=1", "extension", "needs the extension 'rows'"),
        (TINY, "STORE.POST rows=1", "extension", "rows = 1 needs the extension 'rows'"),
        (TINY, "CONFIG ROWS first=1", "extension", "needs the extension 'rows'"),
        (
            ROWS,
            "CONFIG ROWS first=6\nROWS y_size=1 x_size=3",
            "bounds",
            "ROWS.first leads to entry of rows 8",
        ),
        (
            ROWS,
            "STORE.POST y_size=1 x_size=9 x_stride=9 rows=1",
            "bounds",
            "ROWS.first leads to entry of rows 8",
        ),
        (ROWS, "ROWS y_size=2049 x_size=1", "bounds", "makes rows of 8196 elements; at most 8192"),
        (ROWS, "ROWS sram_base=127 y_size=1 x_size=2\n", "bounds", "leads to accumulator 128"),
    ],
)
def test_invalid_programs_are_refused(config, text, kind, message):
    if "127" in text:
        text = "CONFIG ADDRESS x_stride=1\n" + text
    words = assemble(text + "\nFINISH", config)
    memory = np.zeros(16384, np.uint8)
    (found,) = check(config, words, memory)
    assert found.kind == kind and message in found.message
    for engine in (run_reference, simulate):
        with pytest.raises(ProgramError):
            engine(config, words, memory)
