"""Tests the simulator of arrays with the extension `fold`, which have fewer columns than vectors have lanes. The tests
compare computed values with the reference interpreter, and check how often the accumulators' read port is used and how
many bits toggle in the array.
"""

import dataclasses

import numpy as np
import pytest
import slow_model

from vdla.isa.array_modes import SWEEP_MODE
from vdla.isa.assembler import assemble
from vdla.isa.config import Config, Memory, load_config
from vdla.isa.errors import ProgramError
from vdla.isa.layout import encode_uops
from vdla.isa.reference import run_reference
from vdla.isa.scratchpads import KINDS
from vdla.sim import simulate
from vdla.sim.statistics import operand_statistics

TINY = load_config("tiny")
UOPS, DATA = 0, 4096
PARTS = 12  # micro-ops


def machine(block: int, folds: int, batch: int = 1, **changes) -> Config:
    """A machine with an array of `block` rows and block / `folds` columns, on a bus that loads its vectors quickly.
    `changes`: further fields of the configuration.
    """
    return dataclasses.replace(
        TINY,
        name=f"{block}x{block // folds}",
        batch=batch,
        block_in=block,
        block_out=block,
        folds=folds,
        inp_buffer_bytes=32 * batch * block,
        wgt_buffer_bytes=32 * block * block // folds,
        acc_buffer_bytes=4 * 32 * batch * block,
        par_buffer_bytes=8 * block,
        extensions=("post", "depthwise", "taps", "sweep", "zero_points", "fold"),
        memory=Memory(bus_bytes=block, read_latency=1, write_latency=1),
        **changes,
    )


def image(config: Config, seed: int, tiles: np.ndarray | None = None) -> np.ndarray:
    """A memory image with PARTS micro-ops that use `tiles` (None: random ones of the first 16), and random data from
    DATA on.
    """
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 256, DATA + 40 * config.acc_bytes + 32 * config.wgt_bytes, dtype=np.uint8)
    columns = rng.integers(0, 4, PARTS), rng.integers(0, 8, PARTS), rng.integers(0, 16, PARTS)
    words = encode_uops(config, *columns[:2], columns[2] if tiles is None else tiles)
    memory[UOPS : UOPS + words.nbytes] = words.view(np.uint8)
    return memory


def loads(config: Config) -> str:
    """Assembly text that loads all micro-ops, input vectors and weight tiles, and then accumulators."""
    moved = (
        ("INP", config.inp_bytes, ""),
        ("WGT", config.wgt_bytes, "push_next"),
        ("ACC", config.acc_bytes, "pop_prev"),
    )
    return f"LOAD.UOP y_size=1 x_size={PARTS} x_stride={PARTS}\n" + "".join(
        f"LOAD.{kind} dram_base={DATA // size} y_size=1 x_size=32 x_stride=32 {tokens}\n"
        for kind, size, tokens in moved
    )


def check(config: Config, text: str, memory: np.ndarray) -> None:
    """Asserts that the simulator's values equal the reference's, and its cycles those of the slow model."""
    program = assemble(text, config)
    expected, found = run_reference(config, program, memory), simulate(config, program, memory)
    assert found.scratchpads is not None and found.memory is not None
    for kind in KINDS:
        np.testing.assert_array_equal(getattr(found.scratchpads, kind), getattr(expected, kind), kind)
    np.testing.assert_array_equal(found.memory, expected.memory)
    assert slow_model.run(slow_model.Model(config, program, memory)) == found.cycles
    assert simulate(config, program, memory, data=False).cycles == found.cycles


SHAPES = [
    (config, shape)
    for config in (machine(8, 2), machine(16, 4, 2), machine(32, 2), machine(64, 4, 2), machine(32, 8))
    for shape in range(config.folds.bit_length())
]


