"""Networks compiled for GPUs, as plain data: what of them needs no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..graph.graph import Graph
from ..graph.storage_plan import StoragePlan
from ..target.cuda.machine import CudaTarget
from ..target.cuda.module import CudaModule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CudaLaunch:
    """One node of a network: the `module` of its kernels, by name, and what they work on.

    `tensors` by parameter are the network's, `constants` by parameter are arrays, packed as the kernels read them.
    `members` are the names of the ONNX nodes that it computes, `operations` its floating-point operations.
    """

    name: str
    operator: str
    members: tuple[str, ...]
    operations: int
    module: str
    tensors: Mapping[str, str]
    constants: Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledModule:
    """Kernels of one program as text, launches and a cubin."""

    name: str
    module: CudaModule
    cubin: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CudaNetworkCode:
    """A network compiled for `target`, on whatever machine."""

    graph: Graph
    plan: StoragePlan
    launches: tuple[CudaLaunch, ...]
    target: CudaTarget
    modules: tuple[CompiledModule, ...]
    compile_seconds: float = 0.0
