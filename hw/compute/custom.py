"""Hardware of custom instructions: the component of one lane, checked against the interface of a lane."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from inspect import signature

from amaranth.hdl import Fragment
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.custom import AluInstruction
from vdla.isa.errors import ConfigError

from .alu import LANE

INTERFACE = wiring.Signature({"left": In(LANE), "right": In(LANE), "start": In(1), "result": Out(LANE)})
"""Members of a custom instruction's component; `isa.custom.AluInstruction` says when each is valid."""

_MEMBERS = "left and right, In(signed(32)); start, In(1); result, Out(signed(32))"


def component_of(instruction: AluInstruction) -> Callable[[], wiring.Component]:
    """A function that makes and returns the component of one lane for `instruction`. The function, not this call,
    raises ConfigError if the class `instruction.rtl` is no Amaranth component, cannot be made without arguments, raises
    an exception, or has other members than INTERFACE.
    """

    where = f"instruction {instruction.name}: {instruction.rtl.__qualname__}"

    def make() -> wiring.Component:
        if not issubclass(instruction.rtl, wiring.Component):
            raise ConfigError(
                f"{where} is not an amaranth.lib.wiring.Component; derive it from that class, with the members "
                f"{_MEMBERS}"
            )
        needed = [
            item.name for item in signature(instruction.rtl).parameters.values() if item.default is item.empty
        ]
        if needed:
            raise ConfigError(
                f"{where} needs the argument {needed[0]!r}; each lane creates its component without arguments"
            )
        try:
            made = instruction.rtl()
        except Exception as error:
            raise ConfigError(f"{where}() raises {type(error).__name__}: {error}") from error
        if made.signature != INTERFACE:
            with suppress(Exception):
                Fragment.get(made, None)  # Amaranth warns of components that were made and not elaborated.
            there = ", ".join(made.signature.members) or "no members"
            raise ConfigError(f"{where} has {there}; a lane needs the members {_MEMBERS}")
        return made

    return make
