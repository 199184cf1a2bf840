"""Errors that end a simulation before FINISH retires; the command line exits with 3."""

from __future__ import annotations

from vdla.util.errors import CodeError


class SimulationError(CodeError):
    """Raised if the program does not run to its end."""


class DeadlockError(SimulationError):
    """Raised if no event can happen any more, and FINISH has not retired. The message names each waiting unit, its
    instruction and the event that it waits for.
    """


class CycleLimitError(SimulationError):
    """Raised if the run passes its cycle limit. The message names each unit's current instruction."""
