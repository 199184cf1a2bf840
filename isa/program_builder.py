"""A program built instruction by instruction that cannot race or deadlock, whatever instructions are appended.

    build = start_builder(config, image)
    append(build, "LOAD.INP", {"y_size": 1, "x_size": 4, "x_stride": 4, "push_next": 1})
    append(build, "GEMM", {...})          # pops what it must: tokens are added where instructions conflict
    append(build, "FINISH", {})
    program = finish(build)

Token flags among the values are requests: a pop stays if its queue holds a token at that point, a push if its queue has
room. With `insist` further instructions or flags are added until the request can be met.

Why there is no deadlock, whatever the depths: an instruction that pops a token comes after the push in the program, and
a push is placed only where, in program order, its queue still has room. So each instruction waits only for earlier
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
"""The token carrier of each unit: an instruction that, with x_size = 0, only pops and pushes tokens."""

Instruction = tuple[str, dict[str, int]]
"""Format name and field values."""


@dataclass(slots=True, kw_only=True)
class ProgramBuilder:
    """The program built so far, the contents of its registers and micro-op memory, and the order that its tokens
    enforce.
    """

    config: Config
    trace: Trace
    last: LastAccess
    instructions: list[Instruction] = field(default_factory=list)
    # clocks[u][v]: index of the last instruction of unit v that has ended before unit u's next one begins.
    clocks: list[list[int]] = field(default_factory=lambda: [[-1] * 3 for _ in Unit])
    # For each of TOKEN_QUEUES, the clocks carried by the tokens in flight, oldest first.
    tokens: list[deque[list[int]]] = field(default_factory=lambda: [deque() for _ in TOKEN_QUEUES])
    # Number of tokens in flight, in program order, when each unit's last instruction was placed.
    before: list[list[int]] = field(default_factory=lambda: [[0] * len(TOKEN_QUEUES) for _ in Unit])


def start_builder(
    config: Config, image: NDArray[np.uint8], uop: NDArray[np.unsignedinteger] | None = None
) -> ProgramBuilder:
    """An empty builder for a launch with memory `image` and micro-op memory `uop` (zero unless given)."""
    return ProgramBuilder(
        config=config,
        trace=start_trace(config, image, uop),
        last=start_access(config, len(image)),
    )


def finish(build: ProgramBuilder) -> Program:
    """The program as built, with the launch's image."""
    words = [encode(build.config, name, **values) for name, values in build.instructions]
    count = build.config.instruction_words
    return bare_program(build.config, np.array(words, np.uint64).reshape(-1, count), build.trace.image)


def _nothing(build: ProgramBuilder, unit: Unit) -> None:
    """Default of `placed`: pushes no further tokens."""


def append(
    build: ProgramBuilder,
    name: str,
    values: Mapping[str, int],
    *,
    insist: bool = False,
    placed: Callable[[ProgramBuilder, Unit], None] = _nothing,
) -> bool:
    """Appends an instruction, with pops of the tokens that it must wait for. Returns False, and appends nothing, if the
    instruction accesses outside a memory or a field does not fit the configuration's encoding.

    `placed` is called with the unit after each appended instruction, token carriers included, and may `push` tokens.
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
    """Sets the push flag of `queue` on the producer's last instruction; False if there is none, the flag is set or the
    queue has no room at that point.
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
    """Estimated busy cycles of the next instruction if its loops are not bounded by the scratchpads' sizes; else 0."""
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
    """Adds the instructions that have ended before `token` was pushed to the clock of `unit`."""
    clock = build.clocks[unit]
    clock[:] = [max(pair) for pair in zip(clock, token, strict=True)]


def _place(build: ProgramBuilder, unit: Unit, name: str, values: dict[str, int]) -> None:
    """Appends an instruction whose pops are already done."""
    build.clocks[unit][unit] = len(build.instructions)
    build.before[unit] = [len(tokens) for tokens in build.tokens]
    build.instructions.append((name, values))


def _carrier(
    build: ProgramBuilder,
    unit: Unit,
    queue: int | None,
    placed: Callable[[ProgramBuilder, Unit], None],
) -> None:
    """Appends a token carrier of `unit`, which pops the oldest token of `queue` unless that is None."""
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
    """Pops tokens, with carriers, from full queues to which the next instruction of `unit` requests a push."""
    for queue, item in enumerate(TOKEN_QUEUES):
        if item.producer is unit and item.push_flag in wishes:
            while len(build.tokens[queue]) >= build.config.token_queue_depth:
                _carrier(build, item.consumer, queue, placed)


def _refill(build: ProgramBuilder, queue: int, placed: Callable[[ProgramBuilder, Unit], None]) -> None:
    """Pushes a token to the empty `queue`: by the producer's last instruction or, if that cannot, by a new carrier."""
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
    """Orders the next instruction of `unit`, with fields `values`, behind instruction `index` of unit `other`.

    Returns the vector clock of the token that the next instruction itself pops. It is not merged into the unit's clock
    yet, because token carriers may still be placed before that instruction.
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
            # The producer's last instruction cannot push: make room in the queue, or append a carrier that can.
            if tokens:
                _carrier(build, unit, queue, placed)
            else:
                _carrier(build, other, None, placed)
    return None
