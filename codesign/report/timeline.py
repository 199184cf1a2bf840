"""The timeline of a run for ui.perfetto.dev: activity and stalls of every unit, and the traffic of the memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from vdla.isa.assembler import instruction_text
from vdla.isa.decoding import format_names
from vdla.isa.fields import extract
from vdla.isa.layout import Unit, formats, unit_of
from vdla.isa.program import Program, instruction_address
from vdla.sim import BUSY_CATEGORIES, CATEGORIES, SimulationResult
from vdla.sim.result import timeline as unit_timeline

from .perfetto_trace import Counter, Slice, Track, write_trace
from .split import layer_boundaries
from .traffic import KINDS, find_runs

COUNTER_SAMPLES = 2000
"""Largest number of intervals into which a run is divided; the timeline has the mean memory traffic of each interval.
"""


def timeline(program: Program, simulation: SimulationResult) -> bytes:
    """The bytes of a Perfetto trace of `program`'s `simulation`; one cycle is shown as one nanosecond.

    The trace has a track for the layers and a track for each unit. The track of the fetch unit has a slice for every
    dispatch, and for every wait before a dispatch. The tracks of load, compute and store units have a slice for the
    busy time of every instruction, and a slice for every stall, named by its cause. Two counters show the data bytes
    (without instructions) read and written per cycle, averaged over at most `COUNTER_SAMPLES` intervals. On a machine
    with a DRAM, a track for each bank has the words that are read from its rows or written to them.
    """
    names = format_names(np.asarray(program.instructions)[: _executed(simulation)])
    tracks = [Track(name="layers", slices=list(_layers(program, simulation)))]
    tracks.append(Track(name="fetch", slices=list(_fetch(program, simulation, names))))
    for unit in Unit:
        tracks.append(Track(name=unit.name.lower(), slices=list(_slices(program, simulation, unit, names))))
    if simulation.dram is not None:
        tracks += _banks(program)
    process = f"vdla {program.config.name}: 1 ns = 1 cycle"
    return write_trace(process, tracks, _counters(program, simulation))


def _executed(simulation: SimulationResult) -> int:
    return int(np.flatnonzero(simulation.begin >= 0)[-1]) + 1


def _layers(program: Program, simulation: SimulationResult) -> Iterator[Slice]:
    if not program.groups:
        return
    boundaries = layer_boundaries(program, simulation.end, simulation.cycles).tolist()
    for name, (start, stop) in zip(program.groups, itertools.pairwise(boundaries), strict=True):
        if stop > start:
            yield Slice(start, stop, name, {"cycles": stop - start})


def _fetch(program: Program, simulation: SimulationResult, names: list[str]) -> Iterator[Slice]:
    """Slices (events of the timeline) of the fetch unit: one for each dispatch, and one for each wait before a
    dispatch. Fetch waits for memory, or for room in a queue. `names`: names of the instructions.
    """
    depth = program.config.command_queue_depth
    begun: list[list[int]] = [[] for _ in Unit]
    at = 0
    units = _units(program, names)
    for index, cycle in enumerate(simulation.dispatch[: len(names)].tolist()):
        queue = begun[units[index]]
        # A place in the queue is free from the cycle after the begin of the instruction `depth` places earlier.
        late = len(queue) >= depth and queue[-depth] + 1 >= cycle
        if cycle > at:
            cause = (
                f"wait for room in the queue of {units[index].name.lower()}" if late else "wait for memory"
            )
            yield Slice(at, cycle, cause, {"instruction": index})
        yield Slice(cycle, cycle + 1, f"dispatch {names[index]}", {"instruction": index})
        queue.append(int(simulation.begin[index]))
        at = cycle + 1


def _units(program: Program, names: list[str]) -> list[Unit]:
    field = formats(program.config)["CONFIG"].field("unit")
    targets = extract(np.asarray(program.instructions)[: len(names)], field).tolist()
    return [unit_of(name, {"unit": target}) for name, target in zip(names, targets, strict=True)]


def _slices(program: Program, simulation: SimulationResult, unit: Unit, names: list[str]) -> Iterator[Slice]:
    pieces = unit_timeline(simulation, unit)
    words = program.instructions.tolist()
    columns = (pieces.start, pieces.stop, pieces.category, pieces.instruction)
    for start, stop, category, index in zip(*(column.tolist() for column in columns), strict=True):
        name = CATEGORIES[category]
        if index < 0:
            yield Slice(start, stop, "done" if name not in BUSY_CATEGORIES else name)
            continue
        details: dict[str, int | str] = {
            "instruction": index,
            "text": instruction_text(program.config, *words[index]),
        }
        group = int(program.group_of[index])
        if group >= 0:
            details["layer"] = program.groups[group]
        if name in BUSY_CATEGORIES:
            details |= {"begin": int(simulation.begin[index]), "end": int(simulation.end[index])}
            yield Slice(start, stop, name if name == "drain" else names[index], details)
        else:
            yield Slice(start, stop, f"wait {name}", details)


def _banks(program: Program) -> Iterator[Track]:
    """A track for each bank of a DRAM that is used, channel by channel. A slice stands for consecutive reads, or
    consecutive writes, of words in one row; a new slice begins if the row is opened again. The slice tells whether the
    row was opened for these words.
    """
    # Only machines with a DRAM import the simulator's loop for it.
    from vdla.sim.dram_log import word_runs

    runs = word_runs(program.config, np.asarray(program.instructions), np.asarray(program.image))
    if runs is None:
        return
    places, banks = runs.banks()
    # The number of each run of words among those of its channel.
    order = np.zeros(len(places), np.int64)
    for channel in np.unique(runs.channel).tolist():
        mine = runs.channel == channel
        order[mine] = np.arange(np.count_nonzero(mine))
    for place in np.unique(places).tolist():
        own = np.flatnonzero(places == place)
        row, write, opened = runs.row[own], runs.write[own], runs.opened[own]
        alone = np.diff(order[own]) > 1
        begins = np.append(True, alone | (np.diff(row) != 0) | (write[1:] != write[:-1]) | (opened[1:] > 0))
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(own)) - 1
        words = np.add.reduceat(runs.stop[own] - runs.start[own], first)
        columns = (
            runs.start[own][first],
            runs.stop[own][last],
            row[first],
            write[first],
            opened[first],
            words,
        )
        yield Track(
            name=banks[place],
            slices=[
                Slice(
                    start,
                    stop,
                    f"{'write' if writes else 'read'} row {number}",
                    {"words": count, "row": "opened" if rows else "was open"},
                )
                for start, stop, number, writes, rows, count in zip(
                    *(column.tolist() for column in columns), strict=True
                )
            ],
        )


def _counters(program: Program, simulation: SimulationResult) -> list[Counter]:
    """Counters of bytes read and bytes written per cycle, averaged over intervals; an instruction's bytes are spread
    evenly over its execution.
    """
    base = instruction_address(len(program.image))
    runs = find_runs(program.config, np.asarray(program.instructions), base)
    width = max(1, -(-simulation.cycles // COUNTER_SAMPLES))
    edges = np.arange(0, simulation.cycles + width, width)
    counters = []
    for name, kinds in (("read", KINDS[1:-1]), ("written", KINDS[-1:])):
        chosen = np.isin(runs.kind, [KINDS.index(kind) for kind in kinds])
        totals = np.bincount(runs.instruction[chosen], runs.length[chosen], len(simulation.begin))
        size = np.asarray(totals, np.float64)
        rate = _spread(simulation.begin, simulation.end, size, edges)
        samples = list(zip(edges[:-1].tolist(), (rate / width).tolist(), strict=True))
        counters.append(Counter(name=f"DRAM {name}", unit="bytes/cycle", samples=samples))
    return counters


def _spread(
    begin: NDArray[np.int64], end: NDArray[np.int64], size: NDArray[np.float64], edges: NDArray[np.int64]
) -> NDArray[np.float64]:
    # Bytes between neighbouring edges: each instruction moves its bytes evenly from its begin to its end.
    moving = (size > 0) & (end > begin)
    first, last, rate = begin[moving], end[moving], size[moving] / (end - begin)[moving]
    # The sum of ramps is piecewise linear: its slope changes by `rate` at each begin and by -rate at each end.
    if not len(first):
        return np.zeros(len(edges) - 1)
    times = np.concatenate((first, last))
    order = np.argsort(times, kind="stable")
    times, change = times[order], np.concatenate((rate, -rate))[order]
    slope = np.cumsum(change)
    total = np.concatenate(([0.0], np.cumsum(slope[:-1] * np.diff(times))))
    return np.diff(np.interp(edges, times, total))