@pytest.mark.parametrize("overwrite", [0, 1])
@pytest.mark.parametrize(("config", "shape"), SHAPES, ids=lambda item: getattr(item, "name", item))
def test_parts_of_tiles(config: Config, shape: int, overwrite: int):
    """GEMMs with parts of weight tiles in any order, some repeated and some left out: values equal the reference's, and
    cycles the slow model's. Arrays have as many columns as the host's SIMD vectors have elements, or fewer. `shape`:
    value of the register FOLD; the array's rows work in 2^`shape` groups.
    """
    for zeros in ("", "CONFIG ZERO inp_zero=-7 wgt_zero=100\n"):
        text = (
            f"{loads(config)}CONFIG BASE acc_base=3 inp_base=2 wgt_base=5\n{zeros}CONFIG FOLD shape={shape}\n"
            f"GEMM uop_end={PARTS} iter_out=2 iter_in=3 dst_factor_out=5 src_factor_in=2 wgt_factor_out=3 "
            f"wgt_factor_in=1 overwrite={overwrite} push_next\n"
            "STORE.OUT dram_base=2 y_size=1 x_size=20 x_stride=20 pop_prev push_prev\nFINISH pop_next"
        )
        check(config, text, image(config, shape))


@pytest.mark.parametrize("config", [machine(16, 2), machine(32, 2, 2)], ids=lambda config: config.name)
@pytest.mark.parametrize("sweep", [0, 1])
@pytest.mark.parametrize("name", ["DEPTHWISE", "TAPS"])
def test_rows_of_weights_do_not_fold(config: Config, sweep: int, name: str):
    """The register FOLD has no effect on instructions that use rows of weights (`name`), in the array mode `sweep` or
    not; a tile has as many rows as a lane has multipliers.
    """
    text = (
        f"{loads(config)}CONFIG BASE acc_base=3 inp_base=2 wgt_base=3\nCONFIG FOLD shape=1\n"
        f"CONFIG ZERO inp_zero=-7 wgt_zero=100\nCONFIG SWEEP on={sweep}\n"
        f"{name} uop_end={PARTS} iter_out=2 iter_in=3 dst_factor_out=5 src_factor_in=2 wgt_factor_out=9 "
        "wgt_factor_in=4 overwrite=1\nFINISH"
    )
    check(config, text, image(config, 3))


def test_a_reset_looks_at_no_shape():
    config = machine(16, 2)
    text = f"{loads(config)}CONFIG FOLD shape=1\nGEMM uop_end=3 iter_out=1 iter_in=2 dst_factor_in=1 reset=1\nFINISH"
    check(config, text, image(config, 4))


@pytest.mark.parametrize(
    ("fields", "refused"), [("uop_end=1", True), ("uop_end=1 reset=1", False), ("", False)]
)
def test_more_groups_than_folds(fields: str, refused: bool):
    """Simulator and reference refuse a GEMM with the fields `fields`, because FOLD selects too many groups, exactly if
    `refused`: not if the GEMM has no operations or only resets accumulators.
    """
    config = machine(16, 2)
    program = assemble(f"CONFIG FOLD shape=2\nGEMM {fields} iter_out=1 iter_in=1\nFINISH", config)
    memory = np.zeros(4096, np.uint8)
    if not refused:
        run_reference(config, program, memory)
        simulate(config, program, memory)
        operand_statistics(config, program, memory)
        return
    for run in (run_reference, simulate, operand_statistics):
        with pytest.raises(ProgramError, match="instruction 1"):
            run(config, program, memory)


# --- time -----------------------------------------------------------------------------------------------


def store_cycles(config: Config, shape: int, tiles: list[int], fields: str) -> int:
    """Duration in cycles of a store that competes with a long GEMM for the same bank of accumulators. `shape`: value of
    the register FOLD; `tiles`: weight tiles that the GEMM's micro-ops use; `fields`: further fields of the GEMM, as
    assembly text.
    """
    text = (
        f"{loads(config)}CONFIG FOLD shape={shape}\n"
        "GEMM uop_end=1 iter_out=1 iter_in=1 overwrite=1 push_next\n"
        f"GEMM uop_end={PARTS} iter_out=2 iter_in=10 {fields}\n"
        "STORE.OUT sram_base=8 dram_base=64 y_size=1 x_size=8 x_stride=8 pop_prev push_prev\nFINISH pop_next"
    )
    memory = image(config, 1, np.resize(tiles, PARTS))
    check(config, text, memory)
    result = simulate(config, assemble(text, config), memory)
    store = len(result.end) - 2
    return int(result.end[store] - result.begin[store])


