"""Where a kernel's buffers lie in the memory that a block shares."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...ir.expr import Buffer
from ...ir.stmt import Alloc, Stmt
from ...ir.visit import children
from .architectures import STATIC_SHARED_BYTES
from .storage import SHARED_ALIGNMENT, buffer_bytes
from .text import TYPES, Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A buffer's C identifier, its first byte, and whether others lie in its bytes before it is allocated or after."""

    buffer: Buffer
    name: str
    offset: int
    reused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlan:
    """The places of all buffers by name, and the bytes that they take together."""

    places: dict[str, Place]
    bytes: int

    @property
    def dynamic_bytes(self) -> int:
        """What a launch must ask for: nothing as long as a static array does."""
        return self.bytes if self.bytes > STATIC_SHARED_BYTES else 0

    def declarations(self) -> list[str]:
        """The lines at a kernel's beginning that declare the buffers."""
        if not self.places:
            return []
        own = not any(place.reused for place in self.places.values())
        if own and not self.dynamic_bytes:
            return [
                f"__shared__ alignas({SHARED_ALIGNMENT}) {TYPES[p.buffer.dtype]} {p.name}[{prod(p.buffer.shape)}];"
                for p in self.places.values()
            ]
        # Of an extern array NVRTC takes no alignas at this place.
        head = f"__align__({SHARED_ALIGNMENT}) unsigned char shared"
        lines = [
            f"extern __shared__ {head}[];" if self.dynamic_bytes else f"__shared__ {head}[{self.bytes}];"
        ]
        for p in self.places.values():
            pointer = f"{TYPES[p.buffer.dtype]}*"
            lines.append(f"{pointer} const {p.name} = ({pointer})(shared + {p.offset});")
        return lines


def plan_shared(body: Stmt, names: Names) -> SharedPlan:
    """Places for all buffers of scope "shared" in a kernel's body; those whose lifetimes do not meet may share bytes.

    Buffers live for the body of their allocation, so those that are allocated side by side follow one another in
    time.
    """
    found: list[tuple[Alloc, int, int]] = []

    def visit(statement: Stmt, used: int) -> None:
        if isinstance(statement, Alloc) and statement.buffer.scope == "shared":
            end = used + -(-buffer_bytes(statement.buffer) // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
            found.append((statement, used, end))
            used = end
        for child in children(statement):
            visit(child, used)

    visit(body, 0)
    places: dict[str, Place] = {}
    for alloc, start, end in found:
        buffer = alloc.buffer
        places[buffer.name] = Place(
            buffer=buffer,
            name=names.make(buffer.name),
            offset=start,
            reused=any(other is not alloc and a < end and start < b for other, a, b in found),
        )
    return SharedPlan(places=places, bytes=max((end for _, _, end in found), default=0))
