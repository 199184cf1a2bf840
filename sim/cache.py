"""Compilation of this folder's code, and removal of compiled code that is older than its source.

numba's file cache notices a change of the function it holds, not of the functions that one calls, so after an
edit in one file of this folder the machine code of the others would go on using the old text.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from vdla.isa import timing
from vdla.util.machine_code import compiled

timing_code = compiled(_nrt=False, error_model="numpy", forceinline=True)
"""Decorator of the timing core. It allocates nothing, so its array views need no reference counts, which would
take two thirds of its time. Each function becomes part of `core.run`: called, they would pass up to 16 arrays of eight
words on the stack at every step, which takes half of the time."""


def discard_stale_code() -> None:
    """Delete the index files of numba beside this module that are older than any source here, or than one of `isa`."""
    folder, tables = Path(__file__).parent, Path(timing.__file__).parent
    newest = max(path.stat().st_mtime for path in (*folder.glob("*.py"), *tables.glob("*.py")))
    for index in (folder / "__pycache__").glob("*.nbi"):
        with suppress(OSError):  # another process may delete it first, or the folder be read-only
            if index.stat().st_mtime < newest:
                index.unlink()
