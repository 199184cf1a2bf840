"""Cache of lowered kernels, for equal layers and for machines that differ only in fields that kernels do not read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from itertools import chain

from vdla.isa.config import Config

from ...codegen.vdla import intrinsics
from ...codegen.vdla.program_order import EmissionCache
from ...ir.expr import Const
from ...ir.stmt import Copy, Intrinsic, Program, Stmt
from ...ir.visit import map_stmt
from ...te.ops.common import CHAIN
from ...te.post import Post
from ..columns import Values
from .template import Kernel, Source, template_of


class ScheduleCache:
    """Cache of the `most` last used lowered programs, by `key_of`. `drafts` caches their emitted instructions."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self.drafts = EmissionCache()
        self._kept: OrderedDict[Hashable, tuple[Program, Post, int]] = OrderedDict()

    @property
    def count(self) -> int:
        """The number of cached programs."""
        return len(self._kept)

    def find(self, key: Hashable, kernel: Kernel, config: Config) -> Program | None:
        """The cached program for a key, with the name and constants of `kernel` inserted; None if there is none."""
        found = self._kept.get(key)
        if found is None or not isinstance(kernel.source, Source):
            return None
        self._kept.move_to_end(key)
        program, post, pad_value = found
        details = kernel.source.details
        own = post if details.post is None else details.post
        if (own, details.pad_value) != (post, pad_value):
            program = _with_constants(program, config, own, details.pad_value)
        name = details.name or kernel.source.workload.template
        return program if program.name == name else replace(program, name=name)

    def keep(self, key: Hashable, kernel: Kernel, program: Program, post: Post) -> None:
        """Adds the program of `kernel` with post-processing `post`. Raises ValueError for kernels without `Source`."""
        if not isinstance(kernel.source, Source):
            raise ValueError("a kernel without a Source cannot be cached: keys are made from Sources")
        self._kept[key] = program, post, kernel.source.details.pad_value
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


def key_of(config: Config, kernel: Kernel, point: Values, virtual_threads: int) -> Hashable | None:
    """Cache key of a kernel's lowered program at `point` (knob values) with `virtual_threads` copies of the parameter
    table; None for kernels without a `Source` (arguments from which the tensor expression is built).

    `config`: reduced by `kernel_fields` to the fields that kernels read. The key leaves out names, and, for templates
    with `plain_constants`, pad values and post-processing constants.
    """
    source = kernel.source
    if not isinstance(source, Source):
        return None
    details, template = source.details, template_of(kernel.workload)
    constants = None
    if not template.plain_constants or template.name != source.workload.template:
        constants = (details.post, details.pad_value)
    looks_up = details.post is not None and details.post.table
    return (
        config,
        kernel.workload,
        source.workload,
        (replace(details, post=None, pad_value=0, name=None), constants, details.post is None, looks_up),
        tuple(chain.from_iterable(sorted(point.items()))),
        virtual_threads,
    )


def constants_of(kernel: Kernel) -> Hashable:
    """The constants of a kernel that its cache key may leave out: post-processing and pad value."""
    assert isinstance(kernel.source, Source)
    return kernel.source.details.post, kernel.source.details.pad_value


def _with_constants(program: Program, config: Config, post: Post, pad_value: int) -> Program:
    """The program with its constants replaced by those of post-processing `post` and pads of `pad_value`."""
    chained = any(buffer.name == "Y" and buffer.scope == CHAIN for buffer in program.parameters)
    declaration = intrinsics.post(config, post, chained=chained)
    attributes = intrinsics.post_attributes(post)

    def changed(statement: Stmt) -> Stmt:
        if isinstance(statement, Intrinsic) and statement.declaration.name == declaration.name:
            return replace(statement, declaration=declaration, attributes=attributes)
        if isinstance(statement, Intrinsic | Copy) and statement.pad is not None:
            return replace(statement, pad=Const(pad_value, statement.pad.dtype))
        return statement

    return map_stmt(program, changed)
