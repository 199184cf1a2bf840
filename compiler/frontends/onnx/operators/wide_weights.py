"""Weights that need more than 8 bits after their zero point is subtracted (e.g. uint8 weights). Such a weight is split
into a sum of several int8 weights, and its input channel is repeated so that each of these weights has a channel.

The sum of products is the same, so nothing is rounded. Only input channels with a weight out of range are repeated;
with zero points near the middle these are few.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....graph.int8_operators import Channels
from ..emit import Rounding, append
from ..integer_context import ImportContext
from ..operations import Product
from ..values import Real


def split_weights(context: ImportContext, product: Product, to: Rounding) -> Product:
    """Replaces the int16 weights of a product by int8 weights. A weight that does not fit int8 becomes a sum of several
    int8 weights, and a new Channels node repeats its input channel so that each of these weights has a channel. Returns
    the product of the repeated channels and the int8 weights. `to` names the ONNX nodes and the output.
    """
    rest = product.weight.astype(np.int16)
    fan_in = rest.shape[1]
    parts, channels = list[np.ndarray](), list[np.ndarray]()
    while not parts or rest.any():
        used = np.arange(fan_in) if not parts else np.flatnonzero(rest.any(axis=(0, 2, 3)))
        part = np.clip(rest[:, used], -128, 127)
        rest[:, used] -= part
        parts.append(part.astype(np.int8))
        channels.append(used)
    of_group = np.concatenate(channels)
    sources = [(0, group * fan_in + int(own)) for group in range(product.groups) for own in of_group]
    data = context.tensors[product.data.tensor]
    shape = (data.nchw[0], len(sources), *data.nchw[2:])
    tensor = context.declare(f"{to.output}.repeated", shape, product.data.quantization)
    members = to.pending.members
    operator = Channels(sources=tuple(sources))
    append(context, members, f"{members[0]}.repeated", operator, (data.name,), tensor)
    repeated = Real(tensor=tensor, shape=shape, quantization=product.data.quantization)
    return replace(product, data=repeated, weight=np.concatenate(parts, axis=1))