def test_parts_behind_the_first_read_accumulators():
    """A store waits while operations read its bank of accumulators. An operation reads accumulators if its mode
    accumulates, or if its part of the inputs is not the first.
    """
    config = machine(16, 4, acc_banks=1)
    waits = store_cycles(config, 0, [0], "")
    free = store_cycles(config, 0, [3], "overwrite=1")
    assert waits > free + 100
    assert store_cycles(config, 1, [0, 2], "overwrite=1") == free
    assert store_cycles(config, 2, [0, 4], "overwrite=1") == free
    assert store_cycles(config, 1, [1, 3], "overwrite=1") == waits
    assert store_cycles(config, 2, [2, 3], "overwrite=1") == waits
    assert store_cycles(config, 2, [1, 3], "reset=1 overwrite=1") == free
    # One operation in four leaves the port to it.
    between = store_cycles(config, 2, [0, 1, 2, 3], "overwrite=1")
    assert free < between < waits
    # Loops go from part to part as well.
    assert store_cycles(config, 1, [0, 2], "overwrite=1 wgt_factor_in=2") == free
    assert free < store_cycles(config, 1, [0, 2], "overwrite=1 wgt_factor_in=1") < waits


@pytest.mark.parametrize("banks", [1, 2])
@pytest.mark.parametrize("step", [1, 3])
def test_ports_of_mixed_operations(banks: int, step: int):
    """GEMMs that accumulate and GEMMs that overwrite share the ports of the accumulator banks. Values and cycles are
    right, whether micro-ops or the inner loop, which goes `step` parts further each time, select the parts of a tile.
    """
    config = machine(16, 4, acc_banks=banks)
    text = (
        f"{loads(config)}CONFIG BASE wgt_base={step}\nCONFIG FOLD shape=1\n"
        "GEMM uop_end=1 iter_out=1 iter_in=1 overwrite=1 push_next\n"
        f"GEMM uop_end={PARTS} iter_out=3 iter_in=5 dst_factor_in=4 wgt_factor_in={step} overwrite=1 push_next\n"
        "GEMM uop_bgn=2 uop_end=9 iter_out=2 iter_in=9 dst_factor_in=3 wgt_factor_out=1\n"
        "STORE.OUT sram_base=25 dram_base=64 y_size=1 x_size=7 x_stride=7 pop_prev\n"
        "STORE.OUT sram_base=0 dram_base=96 y_size=2 x_size=4 x_stride=5 pop_prev push_prev\nFINISH pop_next"
    )
    check(config, text, image(config, 2))


# --- what switches --------------------------------------------------------------------------------------


def _changes(now: np.ndarray, before: np.ndarray, bits: int) -> int:
    mask = (1 << bits) - 1
    return sum(((int(a) ^ int(b)) & mask).bit_count() for a, b in zip(now.flat, before.flat, strict=True))


