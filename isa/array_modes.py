"""The table of the array's modes, the ways in which it multiplies, and the registers that select them.

Reference, checker, simulator, RTL, random programs, statistics and emission use the table; isa/README.md has the
formulas. An instruction selects a mode; if several modes share an instruction, a register selects among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .fields import Field, Register
from .opcodes import Opcode, Unit

if TYPE_CHECKING:
    from .config import Config

TAPS = 4
"""Number of neighbouring input positions (pixels), and of rows of weights, that an operation of instruction TAPS
multiplies. On machines with the extension `taps`, it is also the number of banks of the memories of input vectors.
"""

SWEPT = 4
"""Largest number of operations whose input positions (pixels) are multiplied together in a sweep, in which an operation
of TAPS multiplies its own input positions and those of the operations before it.
"""

LEAST_COLUMNS = 4
"""Least number of columns that an array may have, with or without the extension `fold`."""


def swept(config: Config) -> int:
    """Number of operations in a sweep whose input positions (pixels) the array multiplies together. An operation of
    TAPS multiplies its own positions and those of the operations before it, which registers hold. The number is SWEPT,
    or less if a lane has too few multipliers.
    """
    return max(1, min(SWEPT, config.block_in // config.tile_parts // TAPS))


def sweep_rows(config: Config) -> int:
    """Number of rows of weights that one operation of a sweep multiplies: a group. (In a sweep, an operation of TAPS
    multiplies its own input positions, or pixels, and those of the operations before it.) Groups begin at multiples of
    this number.

    A position consists of the input vectors of one pixel that the lanes multiply, and a group has a row for each input
    vector of `swept` x TAPS positions. A group has at least twice as many rows as an input vector has parts
    (`position_outputs`), because the index of a row in its group also tells which part is multiplied and, in its
    highest bit, whether the operation only stores its positions for later operations.
    """
    return max(TAPS * swept(config) * config.position_inputs, 2 * config.position_outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayMode:
    """One way in which the array multiplies, an entry of MODES.

    `instruction`, `opcode`: the instruction of the mode. `register`: the compute unit's register whose field `on`
    selects the mode; None for the instruction's default mode. `extension`: the optional hardware of the mode, None if
    every machine has it.

    `by_lane`: lane j adds element j of a position (the input vectors of one pixel) times element j of a row of weights;
    otherwise lane j adds the dot product of a whole input vector and row j of the tile. `positions`: number of
    neighbouring positions that an operation reads. `holds`: the array keeps the positions of earlier operations in
    registers; an operation then multiplies them together with its own, or only stores its own. `folds`: an operation
    multiplies one part of a weight tile, whose number is in the low bits of the tile's index (extension `fold`;
    register FOLD has the number of parts).
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
        """Number of input vectors in a position (the vectors of one pixel that the lanes multiply); the index of a
        position's first vector is a multiple of this number.
        """
        return config.position_inputs if self.by_lane else 1

    def vectors(self, config: Config) -> int:
        """Number of neighbouring input vectors that an operation reads, all of them from the same memory."""
        return self.positions * self.position_vectors(config)

    def operations(self, config: Config) -> int:
        """Number of operations, the current one included, whose input positions (pixels) an operation of this mode
        multiplies. It is above 1 only in a mode that `holds`, which keeps the positions of earlier operations.
        """
        return swept(config) if self.holds else 1

    def multiplied(self, config: Config) -> int:
        """Number of input positions (pixels) that an operation multiplies, those of earlier operations included."""
        return self.operations(config) * self.positions

    def held(self, config: Config) -> tuple[int, int, int, int]:
        """Shape of the array of all input positions (pixels) that an operation multiplies in a mode with `holds`:
        (operations, oldest first; positions; batch; block_out). The array is zeros at launch.
        """
        return self.operations(config), self.positions, config.batch, config.block_out

    def tile_weights(self, config: Config) -> int:
        """Number of weight indices in a weight tile: one for each row of weights if the mode is `by_lane` (each lane
        multiplies by a weight of its own), else 1.
        """
        return config.tile_rows if self.by_lane else 1

    def group(self, config: Config) -> int:
        """Number of weight indices in a group. A group has the rows of weights that an operation may multiply, with
        separate rows for each part of an input vector. Groups begin at multiples of this number.

        In a mode that `holds` (keeps the input positions, or pixels, of earlier operations), an index in the upper half
        of a group means that the operation only stores its positions for later operations and multiplies nothing.
        """
        if not self.by_lane:
            return 1
        if self.holds:
            return sweep_rows(config)
        return self.positions * config.position_inputs * config.position_outputs

    def row(self, config: Config, place: int, part: int) -> int:
        """Each input vector has its own row of weights in the operation's group of rows. Returns the index, in the
        group, of the row for input vector number `place` (from 0).

        If an input vector has more elements than there are lanes, an operation multiplies only part number `part` of
        it, and each part has a row of its own. The rows of the parts alternate or, in a mode that `holds` (keeps the
        positions of earlier operations), are in separate groups.
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
"""All modes in which the array multiplies. An instruction's first mode is its default, which no register selects."""


def positions_of(instruction: str) -> int:
    """Largest number of input positions (pixels) that an operation of the instruction reads; 0 if the instruction does
    not use the array.
    """
    return max([mode.positions for mode in MODES if mode.instruction == instruction], default=0)


def is_by_lane(instruction: str) -> bool:
    """Whether the instruction multiplies each lane by its own weight (DEPTHWISE, TAPS)."""
    return any(mode.by_lane for mode in MODES if mode.instruction == instruction)


def modes_of(config: Config) -> tuple[ArrayMode, ...]:
    """The modes that the array of `config` has."""
    return tuple([mode for mode in MODES if mode.extension is None or config.has(mode.extension)])


def mode_of(instruction: str, registers: Mapping[str, Mapping[str, int]]) -> ArrayMode:
    """The mode of an array instruction; `registers`: fields of the compute unit's registers, by register name."""
    return next(
        mode
        for mode in reversed(MODES)
        if mode.instruction == instruction and (mode.register is None or registers[mode.register]["on"])
    )


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
        refusal=lambda config, shape: f"means {1 << shape} groups, but at most {config.folds} are possible",
    ),
)
"""Registers of the compute unit that affect the array: zero points, sweeps on, number of groups in a folded array."""
