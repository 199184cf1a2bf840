"""The static checker: finds errors in a program without running it.

`check` lists findings; `require_clean` raises all errors as one ProgramError. A program without errors and without
findings of kind unchecked accesses its memories within their bounds, runs to FINISH with any timing, and has the
results of `run_reference`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .access import (
    AccessError,
    Resource,
    Trace,
    UnknownMicroOps,
    accesses,
    advance,
    loaded_elements,
    start_trace,
)
from .alu import alu_code, alu_codes
from .arithmetic import CONSTANT_BITS, LARGEST_CONSTANT
from .assembler import FLOAT_FIELDS, format_of, instruction_text, unit_name, used_bits
from .config import Config
from .decoding import join_words, lacking
from .errors import ProgramError
from .fields import extract, unpack_fields
from .hazards import (
    Conflict,
    LastAccess,
    conflicts,
    record,
    start_access,
    unseen_store,
    waits_for_stores,
)
from .layout import EXTENSION_OF, FLAGS, TOKEN_QUEUES, Opcode, Unit, formats, unit_of
from .ordering import Blocked, Clock, Ordering, Stage, order
from .registers import register_at

MOST_FINDINGS = 50
"""Largest number of findings that each group of checks (encodings, values, accesses) lists; a note takes the place of
the rest, because a broken program often repeats a mistake.
"""

_OURS = (*EXTENSION_OF, "CONFIG")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One mistake in a program. `kind`: encoding, extension, value, finish, bounds, token, deadlock, race or unchecked.
    `severity`: error or warning. `instructions`: indices of the instructions that the finding concerns, the one at
    fault first; empty if the program lacks FINISH.
    """

    kind: str
    severity: str
    instructions: tuple[int, ...]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decoded:
    config: Config
    words: NDArray[np.uint64]
    names: list[str]
    values: list[dict[str, int]]

    def text(self, index: int) -> str:
        return f"instruction {index} ({instruction_text(self.config, *self.words[index].tolist())})"


def require_clean(
    config: Config, instructions: NDArray[np.uint64], image: NDArray[np.uint8], *, allow_races: bool = False
) -> tuple[Finding, ...]:
    """Raises ProgramError with all errors that `check` finds, one a line. If there are none, returns the other
    findings: the warnings and, with `allow_races`, the races.

    `instructions`: uint64 (n, words). `image`: the whole DRAM at launch, uint8. `allow_races`: findings of kind race
    are no errors.
    """
    findings = check(config, instructions, image)
    errors = [
        item for item in findings if item.severity == "error" and not (allow_races and item.kind == "race")
    ]
    if errors:
        raise ProgramError("\n".join(f"{item.kind}: {item.message}" for item in errors))
    return tuple(findings)


def check(
    config: Config,
    instructions: NDArray[np.uint64],
    image: NDArray[np.uint8],
    *,
    uop: NDArray[np.unsignedinteger] | None = None,
) -> list[Finding]:
    """All findings for `instructions`, uint64 (n, words). `image`: the whole DRAM at launch, uint8. `uop` (uop_depth,):
    the micro-op scratchpad at launch, by default zeros.

    If there are errors of kind encoding, extension or value, tokens and accesses are not checked; if there are encoding
    errors, values are not checked either.
    """
    findings: list[Finding] = []
    finish = np.flatnonzero((instructions[:, 0] & np.uint64(7)) == np.uint64(Opcode.FINISH))
    end = int(finish[0]) + 1 if finish.size else len(instructions)
    if not finish.size:
        findings.append(_error("finish", (), "the program has no FINISH; end it with one"))
    elif end < len(instructions):
        message = (
            f"{len(instructions) - end} instructions follow FINISH, instruction {end - 1}, and never run"
        )
        findings.append(Finding(kind="finish", severity="warning", instructions=(end,), message=message))
    words = instructions[:end]
    findings += _take(_encodings(config, words))
    if any(item.kind == "encoding" and item.severity == "error" for item in findings):
        return findings
    program = _decode(config, words)
    findings += _take(_values(program))
    if any(item.severity == "error" and item.kind in ("encoding", "extension", "value") for item in findings):
        return findings
    ordering = order(config, [_stage(*pair) for pair in zip(program.names, program.values, strict=True)])
    if ordering.blocked:
        findings.append(_deadlock(program, ordering.blocked))
    return findings + _take(_touches(program, image, uop, ordering))


