"""Cycle-based simulation of a mapped netlist: counts each net's toggles, and the cycles in which it is 1.

Each gate is evaluated once a cycle, after its drivers and without delays, so that glitches (toggles of a net within a
cycle before it settles) are not counted. Gates are rows of a table instead of generated code: the largest netlist is
ready in a second, while Verilator and g++ take minutes for each netlist. A cycle of 150,000 cells takes less than a
millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.util.errors import UserError
from vdla.util.machine_code import compiled

from .netlist import MemoryBlock, Netlist


class MismatchError(UserError):
    """Raised if an output of the netlist differs from the recorded output of the RTL, or if the netlist has an input
    that was not recorded.
    """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Activity:
    """Activity of a netlist in `cycles` cycles. `toggles`, `ones`, int32 (nets,): for each net, the number of its
    changes, and the number of cycles in which it is 1. `reads`, `writes`: for each memory, in the netlist's order, the
    number of reads and writes.

    A clocked read port counts a read if it is enabled and its address or its memory has changed since its last read; a
    port without clock counts a read if its address changes. A write of some bits of a word counts as a fraction of a
    write.
    """

    cycles: int
    toggles: NDArray[np.int32]
    ones: NDArray[np.int32]
    reads: NDArray[np.int64]
    writes: NDArray[np.float64]


class Simulation:
    """A netlist with its state: registers and memories are 0 at first and keep their values between runs."""

    def __init__(self, netlist: Netlist) -> None:
        self.netlist = netlist
        values = np.zeros(netlist.nets, np.uint8)
        values[1] = 1
        memories = netlist.memories
        starts = np.cumsum([0, *(m.words * m.width for m in memories)])
        storage = np.zeros(int(starts[-1]), np.uint8)
        reads, writes, at_once = _ports(memories, starts)
        nets = np.concatenate([np.zeros(0, np.int32), *_all_nets(memories)])
        self._memories = _Memories(
            storage,
            reads,
            writes,
            at_once,
            nets,
            np.zeros(int(reads[:, _SIZE].sum()), np.uint8),
            np.zeros(len(memories), np.int64),
        )
        self._inputs = sorted((name, nets) for name, nets in netlist.input_ports.items() if name != "clk")
        self._outputs = sorted(netlist.output_ports.items())
        self._queue = _queue(netlist)
        self._state = _State(
            values,
            np.zeros(netlist.nets, np.int32),
            np.zeros(len(netlist.states), np.uint8),
            np.zeros(len(netlist.states) + 1, np.int64),
        )

    def run(self, ports: Mapping[str, NDArray[np.uint8]], *, unchecked: int = 0) -> Activity:
        """Simulates the netlist with recorded inputs of the RTL, and compares the netlist's outputs with those of the
        RTL. `ports`: by name, bytes of each input and output port in each cycle, as from `watched_ports`; outputs
        without a record are not compared. `unchecked`: number of cycles at the start in which no output is compared,
        since outputs are arbitrary before a reset. Returns the activity in all cycles. Raises MismatchError.
        """
        netlist = self.netlist
        given = _bits(self._inputs, ports)
        expected = _bits([item for item in self._outputs if item[0] in ports], ports)
        activity = Activity(
            cycles=len(given.values),
            toggles=np.zeros(netlist.nets, np.int32),
            ones=np.zeros(netlist.nets, np.int32),
            reads=np.zeros(len(netlist.memories), np.int64),
            writes=np.zeros(len(netlist.memories)),
        )
        gates = _Gates(
            netlist.tables,
            netlist.inputs,
            netlist.outputs,
            netlist.state_tables,
            netlist.state_inputs,
            netlist.states,
        )
        counts = _Counts(activity.toggles, activity.ones, activity.reads, activity.writes)
        cycle, wrong = _run(
            gates, self._queue, self._state, self._memories, counts, given, expected, unchecked
        )
        if wrong >= 0:
            name = next(f"{port}[{list(nets).index(wrong)}]" for port, nets in self._outputs if wrong in nets)
            raise MismatchError(f"the netlist's output {name} differs from the RTL's in cycle {cycle}")
        return activity


class _Gates(NamedTuple):
    """Arrays that describe the gates and flip-flops of a netlist: the fields of `Netlist` with the same names."""

    tables: NDArray[np.uint64]
    inputs: NDArray[np.int32]
    outputs: NDArray[np.int32]
    state_tables: NDArray[np.uint64]
    state_inputs: NDArray[np.int32]
    states: NDArray[np.int32]


class _Queue(NamedTuple):
    """The gates and flip-flops that must be evaluated again because an input has changed, in a separate list for each
    `level` of the netlist. Flip-flops have the numbers after those of the gates.

    `readers[first[n] : first[n + 1]]`: the gates and flip-flops with net n as an input. `waiting`: 1 for each gate and
    flip-flop that is in the queue. The list of level k has `used[k]` entries; they are in `places` from index
    `starts[k]` on.
    """

    readers: NDArray[np.int32]
    first: NDArray[np.int32]
    level: NDArray[np.int16]
    waiting: NDArray[np.uint8]
    starts: NDArray[np.int32]
    used: NDArray[np.int32]
    places: NDArray[np.int32]


class _State(NamedTuple):
    """State of a simulation. `values`: values of nets, 0 or 1. `since`: for each net that is 1, the cycle in which it
    became 1. `upcoming`: next values of flip-flops. `moved`: number n of flip-flops that may toggle at the next clock
    edge, then their n indices.
    """

    values: NDArray[np.uint8]
    since: NDArray[np.int32]
    upcoming: NDArray[np.uint8]
    moved: NDArray[np.int64]


class _Memories(NamedTuple):
    """State and ports of the memories of a netlist. `storage`: the bits of all memories. `words`: the values that
    clocked read ports will output after the next clock edge. `versions`: number of writes to each memory.

    `reads`, `writes`, `at_once`: tables of the clocked read ports, of the write ports, and of the read ports without
    clock, with a row for each port. The constants from _MEMORY to _FRESH name the columns. `nets`: the nets of all
    ports; the tables have indices into it.
    """

    storage: NDArray[np.uint8]
    reads: NDArray[np.int64]
    writes: NDArray[np.int64]
    at_once: NDArray[np.int64]
    nets: NDArray[np.int32]
    words: NDArray[np.uint8]
    versions: NDArray[np.int64]


class _Ports(NamedTuple):
    """Bits of several ports, concatenated: `values` uint8 (cycles, bits), 0 or 1, and the net of each bit."""

    values: NDArray[np.uint8]
    nets: NDArray[np.int32]


class _Counts(NamedTuple):
    toggles: NDArray[np.int32]
    ones: NDArray[np.int32]
    reads: NDArray[np.int64]
    writes: NDArray[np.float64]


def _queue(netlist: Netlist) -> _Queue:
    """The queue at the start: all gates and flip-flops, since none has been evaluated."""
    gates, states = len(netlist.tables), len(netlist.states)
    at_once = [port for memory in netlist.memories for port in memory.reads if not port.clocked]
    driver = {int(net): g for g, net in enumerate(netlist.outputs)}
    level = np.zeros(gates + states, np.int16)
    pairs = list[tuple[int, int]]()
    for g, row in enumerate(netlist.inputs.tolist()):
        port = at_once[-1 - row[0]] if row[0] < 0 else None
        found = {net for net in (row if port is None else port.address.tolist()) if net > 1}
        pairs += [(net, g) for net in found]
        level[g] = 1 + max((level[driver[net]] for net in found if net in driver), default=-1)
        if port is not None:
            driver |= dict.fromkeys(port.data.tolist(), g)
    level[gates:] = level.max(initial=0) + 1
    for k, row in enumerate(netlist.state_inputs.tolist()):
        pairs += [(net, gates + k) for net in set(row) if net > 1]
    pairs.sort()
    by_net = np.array([net for net, _ in pairs], np.int64)
    sizes = np.bincount(level, minlength=2)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return _Queue(
        readers=np.array([reader for _, reader in pairs], np.int32),
        first=np.searchsorted(by_net, np.arange(netlist.nets + 1)).astype(np.int32),
        level=level,
        waiting=np.ones(gates + states, np.uint8),
        starts=starts.astype(np.int32),
        used=sizes.astype(np.int32),
        places=np.argsort(level, kind="stable").astype(np.int32),
    )


_MEMORY, _STORAGE, _WORDS, _SIZE, _ADDRESS, _BITS, _DATA, _ENABLE, _LAST, _SEEN, _FRESH = range(11)


def _all_nets(memories: tuple[MemoryBlock, ...]) -> list[NDArray[np.int32]]:
    found = list[NDArray[np.int32]]()
    for memory in memories:
        for port in memory.reads:
            found += [np.array([port.enable], np.int32), port.address, port.data]
        for port in memory.writes:
            found += [port.enable, port.address, port.data]
    return found


def _ports(
    memories: tuple[MemoryBlock, ...], starts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Makes three tables of memory ports: clocked read ports, write ports, and read ports without clock. A table is an
    array with a row for each port; the constants from _MEMORY to _FRESH name its columns.

    `memories`: all memories of the design. `starts`: for each memory, the index of its first bit in the array that
    stores the bits of all memories. The tables give nets as indices into the list from `_all_nets`.
    """
    reads, writes, at_once, at = list[list[int]](), list[list[int]](), list[list[int]](), 0
    for k, memory in enumerate(memories):
        head = [k, int(starts[k]), memory.words, memory.width]
        for port in memory.reads:
            bits = len(port.address)
            row = [*head, at + 1, bits, at + 1 + bits, at, -1, 0, 0]
            (reads if port.clocked else at_once).append(row)
            at += 1 + bits + memory.width
        for port in memory.writes:
            bits = len(port.address)
            writes.append([*head, at + memory.width, bits, at + memory.width + bits, at, 0, 0, 0])
            at += 2 * memory.width + bits
    found = [np.array(rows, np.int64).reshape(-1, 11) for rows in (reads, writes, at_once)]
    return found[0], found[1], found[2]


