"""Checks that the texts of an ONNX file (names, operator types, documentation) are UTF-8; nothing else checks them."""

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
    """(place, bytes) of each text that is not UTF-8, which protobuf returns as bytes. Place: `graph.node[3].op_type`,
    say."""
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
    """(fields that are texts, fields that are messages) of a message type; each field as (name, whether it is
    repeated)."""
    found: dict[int, list[tuple[str, bool]]] = {
        FieldDescriptor.TYPE_STRING: [],
        FieldDescriptor.TYPE_MESSAGE: [],
    }
    for field in kind.fields:
        if field.type in found:
            found[field.type].append((field.name, not field.has_presence))
    return tuple(found[FieldDescriptor.TYPE_STRING]), tuple(found[FieldDescriptor.TYPE_MESSAGE])
