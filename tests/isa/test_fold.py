"""Arrays that fold (extension `fold`): GEMM with parts of a tile, and rules of configurations, programs and checker."""

import dataclasses

import numpy as np
import pytest

from vdla.isa.array_modes import SWEEP_MODE
from vdla.isa.assembler import assemble
from vdla.isa.check import check
from vdla.isa.config import Config
from vdla.isa.errors import ConfigError, ProgramError
from vdla.isa.extensions import DEFAULT_EXTENSIONS
from vdla.isa.layout import encode_uops
from vdla.isa.reference import ReferenceResult, run_reference

BATCH, BLOCK = 2, 16
UNFOLDED = Config(
    name="unfolded",
    batch=BATCH,
    block_in=BLOCK,
    block_out=BLOCK,
    extensions=(*DEFAULT_EXTENSIONS, "zero_points"),
)


def folded(folds: int, *extensions: str) -> Config:
    """The configuration UNFOLDED with an array of only BLOCK / `folds` columns."""
    return dataclasses.replace(
        UNFOLDED, name=f"{folds} folds", folds=folds, extensions=(*UNFOLDED.extensions, "fold", *extensions)
    )


def run(text: str, memory: np.ndarray, config: Config) -> ReferenceResult:
    return run_reference(config, assemble(text + "\nFINISH", config), memory)


def part_of_tile(tile: np.ndarray, folds: int, groups: int, part: int) -> np.ndarray:
    """Part number `part` of the whole weight tile `tile` (lanes, inputs), as an array of BLOCK / `folds` columns, whose
    rows work in `groups` groups, multiplies it in one operation (extension `fold`). Returns weights of shape (columns,
    BLOCK): each row has the weights of one column for the first group, then for the second, and so on.
    """
    columns, size = BLOCK // folds, BLOCK // groups
    lanes, inputs = divmod(part, groups)
    mine = tile[
        lanes * groups * columns : (lanes + 1) * groups * columns, inputs * size : (inputs + 1) * size
    ]
    return mine.reshape(groups, columns, size).transpose(1, 0, 2).reshape(columns, BLOCK)


