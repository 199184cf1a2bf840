"""Executes the dependence tokens of a program without timing: decides whether it ends, and which instructions are
ordered.

Fetch and units wait only for conditions that stay true once they are true (a token in a queue, or room that no other
unit can take), so every order of execution reaches the same end. Greedy execution therefore decides deadlock exactly,
with bounded command queues, bounded token queues and head-of-line blocking in fetch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from .config import Config
from .layout import TOKEN_QUEUES, Unit

Clock = tuple[int, int, int]
"""A vector clock: for each unit the index of its last instruction that is known to have ended, -1 if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The part of an instruction that matters to ordering: its unit, the indices in TOKEN_QUEUES of the queues that it
    pops and pushes, and whether it is FINISH.
    """

    unit: Unit
    pops: tuple[int, ...]
    pushes: tuple[int, ...]
    finish: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A unit that waits forever (is deadlocked). If `unit` is None, the fetch unit waits for room in a command queue.
    `instruction`: the instruction that cannot go on.

    `queue`: the token queue that has no token or, if `full`, no room; None for the fetch unit and for FINISH.
    `pop_number`: number of tokens, counted from the start of the program, that the queue must have received before the
    instruction can pop one. `never`: all instructions of the program together push fewer tokens than `pop_number`.
    """

    unit: Unit | None
    instruction: int
    queue: int | None
    full: bool
    pop_number: int = 0
    never: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """Result of `order`. `clocks[i]`: vector clock of the instructions that have ended before instruction `i` begins,
    None if it never begins. `blocked`: deadlocked units.
    """

    clocks: tuple[Clock | None, ...]
    blocked: tuple[Blocked, ...]


@dataclass(slots=True, kw_only=True)
class _State:
    stages: Sequence[Stage]
    commands: list[deque[int]] = field(default_factory=lambda: [deque() for _ in Unit])
    tokens: list[deque[Clock]] = field(default_factory=lambda: [deque() for _ in TOKEN_QUEUES])
    popped: list[int] = field(default_factory=lambda: [0] * len(TOKEN_QUEUES))
    # For each unit the pops that its head instruction has not done; None before the first attempt to begin it.
    waiting: list[list[int] | None] = field(default_factory=lambda: [None] * len(Unit))
    known: list[Clock] = field(default_factory=lambda: [(-1, -1, -1)] * len(Unit))
    clocks: list[Clock | None]
    dispatched: int = 0


def order(config: Config, stages: Sequence[Stage]) -> Ordering:
    """Returns the order of instructions that the tokens of a program enforce, and the deadlocked units. Executes the
    program without timing: each unit pops tokens and executes instructions as soon as it can. `stages`: the program's
    instructions in order, up to its FINISH if it has one.
    """
    state = _State(stages=stages, clocks=[None] * len(stages))
    progress = True
    while progress:
        progress = _dispatch(config, state)
        for unit in Unit:
            while _begin(config, state, unit):
                progress = True
    return Ordering(clocks=tuple(state.clocks), blocked=tuple(_blocked(config, state)))


def _dispatch(config: Config, state: _State) -> bool:
    before = state.dispatched
    while state.dispatched < len(state.stages):
        queue = state.commands[state.stages[state.dispatched].unit]
        if len(queue) >= config.command_queue_depth:
            break
        queue.append(state.dispatched)
        state.dispatched += 1
    return state.dispatched > before


def _begin(config: Config, state: _State, unit: Unit) -> bool:
    """Performs the pops of the unit's head instruction for which tokens are available. When all pops are done and the
    queues of its pushes have room, begins and ends the instruction. Returns whether the state changed.
    """
    if not state.commands[unit]:
        return False
    index = state.commands[unit][0]
    stage = state.stages[index]
    waiting = state.waiting[unit]
    if waiting is None:
        waiting = state.waiting[unit] = list(stage.pops)
    progress = False
    for queue in [item for item in waiting if state.tokens[item]]:
        clock = state.tokens[queue].popleft()
        state.popped[queue] += 1
        a, b, c = state.known[unit]
        state.known[unit] = (max(a, clock[0]), max(b, clock[1]), max(c, clock[2]))
        waiting.remove(queue)
        progress = True
    if waiting or any(len(state.tokens[queue]) >= config.token_queue_depth for queue in stage.pushes):
        return progress
    if stage.finish and (state.commands[Unit.LOAD] or state.commands[Unit.STORE]):
        return progress
    clock = state.known[unit]
    state.clocks[index] = clock
    ended = (*clock[:unit], index, *clock[unit + 1 :])
    state.known[unit] = (ended[0], ended[1], ended[2])
    for queue in stage.pushes:
        state.tokens[queue].append(state.known[unit])
    state.commands[unit].popleft()
    state.waiting[unit] = None
    return True


def _blocked(config: Config, state: _State) -> list[Blocked]:
    found = []
    for unit in Unit:
        if not state.commands[unit]:
            continue
        index = state.commands[unit][0]
        waiting = state.waiting[unit] or []
        if waiting:
            queue = waiting[0]
            number = state.popped[queue] + 1
            pushes = sum(queue in stage.pushes for stage in state.stages)
            found.append(
                Blocked(
                    unit=unit,
                    instruction=index,
                    queue=queue,
                    full=False,
                    pop_number=number,
                    never=pushes < number,
                )
            )
            continue
        full = [
            queue
            for queue in state.stages[index].pushes
            if len(state.tokens[queue]) >= config.token_queue_depth
        ]
        found.append(Blocked(unit=unit, instruction=index, queue=full[0] if full else None, full=bool(full)))
    if state.dispatched < len(state.stages):
        found.append(Blocked(unit=None, instruction=state.dispatched, queue=None, full=True))
    return found
