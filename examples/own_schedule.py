"""Your own schedule: an int8 matrix product on the accelerator, in tiles of every size that its scratchpads hold.

    pip install -e . && python examples/own_schedule.py

Every schedule is compiled, simulated with its data and compared with numpy. The table shows the fastest and the slowest
tiles, once with one copy of each buffer and once with two copies (double buffering), so that loads overlap with
products.
"""

import itertools

import numpy as np

import vdla

MACHINE = vdla.config("tiny", inp_buffer_bytes=512, wgt_buffer_bytes=512, read_latency=100)
N = MACHINE.block_in


def schedule(size: tuple[int, int, int], tile: tuple[int, int, int], *, hide: bool) -> vdla.Schedule:
    """A schedule of the product Y = clip(round((X W + bias) scale)). Its parameters are X (int8), W (int8, in blocks)
    and P (the int32 biases and the scales).

    `size` has the sizes of the whole product, and `tile` the sizes of a tile. Both are triples: number of blocks of
    columns of Y, number of rows of Y, number of blocks of the reduction axis. `hide`: each buffer has two copies, so
    that loads overlap with products.
    """
    columns, rows, depth = size
    x = vdla.placeholder("X", (rows, depth, 1, N), "int8")
    w = vdla.placeholder("W", (columns, depth, N, N), "int8")
    p = vdla.placeholder("P", (columns, 2, N), "int32")
    block, k = vdla.reduce_axis("block", depth), vdla.reduce_axis("k", N)

    def total(o, m, b, j):
        factors = vdla.cast(x[m, block, b, k], "int32") * vdla.cast(w[o, block, j, k], "int32")
        return vdla.reduce_sum(factors, block, k)

    def scaled(o, m, b, j):
        return vdla.post_value(acc[o, m, b, j] + p[o, 0, j], p[o, 1, j])

    acc = vdla.compute("acc", (columns, rows, 1, N), total)
    y = vdla.compute("Y", (columns, rows, 1, N), scaled)

    units = vdla.accelerator(MACHINE)
    s = vdla.Schedule(vdla.program_of(y))
    o, m, _, _ = s.tile("Y.o", "Y.m", *tile[:2])
    s.compute_at("acc", m)
    s.set_scope("acc", "acc")
    piece, block = s.split("acc.block", tile[2])
    s.reorder(piece, "acc.o", "acc.m", block, "acc.b", "acc.j", "acc.k")
    s.cache_read("X", piece, "inp")
    s.cache_read("W", piece, "wgt")
    s.cache_read("P", o, "par")
    s.tensorize("acc.b", units.gemm)
    s.tensorize("Y.b", *units.post())
    for loop in (o, m, piece) if hide else ():
        s.virtual_thread(loop)
    return s


def example(size: tuple[int, int, int]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns random inputs by name, and the expected result Y, computed by numpy. `size`: as for `schedule`."""
    columns, rows, depth = size
    random = np.random.default_rng(0)
    x = random.integers(-128, 128, (rows, depth, 1, N), np.int8)
    w = random.integers(-128, 128, (columns, depth, N, N), np.int8)
    bias = random.integers(-1000, 1000, (columns, N), np.int32)
    scale = np.full((columns, N), 2.0**-9, np.float32)
    sums = np.einsum("mkbi,okji->ombj", x.astype(int), w.astype(int)) + bias[:, None, None]
    expected = np.clip(np.rint(sums * scale[:, None, None]), -128, 127).astype(np.int8)
    return {"X": x, "W": w, "P": np.stack([bias, scale.view(np.int32)], 1)}, expected


def main() -> None:
    """Try every tile, and print the best, the worst, and why some are refused."""
    size = (8, 32, 8)
    inputs, expected = example(size)
    found, refused = [], []
    for tile in itertools.product((1, 2, 4, 8), (8, 16, 32), (2, 4, 8)):
        try:
            cycles = []
            for hide in (True, False):
                report = vdla.simulate(vdla.build(schedule(size, tile, hide=hide), "vdla", MACHINE), inputs)
                assert np.array_equal(report.outputs["Y"], expected)
                cycles.append(report.cycles)
            found.append((*cycles, tile))
        except vdla.UserError as error:
            refused.append(f"{tile}: {error}")
    found.sort()
    print(
        f"{len(found)} tiles, all results equal to numpy's; the array alone would take {np.prod(size):,} cycles"
    )
    print("tile (columns, rows, sums)   cycles with one buffer   with two")
    for hidden, plain, tile in [*found[:3], *found[-3:]]:
        print(f"{tile!s:26}   {plain:22,}   {hidden:8,}")
    print(f"{len(refused)} tiles are refused, as {refused[0].partition(';')[0]}")


if __name__ == "__main__":
    main()
