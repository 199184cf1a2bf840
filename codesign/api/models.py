"""Models as the functions of the package `vdla` take them: a file, the bytes of a file, or a model in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

Model = str | Path | bytes | onnx.ModelProto
"""The path of an ONNX file, the bytes of an ONNX file, or a model in memory, as `vdla.nn.Module.export` returns."""


@contextmanager
def model_file(model: Model) -> Iterator[Path]:
    """A context with the path of a model's file. A model in memory is in a temporary file, named after its graph; bytes
    are in a temporary file "model.onnx".
    """
    if isinstance(model, str | Path):
        yield Path(model)
        return
    graph = model.graph.name if isinstance(model, onnx.ModelProto) else ""
    name = "".join(letter if letter.isalnum() else "_" for letter in graph)[:80]
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name or 'model'}.onnx"
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        yield path
