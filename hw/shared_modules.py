"""Components of which there are many alike: one Verilog module, many instances.

Amaranth makes a module of every component, bit by bit: a minute and more for the columns and the lanes of a 64 x 64
machine. While Verilog is generated, a `SharedModules` is the platform that Amaranth hands to every component, and
`place` makes instances; for simulation and proofs there is none, and `place` adds the component itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Value, ValueCastable
from amaranth.lib import wiring
from amaranth.lib.wiring import In

_C = TypeVar("_C", bound=wiring.Component)


class SharedModules:
    """The text of modules by name; `convert` makes it of the first component of each name."""

    def __init__(self, convert: Callable[[wiring.Component, str, SharedModules], str]) -> None:
        self._convert = convert
        self._signatures: dict[str, wiring.Signature] = {}
        self.texts: dict[str, str] = {}

    def instance(self, module: str, make: Callable[[], wiring.Component]) -> tuple[Instance, object]:
        """An instance of `module`, which `make` makes a component of, and the signals at its ports."""
        if module not in self.texts:
            component = make()
            self._signatures[module] = component.signature
            self.texts[module] = self._convert(component, module, self)
        members = self._signatures[module].create()
        ports = {
            f"{'i' if flow is In else 'o'}_{port}": signal
            for port, flow, signal in flat_members(self._signatures[module], members)
        }
        clock, reset = ClockSignal("sync"), ResetSignal("sync", allow_reset_less=True)
        return Instance(module, i_clk=clock, i_rst=reset, **ports), members


def place(m: Module, platform: object, name: str, module: str, make: Callable[[], _C]) -> _C:
    """Makes what `make` makes the submodule `name` of `m`; returns what has its members.

    Where `platform` is a `SharedModules`, the submodule is an instance of `module`: all that a design calls so must be
    alike.
    """
    if not isinstance(platform, SharedModules):
        m.submodules[name] = component = make()
        return component
    m.submodules[name], members = platform.instance(module, make)
    return cast(_C, members)


def flat_members(signature: wiring.Signature, of: object) -> Iterable[tuple[str, wiring.Flow, Value]]:
    """The signals of an interface by name, their paths joined by single underscores, and which way they go."""
    for path, member, value in signature.flatten(of):
        signal = value.as_value() if isinstance(value, ValueCastable) else value
        if isinstance(signal, Value):
            yield "_".join(map(str, path)), member.flow, signal
