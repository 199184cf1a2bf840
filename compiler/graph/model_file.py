"""A model's file as it was when it was read, for those who need its bytes more than once: a file may change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelFile:
    """The file at `path`, which held `content` when it was read. Its external data are still to be read."""

    path: Path
    content: bytes
