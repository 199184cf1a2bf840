"""What memories need not do."""

from typing import Final

ANY_ON_COLLISION: Final = {"no_rw_check": 1}
"""Attributes of a memory with a synchronous read port, for Yosys: a read of a word in the cycle in which it is written
may give anything. Without it the old word is kept beside memories that do not keep it themselves: two registers
for every bit, and a multiplexer behind the output, which comes late already."""
