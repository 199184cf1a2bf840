"""Switching activity of mapped netlists, and the power that follows from it."""
