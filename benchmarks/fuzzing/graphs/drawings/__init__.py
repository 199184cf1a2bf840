"""Drawings: functions that add a random node of each operator."""
