"""The technology node of a cell library in nm, as the library's maker states it or, if that is not known, an estimate.

The estimate is the node to which the Nangate 45 nm library must be scaled so that its smallest flip-flop is as large as
the smallest flip-flop of the library. `sram.Scale.node_nm` is this estimate for every library; for the 180 nm library
it is 207 nm.
"""

from __future__ import annotations

from typing import Final

MAKERS: Final = {"osu018_stdcells": 180, "osu035_stdcells": 350, "osu05_stdcells": 500}
"""Node in nm by name of the Liberty library, for the libraries of Oklahoma State University (`libraries.DEBIAN`)."""


def node_text(library: str, scaled_nm: float) -> str:
    """The node of the library named `library` as text: the maker's node, such as "180 nm", if it is known; otherwise
    the estimate `scaled_nm`, such as "about 65 nm".
    """
    return f"{MAKERS[library]} nm" if library in MAKERS else f"about {scaled_nm:.0f} nm"