def _error(kind: str, instructions: tuple[int, ...], message: str) -> Finding:
    return Finding(kind=kind, severity="error", instructions=instructions, message=message)


def _take(findings: Iterable[Finding]) -> list[Finding]:
    taken: list[Finding] = []
    for item in findings:
        if len(taken) == MOST_FINDINGS:
            taken.append(
                _error(item.kind, item.instructions, "there are more findings, which are not listed")
            )
            break
        taken.append(item)
    return taken


# --- encodings and values -------------------------------------------------------------------------------


def _encodings(config: Config, words: NDArray[np.uint64]) -> Iterator[Finding]:
    for index, row in enumerate(words.tolist()):
        low, word = row[0], join_words(row)
        layout = format_of(config, low)
        if layout is None:
            opcode, kind = low & 7, low >> 7 & 7
            what = (
                f"{Opcode(opcode).name} cannot have memory type {kind} (a store must name OUT, 4, or POST, 6)"
            )
            yield _error(
                "encoding", (index,), f"instruction {index} ({instruction_text(config, *row)}): {what}"
            )
            continue
        stray = word & ~used_bits(layout.fields)
        if stray:
            # VTA ignores unused bits, so a program for VTA may set them.
            severity = "error" if layout.name in _OURS else "warning"
            bit = (stray & -stray).bit_length() - 1
            message = f"instruction {index} ({layout.name}): bit {bit} is set but belongs to no field"
            yield Finding(kind="encoding", severity=severity, instructions=(index,), message=message)


def _decode(config: Config, words: NDArray[np.uint64]) -> _Decoded:
    names = [layout.name for low in words[:, 0].tolist() if (layout := format_of(config, low))]
    values: list[dict[str, int]] = [{}] * len(names)
    array = np.array(names)
    for name in sorted(set(names)):
        rows = np.flatnonzero(array == name)
        fields = formats(config)[name].fields
        keys = [item.name for item in fields]
        columns = [extract(words[rows], item).tolist() for item in fields]
        for row, items in zip(rows.tolist(), zip(*columns, strict=True), strict=True):
            values[row] = dict(zip(keys, items, strict=True))
    return _Decoded(config=config, words=words, names=names, values=values)


def _values(program: _Decoded) -> Iterator[Finding]:
    config = program.config
    for index, (name, values) in enumerate(zip(program.names, program.values, strict=True)):
        missing = lacking(config, name, values)
        if missing is not None:
            yield _error("extension", (index,), f"{program.text(index)} {missing}")
        match name:
            case "CONFIG":
                problem = _register_problem(config, values)
            case "ALU":
                problem = _alu_problem(config, values)
            case "STORE.POST" if values["operand"] and not values["combine"]:
                problem = "operand = 1 needs combine = 1"
            case "STORE.POST" if (values["multiply"] or values["swap"]) and not values["operand"]:
                problem = "multiply and swap need operand = 1"
            case "STORE.POST" if values["table_index"] and not values["table"]:
                problem = "table_index needs table = 1"
            case _:
                problem = None
        if problem is not None:
            yield _error("value", (index,), f"{program.text(index)}: {problem}")


def _alu_problem(config: Config, values: dict[str, int]) -> str | None:
    code = alu_code(config, values["alu_opcode"])
    if code is None:
        known = ", ".join(f"{item.value} {item.name}" for item in alu_codes(config))
        return f"alu_opcode {values['alu_opcode']} is unknown; known are {known}"
    low, high = code.operation.immediates
    if values["use_imm"] and not low <= values["imm"] <= high:
        return f"imm = {values['imm']}: {code.name} takes immediates from {low} to {high}"
    return None


