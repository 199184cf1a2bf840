"""Compilation of this folder's code, and removal of compiled code that is older than its source.

numba's file cache notices a change of a cached function, but not of the functions that it calls: after an edit in one
file of this folder, compiled code of other files would still contain the old version.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from vdla.isa import timing
from vdla.util.machine_code import compiled

timing_code = compiled(_nrt=False, error_model="numpy", forceinline=True)
"""Decorator of functions of the timing core. They allocate nothing, so array views need no reference counts, which
would take two thirds of the time. Each function is inlined into `core.run`: calls would pass up to 16 arrays of eight
words on the stack at every step, which takes half of the time.
"""


def discard_stale_code() -> None:
    """Deletes numba's index files beside this module that are older than any source in this folder or in `isa`."""
    folder, tables = Path(__file__).parent, Path(timing.__file__).parent
    newest = max(path.stat().st_mtime for path in (*folder.glob("*.py"), *tables.glob("*.py")))
    for index in (folder / "__pycache__").glob("*.nbi"):
        with suppress(OSError):  # Another process may delete the file first, or the folder may be read-only.
            if index.stat().st_mtime < newest:
                index.unlink()
