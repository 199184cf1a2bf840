"""Statistics of operands against counting bit by bit."""

import numpy as np
from vdla.isa.assembler import assemble, assemble_uops
from vdla.isa.config import load_config
from vdla.sim.statistics import MEASURED, operand_statistics

TINY = load_config("tiny")
INP, WGT, ACC = 1024, 2048, 3072


def _ones(value: int, bits: int) -> int:
    return (value & (1 << bits) - 1).bit_count()


def _program(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two micro-ops on eight vectors and four tiles, adding to accumulators that were loaded."""
    image = rng.integers(0, 256, 4096).astype(np.uint8)
    uops = assemble_uops("UOP dst=0 src=0 wgt=1\nUOP dst=1 src=2 wgt=3\n", TINY)
    image[: uops.nbytes] = uops.view(np.uint8)
    loads = "\n".join(
        f"LOAD.{kind} dram_base={start // size} y_size=1 x_size={count} x_stride={count}"
        for kind, start, size, count in (
            ("UOP", 0, 4, 2), ("INP", INP, 4, 8), ("WGT", WGT, 16, 4), ("ACC", ACC, 16, 8),
        )
    )  # fmt: skip
    gemm = "GEMM uop_end=2 iter_out=2 iter_in=3 src_factor_in=1 dst_factor_out=1"
    return assemble(f"{loads}\n{gemm}\nGEMM uop_end=1 iter_out=1 iter_in=1 overwrite=1\nFINISH", TINY), image


def _expected(image: np.ndarray) -> dict[str, int]:
    inp = image[INP : INP + 32].view(np.int8).reshape(8, 4).astype(int)
    wgt = image[WGT : WGT + 64].view(np.int8).reshape(4, 4, 4).astype(int)
    acc = image[ACC : ACC + 128].view(np.int32).reshape(8, 4).astype(np.int64)
    order = [(u + y, 2 * u + x, 1 + 2 * u, 1) for y in range(2) for x in range(3) for u in range(2)]
    found = dict.fromkeys(MEASURED, 0)
    for before, after in zip(np.vstack([np.zeros((1, 4), np.int64), acc[:-1]]), acc, strict=True):
        found["loaded"] += sum(_ones(int(x ^ y), 32) for x, y in zip(before, after, strict=True))
    found["loaded_lanes"] = acc.size
    vector, tile, written = np.zeros(4, int), np.zeros((4, 4), int), np.zeros(4, np.int64)
    trees = [[0] * 3 for _ in range(4)]
    for d, s, w, adds in [*order, (0, 0, 1, 0)]:
        for k in range(4):
            found["inputs"] += _ones(int(vector[k] ^ inp[s, k]), 8)
        for o in range(4):
            products = [int(wgt[w, o, k] * inp[s, k]) for k in range(4)]
            before = [int(tile[o, k] * vector[k]) for k in range(4)]
            for k in range(4):
                found["weights"] += _ones(int(tile[o, k] ^ wgt[w, o, k]), 8)
                found["products"] += _ones(products[k] ^ before[k], 16)
                for i in range(8):
                    for j in range(8):
                        now = inp[s, k] >> i & wgt[w, o, k] >> j & 1
                        found["partial_products"] += int(now != (vector[k] >> i & tile[o, k] >> j & 1))
            pairs = [products[0] + products[1], products[2] + products[3]]
            tree = [*pairs, sum(pairs)]
            found["sums"] += sum(_ones(new ^ old, 24) for new, old in zip(tree, trees[o], strict=True))
            trees[o] = tree
            acc[d, o] = adds * acc[d, o] + tree[2]
            found["accumulators"] += _ones(int(acc[d, o] ^ written[o]), 32)
            written[o] = acc[d, o]
        vector, tile = inp[s], wgt[w]
    return found


def test_every_bit():
    rng = np.random.default_rng(5)
    instructions, image = _program(rng)
    # Accumulators far from wrapping.
    image[ACC : ACC + 128].view(np.int32)[:] = rng.integers(-(1 << 20), 1 << 20, 32)
    found = operand_statistics(TINY, instructions, image)
    assert found.operations == 13
    assert found.changes == _expected(image)


def test_a_part_stands_for_all():
    instructions, image = _program(np.random.default_rng(6))
    image[INP : INP + 64] = 1
    whole, part = (operand_statistics(TINY, instructions, image, most=most) for most in (None, 6))
    assert part.operations == whole.operations == 13
    # With equal inputs and two tiles in turn every operation changes the same, but the first.
    assert 0.5 < part.changes["weights"] / whole.changes["weights"] < 1.2
