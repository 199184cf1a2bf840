"""Templates of the accelerator."""
