"""Snapshot of a model's file, for callers that need its bytes more than once: the file may change in between."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelFile:
    """The file at `path`, which held `content` when it was read. External data are not included."""

    path: Path
    content: bytes
