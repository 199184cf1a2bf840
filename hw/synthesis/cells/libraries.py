"""Finds the standard-cell library of a synthesis: a Liberty file by path, or the library of a Debian
package by name.
"""

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
"""Liberty files, by name, of the open libraries of Oklahoma State University for 180, 350 and 500 nm; the Debian
package of each is `qflow-tech-NAME`.
"""
DEFAULT: Final = "osu018"


def find_library(where: str | Path | None = None) -> Liberty:
    """The library named `where` in `DEBIAN`, or in the Liberty file at path `where`; by default osu018.

    Raises LibertyError for a file that cannot be read, and for a library of `DEBIAN` that is not installed; then the
    message names the package to install.
    """
    name = DEFAULT if where is None else str(where)
    path = DEBIAN.get(name, Path(name))
    if name in DEBIAN and not path.exists():
        raise LibertyError(
            f"the library {name} is not installed: install it (apt-get install qflow-tech-{name}), or name any "
            "Liberty file with --liberty FILE"
        )
    return _read(path)


@lru_cache(maxsize=4)
def _read(path: Path) -> Liberty:
    return read_liberty(path)