def _register_problem(config: Config, values: dict[str, int]) -> str | None:
    target = register_at(values["unit"], values["register"])
    if target is None:
        return f"unit {values['unit']} has no register {values['register']}"
    if values["value"] & ~used_bits(target.fields):
        return f"register {target.name}: its value {values['value']:#x} sets a bit that belongs to no field"
    most = target.most(config)
    for name, bits in unpack_fields(target.fields, values["value"]).items():
        if bits > most.get(name, bits):
            return f"register {target.name}: {name} = {bits} {target.refusal(config, bits)}"
        if name in FLOAT_FIELDS:
            number = float(np.uint32(bits).view(np.float32))
            if not abs(number) <= LARGEST_CONSTANT:
                most = f"2**{CONSTANT_BITS}"
                return f"register {target.name}: {name} = {number} is not a number of magnitude up to {most}"
    return None


# --- tokens ---------------------------------------------------------------------------------------------


def _stage(name: str, values: dict[str, int]) -> Stage:
    unit = unit_of(name, values)
    pops: tuple[int, ...] = ()
    pushes: tuple[int, ...] = ()
    if any(values[flag] for flag in FLAGS):
        pops = tuple(n for n, q in enumerate(TOKEN_QUEUES) if q.consumer == unit and values[q.pop_flag])
        pushes = tuple(n for n, q in enumerate(TOKEN_QUEUES) if q.producer == unit and values[q.push_flag])
    return Stage(unit=unit, pops=pops, pushes=pushes, finish=name == "FINISH")


def _deadlock(program: _Decoded, blocked: Sequence[Blocked]) -> Finding:
    reasons = [_blocked_text(program, item) for item in blocked]
    first = min(blocked, key=lambda item: (not item.never, item.instruction))
    indices = (first.instruction, *(item.instruction for item in blocked if item is not first))
    kind = "token" if first.never else "deadlock"
    return _error(kind, indices, "the program never ends: " + "; ".join(reasons))


def _blocked_text(program: _Decoded, item: Blocked) -> str:
    text = program.text(item.instruction)
    if item.unit is None:
        unit = unit_of(program.names[item.instruction], program.values[item.instruction])
        depth = program.config.command_queue_depth
        return (
            f"fetch waits at {text} for room in the command queue of {unit_name(unit)}, which holds {depth} "
            "instructions"
        )
    who = f"{unit_name(item.unit)} waits at {text}"
    if item.queue is None:
        return f"{who} for load and store to end"
    queue = TOKEN_QUEUES[item.queue].name
    if item.full:
        return f"{who} for room in the token queue {queue}, which holds {program.config.token_queue_depth} tokens"
    if item.never:
        return (
            f"{who} for token {item.pop_number} of {queue}, but the program pushes only {item.pop_number - 1}; "
            "drop the pop or add a push"
        )
    return f"{who} for token {item.pop_number} of {queue}"


# --- bounds and races -----------------------------------------------------------------------------------


def _touches(
    program: _Decoded, image: NDArray[np.uint8], uop: NDArray[np.unsignedinteger] | None, ordering: Ordering
) -> Iterator[Finding]:
    """Checks the memory accesses of all instructions. Yields findings of kind bounds, unchecked (unknown micro-ops),
    value (scales that are not finite) and race. Races between units are checked only if no unit is deadlocked; a race
    of a load of parameters with an earlier store is always checked. `image`, `uop`: DRAM and micro-op scratchpad at
    launch. `ordering`: result of `order`.
    """
    trace = start_trace(program.config, image, uop)
    last = start_access(program.config, len(image))
    reported: set[tuple[int, int]] = set()
    waited = -1
    for index, (name, values) in enumerate(zip(program.names, program.values, strict=True)):
        try:
            touched = accesses(trace, name, values)
        except UnknownMicroOps as error:
            message = f"{program.text(index)}: {error}"
            yield Finding(kind="unchecked", severity="warning", instructions=(index,), message=message)
            continue
        except AccessError as error:
            yield _error("bounds", (index,), f"{program.text(index)}: {error}")
            continue
        unit = unit_of(name, values)
        if name == "LOAD.PAR":
            yield from _scales(program, trace, index)
            if (unseen := unseen_store(last, touched, waited)) is not None:
                yield _error("race", (index, unseen.earlier), _unseen_text(program, index, unseen))
        if unit is Unit.STORE and waits_for_stores(name, values):
            waited = index
        if not ordering.blocked:
            yield from _races(program, last, ordering.clocks, index, unit, touched, reported)
        record(last, unit, index, touched)
        advance(trace, name, values, touched)


