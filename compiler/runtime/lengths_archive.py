"""An executable for a range of lengths, made of rungs (executables for single lengths), as a file (see `archive`).

description.json    format, target, symbol, range, pads, axes, and for each rung its length, cycles and its target's
                    description (`network_archive.describe_code`, `program_description`)
lengths.bin         all arrays (constants, instructions, libraries of kernels), raw and little-endian; equal arrays
                    are stored once, and an array that is a prefix of another is stored as part of it
sha256              checksum of both
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from vdla.util.errors import UserError

from .archive import DESCRIPTION, first_member, read_archive, read_description, write_archive
from .archive_fields import Field
from .executable import Executable
from .lengths import Lengths, LengthsExecutable, Rung
from .network_description import ConstantPool, read_constants

MEMBER = "lengths.bin"
FORMAT = 1
"""Version of the archive's format: goes up when its description changes."""
Read = Callable[[Path, Sequence[Field], Mapping[str, np.ndarray]], Sequence[Executable]]
"""Reads the rungs (executables for one length each) of an archive. Arguments: the archive's path; for each rung, its
field in the archive's description; all arrays of the archive, by name.
"""


def is_lengths_archive(path: Path) -> bool:
    """Whether a file is an archive of one network compiled for several sequence lengths, complete or not."""
    return first_member(path, (MEMBER,)) is not None


def save_lengths(path: Path, executable: LengthsExecutable) -> None:
    """Writes an archive, completely or not at all; equal executables give equal files.

    Raises UserError for a target without files, WriteError if the file cannot be written.
    """
    pool = ConstantPool()
    rungs: list[dict[str, object]] = []
    # The longest rung first: constants of shorter rungs may be prefixes of its constants.
    for rung in executable.rungs[::-1]:
        if rung.describe is None:
            raise UserError(
                f'a model compiled for several input lengths on target "{executable.target}" cannot be saved to a '
                "file; run it without a file, or compile it for vdla or llvm"
            )
        with pool.named(f"{rung.length}/"):
            rungs.append({"length": rung.length, "cycles": rung.cycles, **rung.describe(pool)})
    lengths = executable.lengths
    description = {
        "format": FORMAT,
        "target_text": executable.target,
        "symbol": lengths.symbol,
        "least": lengths.least,
        "most": lengths.most,
        "pads": executable.pads,
        "axes": {name: list(axes) for name, axes in executable.axes.items()},
        "rungs": rungs[::-1],
        "constants": pool.entries,
    }
    write_archive(path, description, {MEMBER: pool.parts})


def load_lengths(path: Path, reader: Callable[[str], Read]) -> LengthsExecutable:
    """Loads the executable from an archive that `save_lengths` wrote. `reader` returns, for the text of a target, the
    function that reads the target's rungs (executables for one length each). Raises ArchiveError.
    """
    files = read_archive(path, (MEMBER,), description="network for a range of lengths")
    document = read_description(path, files[DESCRIPTION], FORMAT)
    arrays = read_constants(document, files[MEMBER], member=MEMBER)
    target = document.at("target_text").text()
    entries = document.at("rungs").items()
    lengths = Lengths(
        symbol=document.at("symbol").text(),
        least=document.at("least").integer(1),
        most=document.at("most").integer(1),
    )
    sizes = [entry.at("length").integer(1) for entry in entries]
    if not sizes or sizes != sorted(set(sizes)) or sizes[-1] != lengths.most or lengths.least > sizes[0]:
        raise document.at("rungs").fail(
            f"are for the lengths {sizes}, which must be in ascending order, the first at least {lengths.least}, the "
            f"last {lengths.most}"
        )
    cycles = [None if entry.at("cycles").value is None else entry.at("cycles").integer() for entry in entries]
    executables = reader(target)(path, entries, arrays)
    axes = {name: axes.shape() for name, axes in document.at("axes").entries().items()}
    _check_ports(document, lengths, sizes, executables, axes)
    return LengthsExecutable(
        target=target,
        lengths=lengths,
        rungs=[
            Rung(length=length, executable=executable, cycles=count)
            for length, executable, count in zip(sizes, executables, cycles, strict=True)
        ],
        axes=axes,
        pads={name: _pad(field) for name, field in document.at("pads").entries().items()},
    )


def _pad(field: Field) -> float:
    if isinstance(field.value, bool) or not isinstance(field.value, int | float):
        raise field.fail("is not a number")
    return field.value


def _check_ports(
    document: Field,
    lengths: Lengths,
    sizes: Sequence[int],
    executables: Sequence[Executable],
    axes: Mapping[str, tuple[int, ...]],
) -> None:
    """Raises ArchiveError unless all rungs (executables for single lengths) have the inputs and outputs of the last
    one, except for the length. `sizes`: the length of each of `executables`. `axes`: for each input and output the
    axes whose size depends on the length.
    """
    last = executables[-1]
    for entry, length, executable in zip(document.at("rungs").items(), sizes, executables, strict=True):
        for ports, wanted in ((executable.inputs, last.inputs), (executable.outputs, last.outputs)):
            shapes = {
                port.name: tuple(
                    size - (lengths.most - length) * (axis in axes.get(port.name, ()))
                    for axis, size in enumerate(port.shape)
                )
                for port in wanted
            }
            if {port.name: port.shape for port in ports} != shapes:
                raise entry.fail(f"has other inputs or outputs than the network of length {lengths.most}")
