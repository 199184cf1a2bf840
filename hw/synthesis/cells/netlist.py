"""Writes structural Verilog of a mapped design, for simulators and the timing tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..netlist import NetlistError
from .design import CellDesign, MappedModule
from .mapping import Net
from .memories import behaviour
from .modules import written


def netlist(design: CellDesign, *, memories: bool = True) -> str:
    """Verilog of all modules, the top module last. With `memories`, models of the memory macros come first; models of
    cells are in the library's own Verilog.

    Modules, ports and instances have the names of the RTL, with an underscore for each character that is no letter or
    digit.
    """
    parts = [behaviour(macro) for macro in design.macros.values()] if memories else []
    return "\n".join([*parts, *(module_text(module, design) for module in design.modules.values())])


def plain_name(name: str) -> str:
    """Converts `name`, the name of a module, port or instance, to the name that the netlist uses: other characters than
    letters and digits become underscores.
    """
    return re.sub(r"\W", "_", name)


def module_text(
    module: MappedModule, design: CellDesign, *, stub: Callable[[MappedModule], str] | None = None
) -> str:
    """Verilog of one module of `design`. With `stub`, only the first of several equal instances of an inner module is
    written as it is. Each further instance becomes an instance of the cell whose name `stub` returns for that module.
    """
    names = {port: written(plain_name(port)) for port in module.ports}
    if len(set(names.values())) != len(names):
        raise NetlistError(f"{module.name}: two of its ports would have the same name in a netlist")
    lines = [f"module {plain_name(module.name)} ({', '.join(names.values())});"]
    nets: dict[Net, str] = {"0": "1'b0", "1": "1'b1"}
    assigned: list[str] = []
    # A net at a port has the name of the port's bit, of an input if possible: outputs wired to inputs have buffers.
    for port in sorted(module.ports, key=lambda port: port not in module.inward):
        bits = module.ports[port]
        way = "input" if port in module.inward else "output"
        size = f"[{len(bits) - 1}:0] " if len(bits) > 1 else ""
        lines.append(f"  {way} {size}{names[port]};")
        for bit, net in enumerate(bits):
            place = f"{names[port]}[{bit}]" if len(bits) > 1 else names[port]
            if isinstance(net, str):
                assigned.append(f"  assign {place} = {nets[net]};")
            else:
                nets[net] = place
    own: set[int] = set()
    seen: set[str] = set()
    instances: list[str] = []
    for item in module.instances:
        pins: list[str] = []
        known = design.modules.get(item.kind)
        for pin, bits in item.pins.items():
            own.update(net for net in bits if isinstance(net, int) and net not in nets)
            pins.append(f".{written(plain_name(pin))}({_joined(bits, nets)})")
        kind = plain_name(item.kind) if known is not None else item.kind
        if known is not None and stub is not None:
            if item.kind in seen:
                kind = stub(known)
            seen.add(item.kind)
        instances.append(f"  {written(kind)} {written(plain_name(item.name))} ({', '.join(pins)});")
    lines += [f"  wire n{net};" for net in sorted(own)]
    return "\n".join([*lines, *assigned, *instances, "endmodule", ""])


def _joined(bits: Sequence[Net], nets: dict[Net, str]) -> str:
    """Verilog expression of the nets `bits`, which are given lowest bit first. `nets`: the expressions of constants and
    of nets at ports; a net n that is not in `nets` is called "n" and its number.
    """
    names = [nets.get(net) or f"n{net}" for net in reversed(bits)]
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"
