"""The commands of `vdla` by name, and how one is run."""

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
from .process import Stopped
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
"""click's UsageError, which newer versions of typer bring along themselves."""


def run_command(arguments: Sequence[str]) -> int:
    """Runs `vdla ARGUMENTS`; the exit code. Raises Stopped over a mistake of the user's."""
    talk.quiet = talk.verbose = False
    long_compilation.tell = note
    if (completed := complete(_command())) is not None:
        return completed
    try:
        # Not typer's own way to start, which turns KeyboardInterrupt and lost pipes into exit codes without a word, and
        # fills a box of several lines with a mistake in the arguments.
        with _command().make_context("vdla", list(arguments)) as context:
            _command().invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except CodeError:
        # No command takes schedules: the toolkit's own was wrong.
        raise
    except UserError as error:
        raise Stopped("\n".join(map(printable, error.lines)), 2) from None
    except OSError as error:
        # Those that stand for a file of the user's are told where it is written.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        place = printable(error.filename or tempfile.gettempdir())
        advice = "make room there, or let TMPDIR and XDG_CACHE_HOME name other places"
        raise Stopped(f"{place}: {error.strerror}; {advice}", 2) from None
    except _USAGE_ERROR as error:
        return _refuse_usage(error)
    return 0


@functools.cache
def _command() -> Any:
    """The commands with their options, which take typer longer to gather than many a command to run."""
    return typer.main.get_command(app)


def _refuse_usage(error: Exception) -> int:
    """Raises Stopped over arguments that cannot be read; without any, the help was printed and says enough."""
    message = str(getattr(error, "format_message", error.__str__)()).rstrip(".").replace("Value error, ", "")
    if not message:
        return 2
    context = getattr(error, "ctx", None)
    command = "vdla" if context is None else context.command_path
    raise Stopped(printable(f"{message}; `{command} --help` lists what there is"), 2) from None
