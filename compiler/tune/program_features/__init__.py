"""Features of programs for cost models, read from the lowered loop IR."""
