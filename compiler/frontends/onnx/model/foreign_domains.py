"""Error texts (problem and remedy) for operators of domains that no importer supports. A domain is a namespace of ONNX
operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

BEFORE_OPTIMIZATION = (
    "give the model before ONNX Runtime optimized it, or save it at the level ORT_ENABLE_EXTENDED"
)
"""Remedy, in error messages, for operators that only ONNX Runtime's optimizer writes."""
QONNX = ("qonnx.", "finn.", "onnx.brevitas")
"""Prefixes of the domains of QONNX's operators."""
_FOREIGN: Mapping[tuple[str, ...], tuple[str, str]] = MappingProxyType(
    {
        QONNX: (
            "is an operator of QONNX, so the model is quantized already",
            "convert it to QuantizeLinear and DequantizeLinear: python -m qonnx.util.convert MODEL --output-style qcdq",
        ),
        ("com.microsoft.nchwc",): (
            "is an internal operator of ONNX Runtime on blocks of channels",
            BEFORE_OPTIMIZATION,
        ),
    }
)
"""Error texts (problem, remedy) about operators, by the prefixes of their domains."""


def is_qonnx(domain: str) -> bool:
    """Whether a domain is one of QONNX's. (QONNX models express quantization without QuantizeLinear.)"""
    return domain.startswith(QONNX)


def foreign(domain: str, supported: str) -> tuple[str, str]:
    """Error text (problem, remedy) for a node whose domain no importer supports; `supported`: text that lists the
    supported operators.
    """
    for beginnings, message in _FOREIGN.items():
        if domain.startswith(beginnings):
            return message
    return f"is of the unknown domain '{domain}'", f"supported are {supported}"


LEAVE = "leave the node to the processor"
"""Advice in error messages about operators that processors and GPUs compute, and accelerators do not."""
_RECURRENT = (
    "is a recurrent layer in float32",
    f"quantize the float model with `vdla quantize --whole`, which writes its steps, or {LEAVE}",
)
_DYNAMIC = (
    "is quantized dynamically: its scale is known only at run time",
    f"quantize the float model statically (onnxruntime.quantization.quantize_static), or {LEAVE}",
)
_UNSUPPORTED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("LSTM", "GRU", "RNN"), _RECURRENT),
        **dict.fromkeys(("DynamicQuantizeLinear", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul"), _DYNAMIC),
        **dict.fromkeys(("ConvInteger", "MatMulInteger", "MatMulIntegerToFloat"), _DYNAMIC),
    }
)
"""For each operator that an integer graph cannot have, the error text (problem, way out)."""


def unsupported(supported: str, operator: str = "") -> tuple[str, str]:
    """Returns (problem, way out) for the error about an unsupported operator of a known domain. `supported`: text that
    lists the supported operators. `operator`: the operator's name if only integer graphs lack it; "" if float graphs
    lack it.
    """
    from ..table import ROWS

    if operator in _UNSUPPORTED:
        return _UNSUPPORTED[operator]
    if operator in ROWS:
        return "only processors and GPUs compute this operator", LEAVE
    return (
        "this operator is not supported",
        f"supported are {supported}; move it out of the model or replace it",
    )
