"""Rewrites of a float model after which fewer tensors need to be quantized. Each changes the model in place; the model
computes the same function.

Normalizations and additions of constants become weights and biases; a Pad with zeros before a convolution becomes pads
of the convolution; a mean over all rows and columns becomes a GlobalAveragePool; an Einsum that is a matrix product
becomes a MatMul.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from ..frontends.onnx.attributes import OnnxNode, read_node
from ..frontends.onnx.operators.batch_normalization import batch_norm_factors
from .float_model import FloatModel, input_name, names_read
from .plain_forms import flatten_pools, name_matrix_products, name_means

WEIGHT_AXIS = {"Conv": 0, "ConvTranspose": 1}
"""The axis of output channels in the weights of convolutions."""


def fold(model: FloatModel) -> None:
    """Applies all rewrites of this file to `model`, in an order in which each rewrite enables later ones."""
    skip_identities(model)
    fold_pads(model)
    name_means(model)
    name_global_pools(model)
    name_matrix_products(model)
    flatten_pools(model)
    fold_gemm_factors(model)
    fold_biases(model)
    fold_batch_norms(model)


def weight_axis(node: OnnxNode) -> int:
    """The axis of output channels in the weights of a Conv, ConvTranspose, Gemm or MatMul."""
    if node.op_type == "Gemm":
        return 0 if node.integer("transB", 0) else 1
    return WEIGHT_AXIS.get(node.op_type, 1)


def skip_identities(model: FloatModel) -> None:
    """Removes Identity nodes, and Dropout nodes whose mask is not read. Nodes that read the output of a removed node
    now read its input.
    """
    inside = {
        name for node in model.nodes for name in set(names_read(node)) - set(node.input)
    }  # of graphs inside of nodes, which name it where no node here can be changed
    kept = set(model.outputs) | inside
    renamed: dict[str, str] = {}
    nodes: list[onnx.NodeProto] = []
    for node in model.nodes:
        for index, name in enumerate(node.input):
            node.input[index] = renamed.get(name, name)
        plain = node.op_type == "Identity" or (
            node.op_type == "Dropout" and _only_scales_in_training(model, node)
        )
        if plain and not kept & set(node.output):
            renamed[node.output[0]] = node.input[0]
        else:
            nodes.append(node)
    model.nodes = nodes


def _only_scales_in_training(model: FloatModel, node: onnx.NodeProto) -> bool:
    training = model.array(read_node(node, 0), 2, "training_mode")
    return not any(node.output[1:]) and (training is None or not training.any())


def fold_pads(model: FloatModel) -> None:
    """Folds a Pad with zeros along spatial dimensions into the pads of a Conv. The Conv must be its only reader."""
    uses, producers = model.uses(), model.producers()
    for node in list(model.nodes):
        before = producers.get(node.input[0]) if node.op_type == "Conv" else None
        if before is None or before.op_type != "Pad" or uses[before.output[0]] != 1:
            continue
        conv, pad = read_node(node, 0), read_node(before, 0)
        pads = _zero_pads(model, pad)
        spatial = len(model.static_shapes.get(before.input[0], ())) - 2
        if pads is None or spatial < 1 or conv.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
            continue
        if len(pads) != 2 * (spatial + 2) or any(pads[axis] for axis in (0, 1, spatial + 2, spatial + 3)):
            continue
        added = (*pads[2 : spatial + 2], *pads[spatial + 4 :])
        if min(added) < 0:
            continue
        own = conv.integers("pads", (0,) * (2 * spatial))
        _set_attributes(node, auto_pad=None, pads=[a + b for a, b in zip(own, added, strict=True)])
        node.input[0] = before.input[0]
        model.nodes.remove(before)


def _zero_pads(model: FloatModel, pad: OnnxNode) -> tuple[int, ...] | None:
    """The constant pads of a Pad with zeros: first the pads at the beginning of all axes, then those at the end.
    Returns None for any other Pad.
    """
    if pad.text("mode", "constant") != "constant" or len(pad.inputs) > 3:
        return None
    if any(name and name not in model.constants for name in pad.inputs[1:]):
        return None
    pads, value = model.array(pad, 1, "pads"), model.array(pad, 2, "value")
    if pads is None or (value is not None and value.any()):
        return None
    return tuple(int(count) for count in pads)


def name_global_pools(model: FloatModel) -> None:
    """Replaces ReduceMean over H and W of (N, C, H, W) by GlobalAveragePool. If the ReduceMean removes the axes, a
    Flatten follows.
    """
    nodes: list[onnx.NodeProto] = []
    for proto in model.nodes:
        nodes.append(proto)
        shape = model.static_shapes.get(proto.input[0], ()) if proto.input else ()
        if proto.op_type != "ReduceMean" or len(shape) != 4 or not model.is_float(proto.input[0]):
            continue
        node = read_node(proto, 0)
        axes = node.attributes.get("axes")
        if given := input_name(proto, 1):
            axes = model.constants.get(given)
        if axes is None or sorted(int(axis) % 4 for axis in axes) != [2, 3]:
            continue
        output = node.outputs[0]
        nodes[-1] = helper.make_node("GlobalAveragePool", proto.input[:1], [output], name=node.name)
        if not node.integer("keepdims", 1):
            pooled = f"{output}.pooled"
            model.types[pooled], model.static_shapes[pooled] = onnx.TensorProto.FLOAT, (*shape[:2], 1, 1)
            nodes[-1].output[0] = pooled
            nodes.append(helper.make_node("Flatten", [pooled], [output], name=f"{node.name}.flatten"))
    model.nodes = nodes


def fold_gemm_factors(model: FloatModel) -> None:
    """Folds the factors `alpha` and `beta` of a Gemm into its constants `B` and `C`; `C` gets one value per column."""
    for proto in model.nodes:
        if proto.op_type != "Gemm":
            continue
        node = read_node(proto, 0)
        bias_name = input_name(proto, 2)
        weight, bias = model.float_constant(proto.input[1]), model.float_constant(bias_name)
        if weight is None or weight.ndim != 2 or (bias_name and bias is None):
            continue
        columns = weight.shape[weight_axis(node)]
        alpha, beta = (float(node.attributes.get(name, 1.0)) for name in ("alpha", "beta"))
        if bias is not None:
            if bias.size not in (1, columns) or (bias.size != 1 and bias.shape[-1] != columns):
                continue
            if beta != 1.0 or bias.shape != (columns,):
                wide = np.broadcast_to(bias.reshape(-1).astype(np.float64) * beta, (columns,))
                proto.input[2] = model.store(f"{bias_name}.columns", wide.astype(np.float32))
        if alpha != 1.0:
            scaled = (weight.astype(np.float64) * alpha).astype(np.float32)
            proto.input[1] = model.store(f"{proto.input[1]}.scaled", scaled)
        _set_attributes(proto, alpha=None, beta=None)


def fold_biases(model: FloatModel) -> None:
    """Folds an Add of a constant, with one value for each channel, into the bias of the product (Conv, ConvTranspose,
    Gemm or MatMul) before the Add. The product must have no bias and no other reader. A Transpose between the two is
    allowed.
    """
    uses, producers = model.uses(), model.producers()
    for node in list(model.nodes):
        if node.op_type != "Add":
            continue
        for data, addend in (node.input[:], node.input[::-1]):
            last, bias = producers.get(data), model.float_constant(addend)
            if last is None or bias is None or uses[data] != 1:
                continue
            product = last
            if last.op_type == "Transpose":
                product, perm = producers.get(last.input[0]), read_node(last, 0).integers("perm", ())
                if product is None or uses[last.input[0]] != 1 or len(perm) < bias.ndim:
                    continue
                wide = bias.reshape((1,) * (len(perm) - bias.ndim) + bias.shape)
                bias = wide.transpose(np.argsort(perm))
            if not _is_foldable(model, product) or input_name(product, 2):
                continue
            rank, channels = _rank(model, product), _channels(model, product)
            shape = (1,) * (rank - bias.ndim) + bias.shape
            if len(shape) != rank or shape[1] not in (1, channels) or bias.size != shape[1]:
                continue
            _refold(model, product, np.ones(channels), np.broadcast_to(bias.reshape(-1), (channels,)))
            _take_over(model, last, node, producers)
            break


def fold_batch_norms(model: FloatModel) -> None:
    """Folds each BatchNormalization into the product (Conv, ConvTranspose, Gemm or MatMul) before it. Without such a
    product, a BatchNormalization of (N, C, H, W) becomes a 1x1 depthwise Conv.
    """
    uses, producers = model.uses(), model.producers()
    for proto in list(model.nodes):
        if proto.op_type != "BatchNormalization" or not model.is_float(proto.input[0]):
            continue
        node, shape = read_node(proto, 0), model.static_shapes.get(proto.input[0], ())
        if len(shape) < 2:
            continue
        factor, shift = batch_norm_factors(model, node, model.array, shape[1])
        product = producers.get(node.inputs[0])
        if product is not None and uses[node.inputs[0]] == 1 and _is_foldable(model, product):
            _refold(model, product, factor, shift)
            _take_over(model, product, proto, producers)
        elif len(shape) == 4:
            weight = model.store(f"{node.outputs[0]}.weight", factor.reshape(-1, 1, 1, 1).astype(np.float32))
            bias = model.store(f"{node.outputs[0]}.bias", shift.astype(np.float32))
            inputs = [node.inputs[0], weight, bias]
            replacement = helper.make_node("Conv", inputs, node.outputs, name=node.name, group=shape[1])
            proto.CopyFrom(replacement)


def _is_foldable(model: FloatModel, proto: onnx.NodeProto) -> bool:
    """Whether a node is a product (Conv, Gemm, MatMul ...) with constant weights and bias, into which a factor and an
    addend can be folded.
    """
    if proto.op_type not in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
        return False
    bias_name = input_name(proto, 2)
    weight, bias = model.float_constant(proto.input[1]), model.float_constant(bias_name)
    if weight is None or (bias_name and bias is None):
        return False
    if proto.op_type == "MatMul":
        return weight.ndim == 2 and len(model.static_shapes.get(proto.input[0], ())) == 2
    node = read_node(proto, 0)
    if node.attributes.get("alpha", 1.0) != 1.0 or node.attributes.get("beta", 1.0) != 1.0:
        return False
    return bias is None or bias.shape == (_channels(model, proto),)


def _rank(model: FloatModel, proto: onnx.NodeProto) -> int:
    return model.constants[proto.input[1]].ndim


def _channels(model: FloatModel, proto: onnx.NodeProto) -> int:
    """Number of output channels of a product (Conv, Gemm, MatMul ...) with constant weights."""
    node = read_node(proto, 0)
    channels = model.constants[proto.input[1]].shape[weight_axis(node)]
    return channels * node.integer("group", 1) if node.op_type == "ConvTranspose" else channels


def _refold(model: FloatModel, proto: onnx.NodeProto, factor: np.ndarray, shift: np.ndarray) -> None:
    """Folds `factor` and `shift` into the weights and bias of the product node `proto`, so that its result is
    multiplied by `factor` and `shift` is added to it. Both are float64 with one value per channel. New weights and bias
    are rounded once.
    """
    node = read_node(proto, 0)
    weight = model.constants[proto.input[1]].astype(np.float64)
    if node.op_type == "ConvTranspose":
        groups = node.integer("group", 1)
        parts = weight.reshape(groups, -1, *weight.shape[1:])
        factors = factor.reshape(groups, 1, weight.shape[1], *[1] * (weight.ndim - 2))
        scaled = (parts * factors).reshape(weight.shape)
    else:
        shape = [1] * weight.ndim
        shape[weight_axis(node)] = -1
        scaled = weight * factor.reshape(shape)
    bias = np.asarray(shift, np.float64)
    if input_name(proto, 2):
        bias = bias + model.constants[proto.input[2]].astype(np.float64) * factor
    names = [proto.input[0], proto.input[1]]
    if (factor != 1.0).any():
        names[1] = model.store(f"{node.name}.folded_weight", scaled.astype(np.float32))
    names.append(model.store(f"{node.name}.folded_bias", bias.astype(np.float32)))
    del proto.input[:]
    proto.input.extend(names)
    if proto.op_type == "MatMul":
        proto.op_type = "Gemm"


def _take_over(
    model: FloatModel, product: onnx.NodeProto, last: onnx.NodeProto, producers: dict[str, onnx.NodeProto]
) -> None:
    """Removes the node `last` after it was folded into the earlier node `product`. The output of `last` is now computed
    by `product`, or by a Transpose of the product's result. Updates `producers`, the nodes by output.
    """
    del producers[product.output[0]]
    product.output[0] = last.output[0]
    producers[last.output[0]] = product
    model.nodes.remove(last)


def _set_attributes(proto: onnx.NodeProto, **values: object) -> None:
    """Sets attributes of a node; the value None removes an attribute."""
    kept = [attribute for attribute in proto.attribute if attribute.name not in values]
    kept += [helper.make_attribute(name, value) for name, value in values.items() if value is not None]
    del proto.attribute[:]
    proto.attribute.extend(kept)
