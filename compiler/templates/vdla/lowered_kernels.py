"""Kernels that were lowered before: equal layers of a network, and layers on machines that differ elsewhere."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from itertools import chain

from vdla.isa.config import Config

from ...codegen.vdla import intrinsics
from ...codegen.vdla.kept_drafts import KeptDrafts
from ...ir.expr import Const
from ...ir.stmt import Copy, Intrinsic, Program, Stmt
from ...ir.visit import map_stmt
from ...te.ops.common import CHAIN
from ...te.post import Post
from ..space import Values
from .table import template_of
from .template import Kernel, Source


class LoweredKernels:
    """Lowered programs by all that decides them; at most `most` are kept, those that were used last.

    `drafts` is what emission made of them.
    """

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self.drafts = KeptDrafts()
        self._kept: OrderedDict[Hashable, tuple[Program, Post, int]] = OrderedDict()

    @property
    def count(self) -> int:
        """How many are kept."""
        return len(self._kept)

    def find(self, key: Hashable, kernel: Kernel, config: Config) -> Program | None:
        """The program that was kept under a key, with the name and the constants of `kernel`."""
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
        """Keep the program of a kernel, whose post-processing is `post`."""
        if not isinstance(kernel.source, Source):
            raise ValueError("it is not known what decides this kernel's program")
        self._kept[key] = program, post, kernel.source.details.pad_value
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


def key_of(config: Config, kernel: Kernel, point: Values, virtual_threads: int) -> Hashable | None:
    """What decides the lowered program of a kernel, `config` being as kernels see it; None where that is not known.

    Names do not count, nor do the values of pads and the constants of post-processing where the template hands them on.
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
        (
            details.area,
            details.apart,
            details.planes,
            details.spread,
            details.taken,
            details.tiles,
            details.zero_points,
            constants,
            details.post is None,
            looks_up,
        ),
        tuple(chain.from_iterable(sorted(point.items()))),
        virtual_threads,
    )


def constants_of(kernel: Kernel) -> Hashable:
    """What a key may leave out of a kernel that has one."""
    assert isinstance(kernel.source, Source)
    return kernel.source.details.post, kernel.source.details.pad_value


def _with_constants(program: Program, config: Config, post: Post, pad_value: int) -> Program:
    """A program with the constants of another post-processing, and another value of its pads."""
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
