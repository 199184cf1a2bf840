"""The tables of the array's modes and of the store pipeline's stages."""

from __future__ import annotations

import pytest

from vdla.isa.array_modes import ARRAY_REGISTERS, MODES, SWEEP_MODE, mode_of, modes_of
from vdla.isa.array_shape import ArrayShape
from vdla.isa.config import Config
from vdla.isa.extensions import EXTENSION_TABLE, EXTENSIONS
from vdla.isa.layout import EXTENSION_OF, MATRIX
from vdla.isa.registers import REGISTERS, register
from vdla.isa.store_stages import STORE_STAGES, cycles_before, stage_cycles
from vdla.isa.timing import post_latency

SQUARE = tuple(name for name in EXTENSIONS if name != "fold")
WIDE = Config(block_in=8, block_out=16, extensions=("post", "depthwise", "taps", "sweep"))
TALL = Config(block_in=32, block_out=8, extensions=("post", "depthwise", "taps", "sweep"))


def test_every_mode_has_an_instruction_and_an_extension() -> None:
    assert {mode.instruction for mode in MODES} == set(MATRIX)
    for mode in MODES:
        assert mode.extension is None or mode.extension in EXTENSION_TABLE
        if mode.register is None:
            assert EXTENSION_OF.get(mode.instruction) == mode.extension
        else:
            assert register(mode.register).extension == mode.extension
    assert all(item in REGISTERS for item in ARRAY_REGISTERS)


def test_a_register_selects_among_the_modes_of_an_instruction() -> None:
    off, on = ({"SWEEP": {"on": value}, "FOLD": {"shape": 1}} for value in (0, 1))
    assert [mode_of(name, off).name for name in ("GEMM", "DEPTHWISE", "TAPS")] == [
        "gemm",
        "depthwise",
        "taps",
    ]
    assert [mode_of(name, on).name for name in ("GEMM", "DEPTHWISE", "TAPS")] == [
        "gemm",
        "depthwise",
        "sweep",
    ]


@pytest.mark.parametrize(
    ("config", "vectors", "groups"),
    [
        (Config(extensions=SQUARE), (1, 1, 4, 4), (1, 1, 4, 16)),
        (WIDE, (1, 2, 8, 8), (1, 2, 8, 16)),
        (TALL, (1, 1, 4, 4), (1, 4, 16, 16)),
    ],
)
def test_vectors_read_and_rows_of_weights(
    config: Config, vectors: tuple[int, ...], groups: tuple[int, ...]
) -> None:
    assert tuple(mode.vectors(config) for mode in MODES) == vectors
    assert tuple(mode.group(config) for mode in MODES) == groups
    sweep = MODES[-1]
    assert sweep.operations(config) == SWEEP_MODE.operations(config)
    # A sweep's group has a row for each input vector that it multiplies, and a number for each part and "only hold".
    assert sweep.group(config) >= sweep.operations(config) * sweep.vectors(config)


def test_rows_of_parts_take_turns_except_in_sweeps() -> None:
    taps, sweep = MODES[2], MODES[3]
    assert [taps.row(TALL, place, 3) for place in range(3)] == [3, 7, 11]
    assert [sweep.row(TALL, place, 3) for place in range(3)] == [0, 1, 2]


def test_the_shape_of_the_array_follows_from_the_modes() -> None:
    plain = Config(extensions=())
    assert modes_of(plain) == MODES[:1]
    shape = ArrayShape.of(plain)
    assert (shape.by_lane, shape.banks, shape.fold_levels) == (False, 1, 0)
    assert (shape.factor_bits, shape.product_bits) == (8, 16)
    full = ArrayShape.of(Config(extensions=EXTENSIONS, folds=2))
    assert (full.by_lane, full.banks, full.fold_levels) == (True, 4, 1)
    assert (full.factor_bits, full.product_bits) == (9, 17)


def test_latency_of_stores_is_the_sum_of_the_stages() -> None:
    plain, full = Config(extensions=("post",)), Config(extensions=("post", "table", "rows"))
    assert (post_latency(plain), post_latency(full)) == (48, 48 + 11 + 2)
    assert (stage_cycles(plain, "rows"), stage_cycles(full, "rows")) == (0, 11)
    assert cycles_before(full, "combine") - cycles_before(plain, "combine") == 13
    assert {item.extension for item in STORE_STAGES} <= {None, *EXTENSION_TABLE}