def _bits(ports: list[tuple[str, NDArray[np.int32]]], values: Mapping[str, NDArray[np.uint8]]) -> _Ports:
    """Collects the recorded bits of `ports`, pairs (name, nets of the port's bits). `values`: recorded bytes by port
    name, uint8 (cycles, bytes). Raises MismatchError for a port without recorded values.
    """
    cycles = len(next(iter(values.values())))
    parts = [np.zeros((cycles, 0), np.uint8)]
    for name, nets in ports:
        if name not in values:
            raise MismatchError(f"the netlist has the port {name}, which the RTL lacks")
        parts.append(np.unpackbits(values[name], axis=1, bitorder="little")[:, : len(nets)])
    return _Ports(
        np.ascontiguousarray(np.concatenate(parts, axis=1)),
        np.concatenate([np.zeros(0, np.int32), *(nets for _, nets in ports)]),
    )


@compiled(inline="always")
def _address(values, nets, row):  # type: ignore[no-untyped-def]
    found = 0
    for k in range(row[_BITS]):
        found |= np.int64(values[nets[row[_ADDRESS] + k]]) << k
    return found


@compiled(inline="always")
def _index(values, inputs, item):  # type: ignore[no-untyped-def]
    index = (
        values[inputs[item, 0]]
        | values[inputs[item, 1]] << 1
        | values[inputs[item, 2]] << 2
        | values[inputs[item, 3]] << 3
    )
    if inputs[item, 4]:
        index |= values[inputs[item, 4]] << 4 | values[inputs[item, 5]] << 5
    return np.uint64(index)


