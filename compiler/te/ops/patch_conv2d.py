"""A network's first convolution, computed directly from the host's interleaved (channels-last) image.

An image has few channels, so vectors of channels would be mostly empty. A vector holds whole window rows instead: KW *
C adjacent bytes of a channels-last image row, for each of the KH rows, packed densely into patches (`patch_layout`).
"""

from __future__ import annotations

from ...ir.expr import Buffer, Var
from ...ir.stmt import Alloc, Program, Reduce, nest, parameters_of, seq
from ...ir.types import DType
from ..blocks import Blocks
from ..post import Post
from .common import Outputs, filter_vectors
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
    name: str = "patch_conv2d",
) -> Program:
    """`conv2d` on an image X int8[N, H, W * C] with interleaved channels. It first gathers patches of the image; a
    window consists of one or several patches. `layout` says how windows are cut into patches (None: each window is one
    patch).

    X, W and the buffer `patches` are those of `Patches`; P, R and Y are as in `conv2d`. If each window is a
    patch, W is int8[OB, KB, co, ci]: OB blocks of co filters, each with KB vectors of ci lanes. The weight at kernel
    row kh, kernel column kw and channel c has number k = kh * KW * C + kw * C + c, and is in vector k // ci.

    Statement "patch" fills `patches`, in loops patch.n, patch.b, patch.y, patch.x; image n is row n % B of batch block
    n // B. Statement "conv" computes the sums `acc`, in reduction loops conv.kb (vectors of all patches of an output)
    and conv.k (lanes). If output columns share patches, loops conv.x and x run over patches, and loops conv.xi and xi
    over the columns of a patch; `acc` then has a dimension for these columns.

    Raises ValueError for dilations, or for a window that does not fit.
    """
    patches = Patches.of(blocks, convolution, pad_value, layout)
    sharing = patches.layout.columns
    b_size, co = blocks.batch, blocks.block_out
    oh, ow = convolution.outputs
    nb, _, columns = patches.held.shape[:3]
    own, ob = filter_vectors(blocks, convolution.filters)
    neighbours, several = ((sharing,), (Var("conv.xi"),)) if sharing > 1 else ((), ())
    acc = Buffer(name="acc", shape=(nb, ob, oh, columns, *neighbours, b_size, co), dtype=DType.INT32)
    n, o, y, x, b, j = (Var(f"conv.{v}") for v in ("n", "o", "y", "x", "b", "j"))
    reduction = patches.reduction()
    conv = Reduce.into(
        "conv",
        "add",
        acc[(n, o, y, x, *several, b, j)],
        patches.product((n, y, x, b), o, j, reduction, *(several or (None,))),
        reduction.first,
    )
    positions = [(n, nb), (o, own), (y, oh), (x, columns), *((xi, sharing) for xi in several)]
    loops = [*positions, (b, b_size), (j, co), *reduction.loops]
    outputs = Outputs.of(blocks, (nb, ob, oh, ow), post)
    finish = outputs.finish(acc, filters=own, neighbours=sharing)
    body = seq(patches.gather_all(), nest(loops, conv), finish)
    return Program(
        name=name,
        parameters=parameters_of(patches.image, patches.weight, *outputs.buffers),
        body=Alloc(buffer=patches.held, body=Alloc(buffer=acc, body=body)),
    )
