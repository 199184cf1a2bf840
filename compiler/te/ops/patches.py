"""Patches of an image in the input scratchpad: the statements that gather them, and the factors of an output's sum."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.expr import Buffer, Const, Expr, ExprLike, Var, all_of, cast, equal, minimum
from ...ir.stmt import Assign, Intrinsic, IntrinsicDeclaration, Stmt, nest, region, seq
from ...ir.types import DType
from ..blocks import Blocks, ceil_div
from .common import filter_vectors
from .convolution import Convolution
from .patch_layout import PatchLayout


def patch_declaration(blocks: Blocks, rows: int, run: int) -> IntrinsicDeclaration:
    """The hardware operation that loads one patch from DRAM: it packs the bytes of `image` int8[rows, run], row by row,
    into the vectors of `out` int8[KB, ci] in the input scratchpad ("inp").

    KB is ceil(rows * run / ci), with ci = `blocks.block_in`; the last vector's bytes after the end of the patch are
    zero.
    """
    ci = blocks.block_in
    vectors = ceil_div(rows * run, ci)
    out = Buffer(name="out", shape=(vectors, ci), dtype=DType.INT8, scope="inp")
    image = Buffer(name="image", shape=(rows, run), dtype=DType.INT8)
    v, e, row, i = Var("v"), Var("e"), Var("row"), Var("i")
    clear = Assign.to("clear", out[v, e], Const(0, DType.INT8))
    byte = row * run + i
    pack = Assign.to("pack", out[byte // ci, byte % ci], image[row, i])
    body = seq(nest([(v, vectors), (e, ci)], clear), nest([(row, rows), (i, run)], pack))
    return IntrinsicDeclaration(name="patch", parameters=(out, image), body=body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """The loops of an output's sum over patches, and the indices that an iteration uses. `t`: number of the patch.
    `vector`: number of the vector in the patch. `product`: number of the vector among all vectors that the output
    reads. `k`: lane of the vector.

    `first`: the condition that is true only for the sum's first term.
    """

    loops: tuple[tuple[Var, ExprLike], ...]
    t: ExprLike
    vector: Expr
    product: Expr
    k: Var
    first: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """Buffers of a convolution that gathers patches of an image. OB is the number of blocks of co filters, KB the
    number of vectors of ci weights of an output, NB the number of blocks of B images.

    `image` int8[N, H, W * C] has interleaved channels. `weight` is int8[OB, KB, co, ci], or int8[OB, columns, KB, co,
    ci] if several output columns share a patch (`layout.columns` > 1). The KB vectors hold the weights of an output
    patch by patch: for each patch its kernel rows in the order of `layout`, then zeros.

    `held` int8[NB, R, patches of a row, vectors of a patch, B, ci] @ inp holds the gathered patches. R is the number of
    all patch rows or, with a `ring`, of the rows of the ring: then patch row p is in row p % R, and NB is 1, since one
    block of images after the other uses the ring.
    """

    blocks: Blocks
    convolution: Convolution
    layout: PatchLayout
    pad_value: int
    ring: int | None
    image: Buffer
    weight: Buffer
    held: Buffer

    @staticmethod
    def of(
        blocks: Blocks,
        convolution: Convolution,
        pad_value: int,
        layout: PatchLayout | None = None,
        ring: int | None = None,
    ) -> Patches:
        """The buffers of a convolution. Without a `layout`, each window is a patch of its own. `ring`: number of patch
        rows in the ring buffer, which holds only the latest rows; None: the buffer holds all patch rows.

        Raises ValueError for dilations, or a window that does not fit.
        """
        window = convolution.window
        if window.dilations != (1, 1):
            raise ValueError("patches of a dilated window are not contiguous")
        if layout is None:
            layout = PatchLayout.of(window, convolution.channels, blocks.block_in)
        rows, columns = convolution.outputs
        ci, co = blocks.block_in, blocks.block_out
        sharing = (layout.columns,) if layout.columns > 1 else ()
        weights = (filter_vectors(blocks, convolution.filters)[1], *sharing, layout.products, co, ci)
        held = (
            ceil_div(convolution.batch, blocks.batch) if ring is None else 1,
            layout.patch_rows(rows) if ring is None else ring,
            layout.patch_columns(columns),
            layout.vectors,
            blocks.batch,
            ci,
        )
        image = (convolution.batch, convolution.height, convolution.width * convolution.channels)
        return Patches(
            blocks=blocks,
            convolution=convolution,
            layout=layout,
            pad_value=pad_value,
            ring=ring,
            image=Buffer(name="X", shape=image, dtype=DType.INT8),
            weight=Buffer(name="W", shape=weights, dtype=DType.INT8),
            held=Buffer(name="patches", shape=held, dtype=DType.INT8, scope="inp"),
        )

    def images(self, n: Expr) -> ExprLike:
        """Number of images in batch block number `n`; the last block may be smaller than the others."""
        batch, size = self.convolution.batch, self.blocks.batch
        return minimum(size, batch - n * size) if batch % size else size

    def _block(self, n: Expr) -> ExprLike:
        """The index of batch block number `n` in the buffer of patches; 0 in a ring, which holds one block."""
        return n if self.ring is None else 0

    def gather(self, n: Expr, b: Expr, row: Expr, x: Expr, name: str = "patch") -> Intrinsic:
        """The statement that gathers into `held` the patch in `row` and column `x` of image `b` of batch block `n`."""
        layout, window, channels = self.layout, self.convolution.window, self.convolution.channels
        top, left, _, _ = window.pads
        vectors, step = layout.vectors, window.strides[1] * channels * layout.columns
        place = row if self.ring is None else row % self.ring
        return Intrinsic(
            name=name,
            declaration=patch_declaration(self.blocks, layout.rows, layout.run),
            operands=(
                region(
                    self.held,
                    (self._block(n), 1),
                    (place, 1),
                    (x, 1),
                    (0, vectors),
                    (b, 1),
                    (0, self.blocks.block_in),
                ),
                region(
                    self.image,
                    (n * self.blocks.batch + b, 1),
                    (row * layout.row_stride - top, layout.rows),
                    (x * step - left * channels, layout.run),
                ),
            ),
            pad=Const(self.pad_value, DType.INT8),
        )

    def gather_all(self) -> Stmt:
        """The loops patch.n, patch.b, patch.y, patch.x that gather all patches of all images, if there is no `ring`."""
        n, (count, rows) = Var("patch.n"), self.held.shape[:2]
        return nest([(n, count)], self.gather_rows(n, Const(0), rows))

    def gather_rows(self, n: Expr, first: Expr, count: int, name: str = "patch") -> Stmt:
        """Gathers `count` patch rows from `first` on, of batch block `n`, in loops `name`.b, `name`.y, `name`.x."""
        b, y, x = (Var(f"{name}.{v}") for v in ("b", "y", "x"))
        loops = [(b, self.images(n)), (y, count), (x, self.held.shape[2])]
        return nest(loops, self.gather(n, b, first + y, x, name))

    def reduction(self) -> Reduction:
        """The reduction loops. Loop conv.kb runs over the vectors of all patches of an output, and conv.k over the
        lanes of a vector. If an output reads several patches of a ring, conv.t runs over the patches, and conv.kb over
        the vectors of one patch: patches in a ring have no constant distance, so one loop cannot run over all.
        """
        layout, kb, k = self.layout, Var("conv.kb"), Var("conv.k")
        each, products, inner = layout.each, layout.products, (k, self.blocks.block_in)
        if self.ring is None or layout.count == 1:
            first = all_of(equal(kb, 0), equal(k, 0))
            loops, several = ((kb, products), inner), layout.count > 1
            t, vector = (kb // each, kb % each) if several else (0, kb)
            return Reduction(loops=loops, t=t, vector=vector, product=kb, k=k, first=first)
        t = Var("conv.t")
        vectors = each if products == layout.count * each else minimum(each, products - t * each)
        return Reduction(
            loops=((t, layout.count), (kb, vectors), inner),
            t=t,
            vector=kb,
            product=t * each + kb,
            k=k,
            first=all_of(equal(t, 0), equal(kb, 0), equal(k, 0)),
        )

    def product(
        self,
        at: tuple[Expr, Expr, Expr, Expr],
        block: Expr,
        j: Expr,
        reduction: Reduction,
        column: Expr | None,
    ) -> Expr:
        """The product of an input element and a weight that one step of `reduction` adds to a sum. The sum is output
        `at` (n, y, patch column, b) of filter `j` in filter block `block`.

        `column`: if several adjacent outputs read one patch, the number of the output among them; else None.
        """
        n, y, x, b = at
        row = y + reduction.t * self.layout.apart
        place = row if self.ring is None else row % self.ring
        sharing = () if column is None else (column,)
        return cast(
            self.held[self._block(n), place, x, reduction.vector, b, reduction.k], DType.INT32
        ) * cast(self.weight[(block, *sharing, reduction.product, j, reduction.k)], DType.INT32)
