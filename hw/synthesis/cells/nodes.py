"""The node of a library of cells, in nm: its maker's where that is known.

`sram.Scale`, which scales areas, uses another number: the node at which the smallest flip-flop of the Nangate library
would have this library's area. For the 180 nm library it is 207 nm.
"""

from __future__ import annotations

from typing import Final

MAKERS: Final = {"osu018_stdcells": 180, "osu035_stdcells": 350, "osu05_stdcells": 500}
"""Nanometres by name of the Liberty library: the libraries of Oklahoma State University (`libraries.DEBIAN`)."""


def node_text(library: str, scaled_nm: float) -> str:
    """The node of a library as text, such as "180 nm"; "about 65 nm", from `scaled_nm`, if the maker's node is not
    known.
    """
    return f"{MAKERS[library]} nm" if library in MAKERS else f"about {scaled_nm:.0f} nm"
