"""Drawings (random nodes) of products of matrices, contractions and transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..attributes import random_attributes
from ..builder import Builder, UnfitError
from ..tables import Operator

FLOATS = ("float32", "float32", "float32", "float32", "float16", "float64", "int32")


EQUATIONS: Sequence[tuple[str, Sequence[tuple[int, ...]]]] = (
    ("ij,jk->ik", ((3, 4), (4, 5))),
    ("bij,bjk->bik", ((2, 3, 4), (2, 4, 3))),
    ("bhid,bhjd->bhij", ((1, 2, 3, 4), (1, 2, 3, 4))),
    ("ij->ji", ((3, 4),)),
    ("ij->", ((3, 4),)),
    ("ij->i", ((3, 4),)),
    ("ii->i", ((4, 4),)),
    ("i,j->ij", ((3,), (4,))),
    ("i,i->", ((5,), (5,))),
    ("...ij,...jk->...ik", ((2, 3, 4), (2, 4, 5))),
    ("bn,anm,bm->ba", ((2, 3), (4, 3, 2), (2, 2))),
    ("ij,jk", ((3, 4), (4, 5))),
    ("b i j , b j -> b i", ((2, 3, 4), (2, 4))),
    ("ij,ij->ij", ((3, 4), (3, 4))),
)
"""Equations of Einsum, each with the shapes of its operands."""


def _matrices(b: Builder, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A random shape for the second factor of a product whose first factor has `shape`; batch dimensions broadcast."""
    columns = b.draw.of((1, 3, 8, 5, 17))
    if len(shape) == 1 or b.draw.chance(0.5):
        return (shape[-1], columns)
    if b.draw.chance(0.15):
        return (shape[-1],)
    batch = [size if b.draw.chance(0.7) else 1 for size in shape[:-2]]
    return (*batch[b.draw.below(len(batch) + 1) if b.draw.chance(0.2) else 0 :], shape[-1], columns)


def matmul(b: Builder, operator: Operator) -> None:
    """Adds a random MatMul of vectors, matrices or batches of matrices."""
    dtype = b.draw.of(FLOATS)
    a = b.tensor([dtype], ranks=(1, 2, 3, 4, 2, 3), constant=0.1)
    other = b.tensor([dtype], shape=_matrices(b, b.array(a).shape), constant=0.6, old=0.3)
    b.apply(operator, {"A": a, "B": other})


def gemm(b: Builder, operator: Operator) -> None:
    """Adds a random Gemm; each factor is transposed or not, and the bias has any shape that broadcasts."""
    dtype = b.draw.of(FLOATS[:6])
    a = b.tensor([dtype], ranks=(2,))
    transposed, turned = b.draw.below(2), b.draw.below(2)
    rows, depth = b.array(a).shape[::-1] if transposed else b.array(a).shape
    columns = b.draw.of((1, 4, 9, 16))
    other = b.tensor([dtype], shape=(columns, depth) if turned else (depth, columns), constant=0.7, old=0.2)
    shapes = ((columns,), (1, columns), (rows, 1), (rows, columns), (1,), ())
    bias = (
        b.tensor([dtype], shape=b.draw.of(shapes), constant=0.7)
        if b.draw.chance(0.6) or b.opset < 11
        else None
    )
    attributes = random_attributes(b, operator, 2)
    if b.opset < 7 or "broadcast" in b.schema("Gemm").attributes:
        attributes["broadcast"] = 1
    b.apply(operator, {"A": a, "B": other, "C": bias}, transA=transposed, transB=turned, **attributes)


def integer_product(b: Builder, operator: Operator) -> None:
    """Adds a random MatMulInteger; zero points are a single number, or one for each row or column."""
    a = b.tensor(["uint8", "int8"], ranks=(2, 3))
    array = b.array(a)
    other = b.tensor(
        [b.draw.of(("uint8", "int8"))], shape=(array.shape[-1], b.draw.of((1, 4, 9))), constant=0.8
    )
    shape = b.array(other).shape
    first = np.asarray(b.draw.below(100), array.dtype) if b.draw.chance(0.7) else None
    second = None
    if first is not None and b.draw.chance(0.7):
        size = () if b.draw.chance(0.5) else shape[-1:]
        second = np.asarray(b.draw.rng.integers(0, 9, size), b.array(other).dtype)
    b.apply(operator, {"A": a, "B": other, "a_zero_point": first, "b_zero_point": second})


def einsum(b: Builder, operator: Operator) -> None:
    """Adds a random Einsum: a contraction, diagonal, sum or permutation."""
    equation, shapes = b.draw.of(EQUATIONS)
    names = [b.tensor(["float32"], shape=shape, constant=0.3) for shape in shapes]
    b.apply(operator, {"Inputs": names}, equation=equation)


