"""Exceptions for mistakes in configurations, instructions and programs."""

from vdla.util.errors import UserError


class ConfigError(UserError):
    """A configuration has values that are out of range or contradict each other."""


class EncodingError(UserError):
    """A value does not fit its field, or bits are no instruction."""


class ProgramError(UserError):
    """The static checker found errors in a program, or a program file is damaged or incomplete."""
