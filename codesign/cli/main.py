"""The entry point, and the list of all exit codes.

0 success; 1 a defect of the toolkit (with traceback), or a failed check against a reference (in one line); 2 a mistake
in the user's input, or a standard output that cannot be written, in one line; 3 a program that deadlocks or does not
end; 141 the reader of the output went away; 130 interrupted; in general 128 + the number of the signal that ended the
command.

This module imports only modules that Python itself has loaded already, so that its own import takes no time. The time
matters because Ctrl-C prints a traceback until `process`, as its first step, has set the signal handlers.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line of this process and exits.

    If another program calls this function, its signal handlers and standard streams are unchanged afterwards.
    """
    program = sys._getframe(1).f_globals.get("__name__") == "__main__"
    try:
        from .process import run_process

        code = run_process(program)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)
