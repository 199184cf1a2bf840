"""Measurements beside peers: scripts that write the committed results, and in `harness` what they share."""
