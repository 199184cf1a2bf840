"""Conversions on the host: model inputs to stored int8 tensors, and stored tensors to model outputs."""

from __future__ import annotations

import numpy as np

from vdla.isa.scales import dequantize, quantize
from vdla.util.arguments import InputError

from .graph import Graph, GraphInput, GraphOutput


def store_inputs(graph: Graph, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Stored int8 tensors of all inputs, by tensor name. Raises InputError for a missing or unknown name."""
    known = {graph_input.name for graph_input in graph.inputs}
    for name in arrays.keys() - known:
        raise InputError(f"the model has no input '{name}'; its inputs are {', '.join(sorted(known))}")
    for name in sorted(known - arrays.keys()):
        raise InputError(f"input '{name}' is missing; give an array of that name")
    return {entry.tensor: store_input(graph, entry, arrays[entry.name]) for entry in graph.inputs}


def store_input(graph: Graph, graph_input: GraphInput, array: np.ndarray) -> np.ndarray:
    """The stored tensor of one input: int8, in the shape of its graph tensor.

    Float inputs are quantized as QuantizeLinear does. Raises InputError for a wrong shape, a wrong type or NaN.
    """
    if array.shape != graph_input.shape:
        raise InputError(
            f"input '{graph_input.name}' has shape {array.shape}; the model needs {graph_input.shape}"
        )
    if array.dtype != np.dtype(graph_input.dtype):
        raise InputError(
            f"input '{graph_input.name}' has type {array.dtype}; convert it to {graph_input.dtype}"
        )
    tensor = graph.tensors[graph_input.tensor]
    ordered = array if graph_input.permutation is None else array.transpose(graph_input.permutation)
    if graph_input.dtype == "float32":
        if np.isnan(array).any():
            first = np.argwhere(np.isnan(array))[0].tolist()
            raise InputError(
                f"input '{graph_input.name}' contains NaN, first at {first}, which cannot be quantized; clean the "
                "input data first"
            )
        stored = quantize(ordered, tensor.grid.scale, tensor.grid.stored_zero_point)
    else:
        stored = (ordered.astype(np.int16) - tensor.grid.offset).astype(np.int8)
    return np.ascontiguousarray(stored.reshape(tensor.shape))


def model_integers(stored: np.ndarray, dtype: str) -> np.ndarray:
    """Stored int8 values in the model's own integer type."""
    return (stored.astype(np.int16) + (128 if dtype == "uint8" else 0)).astype(dtype)


def load_output(output: GraphOutput, stored: np.ndarray) -> np.ndarray:
    """One output in the model's shape and dtype, from its stored int8 tensor."""
    if output.view is None:
        values = stored.reshape(output.shape)
    else:
        zero = 0 if output.quantization is None else output.quantization.stored_zero_point
        values = np.where(output.view < 0, np.int8(zero), stored.reshape(-1)[output.view])
    if output.quantization is not None and output.dtype == "float32":
        return dequantize(values, output.quantization.scale, output.quantization.stored_zero_point)
    return model_integers(values, output.dtype)


def load_outputs(graph: Graph, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Reads all outputs of the model from the stored `tensors` of the graph. Returns the outputs by their names in the
    model."""
    return {output.name: load_output(output, tensors[output.tensor]) for output in graph.outputs}
