"""Event-driven cycle-exact simulator of the accelerator: runs a program for its results and timing, or timing alone."""

from .errors import CycleLimitError, DeadlockError, SimulationError
from .result import (
    DramCounts,
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
    "DramCounts",
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
