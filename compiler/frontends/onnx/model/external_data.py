"""Tensor data that a model stores in other files.

Before the first byte is read, all locations and lengths are checked. After symbolic links are resolved, a location must
be below the model's folder. The length must match the tensor's shape and type. Each opened file must be a regular file,
and each tensor must end inside the file. The importer and the cache of compiled networks both read through this module.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import TensorProto

from vdla.util.files import MOST_BYTES, open_file
from vdla.util.git_lfs import POINTER, is_pointer, pointer_problem

from ....graph.errors import ModelError
from .tensor_arrays import tensor_bytes

_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExternalTensor:
    """Location of a tensor's data: `length` bytes from `offset` of the file at `path` (links resolved)."""

    tensor: TensorProto
    path: str
    offset: int
    length: int


def load_external_data(label: str, model: onnx.ModelProto, folder: Path) -> None:
    """Copies the external data of `model`, whose file is in `folder`, into the model. Raises ModelError; `label` names
    the model in its message."""

    def put(place: ExternalTensor, data: bytes) -> None:
        place.tensor.raw_data = data
        place.tensor.data_location = TensorProto.DEFAULT
        del place.tensor.external_data[:]

    _read(label, external_tensors(label, model, folder), put)


def external_data_digest(label: str, model: onnx.ModelProto, folder: Path) -> str:
    """SHA-256 (hexadecimal) of all data that `load_external_data` would read, with their paths, offsets and lengths; ""
    if there are no such data. Raises ModelError; `label` names the model in its message. `folder`: the folder of the
    model's file.
    """
    places = external_tensors(label, model, folder)
    if not places:
        return ""
    digest = hashlib.sha256()

    def add(place: ExternalTensor, data: bytes) -> None:
        digest.update(f"{place.offset} {place.length} {place.path}\0".encode(errors="surrogateescape"))
        digest.update(data)

    _read(label, places, add)
    return digest.hexdigest()


def external_tensors(label: str, model: onnx.ModelProto, folder: Path) -> list[ExternalTensor]:
    """The external tensors of `model`, whose file is in `folder`, sorted by file and offset. Raises ModelError for a
    location that may not be read, for a wrong length, and for more than `MOST_BYTES` in all.
    """
    root = os.path.realpath(folder)
    tensors = (tensor for part in (model.graph, *model.functions) for tensor in _tensors(part))
    places = [
        _place(label, tensor, root) for tensor in tensors if tensor.data_location == TensorProto.EXTERNAL
    ]
    if sum(place.length for place in places) > MOST_BYTES:
        raise ModelError(
            f"{label}: its external data take more than {MOST_BYTES:,} bytes, which ONNX's checker cannot hold; "
            "give a smaller model"
        )
    return sorted(places, key=lambda place: (place.path, place.offset, place.length))


def _place(label: str, tensor: TensorProto, root: str) -> ExternalTensor:
    def refused(problem: str) -> ModelError:
        return ModelError(f"{label}: external data of '{tensor.name}': {problem}; export the model again")

    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if not location or "\0" in location:
        raise refused("no file is named")
    path = os.path.realpath(os.path.join(root, location))
    if os.path.commonpath([root, path]) != root or path == root:
        raise refused(f"'{location}' lies outside of the model's folder")
    numbers: dict[str, int] = {}
    for name in ("offset", "length"):
        if name in entries:
            if not _NUMBER.fullmatch(entries[name]):
                raise refused(f"{name} '{entries[name][:40]}' is not a number of bytes")
            numbers[name] = int(entries[name])
    if any(size < 0 for size in tensor.dims):
        raise refused(f"its shape {list(tensor.dims)} has a negative dimension")
    needed = tensor_bytes(tensor)
    if needed is None:
        raise refused(f"elements of type {tensor.data_type} cannot be stored outside of the model")
    if numbers.get("length", needed) != needed:
        raise refused(f"length is {numbers['length']:,} bytes, but shape and type need {needed:,} bytes")
    return ExternalTensor(tensor=tensor, path=path, offset=numbers.get("offset", 0), length=needed)


def _read(label: str, places: list[ExternalTensor], use: Callable[[ExternalTensor, bytes], None]) -> None:
    """Calls `use` with each tensor's location in `places` and its bytes, one after the other. Raises ModelError, which
    names the model `label`, for a file that cannot be read.
    """
    for path, group in itertools.groupby(places, key=lambda place: place.path):
        try:
            descriptor = open_file(path, follow=False)
            with os.fdopen(descriptor, "rb") as file:
                size = os.fstat(descriptor).st_size
                for place in group:
                    if place.offset + place.length > size:
                        if is_pointer(file.read(len(POINTER))):
                            raise ModelError(f"{label}: external data: {path} {pointer_problem('the file')}")
                        raise ModelError(
                            f"{label}: external data of '{place.tensor.name}': {path} has {size:,} bytes, but "
                            f"the tensor is {place.length:,} bytes from byte {place.offset:,} on; export or "
                            "copy the model again"
                        )
                    file.seek(place.offset)
                    data = file.read(place.length)
                    if len(data) != place.length:
                        raise OSError(0, "became shorter while it was read")
                    use(place, data)
        except OSError as error:
            raise ModelError(
                f"{label}: its external data cannot be read: {path}: {error.strerror}; keep this file beside the model"
            ) from None


def _tensors(message: Message) -> Iterator[TensorProto]:
    """All tensors in a part of a model, including tensors of subgraphs."""
    for field, value in message.ListFields():
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            continue
        for part in [value] if field.has_presence else value:
            if isinstance(part, TensorProto):
                yield part
            else:
                yield from _tensors(part)
