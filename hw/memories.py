"""Attributes that free synthesis from guarantees for memories that the design does not need."""

from typing import Final

ANY_ON_COLLISION: Final = {"no_rw_check": 1}
"""Attribute of a memory with a synchronous read port, for Yosys: a read in the cycle of a write to the same word may
give any value. Without it Yosys adds logic that returns the old word to memories that do not: two registers for each
bit, and a multiplexer after the output, which is late already."""
