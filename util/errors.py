"""The exception family that stands for a mistake of the user, not of the toolkit."""


class UserError(Exception):
    """A mistake in something the user handed in: a file, a model, a configuration or a program.

    The message names the thing at fault (file, node, field or instruction) and the way out. The command
    line prints it in one line and exits with 2; a traceback never reaches the user.
    """


class CodeError(UserError):
    """A mistake in Python code that uses the toolkit: in a schedule, a loop program, or a program that deadlocks.

    The toolkit schedules its own kernels with the same functions. An error of this class that leaves a command, or a
    kernel that no caller scheduled, is a defect of the toolkit: it keeps its traceback.
    """
