"""Files that Git LFS left out: a checkout has a pointer of three lines where the file should be."""

from __future__ import annotations

POINTER = b"version https://git-lfs.github.com/spec/v1"
"""First bytes of a pointer (git-lfs, docs/spec.md)."""


def is_pointer(data: bytes | bytearray | memoryview) -> bool:
    """Whether the bytes of a file are a pointer of Git LFS, or begin as one."""
    return bytes(data[: len(POINTER)]) == POINTER


def pointer_problem(what: str) -> str:
    """The message about a pointer of Git LFS in the place of `what`, with the way out."""
    return f"is a pointer of Git LFS, not {what} itself; fetch the file with `git lfs pull`, or download it"
