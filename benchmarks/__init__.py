"""Measurements beside peers: scripts that write the committed results, and in `harness` their common parts."""
