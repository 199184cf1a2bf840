"""Compares the results of a run with expected results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.isa.program import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Expected results of a run, for example those of `vdla.sim.simulate`; a result that is None is not compared.

    `memory`: the image after the run, uint8. `cycles`: total number. `begin`, `end`: the cycle in which each
    instruction begins or ends, int64 (instructions,), -1 for never. `counters`: values by name
    (`vdla.hw.counters.COUNTERS`); counters that `counters` does not name are expected to be 0.
    """

    memory: NDArray[np.uint8] | None = None
    cycles: int | None = None
    begin: NDArray[np.int64] | None = None
    end: NDArray[np.int64] | None = None
    counters: Mapping[str, int] | None = None


class Scoreboard:
    """Collects the differences of a run from `expected`; `check` fails the test with all of them."""

    def __init__(self, expected: Expected, *, segments: Sequence[Segment] = ()) -> None:
        """`expected`: the results to compare with. `segments`: segments of the program; messages give an address in
        memory by the name of its segment.
        """
        self._expected, self._segments = expected, segments
        self.compared: list[str] = []
        self.differences: list[str] = []

    def memory(self, contents: bytes | bytearray | memoryview) -> None:
        """Compares `contents`, the memory image after the run, with the expected image, byte by byte."""
        if self._expected.memory is None:
            return
        self.compared.append("memory")
        seen = np.frombuffer(contents, np.uint8)
        if len(seen) != len(self._expected.memory):
            self.differences.append(
                f"memory: expected {len(self._expected.memory)} bytes, there are {len(seen)}"
            )
            return
        places = np.flatnonzero(seen != self._expected.memory)
        if len(places):
            first = int(places[0])
            self.differences.append(
                f"memory: {len(places)} of {len(seen)} bytes differ, first byte {first}{self._name(first)}: "
                f"expected {self._expected.memory[first]}, there is {seen[first]}"
            )

    def cycles(self, seen: int) -> None:
        """Compares `seen`, the total number of cycles, with the expected number."""
        if self._expected.cycles is None:
            return
        self.compared.append("cycles")
        if seen != self._expected.cycles:
            self.differences.append(f"cycles: expected {self._expected.cycles}, took {seen}")

    def times(self, begin: NDArray[np.int64], end: NDArray[np.int64]) -> None:
        """Compares the cycles of begin and end of each instruction with the expected ones; -1 for an event that did not
        happen.
        """
        for name, seen in (("begin", begin), ("end", end)):
            expected: NDArray[np.int64] | None = getattr(self._expected, name)
            if expected is None:
                continue
            self.compared.append(name)
            if len(seen) != len(expected):
                self.differences.append(
                    f"{name}: expected for {len(expected)} instructions, seen for {len(seen)}"
                )
                continue
            places = np.flatnonzero(seen != expected)
            if len(places):
                index = int(places[0])
                self.differences.append(
                    f"{name}: {len(places)} instructions differ, first instruction {index}: "
                    f"expected cycle {expected[index]}, was {seen[index]}"
                )

    def counters(self, seen: Mapping[str, int]) -> None:
        """Compares `seen`, all performance counters by name, with the expected values."""
        if self._expected.counters is None:
            return
        self.compared.append("counters")
        for name in dict.fromkeys((*seen, *self._expected.counters)):
            expected, value = self._expected.counters.get(name, 0), seen.get(name)
            if value is None:
                self.differences.append(
                    f"counter {name}: expected {expected}, the hardware lacks this counter"
                )
            elif value != expected:
                self.differences.append(f"counter {name}: expected {expected}, is {value}")

    def check(self) -> None:
        """Raises an AssertionError that lists all differences, if there are any. Also raises it if nothing was
        compared.
        """
        assert self.compared, "nothing was compared"
        assert not self.differences, "\n".join(self.differences)

    def _name(self, byte: int) -> str:
        for segment in self._segments:
            if segment.address <= byte < segment.address + segment.size:
                return f" ({segment.name}, byte {byte - segment.address})"
        return ""
