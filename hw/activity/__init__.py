"""Switching activity of netlists mapped to library cells, and the power computed from it."""
