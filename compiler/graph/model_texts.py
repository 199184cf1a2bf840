"""The texts of an ONNX file: names, types of operators, documentation. They must be UTF-8; nothing else checks it."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from .errors import ModelError


def check_texts(label: str, model: Message) -> None:
    """Raises ModelError for the first text in `model` that is not UTF-8; `label` names the model."""
    for place, text in _broken(model, ""):
        raise ModelError(
            f"{label}: {place} is {text[:40]!r}, which is not UTF-8 text; export or copy the model again"
        )


def _broken(message: Message, where: str) -> Iterator[tuple[str, bytes]]:
    """The texts that are not UTF-8, which protobuf gives as bytes, and their places: `graph.node[3].op_type`."""
    texts, parts = _fields(message.DESCRIPTOR)
    for name, repeated in texts:
        value = getattr(message, name)
        if not repeated:
            if isinstance(value, bytes):
                yield f"{where}{name}", value
        else:
            for index, item in enumerate(value):
                if isinstance(item, bytes):
                    yield f"{where}{name}[{index}]", item
    for name, repeated in parts:
        if repeated:
            for index, item in enumerate(getattr(message, name)):
                yield from _broken(item, f"{where}{name}[{index}].")
        elif message.HasField(name):
            yield from _broken(getattr(message, name), f"{where}{name}.")


@functools.cache
def _fields(kind: Descriptor) -> tuple[tuple[tuple[str, bool], ...], tuple[tuple[str, bool], ...]]:
    """The fields of a message that are texts and those that are messages: names, and whether they are repeated."""
    found: dict[int, list[tuple[str, bool]]] = {
        FieldDescriptor.TYPE_STRING: [],
        FieldDescriptor.TYPE_MESSAGE: [],
    }
    for field in kind.fields:
        if field.type in found:
            found[field.type].append((field.name, not field.has_presence))
    return tuple(found[FieldDescriptor.TYPE_STRING]), tuple(found[FieldDescriptor.TYPE_MESSAGE])
