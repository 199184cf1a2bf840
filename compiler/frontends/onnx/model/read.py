"""Reads a model's file into an ONNX model with all its data. All texts must be UTF-8; nothing else is checked.

Files of other formats are converted (`other_formats`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from vdla.util.files import read_file

from ....graph.errors import ModelError
from .external_data import load_external_data
from .foreign_domains import QONNX
from .model_file import ModelFile
from .model_rewrites import inline_functions
from .tensor_arrays import LEAST_BYTES, Bytes

QUANTIZED = ("QuantizeLinear", "DequantizeLinear", "QGemm")
"""Operators that occur only in quantized models, besides those whose names begin with QLinear or DynamicQuantize."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadModel:
    """A model with its external data. `label` names it in messages. `bare`: the model without the bytes of large
    initializers; `weights`: these bytes, by initializer number. `load.load_model` changes the object, so that it can be
    loaded only once. `converted`: a file of another format is converted to ONNX; these are the bytes of the converted
    file, for programs that read ONNX files themselves. Empty for ONNX files."""

    label: str
    bare: onnx.ModelProto
    weights: Mapping[int, Bytes]
    converted: bytes = b""

    def whole(self) -> onnx.ModelProto:
        """The model with all weights put into it."""
        for number, data in self.weights.items():
            self.bare.graph.initializer[number].raw_data = bytes(data)
        return self.bare


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizedModel:
    """A model that was read once and then given sizes for its dynamic dimensions (`sizes.sized_models`). It is
    serialized without its `weights`, which the models for all sizes share. `label` names it in messages.
    """

    label: str
    bare: bytes
    weights: Mapping[int, Bytes]


Source = str | Path | bytes | ModelFile | SizedModel
"""A model: the path of its file, the bytes of the file, both (`ModelFile`), or a `SizedModel`."""


def model_label(source: Source) -> str:
    """Name of a model in messages: the path of its file, or "model" for bytes."""
    if isinstance(source, bytes):
        return "model"
    if isinstance(source, SizedModel):
        return source.label
    return str(source.path if isinstance(source, ModelFile) else source)


def read_model(source: Source) -> ReadModel:
    """Reads a model with all its data, and inlines its functions.

    Raises ModelError for a file that is missing, is no model or is damaged, and for external data that may not be read.
    """
    label = model_label(source)
    if isinstance(source, SizedModel):
        return ReadModel(label=label, bare=onnx.load_model_from_string(source.bare), weights=source.weights)
    try:
        content = _content(source)
    except FileNotFoundError:
        raise ModelError(f"{label}: no such file: '{label}'; check the path") from None
    except OSError as error:
        raise ModelError(f"{label}: cannot be read: {error.strerror or error}; check the path") from None
    try:
        small, weights = _without_weights(content)
        proto = onnx.load_model_from_string(small)
    except (DecodeError, ValueError):
        from .other_formats import as_onnx

        converted = as_onnx(label, content)
        return ReadModel(
            label=label, bare=onnx.load_model_from_string(converted), weights={}, converted=converted
        )
    check_texts(label, proto)
    if not isinstance(source, bytes):
        load_external_data(label, proto, Path(label).parent)
    proto = inline_functions(label, proto)
    if any(entry.domain.startswith(QONNX) for entry in proto.opset_import):
        from .qonnx import replace_quant

        replace_quant(label, proto, weights)
    return ReadModel(label=label, bare=proto, weights=weights)


def _without_weights(content: bytes) -> tuple[bytes, Mapping[int, memoryview]]:
    """The serialized model without the bytes of its large initializers, and these bytes by initializer number."""
    if len(content) <= LEAST_BYTES:
        return content, {}
    from .serialized_weights import cut_weights

    return cut_weights(content)


def is_quantized(source: Source | ReadModel) -> bool:
    """Whether a model's activations are integers: it has operators that quantize or that read quantized tensors.

    Raises ModelError as `read_model` does.
    """
    model = source if isinstance(source, ReadModel) else read_model(source)
    return quantizes(model.bare.graph)


def quantizes(graph: onnx.GraphProto) -> bool:
    """Whether a graph has operators that compute quantized tensors or read quantized tensors."""
    operators = {node.op_type for node in graph.node}
    return any(name in QUANTIZED or name.startswith(("QLinear", "DynamicQuantize")) for name in operators)


def _content(source: str | Path | bytes | ModelFile) -> bytes:
    if isinstance(source, ModelFile):
        return source.content
    return source if isinstance(source, bytes) else read_file(source)


def check_texts(label: str, model: Message) -> None:
    """Raises ModelError for the first text in `model` that is not UTF-8; `label` names the model."""
    for place, text in _broken(model, ""):
        raise ModelError(
            f"{label}: {place} is {text[:40]!r}, which is not UTF-8 text; export or copy the model again"
        )


def _broken(message: Message, where: str) -> Iterator[tuple[str, bytes]]:
    """The texts of a message that are not UTF-8 (protobuf returns these as bytes), with their places. A place is a path
    of fields that begins with `where`, such as `graph.node[3].op_type`."""
    for field, value in message.ListFields():
        if field.type not in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE):
            continue
        name = f"{where}{field.name}"
        items = (
            [(name, value)]
            if field.has_presence
            else [(f"{name}[{i}]", item) for i, item in enumerate(value)]
        )
        for place, item in items:
            if isinstance(item, bytes):
                yield place, item
            elif isinstance(item, Message):
                yield from _broken(item, f"{place}.")
