"""ViT-Tiny, DeiT-Small and Mixer-S/16, after timm's vision_transformer.py and mlp_mixer.py.

Attention is `scaled_dot_product_attention`, which the exporter writes as a product of queries and keys, both multiplied
by the square root of the scale.
"""

import math

from . import operators as op
from .classic import CLASSES
from .graph import Graph
from .values import Value

EPSILON = 1e-6
PATCH = 16
EMBEDDING_DEVIATION = 0.3


def vit_tiny(g: Graph, x: Value) -> Value:
    """Adds ViT-Tiny (timm's vit_tiny_patch16_224) with input `x` to the graph; returns the class scores. Dosovitskiy et
    al., "An Image is Worth 16x16 Words" (2020).
    """
    return _vit(g, x, heads=3)


def deit_small(g: Graph, x: Value) -> Value:
    """Adds DeiT-Small (timm's deit_small_patch16_224) with input `x` to the graph; returns the class scores. Touvron et
    al., "Training data-efficient image transformers" (2020), table 1.
    """
    return _vit(g, x, heads=6)


def _vit(g: Graph, x: Value, heads: int) -> Value:
    width = heads * g.channels(64)
    y = _patches(g, x, "patch_embed.proj", width)
    token = g.weight("cls_token", (x.shape[0], 1, width), EMBEDDING_DEVIATION, counted=False)
    g.parameters += width
    y = op.concat(g, [token, y], 1)
    y = op.add(g, y, g.weight("pos_embed", (1, *y.shape[1:]), EMBEDDING_DEVIATION))
    for block in range(g.repeats(12)):
        with g.scope(f"blocks.{block}"):
            y = op.add(g, y, _attention(g, op.layer_norm(g, y, "norm1", EPSILON), "attn", heads))
            y = op.add(g, y, mlp(g, op.layer_norm(g, y, "norm2", EPSILON), "mlp", 4 * width))
    y = op.layer_norm(g, y, "norm", EPSILON)
    return op.linear(g, op.select(g, y, 1, 0), "head", CLASSES)


def _patches(g: Graph, x: Value, name: str, width: int) -> Value:
    """Adds the embedding of the image `x` to the graph: a vector of `width` numbers for each square of PATCH x PATCH
    pixels, by the convolution called `name`. The result is [batch, patches, width].
    """
    y = op.conv(g, x, name, width, op.Window(PATCH, PATCH))
    y = op.reshape(g, y, (x.shape[0], width, math.prod(y.size)))
    return op.transpose(g, y, 0, 2, 1)


def _attention(g: Graph, x: Value, name: str, heads: int) -> Value:
    batch, length, width = x.shape
    depth = width // heads
    with g.scope(name):
        y = op.reshape(g, op.linear(g, x, "qkv", 3 * width), (batch, length, 3, heads, depth))
        q, k, v = op.unbind(g, op.transpose(g, y, 2, 0, 3, 1, 4))
        y = scaled_dot_product(g, q, k, v)
        y = op.reshape(g, op.transpose(g, y, 0, 2, 1, 3), (batch, length, width))
        return op.linear(g, y, "proj", width)


def scaled_dot_product(g: Graph, q: Value, k: Value, v: Value, mask: Value | None = None) -> Value:
    """Adds torch.nn.functional.scaled_dot_product_attention of tensors [batch, heads, length, depth] to the graph;
    `mask` is added to the scores.
    """
    factor = q.shape[-1] ** -0.25
    keys = op.scaled(g, op.transpose(g, k, 0, 1, 3, 2), factor)
    y = op.matmul(g, op.scaled(g, q, factor), keys)
    if mask is not None:
        y = op.add(g, y, mask)
    # A row of the softmax computes a weighted mean of many values, some of which have larger weights.
    return op.matmul(g, op.softmax(g, y), v, power=0.1 * v.power)


def mlp(g: Graph, x: Value, name: str, inside: int) -> Value:
    """Adds two linear layers with GELU between to the graph; `inside` is the number of inner channels."""
    with g.scope(name):
        return op.linear(g, op.gelu(g, op.linear(g, x, "fc1", inside)), "fc2", x.shape[-1])


def mixer(g: Graph, x: Value) -> Value:
    """Adds Mixer-S/16 (timm's mixer_s16_224) with input `x` to the graph; returns the class scores. Tolstikhin et al.,
    "MLP-Mixer: An all-MLP Architecture for Vision" (2021), table 1.
    """
    width = g.channels(512)
    y = _patches(g, x, "stem.proj", width)
    for block in range(g.repeats(8)):
        with g.scope(f"blocks.{block}"):
            z = op.transpose(g, op.layer_norm(g, y, "norm1", EPSILON), 0, 2, 1)
            z = op.transpose(g, mlp(g, z, "mlp_tokens", width // 2), 0, 2, 1)
            y = op.add(g, y, z)
            y = op.add(g, y, mlp(g, op.layer_norm(g, y, "norm2", EPSILON), "mlp_channels", 4 * width))
    y = op.layer_norm(g, y, "norm", EPSILON)
    return op.linear(g, op.mean(g, y, (1,)), "head", CLASSES)
