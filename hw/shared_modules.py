"""Converts a component that has many equal instances to a single Verilog module.

Amaranth converts each component bit by bit, which takes more than a minute for the columns and lanes of a 64 x 64
machine. When Verilog is generated, Amaranth passes a `SharedModules` to all components as the platform, and `place`
makes instances of its modules. In simulations and proofs the platform is another one, and `place` adds the component
itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Value, ValueCastable, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In

_MODULE = re.compile(r"^module \\(\S+)$.*?^end$", re.MULTILINE | re.DOTALL)
_CELL = re.compile(r"^  cell \\(\S+) ", re.MULTILINE)
_NAME = re.compile(r"^(module \\|  cell \\)(\S+)", re.MULTILINE)

_DOMAIN = re.compile(r"^  wire width 1 input \d+ +\\(clk|rst)$", re.MULTILINE)

_C = TypeVar("_C", bound=wiring.Component)


class SharedModules:
    """The Verilog modules that many equal components of a design share. `texts`: the RTLIL text of each module, by
    name. `convert`: function that makes the text of a module from the first component that uses this name.
    """

    def __init__(self, convert: Callable[[wiring.Component, str, SharedModules], str]) -> None:
        self._convert = convert
        self._signatures: dict[str, wiring.Signature] = {}
        self.texts: dict[str, str] = {}

    def joined(self, text: str) -> str:
        """Returns the RTLIL `text` followed by all shared modules. In the result, the name of a shared module begins
        with the path of the module that contains its instances, as in "store.pipeline.row_lane". So tools can tell from
        the name which unit it belongs to. Raises ValueError if two modules contain instances of the same shared module.
        """
        around: dict[str, str] = {}
        for found in _MODULE.finditer("".join([text, *self.texts.values()])):
            for cell in set(_CELL.findall(found[0])) & self.texts.keys():
                if cell in around:
                    raise ValueError(
                        f"instances of module {cell} must be inside one module only, not in both {around[cell]} and "
                        f"{found[1]}"
                    )
                around[cell] = found[1]

        def placed(name: str) -> str:
            first = name.partition(".")[0]
            return f"{placed(around[first])}.{name}" if first in around else name

        return _NAME.sub(lambda found: found[1] + placed(found[2]), "".join([text, *self.texts.values()]))

    def instance(
        self, module: str, make: Callable[[], wiring.Component], inputs: Mapping[str, Value]
    ) -> tuple[Instance, object]:
        """Returns an instance of shared module `module`, and an object whose attributes are the signals at its ports.
        `inputs`: values to connect to ports, by port name. `make`: function that makes a component; it is called for
        the first instance, to generate the module's text.
        """
        if module not in self.texts:
            component = make()
            self._signatures[module] = component.signature
            self.texts[module] = self._convert(component, module, self)
        members = self._signatures[module].create()
        ports: dict[str, Value] = {}
        for port, flow, signal in flat_members(self._signatures[module], members):
            value = inputs.get(port, signal)
            if len(value) != len(signal):
                raise ValueError(f"{module}: {port} has {len(signal)} bits, {len(value)} are given")
            ports[f"{'i' if flow is In else 'o'}_{port}"] = value
        # A module without registers, as a custom instruction's may be, has neither clock nor reset.
        domain = {"clk": ClockSignal("sync"), "rst": ResetSignal("sync", allow_reset_less=True)}
        own = next(found[0] for found in _MODULE.finditer(self.texts[module]) if found[1] == module)
        there = _DOMAIN.findall(own)
        wires = {f"i_{name}": value for name, value in domain.items() if name in there}
        return Instance(module, **wires, **ports), members


def place(
    m: Module, platform: object, name: str, module: str, make: Callable[[], _C], **inputs: ValueLike
) -> _C:
    """Adds the component that `make` returns to `m`, as submodule `name`, and connects the component's inputs: `inputs`
    has a value for each, by member name and as wide as the member. Returns an object whose attributes are the other
    members.

    If `platform` is a `SharedModules`, an instance of the Verilog module `module` is added in place of the component;
    all components with the same module name must be equal. Values are connected to an instance's ports without signals
    in between, because Amaranth takes time for each bit of a signal.
    """
    values = {port: Value.cast(value) for port, value in inputs.items()}
    if not isinstance(platform, SharedModules):
        m.submodules[name] = component = make()
        m.d.comb += [Value.cast(getattr(component, port)).eq(value) for port, value in values.items()]
        return component
    m.submodules[name], members = platform.instance(module, make, values)
    return cast(_C, members)


def flat_members(signature: wiring.Signature, of: object) -> Iterable[tuple[str, wiring.Flow, Value]]:
    """Yields (name, direction, value) for each signal of the object `of`, whose interface is `signature`; a name is the
    path of the member, joined by underscores, such as "job_payload".
    """
    for path, member, value in signature.flatten(of):
        signal = value.as_value() if isinstance(value, ValueCastable) else value
        if isinstance(signal, Value):
            yield "_".join(map(str, path)), member.flow, signal
