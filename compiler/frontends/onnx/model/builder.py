"""An ONNX graph under construction, shared by all code that writes models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, DTypeLike
from onnx import helper, numpy_helper

from ....graph.int8_convolution import Quantization


@dataclass(slots=True, kw_only=True)
class OnnxGraph:
    """Nodes and initializers in the order they were added."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def constant(self, name: str, values: ArrayLike, dtype: DTypeLike) -> str:
        """Adds the initializer `name` of type `dtype`; an existing one of this name stays. Returns the name."""
        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.asarray(values, dtype), name)
        return name

    def node(
        self,
        operator: str,
        name: str,
        inputs: Sequence[str],
        output: str,
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Adds a node with one output; returns the output's name."""
        self.nodes.append(
            helper.make_node(operator, list(inputs), [output], name=name, domain=domain, **attributes)
        )
        return output

    def quantize_dequantize(
        self, tensor: str, quantization: Quantization, *, output: str | None = None, source: str | None = None
    ) -> str:
        """Adds a QuantizeLinear and a DequantizeLinear named after `tensor`; returns the name of the dequantized
        result.

        The QuantizeLinear reads `source`, or `tensor` if there is no `source`. The DequantizeLinear writes `output`
        (None: "`tensor`_DequantizeLinear_Output"). Scale and zero point of `quantization` become initializers.
        """
        scale = self.constant(f"{tensor}_scale", quantization.scale, np.float32)
        zero_point = self.constant(f"{tensor}_zero_point", quantization.zero_point, quantization.dtype)
        integers = f"{tensor}_QuantizeLinear_Output"
        inputs = [source or tensor, scale, zero_point]
        self.node("QuantizeLinear", f"{tensor}_QuantizeLinear", inputs, integers)
        output = output or f"{tensor}_DequantizeLinear_Output"
        inputs = [integers, scale, zero_point]
        return self.node("DequantizeLinear", f"{tensor}_DequantizeLinear", inputs, output)

    def dequantized(
        self,
        tensor: str,
        integers: np.ndarray,
        scale: np.ndarray,
        zero_point: int = 0,
        axis: int | None = None,
    ) -> str:
        """Adds initializers for `integers`, scale and zero point, and a DequantizeLinear that reads them. All are named
        after `tensor`. Returns the output's name.

        `scale` is float32: a single value, shape (), or one value for each index along `axis`. All scales have the same
        `zero_point`.
        """
        inputs = [
            self.constant(f"{tensor}_quantized", integers, integers.dtype),
            self.constant(f"{tensor}_scale", scale, np.float32),
            self.constant(f"{tensor}_zero_point", np.full(scale.shape, zero_point), integers.dtype),
        ]
        output = f"{tensor}_DequantizeLinear_Output"
        attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
        return self.node("DequantizeLinear", f"{tensor}_DequantizeLinear", inputs, output, **attributes)
