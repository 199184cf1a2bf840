"""Kind "streams": every command with standard streams and output files that are full, closed, missing or of the wrong
kind.

If a result cannot be written, a command must print one line and return an exit code; if a progress note cannot be
written, the rest of the command must not be affected.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from vdla.codesign.cli.process import READER_GONE

from ..harness.vdla_command import ENTRY
from .commands import CALLS, LEFT_BY_OTHERS, Call, environment, prepare, without_limit
from .drawing import Draw
from .outcome import Called, Outcome, judge

STREAM_FAULTS = ("full", "closed", "gone")
PATH_FAULTS = ("missing folder", "file as folder", "other kind", "too long", "full", "read-only folder")
FAULTS = (
    *[(stream, fault) for stream in ("stdout", "stderr", "all") for fault in STREAM_FAULTS],
    *[("path", fault) for fault in PATH_FAULTS],
    ("disk", "of the cache full"),
    ("disk", "of the cache and temporary files full"),
)
MATRIX = len(CALLS) * len(FAULTS)
"""Number of pairs of a command line (of CALLS) and a faulty stream, path or disk (of FAULTS). `benchmarks/fuzz.py
--kinds streams` runs each pair once.
"""
_DISK_BYTES = (1 << 12, 1 << 20)
"""Sizes in bytes of small file systems: the smaller one has room for one file, the larger one for most files that a
command line writes.
"""


def stream_case(seed: int, index: int, folder: Path) -> Outcome:
    """Runs one `vdla` command line in `folder` with one faulty standard stream, output path or disk, and returns the
    verdict.

    `index`: number of the case; indices 0 to MATRIX - 1 run every pair of a command line (of CALLS) and a fault (of
    FAULTS) once. `seed`: the seed of the campaign, from which the rest of the case is drawn.
    """
    one, (where, fault) = chosen(index)
    draw = Draw("streams", seed, index)
    json_wanted = draw.chance(0.5)
    prepare(folder, one.needs)
    values = {}
    if where == "path":
        if not one.outputs:
            return Outcome("unchecked", "writes nothing")
        option, value = draw.of(one.outputs)
        found = _bad_path(fault, folder, value, is_folder=(option, value) in one.folders)
        if found is None or (fault == "missing folder" and one.parents):
            return Outcome("unchecked", "this can be written")
        values[option] = found
    words = [*one.words(values), *(["--json"] if json_wanted else [])]
    said = f"`vdla {' '.join(words)}`, {where} {fault}"
    disks: tuple[str, ...] = ()
    if where == "disk":
        if os.geteuid() or shutil.which("unshare") is None:
            return Outcome("unchecked", "this user can mount no small file system")
        disks = ("cache", "tmp") if "temporary" in fault else ("cache",)
    size = int(np.exp(draw.rng.uniform(*np.log(_DISK_BYTES))))
    called = _called(words, folder, dict.fromkeys(_streams(where), fault), disks, size)
    outcome = judge(called)
    if outcome.verdict not in ("right", "unchecked", "refused"):
        lost_reader = where in ("stdout", "all") and fault == "gone" and called.code == READER_GONE
        silent = where in ("stderr", "all") and called.code == 2 and not called.err
        if not lost_reader and not silent:
            return Outcome(outcome.verdict, f"{said}: {outcome.detail}")
    problem = _unexpected(one, json_wanted, where, fault, called, list(values.values()))
    problem = problem or _leftover_files(one, folder)
    return (
        Outcome("wrong", f"{said}: {problem}") if problem else Outcome("refused" if called.code else "right")
    )


def chosen(index: int) -> tuple[Call, tuple[str, str]]:
    """The command line of case `index`, and its fault as (place, kind of fault), such as ("stdout", "full")."""
    row, number = divmod(index, len(CALLS))
    return CALLS[number], FAULTS[(number + row) % len(FAULTS)]


def _unexpected(
    one: Call, json_wanted: bool, where: str, fault: str, called: Called, paths: list[str]
) -> str | None:
    """Checks how the command line `one`, with --json if `json_wanted`, ended (`called`) with a fault in one of its
    streams or files. Returns a text about the error, or None if it ended correctly for this fault. `where`: the faulty
    stream, "all" streams, "path" or "disk"; `paths`: output paths, of which the message must name one.
    """
    prints = one.prints or json_wanted
    if where in ("stdout", "all") and prints:
        wanted = READER_GONE if fault == "gone" else 2
        if called.code != wanted:
            return f"exit code {called.code} instead of {wanted}: {called.err}"
        if where == "stdout" and ("standard output" in called.err) == (fault == "gone"):
            return f"said {called.err!r}"
        return None
    if where == "path":
        if called.code != 2:
            return f"exit code {called.code} instead of 2: {called.err}"
        return None if any(path in called.err for path in paths) else f"no name of the file in {called.err!r}"
    if where == "disk" and "temporary" in fault and called.code == 2:
        return None
    if called.err.count("warning: nothing is kept") > 1:
        return f"the warning was printed more than once: {called.err!r}"
    if called.code:
        return f"exit code {called.code}: {called.err}"
    if prints and json_wanted:
        with contextlib.suppress(ValueError):
            json.loads(called.out)
            return None
        return f"no JSON object on standard output: {called.out[:200]!r}"
    return None if bool(called.out) == prints else f"standard output has {called.out[:200]!r}"


def _leftover_files(one: Call, folder: Path) -> str | None:
    """The files that the command line `one` has left in `folder` and must not leave, as text; None if none."""
    known = {*one.needs, *(value for _, value in one.outputs), "tmp", "cache", "a-folder", "a-file", "locked"}
    left = [path.name for path in folder.iterdir() if path.name not in known]
    left += [f"tmp/{path.name}" for path in (folder / "tmp").iterdir() if path.name != LEFT_BY_OTHERS]
    return f"left behind: {', '.join(sorted(left))}" if left else None


def _streams(where: str) -> tuple[str, ...]:
    return {"stdout": ("stdout",), "stderr": ("stderr",), "all": ("stdin", "stdout", "stderr")}.get(where, ())


def _bad_path(fault: str, folder: Path, value: str, *, is_folder: bool) -> str | None:
    """A path, relative to `folder`, that cannot be written to because of `fault`, in place of the output path `value`,
    a folder if `is_folder`; None if this user could write to it all the same (as root can).
    """
    (folder / "a-file").write_text("x")
    (folder / "a-folder" / "inner").mkdir(parents=True)
    match fault:
        case "missing folder":
            return f"nowhere/{'deep/' if is_folder else ''}{value}"
        case "file as folder":
            return f"a-file/{value}"
        case "other kind":
            return "a-file" if is_folder else "a-folder"
        case "too long":
            return "n" * 300
        case "full":
            return "/dev/full"
        case _:
            (folder / "locked").mkdir(0o500)
            return None if os.access(folder / "locked", os.W_OK) else f"locked/{value}"


def _called(
    words: list[str], folder: Path, faults: dict[str, str], disks: Sequence[str], size: int
) -> Called:
    """Runs `vdla` with the arguments `words` in a new process in `folder`; returns its result. Its standard streams
    have the faults `faults` (by stream name); it sees each folder of `disks` as a separate file system of `size` bytes.
    """
    command = [*ENTRY, *words]
    if disks:
        mounts = [f"mount -t tmpfs -o size={size},mode=0700 none {name}" for name in disks]
        command = ["unshare", "-m", "sh", "-c", " && ".join([*mounts, 'exec "$@"']), "sh", *command]
    with contextlib.ExitStack() as stack:
        streams = {name: stack.enter_context(_stream(fault, name)) for name, fault in faults.items()}
        names = ("stdin", "stdout", "stderr")
        closed = [names.index(name) for name, fault in faults.items() if fault == "closed"]

        def prepared() -> None:
            without_limit()
            for descriptor in closed:
                os.close(descriptor)

        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(folder, cold=bool(disks)),
            stdin=streams.get("stdin", subprocess.DEVNULL),
            stdout=streams.get("stdout", subprocess.PIPE),
            stderr=streams.get("stderr", subprocess.PIPE),
            text=True,
            errors="replace",
            check=False,
            preexec_fn=prepared,
        )
    err = done.stderr or ""
    trace = err if "Traceback" in err or "Exception ignored" in err or done.returncode < 0 else None
    return Called(code=done.returncode, out=done.stdout or "", err=err, trace=trace and f"File ?\n{trace}")


@contextlib.contextmanager
def _stream(fault: str, name: str) -> Iterator[int]:
    """A context with a file descriptor for the standard stream `name` of a process: a pipe without a reader for the
    fault "gone", /dev/full for "full", else /dev/null.
    """
    if fault == "gone" and name != "stdin":
        reads, descriptor = os.pipe()
        os.close(reads)
    elif fault == "full" and name != "stdin":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        descriptor = os.open(os.devnull, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
