"""The standard-cell library of a synthesis: a Liberty file by path, or that of a Debian package."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ..liberty_syntax import LibertyError
from .liberty import Liberty, read_liberty

_QFLOW: Final = Path("/usr/share/qflow/tech")
DEBIAN: Final = MappingProxyType(
    {
        "osu018": _QFLOW / "osu018/osu018_stdcells.lib",
        "osu035": _QFLOW / "osu035/osu035_stdcells.lib",
        "osu050": _QFLOW / "osu050/osu05_stdcells.lib",
    }
)
"""Open libraries of Oklahoma State University for 180, 350 and 500 nm, by name; package `qflow-tech-NAME` of Debian."""
DEFAULT: Final = "osu018"


def find_library(where: str | Path | None = None) -> Liberty:
    """The library of the Liberty file at path `where`, or named `where` in `DEBIAN`; by default osu018.

    Raises LibertyError, in one line that says what to install.
    """
    name = DEFAULT if where is None else str(where)
    path = DEBIAN.get(name, Path(name))
    if name in DEBIAN and not path.exists():
        raise LibertyError(
            f"the library {name} is not installed: apt-get install qflow-tech-{name}, or --liberty FILE takes any "
            "Liberty file"
        )
    return _read(path)


@lru_cache(maxsize=4)
def _read(path: Path) -> Liberty:
    return read_liberty(path)
