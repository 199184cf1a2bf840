"""Checks the rules of AXI4 for a master cycle by cycle (ARM IHI 0022, chapters A3 and A5).

The checks are those for the accelerator's port: INCR bursts of whole bus words, no IDs, responses in order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from vdla.isa.timing import AXI_BOUNDARY

from ..axi import INCREMENTING

AddressChannel = Literal["ar", "aw"]


class RuleError(AssertionError):
    """Raised if the AXI master under test broke a rule of AXI4; the message names the channel, the rule and the values
    seen.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A request on AXI channel AR or AW: byte `address`, AxLEN `length` (beats - 1), AxSIZE `size`, AxBURST `burst`."""

    address: int
    length: int
    size: int
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBeat:
    """A beat on AXI channel W: WDATA (lowest byte in the lowest bits), WSTRB (bit i for byte i) and WLAST."""

    data: int
    strobe: int
    last: bool


@dataclass(slots=True, kw_only=True)
class AxiRules:
    """Checks the AXI4 rules for one master. A memory model calls `address` and `data` in each cycle; these methods
    raise RuleError at the first broken rule.

    `bus_bytes`: width of the data bus, the size that each burst must have. `outstanding_reads`, `outstanding_writes`:
    largest numbers of accepted bursts that are not completely answered.
    """

    bus_bytes: int
    outstanding_reads: int
    outstanding_writes: int
    _waiting: dict[str, Address | WriteBeat] = field(default_factory=dict)
    _reads: int = 0
    _writes: int = 0
    _lengths: deque[int] = field(default_factory=deque)
    """The number of beats of each write whose address was accepted and whose data are not complete, the oldest first.
    """
    _ahead: deque[int] = field(default_factory=deque)
    """The number of beats of each write whose data were complete before its address was accepted, the oldest first."""
    _beats: int = 0

    def address(self, channel: AddressChannel, shown: Address | None, *, ready: bool) -> None:
        """Checks channel AR or AW in a cycle; `shown`: the request on it, None without VALID; `ready`: its READY."""
        self._stable(channel, shown, ready)
        if shown is None:
            return
        words = shown.length + 1
        if shown.burst != INCREMENTING or 1 << shown.size != self.bus_bytes:
            raise RuleError(f"{channel}: not an INCR burst of {self.bus_bytes}-byte words: {shown}")
        if shown.address % AXI_BOUNDARY + words * self.bus_bytes > AXI_BOUNDARY:
            raise RuleError(f"{channel}: the burst crosses a multiple of {AXI_BOUNDARY} bytes: {shown}")
        if not ready:
            return
        if channel == "ar":
            self._reads += 1
            if self._reads > self.outstanding_reads:
                raise RuleError(f"ar: more than {self.outstanding_reads} reads outstanding: {shown}")
            return
        self._writes += 1
        if self._writes > self.outstanding_writes:
            raise RuleError(f"aw: more than {self.outstanding_writes} writes outstanding: {shown}")
        if self._ahead:
            beats = self._ahead.popleft()
            if beats != words:
                raise RuleError(
                    f"aw: this burst has {words} beats, but its data, sent before, had {beats}: {shown}"
                )
        else:
            self._lengths.append(words)
            if len(self._lengths) == 1 and self._beats >= words:
                raise RuleError(f"w: no WLAST on beat {words}, the last of the burst")

    def data(self, shown: WriteBeat | None, *, ready: bool) -> None:
        """Checks channel W in a cycle; to be called after `address` in the same cycle. `shown`: the beat on the
        channel, None without VALID; `ready`: its READY.
        """
        self._stable("w", shown, ready)
        if shown is None or not ready:
            return
        self._beats += 1
        if self._lengths and shown.last != (self._beats == self._lengths[0]):
            raise RuleError(f"w: WLAST is {int(shown.last)} on beat {self._beats} of {self._lengths[0]}")
        if shown.last:
            if self._lengths:
                self._lengths.popleft()
            else:
                self._ahead.append(self._beats)
            self._beats = 0

    def read_done(self) -> None:
        """Records that the last beat of a read was transferred."""
        self._reads -= 1

    def write_done(self) -> None:
        """Records that a write response was transferred."""
        self._writes -= 1

    def finish(self) -> None:
        """Raises RuleError if a transaction is incomplete; to be called when the master is quiet."""
        if self._waiting:
            raise RuleError(f"{', '.join(sorted(self._waiting))}: VALID while nothing is running")
        left = {
            "reads without all data": self._reads,
            "writes without response": self._writes,
            "write addresses without all data": len(self._lengths),
            "bursts of write data without address": len(self._ahead),
            "beats of a write burst without its last beat": self._beats,
        }
        if any(left.values()):
            shown = ", ".join(f"{count} {name}" for name, count in left.items() if count)
            raise RuleError(f"incomplete at the end of the run: {shown}")

    def _stable(self, channel: str, shown: Address | WriteBeat | None, ready: bool) -> None:
        before = self._waiting.pop(channel, None)
        if before is not None and shown != before:
            what = "withdrawn" if shown is None else f"replaced by {shown}"
            raise RuleError(f"{channel}: {before} was {what} before READY accepted it")
        if shown is not None and not ready:
            self._waiting[channel] = shown
