"""The one exception family that stands for a mistake of the user, not of the toolkit."""


class UserError(Exception):
    """A mistake in something the user handed in: a file, a model, a configuration or a program.

    The message names the thing at fault (file, node, field or instruction) and the way out. The command
    line prints it in one line and exits with 2; a traceback never reaches the user.
    """
