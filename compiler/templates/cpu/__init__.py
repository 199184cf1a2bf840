"""Templates of processors."""
