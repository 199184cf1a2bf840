"""Detects races within spans. A span is the execution of a block between two barriers. The check lists the elements
that each thread of the block accesses in a span, and compares the accesses of different threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from ...ir.kernels import Access, Kernel, successive
from .addresses import Touched, touched
from .asynchronous import Flight, RaceError, Run, Span


def point(number: int, axes: Mapping[str, int]) -> str:
    """The coordinates of a thread or block as text, such as "(x=1, y=0)". `axes`: number of threads or blocks along
    each axis. `number`: the number of the thread or block, where the first axis is counted fastest.
    """
    parts: list[str] = []
    for axis, count in axes.items():
        parts.append(f"{axis}={number % count}")
        number //= count
    return "(" + ", ".join(parts) + ")"


def element_text(access: Access, flat: int) -> str:
    """The text of an element of an access's buffer, given its flat index."""
    index = np.unravel_index(flat, access.buffer.shape)
    return f"{access.buffer.name}[{', '.join(str(int(i)) for i in index)}] ({access.buffer.scope})"


@dataclass(frozen=True, slots=True)
class _Event:
    """One memory access in a span (a block's execution between two barriers). `run`: the execution of the code that
    makes the access. `step`: position of this execution in the span (-1: before the span). `flight`: the asynchronous
    copy that makes the access, which may happen at any time until the wait for the copy; None if no such copy makes the
    access.
    """

    step: int
    run: Run
    access: Access
    flight: Flight | None = None


