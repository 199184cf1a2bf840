"""Error texts (problem and way out) about operators of domains (namespaces of operators) that no importer supports."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

BEFORE_OPTIMIZATION = (
    "give the model before ONNX Runtime optimized it, or save it at the level ORT_ENABLE_EXTENDED"
)
"""The way out, in error messages, for operators that only ONNX Runtime's optimizer writes."""
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
"""Error texts (problem, way out) about operators, by the prefixes of their domains."""


def is_qonnx(domain: str) -> bool:
    """Whether a domain is one of QONNX's, whose models are quantized in another form (no QuantizeLinear)."""
    return domain.startswith(QONNX)


def foreign(domain: str, supported: str) -> tuple[str, str]:
    """(problem, way out) for the error about a node whose domain no importer supports; `supported`: text that lists the
    supported domains.
    """
    for beginnings, message in _FOREIGN.items():
        if domain.startswith(beginnings):
            return message
    return f"is of the unknown domain '{domain}'", f"supported are {supported}"


RECURRENT = ("LSTM", "GRU", "RNN")
"""Operators that other quantizers leave float; `vdla quantize --whole` replaces them by nodes for each step, on
integers.
"""


def unsupported(supported: str, operator: str = "") -> tuple[str, str]:
    """(problem, way out) for the error about an unsupported operator of a known domain; `supported`: text that lists
    the supported operators.
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
