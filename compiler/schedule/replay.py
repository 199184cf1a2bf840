"""Replay: applies a trace (the recorded steps of a schedule) to a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..ir.stmt import IntrinsicDeclaration, Program
from .errors import LegalityError
from .schedule import Schedule
from .trace import Step, step_obstacle


def replay(
    program: Program, trace: Iterable[Step], intrinsics: Mapping[str, IntrinsicDeclaration] | None = None
) -> Schedule:
    """Applies a trace to a program; `intrinsics`: declarations by name for its tensorize steps.

    Raises LegalityError for an invalid step (`trace.step_obstacle`), a step that is not legal for this program, or a
    missing intrinsic.
    """
    schedule = Schedule(program)
    for step in trace:
        if (reason := step_obstacle(step)) is not None:
            raise LegalityError(f"the trace has an invalid step: {reason}", schedule.program, "")
        arguments: tuple[Any, ...] = step.arguments
        if step.primitive == "tensorize":
            name, intrinsic, attributes = arguments
            declaration = (intrinsics or {}).get(intrinsic)
            if declaration is None:
                reason = f"the trace uses the intrinsic {intrinsic}, which was not given"
                raise LegalityError(reason, schedule.program, name)
            arguments = name, declaration, attributes
        # A valid step has the name and the arguments of a method.
        getattr(schedule, step.primitive)(*arguments)
    return schedule
