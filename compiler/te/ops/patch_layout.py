"""Layout of patches: the division of a first convolution's windows into patches of an image.

A patch is a number of rows of an image, with equal numbers of neighbouring bytes, packed densely into vectors. A window
may be one patch, but neighbouring windows overlap: several output rows can share patches of fewer rows, and several
output columns can share wider patches, each column with weights of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..blocks import Window, ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchLayout:
    """How a convolution's windows are cut into patches of an image. Windows have `kernel_rows` rows and are
    `row_stride` rows apart. A patch has rows of `run` bytes, packed into vectors of `block` bytes.

    Patches form rows and columns. Patch row p begins p * `row_stride` image rows below the first window. An output in
    row y reads `count` patches, in the patch rows y, y + `apart`, y + 2 * `apart`, ...; the patch in row y + t *
    `apart` has the products of kernel rows from t * `apart` * `row_stride` on. The patches of column g are read by
    `columns` neighbouring output columns, from column g * `columns` on.
    """

    kernel_rows: int
    row_stride: int
    run: int
    block: int
    apart: int = 1
    count: int = 1
    columns: int = 1

    @staticmethod
    def of(
        window: Window, channels: int, block: int, *, apart: int = 1, count: int = 1, columns: int = 1
    ) -> PatchLayout:
        """The layout of patches for a window over `channels`, in vectors of `block` bytes. `apart`, `count`, `columns`:
        fields of `PatchLayout`; by default each window is a patch.
        """
        (rows, wide), (down, right) = window.kernel, window.strides
        return PatchLayout(
            kernel_rows=rows,
            row_stride=down,
            run=(wide + (columns - 1) * right) * channels,
            block=block,
            apart=apart,
            count=count,
            columns=columns,
        )

    @property
    def shared(self) -> bool:
        """Whether outputs share patches."""
        return self.count > 1 or self.columns > 1

    @property
    def first_rows(self) -> int:
        """Number of kernel rows in each patch except the last."""
        return self.apart * self.row_stride if self.count > 1 else self.kernel_rows

    @property
    def last_rows(self) -> int:
        """Number of kernel rows in the last patch."""
        return self.kernel_rows - (self.count - 1) * self.apart * self.row_stride

    @property
    def rows(self) -> int:
        """Number of rows of a patch."""
        return max(self.first_rows, self.last_rows)

    @property
    def vectors(self) -> int:
        """Number of vectors of a patch."""
        return ceil_div(self.rows * self.run, self.block)

    @property
    def each(self) -> int:
        """Number of vectors that an output reads from each patch; from its last patch it may need fewer."""
        return max(ceil_div(rows * self.run, self.block) for rows in (self.first_rows, self.last_rows))

    @property
    def products(self) -> int:
        """Number of vectors that an output reads, over all its patches."""
        return (self.count - 1) * self.each + ceil_div(self.last_rows * self.run, self.block)

    @property
    def reach(self) -> int:
        """Number of patch rows after patch row y that output row y also reads."""
        return (self.count - 1) * self.apart

    @property
    def steps(self) -> int:
        """Cycles in which the load unit gathers a patch. A row of the patch takes a cycle for each vector to which the
        unit writes a part of the row.
        """
        run, block = self.run, self.block
        return sum((y * run + run - 1) // block - y * run // block + 1 for y in range(self.rows))

    def patch_rows(self, outputs: int) -> int:
        """Number of patch rows that `outputs` rows of outputs read."""
        return outputs + self.reach

    def patch_columns(self, outputs: int) -> int:
        """Number of patches for a row of `outputs` outputs; raises ValueError if these do not fill whole patches."""
        if outputs % self.columns:
            raise ValueError(
                f"a row of {outputs} outputs does not fill whole patches, each of which has {self.columns} columns"
            )
        return outputs // self.columns
