"""Targets in the user's notation: "cuda", or "cuda -arch=sm_80 -tf32"."""

from __future__ import annotations

from .errors import CudaTargetError
from .machine import GpuTarget, cuda_target

DEFAULT_ARCH = "sm_90"
ARCH, TENSOR_FLOAT = "-arch", "-tf32"


def parse_target(text: str) -> GpuTarget:
    """The GPU described by `text`: "cuda", then -arch=NAME (default sm_90) and -tf32 in any order.

    -tf32 lets tensor cores compute products of float32 networks, with inputs rounded to tf32. Raises CudaTargetError,
    which names the wrong part and the legal ones.
    """
    words = text.split()
    if not words or words[0] != "cuda":
        raise CudaTargetError(
            f'target "{text}" does not begin with "cuda"; write "cuda", or "cuda {ARCH}=..."'
        )
    given: dict[str, str] = {}
    for word in words[1:]:
        option, equals, value = word.partition("=")
        if option not in (ARCH, TENSOR_FLOAT):
            raise CudaTargetError(f"unknown target option {option}; there are {ARCH}=NAME and {TENSOR_FLOAT}")
        if option in given:
            raise CudaTargetError(f"target option {option} is given twice")
        if option == ARCH and not value:
            raise CudaTargetError(f"target option {ARCH} needs a value: {ARCH}={DEFAULT_ARCH}")
        if option == TENSOR_FLOAT and equals:
            raise CudaTargetError(f"target option {TENSOR_FLOAT} takes no value")
        given[option] = value
    return cuda_target(given.get(ARCH, DEFAULT_ARCH), tensor_float=TENSOR_FLOAT in given)
