"""Collects the lines that LiteDRAM's checker of timings prints while RTL runs in this process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator

_STDOUT = 1


@contextlib.contextmanager
def broken_rules() -> Iterator[list[str]]:
    """A context that yields a list. At the end of the context the list gets a line for each rule of a DRAM's timing
    that a program on LiteDRAM's RTL broke, as "[0000000000123456ps] ACT->PRE violation on bank 3".

    LiteDRAM's Verilog prints these lines to the standard output of the process, past Python's `sys.stdout`. Therefore
    the context redirects the file descriptor to a temporary file, and afterwards prints all other text of the file.
    """
    found: list[str] = []
    with tempfile.TemporaryFile() as file:
        _flush()
        kept = os.dup(_STDOUT)
        os.dup2(file.fileno(), _STDOUT)
        try:
            yield found
        finally:
            _flush()
            os.dup2(kept, _STDOUT)
            os.close(kept)
        file.seek(0)
        lines = file.read().decode(errors="replace").splitlines(keepends=True)
    found += [line.strip() for line in lines if "violation" in line]
    if rest := "".join(line for line in lines if "violation" not in line):
        os.write(_STDOUT, rest.encode())


def _flush() -> None:
    """Writes what Python and C have buffered for standard output."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