@pytest.mark.parametrize("overwrite", [0, 1])
@pytest.mark.parametrize(("folds", "shape"), [(2, 0), (2, 1), (4, 0), (4, 1), (4, 2)])
def test_all_parts_of_a_tile_are_the_whole_tile(folds, shape, overwrite):
    """GEMMs with the parts of two weight tiles give the sums of plain matrix products; a part that is left out
    contributes nothing. The array has BLOCK / `folds` columns, whose rows work in 2^`shape` groups.
    """
    config, rng = folded(folds), np.random.default_rng(folds * 10 + shape)
    memory = np.zeros(16384, np.uint8)
    tiles = rng.integers(-128, 128, (2, BLOCK, BLOCK)).astype(np.int8)
    parts = [part_of_tile(tile, folds, 1 << shape, part) for tile in tiles for part in range(folds)]
    memory[4096 : 4096 + tiles.nbytes] = np.stack(parts).view(np.uint8).reshape(-1)
    inputs = rng.integers(-128, 128, (4, BATCH, BLOCK)).astype(np.int8)
    memory[8192 : 8192 + inputs.nbytes] = inputs.view(np.uint8).reshape(-1)
    before = rng.integers(-1000, 1000, (4, BATCH, BLOCK)).astype(np.int32)
    memory[12288 : 12288 + before.nbytes] = before.view(np.uint8).reshape(-1)
    groups = 1 << shape
    left_out = folds // groups - 1  # the last part of the lanes, of the second tile
    kept = [p for p in range(2 * folds) if p < folds or p % folds // groups != left_out or left_out == 0]
    destinations, sources = [1 + p // folds for p in kept], [2 + p // folds for p in kept]
    words = encode_uops(config, np.array(destinations), np.array(sources), np.array(kept))
    memory[: words.nbytes] = words.view(np.uint8)
    text = (
        f"LOAD.UOP y_size=1 x_size={len(kept)} x_stride={len(kept)}\n"
        f"LOAD.WGT sram_base={folds} dram_base={4096 // config.wgt_bytes} y_size=1 x_size={2 * folds} x_stride=99\n"
        f"LOAD.INP dram_base={8192 // config.inp_bytes} y_size=1 x_size=4 x_stride=4\n"
        f"LOAD.ACC dram_base={12288 // config.acc_bytes} y_size=1 x_size=4 x_stride=4\n"
        f"CONFIG BASE wgt_base={folds}\nCONFIG ZERO inp_zero=3 wgt_zero=-2\nCONFIG FOLD shape={shape}\n"
        f"GEMM uop_end={len(kept)} iter_out=1 iter_in=1 overwrite={overwrite}"
    )
    result = run(text, memory, config)
    expected = before.astype(np.int64)
    for number, tile in enumerate(tiles):
        product = (inputs[2 + number].astype(np.int64) - 3) @ (tile.astype(np.int64) + 2).T
        lanes = BLOCK if number == 0 or left_out == 0 else left_out * groups * (BLOCK // folds)
        start = 0 if overwrite else expected[1 + number][:, :lanes]
        expected[1 + number][:, :lanes] = start + product[:, :lanes]
    assert np.array_equal(result.acc[:4], expected.astype(np.int32))


def test_reset_clears_all_lanes():
    config = folded(4)
    memory = np.full(4096, 1, np.uint8)
    words = encode_uops(config, np.array([2]), np.array([0]), np.array([1]))
    memory[: words.nbytes] = words.view(np.uint8)
    text = (
        "LOAD.UOP y_size=1 x_size=1 x_stride=1\nLOAD.ACC dram_base=4 y_size=1 x_size=4 x_stride=4\n"
        "GEMM uop_end=1 iter_out=1 iter_in=1 reset=1"
    )
    result = run(text, memory, config)
    assert not result.acc[2].any()
    assert result.acc[3].all()


def test_rows_of_weights_are_those_of_a_machine_that_does_not_fold():
    """TAPS in the array mode `sweep` gives the same accumulators on an array with the extension `fold` and on one
    without. With `fold`, a weight tile has fewer rows. So the rows of weights of one operation belong to more tiles.
    """
    rng = np.random.default_rng(5)
    memory = rng.integers(0, 256, 65536, dtype=np.uint8)
    results = []
    more = ("taps", "sweep")
    for config in (folded(2, *more), dataclasses.replace(UNFOLDED, extensions=(*UNFOLDED.extensions, *more))):
        rows = SWEEP_MODE.group(config)
        words = encode_uops(config, np.arange(3), np.arange(3) * 4, np.full(3, rows * (16 // rows)))
        memory[: words.nbytes] = words.view(np.uint8)
        size = 1024 // config.wgt_bytes
        text = (
            "LOAD.UOP y_size=1 x_size=3 x_stride=3\nLOAD.INP dram_base=7 y_size=1 x_size=32 x_stride=32\n"
            f"LOAD.WGT dram_base={size} y_size=1 x_size={size} x_stride={size}\n"
            "TAPS uop_end=3 iter_out=1 iter_in=1"
        )
        results.append(run(text, memory, config).acc)
    assert SWEEP_MODE.operations(folded(2, *more)) == 2
    assert np.array_equal(*results)


def test_array_and_tile_have_the_columns_that_are_left():
    config = folded(4)
    assert (config.columns, config.wgt_bytes, config.tile_rows) == (4, 64, 4)
    assert config.multiplies_per_cycle == UNFOLDED.multiplies_per_cycle // 4
    assert config.wgt_depth == 4 * UNFOLDED.wgt_depth
    assert (UNFOLDED.columns, UNFOLDED.tile_parts) == (BLOCK, 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"block_in": 32, "extensions": ("fold",)}, "fold needs block_in = block_out, here 32 and 16"),
        ({"block_in": 8, "extensions": ("fold",)}, "here 8 and 16; make them equal, or leave"),
        ({"block_in": 64, "extensions": ("fold",)}, "use block_out = 64 and folds = 4, or leave"),
        ({"folds": 8}, "folds = 8: leaves fewer than 4 of the 16 columns; use at most 4"),
        ({"wgt_buffer_bytes": 128, "folds": 4}, "at least 4 tiles of 64 bytes.*use 256"),
        ({"folds": 3}, "folds = 3: must be a power of two"),
    ],
)
def test_configurations_that_cannot_fold(values, message):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(folded(2), **values)


def test_shape_beyond_the_folds_is_refused():
    config, memory = folded(2), np.zeros(4096, np.uint8)
    program = assemble("CONFIG FOLD shape=2\nGEMM uop_end=1 iter_out=1 iter_in=1\nFINISH", config)
    (finding,) = [item for item in check(config, program, memory) if item.severity == "error"]
    assert "shape = 2 means 4 groups, but at most 2 are possible" in finding.message
    with pytest.raises(ProgramError, match=r"register FOLD.shape leads to shape 2"):
        run_reference(config, program, memory)


def test_a_machine_that_does_not_fold_has_no_shape():
    program = assemble("CONFIG FOLD shape=1\nFINISH", UNFOLDED)
    errors = [item.message for item in check(UNFOLDED, program, np.zeros(64, np.uint8))]
    assert any("needs the extension 'fold'" in message for message in errors)
