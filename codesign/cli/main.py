"""The entry point: gathers the commands and gives every outcome its exit code.

0 done; 1 a defect of the toolkit (with traceback), or a check against a reference that failed (in one line); 2 a
mistake in what the user handed in, told in one line; 3 a program that deadlocks or does not end; 130 interrupted.
"""

from __future__ import annotations

import functools
import io
import os
import sys
from collections.abc import Callable
from typing import cast

import typer
from vdla.isa.errors import UserError
from vdla.isa.printable import printable

from . import (
    bench,
    cosim,
    demo,
    describe,
    models,
    programs,
    quantize,
    rtl,
    simulate,
    synth,
    tune,
)
from .compile import compile_model
from .run import run

app = typer.Typer(
    name="vdla",
    help="What does a network cost on an accelerator, why, and what if either changes?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run)
app.command("compile")(compile_model)
app.command("quantize")(quantize.quantize)
app.command("tune")(tune.tune)
app.command("bench")(bench.bench)
app.command("demo")(demo.demo)
app.command("models")(models.models)
app.command("sim")(simulate.sim)
app.command("asm")(programs.asm)
app.command("disasm")(programs.disasm)
app.command("check")(programs.check)
app.command("isa")(describe.isa)
app.command("config")(describe.config)
app.command("rtl")(rtl.rtl)
app.command("synth")(synth.synth)
app.command("cosim")(cosim.cosim)

_USAGE_ERROR = cast(type[Exception], typer.BadParameter.__base__)
"""click's UsageError, which newer versions of typer bring along themselves."""


def main() -> None:
    """Runs the command line of this process and exits."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names hold letters that the encoding of a terminal may lack; standard error escapes them by itself.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        # Not standalone, where a mistake in the arguments would fill a box of several lines.
        sys.exit(_command()(prog_name="vdla", standalone_mode=False))
    except UserError as error:
        _stop(error, 2)
    except _USAGE_ERROR as error:
        _stop_usage(error)
    except KeyboardInterrupt:
        _stop("interrupted", 130)
    except BrokenPipeError:
        # The reader of our output went away (`vdla ... | head`); nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


@functools.cache
def _command() -> Callable[..., int | None]:
    """The commands with their options, which take typer longer to gather than many a command to run."""
    return typer.main.get_command(app)


def _stop(problem: object, code: int) -> None:
    sys.stdout.flush()
    print(f"error: {printable(problem)}", file=sys.stderr)
    sys.exit(code)


def _stop_usage(error: Exception) -> None:
    """Exits with 2 over arguments that cannot be read; without any, the help was printed and says enough."""
    message = str(getattr(error, "format_message", error.__str__)()).rstrip(".").replace("Value error, ", "")
    if not message:
        sys.exit(2)
    context = getattr(error, "ctx", None)
    command = "vdla" if context is None else context.command_path
    _stop(f"{message}; `{command} --help` says what there is", 2)
