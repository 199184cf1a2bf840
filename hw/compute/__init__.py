"""The compute unit: matrix array, accumulators, vector ALU and the control that begins and ends its instructions."""
