"""The shipped models' files, each made once for all processes of a test run: ResNet-18 takes a core five seconds."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from vdla.codesign import models

FOLDER = "VDLA_TEST_MODELS"
"""The variable that tests/conftest.py sets to a folder of the run, before there are other processes."""


def shipped(name: str, form: str) -> bytes:
    """What `models.build` gives, as a file has it."""
    folder = os.environ.get(FOLDER)
    path = Path(folder or "/nonexistent") / f"{name}-{form}.onnx"
    if path.exists():
        return path.read_bytes()
    data = models.build(name, form).SerializeToString(deterministic=True)
    if folder:
        partial = path.with_name(f"{uuid.uuid4()}.partial")
        partial.write_bytes(data)
        partial.replace(path)
    return data
