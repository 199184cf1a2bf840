"""Flattens a mapped netlist to arrays: gates in order of evaluation, flip-flops, memories, ports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..synthesis.cells.design import CellDesign, MappedModule
from ..synthesis.cells.mapping import Net
from ..synthesis.cells.memories import Macro
from ..synthesis.netlist import NetlistError, plain_path
from ..synthesis.units import unit_of_path
from .expressions import truth_table
from .liberty import Cell, Library

ZERO, ONE = 0, 1
"""Numbers of the two nets that have the constant values 0 and 1."""

MOST_INPUTS: Final = 6
"""Largest number of inputs of a gate: its truth table is a number of 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadPort:
    """Numbers of the nets of a memory's read port, lowest bit first. A `clocked` port samples its address at the clock
    edge if the net `enable` is 1; other ports show the addressed word in the same cycle.
    """

    clocked: bool
    enable: int
    address: NDArray[np.int32]
    data: NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WritePort:
    """Numbers of the nets of a memory's write port; `enable` has one net for each bit of `data`."""

    enable: NDArray[np.int32]
    address: NDArray[np.int32]
    data: NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryBlock:
    """A memory macro of `words` words of `width` bits, all 0 at the start. `path`: path of its instance; `unit`: the
    unit that contains it. A read in the cycle of a write to the same word returns the old word.
    """

    path: str
    unit: str
    words: int
    width: int
    reads: tuple[ReadPort, ...]
    writes: tuple[WritePort, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Netlist:
    """A flat netlist of `nets` nets; nets 0 and 1 are the constants, every other net has one driver.

    - Cells: `kinds` has the names of library cells; `kind` (n,) indexes `kinds` and `unit` (n,) indexes `units`. `pins`
      (n, most pins) has the net of each pin in the order of `pin_names[kind]`, inputs first, -1 for no pin; `names` has
      the path of each cell.
    - Gates, in order of evaluation: `tables` (m,) has truth tables, `inputs` (m, 6) and `outputs` (m,) have nets.
    - Memories: `memories`. Read ports without a clock are numbered from 0, over all memories. Port k is evaluated among
      the gates, at the row whose first input is -1 - k.
    - Flip-flops: `state_tables` has the truth table of the next state, `state_inputs` the nets that are the table's
      inputs, `states` the net of the state.
    - Ports: nets by name, lowest bit first.
    """

    nets: int
    kinds: tuple[str, ...]
    kind: NDArray[np.int32]
    unit: NDArray[np.int32]
    units: tuple[str, ...]
    pins: NDArray[np.int32]
    pin_names: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]
    tables: NDArray[np.uint64]
    inputs: NDArray[np.int32]
    outputs: NDArray[np.int32]
    state_tables: NDArray[np.uint64]
    state_inputs: NDArray[np.int32]
    states: NDArray[np.int32]
    memories: tuple[MemoryBlock, ...]
    input_ports: Mapping[str, NDArray[np.int32]]
    output_ports: Mapping[str, NDArray[np.int32]]


