"""Drawings: for each operator a function that adds a random node of this operator to a graph."""
