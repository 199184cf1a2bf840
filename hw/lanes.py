"""Names of the Verilog modules shared by all lanes of the vector ALU."""

from typing import Final

ALU_LANE: Final = "alu_lane"
"""The arithmetic of a lane."""
ACCUMULATOR_LANE: Final = "accumulator_lane"
"""A lane: its operands, its arithmetic and its last results."""
