"""Names of the Verilog modules that all lanes of the vector ALU share."""

from typing import Final

ALU_LANE: Final = "alu_lane"
"""Name of the module for the arithmetic of a lane."""
ACCUMULATOR_LANE: Final = "accumulator_lane"
"""Name of the module for a whole lane: its operands, its arithmetic and its last results."""
