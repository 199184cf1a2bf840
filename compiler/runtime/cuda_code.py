"""Networks compiled for GPUs, as plain data that needs no GPU."""

from __future__ import annotations

from dataclasses import dataclass

from ..codegen.cuda.machine import GpuTarget
from ..codegen.cuda.module import CudaModule
from ..graph.graph import Graph
from ..graph.storage_plan import StoragePlan
from .launch import Launch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledModule:
    """The kernels of one program: their text, their launches and the code that a device loads (for NVIDIA's GPUs a
    cubin).
    """

    name: str
    module: CudaModule
    cubin: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CudaNetworkCode:
    """A network compiled for `target`, on any machine. `quantized`: the float32 inputs that are quantized; they must
    not contain NaN, which has no integer value.
    """

    graph: Graph
    plan: StoragePlan
    launches: tuple[Launch[str], ...]
    target: GpuTarget
    modules: tuple[CompiledModule, ...]
    compile_seconds: float = 0.0
    quantized: frozenset[str] = frozenset()
