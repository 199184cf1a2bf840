"""Mutates compiler output: takes a part of a compiled program and makes changes that no template would make.

A mutation changes a list of instructions. `vdla.isa.program_builder` then rebuilds the program: it keeps the tokens
that are still valid and adds missing ones, until the static checker accepts the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from vdla.isa.access import loaded_elements
from vdla.isa.alu import alu_codes
from vdla.isa.check import check
from vdla.isa.config import Config
from vdla.isa.decoding import decode_one
from vdla.isa.layout import EXTENSION_OF, FLAGS, MATRIX, PADS, TOKEN_QUEUES, formats, unit_of
from vdla.isa.program import Program
from vdla.isa.program_builder import (
    CARRIERS,
    Instruction,
    ProgramBuilder,
    append,
    finish,
    start_builder,
    steps,
)
from vdla.isa.registers import REGISTERS
from vdla.isa.store_stages import StoreParts

from .networks import GRAPHS, SOURCES, carried_over, compiled, filled_image

SHORTEST, LONGEST = 45, 160
"""Least and largest number of instructions of the part that is taken from a program, before mutations; a shorter
program is taken whole.
"""

MOST_STEPS = 4000
"""Largest number of operations (or steps) of one instruction, so that the RTL of a large array runs it quickly."""

_FIXED = ("opcode", "memory_type", "unit", "register")
_ATTEMPTS = 40
_TRIES = 200
_SMALL = 4

Mutation = Callable[[np.random.Generator, Config, list[Instruction]], None]


def repair(
    config: Config,
    instructions: Sequence[Instruction],
    image: NDArray[np.uint8],
    uop: NDArray[np.unsignedinteger] | None = None,
) -> Program:
    """Makes a valid program of `instructions`. Drops an instruction if it has an error (mostly an access out of
    bounds), takes more than MOST_STEPS steps, or depends on DRAM that the program wrote (LOAD.PARs, unknown micro-ops).
    Repairs tokens. The program ends with the first FINISH of `instructions`, or with a new one if they have none.

    `image`: memory at launch; `uop`: the micro-op scratchpad at launch, None for zeros. Raises RuntimeError if the
    checker still finds errors, which is a defect of this function.
    """
    wanted = [item for item in instructions if item[0] != "FINISH"]
    ends = [item for item in instructions if item[0] == "FINISH"][:1] or [("FINISH", {})]
    message = ""
    for _ in range(_ATTEMPTS):
        build = start_builder(config, image, uop)
        for name, values in (*wanted, *ends):
            if name == "LOAD.PAR" and _reads_outputs(build, values):
                continue
            if steps(build, name, values) > MOST_STEPS:
                continue
            append(build, name, values)
        program = finish(build)
        found = check(config, program.instructions, image, uop=uop)
        # Instructions that cannot be checked (their micro-ops come from DRAM that the program wrote) are dropped too.
        bad = {item.instructions[0] for item in found if item.severity == "error" or item.kind == "unchecked"}
        if not bad:
            return program
        message = found[0].message
        last = len(build.instructions) - 1
        wanted = [item for index, item in enumerate(build.instructions[:last]) if index not in bad]
        ends = [build.instructions[last]]
    raise RuntimeError(f"the mutated program still has findings after {_ATTEMPTS} repairs: {message}")


def _reads_outputs(build: ProgramBuilder, values: dict[str, int]) -> bool:
    """Whether a LOAD.PAR with the fields `values` reads DRAM that the program `build` has written so far: bytes there
    may encode scales that are not finite.
    """
    shape = {item.name: 0 for item in formats(build.config)["LOAD.PAR"].fields} | values
    if not shape["x_size"]:
        return False
    _, address = loaded_elements(build.config, "par", shape)
    size, granule = build.config.par_bytes, build.config.out_bytes
    address = address[(address >= 0) & (address + size <= len(build.trace.image))]
    return any(
        build.trace.written[address // granule + offset].any() for offset in range(-(-size // granule))
    )


def mutated_program(
    config: Config, seed: int, uop: NDArray[np.unsignedinteger] | None = None
) -> Program | None:
    """A part of a compiled network's program with one to eight mutations; None if no network fits the machine.

    `uop`: the micro-op scratchpad at launch. Equal arguments give equal programs.
    """
    rng = np.random.default_rng((seed, 5))
    program = _pick(rng, config)
    if program is None:
        return None
    image = filled_image(program, rng)
    chosen = _window(rng, config, program)
    for _ in range(int(rng.integers(1, 9))):
        _MUTATIONS[int(rng.integers(len(_MUTATIONS)))](rng, config, chosen)
    last: dict[str, int] = {flag: int(rng.integers(2)) for flag in FLAGS}
    return repair(config, [*chosen, ("FINISH", last)], image, uop)


def _pick(rng: np.random.Generator, config: Config) -> Program | None:
    """The program of a random network that fits the machine; small graphs are drawn more often than shipped models.
    None if all _TRIES networks did not fit.
    """
    for _ in range(_TRIES):
        count = len(SOURCES) if rng.random() < 0.25 else len(GRAPHS)
        program = compiled(config, SOURCES[int(rng.integers(count))], int(rng.integers(1, 3)))
        if program is not None:
            return program
    return None


def _window(rng: np.random.Generator, config: Config, program: Program) -> list[Instruction]:
    """A random part of the program. Before the part come CONFIGs that set the registers to their values at the part's
    begin, then the last loads of micro-ops and parameters before the part (at most three).
    """
    count = len(program.instructions) - 1
    length = min(count, int(rng.integers(SHORTEST, LONGEST + 1)))
    start = int(rng.integers(count - length + 1))
    words = program.instructions.tolist()
    decoded = [carried_over(program, config, *row) for row in words[:count]]
    registers: dict[tuple[int, int], Instruction] = {}
    tables: list[Instruction] = []
    for row, item in zip(words[:start], decoded, strict=False):
        name, values = item
        if name == "CONFIG":
            registers[values["unit"], values["register"]] = (name, values | dict.fromkeys(FLAGS, 0))
        elif decode_one(program.config, *row)[0] in ("LOAD.UOP", "LOAD.PAR") and name.startswith("LOAD"):
            tables.append((name, values | dict.fromkeys(FLAGS, 0)))
    return [*registers.values(), *tables[-3:], *((n, dict(v)) for n, v in decoded[start : start + length])]


# --- mutations ------------------------------------------------------------------------------------------


def _any(rng: np.random.Generator, chosen: list[Instruction]) -> int:
    return int(rng.integers(len(chosen)))


def _drop(rng: np.random.Generator, config: Config, chosen: list[Instruction]) -> None:
    if len(chosen) > SHORTEST:
        del chosen[_any(rng, chosen)]


def _duplicate(rng: np.random.Generator, config: Config, chosen: list[Instruction]) -> None:
    start = _any(rng, chosen)
    piece = [(name, dict(values)) for name, values in chosen[start : start + int(rng.integers(1, 5))]]
    place = _any(rng, chosen)
    chosen[place:place] = piece


def _swap(rng: np.random.Generator, config: Config, chosen: list[Instruction]) -> None:
    """Swaps two neighbouring instructions of `chosen` if they are of different units; the program stays valid if the
    two are independent.
    """
    place = _any(rng, chosen[:-1] or chosen)
    pair = chosen[place : place + 2]
    if len({unit_of(*item) for item in pair}) == 2:
        chosen[place : place + 2] = reversed(pair)


def _truncate(rng: np.random.Generator, config: Config, chosen: list[Instruction]) -> None:
    if len(chosen) > SHORTEST:
        del chosen[int(rng.integers(SHORTEST, len(chosen))) :]


def _set(rng: np.random.Generator, config: Config, chosen: list[Instruction], names: Sequence[str]) -> None:
    """Sets one of the fields `names` to a random value, often near the old one, in a random instruction of `chosen`
    that has the field. Does nothing if no instruction has it.
    """
    having = [item for item in chosen if any(key in item[1] for key in names)]
    if not having:
        return
    name, values = having[_any(rng, having)]
    keys = [key for key in names if key in values]
    key = keys[int(rng.integers(len(keys)))]
    field = formats(config)[name].field(key)
    match int(rng.integers(4)):
        case 0:
            value = values[key] + int(rng.integers(-2, 3))
        case 1:
            value = values[key] // 2
        case 2:
            value = int(rng.integers(_SMALL))
        case _:
            value = values[key] ^ 1 << int(rng.integers(field.width))
    values[key] = min(max(value, field.minimum), field.maximum)


def _field(rng: np.random.Generator, config: Config, chosen: list[Instruction]) -> None:
    name, _ = chosen[_any(rng, chosen)]
    fields = formats(config)[name].fields
    _set(rng, config, chosen, [item.name for item in fields if item.name not in (*_FIXED, *FLAGS, "value")])


def _shrink(rng: np.random.Generator, config: Config, chosen: list[Instruction]) -> None:
    _, values = chosen[_any(rng, chosen)]
    for key in ("y_size", "x_size", "iter_out", "iter_in", "uop_end"):
        if values.get(key, 0) > 1 and rng.random() < 0.5:
            values[key] = int(rng.integers(values[key]))


def _stride(rng: np.random.Generator, config: Config, chosen: list[Instruction]) -> None:
    factors = [f"{part}_factor_{loop}" for part in ("dst", "src", "wgt") for loop in ("out", "in")]
    _set(rng, config, chosen, ["x_stride", *factors])


def _pads(rng: np.random.Generator, config: Config, chosen: list[Instruction]) -> None:
    loads = [values for name, values in chosen if name.startswith("LOAD.")]
    if loads:
        values = loads[int(rng.integers(len(loads)))]
        for key in PADS:
            values[key] = int(rng.integers(3))


def _iterations(rng: np.random.Generator, config: Config, chosen: list[Instruction]) -> None:
    _set(rng, config, chosen, ["iter_out", "iter_in", "uop_bgn", "uop_end"])


def _register(rng: np.random.Generator, config: Config, chosen: list[Instruction]) -> None:
    """In a random CONFIG of `chosen`, sets one field of the register's new value to a random number. The program may
    then be invalid (`repair` comes later). Does nothing without a CONFIG.
    """
    writes = [values for name, values in chosen if name == "CONFIG"]
    if not writes:
        return
    values = writes[int(rng.integers(len(writes)))]
    for item in REGISTERS:
        if (item.unit, item.index) == (values["unit"], values["register"]):
            field = item.fields[int(rng.integers(len(item.fields)))]
            mask = (1 << field.width) - 1 << field.low
            value = int(rng.integers(_SMALL)) if rng.random() < 0.7 else int(rng.integers(field.maximum + 1))
            values["value"] = values["value"] & ~mask | value << field.low


def _operation(rng: np.random.Generator, config: Config, chosen: list[Instruction]) -> None:
    """Changes the operation of a random instruction of `chosen`: the mode of a matrix instruction (or its flag
    `overwrite` or `reset`), the opcode of an ALU instruction, or the flags of a STORE.POST.
    """
    place = _any(rng, chosen)
    name, values = chosen[place]
    match name:
        case _ if name in MATRIX:
            there = [
                other for other in MATRIX if (needed := EXTENSION_OF.get(other)) is None or config.has(needed)
            ]
            other = there[(there.index(name) + 1) % len(there)]
            if other != name and rng.random() < 0.5:
                chosen[place] = (other, {key: value for key, value in values.items() if key != "opcode"})
            else:
                values["overwrite" if rng.random() < 0.5 else "reset"] ^= 1
        case "ALU":
            values["alu_opcode"] = int(rng.choice([code.value for code in alu_codes(config)]))
            values["use_imm"] ^= int(rng.integers(2))
        case "STORE.POST":
            values["combine"] = int(rng.integers(2))
            for key in ("operand", "multiply", "swap", "unsigned"):
                values[key] = int(rng.integers(2)) if values["combine"] else 0
            if not values["operand"]:
                values["multiply"] = values["swap"] = 0
            parts = StoreParts.of(config)
            if parts.table:
                values["table"] = int(rng.integers(2))
                values["table_index"] = int(rng.integers(config.tables)) * values["table"]
            if parts.rows:
                values["rows"] = int(rng.integers(2))
            if config.chain_buffer_bytes and rng.random() < 0.4:
                values["chain"] = 1
                values["dram_base"] %= config.chain_buffer_bytes // config.out_bytes
        case _:
            pass


def _token_pair(rng: np.random.Generator, config: Config, chosen: list[Instruction]) -> None:
    """For a random token queue, sets the push flag of a random instruction of `chosen` of the producing unit. If a
    later instruction is of the consuming unit, also sets the pop flag of a random one of these. Changes nothing if
    either unit has no instruction in `chosen`.
    """
    item = TOKEN_QUEUES[int(rng.integers(len(TOKEN_QUEUES)))]
    first = [index for index, (name, values) in enumerate(chosen) if unit_of(name, values) is item.producer]
    later = [index for index, (name, values) in enumerate(chosen) if unit_of(name, values) is item.consumer]
    if first and later:
        start = first[int(rng.integers(len(first)))]
        chosen[start][1][item.push_flag] = 1
        behind = [index for index in later if index > start]
        if behind:
            chosen[behind[int(rng.integers(len(behind)))]][1][item.pop_flag] = 1


def _carrier(rng: np.random.Generator, config: Config, chosen: list[Instruction]) -> None:
    """Inserts an instruction that only pushes and pops tokens at a random index of `chosen`."""
    unit = tuple(CARRIERS)[int(rng.integers(len(CARRIERS)))]
    chosen.insert(_any(rng, chosen), (CARRIERS[unit], {flag: int(rng.integers(2)) for flag in FLAGS}))


_MUTATIONS: tuple[Mutation, ...] = (
    _drop,
    _duplicate,
    _swap,
    _truncate,
    _field,
    _shrink,
    _stride,
    _pads,
    _iterations,
    _register,
    _operation,
    _token_pair,
    _carrier,
)
