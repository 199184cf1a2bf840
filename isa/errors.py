"""Exceptions for mistakes in configurations, instructions and programs."""

from vdla.util.errors import UserError


class ConfigError(UserError):
    """Raised for a configuration with values that are out of range or contradict each other."""


class EncodingError(UserError):
    """Raised if a value does not fit its field, or if bits are no instruction."""


class ProgramError(UserError):
    """Raised if the static checker found errors in a program, or if a program file is damaged or incomplete."""
