"""Files of the shipped models, each built once for all processes of a test run, since building ResNet-18 takes five
seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from vdla.codesign import models
from vdla.util.files import write_whole

FOLDER = "VDLA_TEST_MODELS"
"""Environment variable with a folder of the test run, which tests/conftest.py sets before other processes start."""


def once_a_run(name: str, make: Callable[[], bytes]) -> bytes:
    """The bytes that `make` returns. They are stored in the run's folder as `name`, so that later calls, also in other
    processes of the test run, do not call `make`. Without this folder every call does.
    """
    folder = os.environ.get(FOLDER)
    path = Path(folder or "/nonexistent") / name
    if path.exists():
        return path.read_bytes()
    data = make()
    if folder:
        write_whole(path, data)
    return data


def shipped(name: str, form: str) -> bytes:
    """The bytes of the shipped model `name` in the form `form`, built by `models.build`."""
    return once_a_run(
        f"{name}-{form}.onnx", lambda: models.build(name, form).SerializeToString(deterministic=True)
    )
