"""Placement of a kernel's buffers in shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.expr import Buffer
from ...ir.kernels import Kernel
from ...ir.stmt import Alloc, Stmt
from ...ir.visit import children
from .architectures import STATIC_SHARED_BYTES
from .bulk_copies import groups_needed, swizzled_buffers
from .dialect import Dialect
from .storage import SHARED_ALIGNMENT, buffer_bytes
from .text import Names

MBARRIER = 8
"""Bytes of an mbarrier, and its alignment in bytes (PTX ISA, "mbarrier")."""
_WORD = "unsigned long long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a buffer in shared memory: the buffer's C identifier, its byte offset, and whether other buffers use
    the same bytes before or after the buffer's lifetime (`reused`).
    """

    buffer: Buffer
    name: str
    offset: int
    reused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlan:
    """The places of all shared-memory buffers by name, their alignment, and the bytes that they take together.

    `groups` mbarriers follow the buffers, one for each group of bulk copies in flight. `arrived`: the C identifier of
    the array of mbarriers.
    """

    places: dict[str, Place]
    alignment: int
    bytes: int
    groups: int
    arrived: str

    @property
    def dynamic_bytes(self) -> int:
        """Bytes of dynamic shared memory of a launch; 0 if a static array suffices."""
        return self.bytes if self.bytes > STATIC_SHARED_BYTES else 0

    def declarations(self, dialect: Dialect) -> list[str]:
        """The lines at a kernel's beginning that declare the buffers."""
        if not self.places:
            return []
        own = not any(place.reused for place in self.places.values())
        if own and not self.dynamic_bytes:
            arrays = [(place.buffer, place.name) for place in self.places.values()]
            declared = dialect.shared_arrays(arrays, self.alignment)
            lines = [f"{line}{_shape(buffer)}" for line, (buffer, _) in zip(declared, arrays, strict=True)]
            if self.groups:
                lines.append(f"__shared__ alignas({MBARRIER}) {_WORD} {self.arrived}[{self.groups}];")
            return lines
        block = dialect.shared_dynamic if self.dynamic_bytes else dialect.shared_block
        lines = [block.format(alignment=self.alignment, bytes=self.bytes)]
        for p in self.places.values():
            pointer = dialect.pointer(dialect.type_of(p.buffer.dtype), "shared")
            lines.append(f"{pointer} const {p.name} = ({pointer})(shared + {p.offset});{_shape(p.buffer)}")
        if self.groups:
            offset = self.bytes - self.groups * MBARRIER
            lines.append(f"{_WORD}* const {self.arrived} = ({_WORD}*)(shared + {offset});")
        return lines


def _shape(buffer: Buffer) -> str:
    """A comment with the shape of a buffer, such as " // 4 x 32"; "" for a buffer of one dimension."""
    return f"  // {' x '.join(map(str, buffer.shape))}" if len(buffer.shape) > 1 else ""


def plan_shared(kernel: Kernel, names: Names, *, overlays: bool) -> SharedPlan:
    """Places for all buffers of scope "shared" in a kernel. `names` makes the buffers' C identifiers. `overlays`:
    buffers whose lifetimes do not overlap may use the same bytes (`Dialect.overlays`).

    A buffer lives for the body of its allocation, so the lifetimes of buffers allocated in sequence do not overlap.
    """
    found: list[tuple[Alloc, int, int]] = []
    swizzled = swizzled_buffers(kernel.body)
    alignments = {SHARED_ALIGNMENT}

    def visit(statement: Stmt, used: int) -> None:
        if isinstance(statement, Alloc) and statement.buffer.scope == "shared":
            buffer, alignment = statement.buffer, SHARED_ALIGNMENT
            if buffer.name in swizzled:
                alignment = max(alignment, 8 * buffer.shape[-1] * buffer.dtype.bits // 8)
                alignments.add(alignment)
            if not overlays:
                used = max((end for _, _, end in found), default=0)
            used = -(-used // alignment) * alignment
            end = used + -(-buffer_bytes(buffer) // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
            found.append((statement, used, end))
            used = end
        for child in children(statement):
            visit(child, used)

    visit(kernel.body, 0)
    places: dict[str, Place] = {}
    for alloc, start, end in found:
        buffer = alloc.buffer
        places[buffer.name] = Place(
            buffer=buffer,
            name=names.make(buffer.name),
            offset=start,
            reused=any(other is not alloc and a < end and start < b for other, a, b in found),
        )
    groups = groups_needed(kernel)
    return SharedPlan(
        places=places,
        alignment=max(alignments),
        bytes=max((end for _, _, end in found), default=0) + groups * MBARRIER,
        groups=groups,
        arrived=names.make("arrived") if groups else "",
    )
