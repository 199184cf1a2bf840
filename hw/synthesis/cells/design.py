"""A machine in standard cells: its mapped modules put together, with buffers between them.

    library = find_library()                           # or find_library("any.lib")
    design = map_design(config, library, report=print)
    text = netlist(design)                             # netlist.py: hierarchical Verilog

`design.modules` has every module once, `design.counts` how often the design has it. Instances of modules keep the names
and the places that they have in the RTL ("compute.pipeline.array"), so signals of the netlist are found by instance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from vdla.isa.config import Config

from ...verilog import TOP, generate_module
from ..tools import Report
from .liberty import Liberty, buffer_pins
from .mapping import Instance, MappedText, Net, map_modules
from .memories import OUTPUTS, Macro
from .modules import CanonicalModule, Module, bottom_up, canonical, instance_counts, split_modules

CLOCK = "clk"
"""The clock's port of every module: it gets no buffers, a clock tree is made with the layout."""


@dataclass(frozen=True, kw_only=True)
class MappedModule:
    """A module in cells. `ports` have their nets; `instances` are of the library's cells, of macros and of modules.

    `loads` is the capacitance that every bit of an input port is to its driver, `drives` the resistance of every
    output's bit, both in the library's units.
    """

    name: str
    ports: Mapping[str, Sequence[Net]]
    inward: frozenset[str]
    instances: tuple[Instance, ...]
    loads: Mapping[str, Sequence[float]]
    drives: Mapping[str, Sequence[float]]

    @cached_property
    def kinds(self) -> Counter[str]:
        """How many instances of every cell, macro and module it has of its own."""
        return Counter(item.kind for item in self.instances)


@dataclass(frozen=True, kw_only=True)
class CellDesign:
    """A whole design: `modules` by name, those inside others first; `counts` instances of each in the design."""

    top: str
    library: Liberty
    modules: Mapping[str, MappedModule]
    macros: Mapping[str, Macro]
    counts: Mapping[str, int]

    @cached_property
    def cells(self) -> Counter[str]:
        """All cells of the library that the design has, by kind."""
        total: Counter[str] = Counter()
        for name, module in self.modules.items():
            for kind, number in module.kinds.items():
                if kind in self.library.cells:
                    total[kind] += number * self.counts[name]
        return total


def map_design(config: Config, library: Liberty, *, report: Report) -> CellDesign:
    """The RTL of `config`, as it is co-simulated, in cells of `library`; memories are macros.

    Raises ToolError, NetlistError and LibertyError.
    """
    verilog = generate_module(config, report=report).text
    return map_verilog(verilog, library, top=TOP, report=report)


def map_verilog(verilog: str, library: Liberty, *, top: str, report: Report) -> CellDesign:
    """The same for generated Verilog whose top module is `top`."""
    modules = split_modules(verilog)
    order = bottom_up(top, modules)
    texts = {name: canonical(modules[name], modules) for name in order}
    mapped = map_modules(texts, library, report=report)
    macros: dict[str, Macro] = {}
    done: dict[str, MappedModule] = {}
    for name in order:
        macros |= mapped[name].macros
        done[name] = _Assembly(modules[name], texts[name], mapped[name], library, done, macros).module()
    return CellDesign(
        top=top, library=library, modules=done, macros=macros, counts=instance_counts(top, modules)
    )


@dataclass(slots=True)
class _Sink:
    """A bit of an instance's input: where it is, and what it loads its driver with."""

    instance: int
    pin: str
    bit: int
    load: float


