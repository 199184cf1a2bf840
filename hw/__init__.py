"""The accelerator in Amaranth: RTL with the exact timing of hw/README.md, and the harness that runs programs on it."""
