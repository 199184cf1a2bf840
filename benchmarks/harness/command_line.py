"""The command lines of the scripts in benchmarks/: the arguments that several of them take, one parser, one runner.

A script lists its arguments in OPTIONS, has a function `main` that gets their values, and ends with

    if __name__ == "__main__":
        run_script(__doc__, OPTIONS, main)
"""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vdla.codesign.cli.process import READER_GONE
from vdla.codesign.cli.streams import OutputLostError, guard_streams
from vdla.util.errors import CodeError, UserError


@dataclass(frozen=True, slots=True)
class Option:
    """One argument of a script: an option if its name begins with dashes, else a positional argument.

    The fields from `type` to `metavar`, and `required`, have the meaning that argparse gives them. A `flag` has no
    value and is true if it is given; a `repeated` option may be given several times and collects its values. At most
    one option of a `group` may be given. A value must be at least `least`, and must be one of `known` unless `known` is
    empty; error messages call it a `kind`. With a `part` option, which selects some of the rows, results cannot be
    written, because a file of results must have all rows.
    """

    name: str
    help: str
    type: Callable[[str], Any] | None = None
    default: Any = None
    nargs: str | None = None
    choices: Collection[str] | None = None
    metavar: str | None = None
    required: bool = False
    flag: bool = False
    repeated: bool = False
    group: str = ""
    least: int | None = None
    known: Sequence[str] = ()
    kind: str = ""
    part: bool = False

    def but(self, **changes: Any) -> Option:
        """A copy of the option with some fields changed."""
        return replace(self, **changes)

    @property
    def key(self) -> str:
        """Name of the attribute of `Given` that holds the option's value after parsing."""
        return self.name.lstrip("-").replace("-", "_")


def names_of(known: Iterable[str], kind: str) -> Option:
    """An option for the names of the computations or models that a script measures: positional arguments, each one of
    `known`; by default all. Error messages call a name a `kind`.
    """
    known = tuple(known)
    about = f"names from {', '.join(known)} (default: all)"
    return Option("names", about, nargs="*", metavar="NAME", known=known, kind=kind)


AGAIN = Option("--again", "measure again the rows that the results file has", flag=True)
CHECK = Option("--check", "write nothing; exit with 1 if anything differs", flag=True)
CONFIG = Option("--config", "machine: a preset or a TOML file", default="vta")
COUNT = Option("--count", "number of random draws", int)
DESIGNS = Option("--designs", "number of machines to evaluate", int)
FOLDER = Option("--folder", "folder of the study; records in it are reused", Path, metavar="DIR")
JOBS = Option("--jobs", "number of processes that run at the same time", int, 2)
JSON = Option("--json", "print the figures as JSON", flag=True)
LAYERS = Option("--layers", "measure only these layers", nargs="+", metavar="NAME")
LIBERTY = Option(
    "--liberty", "cell library: its file or its name (default: the default library)", metavar="FILE|NAME"
)
ONLY = Option("--only", "measure only the rows with these names", nargs="*", default=(), metavar="NAME")
POINTS = Option("--points", "number of random legal points of each space", int)
PROGRAMS = Option("--programs", "number of random programs", int)
RUNS = Option("--repeat", "number of runs; results are their medians", int)
ROUNDS = Option(
    "--rounds", "number of rounds, in each of which every row is measured once; results are medians", int
)
SAMPLES = Option("--samples", "number of calibration inputs, and of other inputs to measure errors on", int)
SEED = Option("--seed", "seed of all random numbers", int, 0)
SEEDS = Option("--seeds", "number of searches of each kind, one for each seed", int, 5)
SIMULATE = Option("--run", "also simulate the networks that run entirely on the accelerator", flag=True)
TRIALS = Option("--trials", "number of trials of each search", int)
WORKERS = Option("--workers", "number of processes that evaluate at the same time", int, 2)
WRITE = Option("--write", "write the figures to benchmarks/results", flag=True)
OUTPUT = (JSON, WRITE)
"""The options --json and --write, which `harness.output.finish` reads."""

Given = argparse.Namespace
"""The values of a script's options, by `Option.key`."""


def parse(document: str | None, options: Sequence[Option], words: Sequence[str] | None = None) -> Given:
    """Parses `words` (None: this process's command line) and returns the values of a script's `options`.

    `document`: the text that --help shows. Prints one line and exits with code 2 if the words are wrong.
    """
    parser = argparse.ArgumentParser(
        description=document, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = {option.group for option in options} - {""}
    groups = {"": parser, **{group: parser.add_mutually_exclusive_group() for group in shared}}
    for option in options:
        groups[option.group].add_argument(option.name, **_settings(option))
    given = parser.parse_args(words)
    for option in options:
        if mistake := _mistake(option, getattr(given, option.key), "write" in given and given.write):
            parser.error(mistake)
    return given


def run_script(document: str | None, options: Sequence[Option], main: Callable[[Given], int | None]) -> None:
    """Calls `main` with the values of `options` and exits with the code that it returns (None: 0). `document`: the text
    that --help shows.

    A mistake of the user is reported in one line, with exit code 2. If the reader of the output ends first (as `head`
    does), the exit code is the same as that of `vdla`.
    """
    if sys.stdout is sys.__stdout__:  # Nobody captures the output.
        guard_streams()
    try:
        code = main(parse(document, options))
        sys.stdout.flush()
        sys.exit(code)
    except CodeError:
        raise
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except OutputLostError as lost:
        if lost.errno == errno.EPIPE:
            sys.exit(READER_GONE)
        print(f"error: {lost}", file=sys.stderr)
        sys.exit(2)


def _settings(option: Option) -> dict[str, Any]:
    """The keyword arguments with which argparse declares an option."""
    if option.flag:
        return {"help": option.help, "action": "store_true"}
    fields = ("help", "type", "default", "nargs", "metavar", "choices")
    settings = {field: value for field in fields if (value := getattr(option, field)) is not None}
    if option.required:  # argparse refuses the word for positional arguments.
        settings["required"] = True
    return settings | ({"action": "append"} if option.repeated else {})


def _mistake(option: Option, value: Any, is_written: bool) -> str:
    """A text on the mistake in the value of an option; empty if there is none. `is_written`: --write was given, too."""
    if option.least is not None and value < option.least:
        return f"{option.name} {value}: at least {option.least}"
    if option.part and value and is_written:
        return f"--write takes all rows: leave out {option.metavar if option.key == option.name else option.name}"
    if option.known and (unknown := [name for name in value if name not in option.known]):
        return f"there is no {option.kind} {unknown[0]}; there are {', '.join(option.known)}"
    return ""