def fourier(b: Builder, operator: Operator) -> None:
    """Adds a random DFT of real or complex signals, or an inverse DFT."""
    parts = b.draw.of((1, 2))
    data = b.tensor(["float32"], shape=(*b.draw.of(((1, 8), (2, 5), (1, 4, 6))), parts))
    rank = b.array(data).ndim
    attributes: dict[str, Any] = {}
    if b.draw.chance(0.4) and parts == 2:
        attributes["inverse"] = 1
    if parts == 1 and b.draw.chance(0.4):
        attributes["onesided"] = 1
    along = 1 + b.draw.below(rank - 2)
    formals: dict[str, Any] = {"input": data}
    if b.draw.chance(0.6):
        if "axis" in b.schema("DFT").attributes:
            attributes["axis"] = along
        else:
            formals["axis"] = np.asarray(along, np.int64)
    if b.draw.chance(0.3):
        formals["dft_length"] = np.asarray(b.draw.of((4, 6, 10)), np.int64)
    b.apply(operator, formals, **attributes)


def short_fourier(b: Builder, operator: Operator) -> None:
    """Adds a random STFT with or without a window."""
    length = b.draw.of((4, 6, 8))
    data = b.tensor(["float32"], shape=(b.draw.of((1, 2)), 16, 1))
    formals: dict[str, Any] = {"signal": data, "frame_step": np.asarray(b.draw.of((2, 3, 4)), np.int64)}
    windowed = b.draw.chance(0.6)
    if windowed:
        formals["window"] = b.draw.rng.uniform(0.1, 1, length).astype(np.float32)
    if not windowed or b.draw.chance(0.5):
        formals["frame_length"] = np.asarray(length, np.int64)
    b.apply(operator, formals, **({"onesided": b.draw.below(2)} if b.draw.chance(0.6) else {}))


def dynamic_product(b: Builder, operator: Operator) -> None:
    """Adds a random node of `operator` (DynamicQuantizeMatMul or MatMulIntegerToFloat of the domain com.microsoft)."""
    floats = operator.name == "DynamicQuantizeMatMul"
    a = b.tensor(["float32"] if floats else ["uint8", "int8"], ranks=(2, 3))
    depth, columns = b.array(a).shape[-1], b.draw.of((1, 4, 9))
    other = b.tensor([b.draw.of(("int8", "uint8"))], shape=(depth, columns), constant=0.9, old=0)
    size = () if b.draw.chance(0.5) else (columns,)
    scale = b.parameter(b.draw.rng.uniform(0.01, 0.2, size).astype(np.float32))
    zero = ""
    if b.draw.chance(0.6):
        zero = b.parameter(np.asarray(b.draw.rng.integers(0, 9, size), b.array(other).dtype))
    bias = b.tensor(["float32"], shape=(columns,), constant=0.9) if b.draw.chance(0.5) else ""
    if floats:
        b.node(operator, [a, other, scale, zero, bias])
        return
    first = b.parameter(np.asarray(b.draw.rng.uniform(0.01, 0.2), np.float32))
    offset = b.parameter(np.asarray(b.draw.below(100), b.array(a).dtype)) if b.draw.chance(0.6) else ""
    b.node(operator, [a, other, first, scale, offset, zero, bias])


def narrow_product(b: Builder, operator: Operator) -> None:
    """Adds a random MatMulNBits of the domain com.microsoft: weights of 2, 4 or 8 bits, quantized in blocks."""
    bits, block = b.draw.of((4, 4, 4, 8, 2)), b.draw.of((16, 32))
    depth, columns = b.draw.of((16, 32, 40, 64)), b.draw.of((1, 4, 8))
    blocks = -(-depth // block)
    a = b.tensor(["float32"], shape=(*b.draw.of(((1,), (3,), (2, 3))), depth))
    weights = b.new(
        b.draw.rng.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8), constant=True
    )
    scales = b.draw.rng.uniform(0.01, 0.1, columns * blocks).astype(np.float32)
    inputs = [a, weights, b.new(scales, constant=True)]
    if b.draw.chance(0.5):
        packed = (blocks * bits + 7) // 8
        inputs.append(b.new(b.draw.rng.integers(0, 256, columns * packed).astype(np.uint8), constant=True))
    level = {"accuracy_level": b.draw.of((0, 1))} if b.draw.chance(0.3) else {}
    b.node(operator, inputs, K=depth, N=columns, bits=bits, block_size=block, **level)


def mel_weights(b: Builder, operator: Operator) -> None:
    """Adds a random MelWeightMatrix; another tensor is multiplied by its result."""
    if b.draw.chance(0.5):
        raise UnfitError("of constants alone")
    formals = {
        "num_mel_bins": np.asarray(b.draw.of((4, 8)), np.int64),
        "dft_length": np.asarray(16, np.int64),
        "sample_rate": np.asarray(8192, np.int64),
        "lower_edge_hertz": np.asarray(0.0, np.float32),
        "upper_edge_hertz": np.asarray(4096.0, np.float32),
    }
    names = [b.new(array, constant=True) for array in formals.values()]
    (weights,) = b.node(operator, names)
    other = b.tensor(["float32"], shape=(2, b.array(weights).shape[0]), constant=0, old=0)
    b.node(Operator("", "MatMul"), [other, weights])
