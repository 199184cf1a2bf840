"""Measurements, most of them against peers: scripts that write the committed results; `harness` has what they share."""
