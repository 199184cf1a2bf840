"""The technology node in nm of a library of cells, as its maker states it or, if that is not known, an estimate.

`sram.Scale`, which scales areas, uses another number: the node to which the Nangate library must be scaled so that its
smallest flip-flop is as large as the one of this library. For the 180 nm library this node is 207 nm.
"""

from __future__ import annotations

from typing import Final

MAKERS: Final = {"osu018_stdcells": 180, "osu035_stdcells": 350, "osu05_stdcells": 500}
"""Node in nm by name of the Liberty library, for the libraries of Oklahoma State University (`libraries.DEBIAN`)."""


def node_text(library: str, scaled_nm: float) -> str:
    """The node of a library as text, such as "180 nm"; if the maker's node is not known, for example "about 65 nm",
    from `scaled_nm`.
    """
    return f"{MAKERS[library]} nm" if library in MAKERS else f"about {scaled_nm:.0f} nm"
