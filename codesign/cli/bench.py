"""`vdla bench`: the speed of our kernels and networks on this processor, compared with ONNX Runtime (the "peer")."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ..report.console import PlainConsole
from .options import JsonOption
from .output import note, print_json, steps, text_console

if TYPE_CHECKING:
    from vdla.benchmarks.harness.case import Row
    from vdla.benchmarks.harness.suite import Entry

COLUMNS = (("row", 18), ("ours ms", 11), ("peer ms", 11), ("ratio", 7), ("GFLOP/s", 9), ("difference", 11))
"""Heading of each column of the table, and its width in characters."""


class Suite(StrEnum):
    """Suites (sets of kernels and networks) that `vdla bench` can measure."""

    paper = "paper"
    others = "others"


def bench(
    suite: Annotated[
        Suite,
        typer.Option(
            help="paper: the layers C1-C12 and D1-D9, matrix products and networks of the TVM paper (OSDI 2018); "
            "others: layers and products from other networks and of odd sizes."
        ),
    ] = Suite.paper,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROW,...", help="Measure only these rows, separated by commas. May be repeated."
        ),
    ] = None,
    threads: Annotated[
        int,
        typer.Option(
            min=1,
            max=256,
            help="Threads of both sides. 1: times are CPU times of the thread; more: wall times.",
        ),
    ] = 1,
    rounds: Annotated[
        int,
        typer.Option(
            min=1, help="Rounds; in each, vdla and ONNX Runtime run once, which gives one ratio of times."
        ),
    ] = 15,
    json: JsonOption = False,
) -> None:
    """Compares the speed of kernels and networks on this processor with ONNX Runtime; both run in turn in this process.

    In every row, ratio is our speed over the speed of ONNX Runtime (the peer): the peer's time / our time, the median
    over the rounds. A ratio above 1 means that vdla is faster, for layers and networks alike.
    """
    from vdla.benchmarks.harness.peer import peer_version
    from vdla.benchmarks.harness.suite import choose, measured, other_suite, paper_suite

    peer = peer_version()
    entries = paper_suite() if suite is Suite.paper else other_suite()
    entries = choose(entries, [name.strip() for item in only or () for name in item.split(",")])
    rows: list[Row] = []
    interrupted = False
    console = text_console()
    if not json:
        _heading(console, suite, peer, threads)
    try:
        with steps() if json else nullcontext() as progress:
            for number, entry in enumerate(entries, 1):
                doing = f"{entry.name} ({number} of {len(entries)})"
                if progress is not None:
                    progress.begin(doing)
                # Without a terminal the status prints nothing.
                with nullcontext() if json else console.status(doing):
                    rows.append(measured(entry, threads=threads, rounds=rounds))
                if not json:
                    _print_row(console, rows[-1])
    except KeyboardInterrupt:
        interrupted = True
    if json:
        print_json(_document(suite, peer, threads, rounds, entries, rows, interrupted))
    else:
        _print_means(console, entries, rows)
    if interrupted:
        note(f"interrupted after {len(rows)} of {len(entries)} rows")
        raise typer.Exit(130)


def _document(
    suite: Suite,
    peer: str,
    threads: int,
    rounds: int,
    entries: Sequence[Entry],
    rows: Sequence[Row],
    interrupted: bool,
) -> dict[str, Any]:
    from vdla.benchmarks.harness.case import RATIO_IS
    from vdla.benchmarks.harness.suite import geometric_means
    from vdla.compiler.codegen.cpu.machine import host_target

    target = host_target()
    return {
        "suite": suite.value,
        "target": {"triple": target.triple, "cpu": target.cpu, "vector_bits": target.vector_bits},
        "peer": peer,
        "threads": threads,
        "clock": "thread CPU time" if threads == 1 else "wall time",
        "rounds": rounds,
        "ratio_is": RATIO_IS,
        "rows": [row.to_dict() for row in rows],
        "geometric_means": geometric_means(entries, rows),
        "interrupted": interrupted,
    }


def _grid() -> Table:
    """A table without rows, with the columns COLUMNS; rows are printed one by one as they are measured."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for number, (_, width) in enumerate(COLUMNS):
        table.add_column(width=width, justify="right" if number else "left", no_wrap=True)
    return table


def _heading(console: PlainConsole, suite: Suite, peer: str, threads: int) -> None:
    from vdla.benchmarks.harness.case import RATIO_IS
    from vdla.compiler.codegen.cpu.machine import host_target

    clock = "1 thread, thread CPU time" if threads == 1 else f"{threads} threads, wall time"
    console.print(f"suite {suite} on {host_target().cpu} against {peer}: {clock}")
    console.print(f"ratio is {RATIO_IS}")
    console.print()
    heading = _grid()
    heading.add_row(*(name for name, _ in COLUMNS))
    console.print(heading)


def _print_row(console: PlainConsole, row: Row) -> None:
    line = _grid()
    line.add_row(
        row.name,
        f"{row.ours_ms:.4f}",
        f"{row.peer_ms:.4f}",
        f"{row.ratio:.3f}",
        f"{row.gflops:.1f}",
        f"{row.error:.1e}",
    )
    console.print(line)


def _print_means(console: PlainConsole, entries: Sequence[Entry], rows: Sequence[Row]) -> None:
    from vdla.benchmarks.harness.suite import geometric_means

    for group, mean in geometric_means(entries, rows).items():
        ratio = "no ratio" if mean is None else f"{mean:.3f}"
        console.print(f"geometric mean of {group}: {ratio}")
