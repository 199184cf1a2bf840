"""Jobs to run (texts, launches and arrays), and the C++ program that runs them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .text import host_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A pointer argument: the address `offset` bytes after the beginning of `array`."""

    array: str
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor map for bulk copies: a dense array at `place` with this shape, element size in bytes, shape of the
    copied boxes, and swizzle of their rows.

    `rounds`: elements are float32 and are rounded to tf32.
    """

    place: Place
    element_bytes: int
    shape: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    rounds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLaunch:
    """One launch: the kernel's name, grid and block as (x, y, z), arguments in order, and bytes of dynamic shared
    memory.

    An argument is the name of an array, a position inside an array (`Place`), a tensor map, or a number.
    """

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[str | Place | Tensor | int | float, ...]
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparse:
    """An array of `bytes` bytes, too large for memory: its non-zero pieces by the offset of their first byte; all other
    bytes are zeros.
    """

    bytes: int
    pieces: Mapping[int, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A CUDA C++ text, its launches, which run one after the other, and the arrays that they use."""

    source: str
    launches: Sequence[HostLaunch]
    arrays: Mapping[str, np.ndarray | Sparse]

    @property
    def pieces(self) -> list[tuple[str, int, np.ndarray]]:
        """All data in order: (array's name, offset of the first byte, data)."""
        return [
            (name, offset, np.ascontiguousarray(piece))
            for name, array in self.arrays.items()
            for offset, piece in (array.pieces if isinstance(array, Sparse) else {0: array}).items()
        ]

    def too_many_threads(self) -> str | None:
        """The error message for a kernel that is launched with more threads than its __launch_bounds__ allow; None if
        there is no such launch.
        """
        pattern = r"__launch_bounds__\s*\(\s*(\d+)[^)]*\)\s*(?:void\s+)?(\w+)\s*\("
        bounds = {name: int(most) for most, name in re.findall(pattern, self.source)}
        for launch in self.launches:
            if np.prod(launch.block) > bounds.get(launch.function.rpartition(":")[2], 1024):
                return (
                    f"{launch.function} is launched as {launch.block}, more than its __launch_bounds__ allow"
                )
        return None


def program_text(jobs: Sequence[Job], orders: int, seconds: int) -> str:
    """The C++ text of a program that runs the jobs in order by `host::run`; each job's text is in a namespace of its
    own. `orders`: number of orders of threads; `seconds`: time limit of each job.
    """
    parts = ['#include "cuda.hpp"\n#include "ptx.hpp"']
    for number, job in enumerate(jobs):
        # The text begins in its own first line, for what names lines.
        parts.append(f'namespace job_{number} {{\n#line 1 "kernels_{number}.cu"\n{host_text(job.source)}\n}}')
        parts.append(f'#line 1 "launches_{number}"\n{_function(number, job)}')
    calls = "\n".join(f"    run_{number}({orders}, {seconds});" for number in range(len(jobs)))
    return "\n".join([*parts, "int main() {", "    host::begin();", calls, "}", ""])


def _function(number: int, job: Job) -> str:
    names = list(job.arrays)
    sizes = [array.bytes if isinstance(array, Sparse) else array.nbytes for array in job.arrays.values()]
    buffers = ", ".join(f'{{"{name}", {size}ull}}' for name, size in zip(names, sizes, strict=True))
    pieces = ", ".join(f"{{{names.index(n)}, {offset}ull, {p.nbytes}ull}}" for n, offset, p in job.pieces)
    calls = "\n".join(_launch(f"job_{number}", launch, names) for launch in job.launches)
    return f"""static void launches_{number}(unsigned char** memory) {{
{calls}
}}
static void run_{number}(unsigned orders, unsigned seconds) {{
    const host::Buffer buffers[] = {{{buffers}}};
    const host::Piece pieces[] = {{{pieces}}};
    host::run(buffers, {len(names)}, pieces, {len(job.pieces)}, orders, seconds, launches_{number});
}}"""


def _launch(namespace: str, launch: HostLaunch, names: Sequence[str]) -> str:
    arguments = ", ".join(_argument(a, names) for a in launch.arguments)
    grid, block = (", ".join(map(str, extents)) for extents in (launch.grid, launch.block))
    return (
        f'    host::launch("{launch.function}", {{{grid}}}, {{{block}}}, {launch.shared_bytes}, '
        f"[=] {{ {namespace}::{launch.function}({arguments}); }});"
    )


def _argument(argument: str | Place | Tensor | int | float, names: Sequence[str]) -> str:
    match argument:
        case Tensor(place=place, shape=shape, box=box):
            # Innermost first, as the hardware counts dimensions.
            sizes, boxes = (", ".join(map(str, reversed(extents))) for extents in (shape, box))
            numbers = f"{argument.element_bytes}, {argument.swizzle}, {int(argument.rounds)}, {len(shape)}"
            return (
                f"host::TensorMap{{{_argument(place, names)}.address, {numbers}, {{{sizes}}}, {{{boxes}}}}}"
            )
        case str():
            return f"host::Pointer{{memory[{names.index(argument)}]}}"
        case Place(array=array, offset=offset):
            return f"host::Pointer{{memory[{names.index(array)}] + {offset}}}"
        case float():
            return f"{argument!r}f"
    return f"{argument}ll" if abs(argument) >= 2**31 else str(argument)
