"""Configuration registers as emission sees them: a CONFIG instruction only where a value really changes."""

from __future__ import annotations

from vdla.isa import layout

from .machine import MachineOp


class RegisterFile:
    """The values the units' registers will have at this point of the program (zero at launch)."""

    def __init__(self) -> None:
        self._values: dict[str, int] = {}

    def set(self, name: str, group: int, **fields: int) -> list[MachineOp]:
        """The CONFIG that gives register `name` these fields, or nothing if it has them already."""
        value = layout.register_value(name, **fields)
        if self._values.get(name, 0) == value:
            return []
        self._values[name] = value
        register = layout.register(name)
        fields = {"unit": int(register.unit), "register": register.index, "value": value}
        return [MachineOp("CONFIG", fields, group=group)]
