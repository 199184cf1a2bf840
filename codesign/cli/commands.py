"""The commands of `vdla` by name, and the function that runs one."""

from __future__ import annotations

import errno
import functools
import tempfile
from collections.abc import Sequence
from typing import Any, cast

import typer

from vdla.util.errors import CodeError, UserError
from vdla.util.long_compilation import long_compilation
from vdla.util.printable import printable

from . import (
    advise,
    bench,
    compare,
    cosim,
    demo,
    describe,
    explore,
    models,
    programs,
    quantize,
    report,
    rtl,
    simulate,
    synth,
    tune,
)
from .common_flags import Command, before_a_command, complete, with_flags
from .compile import compile_model
from .output import note, talk
from .process import USER_ERROR, Stopped
from .run import run

app = typer.Typer(
    name="vdla",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(before_a_command)
_COMMANDS = {
    "run": run,
    "compile": compile_model,
    "quantize": quantize.quantize,
    "tune": tune.tune,
    "explore": explore.explore,
    "report": report.report,
    "compare": compare.compare,
    "advise": advise.advise,
    "bench": bench.bench,
    "demo": demo.demo,
    "models": models.models,
    "sim": simulate.sim,
    "asm": programs.asm,
    "disasm": programs.disasm,
    "check": programs.check,
    "isa": describe.isa,
    "config": describe.config,
    "rtl": rtl.rtl,
    "synth": synth.synth,
    "cosim": cosim.cosim,
}
for _name, _function in _COMMANDS.items():
    app.command(_name, cls=Command)(with_flags(_function))

_USAGE_ERROR = cast(type[Exception], typer.BadParameter.__base__)
"""click's class UsageError; newer versions of typer contain a copy of click."""


def run_command(arguments: Sequence[str]) -> int:
    """Runs `vdla ARGUMENTS` and returns the exit code. Raises Stopped for a user's mistake, and for a full disk."""
    talk.quiet = talk.verbose = False
    long_compilation.tell = note
    if (completed := complete(_command())) is not None:
        return completed
    try:
        # typer's own entry would turn KeyboardInterrupt and lost pipes into exit codes without a message, and would
        # print a mistake in the arguments as a box of several lines.
        with _command().make_context("vdla", list(arguments)) as context:
            _command().invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except CodeError:
        # Commands take no schedules from users: a schedule of the toolkit was wrong.
        raise
    except UserError as error:
        raise Stopped("\n".join(map(printable, error.lines))) from None
    except OSError as error:
        # Errors in writing a file of the user's are reported by the code that writes it.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        place = printable(error.filename or tempfile.gettempdir())
        advice = "free some space there, or set TMPDIR and XDG_CACHE_HOME to folders elsewhere"
        raise Stopped(f"{place}: {error.strerror}; {advice}") from None
    except _USAGE_ERROR as error:
        return _refuse_usage(error)
    return 0


@functools.cache
def _command() -> Any:
    """The click command of `vdla` with all subcommands and their options. The command is cached, because typer can take
    longer to collect the options of all subcommands than one subcommand takes to run.
    """
    return typer.main.get_command(app)


def _refuse_usage(error: Exception) -> int:
    """Raises Stopped with the message of `error`, which the parser of the arguments raised. If the command line has no
    arguments at all, typer has printed the help already; in this case, the function returns USER_ERROR.
    """
    message = str(getattr(error, "format_message", error.__str__)()).rstrip(".").replace("Value error, ", "")
    if not message:
        return USER_ERROR
    context = getattr(error, "ctx", None)
    command = "vdla" if context is None else context.command_path
    raise Stopped(printable(f"{message}; `{command} --help` lists arguments and options")) from None
