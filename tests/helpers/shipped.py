"""The shipped models' files, each made once for all processes of a test run: ResNet-18 takes a core five seconds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from vdla.codesign import models
from vdla.util.files import write_whole

FOLDER = "VDLA_TEST_MODELS"
"""The variable that tests/conftest.py sets to a folder of the run, before there are other processes."""


def once_a_run(name: str, make: Callable[[], bytes]) -> bytes:
    """The bytes that `make` returns, made once for all processes of a test run and kept in its folder as `name`."""
    folder = os.environ.get(FOLDER)
    path = Path(folder or "/nonexistent") / name
    if path.exists():
        return path.read_bytes()
    data = make()
    if folder:
        write_whole(path, data)
    return data


def shipped(name: str, form: str) -> bytes:
    """The file of the model that `models.build` makes."""
    return once_a_run(
        f"{name}-{form}.onnx", lambda: models.build(name, form).SerializeToString(deterministic=True)
    )
