"""Schedules: rewrites of loop programs that keep their meaning, checked for legality and recorded as traces."""

from .errors import LegalityError
from .schedule import Schedule, Step, replay, trace_from_lists, trace_to_lists

__all__ = ["LegalityError", "Schedule", "Step", "replay", "trace_from_lists", "trace_to_lists"]
