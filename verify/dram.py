"""Compares the DRAM's timing on random streams of AXI bursts: LiteDRAM's RTL, the model of its controller in C++
(hw/harness/dram/controller.h), and the simulator.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.hw.harness.dram.design import Design
from vdla.hw.harness.dram.streams import litedram_program, model_program, run_on_litedram, run_on_model
from vdla.isa.dram import PARTS, Controller
from vdla.isa.dram_streams import S_EARLIEST, S_GAP, S_WORD, S_WORDS, S_WRITE, T_ACCEPTED, Streams
from vdla.sim.dram_streams import run_streams

LONGEST = 128
"""Largest number of words of a burst in the random streams; AXI allows 256."""
_ADDRESSES = 1 << 32


@dataclass(frozen=True, slots=True)
class Difference:
    """The earliest burst of a stream for which an engine differs from LiteDRAM's RTL in a cycle. `engine`: "simulator"
    or "model", the model in C++. `stream`, `master`, `burst`: number of the stream and of the master, index of the
    burst. `rtl`, `found`: the burst's cycles (T_ACCEPTED, T_FIRST, T_END) in LiteDRAM's RTL and in the engine.
    """

    engine: str
    stream: int
    master: int
    burst: int
    rtl: tuple[int, ...]
    found: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"stream {self.stream}, master {self.master}, burst {self.burst}: accepted, first word and end in cycles "
            f"{self.rtl} of the RTL, {self.found} of the {self.engine}"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of comparing the simulator and the model in C++ with LiteDRAM's RTL on a number of `streams`. `cycles`:
    the cycles of all streams together. `differences`: for each engine, the first difference of each stream that
    differs. `violations`: lines in which LiteDRAM's timing checker reports a broken rule. `seconds`: processor time of
    all streams by engine: litedram, model, simulator.
    """

    streams: int
    cycles: int
    differences: tuple[Difference, ...]
    violations: tuple[str, ...]
    seconds: dict[str, float]


def random_streams(controller: Controller, words: int, masters: int, bursts: int, seed: int) -> Streams:
    """Random streams of bursts for testing a DRAM controller: one stream for each of `masters` masters, of `bursts`
    bursts in a memory of `words` bus words.

    For each stream, these properties are drawn: the share of writes (none, all or some), the lengths of the bursts, the
    cycles before requests, pauses between the words of a write, and stalls. The order of the addresses is also drawn:
    linear, strided, random in the whole memory, random within three rows of every bank, or two linear sequences mixed.
    The largest numbers of bursts in flight are drawn once for all streams.
    """
    rng = np.random.default_rng(seed)
    requests = np.zeros((masters, bursts, 5), np.int64)
    row = 1 << controller.column_bits
    around = row * controller.banks
    for one in requests:
        one[:, S_WRITE] = rng.random(bursts) < rng.choice([0.0, 1.0, 0.1, 0.3, 0.5, 0.8])
        choices = ([1, 2, 4], [8], [16, 32, 64], [1, 3, 7, 64, LONGEST], [4])
        lengths = rng.choice(choices[rng.integers(len(choices))], bursts)
        following = np.cumsum(lengths) - lengths
        stride = rng.choice([8, 28, LONGEST, row // 2, row, 2 * row, around, around + row])
        orders = (
            following,
            np.arange(bursts) * stride,
            rng.integers(0, words, bursts),
            rng.integers(0, 3 * around, bursts),
            np.where(rng.random(bursts) < 0.5, following, words // 2 + following),
        )
        one[:, S_WORD] = orders[rng.integers(len(orders))] % (words - LONGEST)
        one[:, S_WORDS] = lengths
        if rng.random() < 0.5:
            one[:, S_EARLIEST] = np.cumsum(rng.integers(0, rng.choice([2, 20, 200]), bursts))
        if rng.random() < 0.5:
            one[:, S_GAP] = rng.integers(0, 3, bursts)
    stalls = rng.integers(0, rng.choice([1, 6]), masters)
    return Streams(
        requests=requests,
        stalls=stalls,
        reads=int(rng.choice([1, 2, 8, 16])),
        writes=int(rng.choice([1, 4, 8])),
    )


def streams_of(design: Design, count: int, bursts: int, seed: int) -> list[Streams]:
    """`count` results of `random_streams` for a design, with the seeds `seed`, `seed` + 1 ...; each master of the
    design has `bursts` bursts.
    """
    numbers = design.controller
    words = min(
        PARTS[design.part].rows * numbers.banks << numbers.column_bits, _ADDRESSES // numbers.word_bytes
    )
    return [random_streams(numbers, words, design.masters, bursts, seed + i) for i in range(count)]


def compare(design: Design, streams: Sequence[Streams], numbers: Controller | None = None) -> Comparison:
    """Runs streams on LiteDRAM's RTL for `design`, and on the simulator and the model in C++ for the controller
    `numbers` (default: the controller of `design`). Returns a comparison of the cycles of all bursts. Raises UserError
    for a missing tool.
    """
    numbers = design.controller if numbers is None else numbers
    litedram_program(design)
    model_program(numbers, design.masters)
    times = [_processor_seconds()]
    found, violations = run_on_litedram(design, streams)
    times.append(_processor_seconds())
    modelled = run_on_model(numbers, streams)
    times.append(_processor_seconds())
    simulated = [run_streams(numbers, stream) for stream in streams]
    times.append(_processor_seconds())
    engines = {"simulator": simulated, "model": modelled}
    differences = [
        difference
        for engine, runs in engines.items()
        for number, (rtl, run) in enumerate(zip(found, runs, strict=True))
        if (difference := first_difference(engine, number, rtl, run)) is not None
    ]
    cycles = sum(int(times.max()) for times in found)
    names = ("litedram", "model", "simulator")
    seconds: dict[str, float] = dict(zip(names, np.diff(times).tolist(), strict=True))
    return Comparison(len(streams), cycles, tuple(differences), tuple(violations), seconds)


def _processor_seconds() -> float:
    """Processor time of this process and of the programs that it started and that have ended."""
    return time.process_time() + resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def first_difference(
    engine: str, stream: int, rtl: NDArray[np.int64], found: NDArray[np.int64]
) -> Difference | None:
    """The earliest burst in which the cycles `found` of `engine` differ from the cycles `rtl`; None if all are equal.
    Both arrays are those of stream number `stream`: int64 (masters, bursts, 3).
    """
    wrong = np.argwhere((rtl != found).any(axis=2))
    if not wrong.size:
        return None
    master, burst = min(wrong.tolist(), key=lambda place: rtl[place[0], place[1], T_ACCEPTED])
    cycles = tuple(rtl[master, burst].tolist()), tuple(found[master, burst].tolist())
    return Difference(engine, stream, master, burst, *cycles)
