"""A network's first convolution, straight from the host's interleaved image.

Few channels would leave most of a vector empty. Here the vectors are made of whole window rows instead: KW * C
neighbouring bytes of a channels-last image row, for each of the KH rows, packed densely into a patch.
"""

from __future__ import annotations

from ...ir.expr import Buffer, Const, Var, all_of, cast, equal, minimum
from ...ir.stmt import (
    Alloc,
    Assign,
    Intrinsic,
    IntrinsicDeclaration,
    Program,
    Reduce,
    nest,
    region,
    seq,
)
from ...ir.types import DType
from ..blocks import Blocks, Window, ceil_div
from ..post import Post
from .common import activation, output_buffers, parameters_of, post_nest
from .convolution import Convolution
from .ring import Ring


def patch_declaration(blocks: Blocks, rows: int, run: int) -> IntrinsicDeclaration:
    """One patch: `out` int8[KB, ci] @ inp holds the `rows` x `run` bytes of `image` int8[rows, run] @ dram, row by row.

    KB = ceil(rows * run / ci); the bytes of the last vector behind the patch are zero.
    """
    ci = blocks.block_in
    vectors = ceil_div(rows * run, ci)
    out = Buffer(name="out", shape=(vectors, ci), dtype=DType.INT8, scope="inp")
    image = Buffer(name="image", shape=(rows, run), dtype=DType.INT8)
    v, e, row, i = Var("v"), Var("e"), Var("row"), Var("i")
    clear = Assign(name="clear", buffer=out, indices=(v, e), value=Const(0, DType.INT8))
    byte = row * run + i
    pack = Assign(name="pack", buffer=out, indices=(byte // ci, byte % ci), value=image[row, i])
    body = seq(nest([(v, vectors), (e, ci)], clear), nest([(row, rows), (i, run)], pack))
    return IntrinsicDeclaration(name="patch", parameters=(out, image), body=body)


def patch_conv2d(
    *,
    blocks: Blocks,
    convolution: Convolution,
    pad_value: int,
    post: Post,
    pool: Window | None = None,
    name: str = "patch_conv2d",
) -> Program:
    """`conv2d` on an image X int8[N, H, W * C] of interleaved channels.

    W is int8[OB, KB, co, ci], its byte k = kh * KW * C + kw * C + c in vector k // ci; P, R and Y as of `conv2d`.
    Intermediates: `patches` int8[NB, OH, OW, KB, B, ci] @ inp (statement "patch", loops patch.n, patch.b, patch.y,
    patch.x; image n is row n % B of batch block n // B) and `acc` (statement "conv", reduction loops conv.kb, conv.k).
    `pool` as for `conv2d`.
    ValueError for dilations or a window that does not fit.
    """
    if convolution.window.dilations != (1, 1):
        raise ValueError("patches of a dilated window are not contiguous")
    batch, channels, filters = convolution.batch, convolution.channels, convolution.filters
    height, width, window = convolution.height, convolution.width, convolution.window
    b_size, ci, co = blocks.batch, blocks.block_in, blocks.block_out
    nb, ob = ceil_div(batch, b_size), ceil_div(filters, co)
    (kh_size, kw_size), (sy, sx) = window.kernel, window.strides
    top, left, _, _ = window.pads
    oh, ow = window.outputs(height, width)
    run = kw_size * channels
    declaration = patch_declaration(blocks, kh_size, run)
    kb_size = declaration.parameters[0].shape[0]

    image = Buffer(name="X", shape=(batch, height, width * channels), dtype=DType.INT8)
    weight = Buffer(name="W", shape=(ob, kb_size, co, ci), dtype=DType.INT8)
    patches = Buffer(name="patches", shape=(nb, oh, ow, kb_size, b_size, ci), dtype=DType.INT8, scope="inp")
    n, b, y, x = (Var(f"patch.{v}") for v in ("n", "b", "y", "x"))
    first_byte = x * (sx * channels) - left * channels
    patch = Intrinsic(
        name="patch",
        declaration=declaration,
        operands=(
            region(patches, (n, 1), (y, 1), (x, 1), (0, kb_size), (b, 1), (0, ci)),
            region(image, (n * b_size + b, 1), (y * sy - top, kh_size), (first_byte, run)),
        ),
        pad=Const(pad_value, DType.INT8),
    )
    images = minimum(b_size, batch - n * b_size) if batch % b_size else b_size
    gather = nest([(n, nb), (b, images), (y, oh), (x, ow)], patch)

    ring = Ring.of(pool, oh, ow)
    acc = activation("acc", (nb, ob, *ring.shape), (b_size, co), DType.INT32)
    n, o, y, x, b, j, kb, k = (Var(f"conv.{v}") for v in ("n", "o", "y", "x", "b", "j", "kb", "k"))
    conv = Reduce(
        name="conv",
        op="add",
        buffer=acc,
        indices=acc[n, o, y + ring.top, x + ring.left, b, j].indices,
        value=cast(patches[n, y, x, kb, b, k], DType.INT32) * cast(weight[o, kb, j, k], DType.INT32),
        first=all_of(equal(kb, 0), equal(k, 0)),
    )
    loops = [
        (n, nb),
        (o, ob),
        (y, ring.rows),
        (x, ring.columns),
        (b, b_size),
        (j, co),
        (kb, kb_size),
        (k, ci),
    ]
    size = (oh, ow) if pool is None else pool.outputs(oh, ow)
    outputs = output_buffers(blocks, (nb, ob, *size), post)
    finish = post_nest(
        blocks,
        acc,
        outputs,
        post,
        window=(1, 1) if pool is None else pool.kernel,
        strides=(1, 1) if pool is None else pool.strides,
    )
    parameters, out, operand = outputs
    body = seq(gather, *ring.fills(acc), nest(loops, conv), finish)
    return Program(
        name=name,
        parameters=parameters_of(image, weight, parameters, operand, out),
        body=Alloc(buffer=patches, body=Alloc(buffer=acc, body=body)),
    )
