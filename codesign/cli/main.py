"""The entry point, and every exit code.

0 done; 1 a defect of the toolkit (with traceback), or a check against a reference that failed (in one line); 2 a
mistake in the user's input, or a standard output that cannot be written, in one line; 3 a program that deadlocks or
does not end; 141 the reader of the output went away; 130 interrupted, and in general 128 and the number of the signal
that ended the command.

This module imports only modules that Python has loaded by itself: until signals are handled, which `process` does
first, Ctrl-C would print a traceback.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line of this process and exits.

    A caller other than the program itself goes on afterwards: it keeps its signals and standard streams.
    """
    program = sys._getframe(1).f_globals.get("__name__") == "__main__"
    try:
        from .process import run_process

        code = run_process(program)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)
