"""Exceptions for mistakes in configurations, instructions and programs."""

from vdla.util.errors import UserError


class ConfigError(UserError):
    """Raised for a configuration with values that are out of range or contradict each other."""


class EncodingError(UserError):
    """Raised if a value does not fit its field, if bits are no instruction, or if no instruction, field or register has
    a given name.
    """


class ProgramError(UserError):
    """Raised if a program has errors that the static checker or the reference finds, if its parts contradict each
    other, or if a program file is damaged or incomplete.
    """
