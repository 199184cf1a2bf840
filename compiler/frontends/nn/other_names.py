"""Ways out for attributes of PyTorch's tensors that the tensors of `vdla.nn` do not have."""

from __future__ import annotations

from . import functional

_WAYS = {
    "view": "reshape",
    "view_as": "reshape",
    "size": "shape",
    "T": "transpose(0, 1)",
    "mT": "transpose(-1, -2)",
    "swapaxes": "transpose",
    "chunk": "split",
    "to": 'cast("float32")',
    "type": 'cast("float32")',
    "astype": 'cast("float32")',
    "float": 'cast("float32")',
    "half": 'cast("float16")',
    "long": 'cast("int64")',
    "int": 'cast("int32")',
    "bool": 'cast("bool")',
    "dim": "ndim",
}
"""Attributes of `vdla.nn`'s tensors by the names of PyTorch's."""


def way_out(name: str) -> str:
    """The words that say how to do without an attribute of that name."""
    if name in _WAYS:
        return f"use {_WAYS[name]}"
    if name in ("contiguous", "detach", "clone", "cpu", "cuda", "requires_grad", "requires_grad_"):
        return "leave it out, a tensor of the recorded network needs none"
    if callable(getattr(functional, name, None)):
        return f"use nn.functional.{name}"
    return "use another method, nn.functional, or nn.record for any operator of ONNX"
