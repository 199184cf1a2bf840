"""Rewrites of graphs: fusion and preparation for a target, as rows keyed by operator."""
