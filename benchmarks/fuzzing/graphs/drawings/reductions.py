"""Drawings (random nodes) of reductions, extremes, sorted elements and normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..attributes import axes, axis, random_attributes
from ..builder import Builder
from ..tables import Operator
from ..values import weighted


def reduction(b: Builder, operator: Operator) -> None:
    """Adds a random node of the reduction `operator` over some axes, over all axes, or over none."""
    data = b.tensor(
        [weighted(b.draw, b.types(operator.name, 0))], ranks=range(5) if b.draw.chance(0.3) else (2, 3, 4)
    )
    rank = b.array(data).ndim
    given = np.array(axes(b.draw, rank), np.int64) if b.draw.chance(0.8) else None
    if given is not None and b.draw.chance(0.05) and "axes" not in b.schema(operator.name).attributes:
        given = np.zeros(0, np.int64)
    b.apply(operator, {"data": data, "axes": given}, **random_attributes(b, operator, rank))


def top_k(b: Builder, operator: Operator) -> None:
    """Adds a random TopK with both outputs, values and indices."""
    data = b.tensor([weighted(b.draw, b.types("TopK", 0))], ranks=(1, 2, 3))
    array = b.array(data)
    along = axis(b.draw, array.ndim)
    count = np.array([1 + b.draw.below(array.shape[along])], np.int64)
    attributes = random_attributes(b, operator, array.ndim, "axis", "sorted")
    b.apply(operator, {"X": data, "K": count, "k": None}, outputs=2, axis=along, **attributes)


def one_hot(b: Builder, operator: Operator) -> None:
    """Adds a random OneHot. Some of its indices are out of range: less than -depth, or equal to depth."""
    depth = 2 + b.draw.below(6)
    kind = b.draw.of(("int64", "int64", "int32", "float32"))
    indices = b.draw.rng.integers(-depth - 1, depth + 1, b.draw.of(((3,), (2, 3), (1,), (2, 1, 2))))
    name = b.new(indices.astype(kind), constant=False)
    rank = indices.ndim
    values = b.tensor([b.draw.of(("float32", "int64", "int32"))], shape=(2,), constant=0.6)
    deep = np.asarray(
        depth if b.draw.chance(0.5) else [depth], b.draw.of(("int64", "int64", "float32", "int32"))
    )
    where = {"axis": b.draw.below(2 * rank + 2) - rank - 1} if b.draw.chance(0.6) else {}
    b.apply(operator, {"indices": name, "depth": deep, "values": values}, **where)


def batch_normalization(b: Builder, operator: Operator) -> None:
    """Adds a random BatchNormalization in inference form, with stored mean and variance."""
    data = b.tensor(["float32"] if b.draw.chance(0.9) else ["float16", "float64"], ranks=(2, 3, 4, 5))
    array = b.array(data)
    size = (array.shape[1],)
    kind = array.dtype.name
    names = [formal.name for formal in b.schema("BatchNormalization").inputs][1:]
    parts = {name: b.tensor([kind], shape=size, constant=0.9) for name in names[:-1]}
    parts[names[-1]] = b.tensor([kind], shape=size, constant=0.9, fit=lambda a: bool((a > 0.01).all()))
    b.apply(operator, {"X": data, **parts}, **random_attributes(b, operator, array.ndim))


def layer_normalization(b: Builder, operator: Operator) -> None:
    """Adds a random node of `operator` (RMSNormalization, or LayerNormalization with or without bias)."""
    data = b.tensor(["float32"] if b.draw.chance(0.8) else ["float16", "bfloat16"], ranks=(1, 2, 3, 4))
    array = b.array(data)
    along = axis(b.draw, array.ndim) if b.draw.chance(0.6) else -1
    shape = array.shape[along:]
    kind = array.dtype.name
    if b.draw.chance(0.1):
        shape = shape[-1:]
    scale = b.tensor([kind], shape=shape, constant=0.85)
    bias = b.tensor([kind], shape=shape, constant=0.85) if b.draw.chance(0.7) else None
    formals = {"X": data, "Scale": scale, "B": bias}
    if operator.name == "RMSNormalization":
        formals = {"X": data, "scale": scale}
    attributes = random_attributes(b, operator, array.ndim, "axis")
    b.apply(operator, formals, axis=along if along != -1 or b.draw.chance(0.5) else None, **attributes)


def instance_normalization(b: Builder, operator: Operator) -> None:
    """Adds a random InstanceNormalization of tensors with one, two or three spatial dimensions."""
    data = b.tensor(["float32"] if b.draw.chance(0.9) else ["float16"], ranks=(3, 4, 5))
    array = b.array(data)
    parts = {
        name: b.tensor([array.dtype.name], shape=(array.shape[1],), constant=0.85) for name in ("scale", "B")
    }
    b.apply(operator, {"input": data, **parts}, **random_attributes(b, operator, array.ndim))


def local_response(b: Builder, operator: Operator) -> None:
    """Adds a random LRN (local response normalization) over one to five channels."""
    data = b.tensor(["float32"], ranks=(3, 4))
    attributes: dict[str, Any] = {
        name: value
        for name, value in (
            ("alpha", 0.01),
            ("beta", b.draw.of((0.5, 0.75))),
            ("bias", b.draw.of((1.0, 2.0))),
        )
        if b.draw.chance(0.6)
    }
    b.apply(operator, {"X": data}, size=b.draw.of((1, 2, 3, 4, 5)), **attributes)


def group_normalization(b: Builder, operator: Operator) -> None:
    """Adds a random GroupNormalization with groups of any size; scale and bias are constants or inputs."""
    data = b.tensor(["float32"] if b.draw.chance(0.85) else ["float16"], ranks=(3, 4), constant=0.05)
    array = b.array(data)
    channels = array.shape[1]
    groups = b.draw.of([n for n in range(1, channels + 1) if channels % n == 0])
    parts = {
        name: b.tensor([array.dtype.name], shape=(channels,), constant=0.7) for name in ("scale", "bias")
    }
    b.apply(operator, {"X": data, **parts}, num_groups=groups, **random_attributes(b, operator, array.ndim))


def mean_variance(b: Builder, operator: Operator) -> None:
    """Adds a random MeanVarianceNormalization over its default axes (0, 2, 3), or over other axes."""
    data = b.tensor(["float32"], ranks=(4,) if b.draw.chance(0.7) else (2, 3), constant=0.05)
    rank = b.array(data).ndim
    given = sorted({a % rank for a in axes(b.draw, rank)}) if rank != 4 or b.draw.chance(0.6) else None
    b.apply(operator, {"X": data}, axes=given)