class _Assembly:
    """One module, put together from what Yosys made of its canonical text."""

    def __init__(
        self,
        module: Module,
        text: CanonicalModule,
        mapped: MappedText,
        library: Liberty,
        done: Mapping[str, MappedModule],
        macros: Mapping[str, Macro],
    ) -> None:
        self._source, self._library, self._done, self._macros = module, library, done, macros
        self._ports = {text.original(port): list(nets) for port, nets in mapped.ports.items()}
        self._inward = frozenset(port.name for port in module.ports if port.inward)
        self._kinds: list[str] = []
        self._names: list[str] = []
        self._pins: list[dict[str, list[Net]]] = []
        for item in mapped.instances:
            kind, name = item.kind, f"g{len(self._names)}"
            pins = {pin: list(nets) for pin, nets in item.pins.items()}
            if kind not in library.cells:
                name = text.original(item.name)
                if kind not in macros:
                    kind = text.children[int(kind.removeprefix("child_"))]
                    pins = {text.original(pin): nets for pin, nets in pins.items()}
            self._add(kind, name, pins)
        nets = [net for pins in self._pins for bits in pins.values() for net in bits if isinstance(net, int)]
        nets += [net for bits in self._ports.values() for net in bits if isinstance(net, int)]
        self._next = max(nets, default=1) + 1

    def _add(self, kind: str, name: str, pins: dict[str, list[Net]]) -> None:
        self._kinds.append(kind)
        self._names.append(name)
        self._pins.append(pins)

    def module(self) -> MappedModule:
        """The module, with buffers where a net drives more than it may, and where a port is wired to a port."""
        self._buffer_ports()
        self._buffer_loads()
        sinks, drivers = self._sinks(), self._drivers()
        loads = {
            port: [sum(sink.load for sink in sinks.get(net, ())) for net in self._ports[port]]
            for port in self._ports
            if port in self._inward
        }
        drives = {
            port: [drivers.get(net, 0.0) for net in self._ports[port]]
            for port in self._ports
            if port not in self._inward
        }
        return MappedModule(
            name=self._source.name,
            # In the order of the Verilog's header.
            ports={port.name: tuple(self._ports[port.name]) for port in self._source.ports},
            inward=self._inward,
            instances=tuple(
                Instance(name=name, kind=kind, pins=pins)
                for name, kind, pins in zip(self._names, self._kinds, self._pins, strict=True)
            ),
            loads=loads,
            drives=drives,
        )

    def _load(self, kind: str, pin: str, bit: int) -> float | None:
        """The capacitance of an input; None for an output."""
        if (cell := self._library.cells.get(kind)) is not None:
            return cell.pins[pin].capacitance if cell.pins[pin].inward else None
        if kind in self._macros:
            return None if pin in OUTPUTS else macro_load(self._library)
        child = self._done[kind]
        return child.loads[pin][bit] if pin in child.inward else None

    def _sinks(self) -> dict[Net, list[_Sink]]:
        found: dict[Net, list[_Sink]] = {}
        for index, (kind, pins) in enumerate(zip(self._kinds, self._pins, strict=True)):
            for pin, nets in pins.items():
                for bit, net in enumerate(nets):
                    if isinstance(net, int) and (load := self._load(kind, pin, bit)) is not None:
                        found.setdefault(net, []).append(_Sink(index, pin, bit, load))
        return found

    def _drivers(self) -> dict[Net, float]:
        """The resistance of what drives a net; 0 for a port and for what has none."""
        found: dict[Net, float] = {}
        for kind, pins in zip(self._kinds, self._pins, strict=True):
            for pin, nets in pins.items():
                for bit, net in enumerate(nets):
                    if self._load(kind, pin, bit) is None:
                        found[net] = self._resistance(kind, pin, bit)
        return found

    def _resistance(self, kind: str, pin: str, bit: int) -> float:
        if (cell := self._library.cells.get(kind)) is not None:
            return cell.pins[pin].resistance
        return 0.0 if kind in self._macros else self._done[kind].drives[pin][bit]

    def _buffer_ports(self) -> None:
        """A buffer for every output that is wired to an input or to another output."""
        taken = {net for port in self._inward for net in self._ports[port]}
        for port, nets in self._ports.items():
            if port in self._inward:
                continue
            for bit, net in enumerate(nets):
                if net in taken and isinstance(net, int):
                    nets[bit] = self._buffered(net)
                taken.add(nets[bit])

    def _buffered(self, net: Net) -> int:
        """A new net behind a buffer that `net` drives."""
        new, self._next = self._next, self._next + 1
        into, out = buffer_pins(self._library.buffer)
        self._add(self._library.buffer.name, f"g{len(self._names)}", {into: [net], out: [new]})
        return new

    def _buffer_loads(self) -> None:
        """Trees of buffers between a net and the modules and macros that it drives, where it drives more than it may.

        Cells are left as they are: ABC has put buffers in front of them.
        """
        drivers = self._drivers()
        clock = set(self._ports.get(CLOCK, ()))
        may = self._library.may_drive(0.0)
        for net, sinks in self._sinks().items():
            if net in clock:
                continue
            limit = self._library.may_drive(drivers.get(net, 0.0))
            fixed = sum(sink.load for sink in sinks if self._kinds[sink.instance] in self._library.cells)
            moved = [sink for sink in sinks if self._kinds[sink.instance] not in self._library.cells]
            while len(moved) > 1 and fixed + sum(sink.load for sink in moved) > limit:
                moved = [self._behind_buffer(net, group) for group in _groups(moved, may)]

    def _behind_buffer(self, net: Net, sinks: Sequence[_Sink]) -> _Sink:
        new = self._buffered(net)
        for sink in sinks:
            self._pins[sink.instance][sink.pin][sink.bit] = new
        into = buffer_pins(self._library.buffer)[0]
        return _Sink(len(self._names) - 1, into, 0, self._library.buffer.pins[into].capacitance)


def _groups(sinks: Sequence[_Sink], most: float) -> list[list[_Sink]]:
    """`sinks` in order, as many in a group as load its driver with no more than `most`, and at least two."""
    groups: list[list[_Sink]] = [[]]
    load = 0.0
    for sink in sinks:
        if len(groups[-1]) > 1 and load + sink.load > most:
            groups.append([])
            load = 0.0
        groups[-1].append(sink)
        load += sink.load
    return groups


def macro_load(library: Liberty) -> float:
    """The capacitance of a macro's input: of two of the library's buffers."""
    return 2 * library.buffer.pins[buffer_pins(library.buffer)[0]].capacitance
