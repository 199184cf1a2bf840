"""A scheduled kernel of the accelerator, and how its knobs were decided: by a record, or by its template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from vdla.isa.config import Config

from ...ir.stmt import Program
from ...schedule import Schedule
from ...te.post import Post
from ..space import Values
from .schedule import schedule_workload
from .tiling import Copies
from .workload import Workload

Choose = Callable[[Workload, str], Values | None]
"""The values of the knobs of a workload at the node of that name, a point of its space; None: the template decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Who decides at `node`: `choose` where it knows a workload, else the template, for so many virtual threads."""

    virtual_threads: int
    choose: Choose | None = None
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kernel:
    """A scheduled program, copies of its buffers (None: the virtual threads'), and what its parameters stand for."""

    schedule: Schedule
    tensors: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
    copies: Copies | None = None


def kernel_of(
    config: Config,
    workload: Workload,
    program: Program,
    post: Post,
    choice: Choice,
    tensors: Mapping[str, str],
    constants: Mapping[str, np.ndarray],
) -> Kernel:
    """The tensor expression `program` of a workload, with its own `post`, scheduled. Raises NoTileError."""
    values = None if choice.choose is None else choice.choose(workload, choice.node)
    schedule, copies = schedule_workload(config, workload, program, post, choice.virtual_threads, values)
    return Kernel(schedule=schedule, tensors=tensors, constants=constants, copies=copies)
