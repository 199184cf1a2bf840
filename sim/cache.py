"""Drops compiled code that is older than the sources.

numba's file cache notices a change of the function it holds, not of the functions that one calls, so after an
edit in one file of this folder the machine code of the others would go on using the old text.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def discard_stale_code() -> None:
    """Delete numba's index files beside this module that are older than any source here."""
    folder = Path(__file__).parent
    newest = max(path.stat().st_mtime for path in folder.glob("*.py"))
    for index in (folder / "__pycache__").glob("*.nbi"):
        with suppress(OSError):  # another process may delete it first, or the folder be read-only
            if index.stat().st_mtime < newest:
                index.unlink()
