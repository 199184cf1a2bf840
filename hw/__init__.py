"""The accelerator in Amaranth: RTL that obeys hw/README.md to the cycle, and the harness that runs programs on it."""
