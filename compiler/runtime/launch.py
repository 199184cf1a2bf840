"""One kernel of a network with what it works on: the one record of a launch, whatever its kernel is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

KernelT = TypeVar("KernelT", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launch(Generic[KernelT]):
    """`kernel` is what runs: a loaded kernel or, in a file's network, the name of its function or module.

    `tensors` by parameter are the network's, `constants` by parameter are arrays, packed as the kernel reads them.
    `members` are the names of the ONNX nodes that it computes, `operations` its floating-point operations.
    """

    name: str
    operator: str
    members: tuple[str, ...]
    operations: int
    kernel: KernelT
    tensors: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
