"""Errors that end a simulation before FINISH retires; the command line exits with 3."""

from __future__ import annotations

from vdla.util.errors import CodeError


class SimulationError(CodeError):
    """The program does not run to its end on this machine."""


class DeadlockError(SimulationError):
    """A run in which no event can happen any more; the message names every waiting unit, its instruction and the event
    it waits for.
    """


class CycleLimitError(SimulationError):
    """The run passed its cycle limit; the message names each unit's activity."""
