"""A launch: one kernel of a network with its tensors and constants, for all kinds of kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

KernelT = TypeVar("KernelT", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launch(Generic[KernelT]):
    """One launch of a kernel. `kernel`: a loaded kernel or, in networks that are not loaded, the name of its function
    or module.

    `name`, `operator`: name and operator of the graph's node. `tensors`: names of the network's tensors by parameter;
    `constants`: arrays by parameter, packed for the kernel. `members`: names of the ONNX nodes that the kernel
    computes; `operations`: number of its floating-point operations. `method`: the kernel's template and knobs as text
    for readers. Archives do not store this text: it is "" in a loaded network.
    """

    name: str
    operator: str
    members: tuple[str, ...]
    operations: int
    kernel: KernelT
    tensors: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
    method: str = ""
