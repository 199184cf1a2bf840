"""The node that a library of cells is named by: its maker's, wherever that is known.

What areas are scaled with (`sram.Scale`) is another number: the node at which the smallest flip-flop of the Nangate
library would have this library's area. Of the 180 nm library that comes to 207 nm.
"""

from __future__ import annotations

from typing import Final

MAKERS: Final = {"osu018_stdcells": 180, "osu035_stdcells": 350, "osu05_stdcells": 500}
"""Nanometres by name of the Liberty library: the libraries of Oklahoma State University (`libraries.DEBIAN`)."""


def node_text(library: str, scaled_nm: float) -> str:
    """The node of a library, as in "180 nm"; of one whose maker's node is not known "about 65 nm", by `scaled_nm`."""
    return f"{MAKERS[library]} nm" if library in MAKERS else f"about {scaled_nm:.0f} nm"
