"""Guarantees that synthesis need not give for memories."""

from typing import Final

ANY_ON_COLLISION: Final = {"no_rw_check": 1}
"""Attributes of a memory with a synchronous read port, for Yosys: a read of a word in the cycle in which it is written
may give anything. Without it Yosys keeps the old word beside memories that do not return it themselves: two registers
for every bit, and a multiplexer behind the output, which comes late already."""
