"""A network's first convolution, computed directly from the host's interleaved (channels-last) image.

An image has few channels, so vectors of channels would be mostly empty. A vector holds whole window rows instead: KW *
C adjacent bytes of a channels-last image row, for each of the KH rows, packed densely into patches (`patch_layout`).
"""

from __future__ import annotations

from ...ir.expr import Buffer, Var
from ...ir.stmt import Alloc, Program, Reduce, nest, parameters_of, seq
from ...ir.types import DType
from ..blocks import Blocks, Window
from ..post import Post
from .common import Outputs, Ring, filter_vectors
from .convolution import Convolution
from .patch_layout import PatchLayout
from .patches import Patches


def patch_conv2d(
    *,
    blocks: Blocks,
    convolution: Convolution,
    pad_value: int,
    post: Post,
    layout: PatchLayout | None = None,
    pool: Window | None = None,
    name: str = "patch_conv2d",
) -> Program:
    """`conv2d` on an image X int8[N, H, W * C] with interleaved channels. It first gathers patches of the image; a
    window consists of one or several patches. `layout` says how windows are cut into patches (None: each window is one
    patch).

    X, W and the buffer `patches` are those of `Patches`; P, R, Y and `pool` are as in `conv2d`. If each window is a
    patch, W is int8[OB, KB, co, ci]: OB blocks of co filters, each with KB vectors of ci lanes. The weight at kernel
    row kh, kernel column kw and channel c has number k = kh * KW * C + kw * C + c, and is in vector k // ci.

    Statement "patch" fills `patches`, in loops patch.n, patch.b, patch.y, patch.x; image n is row n % B of batch block
    n // B. Statement "conv" computes the sums `acc`, in reduction loops conv.kb, conv.k, and conv.t if an output reads
    several patches. If output columns share patches, loops conv.x and x run over patches, and loops conv.xi and xi over
    the columns of a patch; `acc` then has a dimension for these columns.

    Raises ValueError for dilations, for a window that does not fit, or for a pool if columns share patches.
    """
    patches = Patches.of(blocks, convolution, pad_value, layout)
    sharing = patches.layout.columns
    if sharing > 1 and pool is not None:
        raise ValueError("columns that share patches cannot be followed by a pool")
    b_size, co = blocks.batch, blocks.block_out
    oh, ow = convolution.outputs
    nb, rows, columns = patches.held.shape[:3]
    own, ob = filter_vectors(blocks, convolution.filters)
    n, b, y, x = (Var(f"patch.{v}") for v in ("n", "b", "y", "x"))
    loops = [(n, nb), (b, patches.images(n)), (y, rows), (x, columns)]
    gather = nest(loops, patches.gather(n, b, y, x))

    ring = Ring.of(pool, oh, ow)
    shape, several = (nb, ob, *ring.shape), ()
    if sharing > 1:
        shape, several = (*shape[:3], columns, sharing), (Var("conv.xi"),)
    acc = Buffer(name="acc", shape=(*shape, b_size, co), dtype=DType.INT32)
    n, o, y, x, b, j = (Var(f"conv.{v}") for v in ("n", "o", "y", "x", "b", "j"))
    reduction = patches.reduction()
    conv = Reduce.into(
        "conv",
        "add",
        acc[(n, o, y + ring.top, x + ring.left, *several, b, j)],
        patches.product((n, y, x, b), o, j, reduction, *(several or (None,))),
        reduction.first,
    )
    positions = [
        (n, nb),
        (o, own),
        (y, ring.rows),
        (x, ring.columns // sharing),
        *((xi, sharing) for xi in several),
    ]
    loops = [*positions, (b, b_size), (j, co), *reduction.loops]
    size = (oh, ow) if pool is None else pool.outputs(oh, ow)
    outputs = Outputs.of(blocks, (nb, ob, *size), post)
    finish = outputs.finish(acc, window=pool, filters=own, neighbours=sharing)
    body = seq(gather, *ring.fills(acc), nest(loops, conv), finish)
    return Program(
        name=name,
        parameters=parameters_of(patches.image, patches.weight, *outputs.buffers),
        body=Alloc(buffer=patches.held, body=Alloc(buffer=acc, body=body)),
    )
