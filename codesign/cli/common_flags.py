"""Options that every command has (-q, -v, --import), old names of options, and --version, which needs no command."""

from __future__ import annotations

import os
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from .output import talk

ALIASES = {"--trace": "--timeline"}
"""Old names of options with their new names. Old names still work for commands that have the new option."""
COMPLETE = "_VDLA_COMPLETE"
"""Name of the environment variable with which a shell requests completions."""


def _be_quiet(context: typer.Context, given: bool) -> None:
    if given and not context.resilient_parsing:
        talk.quiet, talk.verbose = True, False


def _be_verbose(context: typer.Context, given: bool) -> None:
    if given and not context.resilient_parsing:
        talk.quiet, talk.verbose = False, True


def _print_version(context: typer.Context, given: bool) -> None:
    if given and not context.resilient_parsing:
        from vdla import __version__

        typer.echo(f"vdla {__version__}")
        raise typer.Exit(0)


def _import_modules(context: typer.Context, given: list[str]) -> None:
    if given and not context.resilient_parsing:
        from .imports import import_module_of_user

        for name in given:
            import_module_of_user(name)


ImportOption = Annotated[
    list[str],
    typer.Option(
        "--import",
        metavar="MODULE",
        callback=_import_modules,
        expose_value=False,
        is_eager=True,
        help="Import a Python module or file of yours first, with the custom instructions that a configuration names.",
    ),
]
QuietOption = Annotated[
    bool,
    typer.Option(
        "-q",
        "--quiet",
        callback=_be_quiet,
        expose_value=False,
        help="Print results and errors only, without progress and notes.",
    ),
]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "-v",
        "--verbose",
        callback=_be_verbose,
        expose_value=False,
        help="Print each step as a line, and all reasons.",
    ),
]
VersionOption = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
]


_DEFAULTS: dict[str, Any] = {"quiet": False, "verbose": False, "imports": ()}


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with the options -q, -v and --import added to its signature; their values are not passed to
    `command`.
    """
    hints = get_type_hints(command, include_extras=True)
    more = {"quiet": QuietOption, "verbose": VerboseOption, "imports": ImportOption}

    def run(**arguments: Any) -> None:
        command(**{name: value for name, value in arguments.items() if name not in more})

    parameters = [
        *(item.replace(annotation=hints[name]) for name, item in signature(command).parameters.items()),
        *(
            Parameter(name, Parameter.KEYWORD_ONLY, default=_DEFAULTS[name], annotation=hint)
            for name, hint in more.items()
        ),
    ]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {**hints, **more}
    run.__signature__ = Signature([item.replace(kind=Parameter.KEYWORD_ONLY) for item in parameters])  # type: ignore[attr-defined]
    return run


def before_a_command(
    version: VersionOption = False, quiet: QuietOption = False, verbose: VerboseOption = False
) -> None:
    """A toolkit for tensor accelerators: the cost of a network on an accelerator, its causes, and the effect of changes
    to the network or the hardware.
    """


class Command(TyperCommand):
    """A command that also accepts old names of its options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments after replacing the old names in `ALIASES` by new ones."""
        known = {name for parameter in self.params for name in parameter.opts}
        for place, word in enumerate(args):
            if word == "--":
                break
            name, equals, value = word.partition("=")
            if name in ALIASES and name not in known and ALIASES[name] in known:
                args[place] = ALIASES[name] + equals + value
        return super().parse_args(ctx, args)


def complete(command: Any) -> int | None:
    """Prints the completions that a shell requests (`vdla --show-completion`) and returns the exit code.

    None if no completions are requested.
    """
    asked = os.environ.get(COMPLETE)
    if not asked:
        return None
    from typer.completion import shell_complete

    return shell_complete(command, {}, "vdla", COMPLETE, asked)
