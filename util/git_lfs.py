"""Recognizes pointers of Git LFS: texts of three lines that a checkout has in place of files that are not downloaded
yet.
"""

from __future__ import annotations

POINTER = b"version https://git-lfs.github.com/spec/v1"
"""First bytes of every pointer (git-lfs, docs/spec.md)."""


def is_pointer(data: bytes | bytearray | memoryview) -> bool:
    """Whether `data`, a file's content or its first bytes, begins like a pointer of Git LFS."""
    return bytes(data[: len(POINTER)]) == POINTER


def pointer_problem(description: str) -> str:
    """An error message without its subject: the caller writes the path before it. It says that the file is a pointer of
    Git LFS instead of the expected content, which `description` names (such as "the model").
    """
    return f"is a pointer of Git LFS, not {description} itself; fetch the file with `git lfs pull`, or download it"
