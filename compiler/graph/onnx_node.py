"""One node of an ONNX file, unpacked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OnnxNode:
    """One node of the file, with attributes as Python values and a name that is never empty."""

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    proto: onnx.NodeProto

    def integer(self, attribute: str, default: int) -> int:
        """An integer attribute, or the default of the operator's specification."""
        return int(self.attributes.get(attribute, default))

    def integers(self, attribute: str, default: Sequence[int]) -> tuple[int, ...]:
        """A list attribute, or the default of the operator's specification."""
        return tuple(int(value) for value in self.attributes.get(attribute, default))

    def text(self, attribute: str, default: str) -> str:
        """A string attribute, or the default of the operator's specification."""
        value = self.attributes.get(attribute, default)
        return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def read_node(proto: onnx.NodeProto, index: int) -> OnnxNode:
    """Unpacks a NodeProto; a node without a name is named after its type and index."""
    return OnnxNode(
        name=proto.name or f"{proto.op_type}_{index}",
        op_type=proto.op_type,
        domain=proto.domain,
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        attributes={entry.name: onnx.helper.get_attribute_value(entry) for entry in proto.attribute},
        proto=proto,
    )
