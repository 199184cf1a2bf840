"""Custom instructions: operations of the ALU that a user defines outside this package and adds to a machine.

A machine lists its custom instructions in `Config.instructions`; their ALU opcodes follow the last one of
`alu.AluOpcode`. Encoder, assembler, reference, checker, simulator, RTL, random programs, coverage and documents read
them from the configuration. `verify.custom` compares the parts of an instruction with each other.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .alu import ALU_CODES, IMMEDIATE_LIMITS, AluOpcode, AluOperation, Lanes
from .errors import ConfigError

if TYPE_CHECKING:
    from .config import Config

MOST_CYCLES = 16
"""Largest number of issue cycles of a custom instruction."""

MOST_CUSTOM = ALU_CODES - len(AluOpcode)
"""Largest number of custom instructions of a machine: the ALU opcodes that VTA and this package leave free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Hardware that a custom instruction adds to each lane: `gates`, two-input NAND gates of equal area, and `flops`,
    flip-flops. The models of area count them.
    """

    gates: int
    flops: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AluInstruction:
    """A custom operation of the instruction ALU: dst[j] = operation(dst[j], src[j] or the immediate), for each int32
    lane j; the low 32 bits of the result are kept.

    Parameters
    ----------
    name : str
        Name in assembler text, such as "XOR": capital letters, digits and underscores.
    compute : function of two int64 arrays of one shape, returns an int64 array
        Semantics, for the reference. The values are int32.
    simulate : function of two ints, returns an int
        The same operation on int64 numbers, for the simulator. numba compiles it, so it may use what numba's nopython
        mode supports. It should share no code with `compute`, so that each is a test of the other.
    rtl : class of an Amaranth component without arguments
        One lane's hardware. Members: `left` and `right`, In(signed(32)); `start`, In(1); `result`, Out(signed(32)). In
        the cycle in which `start` is 1, `left` is the first operand. `right` is the second operand, stable from then
        until the result is taken. `result` is taken `cycles` - 1 cycles after `start`. With `cycles` = 1 that is the
        same cycle, so the component may ignore `start`.
    cycles : int
        Issue cycles of one operation with an immediate, 1 to MOST_CYCLES. An operation with two accumulators takes one
        more.
    immediates : (int, int)
        The least and the greatest legal immediate. The static checker refuses other immediates, and random programs
        draw from this range.
    expression : function of two int32 expressions, returns an expression; optional
        The operation in the loop IR, by which `tensorize` matches a loop: any function of `vdla.compute` expressions.
        Without it the compiler cannot use the instruction.
    cost : Cost, optional
        Hardware that one lane adds. Without it, the models of area do not count the instruction; `vdla synth` measures
        the area in either case.

    Raises ConfigError for a name, cycles or immediates that are not allowed.
    """

    name: str
    compute: Callable[[Lanes, Lanes], Lanes]
    simulate: Callable[[int, int], int]
    rtl: type[Any]
    cycles: int = 1
    immediates: tuple[int, int] = IMMEDIATE_LIMITS
    expression: Callable[[Any, Any], Any] | None = None
    cost: Cost | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier() or self.name != self.name.upper():
            raise ConfigError(
                f"instruction {self.name!r}: expected a name of capital letters, digits and underscores, as 'XOR'"
            )
        if self.name in AluOpcode.__members__:
            raise ConfigError(
                f"instruction {self.name}: every machine's ALU has this operation; use another name"
            )
        if (
            isinstance(self.cycles, bool)
            or not isinstance(self.cycles, int)
            or not 1 <= self.cycles <= MOST_CYCLES
        ):
            raise ConfigError(
                f"instruction {self.name}: cycles = {self.cycles!r}: must be 1 to {MOST_CYCLES}"
            )
        low, high = self.immediates
        if not IMMEDIATE_LIMITS[0] <= low <= high <= IMMEDIATE_LIMITS[1]:
            raise ConfigError(
                f"instruction {self.name}: immediates = ({low}, {high}): expected the least and the greatest, "
                f"both {IMMEDIATE_LIMITS[0]} to {IMMEDIATE_LIMITS[1]}"
            )
        for part in ("compute", "simulate", "rtl"):
            if not callable(getattr(self, part)):
                kind = "class of an Amaranth component" if part == "rtl" else "function of two operands"
                raise ConfigError(
                    f"instruction {self.name}: {part} = {getattr(self, part)!r}: must be a {kind}"
                )

    @property
    def operation(self) -> AluOperation:
        """The row that this instruction adds to the table of ALU operations."""
        return AluOperation(compute=self.compute, extra_cycles=self.cycles - 1, immediates=self.immediates)

    @property
    def reference(self) -> str:
        """Name of the instruction in TOML files, "module:NAME". The module is the one that defines the instruction's
        class `rtl`.
        """
        return f"{self.rtl.__module__}:{self.name}"

    @property
    def fingerprint(self) -> str:
        """SHA-256, hexadecimal, of the instruction's fields and source text; the digest of a machine includes it. The
        source text is that of the whole module or, if the module has no file, of the instruction's functions and class.
        """
        fields = repr((self.name, self.cycles, self.immediates, self.cost))
        return hashlib.sha256((fields + _source(self)).encode()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the instruction as text, `reference`, which names its module and variable. A process that unpickles
        it, such as a worker of tuning or exploration, imports this module and takes the instruction from there.
        """
        return find_instruction, (self.reference, True)


def _source(instruction: AluInstruction) -> str:
    parts = [
        sys.modules.get(instruction.rtl.__module__),
        *(instruction.compute, instruction.simulate, instruction.rtl, instruction.expression),
    ]
    texts = []
    for part in parts:
        try:
            texts.append(inspect.getsource(part))  # pyright: ignore[reportArgumentType]
        except (OSError, TypeError):
            continue  # a function of a C library, or a module without a file, as a notebook is
        if part is parts[0]:
            break
    return "".join(texts)


def find_instruction(reference: str, imports: bool = False) -> AluInstruction:
    """Returns the custom instruction that `reference`, a text "module:NAME", names; configuration files use such texts.
    Raises ConfigError if there is none.

    The module must be imported already, so that reading a configuration file cannot run code. With `imports`, this
    function imports it.
    """
    module, colon, name = reference.partition(":")
    if not colon or not module or not name:
        raise ConfigError(f"instructions: {reference!r}: expected \"module:NAME\", as 'xor_instruction:XOR'")
    if imports:
        import_module(module)
    if module not in sys.modules:
        raise ConfigError(
            f"instructions: {reference!r}: module {module!r} is not imported; import it first, or give the command "
            f"the option --import {module}"
        )
    found = [item for item in vars(sys.modules[module]).values() if isinstance(item, AluInstruction)]
    for item in found:
        if item.name == name:
            return item
    there = ", ".join(sorted(item.name for item in found)) or "none"
    raise ConfigError(f"instructions: module {module!r} has no instruction {name!r}; it has {there}")


def check_instructions(config: Config) -> None:
    """Raises ConfigError if the machine's custom instructions are not a tuple of AluInstruction, are too many, or
    include two of one name.
    """
    instructions = config.instructions
    if not isinstance(instructions, tuple) or not all(
        isinstance(item, AluInstruction) for item in instructions
    ):
        raise ConfigError(f"instructions = {instructions!r}: expected a tuple of vdla.AluInstruction")
    if len(instructions) > MOST_CUSTOM:
        raise ConfigError(
            f"{len(instructions)} custom instructions; the ALU's opcode has room for {MOST_CUSTOM}: leave out others"
        )
    names = [item.name for item in instructions]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"instructions: two have the name {name}; rename one")
