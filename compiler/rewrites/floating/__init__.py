"""Rewrites of float graphs: fusion, layouts and the order of storage, in the order of `pipeline`."""
