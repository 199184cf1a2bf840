"""Builds a program instruction by instruction; whatever the instructions are, the program has neither races nor
deadlocks.

    build = start_builder(config, image)
    append(build, "LOAD.INP", {"y_size": 1, "x_size": 4, "x_stride": 4, "push_next": 1})
    append(build, "GEMM", {...})          # pops what it must: tokens are added where instructions conflict
    append(build, "FINISH", {})
    program = finish(build)

Token flags among the values are requests: a pop flag stays set if its queue has a token at that point, a push flag if
its queue has room. With `insist`, instructions or flags are added until the request can be met.

There is no deadlock, with queues of any depth: an instruction that pops a token comes after the push in the program,
and a push is placed only where its queue has room in program order. So an instruction waits only for earlier
instructions, which fetch has dispatched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .access import AccessError, Trace, accesses, advance, start_trace
from .config import Config
from .errors import EncodingError
from .hazards import LastAccess, conflicts, record, start_access
from .layout import FLAGS, TOKEN_QUEUES, Unit, encode, formats, names_of, unit_of
from .program import Program, bare_program

_OPERATIONS = names_of("matrix", "vector")

CARRIERS = {Unit.LOAD: "LOAD.INP", Unit.COMPUTE: "LOAD.UOP", Unit.STORE: "STORE.OUT"}
"""For each unit its token carrier: an instruction that with x_size = 0 only pops and pushes tokens."""

Instruction = tuple[str, dict[str, int]]
"""An instruction: format name and field values."""


@dataclass(slots=True, kw_only=True)
class ProgramBuilder:
    """A program under construction, with a model of the tokens by which units wait for one another. `trace`: state of
    registers and micro-ops after the instructions so far. `last`: the last accesses to each memory element. The
    comments on the fields explain the vector clocks: what each unit is known to have waited for.
    """

    config: Config
    trace: Trace
    last: LastAccess
    instructions: list[Instruction] = field(default_factory=list)
    # clocks[u][v]: index of the last instruction of unit v that has ended before the next instruction of unit u begins.
    clocks: list[list[int]] = field(default_factory=lambda: [[-1] * 3 for _ in Unit])
    # For each of TOKEN_QUEUES, the vector clocks of the tokens in the queue, the oldest first.
    tokens: list[deque[list[int]]] = field(default_factory=lambda: [deque() for _ in TOKEN_QUEUES])
    # For each unit, the number of tokens in each queue when the unit's last instruction was appended.
    before: list[list[int]] = field(default_factory=lambda: [[0] * len(TOKEN_QUEUES) for _ in Unit])


def start_builder(
    config: Config, image: NDArray[np.uint8], uop: NDArray[np.unsignedinteger] | None = None
) -> ProgramBuilder:
    """An empty builder for a launch with memory `image` and micro-op scratchpad `uop`, by default zeros."""
    return ProgramBuilder(
        config=config,
        trace=start_trace(config, image, uop),
        last=start_access(config, len(image)),
    )


def finish(build: ProgramBuilder) -> Program:
    """The program of all appended instructions, with the image of `start_builder`."""
    words = [encode(build.config, name, **values) for name, values in build.instructions]
    count = build.config.instruction_words
    return bare_program(build.config, np.array(words, np.uint64).reshape(-1, count), build.trace.image)


def _nothing(build: ProgramBuilder, unit: Unit) -> None:
    """Default of the callback `placed` of `append`: pushes no tokens."""


def append(
    build: ProgramBuilder,
    name: str,
    values: Mapping[str, int],
    *,
    insist: bool = False,
    placed: Callable[[ProgramBuilder, Unit], None] = _nothing,
) -> bool:
    """Appends an instruction of format `name`, and sets its pop flags so that it waits for all earlier instructions
    that it conflicts with; returns True. Returns False, and appends nothing, if the instruction accesses a memory out
    of bounds or a field does not fit the encoding.

    `values`: fields of the instruction. They may ask for more tokens by pop and push flags. With `insist`, every
    requested flag is set: token carriers (instructions that only pop and push tokens) are appended first, until the
    queues have a token for each pop and room for each push. Without `insist`, a flag that is not possible now is
    cleared.

    `placed`: function called with the builder and the unit of each appended instruction, carriers included; it may call
    `push`.
    """
    wishes = {flag for flag in FLAGS if values.get(flag)}
    complete = {item.name: 0 for item in formats(build.config)[name].fields} | dict(values)
    complete |= dict.fromkeys(FLAGS, 0)
    unit = unit_of(name, complete)
    try:
        encode(build.config, name, **complete)
        touched = accesses(build.trace, name, complete)
    except (AccessError, EncodingError):
        return False
    needed: dict[Unit, int] = {}
    for conflict in conflicts(build.last, unit, touched):
        needed[conflict.unit] = max(conflict.earlier, needed.get(conflict.unit, -1))
    if insist:
        _prepare(build, unit, wishes, placed)
    popped = [_wait(build, unit, other, index, complete, placed) for other, index in needed.items()]
    for queue, item in enumerate(TOKEN_QUEUES):
        if item.consumer is not unit or item.pop_flag not in wishes or complete[item.pop_flag]:
            continue
        if insist and not build.tokens[queue]:
            _refill(build, queue, placed)
        if build.tokens[queue]:
            complete[item.pop_flag] = 1
            popped.append(build.tokens[queue].popleft())
    for token in popped:
        if token is not None:
            _merge(build, unit, token)
    index = len(build.instructions)
    _place(build, unit, name, complete)
    for queue, item in enumerate(TOKEN_QUEUES):
        if item.producer is unit and item.push_flag in wishes:
            push(build, queue)
    placed(build, unit)
    record(build.last, unit, index, touched)
    advance(build.trace, name, complete, touched)
    return True


def push(build: ProgramBuilder, queue: int) -> bool:
    """Sets the push flag of token queue `queue` in the producer's last instruction. Returns False if there is no such
    instruction, its flag is set already, or the queue has no room at that point.
    """
    item = TOKEN_QUEUES[queue]
    place = build.clocks[item.producer][item.producer]
    held = max(build.before[item.producer][queue], len(build.tokens[queue]))
    if place < 0 or held >= build.config.token_queue_depth:
        return False
    if build.instructions[place][1].get(item.push_flag):
        return False
    build.instructions[place][1][item.push_flag] = 1
    build.tokens[queue].append(list(build.clocks[item.producer]))
    return True


def steps(build: ProgramBuilder, name: str, values: Mapping[str, int]) -> int:
    """Estimates the cycles of an instruction (format `name`, fields `values`) of the array or the ALU, or of a
    STORE.POST, ROWS or LOAD.PATCH; returns 0 for all other instructions. Loop counts come from the fields and from the
    registers at the end of `build`, so the result may be huge.
    """
    registers = build.trace.registers
    match name:
        case _ if name in _OPERATIONS:
            count = values.get("uop_end", 0) - values.get("uop_bgn", 0)
            return values.get("iter_out", 0) * values.get("iter_in", 0) * max(0, count)
        case "STORE.POST" | "ROWS":
            window = registers["WINDOW"]
            area = (window["rows_minus_1"] + 1) * (window["columns_minus_1"] + 1)
            return values.get("y_size", 0) * values.get("x_size", 0) * area
        case "LOAD.PATCH":
            vectors = registers["PATCH"]["run"] // build.config.block_in + 1
            rows = values.get("y_size", 0) + values.get("y_pad_0", 0) + values.get("y_pad_1", 0)
            return rows * values.get("x_size", 0) * vectors
        case _:
            return 0


def _merge(build: ProgramBuilder, unit: Unit, token: list[int]) -> None:
    """Merges the vector clock `token` of a popped token into the clock of `unit`."""
    clock = build.clocks[unit]
    clock[:] = [max(pair) for pair in zip(clock, token, strict=True)]


def _place(build: ProgramBuilder, unit: Unit, name: str, values: dict[str, int]) -> None:
    """Adds an instruction of `unit` (format `name`, fields `values` with their final pop flags) to the end of the
    program, and updates the unit's own clock. The caller has already popped the instruction's tokens from their queues.
    """
    build.clocks[unit][unit] = len(build.instructions)
    build.before[unit] = [len(tokens) for tokens in build.tokens]
    build.instructions.append((name, values))


def _carrier(
    build: ProgramBuilder,
    unit: Unit,
    queue: int | None,
    placed: Callable[[ProgramBuilder, Unit], None],
) -> None:
    """Appends a token carrier of `unit` (an instruction that only pops and pushes tokens). It pops the oldest token of
    `queue` unless `queue` is None. `placed` is called as in `append`.
    """
    name = CARRIERS[unit]
    values = {item.name: 0 for item in formats(build.config)[name].fields}
    if queue is not None:
        values[TOKEN_QUEUES[queue].pop_flag] = 1
        _merge(build, unit, build.tokens[queue].popleft())
    _place(build, unit, name, values)
    placed(build, unit)


def _prepare(
    build: ProgramBuilder,
    unit: Unit,
    wishes: set[str],
    placed: Callable[[ProgramBuilder, Unit], None],
) -> None:
    """Makes room for the pushes in `wishes` (flags of the next instruction of `unit`): pops a token from each queue
    that is full, by appending token carriers (instructions that only pop and push tokens). `placed` is called as in
    `append`.
    """
    for queue, item in enumerate(TOKEN_QUEUES):
        if item.producer is unit and item.push_flag in wishes:
            while len(build.tokens[queue]) >= build.config.token_queue_depth:
                _carrier(build, item.consumer, queue, placed)


def _refill(build: ProgramBuilder, queue: int, placed: Callable[[ProgramBuilder, Unit], None]) -> None:
    """Pushes a token to the empty `queue`: by the producer's last instruction if possible, else by a new token carrier
    (an instruction that only pops and pushes tokens). `placed` is called as in `append`.
    """
    if not push(build, queue):
        _carrier(build, TOKEN_QUEUES[queue].producer, None, placed)
        push(build, queue)


def _wait(
    build: ProgramBuilder,
    unit: Unit,
    other: Unit,
    index: int,
    values: dict[str, int],
    placed: Callable[[ProgramBuilder, Unit], None],
) -> list[int] | None:
    """Makes the next instruction of `unit` wait for instruction number `index` of unit `other`: finds or pushes a token
    that guarantees this order, and sets the pop flag in `values`, the fields of the next instruction.

    Returns the vector clock of the token that the next instruction pops, or None if it needs no token. The caller
    merges this clock into the unit's clock later, because this function may first append token carriers (instructions
    that only pop and push tokens). `placed` is called after each carrier is appended, with the builder and the
    carrier's unit.
    """
    queue = next(
        number for number, item in enumerate(TOKEN_QUEUES) if (item.producer, item.consumer) == (other, unit)
    )
    tokens = build.tokens[queue]
    while build.clocks[unit][other] < index:
        if tokens and tokens[0][other] >= index:
            values[TOKEN_QUEUES[queue].pop_flag] = 1
            return tokens.popleft()
        if any(clock[other] >= index for clock in tokens):
            _carrier(build, unit, queue, placed)
        elif not push(build, queue):
            # The producer's last instruction cannot push: makes room in the queue, or appends a carrier that can.
            if tokens:
                _carrier(build, unit, queue, placed)
            else:
                _carrier(build, other, None, placed)
    return None
