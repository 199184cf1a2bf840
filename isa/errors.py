"""The one exception family that stands for a mistake of the user, not of the toolkit."""


class UserError(Exception):
    """A mistake in something the user handed in: a file, a model, a configuration or a program.

    The message names the thing at fault (file, node, field or instruction) and the way out. The command
    line prints it in one line and exits with 2; a traceback never reaches the user.
    """


class ConfigError(UserError):
    """A configuration whose values are out of range or contradict each other."""


class EncodingError(UserError):
    """A value that does not fit the field it is written to, or bits that are no instruction."""


class ProgramError(UserError):
    """A program that the static checker refuses or that a file does not hold whole."""
