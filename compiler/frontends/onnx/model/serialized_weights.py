"""Cuts the bytes of large initializers out of a serialized model before protobuf reads it.

Protobuf copies all bytes that it reads, and copies them again for each reader; most of a network's file is weights,
which stay unchanged. Only the lengths of fields on the path to an initializer's `raw_data` are read here
(protobuf.dev/programming-guides/encoding). Protobuf reads the rest, and validates it.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from .tensor_arrays import LEAST_BYTES

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_GRAPH = onnx.ModelProto.DESCRIPTOR.fields_by_name["graph"].number
_INITIALIZER = onnx.GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
_RAW_DATA = onnx.TensorProto.DESCRIPTOR.fields_by_name["raw_data"].number
_LOCATION = onnx.TensorProto.DESCRIPTOR.fields_by_name["data_location"].number


class _NotPlainError(Exception):
    """Raised for bytes that are no protobuf message, or a message of a form that this file does not parse."""


def cut_weights(content: bytes) -> tuple[bytes, dict[int, memoryview]]:
    """Cuts the bytes of large initializers out of a model. Returns (the rest, serialized; the cut bytes by initializer
    number).

    The cut bytes are views of `content`. An initializer with an entry for external data keeps its bytes. If nothing can
    be cut, the rest is `content` itself.
    """
    whole = memoryview(content)
    try:
        return _cut(whole)
    except _NotPlainError:
        return content, {}


def _cut(whole: memoryview) -> tuple[bytes, dict[int, memoryview]]:
    graphs = [field for field in _fields(whole, 0, len(whole)) if field[0] == _GRAPH]
    if len(graphs) != 1:  # None, or several that protobuf makes one of.
        raise _NotPlainError
    _, graph_start, graph_body, graph_end = graphs[0]
    weights: dict[int, memoryview] = {}
    parts: list[memoryview | bytes] = []
    copied = graph_body
    number = 0
    for field, start, body, end in _fields(whole, graph_body, graph_end):
        if field != _INITIALIZER:
            continue
        if end - body > LEAST_BYTES and (data := _raw_data(whole, body, end)) is not None:
            data_start, data_body, data_end = data
            weights[number] = whole[data_body:data_end]
            length = end - body - (data_end - data_start)
            parts += [whole[copied:start], _header(_INITIALIZER, length), whole[body:data_start]]
            copied = data_end
        number += 1
    if not weights:
        raise _NotPlainError
    parts.append(whole[copied:graph_end])
    header = _header(_GRAPH, sum(map(len, parts)))
    return b"".join([whole[:graph_start], header, *parts, whole[graph_end:]]), weights


def _raw_data(whole: memoryview, start: int, end: int) -> tuple[int, int, int] | None:
    """Finds the bytes that `cut_weights` cuts out of the tensor in `whole`[`start`:`end`]. Returns (start of the field
    `raw_data`, start of its bytes, end). Returns None if the bytes stay in the model, because they are few, are in
    several fields, or are external data.
    """
    found = None
    for field, begin, body, stop in _fields(whole, start, end):
        if field == _LOCATION or (field == _RAW_DATA and found is not None):
            return None
        if field == _RAW_DATA:
            found = begin, body, stop
    return found if found is not None and found[2] - found[1] > LEAST_BYTES else None


def _fields(whole: memoryview, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields (number, start of field, start of value, end) of each field of the message in `whole`[`position`:`end`].
    Raises _NotPlainError for bytes that are no such message.
    """
    while position < end:
        start = position
        tag, position = _varint(whole, position, end)
        kind = tag & 7
        if kind == _BYTES:
            length, position = _varint(whole, position, end)
            stop = position + length
        elif kind == _VARINT:
            _, stop = _varint(whole, position, end)
        elif kind == _FIXED64:
            stop = position + 8
        elif kind == _FIXED32:
            stop = position + 4
        else:
            raise _NotPlainError
        if stop > end:
            raise _NotPlainError
        yield tag >> 3, start, position, stop
        position = stop


def _varint(whole: memoryview, position: int, end: int) -> tuple[int, int]:
    """The varint (protobuf's integer: seven bits in each byte, the lowest first) that begins at byte `position`, and
    the index of the byte after it. Raises _NotPlainError if `end` comes first, or after 10 bytes.
    """
    value = shift = 0
    while position < end and shift < 64:
        byte = whole[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise _NotPlainError


def _header(field: int, length: int) -> bytes:
    """The protobuf tag and length that precede a field of bytes."""
    return _encoded(field << 3 | _BYTES) + _encoded(length)


def _encoded(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
