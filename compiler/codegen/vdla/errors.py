"""The error that code generation for the accelerator raises."""


class EmissionError(Exception):
    """Raised for a scheduled program that the instruction set cannot express, because its schedule has a bug."""