def _races(
    program: _Decoded,
    last: LastAccess,
    clocks: Sequence[Clock | None],
    index: int,
    unit: Unit,
    touched: tuple,
    reported: set[tuple[int, int]],
) -> Iterator[Finding]:
    clock = clocks[index]
    assert clock is not None
    for item in conflicts(last, unit, touched):
        pair = (item.earlier, index)
        if clock[item.unit] >= item.earlier or pair in reported:
            continue
        reported.add(pair)
        yield _error("race", (index, item.earlier), _race_text(program, clocks, index, unit, item))


def _race_text(
    program: _Decoded, clocks: Sequence[Clock | None], index: int, unit: Unit, item: Conflict
) -> str:
    if item.resource is Resource.DRAM:
        size = program.config.out_bytes
        where = f"DRAM bytes {item.element * size}..{(item.element + 1) * size}"
    elif item.resource is Resource.CHAIN:
        size = program.config.chain_granule
        where = f"chain memory bytes {item.element * size}..{(item.element + 1) * size}"
    else:
        where = f"{item.resource.value} element {item.element}"
    does, did = ("reads", "writes") if item.kind == "RAW" else ("writes", "reads")
    earlier_clock = clocks[item.earlier]
    if earlier_clock is not None and earlier_clock[unit] >= index:
        order = "the tokens order them the opposite way"
    else:
        queue = next(q.name for q in TOKEN_QUEUES if q.producer == item.unit and q.consumer == unit)
        order = f"no token orders them; push one of {queue} after the first and pop it before the second"
    return (
        f"{program.text(index)} {does} {where}, which {program.text(item.earlier)} {did} before it in the program "
        f"({item.kind}), but {order}"
    )


def _unseen_text(program: _Decoded, index: int, item: Conflict) -> str:
    size = program.config.out_bytes
    return (
        f"{program.text(index)} reads DRAM bytes {item.element * size}..{(item.element + 1) * size}, which "
        f"{program.text(item.earlier)} writes before it in the program (RAW), but a load of parameters does not wait "
        "for the stores before it; put a CONFIG between the two"
    )


def _scales(program: _Decoded, trace: Trace, index: int) -> Iterator[Finding]:
    """Checks the scales that instruction number `index`, a LOAD.PAR, loads, and yields a finding for the first one that
    is not finite. Checks only scales that are still those of the initial image: `trace`, the state before the
    instruction, tells which bytes the program has stored.
    """
    config, values = program.config, program.values[index]
    if values["x_size"] == 0:
        return
    _, address = loaded_elements(config, "par", values)
    places = address[:, None] + np.arange(4 * config.block_out, config.par_bytes)
    scales = np.ascontiguousarray(trace.image[places]).view("<f4")
    written = trace.written[places // config.out_bytes].reshape(*scales.shape, 4).any(axis=-1)
    bad = np.argwhere(~np.isfinite(scales) & ~written)
    if bad.size:
        entry, lane = bad[0].tolist()
        yield _error(
            "value",
            (index,),
            f"{program.text(index)}: the scale of lane {lane} in the entry at DRAM byte {address[entry]} is "
            f"{scales[entry, lane]}; scales must be finite",
        )
