"""The table of the array's modes, the ways in which it multiplies, and the extensions of the array.

Reference, checker, simulator, RTL, random programs, statistics and emission use the table; isa/README.md has the
formulas. An instruction selects a mode; if several modes share an instruction, a register selects among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .data_path import Block, Extension
from .errors import ConfigError
from .fields import Field, Register
from .opcodes import Opcode, Unit

if TYPE_CHECKING:
    from .config import Config

TAPS = 4
"""Number of positions, and of rows of weights, that a TAPS operation multiplies; also the number of banks of the
memories of input vectors.
"""

SWEPT = 4
"""Largest number of operations in a sweep whose positions are multiplied together (`swept`)."""

LEAST_COLUMNS = 4
"""Number of columns of the smallest array, with or without the extension `fold`."""


def swept(config: Config) -> int:
    """Number of operations in a sweep whose positions are multiplied together: SWEPT, unless a lane has too few
    multipliers.
    """
    return max(1, min(SWEPT, config.block_in // config.tile_parts // TAPS))


def sweep_rows(config: Config) -> int:
    """Distance, in rows of weights, from one group of a sweep to the next.

    A group has rows for `swept` x TAPS positions. The distance is at least 2 x `position_outputs`, so that a row number
    also encodes the part of an input vector and whether the operation only holds its positions.
    """
    return max(TAPS * swept(config) * config.position_inputs, 2 * config.position_outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayMode:
    """One way in which the array multiplies, an entry of MODES.

    `instruction`, `opcode`: the instruction of the mode. `register`: the compute unit's register whose field `on`
    selects the mode; None for the instruction's default mode. `extension`: the optional hardware of the mode, None if
    every machine has it.

    `by_lane`: lane j adds element j of a position times element j of a row of weights; otherwise lane j adds the dot
    product of a whole input vector and row j of the tile. `positions`: number of neighbouring positions that an
    operation reads. `holds`: an operation also multiplies the positions of the `operations` - 1 operations before it,
    which the array holds, or only holds its own positions and does not change the accumulators. `folds`: with the
    extension `fold`, register FOLD gives the number of groups of rows, and the low bits of a tile's index the part of a
    whole tile; other modes use the largest number of groups.
    """

    name: str
    instruction: str
    opcode: Opcode
    extension: str | None = None
    register: str | None = None
    by_lane: bool = True
    positions: int = 1
    holds: bool = False
    folds: bool = False

    def position_vectors(self, config: Config) -> int:
        """Number of input vectors in a position; the index of a position's first vector is a multiple of
        this number.
        """
        return config.position_inputs if self.by_lane else 1

    def vectors(self, config: Config) -> int:
        """Number of input vectors that an operation reads, neighbours in one memory."""
        return self.positions * self.position_vectors(config)

    def operations(self, config: Config) -> int:
        """Number of operations, the current one included, whose positions an operation multiplies."""
        return swept(config) if self.holds else 1

    def held(self, config: Config) -> tuple[int, int, int, int]:
        """Shape of the array of positions that a mode that `holds` multiplies, zeros at launch: [operations, the oldest
        first][positions][batch][block_out].
        """
        return self.operations(config), self.positions, config.batch, config.block_out

    def tile_weights(self, config: Config) -> int:
        """Number of weight indices in a tile: one for each row of weights if the mode is `by_lane`, else 1."""
        return config.tile_rows if self.by_lane else 1

    def group(self, config: Config) -> int:
        """Number of weight indices in a group: the rows of weights of an operation, for all parts of input vectors; a
        group begins at a multiple of this number.

        In a mode that `holds`, an index in the upper half of a group means that the operation only holds its positions.
        """
        if not self.by_lane:
            return 1
        if self.holds:
            return sweep_rows(config)
        return self.positions * config.position_inputs * config.position_outputs

    def row(self, config: Config, place: int, part: int) -> int:
        """Index within a group of the row of weights for input vector `place` of the multiplied positions. If an input
        vector fills the lanes several times, the row is the one for part `part` of the vector: rows of different parts
        alternate or, in a mode that `holds`, are in separate groups.
        """
        return place if self.holds else place * config.position_outputs + part


SWEEP_MODE = ArrayMode(
    name="sweep",
    instruction="TAPS",
    opcode=Opcode.TAPS,
    extension="sweep",
    register="SWEEP",
    positions=TAPS,
    holds=True,
)

MODES = (
    ArrayMode(name="gemm", instruction="GEMM", opcode=Opcode.GEMM, by_lane=False, folds=True),
    ArrayMode(name="depthwise", instruction="DEPTHWISE", opcode=Opcode.DEPTHWISE, extension="depthwise"),
    ArrayMode(name="taps", instruction="TAPS", opcode=Opcode.TAPS, extension="taps", positions=TAPS),
    SWEEP_MODE,
)
"""All modes. The first mode of an instruction is its default, without register."""


def modes_of(config: Config) -> tuple[ArrayMode, ...]:
    """The modes that the array of `config` has."""
    return tuple([mode for mode in MODES if mode.extension is None or config.has(mode.extension)])


def mode_of(instruction: str, registers: Mapping[str, Mapping[str, int]]) -> ArrayMode:
    """The mode of an instruction of the array; `registers`: the compute unit's registers, fields by name of the
    register.
    """
    return next(
        mode
        for mode in reversed(MODES)
        if mode.instruction == instruction and (mode.register is None or registers[mode.register]["on"])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayShape:
    """The hardware that all modes of a machine's array need together.

    `by_lane`: the array can multiply lane by lane. `positions`: largest number of positions that an operation reads.
    `holds`: the array holds positions for later operations. `zero_points`: factors are differences of int8 values, of 9
    bits. `fold_levels`: number of last levels of the adder tree at which the sums of groups of rows may stay separate.
    """

    by_lane: bool
    positions: int
    holds: bool
    zero_points: bool
    fold_levels: int

    @staticmethod
    def of(config: Config) -> ArrayShape:
        """The hardware of the array of `config`."""
        modes = modes_of(config)
        return ArrayShape(
            by_lane=any(mode.by_lane for mode in modes),
            positions=max(mode.positions for mode in modes),
            holds=any(mode.holds for mode in modes),
            zero_points=config.has("zero_points"),
            fold_levels=config.tile_parts.bit_length() - 1,
        )

    @property
    def banks(self) -> int:
        """Number of banks of the input scratchpad and of the chain memory: one for each position that is read in the
        same cycle.
        """
        return self.positions

    @property
    def factor_bits(self) -> int:
        """Width of a factor in bits."""
        return 9 if self.zero_points else 8

    @property
    def product_bits(self) -> int:
        """Width of a signed product in bits: -128 x -128 needs 16, 255 x 255 needs 17."""
        return 17 if self.zero_points else 16


ARRAY_REGISTERS = (
    Register(
        "ZERO",
        Unit.COMPUTE,
        2,
        (
            Field("inp_zero", 0, 8, True),
            Field("wgt_zero", 8, 8, True),
        ),
        extension="zero_points",
    ),
    Register("SWEEP", Unit.COMPUTE, 3, (Field("on", 0, 1),), extension="sweep"),
    Register(
        "FOLD",
        Unit.COMPUTE,
        4,
        (Field("shape", 0, 3),),
        extension="fold",
        most=lambda config: {"shape": config.tile_parts.bit_length() - 1},
        refusal=lambda config, shape: f"means {1 << shape} groups, of which {config.folds} are the most",
    ),
)
"""Registers of the compute unit that affect the array: zero points, and registers that select modes."""


# --- extensions of the array ----------------------------------------------------------------------------


def _depthwise(config: Config) -> Block:
    lanes = config.batch * config.block_out
    return Block(
        name="depthwise",
        lanes=lanes,
        multipliers=0,
        multiplier=f"none of its own: {lanes} of the array's",
        ports="those of the array",
    )


def _check_depthwise(config: Config) -> None:
    if config.block_in != config.block_out and not config.has("taps"):
        raise ConfigError(
            f"extensions: depthwise needs block_in = block_out, here {config.block_in} and {config.block_out}, or "
            "taps beside it; add 'taps' to `extensions`, or leave 'depthwise' out"
        )


DEPTHWISE = Extension(
    meaning="the depthwise array mode (DEPTHWISE)",
    unit=Unit.COMPUTE,
    block=_depthwise,
    default=True,
    check=_check_depthwise,
)


def _zero_points(config: Config) -> Block:
    positions = max(mode.positions for mode in modes_of(config))
    return Block(
        name="zero_points",
        lanes=positions * config.inp_bytes + config.wgt_bytes,
        multipliers=0,
        multiplier="none of its own: those of the array take 9 bits x 9 bits",
        ports="those of the array",
    )


ZERO_POINTS = Extension(
    meaning="zero points that the array takes off inputs and weights (register ZERO)",
    unit=Unit.COMPUTE,
    block=_zero_points,
)


def _taps(config: Config) -> Block:
    lanes = config.batch * config.block_out
    memories = "inp and chain memory" if config.chain_buffer_bytes else "inp"
    return Block(
        name="taps",
        lanes=lanes,
        multipliers=0,
        multiplier=f"none of its own: {TAPS * lanes} of the array's",
        ports=f"those of the array; {memories} in {TAPS} banks, each with a read and an address of its own",
    )


def _taps_storage(config: Config) -> dict[str, int]:
    """Storage that `taps` adds, in bytes by name: registers for the vectors after the banks, and registers at each
    multiplier for an element of the other vectors.
    """
    position, lanes = config.inp_bytes * config.position_inputs, config.batch * config.block_out
    elements = (TAPS if config.tile_rows > lanes else TAPS - 1) * lanes
    return {"vectors of taps": (TAPS - 1) * position + elements}


def _position_memories(config: Config) -> dict[str, int]:
    """Sizes in bytes of the memories of input vectors, by name: inp, and chain if there is a chain memory."""
    return {
        name: value
        for name, value in (("inp", config.inp_buffer_bytes), ("chain", config.chain_buffer_bytes))
        if name == "inp" or value
    }


def holds_positions(config: Config) -> bool:
    """Whether input scratchpad and chain memory have a whole number of positions, and at least two in each bank."""
    size = config.inp_bytes * config.position_inputs
    return all(
        isinstance(value, int) and value >= 2 * TAPS * size and value % size == 0
        for value in _position_memories(config).values()
    )


def _check_taps(config: Config) -> None:
    """Raises ConfigError unless each bank of input vectors has whole positions, at least two."""
    size = config.inp_bytes * config.position_inputs
    for name, value in _position_memories(config).items():
        if value < 2 * TAPS * size:
            raise ConfigError(
                f"{name}_buffer_bytes = {value}: taps needs at least {2 * TAPS} positions of {size} bytes there; "
                f"use {2 * TAPS * size}, or leave 'taps' out of `extensions`"
            )
        if value % size:
            raise ConfigError(
                f"{name}_buffer_bytes = {value}: taps needs a multiple of {size}, the bytes of a position; "
                f"{value // size * size} is one; or leave 'taps' out of `extensions`"
            )


TAPS_EXTENSION = Extension(
    meaning=f"the depthwise array mode of {TAPS} positions at once (TAPS)",
    unit=Unit.COMPUTE,
    block=_taps,
    needs="depthwise",
    storage=_taps_storage,
    check_memories=_check_taps,
)


def _sweep(config: Config) -> Block:
    lanes = config.batch * config.block_out
    return Block(
        name="sweep",
        lanes=lanes,
        multipliers=0,
        multiplier=f"none of its own: {swept(config) * TAPS * lanes} of the array's",
        ports="those of taps",
    )


def _sweep_storage(config: Config) -> dict[str, int]:
    """Storage that `sweep` adds, in bytes by name: registers for the vectors that are held for later operations, and
    their copies at the multipliers.
    """
    return {"vectors of sweeps": 2 * (swept(config) - 1) * TAPS * config.batch * config.block_out}


SWEEP = Extension(
    meaning=f"TAPS of up to {SWEPT} rows of a window at once, all but one held from before (register SWEEP)",
    unit=Unit.COMPUTE,
    block=_sweep,
    needs="taps",
    storage=_sweep_storage,
)


def _fold(config: Config) -> Block:
    return Block(
        name="fold",
        lanes=config.batch * config.block_out,
        multipliers=0,
        multiplier=f"none of its own: the array's, in {config.folds} parts of a vector's lanes",
        ports="those of the array; the accumulator read of operations that `overwrite` behind the first input part",
    )


def _check_fold(config: Config) -> None:
    if config.block_in != config.block_out:
        way_out = "make them equal"
        if config.block_in > config.block_out:
            way_out = (
                f"an array of {config.block_in}x{config.block_out} multipliers that folds has block_out = "
                f"{config.block_in} and folds = {config.block_in // config.block_out}"
            )
        raise ConfigError(
            f"extensions: fold needs block_in = block_out, here {config.block_in} and {config.block_out}; {way_out}, "
            "or leave 'fold' out of `extensions`"
        )
    most = config.block_out // LEAST_COLUMNS
    if config.folds > most:
        way_out = f"at most {most}" if most > 1 else "leave 'fold' out of `extensions`"
        raise ConfigError(
            f"folds = {config.folds}: leaves fewer than {LEAST_COLUMNS} of {config.block_out} columns; {way_out}"
        )


def _check_tiles(config: Config) -> None:
    """Raises ConfigError unless the weight scratchpad holds all parts of a whole tile."""
    if config.wgt_depth < config.tile_parts:
        raise ConfigError(
            f"wgt_buffer_bytes = {config.wgt_buffer_bytes}: with folds = {config.folds} it must hold at least so many "
            f"tiles of {config.wgt_bytes} bytes, one for each part of a vector's lanes and inputs; use "
            f"{config.whole_tile_bytes}, or leave 'fold' out of `extensions`"
        )


FOLD = Extension(
    meaning="an array with fewer columns than lanes, whose rows work in groups (`folds`, register FOLD)",
    unit=Unit.COMPUTE,
    block=_fold,
    check=_check_fold,
    check_memories=_check_tiles,
)