@compiled(inline="always")
def _set(net, new, cycle, queue, state, counts):  # type: ignore[no-untyped-def]
    """Sets the value of `net` to `new` (0 or 1) in `state`; if the value changes, counts a toggle in `counts` and adds
    the gates and flip-flops that read the net to `queue`. `cycle`: number of the current cycle of the run.
    """
    if state.values[net] == new:
        return
    state.values[net] = new
    counts.toggles[net] += 1
    if new:
        state.since[net] = cycle
    else:
        counts.ones[net] += cycle - state.since[net]
    for at in range(queue.first[net], queue.first[net + 1]):
        reader = queue.readers[at]
        if not queue.waiting[reader]:
            queue.waiting[reader] = 1
            level = queue.level[reader]
            queue.places[queue.starts[level] + queue.used[level]] = reader
            queue.used[level] += 1


@compiled()
def _read(memories, state, counts):  # type: ignore[no-untyped-def]
    """Counts the reads of a cycle in `counts`, and stores in `memories.words` the words that enabled clocked ports will
    output in the next cycle. A read counts if the address has changed since the port's last read. On a clocked port, a
    read also counts if the memory was written since the last read. So a port that stays enabled at one address counts
    once.
    """
    for p in range(len(memories.at_once)):
        row = memories.at_once[p]
        address = _address(state.values, memories.nets, row)
        if address != row[_LAST]:
            row[_LAST] = address
            counts.reads[row[_MEMORY]] += 1
    at = 0
    for p in range(len(memories.reads)):
        row = memories.reads[p]
        size = row[_SIZE]
        if state.values[memories.nets[row[_ENABLE]]]:
            address = _address(state.values, memories.nets, row)
            version = memories.versions[row[_MEMORY]]
            if address != row[_LAST] or version != row[_SEEN]:
                row[_LAST], row[_SEEN] = address, version
                row[_FRESH] = 1
                start = row[_STORAGE] + address * size
                for k in range(size):
                    memories.words[at + k] = memories.storage[start + k] if address < row[_WORDS] else 0
                counts.reads[row[_MEMORY]] += 1
        at += size