class SpanChecker:
    """Compares the accesses of a block's threads between two barriers; equal spans are compared once. `threads`: the
    number of threads along each axis of the block.
    """

    def __init__(self, kernel: Kernel, threads: Mapping[str, int]) -> None:
        self.kernel = kernel
        self.threads = dict(threads)
        self.count = prod(threads.values())
        self.successive = successive(kernel)
        self.checked: set[object] = set()
        self.lists: dict[tuple[Run, int], Touched] = {}

    def span(self, span: Span) -> None:
        """Raises RaceError if two accesses in a span (execution of a block between two barriers) race."""
        key = span.key
        if key in self.checked:
            return
        events: dict[str, list[_Event]] = {}
        for step, run in enumerate(span.runs):
            for access in run.task.accesses:
                if not access.asynchronous:
                    events.setdefault(access.buffer.name, []).append(_Event(step, run, access))
        for flight in span.flights:
            step = -1 if flight.start is None else flight.start
            for access in flight.run.task.accesses:
                if access.asynchronous:
                    event = _Event(step, flight.run, access, flight)
                    events.setdefault(access.buffer.name, []).append(event)
        for found in events.values():
            if any(e.access.write for e in found):
                self.plain([e for e in found if e.flight is None])
                self.flying(found)
        self.bytes(events)
        self.checked.add(key)

    def list(self, event: _Event) -> Touched:
        """The elements that the access `event` touches, and an owner of each: the number of the thread that touches the
        element. If several threads do the work together, each step of the span adds another multiple of the number of
        threads to the owners. `thread` converts an owner to its thread.
        """
        key = event.run, event.run.task.accesses.index(event.access)
        held = self.lists.get(key)
        if held is None:
            task = event.run.task
            held = touched(event.access, event.run.values, self.threads, task.collective)
            self.lists[key] = held
        if event.run.task.collective and self.count > 1:
            # Lanes of a warp are in order within one phase only.
            return Touched(elements=held.elements, owners=held.owners + self.count * (1 + event.step + 1))
        return held

    def plain(self, events: Sequence[_Event]) -> None:
        """Raises RaceError if the synchronous accesses `events` to one buffer race in different threads. Accesses of
        one thread cannot race, since it executes them in program order.
        """
        writes = [e for e in events if e.access.write]
        if not writes:
            return
        writer = np.full(prod(writes[0].access.buffer.shape), -1, np.int64)
        for event in writes:
            what = self.list(event)
            writer[what.elements] = what.owners
        for event in events:
            what = self.list(event)
            other = writer[what.elements]
            clash = (other >= 0) & (other != what.owners)
            if clash.any():
                at = int(np.argmax(clash))
                self.fail(event, int(what.elements[at]), int(what.owners[at]), writes)

    def fail(self, event: _Event, element: int, owner: int, writes: Sequence[_Event]) -> None:
        """Raises a RaceError, which says that `event` in thread `owner` and one of `writes` in another thread touch the
        element with the number `element`.
        """
        for writer in writes:
            what = self.list(writer)
            clash = (what.elements == element) & (what.owners != owner)
            if clash.any():
                other = int(what.owners[int(np.argmax(clash))])
                does = "writes" if event.access.write else "reads"
                if writer.run is event.run:
                    way = (
                        "within one phase, where threads run in any order; give each thread elements of its own, or "
                        "put statements that read other threads' data into a loop over threads of their own"
                    )
                else:
                    way = "with no barrier between them; insert_barriers puts it there"
                raise RaceError(
                    f"{self.kernel.name}: threads race on {element_text(event.access, element)}: "
                    f"{writer.access.statement} writes it in thread {self.thread(other)}, "
                    f"{event.access.statement} {does} it in thread {self.thread(owner)}{_when(event.run)}, {way}"
                )

    def flying(self, events: Sequence[_Event]) -> None:
        """Raises RaceError if an asynchronous copy in `events` races with another access. `events`: all accesses to one
        buffer. A copy may access memory at any time until the wait for it.
        """
        for position, event in enumerate(events):
            flight = event.flight
            if flight is None:
                continue
            what = self.list(event)
            holder = np.full(prod(event.access.buffer.shape), -1, np.int64)
            holder[what.elements] = what.owners
            if event.access.write and (clash := holder[what.elements] != what.owners).any():
                at = int(np.argmax(clash))
                self.fail(event, int(what.elements[at]), int(what.owners[at]), [event])
            for other in (*events[position + 1 :], *(e for e in events[:position] if e.flight is None)):
                if not (event.access.write or other.access.write):
                    continue
                if other.flight is flight and other.access is event.access:
                    continue
                touches = self.list(other)
                held = holder[touches.elements]
                clash = held >= 0
                during = _during(flight, other)
                if not during:
                    clash &= held != touches.owners
                if clash.any():
                    at = int(np.argmax(clash))
                    self.late(
                        event,
                        other,
                        int(touches.elements[at]),
                        int(held[at]),
                        int(touches.owners[at]),
                        during,
                    )

    def late(self, event: _Event, other: _Event, element: int, a: int, b: int, during: bool) -> None:
        """Raises a RaceError, which says that the asynchronous copy `event` of thread `a` and the access `other` of
        thread `b` touch `element`. `during`: whether the access `other` happens while the copy is in flight.
        """
        does = "writes" if other.access.write else "reads"
        own = "fills" if event.access.write else "reads"
        if during:
            way = "before the wait that covers the copy; wait for fewer pending groups, or commit and wait before it"
        elif other.step <= event.step:
            way = "with no barrier before the copy is issued; insert_barriers puts it there"
        else:
            way = "with no barrier after the wait that covers the copy; insert_barriers puts it there"
        raise RaceError(
            f"{self.kernel.name}: race on {element_text(event.access, element)}: the asynchronous copy "
            f"{event.access.statement} {own} it for thread {self.thread(a)}, {other.access.statement} {does} it in "
            f"thread {self.thread(b)}{_when(other.run)}, {way}"
        )

    def bytes(self, events: Mapping[str, Sequence[_Event]]) -> None:
        """Raises RaceError if the span accesses two shared buffers with disjoint lifetimes. Such buffers may occupy the
        same bytes, and within a span no barrier separates the accesses to one from the accesses to the other. `events`:
        the accesses of the span, by buffer.
        """
        if self.count == 1:
            return
        for a, b in combinations(events, 2):
            if (a, b) in self.successive:
                raise RaceError(
                    f"{self.kernel.name}: {a} and {b} are allocated one after the other, so they may share the same "
                    f"bytes, and no barrier stands between {events[a][0].access.statement} and "
                    f"{events[b][0].access.statement}{_when(events[b][0].run)}; insert_barriers puts it there"
                )

    def thread(self, owner: int) -> str:
        """The text of thread `owner`: its coordinates along axes with more than one thread."""
        axes = {axis.removeprefix("thread."): size for axis, size in self.threads.items() if size > 1}
        return point(owner % self.count, axes)


def _during(flight: Flight, other: _Event) -> bool:
    """Whether the access `other` may happen between the issue of the asynchronous copy `flight` and the wait for it."""
    if other.flight is not None:
        # Both may be in flight at the same time unless one is waited for before the other is issued.
        first, second = sorted((flight, other.flight), key=lambda f: -1 if f.start is None else f.start)
        return first.end is None or second.start is None or first.end > second.start
    return (flight.start is None or other.step >= flight.start) and (
        flight.end is None or other.step < flight.end
    )


def _when(run: Run) -> str:
    """Text for messages that tells when a run happens: the values of the variables of loops over blocks and of loops
    that all threads run together, as in " at k=3"; empty if there are no such loops.
    """
    values = ", ".join(f"{name}={value}" for name, value in run.values.items())
    return f" at {values}" if values else ""
