"""Names of the Verilog modules that all lanes of the vector ALU share."""

from typing import Final

ALU_LANE: Final = "alu_lane"
"""Module of a lane's arithmetic."""
ACCUMULATOR_LANE: Final = "accumulator_lane"
"""Module of a lane: its operands, its arithmetic and its last results."""
