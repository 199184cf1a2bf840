"""Files that Git LFS did not download: a checkout has a pointer of three lines in place of the file."""

from __future__ import annotations

POINTER = b"version https://git-lfs.github.com/spec/v1"
"""First bytes of a pointer (git-lfs, docs/spec.md)."""


def is_pointer(data: bytes | bytearray | memoryview) -> bool:
    """Whether the bytes of a file are, or begin like, a pointer of Git LFS."""
    return bytes(data[: len(POINTER)]) == POINTER


def pointer_problem(what: str) -> str:
    """The message about a pointer of Git LFS in place of the file `what`, which says what to do."""
    return f"is a pointer of Git LFS, not {what} itself; fetch the file with `git lfs pull`, or download it"