class _Flattener:
    """Collects the cells of all instances of a design and joins the nets that ports connect."""

    def __init__(self, design: CellDesign, library: Library) -> None:
        self.design, self.library = design, library
        # Union-find: each net has the number of itself or of an earlier net that is joined with it.
        self.same = [ZERO, ONE]
        self.numbers: dict[int, int] = {}
        self.cells: list[tuple[Cell, str, str, dict[str, int]]] = []
        self.memories: list[tuple[str, str, Macro, dict[str, list[int]]]] = []

    def find(self, net: int) -> int:
        """The number of the net that represents the group of joined nets to which `net` belongs."""
        while self.same[net] != net:
            self.same[net] = self.same[self.same[net]]
            net = self.same[net]
        return net

    def final(self, nets: Sequence[int]) -> NDArray[np.int32]:
        """The numbers of `nets` in the flat netlist, int32 (n,)."""
        return np.array([self.numbers[self.find(net)] for net in nets], np.int32)

    def bits(self, nets: dict[int, int], wanted: Sequence[Net]) -> list[int]:
        """Translates a connection `wanted`, bit by bit, to nets of this object. A bit in `wanted` is an integer (a net
        of the module) or a text (the constant 1 if it is "1", else 0). `nets` maps the module's nets to nets of this
        object; missing nets are added to it.
        """
        found: list[int] = []
        for bit in wanted:
            if isinstance(bit, str):
                found.append(ONE if bit == "1" else ZERO)
                continue
            if bit not in nets:
                nets[bit] = len(self.same)
                self.same.append(nets[bit])
            found.append(nets[bit])
        return found

    def instance(self, module: MappedModule, path: str, ports: Mapping[str, list[int]]) -> None:
        """Adds the cells of an instance of `module` at `path`; `ports`: for each port of the instance, the nets of this
        object at it.
        """
        unit = unit_of_path(plain_path(module.name).partition(".")[2])
        nets: dict[int, int] = {}
        for port, there in ports.items():
            for own, net in zip(self.bits(nets, module.ports[port]), there, strict=True):
                low, high = sorted((self.find(own), self.find(net)))
                if (low, high) == (ZERO, ONE):
                    raise NetlistError(f"{path}: the port {port} is connected to both 0 and 1")
                self.same[high] = low
        for item in module.instances:
            where = f"{path}.{item.name}" if path else item.name
            pins = {pin: self.bits(nets, bits) for pin, bits in item.pins.items()}
            if item.kind in self.design.modules:
                self.instance(self.design.modules[item.kind], where, pins)
            elif item.kind in self.design.macros:
                self.memories.append((where, unit, self.design.macros[item.kind], pins))
            elif item.kind in self.library.cells:
                one = {pin: bits[0] for pin, bits in pins.items() if bits}
                self.cells.append((self.library.cells[item.kind], unit, where, one))
            else:
                raise NetlistError(f"{where}: the library {self.library.name} has no cell {item.kind}")

    def memory(self, path: str, unit: str, macro: Macro, pins: Mapping[str, list[int]]) -> MemoryBlock:
        """The memory block, with net numbers of the flat netlist, for the macro at `path` in the unit named `unit`.
        `pins`: nets of this object at each pin of the macro.
        """

        def ports(key: str, count: int, size: int) -> list[NDArray[np.int32]]:
            found = self.final(pins[key])
            return [found[i * size : (i + 1) * size] for i in range(count)]

        bits, width, reads, writes = macro.address_bits, macro.width, macro.reads, macro.writes
        read = zip(
            ports("RD_EN", reads, 1),
            ports("RD_ADDR", reads, bits),
            ports("RD_DATA", reads, width),
            strict=True,
        )
        write = zip(
            ports("WR_EN", writes, width),
            ports("WR_ADDR", writes, bits),
            ports("WR_DATA", writes, width),
            strict=True,
        )
        return MemoryBlock(
            path=path,
            unit=unit,
            words=macro.words,
            width=width,
            reads=tuple(
                ReadPort(clocked=macro.clocked, enable=int(enable[0]), address=address, data=data)
                for enable, address, data in read
            ),
            writes=tuple(
                WritePort(enable=enable, address=address, data=data) for enable, address, data in write
            ),
        )


def flatten(design: CellDesign, library: Library) -> Netlist:
    """Flattens a design that is mapped to `library`. Raises NetlistError for a netlist that cannot be simulated: an
    unknown or refused cell, a cell with more than MOST_INPUTS inputs, a net with two drivers, a combinational loop.
    """
    flat = _Flattener(design, library)
    top = design.modules[design.top]
    ports = {name: flat.bits({}, range(len(nets))) for name, nets in top.ports.items()}
    flat.instance(top, "", ports)
    # Numbers the groups of joined nets consecutively.
    roots = {flat.find(net) for net in range(len(flat.same))}
    flat.numbers = {root: number for number, root in enumerate(sorted(roots))}
    inputs = {name: flat.final(nets) for name, nets in ports.items() if name in top.inward}
    outputs = {name: flat.final(nets) for name, nets in ports.items() if name not in top.inward}
    return _arrays(flat, inputs, outputs)


