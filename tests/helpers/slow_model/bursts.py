"""Bursts in the slow model, and the clients that request them (hw/README.md, sections 1 to 3)."""

from __future__ import annotations

from dataclasses import dataclass, field

from vdla.isa.timing import FIFO_LATENCY, REQUEST_GAP, ROOM_DELAY

PAGE = 4096


@dataclass(eq=False)
class Burst:
    address: int
    size: int
    bus: int
    kind: str
    moved: list[int] = field(default_factory=list)  # cycle of each beat
    accepted: int | None = None
    ready: int | None = None
    returned: int | None = None  # read: cycle in which its last byte left the FIFO
    response: int | None = None
    first_shown: int | None = None  # write: first cycle in which its address is shown

    @property
    def beats(self) -> int:
        return (self.address + self.size - 1) // self.bus - self.address // self.bus + 1

    @property
    def last(self) -> int | None:
        return self.moved[-1] if len(self.moved) == self.beats else None

    def has(self, byte: int, now: int) -> bool:
        """Whether the word of byte address `byte` has come into the FIFO, in or before cycle `now`."""
        beat = byte // self.bus - self.address // self.bus
        return len(self.moved) > beat and self.moved[beat] + FIFO_LATENCY <= now

    def holds(self, byte: int) -> bool:
        return self.address <= byte < self.address + self.size


def cut(start: int, length: int, bus: int, most_beats: int, kind: str) -> list[Burst]:
    bursts = []
    while length:
        size = min(length, most_beats * bus - start % bus, PAGE - start % PAGE)
        bursts.append(Burst(start, size, bus, kind))
        start, length = start + size, length - size
    return bursts


@dataclass(eq=False)
class Client:
    """A read client: its bursts not yet requested (`waiting`), the request shown (`shown`), and the bursts that still
    reserve room in its FIFO (`held`).
    """

    fifo: int
    most_beats: int
    waiting: list[Burst] = field(default_factory=list)
    earliest: int = 0
    shown: Burst | None = None
    held: list[Burst] = field(default_factory=list)
    last_accept: int = -REQUEST_GAP

    def show(self, now: int) -> None:
        if self.shown or not self.waiting or now < self.earliest or now < self.last_accept + REQUEST_GAP:
            return
        burst = self.waiting[0]
        self.held = [b for b in self.held if b.returned is None or b.returned + ROOM_DELAY > now]
        if sum(b.beats * b.bus for b in self.held) + burst.beats * burst.bus <= self.fifo:
            self.shown = self.waiting.pop(0)
            self.held.append(burst)

    @property
    def idle(self) -> bool:
        return not self.waiting and self.shown is None
