"""Makes GPU workloads from workload names such as "dense:1,512,64". A name is turned into an ONNX model of one
operator, whose workloads are returned: a workload for each method to compute the operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.codegen.cuda.machine import GpuTarget
from vdla.compiler.gpu_stages import GpuLowering
from vdla.compiler.pipeline import network_workloads
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.float_elementwise import float_elementwise
from vdla.compiler.te.scalars import argument
from vdla.compiler.templates.gpu.flat import flattened
from vdla.compiler.templates.gpu.workload import CudaWorkload, workload_of
from vdla.util.errors import UserError

from .named_layers import same_window
from .workload_names import (
    ELEMENTWISE,
    EPSILON,
    OPERATIONS,
    parse_elementwise,
    parse_sizes,
    transposed_window,
)

MOST_ELEMENTS = 1 << 28
"""Largest number of elements of a tensor, 1 GiB of float32; a process that measures a workload allocates several
tensors.
"""


def cuda_workloads(text: str, target: GpuTarget) -> list[CudaWorkload]:
    """The float32 workloads that the workload name `text` describes (its forms are in `workload_names.FORMS`);
    convolutions have batch 1 and SAME padding.

    There is one workload for each method to compute the operator; networks without tuning records use the first. Raises
    UserError for a `text` of another form, for operators without knobs on GPUs, and for tensors that are too large.
    """
    found = _elementwise(text) if text.startswith(ELEMENTWISE) else _of_model(text, target)
    if not found:
        raise UserError(
            f"--workload {text}: cannot be tuned on GPUs, where it has no knobs or takes too much memory; name "
            "another workload"
        )
    return found


def _of_model(text: str, target: GpuTarget) -> list[CudaWorkload]:
    operator, sizes = parse_sizes(text)
    match operator:
        case "conv2d":
            size, channels, filters, kernel, stride = sizes
            window = same_window(size, kernel, stride)
            shapes = {"X": (1, channels, size, size), "W": (filters, channels, kernel, kernel)}
            node = helper.make_node("Conv", ["X", "W"], ["Y"], "conv", **_window(window))
        case "depthwise":
            size, channels, kernel, stride = sizes
            window = same_window(size, kernel, stride)
            shapes = {"X": (1, channels, size, size), "W": (channels, 1, kernel, kernel)}
            node = helper.make_node("Conv", ["X", "W"], ["Y"], "conv", group=channels, **_window(window))
        case "conv_transpose":
            size, channels, filters, kernel, stride = sizes
            window, padding = transposed_window(text, kernel, stride)
            shapes = {"X": (1, channels, size, size), "W": (channels, filters, kernel, kernel)}
            node = helper.make_node(
                "ConvTranspose", ["X", "W"], ["Y"], "conv", output_padding=padding, **_window(window)
            )
        case "dense":
            rows, depth, columns = sizes
            shapes = {"X": (rows, depth), "W": (depth, columns)}
            node = helper.make_node("Gemm", ["X", "W"], ["Y"], "dense")
        case "matmul":
            batch, rows, depth, columns = sizes
            shapes = {"X": (batch, rows, depth), "W": (batch, depth, columns)}
            node = helper.make_node("MatMul", ["X", "W"], ["Y"], "matmul")
        case "softmax":
            shapes = {"X": sizes}
            node = helper.make_node("Softmax", ["X"], ["Y"], "softmax", axis=1)
        case "normalization":
            shapes = {"X": sizes, "W": (sizes[1],), "B": (sizes[1],)}
            node = helper.make_node(
                "LayerNormalization", ["X", "W", "B"], ["Y"], "normalize", axis=1, epsilon=EPSILON
            )
        case _:
            shapes = {"X": sizes}
            node = helper.make_node("ReduceSum", ["X", "axes"], ["Y"], "reduction", keepdims=0)
    if large := next((name for name, shape in shapes.items() if prod(shape) > MOST_ELEMENTS), None):
        raise UserError(
            f"--workload {text}: {large} has more than {MOST_ELEMENTS:,} elements; name a smaller one"
        )
    constants = () if operator == "matmul" else [name for name in shapes if name != "X"]
    model = _model(node, shapes, constants)
    return [workload for _, workload in network_workloads(GpuLowering(target), model)]


def _window(window: Window) -> dict[str, Any]:
    """A window as attributes of an ONNX node."""
    return {
        "kernel_shape": list(window.kernel),
        "strides": list(window.strides),
        "pads": list(window.pads),
    }


def _model(node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]], constants: Sequence[str]) -> bytes:
    """An ONNX model that consists of `node` alone. `shapes`: shapes of the node's inputs. The inputs in `constants` are
    initializers of zeros; an input "axes" is the constant [1].
    """
    given = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
        if name not in constants
    ]
    held = [numpy_helper.from_array(np.zeros(shapes[name], np.float32), name) for name in constants]
    if "axes" in node.input:
        held.append(numpy_helper.from_array(np.array([1], np.int64), "axes"))
    output = helper.make_empty_tensor_value_info("Y")
    output.type.tensor_type.elem_type = TensorProto.FLOAT
    graph = helper.make_graph([node], "workload", given, [output], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model).SerializeToString()


def _elementwise(text: str) -> list[CudaWorkload]:
    operation, shapes = parse_elementwise(text)
    _, function = OPERATIONS[operation]
    try:
        plain = float_elementwise(shapes, function(*(argument(i) for i in range(len(shapes)))))
    except ValueError as error:
        raise UserError(f"--workload {text}: {error}") from None
    if prod(plain.parameters[-1].shape) > MOST_ELEMENTS:
        raise UserError(
            f"--workload {text}: its result has more than {MOST_ELEMENTS:,} elements; name a smaller one"
        )
    found = workload_of("elementwise_cuda", flattened(plain))
    return [] if found is None else [found]
