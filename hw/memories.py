"""Attributes of memories for synthesis. They name behaviour on which the design does not rely, so that synthesis adds
no logic for it.
"""

from typing import Final

ANY_ON_COLLISION: Final = {"no_rw_check": 1}
"""Attribute for Yosys of a memory with a synchronous read port. It says that a read may return any value if the same
word is written in the same cycle. Without it, Yosys adds logic that returns the old word: two registers for each bit,
and a multiplexer behind the memory's output, which would lengthen a path that is long already.
"""
