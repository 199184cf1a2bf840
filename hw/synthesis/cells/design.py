"""Maps a machine to standard cells: puts the mapped modules together, with buffers between them.

    library = find_library()                           # or find_library("any.lib")
    design = map_design(config, library, report=print)
    text = netlist(design)                             # netlist.py: hierarchical Verilog

`design.modules` has each module once, `design.counts` the number of instances of each. Instances of modules have the
names and the hierarchy of the RTL ("compute.pipeline.array"), so that signals of the netlist can be found by instance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from vdla.isa.config import Config

from ...verilog import TOP, generate_module
from ..tools import Report
from .liberty import Liberty, buffer_pins
from .mapping import Instance, MappedText, Net, map_modules
from .memories import OUTPUTS, Macro
from .modules import (
    CanonicalModule,
    Module,
    bottom_up,
    canonical,
    instance_counts,
    split_modules,
    whole,
)

CLOCK = "clk"
"""Name of the clock port of all modules; it gets no buffers, because the clock tree is built with the layout."""


@dataclass(frozen=True, kw_only=True)
class MappedModule:
    """A module mapped to cells. `ports`: nets of each port. `inward`: names of the input ports. `boxes` (black boxes):
    instances of macros and modules. `buffers`: buffers added for ports and boxes. `text`: result of Yosys.

    `loads`: input capacitance of each bit of an input port; `drives`: output resistance of each bit of an output port;
    both in the library's units.
    """

    name: str
    ports: Mapping[str, Sequence[Net]]
    inward: frozenset[str]
    boxes: tuple[Instance, ...]
    buffers: tuple[Instance, ...]
    text: MappedText
    loads: Mapping[str, Sequence[float]]
    drives: Mapping[str, Sequence[float]]

    @cached_property
    def kinds(self) -> Counter[str]:
        """Number of instances of each kind directly in the module: cells, macros and modules."""
        return Counter(self.text.cells) + Counter(item.kind for item in (*self.boxes, *self.buffers))

    @cached_property
    def instances(self) -> tuple[Instance, ...]:
        """All instances directly in the module; cells are named g0, g1, ..."""
        cells = (*self.text.cell_instances(), *self.buffers)
        named = (Instance(name=f"g{i}", kind=cell.kind, pins=cell.pins) for i, cell in enumerate(cells))
        return (*self.boxes, *named)


@dataclass(frozen=True, kw_only=True)
class CellDesign:
    """A whole design, mapped to cells. `modules`: by name, inner modules before outer ones. `macros`: memories by name.
    `counts`: number of instances of each module in the design.
    """

    top: str
    library: Liberty
    modules: Mapping[str, MappedModule]
    macros: Mapping[str, Macro]
    counts: Mapping[str, int]

    @cached_property
    def cells(self) -> Counter[str]:
        """Number of instances of each cell of the library in the whole design."""
        total: Counter[str] = Counter()
        for name, module in self.modules.items():
            for kind, number in module.kinds.items():
                if kind in self.library.cells:
                    total[kind] += number * self.counts[name]
        return total


def map_design(config: Config, library: Liberty, *, report: Report) -> CellDesign:
    """Maps the RTL of `config` (the same RTL that co-simulation checks) to cells of `library`; memories of
    LEAST_MACRO_BITS bits or more become macros. `report` is called with lines that tell the progress.

    Raises ToolError if Yosys is missing or fails, NetlistError, and LibertyError if `library` has no buffer or
    inverter.
    """
    verilog = generate_module(config, report=report).text
    return map_verilog(verilog, library, top=TOP, report=report)


def map_verilog(verilog: str, library: Liberty, *, top: str, report: Report) -> CellDesign:
    """Maps the generated Verilog text `verilog` with top module `top` to cells of `library`, module by module. Memories
    of LEAST_MACRO_BITS bits or more become macros. `report` is called with lines that tell the progress. Raises
    ToolError, NetlistError and LibertyError.
    """
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


def map_flat(verilog: str, library: Liberty, *, top: str, report: Report) -> CellDesign:
    """Maps generated Verilog to cells of `library` as `map_verilog` does, but flattened to one module first, so that
    optimization works across modules; the result has only the module `top`. This takes many times as long as
    `map_verilog`, because no mapped module of another design can be taken from the cache. `report` is called with lines
    that tell the progress.
    """
    text = whole(top, verilog)
    mapped = map_modules({top: text}, library, flatten=True, report=report)[top]
    alone = replace(split_modules(verilog)[top], instances={})
    module = _Assembly(alone, text, mapped, library, {}, mapped.macros).module()
    return CellDesign(top=top, library=library, modules={top: module}, macros=mapped.macros, counts={top: 1})


@dataclass(slots=True)
class _Sink:
    """One bit of an input of a black box (macro or module) or of a buffer: `nets` of the input pin, index `bit`, and
    its capacitance `load`.
    """

    nets: list[Net]
    bit: int
    load: float


class _Assembly:
    """Assembles one module of the design from Yosys's mapping of the module's canonical text (its Verilog with
    renumbered names).
    """

    def __init__(
        self,
        module: Module,
        text: CanonicalModule,
        mapped: MappedText,
        library: Liberty,
        done: Mapping[str, MappedModule],
        macros: Mapping[str, Macro],
    ) -> None:
        self._source, self._mapped, self._library = module, mapped, library
        self._done, self._macros = done, macros
        self._ports = {text.original(port): list(nets) for port, nets in mapped.ports.items()}
        self._inward = frozenset(port.name for port in module.ports if port.inward)
        self._boxes: list[tuple[str, str, dict[str, list[Net]]]] = []
        for item in mapped.boxes:
            kind, pins = item.kind, {pin: list(nets) for pin, nets in item.pins.items()}
            if kind not in macros:
                kind = text.children[int(kind.removeprefix("child_"))]
                pins = {text.original(pin): nets for pin, nets in pins.items()}
            self._boxes.append((text.original(item.name), kind, pins))
        self._buffers: list[tuple[list[Net], list[Net]]] = []
        self._next = mapped.next_net

    def module(self) -> MappedModule:
        """Returns the assembled module. Adds buffers to nets whose load exceeds the limit of their driver, and to
        outputs that are connected directly to another port.
        """
        self._buffer_ports()
        self._buffer_boxes()
        sinks, drivers = self._sinks(), self._drivers()
        mapped, buffer = self._mapped, self._library.buffer
        loads = {
            port: [
                mapped.loads.get(net, 0.0) + sum(sink.load for sink in sinks.get(net, ()))
                if isinstance(net, int)
                else 0.0
                for net in self._ports[port]
            ]
            for port in self._ports
            if port in self._inward
        }
        drives = {
            port: [drivers.get(net, 0.0) for net in self._ports[port]]
            for port in self._ports
            if port not in self._inward
        }
        into, out = buffer_pins(buffer)
        return MappedModule(
            name=self._source.name,
            # The ports in the order of the Verilog's header.
            ports={port.name: tuple(self._ports[port.name]) for port in self._source.ports},
            inward=self._inward,
            boxes=tuple(Instance(name=name, kind=kind, pins=pins) for name, kind, pins in self._boxes),
            buffers=tuple(
                Instance(name="", kind=buffer.name, pins={into: before, out: behind})
                for before, behind in self._buffers
            ),
            text=mapped,
            loads=loads,
            drives=drives,
        )

    def _load(self, kind: str, pin: str, bit: int) -> float | None:
        """The capacitance of bit `bit` of an input pin of a black box of kind `kind`; None if the pin is an output."""
        if kind in self._macros:
            return None if pin in OUTPUTS else macro_load(self._library)
        child = self._done[kind]
        return child.loads[pin][bit] if pin in child.inward else None

    def _sinks(self) -> dict[Net, list[_Sink]]:
        """The inputs of black boxes (macros and modules) and of buffers on each net."""
        found: dict[Net, list[_Sink]] = {}
        for _, kind, pins in self._boxes:
            for pin, nets in pins.items():
                for bit, net in enumerate(nets):
                    if isinstance(net, int) and (load := self._load(kind, pin, bit)) is not None:
                        found.setdefault(net, []).append(_Sink(nets, bit, load))
        for before, _ in self._buffers:
            found.setdefault(before[0], []).append(_Sink(before, 0, buffer_load(self._library)))
        return found

    def _drivers(self) -> dict[Net, float]:
        """The output resistance of the driver of each net; nets of input ports are left out."""
        found: dict[Net, float] = {**self._mapped.drives}
        for _, kind, pins in self._boxes:
            for pin, nets in pins.items():
                for bit, net in enumerate(nets):
                    if self._load(kind, pin, bit) is None:
                        found[net] = 0.0 if kind in self._macros else self._done[kind].drives[pin][bit]
        for _, behind in self._buffers:
            found[behind[0]] = self._library.resistance(self._library.buffer)
        return found

    def _buffer_ports(self) -> None:
        """Adds a buffer for each output that is wired to an input or to another output."""
        taken = {net for port in self._inward for net in self._ports[port]}
        for port, nets in self._ports.items():
            if port in self._inward:
                continue
            for bit, net in enumerate(nets):
                if net in taken and isinstance(net, int):
                    nets[bit] = self._buffered(net)
                taken.add(nets[bit])

    def _buffered(self, net: Net) -> int:
        """Adds a buffer with input `net`; returns the net of its output."""
        new, self._next = self._next, self._next + 1
        self._buffers.append(([net], [new]))
        return new

    def _buffer_boxes(self) -> None:
        """Inserts trees of buffers between a net and the modules and macros that it drives, if the load exceeds the
        limit of the net's driver. Nets between cells stay unchanged: ABC has inserted their buffers.
        """
        drivers = self._drivers()
        clock = set(self._ports.get(CLOCK, ()))
        may = self._library.may_drive(0.0)
        for net, sinks in self._sinks().items():
            if net in clock or not isinstance(net, int):
                continue
            limit = self._library.may_drive(drivers.get(net, 0.0))
            fixed = self._mapped.loads.get(net, 0.0)
            while len(sinks) > 1 and fixed + sum(sink.load for sink in sinks) > limit:
                sinks = [self._behind_buffer(net, group) for group in _groups(sinks, may)]

    def _behind_buffer(self, net: Net, sinks: Sequence[_Sink]) -> _Sink:
        new = self._buffered(net)
        for sink in sinks:
            sink.nets[sink.bit] = new
        return _Sink(self._buffers[-1][0], 0, buffer_load(self._library))


def _groups(sinks: Sequence[_Sink], most: float) -> list[list[_Sink]]:
    """Splits `sinks`, in order, into groups whose total load is at most `most`, in the library's unit of capacitance;
    each group except the last has at least two members, even if these exceed `most`.
    """
    groups: list[list[_Sink]] = [[]]
    load = 0.0
    for sink in sinks:
        if len(groups[-1]) > 1 and load + sink.load > most:
            groups.append([])
            load = 0.0
        groups[-1].append(sink)
        load += sink.load
    return groups


def buffer_load(library: Liberty) -> float:
    """The input capacitance of the library's buffer, in the library's unit."""
    return library.buffer.pins[buffer_pins(library.buffer)[0]].capacitance


def macro_load(library: Liberty) -> float:
    """The input capacitance of a macro's pin, assumed to equal that of two buffers."""
    return 2 * buffer_load(library)
