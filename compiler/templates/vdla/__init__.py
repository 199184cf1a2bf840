"""Schedule templates for the accelerator."""
