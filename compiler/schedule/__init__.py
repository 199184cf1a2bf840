"""Schedules: rewrites of loop programs that keep their meaning, checked for legality and recorded as traces."""

from .errors import LegalityError
from .replay import replay
from .schedule import Schedule
from .trace import Step, Trace
from .trace_json import (
    TraceError,
    format_trace,
    trace_from_json,
    trace_from_lists,
    trace_to_json,
    trace_to_lists,
)

__all__ = [
    "LegalityError",
    "Schedule",
    "Step",
    "Trace",
    "TraceError",
    "format_trace",
    "replay",
    "trace_from_json",
    "trace_from_lists",
    "trace_to_json",
    "trace_to_lists",
]
