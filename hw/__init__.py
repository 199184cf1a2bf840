"""The accelerator in Amaranth: RTL with the exact timing that hw/README.md specifies, and a harness that runs it."""
