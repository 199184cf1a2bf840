"""Runs the command `vdla` in a separate process."""

from __future__ import annotations

import sys
from pathlib import Path

ENTRY = (sys.executable, "-c", "from vdla.codesign.cli.main import main; main()")
"""The first words of a command line that starts `vdla`; the arguments follow."""


def size(path: Path) -> int:
    """Bytes of a file that a command writes; 0 if it does not exist yet."""
    return path.stat().st_size if path.exists() else 0
