"""The error of emission."""


class EmissionError(Exception):
    """A scheduled program that the instruction set cannot express, because of a bug of its schedule."""
