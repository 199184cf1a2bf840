"""The error of emission."""


class EmissionError(Exception):
    """Raised for a scheduled program that the instruction set cannot express, because its schedule has a bug."""
