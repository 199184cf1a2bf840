"""Reads and rewrites tar archives, to make tampered ones for tests."""

import io
import tarfile
from pathlib import Path


def members(path: Path) -> dict[str, bytes]:
    """The contents of the files in an archive, by name."""
    with tarfile.open(path) as archive:
        return {e.name: archive.extractfile(e).read() for e in archive}  # type: ignore[union-attr]


def rewrite(path: Path, files: dict[str, bytes]) -> None:
    """Writes a tar archive that contains exactly `files` (contents by name) to `path`."""
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
