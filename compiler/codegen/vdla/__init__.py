"""Code generation for the accelerator: instructions, tokens, memory image."""
