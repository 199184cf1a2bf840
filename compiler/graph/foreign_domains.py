"""Error texts (problem and remedy) about operators of domains (namespaces of operators) that no importer supports."""

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
    supported domains.
    """
    for beginnings, message in _FOREIGN.items():
        if domain.startswith(beginnings):
            return message
    return f"is of the unknown domain '{domain}'", f"supported are {supported}"


RECURRENT = ("LSTM", "GRU", "RNN")
"""Operators that other quantizers leave in float32; `vdla quantize --whole` replaces them by integer nodes for each
step.
"""


def unsupported(supported: str, operator: str = "") -> tuple[str, str]:
    """Error text (problem, remedy) for an unsupported operator of a known domain; `supported`: text that lists the
    supported operators.
    """
    if operator in RECURRENT:
        return (
            "is a recurrent layer in float32",
            "quantize the float model with `vdla quantize --whole`, which unrolls the layer into quantized steps, or "
            "run the layer on the processor (--target vdla,llvm)",
        )
    return (
        "this operator is not supported",
        f"supported are {supported}; move it out of the model or replace it",
    )
