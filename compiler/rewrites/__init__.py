"""Rewrites of graphs: fusion, and preparation for a target. Each rewrite is a row of a table, keyed by operator."""