@compiled()
def _write(memories, state, counts):  # type: ignore[no-untyped-def]
    for p in range(len(memories.writes)):
        row = memories.writes[p]
        enabled, before, on = 0, -1, 0
        for k in range(row[_ENABLE], row[_ENABLE] + row[_SIZE]):
            net = memories.nets[k]
            if net != before:
                before, on = net, np.int64(state.values[net])
            enabled += on
        if not enabled:
            continue
        memories.versions[row[_MEMORY]] += 1
        address = _address(state.values, memories.nets, row)
        start, data, enable = row[_STORAGE] + address * row[_SIZE], row[_DATA], row[_ENABLE]
        if address < row[_WORDS]:
            for k in range(row[_SIZE]):
                if state.values[memories.nets[enable + k]]:
                    memories.storage[start + k] = state.values[memories.nets[data + k]]
        counts.writes[row[_MEMORY]] += enabled / row[_SIZE]


@compiled()
def _evaluate(gates, queue, state, memories, counts, cycle):  # type: ignore[no-untyped-def]
    """Computes the new values of all gates in `queue` in cycle number `cycle`, level by level, so that the inputs of a
    gate are final before it is evaluated, and adds the toggles to `counts`. The last level has the flip-flops, whose
    next values are stored in `state.upcoming`. Read ports of `memories` without a clock are evaluated among the gates.
    """
    count = len(gates.tables)
    for g in range(len(memories.at_once)):
        # The port's memory may have been written since the last cycle.
        for k in range(memories.at_once[g, _SIZE]):
            row = memories.at_once[g]
            address = _address(state.values, memories.nets, row)
            if address < row[_WORDS]:
                new = memories.storage[row[_STORAGE] + address * row[_SIZE] + k]
                _set(memories.nets[row[_DATA] + k], new, cycle, queue, state, counts)
    for level in range(len(queue.used)):
        at = 0
        start = queue.starts[level]
        while at < queue.used[level]:
            item = queue.places[start + at]
            at += 1
            queue.waiting[item] = 0
            if item < count and gates.inputs[item, 0] < 0:
                port = memories.at_once[-1 - gates.inputs[item, 0]]
                address = _address(state.values, memories.nets, port)
                for k in range(port[_SIZE]):
                    new = np.uint8(0)
                    if address < port[_WORDS]:
                        new = memories.storage[port[_STORAGE] + address * port[_SIZE] + k]
                    _set(memories.nets[port[_DATA] + k], new, cycle, queue, state, counts)
            elif item < count:
                index = _index(state.values, gates.inputs, item)
                new = np.uint8(gates.tables[item] >> index & np.uint64(1))
                net = gates.outputs[item]
                if state.values[net] != new:
                    _set(net, new, cycle, queue, state, counts)
            else:
                index = _index(state.values, gates.state_inputs, item - count)
                state.upcoming[item - count] = gates.state_tables[item - count] >> index & np.uint64(1)
        if level < len(queue.used) - 1:
            queue.used[level] = 0


@compiled()
def _run(  # type: ignore[no-untyped-def]
    gates, queue, state, memories, counts, given, expected, unchecked
):
    """Simulates all cycles with the inputs `given` and compares outputs with `expected`, except in the first
    `unchecked` cycles. Adds the activity to `counts`, and changes `queue`, `state` and `memories`. Ends at the first
    difference and returns its (cycle, net), cycles counted from 0; returns (-1, -1) if there is none.
    """
    last, count = len(queue.used) - 1, len(gates.tables)
    for net in range(len(state.values)):
        state.since[net] = 0
    for cycle in range(len(given.values)):
        # Flip-flops whose inputs changed in the previous cycle take their next values.
        for place in range(state.moved[0]):
            k = state.moved[1 + place]
            _set(gates.states[k], state.upcoming[k], cycle, queue, state, counts)
        at = 0
        for p in range(len(memories.reads)):
            row = memories.reads[p]
            if row[_FRESH]:
                row[_FRESH] = 0
                for k in range(row[_SIZE]):
                    _set(memories.nets[row[_DATA] + k], memories.words[at + k], cycle, queue, state, counts)
            at += row[_SIZE]
        for k in range(len(given.nets)):
            if state.values[given.nets[k]] != given.values[cycle, k]:
                _set(given.nets[k], given.values[cycle, k], cycle, queue, state, counts)
        _evaluate(gates, queue, state, memories, counts, cycle)
        state.moved[0] = queue.used[last]
        for place in range(queue.used[last]):
            state.moved[1 + place] = queue.places[queue.starts[last] + place] - count
        queue.used[last] = 0
        if cycle >= unchecked:
            for k in range(len(expected.nets)):
                if state.values[expected.nets[k]] != expected.values[cycle, k]:
                    return cycle, expected.nets[k]
        _read(memories, state, counts)
        _write(memories, state, counts)
    for net in range(len(state.values)):
        if state.values[net]:
            counts.ones[net] += len(given.values) - state.since[net]
    return -1, -1