def _arrays(
    flat: _Flattener, inputs: dict[str, NDArray[np.int32]], outputs: dict[str, NDArray[np.int32]]
) -> Netlist:
    memories = tuple(flat.memory(*found) for found in flat.memories)
    cells = [
        (cell, unit, where, dict(zip(connected, flat.final(list(connected.values())).tolist(), strict=True)))
        for cell, unit, where, connected in flat.cells
    ]
    kinds = tuple(sorted({cell.name for cell, _, _, _ in cells}))
    units = tuple(sorted({unit for _, unit, _, _ in cells} | {memory.unit for memory in memories}))
    library = flat.library.cells
    pin_names = tuple((*library[kind].inputs, *library[kind].functions) for kind in kinds)
    index, unit_index = {k: i for i, k in enumerate(kinds)}, {u: i for i, u in enumerate(units)}
    pins = np.full((len(cells), max(map(len, pin_names), default=1)), -1, np.int32)
    gates: list[tuple[int, list[int], list[int]]] = []
    registers: list[tuple[int, list[int], int]] = []
    tables: dict[tuple[str, str], int] = {}
    for i, (cell, _, where, connected) in enumerate(cells):
        if cell.refused is not None:
            raise NetlistError(f"{where}: the cell {cell.name} cannot be simulated: {cell.refused}")
        for k, pin in enumerate(pin_names[index[cell.name]]):
            pins[i, k] = connected.get(pin, -1)
        found = [connected.get(pin, ZERO) for pin in cell.inputs]
        if len(found) > MOST_INPUTS:
            raise NetlistError(f"{where}: the cell {cell.name} has more than {MOST_INPUTS} inputs")
        for pin, function in cell.functions.items():
            if pin not in connected:
                continue
            register = cell.register
            if register is None:
                table = tables.setdefault((cell.name, pin), -1)
                if table < 0:
                    table = tables[cell.name, pin] = truth_table(function, cell.inputs)
                gates.append((table, found, [connected[pin]]))
                continue
            if function not in (register.state, register.inverse):
                raise NetlistError(
                    f"{where}: the output {pin} of the register {cell.name} is neither its state nor the inverted "
                    "state"
                )
            data = [pin for pin in cell.inputs if pin != register.clock]
            table = truth_table(register.next_state, data)
            if function == register.inverse:
                table ^= (1 << (1 << len(data))) - 1
            registers.append((table, [connected.get(pin, ZERO) for pin in data], connected[pin]))
    driven = [g[2][0] for g in gates] + [r[2] for r in registers]
    driven += [int(n) for m in memories for p in m.reads for n in p.data]
    driven += [int(net) for port in inputs.values() for net in port]
    net, drivers = max(Counter(driven).items(), key=lambda item: item[1], default=(0, 1))
    if drivers > 1:
        raise NetlistError(f"net {net} of the netlist has {drivers} drivers; a net must have one")
    if min(driven, default=2) < 2:
        raise NetlistError("a gate of the netlist drives a constant")
    # A read port that is not clocked is evaluated like a gate: it has a row whose first input encodes its number.
    at_once = [port for memory in memories for port in memory.reads if not port.clocked]
    gates += [(-1 - k, port.address.tolist(), port.data.tolist()) for k, port in enumerate(at_once)]
    order = _evaluation_order(gates)
    gates = [gates[i] for i in order]
    return Netlist(
        nets=len(flat.numbers), kinds=kinds, kind=np.array([index[c.name] for c, _, _, _ in cells], np.int32),
        unit=np.array([unit_index[u] for _, u, _, _ in cells], np.int32), units=units, pins=pins,
        pin_names=pin_names, names=tuple(where for _, _, where, _ in cells),
        tables=np.array([max(0, g[0]) for g in gates], np.uint64),
        inputs=_padded([g[1] if g[0] >= 0 else [g[0]] for g in gates]),
        outputs=np.array([g[2][0] for g in gates], np.int32),
        state_tables=np.array([r[0] for r in registers], np.uint64), state_inputs=_padded([r[1] for r in registers]),
        states=np.array([r[2] for r in registers], np.int32), memories=memories,
        input_ports=inputs, output_ports=outputs,
    )  # fmt: skip


def _padded(rows: list[list[int]]) -> NDArray[np.int32]:
    found = np.full((len(rows), MOST_INPUTS), ZERO, np.int32)
    for i, row in enumerate(rows):
        found[i, : len(row)] = row
    return found


def _evaluation_order(gates: list[tuple[int, list[int], list[int]]]) -> list[int]:
    """Indices of `gates`, each (truth table, inputs, outputs), in an order in which a gate comes after the gates that
    drive it. Raises NetlistError for a loop.
    """
    driver = {net: i for i, (_, _, driven) in enumerate(gates) for net in driven}
    readers: list[list[int]] = [[] for _ in gates]
    waits = [0] * len(gates)
    for i, (_, found, _) in enumerate(gates):
        for net in set(found):
            if net in driver:
                readers[driver[net]].append(i)
                waits[i] += 1
    order = [i for i, count in enumerate(waits) if not count]
    for i in order:
        for reader in readers[i]:
            waits[reader] -= 1
            if not waits[reader]:
                order.append(reader)
    if len(order) != len(gates):
        loop = next(i for i, count in enumerate(waits) if count)
        raise NetlistError(f"the netlist has a combinational loop through net {gates[loop][2][0]}")
    return order
