"""Features of programs, read from their lowered loop IR."""
