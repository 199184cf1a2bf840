"""Errors that end a simulation before FINISH retires; the command line exits with 3."""

from __future__ import annotations

from vdla.util.errors import CodeError


class SimulationError(CodeError):
    """The program does not run to its end on this machine."""


class DeadlockError(SimulationError):
    """Nothing can move any more; the message names every waiting unit, its instruction and what it waits for."""


class CycleLimitError(SimulationError):
    """The run passed its cycle limit; the message names each unit's activity."""
