"""Attributes of memories for synthesis. They name behaviour on which the design does not rely, so that synthesis adds
no logic for it.
"""

from typing import Final

ANY_ON_COLLISION: Final = {"no_rw_check": 1}
"""Attribute of a memory with a synchronous read port, for Yosys: a read in the cycle of a write to the same word may
give any value. Without this attribute, Yosys adds logic so that the old word is returned: two registers for each bit,
and a multiplexer after the output, which comes late in the cycle anyway.
"""
