"""Table of all templates of the accelerator, by the name in a workload's `template`."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.isa.config import Config

from ..space import Space
from ..template import table_of
from .attention import ATTENTION
from .conv2d import CONV2D
from .depthwise import DEPTHWISE_CONV2D
from .normed import NORMED
from .patch_conv2d import PATCH_CONV2D
from .pool import AVERAGE_POOL, ELEMENTWISE, MAX_POOL
from .rolling_pool import PATCH_CONV2D_POOL
from .rows import ROWS
from .template import VdlaTemplate
from .workload import Workload

TEMPLATES: Mapping[str, VdlaTemplate] = table_of(
    CONV2D,
    PATCH_CONV2D,
    PATCH_CONV2D_POOL,
    DEPTHWISE_CONV2D,
    MAX_POOL,
    AVERAGE_POOL,
    ELEMENTWISE,
    ROWS,
    ATTENTION,
    NORMED,
)


def template_of(workload: Workload) -> VdlaTemplate:
    """The template of a workload."""
    return TEMPLATES[workload.template]


def space_of(config: Config, workload: Workload) -> Space:
    """The knob space of a workload on one machine; costs are cycles. Raises EmptySpaceError if no point can fit."""
    return template_of(workload).space(config, workload)
