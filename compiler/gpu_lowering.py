"""Lowering of models for GPUs, for all languages of kernels."""

from __future__ import annotations

from dataclasses import dataclass

from .codegen.cuda.machine import GpuTarget
from .graph.errors import ModelError, NodeError
from .graph.graph import Graph, Node
from .graph.onnx_read import Source, model_label
from .kernel_driver import Dump, Imported, float_graph
from .templates.gpu.lower import lower_cuda_node, lower_methods, lower_recorded
from .templates.gpu.lowered import LoweredCudaNode
from .templates.gpu.table import GPU
from .templates.gpu.workload import CudaWorkload
from .templates.registry import Registry
from .templates.space import Values


@dataclass(frozen=True, slots=True)
class GpuLowering:
    """Lowering for GPUs, see `kernel_driver.Lowering`. All arithmetic is float32; quantized models (QDQ) keep the
    roundings of their pairs."""

    target: GpuTarget

    @property
    def templates(self) -> Registry[GpuTarget, CudaWorkload]:
        """The templates of GPUs."""
        return GPU

    def graph(self, model: Source, *, batch: int, fusion: bool, dump: Dump | None) -> Imported:
        """A model's graph with tensors in ONNX's layout (NCHW), since threads read along the width."""
        try:
            graph = float_graph(model, lanes=1, batch=batch, fusion=fusion, dump=dump)
        except NodeError as error:
            if error.op_type.startswith(("QLinear", "MatMulInteger", "ConvInteger")):
                raise ModelError(
                    f"{error}; on GPUs quantized models compute in float32, so give the form with QuantizeLinear and "
                    "DequantizeLinear (QDQ)"
                ) from None
            raise
        for tensor in graph.tensors.values():
            if tensor.dtype.is_code:
                raise ModelError(
                    f"{model_label(model)}: tensor '{tensor.name}' is {tensor.dtype}, which has no code for GPUs; run "
                    "it on a processor"
                )
        return Imported(graph=graph, label=model_label(model))

    def default(self, graph: Graph, node: Node) -> LoweredCudaNode | None:
        """The node lowered with the default knobs of its GPU template."""
        return lower_cuda_node(self.target, graph, node)

    def methods(self, graph: Graph, node: Node) -> tuple[LoweredCudaNode, ...]:
        """All lowerings of a node: convolutions, for example, have several."""
        return lower_methods(self.target, graph, node)

    def at_point(self, graph: Graph, lowered: LoweredCudaNode, values: Values) -> LoweredCudaNode:
        """The node with recorded knobs; knobs of some row operators change the program too."""
        return lower_recorded(self.target, graph, lowered, values)
