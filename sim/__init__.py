"""Event-driven cycle-exact simulator: results and timing of a program, or its timing alone (see hw/README.md)."""

from .errors import CycleLimitError, DeadlockError, SimulationError
from .result import (
    SimulationResult,
    Timeline,
    Traffic,
    UnitCounters,
    compute_timeline,
    cycles_by_category,
    timeline,
)
from .simulate import simulate
from .timeline import BUSY_CATEGORIES, CATEGORIES

__all__ = [
    "BUSY_CATEGORIES",
    "CATEGORIES",
    "CycleLimitError",
    "DeadlockError",
    "SimulationError",
    "SimulationResult",
    "Timeline",
    "Traffic",
    "UnitCounters",
    "compute_timeline",
    "cycles_by_category",
    "simulate",
    "timeline",
]
