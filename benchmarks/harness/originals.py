"""Measures the networks of codesign/models/originals in float32 on one thread, against ONNX Runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import onnx

from vdla.codesign.models.originals import NAMES, build_original, original

from .outside import measure_file
from .page import Document, source
from .results import RESULTS, provenance, read_results, write_results
from .table_parts import geomean

RESULTS_NAME = "cpu_originals"
"""Name of the file in benchmarks/results with a row for each measured network."""
Row = Mapping[str, Any]


def measure_original(name: str, rounds: int) -> Row:
    """Measures the network `name` in `rounds` rounds; returns its row: the fields of an `outside.OutsideRow`, the
    network's `name` and the `size` (rows and columns) of the original's images.

    Outputs are checked before the timing. Raises UserError for an unknown name.
    """
    size = original(name).size
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(build_original(name), path)
        row = asdict(measure_file(path, rounds))
    return row | {"name": name, "size": size}


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Summary of the measured networks `rows`: their number, the number with right outputs, geometric mean and maximum
    of the ratios of our time to ONNX Runtime's, and the rows themselves.
    """
    ratios = [row["ratio"] for row in rows]
    return {
        "networks": len(rows),
        "right": sum(row["check"] != "wrong" for row in rows),
        "geomean": round(geomean(ratios), 3),
        "worst": round(max(ratios), 3),
        "rows": list(rows),
    }


def measured(names: Sequence[str], rounds: int, *, write: bool, again: bool) -> Iterator[Row]:
    """Yields the row of each network as soon as it is measured; with `write` each row is written to benchmarks/results
    at once.

    With `write`, a row is skipped if the file already has it from the present commit, measured without uncommitted
    changes. With `again`, no row is skipped.
    """
    commit = provenance()["commit"]
    kept: dict[str, Row] = {}
    if write and (RESULTS / f"{RESULTS_NAME}.json").exists():
        kept = {row["name"]: row for row in read_results(RESULTS_NAME)["rows"]}
    for name in names:
        if again or "+" in commit or kept.get(name, {}).get("commit") != commit:
            kept[name] = {**measure_original(name, rounds), "commit": commit}
            if write:
                write_results(RESULTS_NAME, figures([kept[n] for n in NAMES if n in kept]))
        yield kept[name]


def originals_text(document: Document) -> str:
    """A page's table of the measured networks: above it the geometric mean of all ratios of times, in it a row for each
    network, below it the provenance.
    """
    lines = [
        f"{document['right']} of {document['networks']} networks right; our time over the peer's: geometric mean "
        f"{document['geomean']:.2f}, at most {document['worst']:.2f}.",
        "",
        "| network | image | ours | ONNX Runtime | our time over the peer's | largest error | compiled in |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{row['name']}` | {row['size']}x{row['size']} | {row['ours_ms']:.2f} ms | {row['peer_ms']:.2f} ms | "
        f"{row['ratio']:.2f} | {row['error']:.1e}{', wrong' if row['check'] == 'wrong' else ''} | "
        f"{row['compile_s']:.1f} s of CPU |"
        for row in document["rows"]
    ]
    commits = dict.fromkeys(row["commit"] for row in document["rows"])
    more = f"; rows of commits {', '.join(commits)}" if len(commits) > 1 else ""
    return "\n".join([*lines, "", source(RESULTS_NAME, document) + more])
