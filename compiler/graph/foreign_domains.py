"""What is said of operators that no importer has: those of other people's domains, and others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

BEFORE_OPTIMIZATION = (
    "give the model before ONNX Runtime optimized it, or save it at the level ORT_ENABLE_EXTENDED"
)
"""The way out for what ONNX Runtime writes for itself alone."""
QONNX = ("qonnx.", "finn.", "onnx.brevitas")
"""How the domains of QONNX's operators begin."""
_FOREIGN: Mapping[tuple[str, ...], tuple[str, str]] = MappingProxyType(
    {
        QONNX: (
            "is an operator of QONNX, so the model is quantized already",
            "convert it to QuantizeLinear and DequantizeLinear: python -m qonnx.util.convert MODEL --output-style qcdq",
        ),
        ("com.microsoft.nchwc",): (
            "is an operator on blocks of channels, which ONNX Runtime writes for itself",
            BEFORE_OPTIMIZATION,
        ),
    }
)
"""By the beginnings of domains' names, what their operators are and the way out."""


def is_qonnx(domain: str) -> bool:
    """Whether a domain is one of QONNX's, whose models are quantized in a form of their own."""
    return domain.startswith(QONNX)


def foreign(domain: str, supported: str) -> tuple[str, str]:
    """What is wrong with a node of an operator's domain that no importer has, and the way out."""
    for beginnings, told in _FOREIGN.items():
        if domain.startswith(beginnings):
            return told
    return f"is of the unknown domain '{domain}'", f"supported are {supported}"


def unsupported(supported: str) -> tuple[str, str]:
    """The same of an operator of a known domain; `supported` are the operators that there are."""
    return (
        "this operator is not supported",
        f"supported are {supported}; move it out of the model or replace it",
    )
