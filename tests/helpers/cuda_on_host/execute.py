"""Kernels of a CUDA C++ text on numpy arrays: g++ makes a program of them, which runs in a process of its own."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from vdla.hw.user_cache import cached

from .text import host_text

_HERE = Path(__file__).parent
_FLAGS = (
    *("-std=c++20", "-O1", "-g1", "-w", "-fno-strict-aliasing", "-ffp-contract=off"),
    # Registers that nothing was written to hold 0xFE.
    "-ftrivial-auto-var-init=pattern",
    # What the hardware would trap, or silently do wrongly.
    "-fsanitize=address,alignment,bounds,signed-integer-overflow,integer-divide-by-zero,shift,null",
    "-fno-sanitize-recover=all",
)
_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0:print_legend=0:color=never",
    "UBSAN_OPTIONS": "print_stacktrace=0:color=never",
}


class HostRunError(Exception):
    """A kernel did what a GPU would not bear, or what no one may rely on; the message says what and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A pointer argument: `offset` bytes into an array."""

    array: str
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLaunch:
    """One launch: a kernel of the text, extents x, y, z, bytes of dynamic shared memory, arguments in order.

    An argument is an array's name, a place in one, or a number.
    """

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[str | Place | int | float, ...]
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparse:
    """An array of `bytes`, more than there is memory for: pieces by their first byte, zeros elsewhere."""

    bytes: int
    pieces: Mapping[int, np.ndarray]


def run_source(
    source: str,
    launches: Sequence[HostLaunch],
    arrays: Mapping[str, np.ndarray | Sparse],
    *,
    orders: int = 3,
    seconds: int = 60,
) -> dict[str, np.ndarray]:
    """All arrays as they are after the launches, one after the other; those given stay as they are.

    Of a sparse array the pieces that were given, one after the other.

    Everything is run in `orders` orders of blocks and threads: ascending, descending, then random ones, and must give
    the same bits. HostRunError for what goes wrong, UnknownText for text that has no model.
    """
    sparse = {
        name: array if isinstance(array, Sparse) else Sparse(bytes=array.nbytes, pieces={0: array})
        for name, array in arrays.items()
    }
    _check_bounds(source, launches)
    with tempfile.TemporaryDirectory(prefix="cuda_on_host") as folder:
        program = Path(folder) / "program"
        text = _program(source, launches, sparse, orders, seconds)
        _compile(["-I", _HERE, "-x", "c++", "-", "-x", "none", *_models(), "-o", program], text)
        data = b"".join(piece.tobytes() for array in sparse.values() for piece in array.pieces.values())
        ran = subprocess.run(
            [program], input=data, capture_output=True, timeout=4 * seconds, env=_ENVIRONMENT
        )
    if ran.returncode:
        raise HostRunError(_message(ran.stderr.decode(errors="replace"), source))
    results: dict[str, np.ndarray] = {}
    at = 0
    for name, array in sparse.items():
        taken = []
        for piece in array.pieces.values():
            taken.append(np.frombuffer(ran.stdout, piece.dtype, piece.size, at).reshape(piece.shape).copy())
            at += piece.nbytes
        results[name] = taken[0] if len(taken) == 1 else np.concatenate(taken)
    return results


def _models() -> list[Path]:
    """The compiled models, made once for a user and text."""
    sources = [_HERE / "block.cpp", _HERE / "ptx.cpp"]
    parts = [*_FLAGS, *(path.read_text() for path in sorted(_HERE.glob("*.[ch]pp")))]
    folder = cached(
        "cuda_on_host", hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20], _compile_models(sources)
    )
    return [folder / f"{source.stem}.o" for source in sources]


def _compile_models(sources: Sequence[Path]) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        folder.mkdir()
        for source in sources:
            _compile(["-c", source, "-o", folder / f"{source.stem}.o"])

    return build


def _compile(arguments: Sequence[str | Path], text: str = "") -> None:
    made = subprocess.run(["g++", *_FLAGS, *arguments], input=text, text=True, capture_output=True)
    if made.returncode:
        raise HostRunError(f"g++ does not take the text:\n{made.stderr[:4000]}")


def _program(
    source: str, launches: Sequence[HostLaunch], arrays: Mapping[str, Sparse], orders: int, seconds: int
) -> str:
    buffers = ", ".join(f'{{"{name}", {array.bytes}ull}}' for name, array in arrays.items())
    found = [
        f"{{{number}, {offset}ull, {piece.nbytes}ull}}"
        for number, array in enumerate(arrays.values())
        for offset, piece in array.pieces.items()
    ]
    calls = "\n".join(_call(launch, list(arrays)) for launch in launches)
    return f"""#include "cuda.hpp"
#include "ptx.hpp"
#line 1 "kernels.cu"
{host_text(source)}
#line 1 "launches"
static void launches(unsigned char** memory) {{
{calls}
}}
int main() {{
    const host::Buffer buffers[] = {{{buffers}}};
    const host::Piece pieces[] = {{{", ".join(found)}}};
    return host::run(buffers, {len(arrays)}, pieces, {len(found)}, {orders}, {seconds}, launches);
}}
"""


def _call(launch: HostLaunch, names: Sequence[str]) -> str:
    arguments = ", ".join(_argument(a, names) for a in launch.arguments)
    grid, block = (", ".join(map(str, extents)) for extents in (launch.grid, launch.block))
    return (
        f'    host::launch("{launch.function}", {{{grid}}}, {{{block}}}, {launch.shared_bytes}, '
        f"[=] {{ {launch.function}({arguments}); }});"
    )


def _argument(argument: str | Place | int | float, names: Sequence[str]) -> str:
    match argument:
        case str():
            return f"host::Pointer{{memory[{names.index(argument)}]}}"
        case Place(array=array, offset=offset):
            return f"host::Pointer{{memory[{names.index(array)}] + {offset}}}"
        case float():
            return f"{argument!r}f"
    return f"{argument}ll" if abs(argument) >= 2**31 else str(argument)


def _check_bounds(source: str, launches: Sequence[HostLaunch]) -> None:
    """HostRunError where a launch has more threads than the kernel's __launch_bounds__ allow."""
    bounds = {
        name: int(most)
        for most, name in re.findall(
            r"__launch_bounds__\s*\(\s*(\d+)[^)]*\)\s*(?:void\s+)?(\w+)\s*\(", source
        )
    }
    for launch in launches:
        threads = int(np.prod(launch.block))
        if threads > bounds.get(launch.function, 1024):
            raise HostRunError(
                f"{launch.function} is launched with {threads} threads, more than its __launch_bounds__"
            )


def _message(errors: str, source: str) -> str:
    """What a reader needs of the standard error: our own lines, or the sanitizer's with the lines of the kernel."""
    kept: list[str] = []
    for line in map(str.strip, errors.splitlines()):
        if line.startswith(("cuda_on_host: ", "in kernel")):
            kept.append(line.removeprefix("cuda_on_host: "))
        elif "use-after-poison" in line and "ERROR" in line:
            kept.append("memory outside of all arrays")
        elif found := re.search(
            r"ERROR: AddressSanitizer: (.*)|(\S+: runtime error: .*)|^((?:READ|WRITE) of size \d+)", line
        ):
            kept.append(next(filter(None, found.groups())))
        elif found := re.search(r"^#\d+ .*/(kernels\.cu:(\d+))", line):
            kept.append(f"{found[1]}: {source.splitlines()[int(found[2]) - 1].strip()}")
    return "\n".join(kept[:12]) or errors[:2000] or "the program ended without a word"