def _tree(rows: np.ndarray, tile: np.ndarray, folds: int, groups: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """The products [columns][inputs] of an operation with the inputs `rows` and the weights `tile`, and the sums at
    every level of the adder tree, each [columns][sums]; the last level has the sums of all lanes. An array with a
    `folds`-th as many columns as rows; its rows work in `groups` groups.
    """
    products = tile * rows
    sums, level = [], products
    while level.shape[1] > folds:
        level = level[:, 0::2] + level[:, 1::2]
        sums.append(level)
    apart = level.shape[1]
    while apart > 1:
        if apart > groups:
            level = np.tile(level[:, 0:apart:2] + level[:, 1:apart:2], (1, 2 * folds // apart))
        apart //= 2
        sums.append(level)
    return products, sums


@pytest.mark.parametrize("overwrite", [0, 1])
@pytest.mark.parametrize("shape", [0, 1, 2])
def test_bits_that_change(shape: int, overwrite: int):
    """Changing operand bits of an array whose rows work in 2^`shape` groups: every row holds the input element of its
    group of lanes, all lanes get a sum, and the last levels of the adder tree keep the groups' sums separate.
    """
    config, groups = machine(16, 4), 1 << shape
    tiles = np.array([0, 1, 2, 3, 3, 6, 5, 4, 9, 12, 0, 7])
    memory = image(config, 5, tiles)
    rng = np.random.default_rng(5)
    memory[DATA : DATA + 32 * 64].view(np.int32)[:] = rng.integers(-(1 << 20), 1 << 20, 512)
    program = assemble(
        f"{loads(config)}CONFIG FOLD shape={shape}\nGEMM uop_end={PARTS} iter_out=1 iter_in=1 overwrite={overwrite}\n"
        "FINISH",
        config,
    )
    start = assemble(f"{loads(config)}FINISH", config)
    pads = run_reference(config, start, memory)
    acc, size = pads.acc[:, 0].astype(np.int64), 16 // groups
    rows, tile = np.zeros(16, np.int64), np.zeros((4, 16), np.int64)
    read = written = np.zeros(16, np.int64)
    products, sums = _tree(rows, tile, 4, groups)
    names = ("inputs", "weights", "products", "sums", "results", "reads")
    expected = dict.fromkeys(names, 0)
    for word, w in zip(pads.uop[:PARTS].tolist(), tiles.tolist(), strict=True):
        bits = config.acc_index_bits
        d, s = word & (1 << bits) - 1, word >> bits & (1 << config.inp_index_bits) - 1
        q, o = w % 4 % groups, w % 4 // groups
        new_rows = np.tile(pads.inp[s, 0, q * size : (q + 1) * size].astype(np.int64), groups)
        new_tile = pads.wgt[w].astype(np.int64)
        new_products, new_sums = _tree(new_rows, new_tile, 4, groups)
        expected["inputs"] += _changes(new_rows, rows, 8)
        expected["weights"] += _changes(new_tile, tile, 8)
        expected["products"] += _changes(new_products, products, 16)
        expected["sums"] += sum(_changes(a, b, 24) for a, b in zip(new_sums, sums, strict=True))
        rows, tile, products, sums = new_rows, new_tile, new_products, new_sums
        lanes = sums[-1].T.reshape(-1)
        if not overwrite or q:
            expected["reads"] += _changes(acc[d], read, 32)
            read = acc[d].copy()
            lanes = lanes + acc[d]
        expected["results"] += _changes(lanes, written, 32)
        written = lanes
        acc[d, o * groups * 4 : (o + 1) * groups * 4] = lanes[o * groups * 4 : (o + 1) * groups * 4]
    np.testing.assert_array_equal(acc, run_reference(config, program, memory).acc[:, 0])
    found = operand_statistics(config, program, memory).changes
    assert {name: found[name] for name in names} == expected


@pytest.mark.parametrize(("name", "sweep"), [("DEPTHWISE", 0), ("TAPS", 0), ("TAPS", 1)])
def test_lanes_that_share_a_row_of_the_array(name: str, sweep: int):
    """The statistics of changing bits are right if several lanes share a row of the array (extension `fold`). Exactly
    one operation of the program makes sums. In the array mode `sweep` there is an operation before it, which only keeps
    its input vector in the array.
    """
    config = machine(16, 2)
    group = SWEEP_MODE.group(config) if sweep else 4
    memory = image(config, 6, np.resize([group // 2 if sweep else 0, 0], PARTS))
    program = assemble(
        f"{loads(config)}CONFIG BASE wgt_base=2\nCONFIG FOLD shape=1\nCONFIG ZERO inp_zero=3 wgt_zero=9\n"
        f"CONFIG SWEEP on={sweep}\n{name} uop_bgn={1 - sweep} uop_end=2 iter_out=1 iter_in=1 overwrite=1\nFINISH",
        config,
    )
    final = run_reference(config, program, memory)
    lanes = final.acc[int(final.uop[1]) & (1 << config.acc_index_bits) - 1]
    found = operand_statistics(config, program, memory)
    assert found.changes["results"] == _changes(lanes, np.zeros_like(lanes), 32) > 0
    assert found.changes["reads"] == 0
    # Positions are counted one by one, those that are held as well.
    assert found.operations == {"DEPTHWISE": 1, "TAPS": 4}[name] * (1 + sweep) * (
        SWEEP_MODE.operations(config) if sweep else 1
    )
